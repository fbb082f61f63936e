/* SPDX-License-Identifier: MIT */
/*
 * R10: the list is computed too early.
 *
 *   isolator                               batch
 *   computes: inactive list
 *                                          owns the folio, locks, sets PG_active, puts it on the
 *                                          active list, sets PG_lru again
 *   takes PG_lru, locks, unlinks,
 *   counts it off the inactive list
 *
 * Rule (LRU-3): the list is computed under the lock, by who owns PG_lru.
 */
#include "race.h"

static struct race r;
static struct folio *folio;
static _Atomic bool stop;

static void isolator(void *arg)
{
	(void)arg;
	while (!stop)
		if (folio_isolate_lru(folio))
			folio_putback_lru(folio);
}

/* What activation and deactivation in a batch come down to. */
static void flipper(void *arg)
{
	struct lruvec *a = race_lruvec(r.a);

	(void)arg;
	while (!stop) {
		if (!folio_test_clear_lru(folio))
			continue;
		must(folio_lruvec_lock(folio) == a);
		lruvec_del_folio(a, folio);
		if (folio_test(folio, PG_active))
			folio_clear(folio, PG_active);
		else
			folio_set(folio, PG_active);
		lruvec_add_folio(a, folio);
		folio_set_lru(folio);
		lruvec_unlock(a);
	}
}

int main(void)
{
	static void (*const fn[])(void *) = { isolator, flipper, isolator };
	static void *const arg[3];
	struct lruvec *a;

	race_setup(&r, 256);
	a = race_lruvec(r.a);
	folio = race_read(r.obj, RACE_STORE_ID, 3);
	/* Company on both lists, so that a wrong size is a wrong size and not below zero. */
	for (unsigned i = 10; i < 40; i++)
		race_read(r.obj, RACE_STORE_ID, i);
	for (unsigned i = 10; i < 25; i++)
		folio_mark_accessed(r.mm, race_folio(r.obj, i));
	lru_add_drain_all(r.mm);
	must(lruvec_size(a, LRU_ACTIVE_FILE) == 15);

	folio_get(folio);
	race_stress(r.mm, 2.5, &stop, 3, fn, arg);
	must(folio_test(folio, PG_lru) && folio_ref_count(folio) == 2);
	folio_put(folio);
	must(lruvec_size(a, LRU_ACTIVE_FILE) == 15u + folio_test(folio, PG_active));
	must(lruvec_size(a, LRU_INACTIVE_FILE) == 16u - folio_test(folio, PG_active));
	race_finish(&r);
	return 0;
}
