/* SPDX-License-Identifier: MIT */
/*
 * The radix tree behind a mapping's index. Knows nodes, slots and marks; what an entry means is the
 * caller's business.
 *
 * Why readers need no lock:
 *   - A node is complete before a release store makes it reachable, and its shift never changes.
 *   - A node that is no longer reachable keeps its contents until a grace period has passed. If it
 *     went because it was empty, a reader in it finds nothing, as was right when it went. If it went
 *     because only slot 0 was left and what is there took its place, slot 0 stays: clearing it would
 *     make an entry look absent that never was.
 *   - `used` holds at least the slots that are not NULL: a bit is set before its slot is filled and
 *     cleared after. So a find misses nothing that a load would see.
 */
#include "cache/xarray.h"

#include "base/fault.h"

/* Besides the marks, a find can look for any entry. */
#define XA_ANY NR_XA_MARKS

void xa_init(struct xarray *xa)
{
	atomic_init(&xa->head, NULL);
	atomic_init(&xa->head_mark, 0);
}

/* ---- nodes ---- */

static void *node_to_entry(struct xa_node *node)
{
	return (void *)((uintptr_t)node + XA_TAG_NODE);
}

static void node_free_rcu(struct rcu_head *head)
{
	os_free(container_of(head, struct xa_node, rcu));
}

/* Nodes that nobody ever saw go this way too: nothing is to be freed under the i_pages lock. */
static void node_free(struct mm *mm, struct xa_node *node)
{
	atomic_fetch_sub_explicit(&mm->nr_index_nodes, 1, memory_order_relaxed);
	rcu_defer(&mm->rcu, &node->rcu, node_free_rcu);
}

/* Get `nr` nodes, chained by `parent`, before anything is changed: so a failure has nothing to undo. */
static int nodes_alloc(struct mm *mm, unsigned nr, struct xa_node **ret_nodes)
{
	struct xa_node *chain = NULL, *node;

	for (; nr; nr--) {
		/* Not aligned to cache lines: a load touches one slot, and the allocator would take
		 * 11.2 bytes an entry for it instead of 9.4. */
		node = fault_point(FAULT_INDEX) ? NULL : os_alloc(sizeof(*node));
		if (!node)
			goto out_free;
		atomic_fetch_add_explicit(&mm->nr_index_nodes, 1, memory_order_relaxed);
		node->parent = chain;
		chain = node;
	}
	*ret_nodes = chain;
	return 0;

out_free:
	while (chain) {
		node = chain;
		chain = node->parent;
		node_free(mm, node);
	}
	return -ENOMEM;
}

static struct xa_node *nodes_take(struct xa_node **nodes, unsigned shift, struct xa_node *parent,
				  unsigned offset)
{
	struct xa_node *node = *nodes;

	VM_BUG_ON(!node);
	*nodes = node->parent;
	node->parent = parent;
	node->shift = (uint8_t)shift;
	node->offset = (uint8_t)offset;
	return node;
}

static uint64_t bits_get(const _Atomic uint64_t *bits)
{
	return atomic_load_explicit(bits, memory_order_acquire);
}

/* Writers hold the lock, so that a load and a store do; the release is for those who walk without. */
static void bits_set(_Atomic uint64_t *bits, uint64_t value)
{
	atomic_store_explicit(bits, value, memory_order_release);
}

static unsigned slot_of(uint64_t index, unsigned shift)
{
	return (index >> shift) & (XA_SLOTS - 1);
}

static void *slot_get(const struct xa_node *node, unsigned offset)
{
	return atomic_load_explicit(&node->slot[offset], memory_order_acquire);
}

static void slot_fill(struct xa_node *node, unsigned offset, void *entry)
{
	uint64_t used = bits_get(&node->used);

	if (!(used & 1ull << offset))
		bits_set(&node->used, used | 1ull << offset);
	atomic_store_explicit(&node->slot[offset], entry, memory_order_release);
}

static void slot_clear(struct xa_node *node, unsigned offset)
{
	VM_DEBUG_ON(!slot_get(node, offset));
	atomic_store_explicit(&node->slot[offset], NULL, memory_order_release);
	bits_set(&node->used, bits_get(&node->used) & ~(1ull << offset));
}

