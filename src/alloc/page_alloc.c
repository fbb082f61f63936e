/* SPDX-License-Identifier: MIT */
/*
 * What stands before the buddy lists: watermarks, each CPU's lists of single pages, the order of nodes,
 * and the birth and death of a folio. Nothing here waits for memory.
 *
 * Lists of a CPU are an affair of that CPU only for speed: each has a lock, and whoever runs short of
 * pages may bring them home (drain_all_pages).
 */
#include "alloc/page_alloc.h"

#include <string.h>

#include "base/fault.h"
#include "page/vmstat.h"

#if defined(__SANITIZE_ADDRESS__)
#define ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ASAN 1
#endif
#endif
#ifdef ASAN
#include <sanitizer/asan_interface.h>
#endif

#define PCP_HIGH_MAX 256
#define PCP_BATCH_MAX 63
/* Together the lists of all CPUs hold at most a 32nd of a zone. */
#define PCP_ZONE_SHARE 32
/* From so many pages on a request or a batch of frees goes past the CPU's list. */
#define RUN_MIN 8

/* ---- contents of free frames ---- */

#ifdef ASAN
static void frames_forbid(void *addr, size_t bytes)
{
	__asan_poison_memory_region(addr, bytes);
}

static void frames_permit(void *addr, size_t bytes)
{
	__asan_unpoison_memory_region(addr, bytes);
}
#else
static void frames_forbid(void *addr, size_t bytes)
{
	(void)addr;
	(void)bytes;
}

static void frames_permit(void *addr, size_t bytes)
{
	(void)addr;
	(void)bytes;
}
#endif

static __cold void folio_bad(const struct folio *folio, const char *what)
{
	char desc[256];

	folio_describe(folio, desc, sizeof(desc));
	vm_warn(folio->pgdat->mm, "%s: %s", what, desc);
	vm_bug(__FILE__, __LINE__, what);
}

#if UMM_DEBUG >= 2
/*
 * Debug builds overwrite what is freed, and look whether it is still so when it is allocated again: who
 * reads a page after its end sees rubbish, and who writes one is caught. Frames that were never in use
 * are left alone; `private` of each filled frame's struct page says which is which.
 */
#define FREE_FILL 0xa5
#define FREE_FILLED UINT64_C(0xf4eef4eef4eef4ee)

static void frames_fill(struct folio *folio)
{
	struct page *page = folio_page(folio);

	memset(folio_address(folio), FREE_FILL, folio_nr_pages(folio) << PAGE_SHIFT);
	for (unsigned long i = 0; i < folio_nr_pages(folio); i++)
		atomic_store_explicit(&page[i].folio.private, FREE_FILLED, memory_order_relaxed);
}

static void frames_check_fill(struct folio *folio)
{
	struct page *page = folio_page(folio);

	for (unsigned long i = 0; i < folio_nr_pages(folio); i++) {
		struct folio *frame = &page[i].folio;
		const unsigned char *p = folio_address(frame);

		if (atomic_load_explicit(&frame->private, memory_order_relaxed) != FREE_FILLED)
			continue;
		if (p[0] != FREE_FILL || memcmp(p, p + 1, PAGE_SIZE - 1) != 0)
			folio_bad(frame, "written after it was freed");
		atomic_store_explicit(&frame->private, 0, memory_order_relaxed);
	}
}
#else
static void frames_fill(struct folio *folio)
{
	(void)folio;
}

static void frames_check_fill(struct folio *folio)
{
	(void)folio;
}
#endif

/* ---- birth and death of a folio ---- */

/*
 * The reference count is stored last, and with release: a stale pointer's folio_try_get may succeed from
 * that moment on, and what it then finds must be the new folio, whole.
 */
