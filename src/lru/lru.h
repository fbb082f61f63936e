/* SPDX-License-Identifier: MIT */
/*
 * Which folio is cold. Each memcg has on each node a lruvec of five lists; new folios enter an inactive
 * list at the head, used ones move to the active list, reclaim eats the inactive tail.
 *
 * The ownership protocol (numbered; a comment elsewhere may refer to LRU-n)
 *   LRU-1  PG_lru set: the folio is on the list that its flags and its lruvec say.
 *   LRU-2  Whoever test-and-clears PG_lru, with a reference held, owns the folio's membership: may unlink
 *          it, change its list flags, its memcg. Losing means busy: somebody else is at work on it.
 *   LRU-3  Own PG_lru first, then look up the lruvec, then lock, then compute the list, then unlink.
 *          The memcg cannot change in between, since whoever changes it must own PG_lru too. The one
 *          exception is reparenting, which moves whole lists: so the lookup is repeated under the lock.
 *   LRU-4  PG_lru is set again under the lock of the lruvec that the folio was put on, before the
 *          owner's reference is dropped.
 *   LRU-5  Under lru_lock: no put that may be the last, no free, no sleep.
 *   LRU-6  Batches clear PG_lru when they drain, not when they queue.
 *   LRU-7  A folio found pinned (references beyond the cache's and the finder's) is marked PG_pinned and
 *          put on the unevictable list, so that nobody scans it again. The put that leaves only the
 *          cache's reference moves it back (folio_rescue).
 *
 * A pinned folio on the unevictable list therefore costs reclaim nothing, and a pin costs no more than
 * its reference.
 */
#ifndef UMM_LRU_LRU_H
#define UMM_LRU_LRU_H

#include "alloc/page_alloc.h"
#include "memcg/memcontrol.h"

#define FOLIO_BATCH_SIZE 31
#define SWAP_CLUSTER_MAX 32

struct folio_batch {
	uint32_t nr;
	struct folio *folio[FOLIO_BATCH_SIZE];
};

/* What a queued folio waits for. */
enum lru_op {
	LRU_OP_ADD,        /* put a new folio on its list */
	LRU_OP_ACTIVATE,   /* inactive -> head of active */
	LRU_OP_DEACTIVATE, /* active -> head of inactive */
	LRU_OP_MOVE_TAIL,  /* to the tail of inactive: first to be reclaimed */
	LRU_OP_CULL,       /* to the unevictable list, if it is still pinned then (LRU-7) */
	NR_LRU_OPS,
};

/* One CPU's batches. Each queued folio carries a reference. */
struct lru_cpu {
	struct lock lock;
	struct folio_batch batch[NR_LRU_OPS];
} __aligned(CACHE_LINE);

/* Instance-wide state of this floor. */
struct lru_drain {
	struct lock lock; /* DRAIN_ALL */
	_Atomic uint64_t generation;
};

int lru_init(struct mm *mm);
void lru_fini(struct mm *mm);

/* ---- lruvec.c: lock and lists ---- */

static inline struct lock *folio_lru_lock(const struct folio *folio, struct lruvec *lruvec)
{
	struct pgdat *pgdat = folio->pgdat;

	/* Not lruvec->lru_lock: this may be a stale pointer that is only compared. */
	return pgdat->mm->opt.lru_lock == UMM_LRU_LOCK_NODE ? &pgdat->lru_lock : &lruvec->own_lock;
}

/* The list that the folio's flags say. Lock held, or PG_lru owned and the lock about to be taken. */
enum lru_list folio_lru_list(const struct folio *folio);

/* Lock the lruvec that the folio belongs on (LRU-3). Caller owns PG_lru, or the last reference. */
struct lruvec *folio_lruvec_lock(struct folio *folio);
/* The same with a lruvec that is locked already, or NULL: keeps the lock if it is the right one. */
struct lruvec *folio_lruvec_relock(struct folio *folio, struct lruvec *locked);
void lruvec_unlock(struct lruvec *lruvec);
/* Lock a lruvec by itself; caller holds a reference on its memcg. */
void lruvec_lock(struct lruvec *lruvec);

/* Lists and sizes. Lock held, PG_lru owned. */
void lruvec_add_folio(struct lruvec *lruvec, struct folio *folio);
void lruvec_add_folio_tail(struct lruvec *lruvec, struct folio *folio);
void lruvec_del_folio(struct lruvec *lruvec, struct folio *folio);
void lruvec_size_add(struct lruvec *lruvec, enum lru_list lru, int64_t nr_pages);
static inline uint64_t lruvec_size(const struct lruvec *lruvec, enum lru_list lru)
{
	return atomic_load_explicit(&lruvec->nr[lru], memory_order_relaxed);
}

/* PG_lru: take the ownership; give it back (lock held). */
static inline bool folio_test_clear_lru(struct folio *folio)
{
	return atomic_fetch_and_explicit(&folio->flags, ~PG_BIT(PG_lru), memory_order_acquire) &
	       PG_BIT(PG_lru);
}

static inline void folio_set_lru(struct folio *folio)
{
	atomic_fetch_or_explicit(&folio->flags, PG_BIT(PG_lru), memory_order_release);
}