static void *head_get(const struct xarray *xa)
{
	return atomic_load_explicit(&xa->head, memory_order_acquire);
}

static void head_set(struct xarray *xa, void *entry)
{
	atomic_store_explicit(&xa->head, entry, memory_order_release);
}

static uint8_t head_mark_get(const struct xarray *xa)
{
	return atomic_load_explicit(&xa->head_mark, memory_order_acquire);
}

static void head_mark_set(struct xarray *xa, uint8_t marks)
{
	atomic_store_explicit(&xa->head_mark, marks, memory_order_release);
}

/* Shift of the lowest topmost node that reaches `index`. */
static unsigned shift_for(uint64_t index)
{
	unsigned shift = 0;

	while (index >> shift >> XA_SHIFT)
		shift += XA_SHIFT;
	return shift;
}

/* The lowest node on the way from `head` to `index`, NULL if the way ends above it. */
static struct xa_node *leaf_find(void *head, uint64_t index)
{
	struct xa_node *node;
	unsigned shift;
	void *entry;

	if (!xa_is_node(head))
		return NULL;
	node = xa_to_node(head);
	shift = node->shift;
	if (index >> shift >> XA_SHIFT)
		return NULL;
	for (; shift; shift -= XA_SHIFT) {
		entry = slot_get(node, slot_of(index, shift));
		if (!entry)
			return NULL;
		node = xa_to_node(entry);
	}
	return node;
}

/* ---- marks ---- */

static void mark_set(struct xa_node *node, unsigned offset, enum xa_mark mark)
{
	while (node) {
		uint64_t bits = bits_get(&node->mark[mark]);

		if (bits & 1ull << offset)
			return;
		bits_set(&node->mark[mark], bits | 1ull << offset);
		offset = node->offset;
		node = node->parent;
	}
}

static void mark_clear(struct xa_node *node, unsigned offset, enum xa_mark mark)
{
	while (node) {
		uint64_t bits = bits_get(&node->mark[mark]);

		if (!(bits & 1ull << offset))
			return;
		bits &= ~(1ull << offset);
		bits_set(&node->mark[mark], bits);
		if (bits)
			return;
		offset = node->offset;
		node = node->parent;
	}
}

void xa_set_mark(struct xarray *xa, uint64_t index, enum xa_mark mark)
{
	struct xa_node *node = leaf_find(head_get(xa), index);

	if (node) {
		if (slot_get(node, slot_of(index, 0)))
			mark_set(node, slot_of(index, 0), mark);
	} else if (xa_load(xa, index)) {
		head_mark_set(xa, (uint8_t)(head_mark_get(xa) | 1u << mark));
	}
}

void xa_clear_mark(struct xarray *xa, uint64_t index, enum xa_mark mark)
{
	struct xa_node *node = leaf_find(head_get(xa), index);

	if (node)
		mark_clear(node, slot_of(index, 0), mark);
	else if (xa_load(xa, index))
		head_mark_set(xa, (uint8_t)(head_mark_get(xa) & ~(1u << mark)));
}

bool xa_get_mark(const struct xarray *xa, uint64_t index, enum xa_mark mark)
{
	/* Read once: a second time an entry may stand there, and its marks would look absent. */
	void *head = head_get(xa);
	struct xa_node *node;

	if (!xa_is_node(head))
		return index == 0 && head && head_mark_get(xa) >> mark & 1;
	node = leaf_find(head, index);
	return node && bits_get(&node->mark[mark]) >> slot_of(index, 0) & 1;
}

/* ---- store ---- */

/* How many nodes are missing on the way to `index`. */
static unsigned nodes_missing(const struct xarray *xa, uint64_t index)
{
	void *entry = head_get(xa);
	unsigned levels = shift_for(index) / XA_SHIFT, shift;
	struct xa_node *node;

	if (!entry)
		return levels + 1;
	/* A lowest node for the entry in the head, others above it, and as many down to `index`. */
	if (!xa_is_node(entry))
		return 1 + 2 * levels;
	node = xa_to_node(entry);
	shift = node->shift;
	if (index >> shift >> XA_SHIFT)
		return levels - shift / XA_SHIFT + levels;
	for (; shift; shift -= XA_SHIFT) {
		entry = slot_get(node, slot_of(index, shift));
		if (!entry)
			return shift / XA_SHIFT;
		node = xa_to_node(entry);
	}
	return 0;
}

