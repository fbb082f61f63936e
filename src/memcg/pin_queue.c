/* SPDX-License-Identifier: MIT */
/*
 * Who waits for an unpin: one queue a memcg, first come first served. Only the first is woken; if
 * there is room for one more, its leaving wakes the next (field case T-01: nobody spins, nobody
 * overtakes).
 *
 * No wakeup is lost. The waker looks at nr_waiters without the lock, so that unpinning costs a load
 * when nobody waits:
 *
 *   waiter                                       waker
 *   nr_waiters += 1            (join)            refcount or usage goes down
 *   tries again what it waits for                reads nr_waiters; 0: done
 *   sleeps while woken == 0                      first waiter: woken = 1, wake
 *
 * The first step on each side is a sequentially consistent read-modify-write and the second one a
 * sequentially consistent load: so at least one of them sees the other's. If the waiter sees the
 * waker's, its attempt has what the waker gave; if not, the waker sees the waiter and sets woken,
 * which keeps the waiter from sleeping (or wakes it) whether it comes before or after.
 * pin_queue_wait resets woken on its way out, before the next attempt: a wake in between sets it
 * again.
 */
#include "memcg/memcontrol.h"

void pin_queue_init(struct pin_queue *q)
{
	lock_init(&q->lock, LOCK_PIN_QUEUE);
	list_init(&q->waiters);
	atomic_init(&q->nr_waiters, 0);
}

/* Under the lock to the end: the waiter's word is on its stack, and it leaves under the lock. */
static void waiter_wake(struct pin_waiter *w)
{
	atomic_store_explicit(&w->woken, 1, memory_order_release);
	os_wake(&w->woken, 1);
}

/* Locks: holds the queue's. */
static void queue_wake_first(struct pin_queue *q)
{
	if (!list_empty(&q->waiters))
		waiter_wake(list_first_entry(&q->waiters, struct pin_waiter, list));
}

void memcg_wake_pin_waiters(struct mem_cgroup *memcg)
{
	struct umm_threads *threads = &memcg->mm->threads;

	for (; memcg; memcg = memcg->parent) {
		struct pin_queue *q = &memcg->pin_queue;

		if (likely(atomic_load_explicit(&q->nr_waiters, memory_order_seq_cst) == 0))
			continue;
		lock_acquire_tagged(threads, &q->lock, memcg_tag(memcg));
		queue_wake_first(q);
		lock_release(threads, &q->lock);
	}
}

/* Its callers may stand in an ancestor's queue: they look up, find it dying and leave. The others there go
 * back to sleep. */
void pin_queue_wake_all(struct mem_cgroup *memcg)
{
	struct mm *mm = memcg->mm;
	struct pin_waiter *w;

	for (; memcg; memcg = memcg->parent) {
		struct pin_queue *q = &memcg->pin_queue;

		if (!atomic_load_explicit(&q->nr_waiters, memory_order_seq_cst))
			continue;
		lock_acquire_tagged(&mm->threads, &q->lock, memcg_tag(memcg));
		list_for_each_entry (w, &q->waiters, struct pin_waiter, list)
			waiter_wake(w);
		lock_release(&mm->threads, &q->lock);
	}
}

bool pin_queue_join(struct mem_cgroup *memcg, struct pin_waiter *w)
{
	struct pin_queue *q = &memcg->pin_queue;
	bool first;

	atomic_store_explicit(&w->woken, 0, memory_order_relaxed);
	lock_acquire_tagged(&memcg->mm->threads, &q->lock, memcg_tag(memcg));
	first = list_empty(&q->waiters);
	list_add_tail(&w->list, &q->waiters);
	atomic_fetch_add_explicit(&q->nr_waiters, 1, memory_order_seq_cst);
	lock_release(&memcg->mm->threads, &q->lock);
	return first;
}

bool pin_queue_is_first(struct mem_cgroup *memcg, struct pin_waiter *w)
{
	struct pin_queue *q = &memcg->pin_queue;
	bool first;

	lock_acquire_tagged(&memcg->mm->threads, &q->lock, memcg_tag(memcg));
	first = q->waiters.next == &w->list;
	lock_release(&memcg->mm->threads, &q->lock);
	return first;
}

void pin_queue_wait(struct mem_cgroup *memcg, struct pin_waiter *w, uint64_t deadline_ns)
{
	lock_assert_may_sleep(&memcg->mm->threads);
	VM_DEBUG_ON(rcu_read_held(&memcg->mm->rcu));
	/* Returning early, for whatever reason, costs the caller an attempt and nothing else. */
	(void)os_wait(&w->woken, 0, deadline_ns);
	(void)atomic_exchange_explicit(&w->woken, 0, memory_order_acquire);
}

void pin_queue_leave(struct mem_cgroup *memcg, struct pin_waiter *w)
{
	struct pin_queue *q = &memcg->pin_queue;
	bool first;

	lock_acquire_tagged(&memcg->mm->threads, &q->lock, memcg_tag(memcg));
	first = q->waiters.next == &w->list;
	list_del(&w->list);
	atomic_fetch_sub_explicit(&q->nr_waiters, 1, memory_order_seq_cst);
	/* Also when it leaves because its time is up: the wake it may have had goes on to the next. */
	if (first)
		queue_wake_first(q);
	lock_release(&memcg->mm->threads, &q->lock);
}
