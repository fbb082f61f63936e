/* SPDX-License-Identifier: MIT */
/*
 * Walks over a memcg's subtree, in pre-order. Each step takes the tree lock for itself, so a walk
 * never holds up creating and destroying, and what it stands on may be unlinked between two steps.
 *
 * A memcg that was unlinked keeps its number and its parent, and lists of children are in order of
 * number (numbers grow, and children are added at the end). So the successor of an unlinked one is
 * its parent's first child with a greater number: nothing is visited twice or left out. Walks of
 * one caller rely on that. Shared positions could too, but their reference would keep a destroyed
 * memcg's block until the next walk comes by, so unlinking moves them one back.
 */
#include "memcg/memcontrol.h"

/* First of pos's siblings behind it; NULL if it is, or was, the last. */
static struct mem_cgroup *next_sibling(struct mem_cgroup *pos)
{
	struct list_head *children = &pos->parent->children;
	struct list_head *next;

	if (memcg_is_linked(pos)) {
		next = pos->sibling.next;
	} else {
		for (next = children->next; next != children; next = next->next)
			if (list_entry(next, struct mem_cgroup, sibling)->id > pos->id)
				break;
	}
	return next == children ? NULL : list_entry(next, struct mem_cgroup, sibling);
}

struct mem_cgroup *memcg_next(struct mem_cgroup *root, struct mem_cgroup *pos)
{
	struct mem_cgroup *next;

	lock_assert_held(&root->mm->threads, &root->mm->memcgs->tree_lock);
	if (!list_empty(&pos->children))
		return list_first_entry(&pos->children, struct mem_cgroup, sibling);
	for (; pos != root; pos = pos->parent) {
		next = next_sibling(pos);
		if (next)
			return next;
	}
	return NULL;
}

/* Pre-order predecessor of a linked memcg that is not the root of all. */
static struct mem_cgroup *memcg_prev(struct mem_cgroup *pos)
{
	struct mem_cgroup *prev;

	if (pos->sibling.prev == &pos->parent->children)
		return pos->parent;
	prev = list_entry(pos->sibling.prev, struct mem_cgroup, sibling);
	while (!list_empty(&prev->children))
		prev = list_last_entry(&prev->children, struct mem_cgroup, sibling);
	return prev;
}

struct mem_cgroup *memcg_iter(struct mem_cgroup *root, struct mem_cgroup *prev)
{
	struct mm *mm = root->mm;
	struct mem_cgroup *next;

	lock_acquire(&mm->threads, &mm->memcgs->tree_lock);
	VM_DEBUG_ON(prev && !memcg_is_descendant(prev, root));
	next = prev ? memcg_next(root, prev) : root;
	if (next)
		memcg_get(next);
	lock_release(&mm->threads, &mm->memcgs->tree_lock);
	if (prev)
		memcg_put(prev);
	return next;
}

/* Locks: holds MEMCG_TREE, under which a put may be the last. */
static void iter_set_position(struct reclaim_iter *iter, struct mem_cgroup *position)
{
	struct mem_cgroup *old = iter->position;

	if (position)
		memcg_get(position);
	iter->position = position;
	if (old)
		memcg_put(old);
}

/* One step of the common position; NULL if the walk that began at *generation is over. */
static struct mem_cgroup *iter_shared_step(struct mem_cgroup *root, struct reclaim_iter *iter,
					   bool first, uint32_t *generation)
{
	struct mem_cgroup *next;

	if (!memcg_is_linked(root))
		return NULL; /* a position would keep the dead root's block for ever */
	if (!first && iter->generation != *generation)
		return NULL;
	next = iter->position ? memcg_next(root, iter->position) : root;
	if (!next) {
		iter_set_position(iter, NULL);
		iter->generation++;
		if (!first)
			return NULL;
		next = root;
	}
	if (first)
		*generation = iter->generation;
	iter_set_position(iter, next);
	memcg_get(next);
	return next;
}

struct mem_cgroup *memcg_iter_shared(struct mem_cgroup *root, unsigned node,
				     struct mem_cgroup *prev, uint32_t *generation)
{
	struct mm *mm = root->mm;
	struct mem_cgroup *next;

	VM_BUG_ON(node >= mm->nr_nodes);
	lock_acquire(&mm->threads, &mm->memcgs->tree_lock);
	next = iter_shared_step(root, &root->lruvec[node].iter, prev == NULL, generation);
	lock_release(&mm->threads, &mm->memcgs->tree_lock);
	if (prev)
		memcg_put(prev);
	return next;
}

/*
 * Positions that can stand on the memcg are those of its ancestors, and its own. The predecessor is
 * inside the subtree of each proper ancestor, so these walks go on with what came behind the memcg.
 */
void memcg_iter_leave(struct mem_cgroup *memcg)
{
	struct mm *mm = memcg->mm;
	struct mem_cgroup *prev = memcg->parent ? memcg_prev(memcg) : NULL;

	lock_assert_held(&mm->threads, &mm->memcgs->tree_lock);
	VM_BUG_ON(!list_empty(&memcg->children));
	for (unsigned node = 0; node < mm->nr_nodes; node++) {
		struct mem_cgroup *pos;

		iter_set_position(&memcg->lruvec[node].iter, NULL);
		for (pos = memcg->parent; pos; pos = pos->parent)
			if (pos->lruvec[node].iter.position == memcg)
				iter_set_position(&pos->lruvec[node].iter, prev);
	}
}
