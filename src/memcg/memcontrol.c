/* SPDX-License-Identifier: MIT */
/*
 * Life of memcgs: the instance's domain, creation, destruction, references. Owns the tree; the
 * slots are slot.c's, charges charge.c's and page_counter.c's, LRU lists lru/'s.
 *
 * Who may look at a memcg when. There are two ways to come by a pointer to one: with a reference,
 * or through a slot inside an RCU read section. memcg_unlink runs after lru_reparent has pointed
 * all slots of the memcg elsewhere and then waits for a grace period, so when it drops the tree's
 * reference the second way has been closed for good and only references are left. Therefore the put
 * that drops the last of them frees the block on the spot: no second grace period, and no block
 * that is dead but waits for a batch of others (field case K-02: blocks in existence are the live
 * ones and those that somebody holds on to).
 */
#include "memcg/memcontrol.h"

#include <string.h>

/* Inherited slots looked at in each create and each unlink. A slot becomes free at most once for
 * each unlink, so at a few looks a slot the ring holds not many more than are in use. */
#define SLOTS_REAP_BUDGET 16

/* ---- blocks ---- */

static void lruvec_init(struct mem_cgroup *memcg, unsigned node)
{
	struct mm *mm = memcg->mm;
	struct lruvec *lruvec = &memcg->lruvec[node];

	for (unsigned lru = 0; lru < NR_LRU_LISTS; lru++) {
		list_init(&lruvec->lists[lru]);
		atomic_init(&lruvec->nr[lru], 0);
	}
	lock_init(&lruvec->own_lock, LOCK_LRUVEC);
	lruvec->lru_lock = mm->opt.lru_lock == UMM_LRU_LOCK_NODE ? &mm->node[node].lru_lock
								 : &lruvec->own_lock;
	lruvec->memcg = memcg;
	lruvec->pgdat = &mm->node[node];
	lruvec->slot = MEMCG_SLOT_NONE;
	lruvec->inherited = MEMCG_SLOT_NONE;
}

/* A block with nothing of the outside world in it yet. NULL: no memory. */
static struct mem_cgroup *memcg_alloc(struct mm *mm, const char *name)
{
	size_t fixed = sizeof(struct mem_cgroup) + mm->nr_nodes * sizeof(struct lruvec);
	size_t name_bytes = strlen(name) + 1;
	struct mem_cgroup *memcg;

	VM_BUG_ON(mm->nr_nodes == 0 || mm->nr_nodes > UMM_MAX_NODES);
	memcg = os_alloc_aligned(CACHE_LINE, round_up_u64(fixed + name_bytes, CACHE_LINE));
	if (!memcg)
		return NULL;
	memcg->mm = mm;
	memcg->name = memcpy((char *)memcg + fixed, name, name_bytes);
	atomic_init(&memcg->memory.max, PAGE_COUNTER_MAX);
	atomic_init(&memcg->refcount, 1);
	list_init(&memcg->children);
	list_init(&memcg->sibling);
	pin_queue_init(&memcg->pin_queue);
	lock_init(&memcg->limit_lock, LOCK_RECLAIM_SET);
	for (unsigned node = 0; node < mm->nr_nodes; node++)
		lruvec_init(memcg, node);
	atomic_fetch_add_explicit(&mm->memcgs->nr_blocks, 1, memory_order_relaxed);
	return memcg;
}

static void memcg_free(struct mem_cgroup *memcg)
{
	struct memcg_domain *dom = memcg->mm->memcgs;

	VM_BUG_ON(!list_empty(&memcg->children));
	VM_BUG_ON(!list_empty(&memcg->pin_queue.waiters));
	VM_BUG_ON(atomic_load_explicit(&memcg->nr_stocks, memory_order_relaxed) != 0);
	memcg_slots_disown(memcg);
	os_free(atomic_load_explicit(&memcg->reads, memory_order_relaxed));
	os_free(memcg);
	atomic_fetch_sub_explicit(&dom->nr_blocks, 1, memory_order_relaxed);
}

/* Give the block its number, its slots and its place in the tree. Locks: holds MEMCG_TREE. */
static int memcg_link(struct mem_cgroup *memcg, struct mem_cgroup *parent)
{
	struct memcg_domain *dom = memcg->mm->memcgs;
	uint32_t id = atomic_load_explicit(&dom->next_id, memory_order_relaxed);
	int err;

	if (id == LOCK_NO_TAG)
		return -ENOSPC; /* four billion memcgs; numbers are not reused */
	err = memcg_slots_alloc(memcg);
	if (err)
		return err;
	atomic_store_explicit(&dom->next_id, id + 1, memory_order_relaxed);
	memcg->id = id;
	memcg->parent = parent;
	if (parent) {
		memcg_get(parent);
		memcg->depth = parent->depth + 1;
		list_add_tail(&memcg->sibling, &parent->children);
		atomic_fetch_add_explicit(&parent->nr_children, 1, memory_order_relaxed);
	}
	memcg_slots_publish(memcg);
	atomic_fetch_add_explicit(&dom->nr_live, 1, memory_order_relaxed);
	return 0;
}

