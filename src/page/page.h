/* SPDX-License-Identifier: MIT */
/*
 * What a page is. struct page is the 64-byte record that every page frame has, for as long as the
 * instance lives (type-stable: a stale pointer to one may be read, and its reference count tried, at any
 * time). struct folio is the same record seen by those who cache, list, isolate and pin: a folio is one
 * or more contiguous pages handled as a whole, named by the record of its first page.
 *
 * Lock letters, one for each field (two letters: either to read, both to write):
 *   (C) constant  (A) atomic  (L) lruvec lock  (Z) zone lock or a CPU's page list lock
 *   (O) PG_lru owned: the caller cleared it, or it was never set since the page was allocated
 *   (X) the mapping's i_pages lock  (R) whoever holds the only reference
 */
#ifndef UMM_PAGE_PAGE_H
#define UMM_PAGE_PAGE_H

#include "base/list.h"

struct mapping;
struct pgdat;

/*
 * Page flags. All but PG_buddy and PG_pcp must be clear when a page is freed.
 *   PG_lru         is on an LRU list. Ownership token: test-and-clear it with a reference held to become
 *                  the one who may unlink the folio or change its memcg (protocol: lru/lru.h)
 *   PG_active      on an active list (O, and L while listed)
 *   PG_unevictable on the unevictable list (O, and L while listed)
 *   PG_pinned      ... because reclaim or a drain found it pinned; the last unpin moves it back (O)
 *   PG_referenced  used since reclaim last looked (A, anyone)
 *   PG_workingset  was active before (O)
 *   PG_swapbacked  anonymous: counts on the anon lists (C while cached)
 *   PG_kernel      allocated by umm_alloc: never on an LRU list (C)
 *   PG_buddy       head of a free block (Z)
 *   PG_pcp         on a CPU's free page list (Z)
 *   PG_tail        not the first page of its folio or free block (R)
 */
enum page_flag {
	PG_lru,
	PG_active,
	PG_unevictable,
	PG_pinned,
	PG_referenced,
	PG_workingset,
	PG_swapbacked,
	PG_kernel,
	PG_buddy,
	PG_pcp,
	PG_tail,
	NR_PAGE_FLAGS,
};

#define PG_BIT(flag) (1u << (flag))

/* Flags that a page may not carry when it is freed: each is somebody's claim on it. */
#define PG_CHECK_AT_FREE                                                                   \
	(PG_BIT(PG_lru) | PG_BIT(PG_active) | PG_BIT(PG_unevictable) | PG_BIT(PG_pinned) | \
	 PG_BIT(PG_buddy) | PG_BIT(PG_pcp) | PG_BIT(PG_tail))

/* Number of a memcg's per-node slot (memcg/memcontrol.h); 0: not charged. */
typedef uint32_t memcg_slot_t;
#define MEMCG_SLOT_NONE 0u

struct folio {
	_Atomic uint32_t flags;            /* (A) */
	_Atomic int32_t refcount;          /* (A) 0: free, or frozen by whoever froze it */
	struct list_head lru;              /* (L) listed; (O) isolated */
	_Atomic(struct mapping *) mapping; /* (X, R) NULL: not in a cache */
	_Atomic uint64_t index;            /* (R) page number in the mapping; stable while in it */
	struct pgdat *pgdat;               /* (C) node that the frame belongs to */
	_Atomic memcg_slot_t memcg_slot;   /* (O) who pays */
	uint8_t order;                     /* (R) the folio has 2^order pages */
	_Atomic uint8_t migratetype;       /* (Z) while PG_buddy or PG_pcp: free list it is on
					    (C) while allocated: type it was allocated as */
	uint16_t spare;
	_Atomic uint64_t private; /* (R) for the owner */
};

struct page {
	struct folio folio;
};
_Static_assert(sizeof(struct page) == 64, "2 % of memory for metadata is the budget");

static inline struct folio *page_folio(struct page *page)
{
	return &page->folio;
}

static inline struct page *folio_page(struct folio *folio)
{
	return container_of(folio, struct page, folio);
}

static inline bool folio_test(const struct folio *f, enum page_flag flag)
{
	return atomic_load_explicit(&f->flags, memory_order_relaxed) & PG_BIT(flag);
}

static inline void folio_set(struct folio *f, enum page_flag flag)
{
	atomic_fetch_or_explicit(&f->flags, PG_BIT(flag), memory_order_relaxed);
}

static inline void folio_clear(struct folio *f, enum page_flag flag)
{
	atomic_fetch_and_explicit(&f->flags, ~PG_BIT(flag), memory_order_relaxed);
}

static inline bool folio_test_clear(struct folio *f, enum page_flag flag)
{
	return atomic_fetch_and_explicit(&f->flags, ~PG_BIT(flag), memory_order_relaxed) &
	       PG_BIT(flag);
}

static inline unsigned long folio_nr_pages(const struct folio *f)
{
	return 1ul << f->order;
}

/* ---- references ---- */

static inline int32_t folio_ref_count(const struct folio *f)
{
	return atomic_load_explicit(&f->refcount, memory_order_acquire);
}

/* Another reference, by a holder of one. */
static inline void folio_get(struct folio *f)
{
	int32_t old = atomic_fetch_add_explicit(&f->refcount, 1, memory_order_relaxed);

	VM_DEBUG_ON(old <= 0);
	(void)old;
}

/* A reference on a folio that may be free or frozen; false then. */
static inline bool folio_try_get(struct folio *f)
{
	int32_t old = atomic_load_explicit(&f->refcount, memory_order_relaxed);

	while (old > 0)
		if (atomic_compare_exchange_weak_explicit(&f->refcount, &old, old + 1,
							  memory_order_acquire,
							  memory_order_relaxed))
			return true;
	return false;
}

/* Take all `expected` references at once, so that nobody can get a new one. False: there are others. */
static inline bool folio_ref_freeze(struct folio *f, int32_t expected)
{
	return atomic_compare_exchange_strong_explicit(&f->refcount, &expected, 0,
						       memory_order_acq_rel, memory_order_relaxed);
}

#endif