/* Put nodes on top until the tree reaches up to `shift`. */
static void tree_raise(struct xarray *xa, unsigned shift, struct xa_node **nodes)
{
	void *head = head_get(xa);
	struct xa_node *node, *top;
	unsigned m;

	if (xa_is_node(head)) {
		node = xa_to_node(head);
	} else {
		node = nodes_take(nodes, head ? 0 : shift, NULL, 0);
		if (head) {
			slot_fill(node, 0, head);
			for (m = 0; m < NR_XA_MARKS; m++)
				bits_set(&node->mark[m], head_mark_get(xa) >> m & 1);
		}
		/* head_mark stays: a reader that saw the entry in the head may be about to read it. */
		head_set(xa, node_to_entry(node));
	}
	while (node->shift < shift) {
		top = nodes_take(nodes, node->shift + XA_SHIFT, NULL, 0);
		slot_fill(top, 0, node_to_entry(node));
		for (m = 0; m < NR_XA_MARKS; m++)
			bits_set(&top->mark[m], bits_get(&node->mark[m]) != 0);
		node->parent = top;
		head_set(xa, node_to_entry(top));
		node = top;
	}
}

/* Make the way to `index` from `nodes`, which are as many as it takes. Return its lowest node. */
static struct xa_node *tree_extend(struct xarray *xa, uint64_t index, struct xa_node *nodes)
{
	struct xa_node *node;
	unsigned shift, offset;
	void *entry;

	tree_raise(xa, shift_for(index), &nodes);
	node = xa_to_node(head_get(xa));
	for (shift = node->shift; shift; shift -= XA_SHIFT) {
		offset = slot_of(index, shift);
		entry = slot_get(node, offset);
		if (!entry) {
			entry = node_to_entry(nodes_take(&nodes, shift - XA_SHIFT, node, offset));
			slot_fill(node, offset, entry);
		}
		node = xa_to_node(entry);
	}
	VM_BUG_ON(nodes);
	return node;
}

/* Drop nodes from the top while only slot 0 of the topmost is in use: what is in it takes its place. */
static void tree_lower(struct mm *mm, struct xarray *xa)
{
	void *head, *entry;
	struct xa_node *node;
	uint8_t marks;
	unsigned m;

	while (xa_is_node(head = head_get(xa))) {
		node = xa_to_node(head);
		if (bits_get(&node->used) != 1)
			return;
		entry = slot_get(node, 0);
		if (node->shift) {
			xa_to_node(entry)->parent = NULL;
		} else {
			for (m = 0, marks = 0; m < NR_XA_MARKS; m++)
				marks |= (uint8_t)((bits_get(&node->mark[m]) & 1) << m);
			head_mark_set(xa, marks);
		}
		head_set(xa, entry);
		node_free(mm, node);
	}
}

/* Unlink a node and those above it that are empty. */
static void tree_prune(struct mm *mm, struct xarray *xa, struct xa_node *node)
{
	while (node && !bits_get(&node->used)) {
		struct xa_node *parent = node->parent;

		if (parent)
			slot_clear(parent, node->offset);
		else
			head_set(xa, NULL);
		node_free(mm, node);
		node = parent;
	}
}

static void *xa_erase(struct mm *mm, struct xarray *xa, uint64_t index)
{
	struct xa_node *node = leaf_find(head_get(xa), index);
	unsigned offset = slot_of(index, 0), m;
	void *old;

	if (!node) {
		old = xa_load(xa, index);
		if (old)
			head_set(xa, NULL);
		return old;
	}
	old = slot_get(node, offset);
	if (!old)
		return NULL;
	for (m = 0; m < NR_XA_MARKS; m++)
		mark_clear(node, offset, m);
	slot_clear(node, offset);
	tree_prune(mm, xa, node);
	tree_lower(mm, xa);
	return old;
}

