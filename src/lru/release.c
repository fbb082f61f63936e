/* SPDX-License-Identifier: MIT */
/*
 * The end of a folio's references: release at the last one, rescue when only the cache's is left of a
 * pinned one. Everything here runs without lru_lock or zone->lock held (LRU-5).
 */
#include "lru/lru.h"

/*
 * Off the list at refcount 0. Nobody can own PG_lru any more: an owner holds a reference. So the flag
 * is cleared without a test, and a scanner that still sees the folio listed fails to get a reference.
 */
static struct lruvec *release_from_lru(struct folio *folio, struct lruvec *locked)
{
	struct lruvec *lruvec = folio_lruvec_relock(folio, locked);

	lruvec_del_folio(lruvec, folio);
	atomic_fetch_and_explicit(
		&folio->flags,
		~(PG_BIT(PG_lru) | PG_BIT(PG_active) | PG_BIT(PG_unevictable) | PG_BIT(PG_pinned)),
		memory_order_relaxed);
	return lruvec;
}

void folios_free_frozen(struct mm *mm, struct folio **folios, unsigned nr)
{
	for (unsigned i = 0; i < nr; i++) {
		struct folio *folio = folios[i];

		VM_BUG_ON(folio_ref_count(folio) != 0);
		VM_BUG_ON(atomic_load_explicit(&folio->mapping, memory_order_relaxed) != NULL);
		atomic_fetch_and_explicit(
			&folio->flags,
			~(PG_BIT(PG_active) | PG_BIT(PG_unevictable) | PG_BIT(PG_pinned)),
			memory_order_relaxed);
	}
	lock_assert_may_sleep(&mm->threads);
	folios_uncharge(mm, folios, nr);
	free_folios_bulk(mm, folios, nr);
}

void folio_release(struct folio *folio)
{
	lock_assert_may_sleep(&folio->pgdat->mm->threads);
	if (folio_test(folio, PG_lru))
		lruvec_unlock(release_from_lru(folio, NULL));
	folios_free_frozen(folio->pgdat->mm, &folio, 1);
}

void folios_put(struct mm *mm, struct folio **folios, unsigned nr)
{
	struct folio *dead[FOLIO_BATCH_SIZE + 1];
	struct lruvec *lruvec = NULL;
	unsigned nr_dead = 0;

	lock_assert_may_sleep(&mm->threads);
	for (unsigned i = 0; i < nr; i++) {
		struct folio *folio = folios[i];
		int32_t old = atomic_fetch_sub_explicit(&folio->refcount, 1, memory_order_acq_rel);

		VM_DEBUG_ON(old <= 0);
		if (old == 2 && unlikely(folio_test(folio, PG_pinned))) {
			if (lruvec)
				lruvec_unlock(lruvec);
			lruvec = NULL;
			folio_rescue(folio);
		}
		if (old != 1)
			continue;
		if (folio_test(folio, PG_lru))
			lruvec = release_from_lru(folio, lruvec);
		dead[nr_dead++] = folio;
		if (nr_dead == ARRAY_SIZE(dead)) {
			if (lruvec)
				lruvec_unlock(lruvec);
			lruvec = NULL;
			folios_free_frozen(mm, dead, nr_dead);
			nr_dead = 0;
		}
	}
	if (lruvec)
		lruvec_unlock(lruvec);
	if (nr_dead)
		folios_free_frozen(mm, dead, nr_dead);
}

/* Marked pinned, and in a cache: what was dropped stays where it is until its last pin frees it. */
static bool folio_may_be_rescued(const struct folio *folio)
{
	return folio_test(folio, PG_pinned) &&
	       atomic_load_explicit(&folio->mapping, memory_order_relaxed);
}

/* Move an owned folio from the unevictable list to the inactive one, if it is still marked pinned. */
static void rescue_owned(struct folio *folio)
{
	struct lruvec *lruvec = folio_lruvec_lock(folio);

	if (folio_may_be_rescued(folio)) {
		lruvec_del_folio(lruvec, folio);
		folio_clear(folio, PG_pinned);
		folio_clear(folio, PG_unevictable);
		lruvec_add_folio(lruvec, folio);
		count_vm_events(folio->pgdat->mm, UNEVICTABLE_PGRESCUED, folio_nr_pages(folio));
	}
	folio_set_lru(folio);
	lruvec_unlock(lruvec);
}

/* The memcg that the folio is on right now, with a reference; NULL if it is going away. */
static struct mem_cgroup *folio_get_memcg(struct folio *folio)
{
	struct mm *mm = folio->pgdat->mm;
	struct mem_cgroup *memcg;

	rcu_read_lock(&mm->rcu);
	memcg = folio_lruvec(folio)->memcg;
	if (!memcg_try_get(memcg))
		memcg = NULL;
	rcu_read_unlock(&mm->rcu);
	return memcg;
}

/*
 * Called by whoever dropped a reference and saw that one was left, the cache's, on a folio that was
 * marked pinned. That caller holds no reference any more, so the folio may be anything by now: get one,
 * then look again (R4).
 *
 * Nothing is missed. The mark is made by somebody who owns PG_lru and so holds a reference; the put that
 * leaves the last one comes after that holder's in the order of the reference count, so it sees the
 * mark. And if the folio is owned at that moment, its owner holds a reference and the put that leaves
 * the last one is still to come: ours, which is why we look again after our own.
 */
void folio_rescue(struct folio *folio)
{
	struct mem_cgroup *memcg = NULL;
	int32_t old;

	do {
		if (!folio_try_get(folio))
			break;
		if (!memcg)
			memcg = folio_get_memcg(folio);
		if (folio_may_be_rescued(folio) && folio_test_clear_lru(folio))
			rescue_owned(folio);
		/* Sequentially consistent: pairs with a waiter that joins the queue and looks again. */
		old = atomic_fetch_sub_explicit(&folio->refcount, 1, memory_order_seq_cst);
		if (old == 1)
			folio_release(folio);
	} while (old == 2 && folio_may_be_rescued(folio));

	/* After our reference is gone: a waiter that runs now finds the folio reclaimable. */
	if (memcg) {
		memcg_wake_pin_waiters(memcg);
		memcg_put(memcg);
	}
}