static struct folio *folio_prep_new(struct folio *folio, unsigned order, enum migratetype type)
{
	VM_DEBUG_ON(folio_ref_count(folio) != 0);
	folio->order = (uint8_t)order;
	frames_permit(folio_address(folio), PAGE_SIZE << order);
	frames_check_fill(folio);
	folio->lru.next = NULL;
	folio->lru.prev = NULL;
	folio->spare = 0;
	atomic_store_explicit(&folio->flags, 0, memory_order_relaxed);
	atomic_store_explicit(&folio->mapping, NULL, memory_order_relaxed);
	atomic_store_explicit(&folio->index, 0, memory_order_relaxed);
	atomic_store_explicit(&folio->memcg_slot, MEMCG_SLOT_NONE, memory_order_relaxed);
	atomic_store_explicit(&folio->migratetype, (uint8_t)type, memory_order_relaxed);
	atomic_store_explicit(&folio->private, 0, memory_order_relaxed);
	atomic_store_explicit(&folio->refcount, 1, memory_order_release);
	return folio;
}

/* Nobody may have a claim on the folio any more. */
static void folio_prep_free(struct folio *folio)
{
	uint32_t flags = atomic_load_explicit(&folio->flags, memory_order_relaxed);

	if (unlikely(folio_ref_count(folio) != 0))
		folio_bad(folio, "freed with references");
	if (unlikely(flags & PG_CHECK_AT_FREE))
		folio_bad(folio, "freed with a flag of PG_CHECK_AT_FREE");
	if (unlikely(atomic_load_explicit(&folio->mapping, memory_order_relaxed)))
		folio_bad(folio, "freed while in a cache");
	if (unlikely(atomic_load_explicit(&folio->memcg_slot, memory_order_relaxed)))
		folio_bad(folio, "freed while charged");
	frames_fill(folio);
	frames_forbid(folio_address(folio), PAGE_SIZE << folio->order);
	atomic_store_explicit(&folio->flags, 0, memory_order_relaxed);
}

/* Debug builds: no free under a lock that readers of the lists wait for. */
static void assert_may_free(struct mm *mm)
{
#if UMM_DEBUG >= 1
	const struct umm_thread *self = thread_self(&mm->threads);

	for (uint32_t i = 0; i < self->nr_held; i++)
		VM_BUG_ON(self->held[i]->class >= LOCK_LRUVEC);
#else
	(void)mm;
#endif
}

/* ---- watermarks ---- */

/* Free pages that kswapd works for beyond the low mark, at most; with them there are runs to be had. */
#define WMARK_GAP_MAX 8192

/*
 * min is Linux's sqrt(16 * kB), in kB: large zones keep a smaller part free. Small ones would have to give
 * up too much by that rule and keep a 128th. What callers get from the last pages is their matter
 * (ALLOC_NO_WATERMARKS): here the marks say when to start reclaim, not what to hold back. The gap to low,
 * and from low to high, is a 64th, where Linux has a 1000th: in too small a free space there are no
 * contiguous runs.
 */
static void zone_init_watermarks(struct zone *zone)
{
	uint64_t pages = zone->end_pfn - zone->start_pfn;
	uint64_t kib = pages * (PAGE_SIZE / 1024);
	uint64_t min = min_u64(isqrt(16 * kib) / (PAGE_SIZE / 1024), pages / 128);
	uint64_t gap = max_u64(max_u64(min / 4, pages / 1000), min_u64(pages / 64, WMARK_GAP_MAX));

	gap = max_u64(gap, 1);
	zone->watermark[WMARK_MIN] = min;
	zone->watermark[WMARK_LOW] = min + gap;
	zone->watermark[WMARK_HIGH] = min + 2 * gap;
}

/* Pages that an allocation must leave free. */
static uint64_t pages_to_leave(const struct zone *zone, int alloc_flags)
{
	switch (alloc_flags) {
	case ALLOC_WMARK_LOW: return zone->watermark[WMARK_LOW];
	case ALLOC_WMARK_MIN: return zone->watermark[WMARK_MIN];
	default: VM_BUG_ON(alloc_flags != ALLOC_NO_WATERMARKS); return 0;
	}
}

