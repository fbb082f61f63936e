/* SPDX-License-Identifier: MIT */
/*
 * Free blocks of a zone, under zone->lock. Blocks of 2^order pages start at a multiple of their size; a
 * zone may start and end anywhere. Two free blocks that are halves of one (buddies) never stay apart.
 *
 * Marks, which hold for every page of a zone at all times: the first page of a block, free or in use, is
 * its head; all its other pages carry PG_tail. So a split or a merge changes one struct page, and to hand
 * out a block of any order takes none of its tails into the cache.
 *
 * Types. A free block stands on the list of its pageblock's type, always. From order 9 up it is one or
 * two whole pageblocks, and those are MOVABLE: whatever lived there is gone. A request that finds nothing
 * of its type goes on in this order:
 *   claim whole  free pageblocks become the requester's, no more of them than it needs, and the smaller
 *                block before the larger: both cost a pageblock, but only one costs an order-10 block
 *   claim part   the pageblock around a large free block becomes the requester's, if at least half of
 *                its pages are free or of the requester's kind already: its free pages move lists
 *   steal        the smallest block that will do, of any type; its pageblock stays what it was
 */
#include "alloc/page_alloc.h"
#include "page/vmstat.h"

/* Candidates that one request looks at to claim a part: each costs a walk over a pageblock. */
#define CLAIM_TRIES 4

/* Movable pages can be moved out of the way, so they do not break up others' blocks for scraps. */
#define CLAIM_MIN_ORDER_MOVABLE (PAGEBLOCK_ORDER / 2)

#define NR_FALLBACKS (NR_MIGRATETYPES - 1)

static const enum migratetype fallbacks[NR_MIGRATETYPES][NR_FALLBACKS] = {
	[MIGRATE_UNMOVABLE] = { MIGRATE_RECLAIMABLE, MIGRATE_MOVABLE },
	[MIGRATE_MOVABLE] = { MIGRATE_RECLAIMABLE, MIGRATE_UNMOVABLE },
	[MIGRATE_RECLAIMABLE] = { MIGRATE_UNMOVABLE, MIGRATE_MOVABLE },
};

/* ---- lists ---- */

static uint32_t page_flags(const struct page *page)
{
	return atomic_load_explicit(&page->folio.flags, memory_order_relaxed);
}

static void page_set_flags(struct page *page, uint32_t flags)
{
	atomic_store_explicit(&page->folio.flags, flags, memory_order_relaxed);
}

static void page_set_type(struct page *page, enum migratetype type)
{
	atomic_store_explicit(&page->folio.migratetype, (uint8_t)type, memory_order_relaxed);
}

static enum migratetype page_type(const struct page *page)
{
	return (enum migratetype)atomic_load_explicit(&page->folio.migratetype,
						      memory_order_relaxed);
}

/* Only under zone->lock, so a plain sum will do. Release for zone_nr_free, which takes no lock. */
static void count_add(_Atomic uint64_t *count, int64_t n)
{
	uint64_t old = atomic_load_explicit(count, memory_order_relaxed);

	VM_DEBUG_ON(n < 0 && old < (uint64_t)-n);
	atomic_store_explicit(count, old + (uint64_t)n, memory_order_release);
}

static void free_list_add(struct zone *zone, struct page *page, unsigned order,
			  enum migratetype type)
{
	page->folio.order = (uint8_t)order;
	page_set_type(page, type);
	page_set_flags(page, PG_BIT(PG_buddy));
	list_add(&page->folio.lru, &zone->free_area[order].free_list[type]);
	count_add(&zone->free_area[order].nr_free, 1);
}

/* The caller gives the page its new flags. */
static void free_list_del(struct zone *zone, struct page *page, unsigned order)
{
	VM_BUG_ON(page_flags(page) != PG_BIT(PG_buddy) || page->folio.order != order);
	list_del(&page->folio.lru);
	count_add(&zone->free_area[order].nr_free, -1);
}

static struct page *free_list_first(struct zone *zone, unsigned order, enum migratetype type)
{
	struct list_head *list = &zone->free_area[order].free_list[type];

	return list_empty(list) ? NULL : list_first_entry(list, struct page, folio.lru);
}

/* ---- allocation ---- */

/*
 * Take a free block off its list and cut it down to `to`; the upper halves go back to the lists of
 * `type`.
 */
static void take_block(struct zone *zone, struct page *page, unsigned to, enum migratetype type)
{
	unsigned order = page->folio.order;

	VM_BUG_ON(order < to);
	free_list_del(zone, page, order);
	while (order > to) {
		order--;
		free_list_add(zone, page + (1ul << order), order, type);
	}
	page->folio.order = (uint8_t)to;
	page_set_flags(page, 0);
}

