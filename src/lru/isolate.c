/* SPDX-License-Identifier: MIT */
/*
 * Taking folios off their lists and putting them back: the two ends of the ownership protocol (LRU-2 to
 * LRU-5 in lru.h). Used by reclaim, which takes many from a tail, and by whoever needs one.
 */
#include "lru/lru.h"

bool folio_isolate_lru(struct folio *folio)
{
	struct lruvec *lruvec;

	VM_BUG_ON(folio_ref_count(folio) <= 0);
	if (!folio_test_clear_lru(folio))
		return false;
	folio_get(folio);
	lruvec = folio_lruvec_lock(folio);
	lruvec_del_folio(lruvec, folio);
	lruvec_unlock(lruvec);
	return true;
}

void folio_putback_lru(struct folio *folio)
{
	struct lruvec *lruvec = folio_lruvec_lock(folio);

	lruvec_add_folio(lruvec, folio);
	folio_set_lru(folio);
	lruvec_unlock(lruvec);
	folio_put(folio);
}

/*
 * One folio of a tail. The list holds no reference, so the folio may be on its way to being freed
 * (refcount 0, its releaser waiting for our lock), or owned by somebody else who waits for our lock to
 * unlink it: both stay linked, and we leave them alone.
 */
static bool isolate_one(struct folio *folio)
{
	if (!folio_test(folio, PG_lru) || !folio_try_get(folio))
		return false;
	if (folio_test_clear_lru(folio))
		return true;
	/* Whoever owns it holds a reference until it has had the lock: ours is not the last (R20). */
	folio_put_not_last(folio);
	return false;
}

uint64_t lruvec_isolate_folios(struct lruvec *lruvec, enum lru_list lru, uint64_t nr,
			       struct list_head *taken, uint64_t *nr_scanned)
{
	struct list_head *list = &lruvec->lists[lru];
	uint64_t scanned = 0, nr_taken = 0, nr_visits = 0;
	uint64_t max_visits = min_u64(nr, lruvec_size(lruvec, lru));

	lock_assert_held(&lruvec->pgdat->mm->threads, lruvec->lru_lock);
	/* The bound is a number, not "until the size is 0": a size may be wrong, the list is the truth. */
	while (nr_visits++ < max_visits && !list_empty(list)) {
		struct folio *folio = list_last_entry(list, struct folio, lru);

		scanned += folio_nr_pages(folio);
		if (isolate_one(folio)) {
			list_move(&folio->lru, taken);
			nr_taken += folio_nr_pages(folio);
		} else {
			list_move(&folio->lru, list);
		}
	}
	lruvec_size_add(lruvec, lru, -(int64_t)nr_taken);
	if (unlikely(list_empty(list) && lruvec_size(lruvec, lru) != 0)) {
		vm_warn(lruvec->pgdat->mm,
			"memcg %s: LRU list %d is empty, its size says %llu; set to 0",
			lruvec->memcg->name, lru, (unsigned long long)lruvec_size(lruvec, lru));
		atomic_store_explicit(&lruvec->nr[lru], 0, memory_order_relaxed);
	}
	*nr_scanned = scanned;
	return nr_taken;
}

/*
 * PG_lru is set before the isolation reference goes, and that goes after the lock: a put that turns out
 * to be the last finds PG_lru and unlinks (R16); it takes the lock itself (R3).
 */
void folios_putback_lru(struct mm *mm, struct list_head *folios)
{
	struct folio *done[SWAP_CLUSTER_MAX];
	struct lruvec *lruvec = NULL;
	unsigned nr = 0;

	while (!list_empty(folios)) {
		struct folio *folio = list_first_entry(folios, struct folio, lru);

		VM_BUG_ON(folio_test(folio, PG_lru));
		list_del(&folio->lru);
		lruvec = folio_lruvec_relock(folio, lruvec);
		lruvec_add_folio(lruvec, folio);
		folio_set_lru(folio);
		done[nr++] = folio;
		if (nr == SWAP_CLUSTER_MAX || list_empty(folios)) {
			lruvec_unlock(lruvec);
			lruvec = NULL;
			folios_put(mm, done, nr);
			nr = 0;
		}
	}
}
