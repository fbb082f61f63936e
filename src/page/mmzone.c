/* SPDX-License-Identifier: MIT */
/*
 * Brings up the arena: one range of page frames, cut into nodes, each frame with its struct page. Who
 * owns which frame is not decided here: alloc/ gets them all afterwards. The messages' way out of the
 * library (mm_log, vm_warn) stands here as well, for every floor above needs it.
 */
#include "page/mmzone.h"

#include <stdarg.h>
#include <stdio.h>

#define LOG_LINE_BYTES 512

/* ---- nodes ---- */

/*
 * First pfn of node `i` (of the arena's end for i == nr_nodes). Where there is room for it, no two nodes
 * share a block of the largest order: such a block could never become free as a whole.
 */
static uint64_t node_start_pfn(const struct mm *mm, unsigned i)
{
	uint64_t pfn =
		mm->nr_pages / mm->nr_nodes * i + mm->nr_pages % mm->nr_nodes * i / mm->nr_nodes;

	if (i == mm->nr_nodes)
		return mm->nr_pages;
	if (mm->nr_pages / mm->nr_nodes >= 2ul << MAX_ORDER)
		pfn &= ~((1ul << MAX_ORDER) - 1);
	return pfn;
}

/* One node on a machine of several is left where the system puts it: to bind it would forbid it the
 * memory of the others. */
static int node_placement(const struct mm *mm, unsigned i)
{
	return mm->nr_nodes > 1 && os_nr_numa_nodes() >= mm->nr_nodes ? (int)i : -1;
}

static int zone_init(struct zone *zone, uint64_t start_pfn, uint64_t end_pfn)
{
	VM_BUG_ON(start_pfn >= end_pfn);
	lock_init(&zone->lock, LOCK_ZONE);
	zone->start_pfn = start_pfn;
	zone->end_pfn = end_pfn;
	for (unsigned order = 0; order < NR_ORDERS; order++)
		for (unsigned type = 0; type < NR_MIGRATETYPES; type++)
			list_init(&zone->free_area[order].free_list[type]);

	zone->nr_pageblocks =
		((end_pfn - 1) >> PAGEBLOCK_ORDER) - (start_pfn >> PAGEBLOCK_ORDER) + 1;
	zone->pageblock = os_alloc(zone->nr_pageblocks * sizeof(*zone->pageblock));
	if (!zone->pageblock)
		return -ENOMEM;
	for (uint64_t i = 0; i < zone->nr_pageblocks; i++)
		atomic_init(&zone->pageblock[i], MIGRATE_MOVABLE);
	return 0;
}

static int node_init(struct mm *mm, unsigned id)
{
	struct pgdat *pgdat = &mm->node[id];
	uint64_t start = node_start_pfn(mm, id);
	uint64_t end = node_start_pfn(mm, id + 1);
	unsigned flags = 0;

	pgdat->mm = mm;
	pgdat->id = id;
	pgdat->numa_node = node_placement(mm, id);
	lock_init(&pgdat->lru_lock, LOCK_LRUVEC);
	lock_init(&pgdat->kswapd.lock, LOCK_KSWAPD);
	if (!(mm->opt.flags & UMM_NO_HUGEPAGES))
		flags |= OS_ARENA_HUGE;
	if (!(mm->opt.flags & UMM_NO_PREFAULT))
		flags |= OS_ARENA_PREFAULT;

	if (zone_init(&pgdat->zone, start, end))
		return -ENOMEM;
	/* mem_map is zeroed memory: no flags, no references, no owner. Only the node is to be told. */
	for (uint64_t pfn = start; pfn < end; pfn++)
		page_folio(pfn_page(mm, pfn))->pgdat = pgdat;
	return os_arena_populate((char *)mm->arena + (start << PAGE_SHIFT),
				 (end - start) << PAGE_SHIFT, flags, pgdat->numa_node);
}

#define HUGE_PAGE_BYTES (2ul << 20)

/* The records are looked at on every hit, in random order: huge pages save a miss of the TLB each. */
static int mem_map_init(struct mm *mm)
{
	size_t bytes = mm->nr_pages * sizeof(*mm->mem_map);
	bool huge = bytes >= HUGE_PAGE_BYTES && !(mm->opt.flags & UMM_NO_HUGEPAGES);
	void *base;
	int err = os_arena_map(bytes, huge ? HUGE_PAGE_BYTES : PAGE_SIZE, &base);

	if (err)
		return err;
	mm->mem_map = base;
	return huge ? os_arena_populate(base, bytes, OS_ARENA_HUGE, -1) : 0;
}

int mm_arena_init(struct mm *mm)
{
	int err;

	mm->nr_nodes = mm->opt.nr_nodes;
	mm->nr_pages = mm->opt.memory_bytes >> PAGE_SHIFT;
	mm->arena_bytes = mm->nr_pages << PAGE_SHIFT;
	mm->nr_cpus = os_nr_cpus();
	VM_BUG_ON(mm->nr_nodes == 0 || mm->nr_nodes > UMM_MAX_NODES);
	VM_BUG_ON(mm->nr_pages < mm->nr_nodes || mm->nr_cpus == 0);

	err = os_arena_map(mm->arena_bytes, PAGE_SIZE << MAX_ORDER, &mm->arena);
	if (err) {
		mm->arena = NULL;
		return err;
	}
	err = mem_map_init(mm);
	mm->node = os_alloc_aligned(CACHE_LINE, mm->nr_nodes * sizeof(*mm->node));
	if (!err && !mm->node)
		err = -ENOMEM;
	for (unsigned i = 0; !err && i < mm->nr_nodes; i++)
		err = node_init(mm, i);
	if (err)
		mm_arena_fini(mm);
	return err;
}