static struct page *alloc_own_type(struct zone *zone, unsigned order, enum migratetype type)
{
	for (unsigned o = order; o < NR_ORDERS; o++) {
		struct page *page = free_list_first(zone, o, type);

		if (page) {
			take_block(zone, page, order, type);
			return page;
		}
	}
	return NULL;
}

static struct page *claim_whole(struct mm *mm, struct zone *zone, unsigned order,
				enum migratetype type)
{
	unsigned whole = (unsigned)max_u64(order, PAGEBLOCK_ORDER);
	struct page *page = NULL;
	uint64_t pfn;

	for (unsigned o = whole; !page && o < NR_ORDERS; o++)
		page = free_list_first(zone, o, MIGRATE_MOVABLE);
	if (!page)
		return NULL;
	take_block(zone, page, whole, MIGRATE_MOVABLE);
	pfn = page_pfn(mm, page);
	for (uint64_t p = pfn; p < pfn + (1ul << whole); p += PAGEBLOCK_PAGES)
		pageblock_set_type(zone, p, type);
	count_vm_events(mm, PAGEBLOCK_CLAIM, 1ul << (whole - PAGEBLOCK_ORDER));

	/* The pageblock is no free block any more: what the request does not take goes back in parts. */
	for (unsigned o = whole; o > order; o--)
		free_list_add(zone, page + (1ul << (o - 1)), o - 1, type);
	page->folio.order = (uint8_t)order;
	return page;
}

/* The pages of a pfn's pageblock that belong to the zone. */
static uint64_t pageblock_range(const struct zone *zone, uint64_t pfn, uint64_t *ret_end)
{
	uint64_t start = pfn & ~(PAGEBLOCK_PAGES - 1);

	*ret_end = min_u64(start + PAGEBLOCK_PAGES, zone->end_pfn);
	return max_u64(start, zone->start_pfn);
}

/*
 * Is half of the pageblock free or of the type already? Pages in use may come and go meanwhile, for not
 * all of that is under zone->lock: the count is an estimate, and only marks are read, no order of a page
 * that is not free.
 */
static bool pageblock_claimable(struct mm *mm, struct zone *zone, uint64_t pfn,
				enum migratetype type)
{
	uint64_t end, start = pageblock_range(zone, pfn, &end);
	uint64_t spare = (end - start) / 2; /* so many may be somebody else's */
	bool foreign = true;

	for (uint64_t p = start; p < end;) {
		const struct page *page = pfn_page(mm, p);
		uint32_t flags = page_flags(page);

		if (flags & PG_BIT(PG_buddy)) {
			p += 1ul << page->folio.order;
			continue;
		}
		if (!(flags & PG_BIT(PG_tail)))
			foreign = !(flags & PG_BIT(PG_pcp)) && page_type(page) != type;
		if (foreign && spare-- == 0)
			return false;
		p++;
	}
	return true;
}

/* Make a pageblock one of `type`: its free pages change lists. */
static void pageblock_claim(struct mm *mm, struct zone *zone, uint64_t pfn, enum migratetype type)
{
	uint64_t end, p = pageblock_range(zone, pfn, &end);

	pageblock_set_type(zone, pfn, type);
	while (p < end) {
		struct page *page = pfn_page(mm, p);
		unsigned order = 0;

		if (page_flags(page) & PG_BIT(PG_buddy)) {
			order = page->folio.order;
			VM_BUG_ON(order >= PAGEBLOCK_ORDER);
			list_move(&page->folio.lru, &zone->free_area[order].free_list[type]);
			page_set_type(page, type);
		}
		p += 1ul << order;
	}
	count_vm_events(mm, PAGEBLOCK_CLAIM, 1);
}

static struct page *claim_part(struct mm *mm, struct zone *zone, unsigned order,
			       enum migratetype type)
{
	unsigned least = order, tries = 0;

	if (type == MIGRATE_MOVABLE)
		least = (unsigned)max_u64(order, CLAIM_MIN_ORDER_MOVABLE);
	for (unsigned o = PAGEBLOCK_ORDER; o-- > least;) {
		for (unsigned i = 0; i < NR_FALLBACKS; i++) {
			struct page *page = free_list_first(zone, o, fallbacks[type][i]);
			uint64_t pfn;

			if (!page)
				continue;
			pfn = page_pfn(mm, page);
			if (pageblock_claimable(mm, zone, pfn, type)) {
				pageblock_claim(mm, zone, pfn, type);
				return alloc_own_type(zone, order, type);
			}
			if (++tries == CLAIM_TRIES)
				return NULL;
		}
	}
	return NULL;
}

