/* SPDX-License-Identifier: MIT */
/*
 * The end of a memcg's lists: everything on them moves to the parent's, one node at a time, under the
 * child's lru_lock and then the parent's. Both locks are needed: whoever looks up a lruvec and locks it
 * must find under the lock that it is still the right one (lruvec.c), and the lists and sizes of both
 * change. One node at a time keeps the number of locks held at two (R36).
 */
#include "lru/lru.h"

static void reparent_node(struct mm *mm, struct lruvec *child, struct lruvec *parent)
{
	bool shared = child->lru_lock == parent->lru_lock;

	lruvec_lock(child);
	if (!shared)
		lock_acquire_nested(&mm->threads, parent->lru_lock, memcg_tag(parent->memcg));
	memcg_slots_point(child, parent);
	for (unsigned lru = 0; lru < NR_LRU_LISTS; lru++) {
		/* To the tail: the child's pages are the first to go. */
		list_splice_tail_init(&child->lists[lru], &parent->lists[lru]);
		lruvec_size_add(parent, lru, (int64_t)lruvec_size(child, lru));
		atomic_store_explicit(&child->nr[lru], 0, memory_order_relaxed);
	}
	if (!shared)
		lock_release(&mm->threads, parent->lru_lock);
	lruvec_unlock(child);
}

void lru_reparent(struct mem_cgroup *memcg)
{
	struct mm *mm = memcg->mm;
	struct mem_cgroup *parent = memcg->parent;

	VM_BUG_ON(!memcg_is_dying(memcg) || !parent);
	lock_acquire(&mm->threads, &mm->memcgs->tree_lock);
	for (unsigned node = 0; node < mm->nr_nodes; node++) {
		reparent_node(mm, &memcg->lruvec[node], &parent->lruvec[node]);
		memcg_slots_inherit(&memcg->lruvec[node], &parent->lruvec[node]);
	}
	lock_release(&mm->threads, &mm->memcgs->tree_lock);
	/* Those who wait for an unpin of the child's pages find them at the parent now. */
	memcg_wake_pin_waiters(memcg);
}