/* Pages on the zone's lists that can go without touching what must be left. */
static uint64_t zone_spare(const struct zone *zone, uint64_t leave)
{
	uint64_t nr_free = atomic_load_explicit(&zone->nr_free, memory_order_relaxed);

	return nr_free > leave ? nr_free - leave : 0;
}

bool zone_watermark_ok(struct zone *zone, unsigned order, enum zone_watermark mark)
{
	VM_BUG_ON(order > MAX_ORDER || mark >= NR_WMARK);
	if (zone_spare(zone, zone->watermark[mark]) < 1ul << order)
		return false;
	/* A block of any type will do: what has the wrong one is claimed or stolen. */
	for (unsigned o = order; o < NR_ORDERS; o++)
		if (atomic_load_explicit(&zone->free_area[o].nr_free, memory_order_relaxed))
			return true;
	return false;
}

/* ---- CPU lists ---- */

static struct pcp *pcp_of_this_cpu(const struct mm *mm, const struct zone *zone)
{
	unsigned cpu = os_cpu();

	return &zone->pcp[likely(cpu < mm->nr_cpus) ? cpu : 0];
}

static uint32_t pcp_count(const struct pcp *pcp)
{
	return atomic_load_explicit(&pcp->count, memory_order_acquire);
}

/* Release, so that who sees the new count sees where the pages came from or went: zone_nr_free. */
static void pcp_set_count(struct pcp *pcp, uint32_t count)
{
	atomic_store_explicit(&pcp->count, count, memory_order_release);
}

/* Put a page on a list, take one off. The count is the callers' affair. */
static void pcp_add(struct pcp *pcp, struct page *page, enum migratetype type)
{
	struct folio *folio = page_folio(page);

	folio->order = 0;
	atomic_store_explicit(&folio->migratetype, (uint8_t)type, memory_order_relaxed);
	atomic_store_explicit(&folio->flags, PG_BIT(PG_pcp), memory_order_relaxed);
	list_add(&folio->lru, &pcp->list[type]);
}

static struct folio *pcp_del(struct folio *folio)
{
	VM_BUG_ON(atomic_load_explicit(&folio->flags, memory_order_relaxed) != PG_BIT(PG_pcp));
	list_del(&folio->lru);
	atomic_store_explicit(&folio->flags, 0, memory_order_relaxed);
	return folio;
}

static unsigned pcp_pop(struct pcp *pcp, enum migratetype type, unsigned nr, struct folio **out)
{
	unsigned n = 0;

	while (n < nr && !list_empty(&pcp->list[type]))
		out[n++] = pcp_del(list_first_entry(&pcp->list[type], struct folio, lru));
	pcp_set_count(pcp, pcp_count(pcp) - n);
	return n;
}

/* How many pages to bring for a request of `need`. */
static uint64_t pcp_refill_size(const struct mm *mm, const struct zone *zone, const struct pcp *pcp,
				uint64_t leave, unsigned need)
{
	uint64_t spare = zone_spare(zone, leave);
	uint64_t ahead = pcp->batch;

	/* The very last pages are shared out. A CPU that hoarded them would make another one fail. */
	if (leave == 0)
		ahead = min_u64(ahead, spare / mm->nr_cpus);
	return min_u64(max_u64(need, ahead), spare);
}

/*
 * Bring pages from the zone: `need` of them for the request, up to a batch for those to come. For the
 * latter no other type's pageblocks are broken into. The list's count goes up before the zone's goes
 * down: see zone_nr_free.
 */
