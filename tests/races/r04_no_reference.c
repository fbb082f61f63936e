/* SPDX-License-Identifier: MIT */
/*
 * R4: flags of a page are changed by somebody without a reference on it, while it is freed.
 *
 *   unpinner                               dropper (UMM_ADVISE_DONTNEED)
 *   drops its pin; one reference is left,
 *   the cache's, and PG_pinned is set:
 *   takes PG_lru, waits for lru_lock
 *                                          finds the cache's reference alone, freezes it, sees no
 *                                          PG_lru, frees the page, which is still linked
 *   unlinks and links a free page
 *
 * Rule: folio_rescue takes a reference first, then looks again; the dropper finds the page in use.
 */
#include "race.h"

static void unpinner(void *arg)
{
	umm_unpin(arg);
}

static void dropper(void *arg)
{
	must(umm_advise(arg, 3 * UMM_PAGE_SIZE, UMM_PAGE_SIZE, UMM_ADVISE_DONTNEED) == 0);
}

int main(void)
{
	static struct race r;
	struct race_thread unpin, drop;
	struct folio *folio, *pinned;
	struct lruvec *a;

	race_setup(&r, 256);
	a = race_lruvec(r.a);
	folio = race_read(r.obj, RACE_STORE_ID, 3);
	must(umm_pin(r.obj, 3, 0, &pinned) == 0 && pinned == folio);
	must(umm_memcg_reclaim(r.a, UMM_PAGE_SIZE, NULL) == -EAGAIN);
	must(folio_test(folio, PG_pinned) && race_on_list(a, LRU_UNEVICTABLE, folio));

	lruvec_lock(a);
	race_start(&unpin, r.mm, unpinner, pinned);
	race_wait_for_lock(a->lru_lock);
	race_start(&drop, r.mm, dropper, r.obj);
	must(race_done_within(&drop, RACE_TIMEOUT_NS));
	lruvec_unlock(a);
	race_join(&unpin);
	race_join(&drop);

	must(race_cached(r.obj, 3) && race_folio(r.obj, 3) == folio);
	must(race_on_list(a, LRU_INACTIVE_FILE, folio));
	must(vmstat(r.f.mm, "unevictable_pgs_rescued") == 1);

	/* Who comes even later, after the page was freed, or is somebody else's, changes
	 * nothing. */
	dropper(r.obj);
	must(!race_cached(r.obj, 3) && folio_ref_count(folio) == 0);
	folio_rescue(folio);
	must(folio_ref_count(folio) == 0 && !folio_test(folio, PG_lru));
	must(umm_alloc(r.b, 0, 0, &pinned) == 0);
	folio_rescue(pinned);
	must(folio_ref_count(pinned) == 1 && !folio_test(pinned, PG_lru));
	umm_free(pinned);
	race_finish(&r);
	return 0;
}