int xa_store(struct mm *mm, struct xarray *xa, uint64_t index, void *entry, void **ret_old)
{
	struct xa_node *node, *nodes = NULL;
	void *old = NULL;
	int r;

	VM_DEBUG_ON(xa_is_node(entry));
	if (!entry) {
		old = xa_erase(mm, xa, index);
		goto out;
	}
	node = leaf_find(head_get(xa), index);
	if (!node && index == 0 && !xa_is_node(head_get(xa))) {
		old = head_get(xa);
		if (!old)
			head_mark_set(xa, 0);
		head_set(xa, entry);
		goto out;
	}
	if (!node) {
		r = nodes_alloc(mm, nodes_missing(xa, index), &nodes);
		if (r)
			return r;
		node = tree_extend(xa, index, nodes);
	}
	old = slot_get(node, slot_of(index, 0));
	slot_fill(node, slot_of(index, 0), entry);
out:
	if (ret_old)
		*ret_old = old;
	return 0;
}

/* ---- find ---- */

/* The slots of a node that may lead to what is looked for. */
static uint64_t node_bits(const struct xa_node *node, unsigned which)
{
	return bits_get(which == XA_ANY ? &node->used : &node->mark[which]);
}

/* The first entry of a node at or after slot *offset; *offset gets its slot. */
static void *node_next(const struct xa_node *node, unsigned *offset, unsigned which)
{
	uint64_t bits = node_bits(node, which) & ~0ull << *offset;

	for (; bits; bits &= bits - 1) {
		unsigned o = (unsigned)__builtin_ctzll(bits);
		void *entry = slot_get(node, o);

		if (entry) {
			*offset = o;
			return entry;
		}
	}
	return NULL;
}

/*
 * One walk down from the head. Return the first entry at or after *at, and move *at to it; or NULL with
 * *at moved past a node in which there is none, 0 if there is nothing further.
 */
static void *find_step(const struct xarray *xa, uint64_t *at, unsigned which)
{
	void *entry = head_get(xa);
	struct xa_node *node;
	unsigned shift, offset;

	if (!xa_is_node(entry)) {
		if (entry && *at == 0 && (which == XA_ANY || head_mark_get(xa) >> which & 1))
			return entry;
		*at = 0;
		return NULL;
	}
	node = xa_to_node(entry);
	shift = node->shift;
	if (*at >> shift >> XA_SHIFT) {
		*at = 0;
		return NULL;
	}
	for (;; shift -= XA_SHIFT) {
		offset = slot_of(*at, shift);
		entry = node_next(node, &offset, which);
		if (!entry) {
			/* Past the very last index this comes out as 0. */
			*at = ((*at >> shift | (XA_SLOTS - 1)) + 1) << shift;
			return NULL;
		}
		if (offset != slot_of(*at, shift))
			*at = ((*at >> shift & ~(uint64_t)(XA_SLOTS - 1)) | offset) << shift;
		if (!shift)
			return entry;
		node = xa_to_node(entry);
	}
}

/* Each turn leaves a node behind for good, so there are at most as many as nodes in the range. */
static void *find(const struct xarray *xa, uint64_t *index, uint64_t last, unsigned which)
{
	uint64_t at = *index;

	while (at <= last) {
		void *entry = find_step(xa, &at, which);

		if (entry) {
			if (at > last)
				return NULL;
			*index = at;
			return entry;
		}
		if (!at)
			return NULL;
	}
	return NULL;
}

void *xa_find(const struct xarray *xa, uint64_t *index, uint64_t last)
{
	return find(xa, index, last, XA_ANY);
}

void *xa_find_marked(const struct xarray *xa, uint64_t *index, uint64_t last, enum xa_mark mark)
{
	return find(xa, index, last, mark);
}

/* At most eleven levels deep. */
static uint64_t nodes_count(const struct xa_node *node, unsigned shift)
{
	uint64_t bits = bits_get(&node->used), nr = 1;

	for (; shift && bits; bits &= bits - 1) {
		void *entry = slot_get(node, (unsigned)__builtin_ctzll(bits));

		if (entry)
			nr += nodes_count(xa_to_node(entry), shift - XA_SHIFT);
	}
	return nr;
}

uint64_t xa_nr_nodes(const struct xarray *xa)
{
	void *head = head_get(xa);

	return xa_is_node(head) ? nodes_count(xa_to_node(head), xa_to_node(head)->shift) : 0;
}