static void pcp_refill(struct mm *mm, struct zone *zone, struct pcp *pcp, enum migratetype type,
		       uint64_t leave, unsigned need)
{
	uint32_t count = pcp_count(pcp);
	uint64_t nr;

	if (!zone_spare(zone, leave))
		return;
	lock_acquire(&mm->threads, &zone->lock);
	nr = pcp_refill_size(mm, zone, pcp, leave, need);
	pcp_set_count(pcp, count + (uint32_t)nr);
	for (uint64_t n = 0; n < nr; n++) {
		struct page *page = buddy_alloc(mm, zone, 0, type);
		bool stolen;

		VM_BUG_ON(!page); /* the zone has free pages, and one of any type would do */
		stolen = pageblock_type(zone, page_pfn(mm, page)) != type;
		pcp_add(pcp, page, type);
		count++;
		if (stolen && n + 1 >= need)
			break;
	}
	pcp_set_count(pcp, count);
	lock_release(&mm->threads, &zone->lock);
}

/*
 * Return `nr` pages to the zone, those of `first` before others and the longest unused first. Again the
 * count that gets them goes up before the other one goes down.
 */
static void pcp_return(struct mm *mm, struct zone *zone, struct pcp *pcp, uint32_t nr,
		       enum migratetype first)
{
	uint32_t count = pcp_count(pcp);
	uint32_t left = (uint32_t)min_u64(nr, count);
	unsigned type = first;

	if (!left)
		return;
	count -= left;
	lock_acquire(&mm->threads, &zone->lock);
	while (left) {
		struct folio *folio;

		if (list_empty(&pcp->list[type])) {
			type = (type + 1) % NR_MIGRATETYPES;
			continue;
		}
		folio = list_last_entry(&pcp->list[type], struct folio, lru);
		buddy_free(mm, zone, folio_page(pcp_del(folio)), 0);
		left--;
	}
	pcp_set_count(pcp, count);
	lock_release(&mm->threads, &zone->lock);
}

static void pcp_init(struct pcp *pcp, uint32_t high)
{
	lock_init(&pcp->lock, LOCK_PCP);
	for (unsigned type = 0; type < NR_MIGRATETYPES; type++)
		list_init(&pcp->list[type]);
	pcp->high = high;
	pcp->batch = (uint32_t)max_u64(min_u64(high / 4, PCP_BATCH_MAX), 1);
}

void drain_all_pages(struct mm *mm)
{
	for (unsigned i = 0; i < mm->nr_nodes; i++) {
		struct zone *zone = &mm->node[i].zone;

		for (unsigned cpu = 0; cpu < mm->nr_cpus; cpu++) {
			struct pcp *pcp = &zone->pcp[cpu];

			if (!pcp_count(pcp))
				continue;
			lock_acquire(&mm->threads, &pcp->lock);
			pcp_return(mm, zone, pcp, pcp_count(pcp), MIGRATE_UNMOVABLE);
			lock_release(&mm->threads, &pcp->lock);
		}
	}
}

/* ---- allocation ---- */

/* One block straight from the zone. */
static struct folio *zone_alloc(struct mm *mm, struct zone *zone, unsigned order,
				enum migratetype type, uint64_t leave)
{
	struct page *page = NULL;

	/* Looked at twice: first to leave alone the lock of a zone that has nothing. */
	if (zone_spare(zone, leave) < 1ul << order)
		return NULL;
	lock_acquire(&mm->threads, &zone->lock);
	if (zone_spare(zone, leave) >= 1ul << order)
		page = buddy_alloc(mm, zone, order, type);
	lock_release(&mm->threads, &zone->lock);
	return page ? page_folio(page) : NULL;
}

/* Up to `nr` single pages of one zone. What is on the CPU's list already is nobody's reserve. */
static unsigned zone_alloc_singles(struct mm *mm, struct zone *zone, enum migratetype type,
				   uint64_t leave, unsigned nr, struct folio **out)
{
	struct pcp *pcp = pcp_of_this_cpu(mm, zone);
	unsigned n = 0;

	if (!nr)
		return 0;
	if (!pcp->high) {
		while (n < nr && (out[n] = zone_alloc(mm, zone, 0, type, leave)))
			n++;
		return n;
	}
	lock_acquire(&mm->threads, &pcp->lock);
	n = pcp_pop(pcp, type, nr, out);
	if (n < nr) {
		pcp_refill(mm, zone, pcp, type, leave, nr - n);
		n += pcp_pop(pcp, type, nr - n, out + n);
	}
	lock_release(&mm->threads, &pcp->lock);
	return n;
}

