/* SPDX-License-Identifier: MIT */
/*
 * R41: lock, then check that the folio still belongs to the lruvec, then take it. Is that enough?
 *
 *   isolator                               mover, owner of the folio since long, without a lock
 *   locks a's lruvec; checks: it is a's
 *                                          charges b
 *                                          locks b's lruvec, links it there, sets PG_lru, unlocks
 *   takes PG_lru, unlinks from b's list
 *   under a's lock
 *
 * No: the check holds only against who changes the folio's lruvec under that lock (reparenting
 * does). Rule (LRU-3): own PG_lru first. Whoever does not get it does not even take the lock.
 */
#include "race.h"

static struct race r;
static struct folio *folio;
static _Atomic bool stop, isolated;

static void isolate_once(void *arg)
{
	(void)arg;
	isolated = folio_isolate_lru(folio);
}

static void isolator(void *arg)
{
	(void)arg;
	while (!stop)
		if (folio_isolate_lru(folio))
			folio_putback_lru(folio);
}

static void mover(void *arg)
{
	(void)arg;
	for (unsigned i = 0; !stop; i++) {
		if (!folio_isolate_lru(folio))
			continue;
		race_recharge(folio, i % 2 ? r.a : r.b);
		folio_putback_lru(folio);
	}
}

int main(void)
{
	static void (*const fn[])(void *) = { isolator, mover, isolator };
	static void *const arg[3];
	struct race_thread t;
	struct lruvec *a, *b;

	race_setup(&r, 256);
	a = race_lruvec(r.a);
	b = race_lruvec(r.b);
	folio = race_read(r.obj, RACE_STORE_ID, 3);
	folio_get(folio);

	/* The mover's folio: an isolator is refused although it could not have got the lock. */
	must(folio_isolate_lru(folio));
	lruvec_lock(a);
	race_start(&t, r.mm, isolate_once, NULL);
	must(race_done_within(&t, 2000000000) && !isolated);
	lruvec_unlock(a);
	race_join(&t);
	race_recharge(folio, r.b);
	folio_putback_lru(folio);
	must(race_on_list(b, LRU_INACTIVE_FILE, folio));

	race_stress(r.mm, 3, &stop, 3, fn, arg);
	must(folio_test(folio, PG_lru) && folio_ref_count(folio) == 2);
	folio_put(folio);
	must(lruvec_size(a, LRU_INACTIVE_FILE) == memcg_pages(r.a, UMM_MEMORY_CURRENT));
	must(lruvec_size(b, LRU_INACTIVE_FILE) == memcg_pages(r.b, UMM_MEMORY_CURRENT));
	race_finish(&r);
	return 0;
}
