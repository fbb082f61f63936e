/* SPDX-License-Identifier: MIT */
/*
 * alloc/buddy: splitting and merging, pageblock types, and that the checker finds what it is there to
 * find. Straight on the zone, without the CPU lists.
 */
#include "mm_fixture.h"

static struct zone *zone0(struct mm *mm)
{
	return &mm->node[0].zone;
}

/* A block as its user would hold it: with a reference, and marked with the type it is used as. */
static struct folio *take(struct mm *mm, struct zone *zone, unsigned order, enum migratetype type)
{
	struct page *page;

	lock_acquire(&mm->threads, &zone->lock);
	page = buddy_alloc(mm, zone, order, type);
	lock_release(&mm->threads, &zone->lock);
	if (!page)
		return NULL;
	page->folio.migratetype = (uint8_t)type;
	page->folio.refcount = 1;
	assert_int_equal(page->folio.order, order);
	assert_int_equal(page_pfn(mm, page) % (1ul << order), 0);
	assert_int_equal(page->folio.flags, 0);
	return page_folio(page);
}

static void give(struct mm *mm, struct zone *zone, struct folio *folio)
{
	folio->refcount = 0;
	lock_acquire(&mm->threads, &zone->lock);
	buddy_free(mm, zone, folio_page(folio), folio->order);
	lock_release(&mm->threads, &zone->lock);
}

static enum migratetype type_of(struct mm *mm, struct folio *folio)
{
	return pageblock_type(&folio->pgdat->zone, page_pfn(mm, folio_page(folio)));
}

static void test_every_order(void **state)
{
	(void)state;
	for (unsigned order = 0; order <= MAX_ORDER; order++) {
		struct mm *mm = mm_new(4096, 1);
		struct zone *zone = zone0(mm);
		struct folio *folio = take(mm, zone, order, MIGRATE_MOVABLE);

		assert_non_null(folio);
		assert_int_equal(zone->nr_free, 4096 - (1ul << order));
		/* One order-10 block was cut: of each smaller order its other half is left. */
		for (unsigned o = order; o < MAX_ORDER; o++)
			assert_int_equal(zone->free_area[o].nr_free, 1);
		assert_int_equal(zone->free_area[MAX_ORDER].nr_free, 3);
		for (unsigned long i = 1; i < 1ul << order; i++)
			assert_int_equal(folio_page(folio)[i].folio.flags, PG_BIT(PG_tail));
		assert_int_equal(mm_buddy_check(mm), 0);
		give(mm, zone, folio);
		mm_delete(mm);
	}
}

/* Take all of each zone in random orders, return it in random order. */
static void fragment(struct mm *mm, uint64_t *seed, struct folio **held)
{
	for (unsigned i = 0; i < mm->nr_nodes; i++) {
		struct zone *zone = &mm->node[i].zone;
		uint64_t pages = 0;
		size_t nr = 0;

		while (zone->nr_free) {
			unsigned order = next_random(seed) % NR_ORDERS;
			enum migratetype type = next_random(seed) % NR_MIGRATETYPES;

			while (!(held[nr] = take(mm, zone, order, type)))
				order--;
			pages += folio_nr_pages(held[nr++]);
		}
		assert_int_equal(pages, zone->end_pfn - zone->start_pfn);
		assert_null(take(mm, zone, 0, MIGRATE_MOVABLE));
		assert_null(take(mm, zone, 0, MIGRATE_UNMOVABLE));
		assert_int_equal(buddy_check(mm, zone), 0);
		shuffle(held, nr, seed);
		for (size_t k = 0; k < nr; k++) {
			give(mm, zone, held[k]);
			if (k % 512 == 0)
				assert_int_equal(buddy_check(mm, zone), 0);
		}
	}
}

static void test_fragment_and_merge(void **state)
{
	struct folio **held = calloc(17001, sizeof(struct folio *));
	uint64_t seed = 20201105;

	(void)state;
	assert_non_null(held);
	for (unsigned i = 0; i < ARRAY_SIZE(shapes); i++) {
		struct mm *mm = mm_new(shapes[i].pages, shapes[i].nodes);

		for (unsigned round = 0; round < 3; round++) {
			fragment(mm, &seed, held);
			assert_pristine(mm);
		}
		mm_delete(mm);
	}
	free(held);
}