/* A free block's pages as so many single ones, in order. */
static unsigned split_to_singles(struct page *page, unsigned order, struct folio **out)
{
	for (unsigned i = 0; i < 1u << order; i++) {
		atomic_store_explicit(&page[i].folio.flags, 0, memory_order_relaxed);
		page[i].folio.order = 0;
		out[i] = page_folio(&page[i]);
	}
	return 1u << order;
}

/*
 * All of `nr` single pages, in runs as long as there are, or none. Past the CPU's list: it hands out what
 * was freed last, in no order. What is loaded together is mostly reclaimed together, and then goes back
 * to the zone together (free_run), so that runs are found again.
 */
static unsigned zone_alloc_run(struct mm *mm, struct zone *zone, enum migratetype type,
			       uint64_t leave, unsigned nr, struct folio **out)
{
	unsigned order = MAX_ORDER, n = 0;

	if (zone_spare(zone, leave) < nr)
		return 0;
	lock_acquire(&mm->threads, &zone->lock);
	while (n < nr && zone_spare(zone, leave) >= nr - n) {
		struct page *page;

		while (1u << order > nr - n)
			order--;
		page = order ? buddy_alloc_own(mm, zone, order, type)
			     : buddy_alloc(mm, zone, 0, type);
		if (page)
			n += split_to_singles(page, order, out + n);
		else if (order)
			order--;
		else
			break;
	}
	lock_release(&mm->threads, &zone->lock);
	return n;
}

/* Many in a run, few off the CPU's list. Rather than from odds and ends a run comes from what reclaim frees
 * next, unless these are the last pages. */
static unsigned zone_alloc_order0(struct mm *mm, struct zone *zone, enum migratetype type,
				  uint64_t leave, unsigned nr, struct folio **out)
{
	unsigned n = 0;

	if (nr >= RUN_MIN)
		n = zone_alloc_run(mm, zone, type, leave, nr, out);
	if (nr < RUN_MIN || leave == 0)
		n += zone_alloc_singles(mm, zone, type, leave, nr - n, out + n);
	return n;
}

/* From the local node, then from the others in turn. `nr` is 1 if order is not 0. */
static unsigned alloc_pages_any_node(struct mm *mm, unsigned order, enum migratetype type,
				     int alloc_flags, unsigned nr, struct folio **out)
{
	unsigned local = mm_local_node(mm);
	unsigned n = 0;

	for (unsigned i = 0; n < nr && i < mm->nr_nodes; i++) {
		struct zone *zone = &mm->node[(local + i) % mm->nr_nodes].zone;
		uint64_t leave = pages_to_leave(zone, alloc_flags);

		if (order == 0)
			n += zone_alloc_order0(mm, zone, type, leave, nr - n, out + n);
		else if ((out[n] = zone_alloc(mm, zone, order, type, leave)))
			n++;
	}
	return n;
}

/*
 * Could the pages on CPU lists have made the difference? Only for requests that are in earnest: one that
 * may not go below the low mark is followed by one that may, after the daemon was woken, and a system
 * that lives around its low mark would do nothing but drain.
 */
static bool drain_may_help(struct mm *mm, unsigned order, int alloc_flags)
{
	if (alloc_flags == ALLOC_WMARK_LOW)
		return false;
	for (unsigned i = 0; i < mm->nr_nodes; i++) {
		struct zone *zone = &mm->node[i].zone;
		uint64_t nr_free = atomic_load_explicit(&zone->nr_free, memory_order_relaxed);
		uint64_t total = zone_nr_free(mm, zone);

		if (total > nr_free && total >= pages_to_leave(zone, alloc_flags) + (1ul << order))
			return true;
	}
	return false;
}