/* ---- instance ---- */

/* Lines for counting reads: a power of two, some for each CPU so that few threads share one. */
static uint32_t reads_lines(unsigned nr_cpus)
{
	uint32_t lines = 8;

	while (lines < 2 * nr_cpus && lines < 256)
		lines *= 2;
	return lines;
}

int memcg_domain_init(struct mm *mm)
{
	struct memcg_domain *dom;
	struct mem_cgroup *root;
	int err = -ENOMEM;

	VM_BUG_ON(mm->memcgs != NULL || mm->nr_cpus == 0);
	dom = os_alloc(sizeof(*dom));
	if (!dom)
		return -ENOMEM;
	lock_init(&dom->tree_lock, LOCK_MEMCG_TREE);
	dom->reads_mask = reads_lines(mm->nr_cpus) - 1;
	mm->memcgs = dom;
	if (memcg_slots_init(dom))
		goto out_dom;
	if (memcg_stock_init(mm))
		goto out_slots;
	root = memcg_alloc(mm, "root");
	if (!root)
		goto out_stock;
	lock_acquire(&mm->threads, &dom->tree_lock);
	err = memcg_link(root, NULL);
	lock_release(&mm->threads, &dom->tree_lock);
	VM_BUG_ON(err); /* the table is empty */
	dom->root = root;
	/* Charges come before frames: without this the sum of those under way could exceed the budget. */
	atomic_store_explicit(&root->memory.max, mm->nr_pages, memory_order_relaxed);
	return 0;

out_stock:
	memcg_stock_fini(mm);
out_slots:
	memcg_slots_fini(dom);
out_dom:
	os_free(dom);
	mm->memcgs = NULL;
	return err;
}

void memcg_domain_fini(struct mm *mm)
{
	struct memcg_domain *dom = mm->memcgs;
	struct mem_cgroup *root;

	if (!dom)
		return;
	root = dom->root;
	VM_BUG_ON(!list_empty(&root->children));
	memcg_drain_stock(mm, NULL);
	lock_acquire(&mm->threads, &dom->tree_lock);
	memcg_iter_leave(root);
	lock_release(&mm->threads, &dom->tree_lock);
	atomic_store_explicit(&root->dead, true, memory_order_relaxed);
	memcg_put(root);
	VM_DEBUG_ON(atomic_load_explicit(&dom->nr_blocks, memory_order_relaxed) != 0);
	memcg_stock_fini(mm);
	memcg_slots_fini(dom);
	os_free(dom);
	mm->memcgs = NULL;
}

struct mem_cgroup *root_memcg(struct mm *mm)
{
	return mm->memcgs->root;
}

uint64_t memcg_nr_blocks(struct mm *mm)
{
	return atomic_load_explicit(&mm->memcgs->nr_blocks, memory_order_relaxed);
}

uint64_t memcg_nr_live(struct mm *mm)
{
	return atomic_load_explicit(&mm->memcgs->nr_live, memory_order_relaxed);
}

/* ---- life ---- */

static void memcg_reap_slots(struct mem_cgroup *memcg)
{
	for (unsigned node = 0; node < memcg->mm->nr_nodes; node++)
		memcg_slots_reap(&memcg->lruvec[node], SLOTS_REAP_BUDGET);
}

int memcg_create(struct mm *mm, struct mem_cgroup *parent, const char *name,
		 struct mem_cgroup **ret)
{
	struct memcg_domain *dom = mm->memcgs;
	struct mem_cgroup *memcg;
	int err;

	VM_BUG_ON(parent->mm != mm);
	if (parent->depth >= UMM_MAX_DEPTH)
		return -ENOSPC;
	memcg = memcg_alloc(mm, name);
	if (!memcg)
		return -ENOMEM;

	lock_acquire(&mm->threads, &dom->tree_lock);
	if (memcg_is_dying(parent)) {
		err = -ESTALE;
	} else {
		memcg_reap_slots(parent);
		err = memcg_link(memcg, parent);
	}
	lock_release(&mm->threads, &dom->tree_lock);
	if (err)
		memcg_free(memcg); /* never seen by anybody */
	else
		*ret = memcg;
	return err;
}

