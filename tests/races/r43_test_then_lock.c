/* SPDX-License-Identifier: MIT */
/*
 * R43: PG_lru is tested, the lock is taken, and PG_lru is not tested again.
 *
 *   isolator                               second isolator, holding the lru_lock
 *   sees PG_lru, waits for the lock
 *                                          takes PG_lru, unlinks, keeps the folio
 *   gets the lock, unlinks once more
 *
 * Rule (LRU-2): test and clear in one step, before the lock. One of two isolators wins.
 */
#include "race.h"

static struct race r;
static struct folio *folio;
static _Atomic bool isolated, stop;
static _Atomic uint64_t won;

static void isolate_once(void *arg)
{
	(void)arg;
	isolated = folio_isolate_lru(folio);
}

static void isolator(void *arg)
{
	(void)arg;
	while (!stop) {
		if (!folio_isolate_lru(folio))
			continue;
		must(!folio_test(folio, PG_lru));
		won++;
		folio_putback_lru(folio);
	}
}

int main(void)
{
	static void (*const fn[])(void *) = { isolator, isolator, isolator };
	static void *const arg[3];
	struct race_thread t;
	struct lruvec *a;
	bool second;

	race_setup(&r, 256);
	a = race_lruvec(r.a);
	folio = race_read(r.obj, RACE_STORE_ID, 3);
	folio_get(folio);

	lruvec_lock(a);
	race_start(&t, r.mm, isolate_once, NULL);
	race_wait_for_lock(a->lru_lock);
	second = folio_test_clear_lru(folio);
	if (second)
		lruvec_del_folio(a, folio);
	lruvec_unlock(a);
	race_join(&t);
	must(isolated != second && !second);
	must(lruvec_size(a, LRU_INACTIVE_FILE) == 0 && folio_ref_count(folio) == 3);
	folio_putback_lru(folio);

	race_stress(r.mm, 1.5, &stop, 3, fn, arg);
	must(won > 0 && folio_test(folio, PG_lru) && folio_ref_count(folio) == 2);
	folio_put(folio);
	race_finish(&r);
	return 0;
}