static void test_single_pages_merge(void **state)
{
	struct folio **held = calloc(17001, sizeof(struct folio *));
	uint64_t seed = 7;

	(void)state;
	assert_non_null(held);
	for (unsigned i = 0; i < ARRAY_SIZE(shapes); i++) {
		struct mm *mm = mm_new(shapes[i].pages, shapes[i].nodes);

		for (unsigned n = 0; n < mm->nr_nodes; n++) {
			struct zone *zone = &mm->node[n].zone;
			size_t nr = 0;

			while ((held[nr] = take(mm, zone, 0, MIGRATE_MOVABLE)))
				nr++;
			assert_int_equal(nr, zone->end_pfn - zone->start_pfn);
			shuffle(held, nr, &seed);
			while (nr)
				give(mm, zone, held[--nr]);
		}
		mm_delete(mm);
	}
	free(held);
}

/* ---- types ---- */

static void test_claim_whole(void **state)
{
	struct mm *mm = mm_new(4096, 1);
	struct zone *zone = zone0(mm);
	struct folio *a, *b, *c;

	(void)state;
	a = take(mm, zone, 0, MIGRATE_UNMOVABLE);
	assert_int_equal(type_of(mm, a), MIGRATE_UNMOVABLE);
	assert_int_equal(vm_event_sum(mm, PAGEBLOCK_CLAIM), 1);
	/* One pageblock is enough, and the other half of the order-10 block stays a whole one. */
	assert_int_equal(zone->free_area[PAGEBLOCK_ORDER].nr_free, 1);
	assert_int_equal(buddy_check(mm, zone), 0);

	/* More of the same kind come from the same pageblock. */
	b = take(mm, zone, 7, MIGRATE_UNMOVABLE);
	assert_int_equal(page_pfn(mm, folio_page(a)) >> PAGEBLOCK_ORDER,
			 page_pfn(mm, folio_page(b)) >> PAGEBLOCK_ORDER);
	assert_int_equal(vm_event_sum(mm, PAGEBLOCK_CLAIM), 1);

	/* The half that is left over is claimed before another order-10 block is cut. */
	c = take(mm, zone, 2, MIGRATE_RECLAIMABLE);
	assert_int_equal(type_of(mm, c), MIGRATE_RECLAIMABLE);
	assert_int_equal(zone->free_area[MAX_ORDER].nr_free, 3);
	assert_int_equal(buddy_check(mm, zone), 0);

	/* A pageblock that is free again has no past. */
	give(mm, zone, a);
	assert_int_equal(pageblock_type(zone, page_pfn(mm, folio_page(b))), MIGRATE_UNMOVABLE);
	give(mm, zone, b);
	give(mm, zone, c);
	for (uint64_t pfn = 0; pfn < 4096; pfn += PAGEBLOCK_PAGES)
		assert_int_equal(pageblock_type(zone, pfn), MIGRATE_MOVABLE);

	a = take(mm, zone, MAX_ORDER, MIGRATE_UNMOVABLE);
	assert_int_equal(vm_event_sum(mm, PAGEBLOCK_CLAIM), 4);
	assert_int_equal(pageblock_type(zone, page_pfn(mm, folio_page(a)) + 1023),
			 MIGRATE_UNMOVABLE);
	give(mm, zone, a);
	assert_int_equal(vm_event_sum(mm, PAGEBLOCK_STEAL), 0);
	mm_delete(mm);
}

/* Fill one pageblock (arena of 512) with single pages of a type; held[pfn] is the page at pfn. */
static struct mm *one_pageblock(enum migratetype type, struct folio **held)
{
	struct mm *mm = mm_new(PAGEBLOCK_PAGES, 1);

	for (unsigned i = 0; i < PAGEBLOCK_PAGES; i++) {
		struct folio *folio = take(mm, zone0(mm), 0, type);

		assert_non_null(folio);
		held[page_pfn(mm, folio_page(folio))] = folio;
	}
	return mm;
}

static void give_range(struct mm *mm, struct folio **held, unsigned start, unsigned end)
{
	for (unsigned i = start; i < end; i++) {
		give(mm, zone0(mm), held[i]);
		held[i] = NULL;
	}
}

static void give_rest(struct mm *mm, struct folio **held)
{
	for (unsigned i = 0; i < PAGEBLOCK_PAGES; i++)
		if (held[i])
			give(mm, zone0(mm), held[i]);
	mm_delete(mm);
}

