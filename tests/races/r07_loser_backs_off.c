/* SPDX-License-Identifier: MIT */
/*
 * R7: PG_lru vanishes under somebody who holds lru_lock.
 *
 *   isolator                               scanner, holding the lru_lock
 *   takes PG_lru, waits for the lock
 *                                          finds a linked folio without PG_lru: busy. Goes on to
 *                                          the next; never a bug, never unlinked
 *   gets the lock, unlinks
 *
 * Rule (LRU-2): losing means busy. A second isolator does not even wait for the lock.
 */
#include "race.h"

#define NR 3

static _Atomic bool isolated, second_isolated;

static void isolator(void *arg)
{
	isolated = folio_isolate_lru(arg);
}

static void second_isolator(void *arg)
{
	second_isolated = folio_isolate_lru(arg);
}

int main(void)
{
	static struct race r;
	struct folio *folio[NR];
	struct race_thread t, t2;
	struct list_head taken;
	struct lruvec *a;
	uint64_t scanned;

	race_setup(&r, 256);
	a = race_lruvec(r.a);
	for (unsigned i = 0; i < NR; i++)
		folio[i] = race_read(r.obj, RACE_STORE_ID, i);
	folio_get(folio[0]);

	lruvec_lock(a);
	race_start(&t, r.mm, isolator, folio[0]); /* it is at the tail */
	race_wait_for_lock(a->lru_lock);
	race_start(&t2, r.mm, second_isolator, folio[0]);
	must(race_done_within(&t2, RACE_TIMEOUT_NS));
	race_join(&t2);
	must(!second_isolated && folio_ref_count(folio[0]) == 3);
	list_init(&taken);
	must(lruvec_isolate_folios(a, LRU_INACTIVE_FILE, NR, &taken, &scanned) == NR - 1);
	must(scanned == NR);
	must(a->lists[LRU_INACTIVE_FILE].next == &folio[0]->lru); /* out of the way, at the head */
	must(lruvec_size(a, LRU_INACTIVE_FILE) == 1);
	lruvec_unlock(a);
	race_join(&t);

	must(isolated && lruvec_size(a, LRU_INACTIVE_FILE) == 0);
	folios_putback_lru(r.mm, &taken);
	folio_putback_lru(folio[0]);
	folio_put(folio[0]);
	for (unsigned i = 0; i < NR; i++)
		must(folio_ref_count(folio[i]) == 1 && folio_test(folio[i], PG_lru));
	race_finish(&r);
	return 0;
}
