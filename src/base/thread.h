/* SPDX-License-Identifier: MIT */
/*
 * What an instance keeps for each thread that ever called it: RCU state, counters, and in debug builds
 * the locks it holds. A slot is written by its thread alone (relaxed atomics, no read-modify-write) and
 * may be read by anybody, so counting costs no shared cache line and sums are exact once the writers
 * are at rest. Slots outlive threads: a thread that gets a used slot goes on counting in it.
 */
#ifndef UMM_BASE_THREAD_H
#define UMM_BASE_THREAD_H

#include "base/os.h"

#define NR_THREAD_EVENTS 64
#define NR_LOCK_CLASSES_MAX 16
#define LOCK_HELD_MAX 8

struct lock;

/* One lock class's figures in one thread; see lock.h. */
struct lock_counts {
	_Atomic uint64_t acquisitions;
	_Atomic uint64_t contended_same;
	_Atomic uint64_t contended_other;
	_Atomic uint64_t wait_ns;
	_Atomic uint64_t hold_ns;
};

struct umm_thread {
	/* 0 outside a read section, else the grace period it began in (rcu.h). */
	_Atomic uint64_t rcu_ctr;
	/* /proc/vmstat events; index is enum vm_event (page/vmstat.h). */
	_Atomic uint64_t event[NR_THREAD_EVENTS];
	struct lock_counts lock[NR_LOCK_CLASSES_MAX];
	/* Debug builds: locks held, in the order they were taken. */
	struct lock *held[LOCK_HELD_MAX];
	uint32_t nr_held;
} __aligned(CACHE_LINE);

struct umm_threads {
	struct umm_thread *slot;   /* OS_MAX_THREADS of them, reserved, touched when used */
	_Atomic uint32_t nr_slots; /* slots below this may have been used */
};

int threads_init(struct umm_threads *ts);
void threads_fini(struct umm_threads *ts);
/* Make the calling thread known to the instance. -EAGAIN: no slot left. First line of every API call. */
int threads_enter_slow(struct umm_threads *ts);

static inline int __must_check threads_enter(struct umm_threads *ts)
{
	uint32_t s = os_thread_slot();

	/* Acquire: a grace period that follows must see at least the nr_slots seen here (rcu.c). */
	if (likely(s < atomic_load_explicit(&ts->nr_slots, memory_order_acquire)))
		return 0;
	return threads_enter_slow(ts);
}

/* The calling thread's own slot. threads_enter must have succeeded before. */
static inline struct umm_thread *thread_self(struct umm_threads *ts)
{
	return &ts->slot[os_thread_slot()];
}

/* Add to a counter that only the calling thread writes. */
static inline void thread_count(_Atomic uint64_t *c, uint64_t n)
{
	atomic_store_explicit(c, atomic_load_explicit(c, memory_order_relaxed) + n,
			      memory_order_relaxed);
}

#endif
