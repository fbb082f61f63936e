/* SPDX-License-Identifier: MIT */
/*
 * R6: the work of a batch tests PG_lru, which the drain has just cleared, and so never happens.
 *
 *   drain                                  its callback
 *   takes PG_lru, locks the lruvec
 *                                          PG_lru is clear: "not on a list", nothing to do
 *   sets PG_lru again
 *
 * Rule: callbacks do not test PG_lru. Nothing crashes without it; so the counters have to move.
 */
#include "race.h"

int main(void)
{
	static struct race r;
	struct folio *first, *second;
	struct lruvec *a;

	race_setup(&r, 256);
	a = race_lruvec(r.a);
	first = race_read(r.obj, RACE_STORE_ID, 1);
	second = race_read(r.obj, RACE_STORE_ID, 2);

	folio_mark_accessed(r.mm, first); /* reading it was the first use */
	lru_add_drain_all(r.mm);
	must(vmstat(r.f.mm, "pgactivate") == 1);
	must(memcg_stat(r.a, "pgactivate") == 1);
	must(race_on_list(a, LRU_ACTIVE_FILE, first));

	folio_deactivate(r.mm, first);
	lru_add_drain_all(r.mm);
	must(vmstat(r.f.mm, "pgdeactivate") == 1);
	must(memcg_stat(r.a, "pgdeactivate") == 1);
	must(race_on_list(a, LRU_INACTIVE_FILE, first));

	/* `first` is at the head now; rotation brings it to the tail. */
	must(a->lists[LRU_INACTIVE_FILE].prev == &second->lru);
	folio_rotate_reclaimable(r.mm, first);
	lru_add_drain_all(r.mm);
	must(vmstat(r.f.mm, "pgrotated") == 1);
	must(a->lists[LRU_INACTIVE_FILE].prev == &first->lru);
	must(lruvec_size(a, LRU_INACTIVE_FILE) == 2 && lruvec_size(a, LRU_ACTIVE_FILE) == 0);
	race_finish(&r);
	return 0;
}
