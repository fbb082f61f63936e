/* SPDX-License-Identifier: MIT */
/*
 * The whole-state check: with no call in flight and batches drained, every count and every list must
 * agree with a slow recount from struct page up. Invariants, as docs/invariants.md numbers them:
 *
 *   I1  a LRU list's length is its size, per memcg, node and list
 *   I2  a listed folio has PG_lru, a reference, and is on the list of the lruvec that it names
 *   I3  a free page has no flags of an owner, no memcg, no mapping, no reference
 *   I4  nothing is isolated; every cached folio has PG_lru
 *   I6  active excludes unevictable; PG_pinned implies unevictable
 *   U1  free + on CPU lists + in use = all frames
 *   U2  a memcg's usage is the number of pages that name it or a descendant; within max
 *   U3  index and folio agree, both ways; a mapping's nr_pages is the number of its folios
 *   U4  free lists are sound (buddy_check)
 */
#include "core/core.h"

struct check {
	struct mm *mm;
	int violations;
	uint64_t nr_free, nr_pcp, nr_used; /* pages */
	uint64_t nr_cached;                /* folios with a mapping */
};

#define CHECK(c, cond, ...)                            \
	do {                                           \
		if (!(cond)) {                         \
			(c)->violations++;             \
			vm_warn((c)->mm, __VA_ARGS__); \
		}                                      \
	} while (0)

static void check_free_page(struct check *c, const struct folio *f, uint64_t pfn)
{
	CHECK(c, folio_ref_count(f) == 0, "I3: free pfn %llu has references",
	      (unsigned long long)pfn);
	CHECK(c, !atomic_load(&f->mapping), "I3: free pfn %llu has a mapping",
	      (unsigned long long)pfn);
	CHECK(c, atomic_load(&f->memcg_slot) == MEMCG_SLOT_NONE, "I3: free pfn %llu is charged",
	      (unsigned long long)pfn);
	CHECK(c,
	      !folio_test(f, PG_lru) && !folio_test(f, PG_active) &&
		      !folio_test(f, PG_unevictable) && !folio_test(f, PG_pinned),
	      "I3: free pfn %llu has LRU flags", (unsigned long long)pfn);
}

static void check_cached(struct check *c, struct folio *f, struct mapping *mapping, uint64_t pfn)
{
	c->nr_cached++;
	CHECK(c, folio_test(f, PG_lru), "I4: cached pfn %llu is on no list",
	      (unsigned long long)pfn);
	CHECK(c, xa_load(&mapping->pages, atomic_load(&f->index)) == f,
	      "U3: pfn %llu is not where it says in its index", (unsigned long long)pfn);
}

static void check_used_page(struct check *c, struct folio *f, uint64_t pfn)
{
	struct mapping *mapping = atomic_load(&f->mapping);
	memcg_slot_t slot = atomic_load(&f->memcg_slot);

	c->nr_used += folio_nr_pages(f);
	CHECK(c, !(folio_test(f, PG_active) && folio_test(f, PG_unevictable)),
	      "I6: pfn %llu is active and unevictable", (unsigned long long)pfn);
	CHECK(c, !folio_test(f, PG_pinned) || folio_test(f, PG_unevictable),
	      "I6: pfn %llu is pinned but evictable", (unsigned long long)pfn);
	CHECK(c, slot != MEMCG_SLOT_NONE, "U2: pfn %llu is in use but not charged",
	      (unsigned long long)pfn);
	if (slot != MEMCG_SLOT_NONE)
		folio_lruvec(f)->memcg->check_pages += folio_nr_pages(f);
	if (mapping)
		check_cached(c, f, mapping, pfn);
}

/* Every frame is exactly one of: in a free block, on a CPU's list, in use. */
static void check_frames(struct check *c)
{
	struct mm *mm = c->mm;
	uint64_t pfn = 0;

	while (pfn < mm->nr_pages) {
		struct folio *f = page_folio(pfn_page(mm, pfn));
		uint64_t nr = 1;

		if (folio_test(f, PG_buddy)) {
			nr = folio_nr_pages(f);
			c->nr_free += nr;
			check_free_page(c, f, pfn);
		} else if (folio_test(f, PG_pcp)) {
			c->nr_pcp++;
			check_free_page(c, f, pfn);
		} else {
			nr = folio_nr_pages(f);
			CHECK(c, folio_ref_count(f) > 0, "U1: pfn %llu is neither free nor in use",
			      (unsigned long long)pfn);
			check_used_page(c, f, pfn);
		}
		pfn += nr;
	}
	CHECK(c, pfn == mm->nr_pages, "U1: a block reaches past the arena");
	CHECK(c, c->nr_free + c->nr_pcp == mm_nr_free(mm),
	      "U1: %llu free frames found, %llu counted",
	      (unsigned long long)(c->nr_free + c->nr_pcp), (unsigned long long)mm_nr_free(mm));
}