/* Make an owned folio unevictable because it is pinned (LRU-7); it still has to be added. */
void folio_cull_pinned(struct folio *folio);

/* ---- folio_batch.c ---- */

/* Put a new, charged folio on its list, soon (batched). The list takes no reference of its own. */
void folio_add_lru(struct mm *mm, struct folio *folio);
/* The same for a run of new folios, at once: one lock for each lruvec that changes. Each folio is
 * expected to have two references: the cache's and the caller's. */
void folios_add_lru(struct folio **folios, unsigned nr);
/* The folio was used: first time PG_referenced, second time activation. Takes no lock but, once an
 * activation, a try-lock of this CPU's batch. */
void folio_mark_accessed_slow(struct mm *mm, struct folio *folio);
static inline void folio_mark_accessed(struct mm *mm, struct folio *folio)
{
	const uint32_t settled = PG_BIT(PG_active) | PG_BIT(PG_unevictable);
	uint32_t flags = atomic_load_explicit(&folio->flags, memory_order_relaxed);

	/* Hot, and known to be: nothing to note. */
	if (likely((flags & PG_BIT(PG_referenced)) && (flags & settled)))
		return;
	folio_mark_accessed_slow(mm, folio);
}
/* The same for a user who keeps its reference: if the folio is not known to be in use it is looked at
 * again when the batch drains, and is out of reclaim's way from then on if it is pinned still. Otherwise a
 * memcg full of pages that were read ahead and then pinned would be scanned page by page, by whoever is
 * the first to need one. */
void folio_queue_cull(struct mm *mm, struct folio *folio);
static inline void folio_mark_pinned(struct mm *mm, struct folio *folio)
{
	if (unlikely(!folio_test(folio, PG_referenced)))
		folio_queue_cull(mm, folio);
	folio_mark_accessed(mm, folio);
}
void folio_deactivate(struct mm *mm, struct folio *folio);
void folio_rotate_reclaimable(struct mm *mm, struct folio *folio);
/* Drain this CPU's batches; all CPUs' batches, in such a way that everything queued before the call is
 * on its list when it returns. Context: may sleep. */
void lru_add_drain(struct mm *mm);
void lru_add_drain_all(struct mm *mm);

/* ---- isolate.c ---- */

/* Take a folio off its list. Caller has a reference; the list owner gets one more. False: busy. */
bool __must_check folio_isolate_lru(struct folio *folio);
/* Put an isolated folio back and drop the isolation reference. */
void folio_putback_lru(struct folio *folio);
/*
 * Take up to `nr` folios off the tail of a list, moving each that cannot be had to the head. Lock held;
 * each folio taken gets a reference. Returns pages taken; *nr_scanned gets pages visited.
 */
uint64_t lruvec_isolate_folios(struct lruvec *lruvec, enum lru_list lru, uint64_t nr,
			       struct list_head *taken, uint64_t *nr_scanned);
/* Put a list of isolated folios back where their flags say, and drop the isolation references. */
void folios_putback_lru(struct mm *mm, struct list_head *folios);

/* ---- release.c: the last reference ---- */

/* Free a folio whose refcount fell to 0: off the LRU, uncharged, to the buddy lists. */
void folio_release(struct folio *folio);
/* A pinned, unevictable folio may have lost its last pin: make it evictable again. */
void folio_rescue(struct folio *folio);
/* Drop one reference on each of them; lock and uncharge once for runs of one lruvec. */
void folios_put(struct mm *mm, struct folio **folios, unsigned nr);
/* Free frozen (refcount 0) folios that are off the LRU and out of the cache. */
void folios_free_frozen(struct mm *mm, struct folio **folios, unsigned nr);

/* Drop a reference without what may have to follow: true if folio_put_finish must be called with what
 * was there before. For a caller who has to prepare for that; everybody else uses folio_put. */
static inline bool __must_check folio_put_begin(struct folio *folio, int32_t *ret_old)
{
	*ret_old = atomic_fetch_sub_explicit(&folio->refcount, 1, memory_order_acq_rel);
	VM_DEBUG_ON(*ret_old <= 0);
	return unlikely(*ret_old == 1 || (*ret_old == 2 && folio_test(folio, PG_pinned)));
}

static inline void folio_put_finish(struct folio *folio, int32_t old)
{
	if (old == 1)
		folio_release(folio);
	else
		folio_rescue(folio);
}

/* Drop a reference. Never under lru_lock or zone->lock. */
static inline void folio_put(struct folio *folio)
{
	int32_t old;

	if (folio_put_begin(folio, &old))
		folio_put_finish(folio, old);
}

/* Drop a reference that cannot be the last, under any lock: somebody else is known to hold one. */
static inline void folio_put_not_last(struct folio *folio)
{
	int32_t old = atomic_fetch_sub_explicit(&folio->refcount, 1, memory_order_acq_rel);

	VM_BUG_ON(old <= 1);
}

/* ---- reparent.c ---- */

/* Move all that a dying memcg has on its lists to its parent. Context: may sleep. */
void lru_reparent(struct mem_cgroup *memcg);

#endif
