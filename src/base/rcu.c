/* SPDX-License-Identifier: MIT */
/*
 * Grace periods. The claim: when rcu_synchronize() returns, no read section is open that could have
 * seen what the caller unlinked before the call, and all that such sections read was read before
 * the return. The proof needs three places in the writer's order
 *
 *	unlink   A: barrier   B: gp = new   C: nr_slots; for each slot: ctr   D: barrier   free
 *
 * and a reader's
 *
 *	a: load gp   b: store ctr = gp   c: load the pointer, use it   d: store ctr = 0 (release)
 *
 * With membarrier, A and D make each running reader pass a full barrier at some point m of its
 * program (threads that do not run passed one when they were switched out), and the signal fence
 * keeps the compiler from moving c above b. Then, for a reader that loads the old pointer at c:
 *
 * 1. c stands before m_A: what stands after m_A sees the unlink. So a and b stand before m_A as
 *    well. Its ctr store, and the growth of nr_slots that its thread made or saw before (thread.h),
 *    are visible to the writer after A: C does not miss the slot. C must therefore come after A,
 *    and that includes the load of nr_slots. A thread that comes too late for C has b, hence c,
 *    after m_A: it sees the unlink and needs no waiting for.
 * 2. a stands before m_A and so before B: its ctr is less than new, and C waits for it. This is why
 *    A comes before B. The other way round, a CPU that reorders loads could read the new gp at a,
 *    the old pointer at c, and C would take the section for one that began later.
 * 3. C waits until the slot shows 0 or a number not less than new, which d (or a later section of
 *    the thread) wrote. A 0 was released by d. A later section's number was not, but its store
 *    comes after d in the reader's program and the writer has seen it, so m_D comes after d: D
 *    orders all of c before the free. This is what D is for.
 *
 * A reader may stand between a and b for any time and store an old number: then C waits for it
 * without need, or it came too late for C, and case 1 holds: b after m_A, so c sees the unlink.
 *
 * Without membarrier (and under ThreadSanitizer, which cannot see one) b, a second load of gp after
 * b, B and the loads of C are sequentially consistent, and A and D are not there. Either b comes
 * before C's load of the slot in the one order of all these, and C sees b; or C's load, and B
 * before it, come before the reader's second load of gp, which then reads what B wrote and so sees
 * the unlink. (A reader that took the new gp at a, for which C does not wait, reads it at that
 * second load as well, and sees the unlink.) nr_slots likewise: it is raised in that order too,
 * before b by the thread itself, or by another thread whose write the reader has acquired
 * (threads_enter). Each store of ctr is then a release, so C's load of any of them stands for D.
 */
#include "base/rcu.h"

#define SPINS 100
#define YIELDS 100
#define SLEEP_NS 50000u

int rcu_init(struct rcu *rcu, struct umm_threads *threads)
{
	rcu->threads = threads;
	atomic_init(&rcu->gp, 1);
	atomic_init(&rcu->deferred, NULL);
	atomic_init(&rcu->nr_deferred, 0);
	lock_init(&rcu->gp_lock, LOCK_RCU_GP);
	rcu->has_membarrier = !os_membarrier();
	return 0;
}

/* A or D above. */
static void rcu_fence(struct rcu *rcu)
{
	int err;

	if (RCU_SEQ_CST || !rcu->has_membarrier)
		return;
	err = os_membarrier();
	/* It worked at rcu_init, and readers rely on it: going on frees what they still read. */
	VM_BUG_ON(err);
}

/* Read sections never sleep, so a reader is at most a few time slices away from its end. */
static void rcu_wait_slot(const struct umm_thread *t, uint64_t gp)
{
	for (unsigned turn = 0;; turn++) {
		uint64_t ctr = atomic_load_explicit(&t->rcu_ctr, memory_order_seq_cst);

		if (ctr == 0 || ctr >= gp)
			return;
		if (turn < SPINS)
			os_relax();
		else if (turn < SPINS + YIELDS)
			os_yield();
		else
			os_sleep_ns(SLEEP_NS);
	}
}

/* Locks: holds gp_lock. */
static void synchronize_locked(struct rcu *rcu)
{
	struct umm_threads *ts = rcu->threads;
	uint64_t gp;
	uint32_t nr;

	rcu_fence(rcu);
	gp = atomic_fetch_add_explicit(&rcu->gp, 1, memory_order_seq_cst) + 1;
	nr = atomic_load_explicit(&ts->nr_slots, memory_order_seq_cst);
	for (uint32_t s = 0; s < nr; s++)
		rcu_wait_slot(&ts->slot[s], gp);
	rcu_fence(rcu);
}

void rcu_synchronize(struct rcu *rcu)
{
	/* Called inside a read section it would wait for itself. */
	VM_BUG_ON(rcu_read_held(rcu));
	lock_assert_may_sleep(rcu->threads);
	lock_acquire(rcu->threads, &rcu->gp_lock);
	synchronize_locked(rcu);
	lock_release(rcu->threads, &rcu->gp_lock);
}

void rcu_defer(struct rcu *rcu, struct rcu_head *head, void (*fn)(struct rcu_head *))
{
	head->fn = fn;
	/* Counted first: the count may be ahead of the stack for a moment, but never below 0. */
	atomic_fetch_add_explicit(&rcu->nr_deferred, 1, memory_order_relaxed);
	head->next = atomic_load_explicit(&rcu->deferred, memory_order_relaxed);
	while (!atomic_compare_exchange_weak_explicit(&rcu->deferred, &head->next, head,
						      memory_order_release, memory_order_relaxed))
		;
}

/* Take the whole stack. It is never popped by one, so there is no ABA to think of. */
static struct rcu_head *rcu_take(struct rcu *rcu)
{
	struct rcu_head *all = atomic_exchange_explicit(&rcu->deferred, NULL, memory_order_acquire);
	uint32_t nr = 0;

	for (struct rcu_head *head = all; head; head = head->next)
		nr++;
	if (nr)
		atomic_fetch_sub_explicit(&rcu->nr_deferred, nr, memory_order_relaxed);
	return all;
}

static void rcu_run(struct rcu_head *head)
{
	while (head) {
		struct rcu_head *next = head->next;

		head->fn(head);
		head = next;
	}
}

/* What another thread took before us may still be on its way when this returns. */
/*
 * Who only finds that a batch is due does not queue behind a grace period under way: whoever has the lock
 * takes the next batch, and one that is much too large is waited for, so that the stack stays bounded.
 */
void rcu_flush(struct rcu *rcu, bool all)
{
	uint32_t due = atomic_load_explicit(&rcu->nr_deferred, memory_order_relaxed);
	struct rcu_head *head;

	lock_assert_may_sleep(rcu->threads);
	VM_BUG_ON(rcu_read_held(rcu));
	if (!all && due < RCU_DEFER_BATCH)
		return;
	if (all || due >= RCU_DEFER_MAX)
		lock_acquire(rcu->threads, &rcu->gp_lock);
	else if (!lock_try(rcu->threads, &rcu->gp_lock, LOCK_NO_TAG))
		return;
	head = rcu_take(rcu);
	if (head)
		synchronize_locked(rcu);
	lock_release(rcu->threads, &rcu->gp_lock);
	rcu_run(head);
}

void rcu_fini(struct rcu *rcu)
{
	struct rcu_head *head;

	/* What is run may defer more. It ends because objects do: each is deferred once. */
	while ((head = rcu_take(rcu)))
		rcu_run(head);
	VM_BUG_ON(atomic_load_explicit(&rcu->nr_deferred, memory_order_relaxed) != 0);
}
