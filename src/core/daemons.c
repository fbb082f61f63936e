/* SPDX-License-Identifier: MIT */
/* kswapd: one thread a node that reclaims in the background once free pages fall below the low mark. */
#include "core/core.h"

/* So many rounds without any effect and the node is hopeless: callers reclaim for themselves until one
 * of them has success. */
#define MAX_KSWAPD_FAILURES 16

/* Work if there is any. The lock tells others that a round is under way. */
static bool kswapd_round(struct pgdat *pgdat)
{
	struct kswapd *kswapd = &pgdat->kswapd;
	struct mm *mm = pgdat->mm;
	bool work;

	lock_acquire(&mm->threads, &kswapd->lock);
	/* Cleared before looking: a wakeup that comes while we look makes us look again. */
	work = atomic_exchange_explicit(&kswapd->wake, 0, memory_order_acq_rel);
	if (work && reclaim_balance_node(pgdat))
		atomic_store_explicit(&kswapd->failures, 0, memory_order_relaxed);
	else if (work)
		atomic_fetch_add_explicit(&kswapd->failures, 1, memory_order_relaxed);
	lock_release(&mm->threads, &kswapd->lock);
	return work;
}

static void kswapd_main(void *arg)
{
	struct pgdat *pgdat = arg;
	struct kswapd *kswapd = &pgdat->kswapd;
	struct mm *mm = pgdat->mm;

	if (threads_enter(&mm->threads))
		return;
	while (!atomic_load_explicit(&kswapd->stop, memory_order_acquire)) {
		if (kswapd_round(pgdat))
			rcu_flush_if_due(&mm->rcu);
		else
			os_wait(&kswapd->wake, 0, OS_FOREVER);
	}
}

void daemons_quiesce(struct mm *mm)
{
	for (unsigned node = 0; node < mm->nr_nodes; node++) {
		struct kswapd *kswapd = &mm->node[node].kswapd;

		lock_acquire(&mm->threads, &kswapd->lock);
		atomic_store_explicit(&kswapd->wake, 0, memory_order_relaxed);
		lock_release(&mm->threads, &kswapd->lock);
	}
}

void wakeup_kswapd(struct pgdat *pgdat)
{
	struct kswapd *kswapd = &pgdat->kswapd;

	if (!kswapd->running ||
	    atomic_load_explicit(&kswapd->failures, memory_order_relaxed) >= MAX_KSWAPD_FAILURES)
		return;
	if (!atomic_exchange_explicit(&kswapd->wake, 1, memory_order_acq_rel))
		os_wake(&kswapd->wake, 1);
}

int daemons_start(struct mm *mm)
{
	for (unsigned node = 0; node < mm->nr_nodes; node++) {
		struct kswapd *kswapd = &mm->node[node].kswapd;
		int err;

		if (mm->opt.flags & UMM_NO_KSWAPD)
			continue;
		err = os_thread_create(&kswapd->thread, kswapd_main, &mm->node[node], "umm-kswapd");
		if (err) {
			daemons_stop(mm);
			return err;
		}
		kswapd->running = true;
	}
	return 0;
}

void daemons_stop(struct mm *mm)
{
	for (unsigned node = 0; node < mm->nr_nodes; node++) {
		struct kswapd *kswapd = &mm->node[node].kswapd;

		if (!kswapd->running)
			continue;
		atomic_store_explicit(&kswapd->stop, true, memory_order_release);
		atomic_store_explicit(&kswapd->wake, 1, memory_order_release);
		os_wake(&kswapd->wake, 1);
		os_thread_join(&kswapd->thread);
		kswapd->running = false;
	}
}
