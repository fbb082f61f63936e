/* SPDX-License-Identifier: MIT */
/*
 * Counters of memcgs. Each memcg keeps its own; a hierarchical figure is summed when it is asked
 * for.
 *
 * Destroying a memcg loses no count and shows none twice (field case K-03: totals never run
 * backwards):
 *
 *   who counts, in a read section           memcg_unlink
 *   looks at `dead`                         sets `dead`
 *   adds to the nearest that is not dead    waits for a grace period
 *                                           tree lock: adds own counters to the parent's, unlinks
 *
 * After the grace period nobody adds to the dead one any more. Sums are taken under the tree lock,
 * so they find its counters either here or in the parent.
 *
 * A gauge of one memcg may fall below zero: the pages that it counted may be uncounted at the
 * parent between reparenting and the fold, or the other way round. Only the sum means something.
 */
#include "memcg/memcontrol.h"

static const char *const stat_names[NR_MEMCG_STATS] = {
#define X(id, name) [id] = name,
	MEMCG_STATS(X)
#undef X
};

static const char *const event_names[NR_MEMCG_EVENTS] = {
#define X(id, name) [id] = name,
	MEMCG_EVENTS(X)
#undef X
};

const char *memcg_stat_name(enum memcg_stat_item item)
{
	VM_BUG_ON(item >= NR_MEMCG_STATS);
	return stat_names[item];
}

const char *memcg_event_name(enum memcg_event event)
{
	VM_BUG_ON(event >= NR_MEMCG_EVENTS);
	return event_names[event];
}

/* ---- counting ---- */

/* Read sections do not nest: open one unless the caller has. */
static bool count_begin(struct mem_cgroup *memcg)
{
	struct rcu *rcu = &memcg->mm->rcu;

	if (rcu_read_held(rcu))
		return false;
	rcu_read_lock(rcu);
	return true;
}

static void count_end(struct mem_cgroup *memcg, bool opened)
{
	if (opened)
		rcu_read_unlock(&memcg->mm->rcu);
}

/* The root is never dead, so this ends. */
static struct mem_cgroup *nearest_counting(struct mem_cgroup *memcg)
{
	while (unlikely(atomic_load_explicit(&memcg->dead, memory_order_acquire)))
		memcg = memcg->parent;
	return memcg;
}

