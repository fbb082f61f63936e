/* SPDX-License-Identifier: MIT */
/*
 * Pages without owners. buddy.c keeps each zone's free blocks of 2^order pages under zone->lock;
 * page_alloc.c puts per-CPU lists of single pages and the watermarks before it. Nothing here reclaims,
 * charges or sleeps: alloc_pages answers NULL and core/slowpath.c decides what to do about it.
 *
 * A page handed out has one reference, no flags, no memcg and whatever bytes its last owner left. Who
 * takes it must overwrite or zero all of them before another memcg's caller can see them.
 */
#ifndef UMM_ALLOC_PAGE_ALLOC_H
#define UMM_ALLOC_PAGE_ALLOC_H

#include "page/mmzone.h"

enum {
	ALLOC_WMARK_LOW = 0,     /* leave `low` pages free: the fast path */
	ALLOC_WMARK_MIN = 1,     /* leave `min` */
	ALLOC_NO_WATERMARKS = 2, /* the last page too: reclaim has nothing more to give */
};

/* Pages of one CPU's lists of one zone. */
struct pcp {
	struct lock lock;
	struct list_head list[NR_MIGRATETYPES];
	_Atomic uint32_t count; /* (pcp lock) to write: on all lists */
	uint32_t batch;         /* (C) moved from or to the zone at a time */
	uint32_t high;          /* (C) at most this many stay */
} __aligned(CACHE_LINE);

/* Give every zone its watermarks and CPU lists, and all frames to the buddy lists. */
int page_alloc_init(struct mm *mm);
void page_alloc_fini(struct mm *mm);

/*
 * 2^order contiguous pages of a migratetype, from the caller's node first, then the others.
 * NULL: no node has them above the watermark (fault point FAULT_PAGE). The head page's folio has order
 * set; tail pages are marked PG_tail. Context: never sleeps; takes PCP, ZONE.
 */
struct folio *alloc_folio(struct mm *mm, unsigned order, enum migratetype type, int alloc_flags);

/* Up to nr single pages into out[]; return how many. From RUN_MIN on they come in contiguous runs where
 * there are any: a device is charged by the segment. Fewer come off the CPU's list. */
unsigned alloc_folios_bulk(struct mm *mm, enum migratetype type, int alloc_flags, unsigned nr,
			   struct folio **out);

/*
 * Give pages back. Refcount must be 0, all flags of PG_CHECK_AT_FREE clear, not charged, in no cache.
 * Context: never sleeps; no lock of rank LRUVEC or below may be held; takes PCP, ZONE.
 */
void free_folio(struct mm *mm, struct folio *folio);
void free_folios_bulk(struct mm *mm, struct folio **folios, unsigned nr);

/* Return all CPUs' listed pages to the zones, so that buddies can merge. */
void drain_all_pages(struct mm *mm);

/* Is more than the watermark free, and a block of that order or larger? (zone lists only) */
bool zone_watermark_ok(struct zone *zone, unsigned order, enum zone_watermark mark);

/* Free pages of a zone, of an instance: zone lists and CPU lists. */
uint64_t zone_nr_free(struct mm *mm, struct zone *zone);
uint64_t mm_nr_free(struct mm *mm);

/* ---- buddy.c: caller holds zone->lock ---- */

/* From the type's own lists only. */
struct page *buddy_alloc_own(struct mm *mm, struct zone *zone, unsigned order,
			     enum migratetype type);
/* From the lists of other types as well: a block is claimed, or the smallest that will do is stolen. */
struct page *buddy_alloc(struct mm *mm, struct zone *zone, unsigned order, enum migratetype type);
void buddy_free(struct mm *mm, struct zone *zone, struct page *page, unsigned order);
/* Walk all free lists and prove: flags, orders, alignment, no overlap, no unmerged buddies, counts.
 * Return the number of violations, logged. Takes zone->lock. */
int buddy_check(struct mm *mm, struct zone *zone);

#endif
