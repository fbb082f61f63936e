/* SPDX-License-Identifier: MIT */
/*
 * The index of a mapping: page number -> folio, a 64-way radix tree that readers walk under RCU without
 * a lock. A lone entry at index 0 stands in the head without a node; nodes go as soon as they are empty,
 * and the tree is never higher than its last entry needs.
 *
 * An entry is one of
 *   a pointer aligned to 8, no tag     a folio
 *   a pointer with XA_TAG_FILL         a load in flight (cache/fill.h)
 *   (v << 1) | XA_TAG_VALUE            a value of 63 bits
 * which keeps the low three bits off 100, a node's; the tree looks at nothing else in an entry.
 *
 * Locking: changes under the mapping's i_pages lock; loads and finds under RCU or that lock.
 *
 * What a reader without the lock gets: for each index it looked at, what stood there at some moment
 * between its start and its end. A find is no snapshot: what is stored or erased meanwhile may be in it
 * or not. A mark is exact under the lock; without it, it is a hint about the index: a mark that stood all
 * the while is seen, but the entry may have changed since the mark was read.
 */
#ifndef UMM_CACHE_XARRAY_H
#define UMM_CACHE_XARRAY_H

#include "page/mmzone.h"

#define XA_SHIFT 6
#define XA_SLOTS (1u << XA_SHIFT)
#define XA_TAG_VALUE 1ul
#define XA_TAG_FILL 2ul
#define XA_TAG_NODE 4ul /* internal */
#define XA_TAG_MASK 7ul

/* Marks: a bit for each entry, and in each node above the OR of those below. */
enum xa_mark { XA_MARK_DIRTY, XA_MARK_WRITEBACK, XA_MARK_TOWRITE, NR_XA_MARKS };

struct xa_node {
	_Atomic(void *) slot[XA_SLOTS];
	struct xa_node *parent;             /* (X) */
	uint8_t shift;                      /* (C) slot i covers 2^shift indexes */
	uint8_t offset;                     /* (C) slot of parent that this is; 0 for the topmost */
	_Atomic uint64_t used;              /* (X) to write: slots in use, a bit each */
	_Atomic uint64_t mark[NR_XA_MARKS]; /* (X) to write */
	struct rcu_head rcu;
};
_Static_assert(sizeof(struct xa_node) == 576, "9 bytes an entry when dense");

struct xarray {
	_Atomic(void *) head;      /* (X) to write: NULL, the entry at index 0, a tagged node */
	_Atomic uint8_t head_mark; /* (X) to write: of an entry in the head, else of no meaning */
};

void xa_init(struct xarray *xa);

static inline bool xa_is_node(const void *entry)
{
	return ((uintptr_t)entry & XA_TAG_MASK) == XA_TAG_NODE;
}

static inline struct xa_node *xa_to_node(const void *entry)
{
	return (struct xa_node *)((uintptr_t)entry - XA_TAG_NODE);
}

/* The entry at index, NULL if none. The hot path of every read. */
static inline void *xa_load(const struct xarray *xa, uint64_t index)
{
	void *entry = atomic_load_explicit(&xa->head, memory_order_acquire);

	if (!xa_is_node(entry))
		return index == 0 ? entry : NULL;
	struct xa_node *node = xa_to_node(entry);
	/* Counted down here: the shift of each lower node would cost another cache line. */
	unsigned shift = node->shift;

	/* Two shifts, as their sum can pass 63. */
	if (unlikely(index >> shift >> XA_SHIFT))
		return NULL;
	for (;;) {
		entry = atomic_load_explicit(&node->slot[(index >> shift) & (XA_SLOTS - 1)],
					     memory_order_acquire);
		if (shift == 0 || !entry)
			return entry;
		node = xa_to_node(entry);
		shift -= XA_SHIFT;
	}
}

/*
 * Store an entry, or NULL to erase; *ret_old, if not NULL, gets what stood there. Replacing an entry
 * and erasing never fail. -ENOMEM: no node (fault point FAULT_INDEX), and the tree is as it was. Marks of
 * a replaced entry stay, those of an erased one go. Nodes that become empty are freed after a grace
 * period (rcu_defer).
 * Locks: holds i_pages. Nothing is freed under it, but nodes are allocated.
 */
int xa_store(struct mm *mm, struct xarray *xa, uint64_t index, void *entry, void **ret_old);

/* First entry in [*index, last], NULL if none; *index gets its position, and stays as it is if none.
 * Empty ranges cost nothing: the time is that of the nodes between *index and the entry. */
void *xa_find(const struct xarray *xa, uint64_t *index, uint64_t last);

/* Setting or clearing a mark where there is no entry does nothing. */
void xa_set_mark(struct xarray *xa, uint64_t index, enum xa_mark mark);
void xa_clear_mark(struct xarray *xa, uint64_t index, enum xa_mark mark);
bool xa_get_mark(const struct xarray *xa, uint64_t index, enum xa_mark mark);
void *xa_find_marked(const struct xarray *xa, uint64_t *index, uint64_t last, enum xa_mark mark);

/* Nodes in use by this tree (walks it; for tests and checks). Locks: holds i_pages, or RCU. */
uint64_t xa_nr_nodes(const struct xarray *xa);

#endif