static struct page *steal(struct mm *mm, struct zone *zone, unsigned order, enum migratetype type)
{
	for (unsigned o = order; o < PAGEBLOCK_ORDER; o++) {
		for (unsigned i = 0; i < NR_FALLBACKS; i++) {
			struct page *page = free_list_first(zone, o, fallbacks[type][i]);

			if (page) {
				take_block(zone, page, order, fallbacks[type][i]);
				count_vm_events(mm, PAGEBLOCK_STEAL, 1);
				return page;
			}
		}
	}
	return NULL;
}

struct page *buddy_alloc_own(struct mm *mm, struct zone *zone, unsigned order,
			     enum migratetype type)
{
	struct page *page;

	lock_assert_held(&mm->threads, &zone->lock);
	VM_BUG_ON(order > MAX_ORDER || type >= NR_MIGRATETYPES);
	page = alloc_own_type(zone, order, type);
	if (page)
		count_add(&zone->nr_free, -(int64_t)(1ul << order));
	return page;
}

struct page *buddy_alloc(struct mm *mm, struct zone *zone, unsigned order, enum migratetype type)
{
	struct page *page;

	lock_assert_held(&mm->threads, &zone->lock);
	VM_BUG_ON(order > MAX_ORDER || type >= NR_MIGRATETYPES);
	page = alloc_own_type(zone, order, type);
	if (!page && type != MIGRATE_MOVABLE)
		page = claim_whole(mm, zone, order, type);
	if (!page)
		page = claim_part(mm, zone, order, type);
	if (!page)
		page = steal(mm, zone, order, type);
	if (page)
		count_add(&zone->nr_free, -(int64_t)(1ul << order));
	return page;
}

/* ---- freeing ---- */

/* The free block that makes a larger one together with the one at pfn, or NULL. */
static struct page *free_buddy(struct mm *mm, const struct zone *zone, uint64_t pfn, unsigned order)
{
	uint64_t buddy_pfn = pfn ^ (1ul << order);
	struct page *buddy;

	if (buddy_pfn < zone->start_pfn || buddy_pfn + (1ul << order) > zone->end_pfn)
		return NULL;
	buddy = pfn_page(mm, buddy_pfn);
	if (!(page_flags(buddy) & PG_BIT(PG_buddy)) || buddy->folio.order != order)
		return NULL;
	return buddy;
}

void buddy_free(struct mm *mm, struct zone *zone, struct page *page, unsigned order)
{
	uint64_t pfn = page_pfn(mm, page);
	enum migratetype type;

	lock_assert_held(&mm->threads, &zone->lock);
	VM_BUG_ON(order > MAX_ORDER || pfn & ((1ul << order) - 1));
	VM_BUG_ON(pfn < zone->start_pfn || pfn + (1ul << order) > zone->end_pfn);
	VM_BUG_ON(page_flags(page) & (PG_BIT(PG_buddy) | PG_BIT(PG_tail)));
	VM_BUG_ON(folio_ref_count(&page->folio) != 0);

	count_add(&zone->nr_free, (int64_t)(1ul << order));
	while (order < MAX_ORDER) {
		struct page *buddy = free_buddy(mm, zone, pfn, order);

		if (!buddy)
			break;
		free_list_del(zone, buddy, order);
		page_set_flags(buddy > page ? buddy : page, PG_BIT(PG_tail));
		if (buddy < page)
			page = buddy;
		pfn = page_pfn(mm, page);
		order++;
	}

	type = pageblock_type(zone, pfn);
	if (order >= PAGEBLOCK_ORDER) {
		type = MIGRATE_MOVABLE;
		for (uint64_t p = pfn; p < pfn + (1ul << order); p += PAGEBLOCK_PAGES)
			pageblock_set_type(zone, p, type);
	}
	free_list_add(zone, page, order, type);
}

/* ---- check ---- */

struct buddy_walk {
	struct mm *mm;
	struct zone *zone;
	uint64_t blocks, pages; /* on all lists so far */
	int violations;
};

static void violation(struct buddy_walk *w, const struct page *page, unsigned order,
		      const char *what)
{
	char desc[256] = "";

	w->violations++;
	if (page)
		folio_describe(&page->folio, desc, sizeof(desc));
	mm_log(w->mm, UMM_LOG_ERROR, "free list of order %u: %s %s", order, what, desc);
}