static void check_list(struct check *c, struct lruvec *lruvec, enum lru_list lru)
{
	const char *name = lruvec->memcg->name;
	uint64_t nr = 0, bound = c->mm->nr_pages;
	struct folio *f;

	list_for_each_entry (f, &lruvec->lists[lru], struct folio, lru) {
		nr += folio_nr_pages(f);
		CHECK(c, folio_test(f, PG_lru), "I2: %s list %d: a folio without PG_lru", name,
		      lru);
		CHECK(c, folio_ref_count(f) > 0, "I2: %s list %d: a free folio", name, lru);
		CHECK(c, folio_lruvec(f) == lruvec, "I2: %s list %d: a folio of another lruvec",
		      name, lru);
		CHECK(c, folio_lru_list(f) == lru, "I2: %s list %d: a folio of list %d", name, lru,
		      folio_lru_list(f));
		if (nr > bound || c->violations > 100)
			break;
	}
	CHECK(c, nr == lruvec_size(lruvec, lru),
	      "I1: %s list %d has %llu pages, its size says %llu", name, lru,
	      (unsigned long long)nr, (unsigned long long)lruvec_size(lruvec, lru));
}

/* Children come after their parent in the walk; add bottom-up by letting each page count upwards. */
static uint64_t subtree_pages(struct mem_cgroup *memcg)
{
	struct mem_cgroup *pos = memcg_iter(memcg, NULL);
	uint64_t nr = 0;

	while (pos) {
		nr += pos->check_pages;
		pos = memcg_iter(memcg, pos);
	}
	return nr;
}

static void check_memcg(struct check *c, struct mem_cgroup *memcg)
{
	uint64_t usage = memcg_usage(memcg), pages = subtree_pages(memcg);

	CHECK(c, usage == pages, "U2: %s: usage %llu, pages %llu", memcg->name,
	      (unsigned long long)usage, (unsigned long long)pages);
	CHECK(c, usage <= atomic_load(&memcg->memory.max), "U2: %s: usage above max", memcg->name);
	for (unsigned node = 0; node < c->mm->nr_nodes; node++) {
		struct lruvec *lruvec = &memcg->lruvec[node];

		CHECK(c, atomic_load(&lruvec->nr_isolated) == 0, "I4: %s: folios are isolated",
		      memcg->name);
		for (unsigned lru = 0; lru < NR_LRU_LISTS; lru++)
			check_list(c, lruvec, lru);
	}
}

static void check_memcgs(struct check *c)
{
	struct mem_cgroup *root = root_memcg(c->mm), *pos = memcg_iter(root, NULL);

	while (pos) {
		check_memcg(c, pos);
		pos = memcg_iter(root, pos);
	}
}

static void reset_scratch(struct mm *mm)
{
	struct mem_cgroup *root = root_memcg(mm), *pos = memcg_iter(root, NULL);

	while (pos) {
		pos->check_pages = 0;
		pos = memcg_iter(root, pos);
	}
}

/* Every folio in an index says so itself; together with check_cached that is both ways. */
static uint64_t check_mapping(struct check *c, struct mapping *mapping)
{
	uint64_t index = 0, nr = 0;
	void *entry;

	while ((entry = xa_find(&mapping->pages, &index, UINT64_MAX))) {
		CHECK(c, entry_is_folio(entry), "U3: a load is in flight at quiesce");
		if (entry_is_folio(entry)) {
			struct folio *f = entry;

			nr += folio_nr_pages(f);
			CHECK(c,
			      atomic_load(&f->mapping) == mapping &&
				      atomic_load(&f->index) == index,
			      "U3: the folio at index %llu says otherwise",
			      (unsigned long long)index);
		}
		if (index++ == UINT64_MAX)
			break;
	}
	CHECK(c, nr == mapping->nr_pages, "U3: a mapping has %llu pages, its count says %llu",
	      (unsigned long long)nr, (unsigned long long)mapping->nr_pages);
	return xa_nr_nodes(&mapping->pages);
}

static void check_mappings(struct check *c)
{
	struct mapping_table *table = c->mm->mappings;
	struct mapping *mapping;
	uint64_t nodes = 0, pages = 0;

	lock_acquire(&c->mm->threads, &table->lock);
	for (unsigned i = 0; i < ARRAY_SIZE(table->bucket); i++) {
		list_for_each_entry (mapping, &table->bucket[i], struct mapping, list) {
			nodes += check_mapping(c, mapping);
			pages += mapping->nr_pages;
		}
	}
	lock_release(&c->mm->threads, &table->lock);
	CHECK(c, pages == c->nr_cached, "U3: %llu pages in indexes, %llu folios say they are",
	      (unsigned long long)pages, (unsigned long long)c->nr_cached);
	CHECK(c, nodes == atomic_load(&c->mm->nr_index_nodes),
	      "U3: %llu index nodes, count says %llu", (unsigned long long)nodes,
	      (unsigned long long)atomic_load(&c->mm->nr_index_nodes));
}

int check_mm(struct mm *mm)
{
	struct check c = { .mm = mm };

	reset_scratch(mm);
	for (unsigned node = 0; node < mm->nr_nodes; node++) {
		int bad = buddy_check(mm, &mm->node[node].zone);

		c.violations += bad;
	}
	check_frames(&c);
	check_memcgs(&c);
	check_mappings(&c);
	return c.violations;
}