static void test_claim_part(void **state)
{
	struct folio *held[PAGEBLOCK_PAGES], *folio;
	struct mm *mm = one_pageblock(MIGRATE_MOVABLE, held);

	(void)state;
	/* One page short of half: no claim, the smallest block is stolen and the rest stays movable. */
	give_range(mm, held, 0, 128);
	give_range(mm, held, 256, 383);
	folio = take(mm, zone0(mm), 0, MIGRATE_UNMOVABLE);
	assert_int_equal(vm_event_sum(mm, PAGEBLOCK_CLAIM), 0);
	assert_int_equal(vm_event_sum(mm, PAGEBLOCK_STEAL), 1);
	assert_int_equal(page_pfn(mm, folio_page(folio)), 382);
	assert_int_equal(type_of(mm, folio), MIGRATE_MOVABLE);
	assert_int_equal(mm_buddy_check(mm), 0);
	give(mm, zone0(mm), folio);

	/* Half of it is free: all that is free changes lists. */
	give_range(mm, held, 383, 384);
	folio = take(mm, zone0(mm), 1, MIGRATE_UNMOVABLE);
	assert_int_equal(vm_event_sum(mm, PAGEBLOCK_CLAIM), 1);
	assert_int_equal(type_of(mm, folio), MIGRATE_UNMOVABLE);
	for (unsigned order = 0; order < NR_ORDERS; order++)
		assert_true(list_empty(&zone0(mm)->free_area[order].free_list[MIGRATE_MOVABLE]));
	assert_int_equal(mm_buddy_check(mm), 0);
	give(mm, zone0(mm), folio);
	give_rest(mm, held);
}

static void test_claim_counts_alike(void **state)
{
	struct folio *held[PAGEBLOCK_PAGES], *folio;
	struct mm *mm = one_pageblock(MIGRATE_UNMOVABLE, held);

	(void)state;
	/* Few pages are free, and the others are unmovable: a movable request leaves the type alone. */
	give_range(mm, held, 32, 64);
	folio = take(mm, zone0(mm), 0, MIGRATE_MOVABLE);
	assert_int_equal(vm_event_sum(mm, PAGEBLOCK_STEAL), 1);
	assert_int_equal(type_of(mm, folio), MIGRATE_UNMOVABLE);
	give(mm, zone0(mm), folio);
	/* As many free, the others movable: the pageblock is one of movable pages in all but name. */
	for (unsigned i = 64; i < 256; i++)
		held[i]->migratetype = MIGRATE_MOVABLE;
	folio = take(mm, zone0(mm), 0, MIGRATE_MOVABLE);
	assert_int_equal(vm_event_sum(mm, PAGEBLOCK_CLAIM), 1);
	assert_int_equal(vm_event_sum(mm, PAGEBLOCK_STEAL), 2);
	give(mm, zone0(mm), folio);
	for (unsigned i = 256; i < 288; i++)
		held[i]->migratetype = MIGRATE_MOVABLE;
	folio = take(mm, zone0(mm), 0, MIGRATE_MOVABLE);
	assert_int_equal(vm_event_sum(mm, PAGEBLOCK_CLAIM), 2);
	assert_int_equal(type_of(mm, folio), MIGRATE_MOVABLE);
	give(mm, zone0(mm), folio);
	give_rest(mm, held);
}

static void test_movable_takes_no_scraps(void **state)
{
	struct folio *held[PAGEBLOCK_PAGES], *folio;
	struct mm *mm = one_pageblock(MIGRATE_UNMOVABLE, held);

	(void)state;
	/* More than half is free, but nowhere 16 pages in a row. */
	for (unsigned i = 0; i < PAGEBLOCK_PAGES; i += 16)
		give_range(mm, held, i, i + 12);
	folio = take(mm, zone0(mm), 3, MIGRATE_MOVABLE);
	assert_non_null(folio);
	assert_int_equal(type_of(mm, folio), MIGRATE_UNMOVABLE);
	assert_int_equal(vm_event_sum(mm, PAGEBLOCK_STEAL), 1);
	give(mm, zone0(mm), folio);
	/* The other way round a request would claim. */
	folio = take(mm, zone0(mm), 3, MIGRATE_RECLAIMABLE);
	assert_int_equal(type_of(mm, folio), MIGRATE_RECLAIMABLE);
	give(mm, zone0(mm), folio);
	give_rest(mm, held);
}

/* Pageblocks with at least one unmovable page in use. */
static unsigned blocks_unmovable(struct mm *mm)
{
	unsigned nr = 0;

	for (uint64_t pfn = 0; pfn < mm->nr_pages; pfn += PAGEBLOCK_PAGES)
		for (uint64_t p = pfn; p < pfn + PAGEBLOCK_PAGES && p < mm->nr_pages; p++) {
			const struct folio *folio = &pfn_page(mm, p)->folio;

			if (folio->refcount && folio->migratetype == MIGRATE_UNMOVABLE) {
				nr++;
				break;
			}
		}
	return nr;
}

