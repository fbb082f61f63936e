/* SPDX-License-Identifier: MIT */
/*
 * Read-copy-update: readers of the index and of the memcg tables take no lock; memory they may be
 * looking at is freed only after each of them has left its read section.
 *
 * Our own and small rather than liburcu, because (a) threads that call a library cannot be made to
 * register or to announce quiescent states, (b) ThreadSanitizer and the virtual CPUs have to see each
 * edge: liburcu 0.13 gives false reports, (c) an instance must be able to go away: everything hangs off
 * it. The read side is one store; the writer pays with os_membarrier. Under ThreadSanitizer, or where
 * the system has no membarrier, the reader's store is sequentially consistent instead.
 *
 * Rules: read sections do not nest, do not sleep and take no lock that is held across a grace period.
 */
#ifndef UMM_BASE_RCU_H
#define UMM_BASE_RCU_H

#include "base/lock.h"
#include "base/thread.h"

#if defined(UMM_SIM)
#define RCU_SEQ_CST 0 /* the virtual CPUs know what a membarrier is */
#elif defined(__SANITIZE_THREAD__)
#define RCU_SEQ_CST 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define RCU_SEQ_CST 1
#endif
#endif
#ifndef RCU_SEQ_CST
#define RCU_SEQ_CST 0
#endif

struct rcu_head {
	struct rcu_head *next;
	void (*fn)(struct rcu_head *head);
};

struct rcu {
	struct umm_threads *threads;
	bool has_membarrier;
	_Atomic uint64_t gp;                 /* current grace period, from 1 */
	struct lock gp_lock;                 /* one grace period at a time; may sleep under it */
	_Atomic(struct rcu_head *) deferred; /* lock-free stack */
	_Atomic uint32_t nr_deferred;
};

#define RCU_DEFER_BATCH 128
#define RCU_DEFER_MAX (64 * RCU_DEFER_BATCH)

int rcu_init(struct rcu *rcu, struct umm_threads *threads);
/* Runs what is deferred; nobody may be in a read section any more. */
void rcu_fini(struct rcu *rcu);

static inline void rcu_read_lock(struct rcu *rcu)
{
	struct umm_thread *t = thread_self(rcu->threads);
	uint64_t gp = atomic_load_explicit(&rcu->gp, memory_order_relaxed);

	VM_DEBUG_ON(atomic_load_explicit(&t->rcu_ctr, memory_order_relaxed) != 0);
	if (RCU_SEQ_CST || unlikely(!rcu->has_membarrier)) {
		atomic_store_explicit(&t->rcu_ctr, gp, memory_order_seq_cst);
		/* Sync with the grace period that this section began after. */
		(void)atomic_load_explicit(&rcu->gp, memory_order_seq_cst);
	} else {
		atomic_store_explicit(&t->rcu_ctr, gp, memory_order_relaxed);
		atomic_signal_fence(memory_order_seq_cst);
	}
}

static inline void rcu_read_unlock(struct rcu *rcu)
{
	struct umm_thread *t = thread_self(rcu->threads);

	VM_DEBUG_ON(atomic_load_explicit(&t->rcu_ctr, memory_order_relaxed) == 0);
	atomic_store_explicit(&t->rcu_ctr, 0, memory_order_release);
}

/* Debug: is the caller inside a read section? */
static inline bool rcu_read_held(struct rcu *rcu)
{
	return atomic_load_explicit(&thread_self(rcu->threads)->rcu_ctr, memory_order_relaxed) != 0;
}

/* Wait until every read section that is open now has ended. Context: may sleep, no locks above gp_lock. */
void rcu_synchronize(struct rcu *rcu);

/* Call fn(head) after a grace period. Never sleeps; any lock may be held. */
void rcu_defer(struct rcu *rcu, struct rcu_head *head, void (*fn)(struct rcu_head *));

/* Run what is deferred if there is a batch of it (or anything, if `all`). Context: may sleep. */
void rcu_flush(struct rcu *rcu, bool all);
static inline void rcu_flush_if_due(struct rcu *rcu)
{
	if (unlikely(atomic_load_explicit(&rcu->nr_deferred, memory_order_relaxed) >=
		     RCU_DEFER_BATCH))
		rcu_flush(rcu, false);
}

#endif
