/* SPDX-License-Identifier: MIT */
/*
 * R28: PG_lru is cleared when a folio is queued in a batch, not when the batch is drained.
 *
 *   reader                                 isolator (reclaim, later compaction)
 *   second use: queued for activation
 *                                          wants the folio: "busy", for as long as the batch is
 *                                          not drained, which may be for ever
 *
 * Rule (LRU-6): queueing takes a reference and nothing else. The drain skips what somebody
 * isolated.
 */
#include "race.h"

int main(void)
{
	static struct race r;
	struct folio *folio;
	struct lruvec *a;

	race_setup(&r, 256);
	a = race_lruvec(r.a);
	folio = race_read(r.obj, RACE_STORE_ID, 3);
	folio_mark_accessed(r.mm, folio);
	must(folio_ref_count(folio) == 2 && folio_test(folio, PG_lru));
	folio_get(folio);
	must(folio_isolate_lru(folio));
	lru_add_drain_all(r.mm); /* not on a list: nothing to activate */
	must(!folio_test(folio, PG_lru) && !folio_test(folio, PG_active));
	must(lruvec_size(a, LRU_ACTIVE_FILE) == 0 && lruvec_size(a, LRU_INACTIVE_FILE) == 0);
	must(folio_ref_count(folio) == 3);
	folio_putback_lru(folio);
	folio_put(folio);
	must(race_on_list(a, LRU_INACTIVE_FILE, folio) && folio_ref_count(folio) == 1);
	race_finish(&r);
	return 0;
}