static void swap_remove(struct folio **v, size_t *nr, size_t i)
{
	v[i] = v[--*nr];
}

/* Both kinds come and go, mixed, with a quarter of memory free: the unmovable ones stay together. */
static void test_grouping(void **state)
{
	struct mm *mm = mm_new(16384, 1);
	struct folio **kept[2];
	size_t nr[2] = { 0, 0 };
	uint64_t seed = 1207;
	unsigned least;

	(void)state;
	for (unsigned k = 0; k < 2; k++)
		assert_non_null(kept[k] = calloc(16384, sizeof(struct folio *)));
	for (unsigned i = 0; i < 12288; i++) {
		unsigned k = next_random(&seed) % 4 == 0;

		kept[k][nr[k]] = take(mm, zone0(mm), 0, k ? MIGRATE_UNMOVABLE : MIGRATE_MOVABLE);
		assert_non_null(kept[k][nr[k]++]);
	}
	least = (unsigned)(nr[1] + PAGEBLOCK_PAGES - 1) / PAGEBLOCK_PAGES;
	assert_int_equal(blocks_unmovable(mm), least);

	for (unsigned i = 0; i < 100000; i++) {
		unsigned k = next_random(&seed) % 4 == 0;
		size_t j = next_random(&seed) % nr[k];

		give(mm, zone0(mm), kept[k][j]);
		swap_remove(kept[k], &nr[k], j);
		kept[k][nr[k]] = take(mm, zone0(mm), 0, k ? MIGRATE_UNMOVABLE : MIGRATE_MOVABLE);
		assert_non_null(kept[k][nr[k]++]);
	}
	assert_in_range(blocks_unmovable(mm), least, least * 11 / 10 + 1);
	assert_int_equal(vm_event_sum(mm, PAGEBLOCK_STEAL), 0);
	assert_int_equal(mm_buddy_check(mm), 0);
	for (unsigned k = 0; k < 2; k++) {
		while (nr[k])
			give(mm, zone0(mm), kept[k][--nr[k]]);
		free(kept[k]);
	}
	mm_delete(mm);
}

/*
 * K-10, small, without a compactor: the control. What is proved here is that the scenario is hard, that
 * pageblocks get their type back once the immovable pages are gone, and that all merges at the end.
 */
static void test_interleaved_control(void **state)
{
	struct mm *mm = mm_new(16384, 1);
	struct folio **fixed = calloc(15000, sizeof(struct folio *));
	struct folio **movable = calloc(7500, sizeof(struct folio *));
	struct folio *big[12];
	uint64_t seed = 10;
	unsigned got = 0;

	(void)state;
	assert_non_null(fixed);
	assert_non_null(movable);
	for (unsigned i = 0; i < 15000; i++)
		assert_non_null(fixed[i] = take(mm, zone0(mm), 0, MIGRATE_UNMOVABLE));
	/* Each second one, in random order: what is freed last is used first, and freed in order it would
	 * leave the first pageblocks without movable pages. */
	for (unsigned i = 0; i < 7500; i++)
		movable[i] = fixed[2 * i];
	shuffle(movable, 7500, &seed);
	for (unsigned i = 0; i < 7500; i++)
		give(mm, zone0(mm), movable[i]);
	for (unsigned i = 0; i < 7500; i++)
		assert_non_null(movable[i] = take(mm, zone0(mm), 0, MIGRATE_MOVABLE));
	for (unsigned i = 1; i < 15000; i += 2)
		give(mm, zone0(mm), fixed[i]);
	assert_int_equal(mm_buddy_check(mm), 0);
	while (got < 12 && (big[got] = take(mm, zone0(mm), 9, MIGRATE_UNMOVABLE)))
		got++;
	assert_true(got <= 3);
	while (got)
		give(mm, zone0(mm), big[--got]);
	for (unsigned i = 0; i < 7500; i++)
		give(mm, zone0(mm), movable[i]);
	for (uint64_t pfn = 0; pfn < 16384; pfn += PAGEBLOCK_PAGES)
		assert_int_equal(pageblock_type(zone0(mm), pfn), MIGRATE_MOVABLE);
	free(fixed);
	free(movable);
	mm_delete(mm);
}

/* ---- the checker ---- */

/* Each of these breaks one thing, expects a finding, and mends it. */
#define EXPECT_FOUND(breaking, mending)                             \
	do {                                                        \
		breaking;                                           \
		assert_true(buddy_check(mm, zone) > 0);             \
		assert_non_null(strstr(f->last_line, "free list")); \
		mending;                                            \
		assert_int_equal(buddy_check(mm, zone), 0);         \
	} while (0)

