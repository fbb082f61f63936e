/* SPDX-License-Identifier: MIT */
/*
 * Where pages live: the instance's arena, cut into nodes (pgdat), each with one zone of free areas, and
 * the lruvec, which ties a node to a memcg. Data only; lists of free pages are alloc/'s to change,
 * LRU lists lru/'s.
 *
 * There is one zone a node: no device in this process needs memory of a certain address.
 */
#ifndef UMM_PAGE_MMZONE_H
#define UMM_PAGE_MMZONE_H

#include "base/lock.h"
#include "base/rcu.h"
#include "page/page.h"
#include <umm.h>

struct mem_cgroup;
struct memcg_domain;
struct lru_cpu;
struct lru_drain;
struct mapping_table;
struct os_io;
struct pcp;
struct mm;

#define MAX_ORDER UMM_MAX_ORDER
#define NR_ORDERS (MAX_ORDER + 1)
#define PAGEBLOCK_ORDER 9
#define PAGEBLOCK_PAGES (1ul << PAGEBLOCK_ORDER)

/*
 * Whom a pageblock's pages are for, so that those that never move gather in few blocks. Free pages stand
 * on the lists of their pageblock's type. A pageblock that is free as a whole is MOVABLE: it has no past.
 */
enum migratetype {
	MIGRATE_UNMOVABLE, /* umm_alloc */
	MIGRATE_MOVABLE,   /* cached folios */
	MIGRATE_RECLAIMABLE,
	NR_MIGRATETYPES,
};

/* One byte a pageblock, changed under zone->lock. */
#define PB_MIGRATETYPE_MASK 0x07u
#define PB_SKIP 0x08u

enum lru_list {
	LRU_INACTIVE_ANON,
	LRU_ACTIVE_ANON,
	LRU_INACTIVE_FILE,
	LRU_ACTIVE_FILE,
	LRU_UNEVICTABLE,
	NR_LRU_LISTS,
};
#define LRU_FILE LRU_INACTIVE_FILE
#define LRU_ACTIVE 1

static inline bool lru_is_file(enum lru_list lru)
{
	return lru == LRU_INACTIVE_FILE || lru == LRU_ACTIVE_FILE;
}

static inline bool lru_is_active(enum lru_list lru)
{
	return lru == LRU_ACTIVE_ANON || lru == LRU_ACTIVE_FILE;
}

/*
 * Where the partial walks of reclaim stand in a memcg's subtree: callers that each shrink a little share
 * it, so that together they go round fairly. Changed under the memcg tree lock.
 */
struct reclaim_iter {
	struct mem_cgroup *position; /* last one visited; NULL: start anew */
	uint32_t generation;         /* +1 at each wrap */
};

/* The LRU lists of one memcg on one node. Lists first, the lock on a later cache line: readers of the
 * sizes do not share the line that waiters hammer (measured by Linux: 12-32 % otherwise). */
struct lruvec {
	struct list_head lists[NR_LRU_LISTS]; /* (L) */
	_Atomic uint64_t nr[NR_LRU_LISTS];    /* (L) to write: pages on each list */
	struct lock *lru_lock;                /* (C) own_lock, or the node's */
	struct mem_cgroup *memcg;             /* (C) */
	struct pgdat *pgdat;                  /* (C) */
	struct reclaim_iter iter;             /* memcg tree lock */
	_Atomic uint32_t nr_isolated;         /* (A) taken off the lists by reclaim right now */
	_Atomic uint64_t scan_debt;           /* (A) pages that proportional reclaim owes a visit */
	memcg_slot_t slot;                    /* (C) own slot */
	memcg_slot_t inherited;               /* memcg tree lock: chain of dead children's slots */
	struct lock own_lock __aligned(CACHE_LINE);
};

struct free_area {
	struct list_head free_list[NR_MIGRATETYPES]; /* (Z) */
	_Atomic uint64_t nr_free;                    /* (Z) to write: blocks of this order */
};

enum zone_watermark { WMARK_MIN, WMARK_LOW, WMARK_HIGH, NR_WMARK };

struct zone {
	struct lock lock;
	uint64_t start_pfn, end_pfn;  /* (C) [start, end) */
	uint64_t watermark[NR_WMARK]; /* (C) pages */
	struct free_area free_area[NR_ORDERS];
	_Atomic uint64_t nr_free;   /* (Z) to write: free pages, without those on CPU lists */
	_Atomic uint8_t *pageblock; /* (Z) to write: one byte a pageblock; see PB_* */
	uint64_t nr_pageblocks;     /* (C) those at the ends may be parts */
	struct pcp *pcp;            /* a CPU's lists, nr_cpus of them (alloc/page_alloc.h) */
};

