/* SPDX-License-Identifier: MIT */
/* page/mmzone: the arena's layout, what is undone when something fails, pageblock bytes, messages. */
#include "mm_fixture.h"

#include <sys/mman.h>

static void check_layout(const struct mm *mm, const struct shape *shape)
{
	uint64_t block = 1ul << MAX_ORDER;
	bool aligned = shape->pages / shape->nodes >= 2 * block;
	uint64_t pfn = 0;

	assert_int_equal(mm->nr_pages, shape->pages);
	assert_int_equal(mm->nr_nodes, shape->nodes);
	assert_true(mm->nr_cpus >= 1);
	assert_int_equal((uintptr_t)mm->arena % (PAGE_SIZE << MAX_ORDER), 0);
	for (unsigned i = 0; i < mm->nr_nodes; i++) {
		const struct pgdat *pgdat = &mm->node[i];
		const struct zone *zone = &pgdat->zone;

		assert_ptr_equal(pgdat->mm, mm);
		assert_int_equal(pgdat->id, i);
		assert_int_equal(zone->start_pfn, pfn);
		assert_true(zone->end_pfn > pfn);
		if (aligned)
			assert_int_equal(zone->start_pfn % block, 0);
		for (; pfn < zone->end_pfn; pfn++) {
			struct page *page = pfn_page(mm, pfn);

			assert_ptr_equal(page->folio.pgdat, pgdat);
			assert_int_equal(page->folio.refcount, 0);
			assert_int_equal(page_pfn(mm, page), pfn);
			assert_ptr_equal(folio_address(page_folio(page)),
					 (char *)mm->arena + pfn * PAGE_SIZE);
			assert_int_equal(pageblock_type(zone, pfn), MIGRATE_MOVABLE);
		}
	}
	assert_int_equal(pfn, mm->nr_pages);
	assert_true(mm_local_node(mm) < mm->nr_nodes);
}

static void test_layout(void **state)
{
	static const struct shape more[] = { { 16, 8 }, { 16, 1 }, { 17, 3 }, { 65536, 8 } };

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(shapes) + ARRAY_SIZE(more); i++) {
		const struct shape *s =
			i < ARRAY_SIZE(shapes) ? &shapes[i] : &more[i - ARRAY_SIZE(shapes)];
		struct fixture *f = fixture_new(s->pages, s->nodes);

		/* Bytes beyond the last whole page are nobody's. */
		f->mm.opt.memory_bytes += PAGE_SIZE - 1;
		assert_int_equal(mm_arena_init(&f->mm), 0);
		check_layout(&f->mm, s);
		mm_arena_fini(&f->mm);
		mm_arena_fini(&f->mm); /* a second time is harmless */
		fixture_delete(f);
	}
}

static size_t resident_pages(const struct mm *mm)
{
	unsigned char *vec = calloc(1, mm->nr_pages);
	size_t nr = 0;

	assert_non_null(vec);
	assert_int_equal(mincore(mm->arena, mm->arena_bytes, vec), 0);
	for (uint64_t i = 0; i < mm->nr_pages; i++)
		nr += vec[i] & 1;
	free(vec);
	return nr;
}

static void test_prefault(void **state)
{
	struct fixture *f = fixture_new(2048, 2);

	(void)state;
	assert_int_equal(mm_arena_init(&f->mm), 0);
	assert_int_equal(resident_pages(&f->mm), 0);
	mm_arena_fini(&f->mm);

	f->mm.opt.flags = UMM_NO_HUGEPAGES;
	assert_int_equal(mm_arena_init(&f->mm), 0);
	assert_int_equal(resident_pages(&f->mm), 2048);
	mm_arena_fini(&f->mm);

	f->mm.opt.flags = 0;
	assert_int_equal(mm_arena_init(&f->mm), 0);
	assert_int_equal(resident_pages(&f->mm), 2048);
	mm_arena_fini(&f->mm);
	fixture_delete(f);
}

static void test_undo(void **state)
{
	struct fixture *f = fixture_new(4096, 3);
	unsigned n, err;

	(void)state;
	for (n = 1;; n++) {
		fault_arm(FAULT_ALLOC, n);
		err = (unsigned)-mm_arena_init(&f->mm);
		if (!fault_disarm())
			break;
		assert_int_equal(err, ENOMEM);
		assert_null(f->mm.arena);
		assert_null(f->mm.mem_map);
		assert_null(f->mm.node);
	}
	assert_int_equal(err, 0);
	assert_true(n > 5);
	mm_arena_fini(&f->mm);
	fixture_delete(f);
}

static void test_pageblock_bytes(void **state)
{
	struct fixture *f = fixture_new(3000, 2);
	struct zone *zone;

	(void)state;
	assert_int_equal(mm_arena_init(&f->mm), 0);
	/* The split is inside a pageblock: each zone has a byte of its own for its part. */
	assert_int_equal(f->mm.node[1].zone.start_pfn, 1500);
	pageblock_set_type(&f->mm.node[0].zone, 1499, MIGRATE_UNMOVABLE);
	assert_int_equal(pageblock_type(&f->mm.node[1].zone, 1500), MIGRATE_MOVABLE);

	zone = &f->mm.node[1].zone;
	assert_int_equal(zone->nr_pageblocks, 4);
	zone->pageblock[1] |= PB_SKIP;
	for (unsigned type = 0; type < NR_MIGRATETYPES; type++) {
		pageblock_set_type(zone, 1536, type);
		assert_int_equal(pageblock_type(zone, 1536 + PAGEBLOCK_PAGES - 1), type);
		assert_int_equal(pageblock_type(zone, 1535), MIGRATE_MOVABLE);
		assert_int_equal(pageblock_type(zone, 2999), MIGRATE_MOVABLE);
		assert_true(zone->pageblock[1] & PB_SKIP);
	}
	mm_arena_fini(&f->mm);
	fixture_delete(f);
}

static void test_messages(void **state)
{
	struct fixture *f = fixture_new(64, 1);
	struct folio *folio;
	char buf[256], small[8];

	(void)state;
	assert_int_equal(mm_arena_init(&f->mm), 0);
	folio = page_folio(pfn_page(&f->mm, 7));
	folio_describe(folio, buf, sizeof(buf));
	assert_non_null(strstr(buf, "pfn 7 "));
	assert_non_null(strstr(buf, "flags -"));
	folio->flags = (1u << NR_PAGE_FLAGS) - 1;
	folio_describe(folio, buf, sizeof(buf));
	assert_non_null(strstr(buf, "lru,active,"));
	assert_non_null(strstr(buf, ",tail "));
	folio_describe(folio, small, sizeof(small));
	assert_int_equal(strlen(small), sizeof(small) - 1);
	folio->flags = 0;

	mm_log(&f->mm, UMM_LOG_INFO, "%s %d", "hello", 5);
	assert_string_equal(f->last_line, "hello 5");
#if UMM_DEBUG < 3
	vm_warn(&f->mm, "odd: %d", 6);
	assert_string_equal(f->last_line, "odd: 6");
	assert_int_equal(f->mm.nr_warnings, 1);
	f->mm.opt.log = NULL;
	vm_warn(&f->mm, "unheard");
	assert_int_equal(f->nr_lines, 2);
	assert_int_equal(f->mm.nr_warnings, 2);
#endif
	mm_arena_fini(&f->mm);
	fixture_delete(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_layout),   cmocka_unit_test(test_prefault),
		cmocka_unit_test(test_undo),     cmocka_unit_test(test_pageblock_bytes),
		cmocka_unit_test(test_messages),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
