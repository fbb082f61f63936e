/* SPDX-License-Identifier: MIT */
/*
 * Limits. A charge is added level by level, upward, each time by a compare-and-swap that looked at
 * the limit first: usage is never above it, also not for the moment that adding first and taking
 * back later would need. A failure further up takes back what was added below, which only lowers.
 *
 * Changing a limit. The compare-and-swap proves that usage is still what it was, not that max is.
 * So the state word has a count of limit changes above the pages:
 *
 *   charger                                  memcg_set_max (one at a time: limit_lock)
 *   reads state, then max, compares          writes the new max
 *   swaps state, if it has not changed       adds 1 to the count; looks at the pages it had
 *
 * A charger whose swap succeeds read state either after the change was counted, and then the new
 * max; or its swap came before, and then the setter saw its pages. The count has 24 bits: to be
 * fooled a charger would have to sleep for exactly a multiple of 16,777,216 changes between two
 * instructions.
 */
#include "memcg/memcontrol.h"

#define LIMIT_CHANGE (1ull << PAGE_COUNTER_BITS)

static bool counter_add(struct page_counter *counter, uint64_t nr, uint64_t *ret_usage)
{
	/* Sequentially consistent: also one half of the pairing in pin_queue.c. */
	uint64_t old = atomic_load_explicit(&counter->state, memory_order_seq_cst);
	uint64_t max, usage;

	VM_BUG_ON(nr > PAGE_COUNTER_MASK / 2);
	do {
		max = atomic_load_explicit(&counter->max, memory_order_acquire);
		usage = old & PAGE_COUNTER_MASK;
		if (nr > max || usage > max - nr)
			return false;
		VM_DEBUG_ON(usage + nr > PAGE_COUNTER_MASK);
	} while (!atomic_compare_exchange_weak_explicit(
		&counter->state, &old, old + nr, memory_order_seq_cst, memory_order_seq_cst));
	*ret_usage = usage + nr;
	return true;
}

static void counter_sub(struct page_counter *counter, uint64_t nr)
{
	uint64_t old = atomic_fetch_sub_explicit(&counter->state, nr, memory_order_seq_cst);

	VM_BUG_ON((old & PAGE_COUNTER_MASK) < nr);
}

static void counter_note_peak(struct page_counter *counter, uint64_t usage)
{
	uint64_t peak = atomic_load_explicit(&counter->peak, memory_order_relaxed);

	while (usage > peak)
		if (atomic_compare_exchange_weak_explicit(&counter->peak, &peak, usage,
							  memory_order_relaxed,
							  memory_order_relaxed))
			return;
}

int page_counter_try_charge(struct mem_cgroup *memcg, uint64_t nr, struct mem_cgroup **ret_over)
{
	uint64_t usage[UMM_MAX_DEPTH + 1];
	struct mem_cgroup *pos;

	VM_BUG_ON(memcg->depth > UMM_MAX_DEPTH);
	for (pos = memcg; pos; pos = pos->parent) {
		if (!counter_add(&pos->memory, nr, &usage[pos->depth])) {
			for (struct mem_cgroup *undo = memcg; undo != pos; undo = undo->parent)
				counter_sub(&undo->memory, nr);
			*ret_over = pos;
			return -ENOMEM;
		}
	}
	/* A peak is what stood, not what was taken back because of a limit further up. */
	for (pos = memcg; pos; pos = pos->parent)
		counter_note_peak(&pos->memory, usage[pos->depth]);
	return 0;
}

void page_counter_uncharge(struct mem_cgroup *memcg, uint64_t nr)
{
	for (; memcg; memcg = memcg->parent)
		counter_sub(&memcg->memory, nr);
}

/* Locks: holds limit_lock. A charge that comes in between may be refused by a limit that is then
 * taken back; never the other way round. */
static int counter_set_max(struct page_counter *counter, uint64_t nr)
{
	uint64_t old_max = atomic_load_explicit(&counter->max, memory_order_relaxed);
	uint64_t state;

	/* Not even for a moment, if it can be seen that it would not hold. */
	if (page_counter_usage(counter) > nr)
		return -EBUSY;
	atomic_store_explicit(&counter->max, nr, memory_order_release);
	state = atomic_fetch_add_explicit(&counter->state, LIMIT_CHANGE, memory_order_seq_cst);
	if ((state & PAGE_COUNTER_MASK) <= nr)
		return 0;
	atomic_store_explicit(&counter->max, old_max, memory_order_release);
	return -EBUSY;
}

int memcg_set_max(struct mem_cgroup *memcg, uint64_t nr)
{
	int err;

	lock_assert_held(&memcg->mm->threads, &memcg->limit_lock);
	nr = min_u64(nr, PAGE_COUNTER_MAX);
	err = counter_set_max(&memcg->memory, nr);
	if (err && atomic_load_explicit(&memcg->nr_stocks, memory_order_relaxed)) {
		memcg_drain_stock(memcg->mm, memcg);
		err = counter_set_max(&memcg->memory, nr);
	}
	/* On success there may be more room; on failure a waiter may have been refused by the limit
	 * that was taken back. */
	memcg_wake_pin_waiters(memcg);
	return err;
}

uint64_t memcg_margin(const struct mem_cgroup *memcg)
{
	uint64_t margin = PAGE_COUNTER_MAX;

	for (; memcg; memcg = memcg->parent) {
		uint64_t max = atomic_load_explicit(&memcg->memory.max, memory_order_relaxed);
		uint64_t usage = page_counter_usage(&memcg->memory);

		margin = min_u64(margin, usage < max ? max - usage : 0);
	}
	return margin;
}

uint64_t memcg_effective_max(const struct mem_cgroup *memcg)
{
	uint64_t max = PAGE_COUNTER_MAX;

	for (; memcg; memcg = memcg->parent)
		max = min_u64(max, atomic_load_explicit(&memcg->memory.max, memory_order_relaxed));
	return max;
}