static void counter_add(_Atomic uint64_t *counter, uint64_t n)
{
	atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

void memcg_count(struct mem_cgroup *memcg, enum memcg_stat_item item, int64_t n)
{
	bool opened = count_begin(memcg);

	VM_DEBUG_ON(item >= NR_MEMCG_STATS || (n < 0 && item >= NR_MEMCG_GAUGES));
	counter_add(&nearest_counting(memcg)->stat[item], (uint64_t)n);
	count_end(memcg, opened);
}

void memcg_count_event(struct mem_cgroup *memcg, enum memcg_event event, uint64_t n)
{
	bool opened = count_begin(memcg);

	VM_DEBUG_ON(event >= NR_MEMCG_EVENTS);
	counter_add(&nearest_counting(memcg)->event[event], n);
	count_end(memcg, opened);
}

/* Count in the thread's line, claiming it if it is nobody's. */
static void reads_add(struct memcg_reads *reads, uint32_t mask)
{
	uint32_t me = os_thread_slot() + 1, owner = 0;
	struct memcg_reads *line = &reads[(me - 1) & mask];

	if (atomic_compare_exchange_strong_explicit(&line->owner, &owner, me, memory_order_relaxed,
						    memory_order_relaxed) ||
	    owner == me)
		thread_count(&line->own, 1);
	else
		counter_add(&line->others, 1);
}

void memcg_count_read(struct mem_cgroup *memcg)
{
	bool opened = count_begin(memcg);
	struct mem_cgroup *to = nearest_counting(memcg);
	struct memcg_reads *reads = atomic_load_explicit(&to->reads, memory_order_acquire);

	if (reads)
		reads_add(reads, memcg->mm->memcgs->reads_mask);
	else
		counter_add(&to->folded_pgfault, 1);
	count_end(memcg, opened);
}

int memcg_reads_alloc(struct mem_cgroup *memcg)
{
	size_t bytes = (memcg->mm->memcgs->reads_mask + 1) * sizeof(struct memcg_reads);
	struct memcg_reads *reads, *other = NULL;

	if (atomic_load_explicit(&memcg->reads, memory_order_acquire))
		return 0;
	reads = os_alloc_aligned(CACHE_LINE, bytes);
	if (!reads)
		return -ENOMEM;
	if (!atomic_compare_exchange_strong_explicit(&memcg->reads, &other, reads,
						     memory_order_acq_rel, memory_order_acquire))
		os_free(reads);
	return 0;
}

/* ---- sums ---- */

static uint64_t counter_read(const _Atomic uint64_t *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

static uint64_t own_pgfault(const struct mem_cgroup *memcg)
{
	const struct memcg_reads *reads = atomic_load_explicit(&memcg->reads, memory_order_acquire);
	uint64_t sum = counter_read(&memcg->folded_pgfault);

	for (uint32_t i = 0; reads && i <= memcg->mm->memcgs->reads_mask; i++)
		sum += counter_read(&reads[i].own) + counter_read(&reads[i].others);
	return sum;
}

void memcg_fold_counters(struct mem_cgroup *memcg)
{
	struct mem_cgroup *parent = memcg->parent;

	lock_assert_held(&memcg->mm->threads, &memcg->mm->memcgs->tree_lock);
	VM_BUG_ON(!atomic_load_explicit(&memcg->dead, memory_order_relaxed));
	/* A parent dies after its children have been unlinked. */
	VM_BUG_ON(atomic_load_explicit(&parent->dead, memory_order_relaxed));
	for (unsigned item = 0; item < NR_MEMCG_STATS; item++)
		counter_add(&parent->stat[item], counter_read(&memcg->stat[item]));
	for (unsigned event = 0; event < NR_MEMCG_EVENTS; event++)
		counter_add(&parent->event[event], counter_read(&memcg->event[event]));
	counter_add(&parent->folded_pgfault, own_pgfault(memcg));
}

static void sum_begin(struct mem_cgroup *memcg)
{
	lock_acquire(&memcg->mm->threads, &memcg->mm->memcgs->tree_lock);
}

static void sum_end(struct mem_cgroup *memcg)
{
	lock_release(&memcg->mm->threads, &memcg->mm->memcgs->tree_lock);
}

uint64_t memcg_stat_sum(struct mem_cgroup *memcg, enum memcg_stat_item item)
{
	uint64_t sum = 0;

	VM_BUG_ON(item >= NR_MEMCG_STATS);
	sum_begin(memcg);
	for (struct mem_cgroup *pos = memcg; pos; pos = memcg_next(memcg, pos))
		sum += counter_read(&pos->stat[item]);
	sum_end(memcg);
	/* Below zero: pages that were uncounted in the middle of the walk, or not counted yet. */
	if (item < NR_MEMCG_GAUGES && (int64_t)sum < 0)
		sum = 0;
	return sum;
}

uint64_t memcg_pgfault_sum(struct mem_cgroup *memcg)
{
	uint64_t sum = 0;

	sum_begin(memcg);
	for (struct mem_cgroup *pos = memcg; pos; pos = memcg_next(memcg, pos))
		sum += own_pgfault(pos);
	sum_end(memcg);
	return sum;
}

uint64_t memcg_event_sum(struct mem_cgroup *memcg, enum memcg_event event)
{
	uint64_t sum = 0;

	VM_BUG_ON(event >= NR_MEMCG_EVENTS);
	sum_begin(memcg);
	for (struct mem_cgroup *pos = memcg; pos; pos = memcg_next(memcg, pos))
		sum += counter_read(&pos->event[event]);
	sum_end(memcg);
	return sum;
}

uint64_t memcg_lru_sum(struct mem_cgroup *memcg, enum lru_list lru)
{
	uint64_t sum = 0;

	VM_BUG_ON(lru >= NR_LRU_LISTS);
	sum_begin(memcg);
	for (struct mem_cgroup *pos = memcg; pos; pos = memcg_next(memcg, pos))
		for (unsigned node = 0; node < memcg->mm->nr_nodes; node++)
			sum += counter_read(&pos->lruvec[node].nr[lru]);
	sum_end(memcg);
	return sum;
}