int memcg_mark_dying(struct mem_cgroup *memcg)
{
	struct mm *mm = memcg->mm;
	int err = 0;

	lock_acquire(&mm->threads, &mm->memcgs->tree_lock);
	if (memcg_is_dying(memcg))
		err = -ESTALE;
	else if (!memcg->parent || !list_empty(&memcg->children))
		err = -EBUSY;
	else
		atomic_store_explicit(&memcg->dying, true, memory_order_seq_cst);
	lock_release(&mm->threads, &mm->memcgs->tree_lock);
	/* What they wait for happens at the parent from now on. Who joins after this sees `dying`
	 * in the attempt that has to follow joining. */
	if (!err)
		pin_queue_wake_all(memcg);
	return err;
}

/* lru_reparent must have come first: nobody can find the memcg through a slot any more. */
static void memcg_check_reparented(struct mem_cgroup *memcg)
{
	for (unsigned node = 0; node < memcg->mm->nr_nodes; node++) {
		struct lruvec *lruvec = &memcg->lruvec[node];
		struct memcg_slot *slot = memcg_slot(memcg->mm, lruvec->slot);

		VM_BUG_ON(atomic_load_explicit(&slot->lruvec, memory_order_relaxed) == lruvec);
		VM_BUG_ON(lruvec->inherited != MEMCG_SLOT_NONE);
		for (unsigned lru = 0; lru < NR_LRU_LISTS; lru++)
			VM_BUG_ON(!list_empty(&lruvec->lists[lru]));
	}
}

void memcg_unlink(struct mem_cgroup *memcg)
{
	struct mm *mm = memcg->mm;
	struct memcg_domain *dom = mm->memcgs;
	memcg_slot_t ripe;

	VM_BUG_ON(!memcg_is_dying(memcg) || !memcg->parent);
	memcg_check_reparented(memcg);
	memcg_drain_stock(mm, memcg);

	/*
	 * After the grace period (a) nobody reads the block without a reference, (b) who counted
	 * here without seeing `dead` has finished, so the counters stand still, (c) nobody knows
	 * the number of a slot that was in limbo before it. Between `dead` and the fold new counts
	 * go to the parent and the old ones are still found here: a sum over the parent misses
	 * nothing.
	 */
	atomic_store_explicit(&memcg->dead, true, memory_order_seq_cst);
	lock_acquire(&mm->threads, &dom->tree_lock);
	ripe = memcg_slots_take_limbo(mm);
	lock_release(&mm->threads, &dom->tree_lock);
	rcu_synchronize(&mm->rcu);
	VM_BUG_ON(atomic_load_explicit(&memcg->nr_stocks, memory_order_relaxed) != 0);

	lock_acquire(&mm->threads, &dom->tree_lock);
	memcg_fold_counters(memcg);
	memcg_iter_leave(memcg);
	list_del(&memcg->sibling);
	atomic_fetch_sub_explicit(&memcg->parent->nr_children, 1, memory_order_relaxed);
	memcg_slots_free(mm, ripe);
	memcg_reap_slots(memcg->parent);
	atomic_fetch_sub_explicit(&dom->nr_live, 1, memory_order_relaxed);
	lock_release(&mm->threads, &dom->tree_lock);
	memcg_put(memcg);
}

bool memcg_try_get(struct mem_cgroup *memcg)
{
	uint32_t old = atomic_load_explicit(&memcg->refcount, memory_order_relaxed);

	while (old > 0)
		if (atomic_compare_exchange_weak_explicit(&memcg->refcount, &old, old + 1,
							  memory_order_acquire,
							  memory_order_relaxed))
			return true;
	return false;
}

/* A block that goes away drops its reference on the parent, and so on: at most UMM_MAX_DEPTH + 1. */
void memcg_put(struct mem_cgroup *memcg)
{
	lock_assert_may_sleep(&memcg->mm->threads);
	while (memcg) {
		struct mem_cgroup *parent = memcg->parent;
		uint32_t old = atomic_fetch_sub_explicit(&memcg->refcount, 1, memory_order_acq_rel);

		VM_BUG_ON(old == 0);
		if (old > 1)
			return;
		VM_BUG_ON(!atomic_load_explicit(&memcg->dead, memory_order_relaxed));
		memcg_free(memcg);
		memcg = parent;
	}
}

bool memcg_is_descendant(const struct mem_cgroup *memcg, const struct mem_cgroup *root)
{
	while (memcg && memcg->depth > root->depth)
		memcg = memcg->parent;
	return memcg == root;
}