static void test_check_finds(void **state)
{
	struct mm *mm = mm_new(4096, 1);
	struct fixture *f = container_of(mm, struct fixture, mm);
	struct zone *zone = zone0(mm);
	struct folio *mine = take(mm, zone, 3, MIGRATE_MOVABLE);
	struct page *block = folio_page(mine) + 8; /* its buddy, free */
	struct list_head *list = &zone->free_area[3].free_list[MIGRATE_MOVABLE];
	struct page elsewhere = { 0 };

	(void)state;
	assert_ptr_equal(list->next, &block->folio.lru);
	EXPECT_FOUND(zone->nr_free++, zone->nr_free--);
	EXPECT_FOUND(zone->free_area[3].nr_free++, zone->free_area[3].nr_free--);
	EXPECT_FOUND(block->folio.order = 2, block->folio.order = 3);
	EXPECT_FOUND(block->folio.flags |= PG_BIT(PG_referenced),
		     block->folio.flags = PG_BIT(PG_buddy));
	EXPECT_FOUND(block->folio.refcount = 1, block->folio.refcount = 0);
	EXPECT_FOUND(block[3].folio.refcount = 1, block[3].folio.refcount = 0);
	EXPECT_FOUND(block[7].folio.flags = 0, block[7].folio.flags = PG_BIT(PG_tail));
	EXPECT_FOUND(block->folio.migratetype = MIGRATE_UNMOVABLE,
		     block->folio.migratetype = MIGRATE_MOVABLE);
	EXPECT_FOUND(mine->flags = PG_BIT(PG_buddy), mine->flags = 0);
	EXPECT_FOUND(pageblock_set_type(zone, page_pfn(mm, block), MIGRATE_UNMOVABLE),
		     pageblock_set_type(zone, page_pfn(mm, block), MIGRATE_MOVABLE));
	EXPECT_FOUND(list->next = &elsewhere.folio.lru, list->next = &block->folio.lru);
	EXPECT_FOUND(list->next = NULL, list->next = &block->folio.lru);
	EXPECT_FOUND(block->folio.lru.prev = NULL, block->folio.lru.prev = list);
	/* A list without an end is found out, too. */
	EXPECT_FOUND(block->folio.lru.next = &block->folio.lru, block->folio.lru.next = list);
	/* A second block inside this one. */
	block[2].folio.order = 1;
	EXPECT_FOUND(list_add(&block[2].folio.lru, &zone->free_area[1].free_list[1]),
		     list_del(&block[2].folio.lru));
	EXPECT_FOUND(block[2].folio.flags = PG_BIT(PG_buddy),
		     block[2].folio.flags = PG_BIT(PG_tail));
	give(mm, zone, mine);
	mm_delete(mm);
}

static void free_twice(void *arg)
{
	struct mm *mm = arg;
	struct folio *folio = take(mm, zone0(mm), 2, MIGRATE_MOVABLE);

	give(mm, zone0(mm), folio);
	give(mm, zone0(mm), folio);
}

static void free_unaligned(void *arg)
{
	struct mm *mm = arg;
	struct folio *folio = take(mm, zone0(mm), 2, MIGRATE_MOVABLE);

	folio_page(folio)[1].folio.flags = 0;
	folio_page(folio)[1].folio.order = 1;
	give(mm, zone0(mm), page_folio(folio_page(folio) + 1));
}

static void free_other_zone(void *arg)
{
	struct mm *mm = arg;

	give(mm, &mm->node[1].zone, take(mm, zone0(mm), 0, MIGRATE_MOVABLE));
}

static void test_refuses_nonsense(void **state)
{
	struct mm *mm = mm_new(4096, 2);

	(void)state;
	assert_true(aborts(free_twice, mm));
	assert_true(aborts(free_unaligned, mm));
	assert_true(aborts(free_other_zone, mm));
	mm_delete(mm);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_order),
		cmocka_unit_test(test_fragment_and_merge),
		cmocka_unit_test(test_single_pages_merge),
		cmocka_unit_test(test_claim_whole),
		cmocka_unit_test(test_claim_part),
		cmocka_unit_test(test_claim_counts_alike),
		cmocka_unit_test(test_movable_takes_no_scraps),
		cmocka_unit_test(test_grouping),
		cmocka_unit_test(test_interleaved_control),
		cmocka_unit_test(test_check_finds),
		cmocka_unit_test(test_refuses_nonsense),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