/* Does a link lead to a struct page of the zone? Anything else would be followed only to crash. */
static bool is_zone_link(const struct buddy_walk *w, const struct list_head *link)
{
	uintptr_t first = (uintptr_t)pfn_page(w->mm, w->zone->start_pfn);
	uintptr_t end = (uintptr_t)pfn_page(w->mm, w->zone->end_pfn);
	uintptr_t p = (uintptr_t)link - offsetof(struct page, folio.lru);

	return p >= first && p < end && (p - first) % sizeof(struct page) == 0;
}

static void check_block(struct buddy_walk *w, const struct page *page, unsigned order,
			enum migratetype type)
{
	uint64_t pfn = page_pfn(w->mm, page), nr = 1ul << order;

	if (page_flags(page) != PG_BIT(PG_buddy))
		violation(w, page, order, "other flags than buddy");
	if (page->folio.order != order)
		violation(w, page, order, "on another order's list");
	if (folio_ref_count(&page->folio) != 0)
		violation(w, page, order, "has references");
	if (page_type(page) != type)
		violation(w, page, order, "on another type's list");
	if (pfn & (nr - 1) || pfn + nr > w->zone->end_pfn) {
		violation(w, page, order, "not aligned to its size, or past the zone's end");
		return;
	}
	if (order >= PAGEBLOCK_ORDER && type != MIGRATE_MOVABLE)
		violation(w, page, order, "a whole free pageblock is not movable");
	for (uint64_t p = pfn; p < pfn + nr; p += PAGEBLOCK_PAGES)
		if (pageblock_type(w->zone, p) != type)
			violation(w, pfn_page(w->mm, p), order, "pageblock has another type");
	if (order < MAX_ORDER && free_buddy(w->mm, w->zone, pfn, order))
		violation(w, page, order, "not merged with its free buddy");
	/* As no head of another block can be a tail, this proves that blocks do not overlap as well. */
	for (uint64_t p = pfn + 1; p < pfn + nr; p++)
		if (page_flags(pfn_page(w->mm, p)) != PG_BIT(PG_tail) ||
		    folio_ref_count(&pfn_page(w->mm, p)->folio) != 0)
			violation(w, pfn_page(w->mm, p), order,
				  "page of a free block is no free tail");
}

/* Return the number of blocks on one list. */
static uint64_t check_list(struct buddy_walk *w, unsigned order, enum migratetype type)
{
	const struct list_head *head = &w->zone->free_area[order].free_list[type];
	uint64_t most = ((w->zone->end_pfn - w->zone->start_pfn) >> order) + 1;
	const struct list_head *prev = head;
	uint64_t nr = 0;

	for (const struct list_head *l = head->next; l != head; prev = l, l = l->next) {
		const struct page *page;

		if (!is_zone_link(w, l)) {
			violation(w, NULL, order, "link to what is no page of the zone");
			return nr;
		}
		page = list_entry(l, struct page, folio.lru);
		if (l->prev != prev)
			violation(w, page, order, "broken links");
		if (++nr > most) {
			violation(w, page, order, "list has no end");
			return nr;
		}
		check_block(w, page, order, type);
	}
	if (head->prev != prev)
		violation(w, NULL, order, "broken links at the end");
	return nr;
}

int buddy_check(struct mm *mm, struct zone *zone)
{
	struct buddy_walk w = { .mm = mm, .zone = zone };
	uint64_t heads = 0;

	lock_acquire(&mm->threads, &zone->lock);
	for (unsigned order = 0; order < NR_ORDERS; order++) {
		uint64_t blocks = 0;

		for (unsigned type = 0; type < NR_MIGRATETYPES; type++)
			blocks += check_list(&w, order, (enum migratetype)type);
		if (blocks !=
		    atomic_load_explicit(&zone->free_area[order].nr_free, memory_order_relaxed))
			violation(&w, NULL, order, "count of blocks is not the lists' length");
		w.blocks += blocks;
		w.pages += blocks << order;
	}
	if (w.pages != atomic_load_explicit(&zone->nr_free, memory_order_relaxed))
		violation(&w, NULL, 0, "zone's free pages are not those on the lists");
	for (uint64_t pfn = zone->start_pfn; pfn < zone->end_pfn; pfn++)
		heads += (page_flags(pfn_page(mm, pfn)) & PG_BIT(PG_buddy)) != 0;
	if (heads != w.blocks)
		violation(&w, NULL, 0, "pages marked buddy are not those on the lists");
	lock_release(&mm->threads, &zone->lock);
	return w.violations;
}
