/* SPDX-License-Identifier: MIT */
/*
 * From a folio to its lruvec, and the lists of one lruvec under its lock. Knows nothing of who calls:
 * no references are taken or dropped here.
 */
#include "lru/lru.h"

static struct mm *lruvec_mm(const struct lruvec *lruvec)
{
	return lruvec->pgdat->mm;
}

enum lru_list folio_lru_list(const struct folio *folio)
{
	uint32_t flags = atomic_load_explicit(&folio->flags, memory_order_relaxed);
	unsigned lru;

	VM_DEBUG_ON((flags & PG_BIT(PG_active)) && (flags & PG_BIT(PG_unevictable)));
	if (flags & PG_BIT(PG_unevictable))
		return LRU_UNEVICTABLE;
	lru = flags & PG_BIT(PG_swapbacked) ? LRU_INACTIVE_ANON : LRU_INACTIVE_FILE;
	if (flags & PG_BIT(PG_active))
		lru += LRU_ACTIVE;
	return lru;
}

void lruvec_lock(struct lruvec *lruvec)
{
	lock_acquire_tagged(&lruvec_mm(lruvec)->threads, lruvec->lru_lock,
			    memcg_tag(lruvec->memcg));
}

void lruvec_unlock(struct lruvec *lruvec)
{
	lock_release(&lruvec_mm(lruvec)->threads, lruvec->lru_lock);
}

/*
 * RCU keeps the lruvec's memory while we wait for its lock. Once we hold it and the folio still names
 * this lruvec, reparenting cannot have happened and cannot happen before we unlock: it takes the same
 * lock. Without the second look the lock of a dying child could be held, which guards nothing (R33).
 */
struct lruvec *folio_lruvec_lock(struct folio *folio)
{
	struct mm *mm = folio->pgdat->mm;
	struct lruvec *lruvec;

	rcu_read_lock(&mm->rcu);
	for (;;) {
		lruvec = folio_lruvec(folio);
		lock_acquire_tagged(&mm->threads, folio_lru_lock(folio, lruvec),
				    memcg_tag(lruvec->memcg));
		if (likely(folio_lruvec(folio) == lruvec))
			break;
		/* Each turn means that a memcg was destroyed: at most UMM_MAX_DEPTH of them. */
		lock_release(&mm->threads, folio_lru_lock(folio, lruvec));
		count_vm_events(mm, LRU_RETRY, 1);
	}
	rcu_read_unlock(&mm->rcu);
	return lruvec;
}

struct lruvec *folio_lruvec_relock(struct folio *folio, struct lruvec *locked)
{
	if (locked) {
		/* Reparenting needs the lock we hold: what we read cannot change if it is ours. */
		struct lruvec *lruvec = folio_lruvec(folio);

		if (lruvec == locked)
			return locked;
		if (folio->pgdat->mm->opt.lru_lock == UMM_LRU_LOCK_NODE &&
		    folio->pgdat == locked->pgdat) {
			atomic_store_explicit(&locked->pgdat->lru_lock.tag,
					      memcg_tag(lruvec->memcg), memory_order_relaxed);
			return lruvec;
		}
		lruvec_unlock(locked);
	}
	return folio_lruvec_lock(folio);
}

void lruvec_size_add(struct lruvec *lruvec, enum lru_list lru, int64_t nr_pages)
{
	uint64_t old = atomic_load_explicit(&lruvec->nr[lru], memory_order_relaxed);

	if (unlikely(nr_pages < 0 && old < (uint64_t)-nr_pages)) {
		vm_warn(lruvec_mm(lruvec), "memcg %s: size of LRU list %d below zero",
			lruvec->memcg->name, lru);
		nr_pages = -(int64_t)old;
	}
	atomic_store_explicit(&lruvec->nr[lru], old + (uint64_t)nr_pages, memory_order_relaxed);
}

void lruvec_add_folio(struct lruvec *lruvec, struct folio *folio)
{
	enum lru_list lru = folio_lru_list(folio);

	lock_assert_held(&lruvec_mm(lruvec)->threads, lruvec->lru_lock);
	VM_DEBUG_ON(folio_lruvec(folio) != lruvec);
	list_add(&folio->lru, &lruvec->lists[lru]);
	lruvec_size_add(lruvec, lru, (int64_t)folio_nr_pages(folio));
}

void lruvec_add_folio_tail(struct lruvec *lruvec, struct folio *folio)
{
	enum lru_list lru = folio_lru_list(folio);

	lock_assert_held(&lruvec_mm(lruvec)->threads, lruvec->lru_lock);
	VM_DEBUG_ON(folio_lruvec(folio) != lruvec);
	list_add_tail(&folio->lru, &lruvec->lists[lru]);
	lruvec_size_add(lruvec, lru, (int64_t)folio_nr_pages(folio));
}

/* The list is computed here, under the lock: a flag may have changed while the caller waited (R10). */
void lruvec_del_folio(struct lruvec *lruvec, struct folio *folio)
{
	enum lru_list lru = folio_lru_list(folio);

	lock_assert_held(&lruvec_mm(lruvec)->threads, lruvec->lru_lock);
	VM_DEBUG_ON(folio_lruvec(folio) != lruvec);
	lruvec_size_add(lruvec, lru, -(int64_t)folio_nr_pages(folio));
	list_del(&folio->lru);
}

void folio_cull_pinned(struct folio *folio)
{
	VM_DEBUG_ON(folio_test(folio, PG_lru));
	folio_clear(folio, PG_active);
	folio_set(folio, PG_unevictable);
	folio_set(folio, PG_pinned);
	count_vm_events(folio->pgdat->mm, UNEVICTABLE_PGCULLED, folio_nr_pages(folio));
}
