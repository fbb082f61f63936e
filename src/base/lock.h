/* SPDX-License-Identifier: MIT */
/*
 * THE lock table: the only place where lock order is written. A thread takes locks in the order of the
 * rows, top to bottom. Debug builds check it at each acquisition, and that nothing sleeps or frees
 * under a lock that forbids it. All builds count, per class: acquisitions, contention (split by whether
 * the holder worked for the same memcg), time waited, and an estimate of the time held (one
 * acquisition in LOCK_SAMPLE of each thread is timed and counts LOCK_SAMPLE times).
 *
 *   same rank  NEVER: one lock of the class at a time. CHILD_FIRST: a memcg's before its parent's, by
 *              reparenting only (lock_acquire_nested).
 *   sleep      YES: the holder may do I/O, reclaim or wait for a grace period.
 *              NO: short, and no put that may be the last, no free, no sleep under it.
 */
#ifndef UMM_BASE_LOCK_H
#define UMM_BASE_LOCK_H

#include "base/thread.h"

/* clang-format off */
#define LOCK_TABLE(X)                                                                       \
	/* rank        name            same rank    sleep  protects                      */ \
	X(KSWAPD,      "kswapd",       NEVER,       YES) /* a round of kswapd, per node  */ \
	X(RECLAIM_SET, "limit_lock",   NEVER,       YES) /* one limit change per memcg   */ \
	X(DRAIN_ALL,   "drain_lock",   NEVER,       YES) /* one drain of all CPUs        */ \
	X(MEMCG_TREE,  "memcg_tree",   NEVER,       YES) /* hierarchy, slots, iterators  */ \
	X(MAPPINGS,    "mappings",     NEVER,       YES) /* file identity -> mapping     */ \
	X(RCU_GP,      "rcu_gp",       NEVER,       YES) /* one grace period at a time   */ \
	X(PIN_QUEUE,   "pin_queue",    NEVER,       NO)  /* who waits for an unpin       */ \
	X(I_PAGES,     "i_pages",      NEVER,       NO)  /* a mapping's index            */ \
	X(STOCK,       "memcg_stock",  NEVER,       NO)  /* a CPU's charge stock         */ \
	X(BATCH,       "lru_batch",    NEVER,       NO)  /* a CPU's folio batches        */ \
	X(LRUVEC,      "lru_lock",     CHILD_FIRST, NO)  /* LRU links and sizes          */ \
	X(PCP,         "pcp",          NEVER,       NO)  /* a CPU's free page lists      */ \
	X(ZONE,        "zone_lock",    NEVER,       NO)  /* free areas, pageblock bits   */
/* clang-format on */

enum lock_class {
#define X(rank, name, same, sleep) LOCK_##rank,
	LOCK_TABLE(X)
#undef X
		NR_LOCK_CLASSES,
};
_Static_assert(NR_LOCK_CLASSES <= NR_LOCK_CLASSES_MAX, "grow NR_LOCK_CLASSES_MAX");

#define LOCK_SAMPLE 64

struct lock {
	struct os_mutex m;
	/* Whom the holder works for (a memcg's number), for the contention split. Written under the lock,
	 * read by waiters at any time. */
	_Atomic uint32_t tag;
	uint8_t class;
	/* Holder only: time of acquisition if this hold is sampled, else 0. */
	uint64_t since_ns;
#if UMM_DEBUG >= 1
	_Atomic uint32_t owner; /* thread slot + 1 */
#endif
};

#define LOCK_NO_TAG UINT32_MAX

void lock_init(struct lock *l, enum lock_class class);
const char *lock_class_name(enum lock_class class);

/* Take the lock, waiting as long as it takes; holders are bounded. `tag`: whom the caller works for. */
void lock_acquire_tagged(struct umm_threads *ts, struct lock *l, uint32_t tag);
/* The second lock of a CHILD_FIRST class: caller holds the child's. */
void lock_acquire_nested(struct umm_threads *ts, struct lock *l, uint32_t tag);
/* Take it if it is free, in any order: what never waits cannot deadlock. A refusal is not counted. */
bool lock_try(struct umm_threads *ts, struct lock *l, uint32_t tag);
void lock_release(struct umm_threads *ts, struct lock *l);

static inline void lock_acquire(struct umm_threads *ts, struct lock *l)
{
	lock_acquire_tagged(ts, l, LOCK_NO_TAG);
}

#if UMM_DEBUG >= 1
/* Debug builds: abort unless the caller holds the lock. */
void lock_assert_held(struct umm_threads *ts, const struct lock *l);
/* Debug builds: abort if the caller holds a lock under which it may not sleep (or put, or free). */
void lock_assert_may_sleep(struct umm_threads *ts);
#else
static inline void lock_assert_held(struct umm_threads *ts, const struct lock *l)
{
	(void)ts, (void)l;
}

static inline void lock_assert_may_sleep(struct umm_threads *ts)
{
	(void)ts;
}
#endif

/* Sum a class's figures over all threads. */
void lock_class_sum(struct umm_threads *ts, enum lock_class class, struct lock_counts *ret);

#endif
