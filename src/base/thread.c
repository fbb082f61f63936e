/* SPDX-License-Identifier: MIT */
/* The table of thread slots of an instance: reserved once, never moved, touched slot by slot. */
#include "base/thread.h"

int threads_init(struct umm_threads *ts)
{
	struct umm_thread *slot = os_reserve(OS_MAX_THREADS * sizeof(*slot));

	if (!slot)
		return -ENOMEM;
	ts->slot = slot;
	atomic_init(&ts->nr_slots, 0);
	return 0;
}

void threads_fini(struct umm_threads *ts)
{
	if (!ts->slot)
		return;
	os_unreserve(ts->slot, OS_MAX_THREADS * sizeof(*ts->slot));
	ts->slot = NULL;
	atomic_store_explicit(&ts->nr_slots, 0, memory_order_relaxed);
}

int threads_enter_slow(struct umm_threads *ts)
{
	uint32_t s = os_thread_slot();
	uint32_t nr;

	if (s == OS_NO_SLOT)
		return -EAGAIN;
	VM_BUG_ON(s >= OS_MAX_THREADS);
	/* A grace period must not overlook this slot: rcu.c says why the order is this strong. */
	nr = atomic_load_explicit(&ts->nr_slots, memory_order_seq_cst);
	while (nr <= s &&
	       !atomic_compare_exchange_weak_explicit(&ts->nr_slots, &nr, s + 1,
						      memory_order_seq_cst, memory_order_seq_cst))
		;
	return 0;
}