/* Folios that are nobody's yet: no reference, fields as they were. */
static unsigned alloc_pages(struct mm *mm, unsigned order, enum migratetype type, int alloc_flags,
			    unsigned nr, struct folio **out)
{
	unsigned n;

	VM_BUG_ON(order > MAX_ORDER || type >= NR_MIGRATETYPES);
	n = alloc_pages_any_node(mm, order, type, alloc_flags, nr, out);
	if (unlikely(n < nr) && drain_may_help(mm, order, alloc_flags)) {
		drain_all_pages(mm);
		n += alloc_pages_any_node(mm, order, type, alloc_flags, nr - n, out + n);
	}
	if (n)
		count_vm_events(mm, PGALLOC, (uint64_t)n << order);
	return n;
}

struct folio *alloc_folio(struct mm *mm, unsigned order, enum migratetype type, int alloc_flags)
{
	struct folio *folio;

	if (fault_point(FAULT_PAGE) || !alloc_pages(mm, order, type, alloc_flags, 1, &folio))
		return NULL;
	return folio_prep_new(folio, order, type);
}

unsigned alloc_folios_bulk(struct mm *mm, enum migratetype type, int alloc_flags, unsigned nr,
			   struct folio **out)
{
	unsigned n = 0;

	while (n < nr && !fault_point(FAULT_PAGE))
		n++;
	if (!n)
		return 0;
	n = alloc_pages(mm, 0, type, alloc_flags, n, out);
	for (unsigned i = 0; i < n; i++)
		(void)folio_prep_new(out[i], 0, type);
	return n;
}

/* ---- freeing ---- */

static void zone_free(struct mm *mm, struct zone *zone, struct page *page, unsigned order)
{
	lock_acquire(&mm->threads, &zone->lock);
	buddy_free(mm, zone, page, order);
	lock_release(&mm->threads, &zone->lock);
}

/* Caller holds pcp->lock. The pageblock's type may change any time; buddy_free will look again. */
static void pcp_free(struct mm *mm, struct zone *zone, struct pcp *pcp, struct page *page)
{
	enum migratetype type = pageblock_type(zone, page_pfn(mm, page));

	pcp_add(pcp, page, type);
	pcp_set_count(pcp, pcp_count(pcp) + 1);
	if (pcp_count(pcp) > pcp->high)
		pcp_return(mm, zone, pcp, pcp->batch, type);
}

/* Many at once: to the zones, where they merge, under one lock for all that lie together. */
static void free_run(struct mm *mm, struct folio **folios, unsigned nr)
{
	struct zone *locked = NULL;

	for (unsigned i = 0; i < nr; i++) {
		struct zone *zone = &folios[i]->pgdat->zone;

		if (zone != locked) {
			if (locked)
				lock_release(&mm->threads, &locked->lock);
			lock_acquire(&mm->threads, &zone->lock);
			locked = zone;
		}
		buddy_free(mm, zone, folio_page(folios[i]), folios[i]->order);
	}
	if (locked)
		lock_release(&mm->threads, &locked->lock);
}

/* A few: single pages to the CPU's list. */
static void free_few(struct mm *mm, struct folio **folios, unsigned nr)
{
	struct pcp *locked = NULL;
	struct zone *locked_zone = NULL;

	for (unsigned i = 0; i < nr; i++) {
		struct folio *folio = folios[i];
		struct zone *zone = &folio->pgdat->zone;
		unsigned order = folio->order;
		bool listed = order == 0 && zone->pcp[0].high;

		if (locked && (!listed || zone != locked_zone)) {
			lock_release(&mm->threads, &locked->lock);
			locked = NULL;
		}
		if (!listed) {
			zone_free(mm, zone, folio_page(folio), order);
			continue;
		}
		if (!locked) {
			locked = pcp_of_this_cpu(mm, zone);
			locked_zone = zone;
			lock_acquire(&mm->threads, &locked->lock);
		}
		pcp_free(mm, zone, locked, folio_page(folio));
	}
	if (locked)
		lock_release(&mm->threads, &locked->lock);
}