void mm_arena_fini(struct mm *mm)
{
	for (unsigned i = 0; mm->node && i < mm->nr_nodes; i++)
		os_free(mm->node[i].zone.pageblock);
	os_free(mm->node);
	mm->node = NULL;
	if (mm->mem_map)
		os_arena_unmap(mm->mem_map, mm->nr_pages * sizeof(*mm->mem_map));
	mm->mem_map = NULL;
	if (mm->arena)
		os_arena_unmap(mm->arena, mm->arena_bytes);
	mm->arena = NULL;
}

unsigned mm_local_node(const struct mm *mm)
{
	unsigned cpu;

	if (mm->nr_nodes == 1)
		return 0;
	cpu = os_cpu();
	/* Nodes on real ones: node i is on the machine's i-th; what is beyond them is dealt out. */
	if (mm->node[0].numa_node >= 0)
		return os_cpu_numa_node(cpu) % mm->nr_nodes;
	/* No real placement: neighbouring CPUs share a node. */
	return (unsigned)((uint64_t)cpu * mm->nr_nodes / mm->nr_cpus) % mm->nr_nodes;
}

/* ---- pageblocks ---- */

static _Atomic uint8_t *pageblock_byte(const struct zone *zone, uint64_t pfn)
{
	VM_DEBUG_ON(pfn < zone->start_pfn || pfn >= zone->end_pfn);
	return &zone->pageblock[(pfn >> PAGEBLOCK_ORDER) - (zone->start_pfn >> PAGEBLOCK_ORDER)];
}

enum migratetype pageblock_type(const struct zone *zone, uint64_t pfn)
{
	uint8_t byte = atomic_load_explicit(pageblock_byte(zone, pfn), memory_order_relaxed);

	return (enum migratetype)(byte & PB_MIGRATETYPE_MASK);
}

void pageblock_set_type(struct zone *zone, uint64_t pfn, enum migratetype type)
{
	_Atomic uint8_t *p = pageblock_byte(zone, pfn);
	uint8_t byte = atomic_load_explicit(p, memory_order_relaxed);

	VM_DEBUG_ON(type >= NR_MIGRATETYPES);
	byte = (uint8_t)((byte & ~PB_MIGRATETYPE_MASK) | type);
	atomic_store_explicit(p, byte, memory_order_relaxed);
}

/* ---- messages ---- */

static const char *const flag_name[NR_PAGE_FLAGS] = {
	[PG_lru] = "lru",
	[PG_active] = "active",
	[PG_unevictable] = "unevictable",
	[PG_pinned] = "pinned",
	[PG_referenced] = "referenced",
	[PG_workingset] = "workingset",
	[PG_swapbacked] = "swapbacked",
	[PG_kernel] = "kernel",
	[PG_buddy] = "buddy",
	[PG_pcp] = "pcp",
	[PG_tail] = "tail",
};

void folio_describe(const struct folio *f, char *buf, size_t bytes)
{
	uint32_t flags = atomic_load_explicit(&f->flags, memory_order_relaxed);
	const struct mm *mm = f->pgdat->mm;
	char names[160] = "";
	size_t len = 0;

	for (unsigned i = 0; i < NR_PAGE_FLAGS; i++) {
		VM_DEBUG_ON(!flag_name[i]);
		if (flags & PG_BIT(i) && len < sizeof(names))
			len += (size_t)snprintf(names + len, sizeof(names) - len, "%s%s",
						len ? "," : "", flag_name[i]);
	}
	(void)snprintf(buf, bytes,
		       "pfn %llu node %u order %u refcount %d flags %s mapping %p index %llu "
		       "memcg_slot %u private %#llx",
		       (unsigned long long)page_pfn(mm, (const struct page *)f), f->pgdat->id,
		       f->order, folio_ref_count(f), len ? names : "-",
		       (void *)atomic_load_explicit(&f->mapping, memory_order_relaxed),
		       (unsigned long long)atomic_load_explicit(&f->index, memory_order_relaxed),
		       atomic_load_explicit(&f->memcg_slot, memory_order_relaxed),
		       (unsigned long long)atomic_load_explicit(&f->private, memory_order_relaxed));
}

static void __printf(3, 0)
	mm_vlog(struct mm *mm, enum umm_log_level level, const char *fmt, va_list args)
{
	char line[LOG_LINE_BYTES];

	if (!mm->opt.log)
		return;
	(void)vsnprintf(line, sizeof(line), fmt, args);
	mm->opt.log(mm->opt.log_ctx, level, line);
}

void mm_log(struct mm *mm, enum umm_log_level level, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	mm_vlog(mm, level, fmt, args);
	va_end(args);
}

void vm_warn(struct mm *mm, const char *fmt, ...)
{
	va_list args;

	atomic_fetch_add_explicit(&mm->nr_warnings, 1, memory_order_relaxed);
	va_start(args, fmt);
	mm_vlog(mm, UMM_LOG_WARN, fmt, args);
	va_end(args);
#if UMM_DEBUG >= 3
	vm_bug(__FILE__, __LINE__, fmt);
#endif
}
