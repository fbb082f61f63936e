/* SPDX-License-Identifier: MIT */
/*
 * os_mutex on virtual CPUs: first come first served, with the cost of handing the lock's line over. A
 * waiter spins as long as the holder is on a CPU, and gives its CPU away if the holder sleeps; so locks
 * that are held across I/O work like mutexes and short ones like queued spinlocks.
 *
 * The word that production code has is all there is in the lock; what waits, and when the lock became
 * free, stands in a table on the side, found by the lock's address.
 */
#include "mutex.h"

#include <stdlib.h>

#include "os_sim.h"

struct mutex {
	const struct os_mutex *key; /* NULL: unused */
	struct sim_fiber *owner;    /* NULL: free */
	struct sim_vcpu *last;      /* CPU of the last holder */
	/* When it became free. A CPU whose clock stands before that meets a lock that is held: its
	 * holder has only been executed a little ahead of time. */
	uint64_t free_ps;
	struct sim_queue waiters;
};

static struct {
	struct mutex *table; /* open addressing, never more than half full */
	size_t size, used;
} mutexes;

#define FIRST_SIZE 4096u

static struct mutex *table_create(size_t size)
{
	return calloc(size, sizeof(struct mutex));
}

int sim_mutexes_init(void)
{
	mutexes.size = FIRST_SIZE;
	mutexes.used = 0;
	mutexes.table = table_create(mutexes.size);
	return mutexes.table ? 0 : -ENOMEM;
}

void sim_mutexes_fini(void)
{
	free(mutexes.table);
	mutexes.table = NULL;
}

static struct mutex *table_slot(struct mutex *table, size_t size, const struct os_mutex *key)
{
	size_t i = ((uintptr_t)key >> 2) * 0x9e3779b97f4a7c15u >> 20;

	while (table[i & (size - 1)].key && table[i & (size - 1)].key != key)
		i++;
	return &table[i & (size - 1)];
}

static void table_grow(void)
{
	size_t size = mutexes.size * 2;
	struct mutex *table = table_create(size);

	VM_BUG_ON(!table);
	for (size_t i = 0; i < mutexes.size; i++) {
		const struct mutex *from = &mutexes.table[i];
		struct mutex *to;

		if (!from->key)
			continue;
		to = table_slot(table, size, from->key);
		*to = *from;
		queue_moved(&to->waiters);
	}
	free(mutexes.table);
	mutexes.table = table;
	mutexes.size = size;
}

static struct mutex *mutex_of(const struct os_mutex *key)
{
	struct mutex *m = table_slot(mutexes.table, mutexes.size, key);

	if (likely(m->key))
		return m;
	if (2 * ++mutexes.used > mutexes.size) {
		table_grow();
		m = table_slot(mutexes.table, mutexes.size, key);
	}
	m->key = key;
	queue_init(&m->waiters);
	return m;
}

/* Own the lock's line, as an atomic would. */
static void touch(struct os_mutex *m)
{
	sim_touch(m, sizeof(*m), true);
	sim_me->clk_ps += sim_ps.rmw;
	sim_point();
}

static void taken(struct mutex *q, struct os_mutex *m)
{
	q->owner = sim_me->cur;
	q->last = sim_me;
	sim_held(1);
	sim_hash(sim_me->clk_ps ^ sim_me->cur->id);
	atomic_store_explicit(&m->state, 1, memory_order_relaxed);
}

bool os_mutex_try(struct os_mutex *m)
{
	struct mutex *q;

	touch(m);
	q = mutex_of(m);
	if (q->owner || q->free_ps > sim_me->clk_ps)
		return false;
	taken(q, m);
	return true;
}

static uint64_t handoff_ps(const struct sim_vcpu *from, const struct sim_vcpu *to)
{
	return (uint64_t)(sim_ps.handoff * (double)sim_transfer_ps(from, to));
}

/* A holder that spins itself is on a CPU, but it is not what will end the wait. */
bool sim_mutex_holder_runs(const struct sim_fiber *spinner)
{
	const struct sim_fiber *f = spinner;

	while (f->wants) {
		f = mutex_of(f->wants)->owner;
		if (!f || f->state != FIBER_RUNNING)
			return false;
		VM_BUG_ON(f == spinner); /* a deadlock: each waits for the next one's mutex */
	}
	return true;
}

void os_mutex_lock_slow(struct os_mutex *m)
{
	struct mutex *q;
	struct sim_vcpu *me;
	struct sim_fiber *self;

	touch(m);
	q = mutex_of(m);
	me = sim_me;
	if (!q->owner) {
		if (q->free_ps > me->clk_ps) {
			uint64_t at = q->free_ps + handoff_ps(q->last, me);

			me->spin_ps += at - me->clk_ps;
			me->clk_ps = at;
		}
		taken(q, m);
		return;
	}
	VM_BUG_ON(q->owner == me->cur);
	self = me->cur;
	self->wants = m;
	queue_add(&q->waiters, self);
	atomic_store_explicit(&m->state, 2, memory_order_relaxed);
	if (sim_mutex_holder_runs(self))
		sim_spin();
	else
		sim_block(SIM_NEVER);
	/* Who unlocked has made us the owner. */
	sim_held(1);
	sim_point();
}

void os_mutex_unlock(struct os_mutex *m)
{
	struct mutex *q = mutex_of(m);
	struct sim_vcpu *me = sim_me;
	struct sim_fiber *next;

	VM_BUG_ON(q->owner != me->cur);
	sim_touch(m, sizeof(*m), true);
	sim_held(-1);
	next = queue_pop(&q->waiters);
	q->owner = next;
	q->last = next ? next->cpu : me;
	q->free_ps = me->clk_ps;
	atomic_store_explicit(&m->state, next ? 1 + !!q->waiters.head : 0, memory_order_relaxed);
	if (next) {
		next->wants = NULL;
		sim_hash(me->clk_ps ^ next->id);
		/* The next holder finds the line with itself: that is what the hand-off paid for. */
		if (sim_line_of(m) < sim_nr_lines)
			(void)sim_line_access(next->cpu, sim_line_of(m), true);
		if (next->cpu->spinning && next->cpu->cur == next) {
			sim_grant(next, me->clk_ps + handoff_ps(me, next->cpu));
		} else {
			me->clk_ps += sim_ps.syscall;
			sim_wake(next, me->clk_ps);
		}
	}
	sim_point();
}