struct kswapd {
	struct os_thread thread;
	bool running; /* (C) after creation */
	struct lock lock;
	_Atomic uint32_t wake; /* futex word: 1: wanted */
	_Atomic bool stop;
	_Atomic uint32_t failures; /* rounds in a row without progress; >= 16: hopeless, sleeps */
};

struct pgdat {
	struct mm *mm;
	unsigned id;
	int numa_node; /* real node its frames are on, -1 unknown */
	struct zone zone;
	struct lock lru_lock; /* all lruvecs' when options.lru_lock is UMM_LRU_LOCK_NODE */
	struct kswapd kswapd;
};

/*
 * What all floors know of an instance. struct umm (core/umm.h) embeds it; upper floors' parts hang off
 * it by pointers that only they look into.
 */
struct mm {
	struct umm_threads threads;
	struct rcu rcu;
	struct umm_options opt; /* (C) checked copy */

	void *arena; /* (C) page frames */
	size_t arena_bytes;
	uint64_t nr_pages;               /* (C) frames, pfn 0 .. nr_pages - 1 */
	struct page *mem_map;            /* (C) one struct page a frame */
	unsigned nr_nodes;               /* (C) */
	struct pgdat *node;              /* (C) array */
	unsigned nr_cpus;                /* (C) */
	_Atomic uint64_t nr_index_nodes; /* radix nodes in existence */
	_Atomic uint64_t nr_warnings;    /* vm_warn calls */

	struct memcg_domain *memcgs;    /* (C) memcg/ */
	struct lru_cpu *lru_cpu;        /* (C) lru/: nr_cpus of them */
	struct lru_drain *lru_drain;    /* (C) lru/ */
	struct mapping_table *mappings; /* (C) cache/ */
	struct os_io *io;               /* (C) */
	const struct mm_upcalls *up;    /* (C) */
};

/* What a caller of get_folios wants. */
struct folio_request {
	unsigned order;
	enum migratetype type;
	unsigned nr;   /* that many folios, all or none */
	bool optional; /* its caller can do with less: a refusal is no event */
	bool nowait;   /* no reclaim: -EAGAIN instead */
	struct mem_cgroup *memcg;
};

/*
 * The only call upward, set once by core/ at creation: charge and allocate, reclaiming as needed
 * (core/slowpath.c). 0; -ENOMEM, -EBUSY, -EAGAIN, -ESTALE as umm.h says. The folios have one reference,
 * are charged but not yet bound to the memcg, and hold foreign bytes. Movable ones count as MEMCG_LOADING
 * until the caller takes that back. Context: may sleep.
 */
struct mm_upcalls {
	int (*get_folios)(struct mm *mm, const struct folio_request *req, struct folio **out);
};

/* ---- mmzone.c ---- */

/* Map and populate the arena, lay out nodes, zones and mem_map; all frames still belong to nobody. */
int mm_arena_init(struct mm *mm);
void mm_arena_fini(struct mm *mm);

static inline uint64_t page_pfn(const struct mm *mm, const struct page *page)
{
	return (uint64_t)(page - mm->mem_map);
}

static inline struct page *pfn_page(const struct mm *mm, uint64_t pfn)
{
	return &mm->mem_map[pfn];
}

/* Computed, not looked up: the folio's own record need not be in the cache yet. */
static inline void *folio_address_in(const struct mm *mm, const struct folio *f)
{
	return (char *)mm->arena + (page_pfn(mm, (const struct page *)f) << PAGE_SHIFT);
}

static inline void *folio_address(const struct folio *f)
{
	return folio_address_in(f->pgdat->mm, f);
}

/* Node to allocate from first, for the calling thread. */
unsigned mm_local_node(const struct mm *mm);

enum migratetype pageblock_type(const struct zone *zone, uint64_t pfn);
void pageblock_set_type(struct zone *zone, uint64_t pfn,
			enum migratetype type); /* holds zone->lock */

/* Describe a folio in one line, for messages. */
void folio_describe(const struct folio *f, char *buf, size_t bytes);

/* Something is wrong but the caller can go on: log it, count it; abort if UMM_DEBUG >= 3. */
void vm_warn(struct mm *mm, const char *fmt, ...) __printf(2, 3) __cold;
/* Log through the caller's hook. */
void mm_log(struct mm *mm, enum umm_log_level level, const char *fmt, ...) __printf(3, 4);

#endif