void free_folios_bulk(struct mm *mm, struct folio **folios, unsigned nr)
{
	uint64_t pages = 0;

	assert_may_free(mm);
	for (unsigned i = 0; i < nr; i++) {
		pages += 1ul << folios[i]->order;
		folio_prep_free(folios[i]);
	}
	if (nr >= RUN_MIN)
		free_run(mm, folios, nr);
	else
		free_few(mm, folios, nr);
	if (pages)
		count_vm_events(mm, PGFREE, pages);
}

void free_folio(struct mm *mm, struct folio *folio)
{
	free_folios_bulk(mm, &folio, 1);
}

/* ---- figures ---- */

/*
 * Pages may be on their way between the zone and a list. Whichever way, the side that gets them counts
 * them before the other side forgets them; so with the zone read on both sides of the lists, a page that
 * moves is seen twice rather than missed. At rest the sum is exact.
 */
uint64_t zone_nr_free(struct mm *mm, struct zone *zone)
{
	uint64_t before = atomic_load_explicit(&zone->nr_free, memory_order_acquire);
	uint64_t listed = 0, after;

	for (unsigned cpu = 0; cpu < mm->nr_cpus; cpu++)
		listed += pcp_count(&zone->pcp[cpu]);
	after = atomic_load_explicit(&zone->nr_free, memory_order_relaxed);
	return listed + max_u64(before, after);
}

uint64_t mm_nr_free(struct mm *mm)
{
	uint64_t nr = 0;

	for (unsigned i = 0; i < mm->nr_nodes; i++)
		nr += zone_nr_free(mm, &mm->node[i].zone);
	return nr;
}

/* ---- bring-up ---- */

/* All frames of a zone to the lists, in the largest blocks that fit. */
static void zone_free_all(struct mm *mm, struct zone *zone)
{
	uint64_t pfn = zone->start_pfn;

	lock_acquire(&mm->threads, &zone->lock);
	while (pfn < zone->end_pfn) {
		struct page *page = pfn_page(mm, pfn);
		unsigned order = MAX_ORDER;

		while (pfn & ((1ul << order) - 1) || pfn + (1ul << order) > zone->end_pfn)
			order--;
		for (uint64_t i = 1; i < 1ul << order; i++)
			atomic_store_explicit(&page[i].folio.flags, PG_BIT(PG_tail),
					      memory_order_relaxed);
		buddy_free(mm, zone, page, order);
		pfn += 1ul << order;
	}
	lock_release(&mm->threads, &zone->lock);
}

int page_alloc_init(struct mm *mm)
{
	for (unsigned i = 0; i < mm->nr_nodes; i++) {
		struct zone *zone = &mm->node[i].zone;
		uint64_t share = (zone->end_pfn - zone->start_pfn) /
				 ((uint64_t)PCP_ZONE_SHARE * mm->nr_cpus);

		zone->pcp = os_alloc_aligned(CACHE_LINE, mm->nr_cpus * sizeof(*zone->pcp));
		if (!zone->pcp) {
			page_alloc_fini(mm);
			return -ENOMEM;
		}
		for (unsigned cpu = 0; cpu < mm->nr_cpus; cpu++)
			pcp_init(&zone->pcp[cpu], (uint32_t)min_u64(share, PCP_HIGH_MAX));
		zone_init_watermarks(zone);
		zone_free_all(mm, zone);
	}
	frames_forbid(mm->arena, mm->arena_bytes);
	return 0;
}

void page_alloc_fini(struct mm *mm)
{
	/* The range will be somebody else's memory. */
	if (mm->arena)
		frames_permit(mm->arena, mm->arena_bytes);
	for (unsigned i = 0; mm->node && i < mm->nr_nodes; i++) {
		os_free(mm->node[i].zone.pcp);
		mm->node[i].zone.pcp = NULL;
	}
}
