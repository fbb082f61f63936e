/* SPDX-License-Identifier: MIT */
/*
 * R2: the lruvec is looked up before PG_lru is owned.
 *
 *   isolator                               mover, holding a's lru_lock
 *   looks up a's lruvec, waits for it
 *                                          takes PG_lru, unlinks, charges b, puts it on b's list
 *   gets a's lock, takes PG_lru,
 *   unlinks from b's list, counts at a
 *
 * Rule (LRU-3): own PG_lru, then look up. The mover then finds PG_lru taken and leaves the folio
 * alone.
 */
#include "race.h"

static _Atomic bool isolated;

static void isolator(void *arg)
{
	isolated = folio_isolate_lru(arg);
}

int main(void)
{
	static struct race r;
	struct race_thread t;
	struct lruvec *a, *b;
	struct folio *folio;
	bool moved;

	race_setup(&r, 256);
	a = race_lruvec(r.a);
	b = race_lruvec(r.b);
	folio = race_read(r.obj, RACE_STORE_ID, 3);
	folio_get(folio);

	lruvec_lock(a);
	race_start(&t, r.mm, isolator, folio);
	race_wait_for_lock(a->lru_lock);
	moved = race_try_move(folio, a, b);
	lruvec_unlock(a);
	race_join(&t);

	must(!moved && isolated);
	must(folio_ref_count(folio) == 3 && !folio_test(folio, PG_lru));
	must(lruvec_size(a, LRU_INACTIVE_FILE) == 0 && lruvec_size(b, LRU_INACTIVE_FILE) == 0);
	folio_putback_lru(folio);
	folio_put(folio);
	must(race_on_list(a, LRU_INACTIVE_FILE, folio));
	must(memcg_pages(r.a, UMM_MEMORY_CURRENT) == 1);
	must(memcg_pages(r.b, UMM_MEMORY_CURRENT) == 0);
	race_finish(&r);
	return 0;
}
