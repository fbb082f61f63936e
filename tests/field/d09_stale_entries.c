/* SPDX-License-Identifier: MIT */
/*
 * D-09, stale entries in the bookkeeping of eviction. A memcg of max 2,000 with 1,000 resident
 * pages sees 1,000,000 pins and unpins without pressure; then 100,000 short-lived pages come and
 * are dropped; then its limit falls to 100. Entries (pages on LRU lists) never exceed twice the
 * resident pages, and those that stand for no page are 0, exactly; memory for bookkeeping does not
 * grow; the squeeze evicts 900 pages and looks at no more than 2,000.
 */
#include <malloc.h>

#include "harness.h"

#define MAX_PAGES 2000
#define RESIDENT 1000
#define CYCLES FEWER_IN_TSAN(1000000, 10)
#define SHORT_LIVED FEWER_IN_TSAN(100000, 10)
#define SQUEEZED 100
#define ENTRY_BYTES 64

struct queue {
	struct fixture f;
	umm_memcg_t *cg;
	umm_obj_t *obj, *brief;
	struct mem_store store, brief_store;
};

/* The sanitizers' allocators do not say. */
static uint64_t heap_bytes(void)
{
	return UNDER_ASAN || UNDER_TSAN ? 0 : mallinfo2().uordblks;
}

static void assert_bookkeeping(struct queue *q, uint64_t resident, uint64_t heap_before)
{
	assert_true(pages_listed(q->f.mm) <= 2 * resident);
	assert_true(heap_bytes() <= heap_before + 2 * resident * ENTRY_BYTES);
}

/* Every entry stands for a page, every page has an entry. */
static void assert_no_stale_entry(struct queue *q, uint64_t resident)
{
	assert_int_equal(umm_drain(q->f.mm), 0);
	assert_int_equal(memcg_pages(q->cg, UMM_MEMORY_CURRENT), resident);
	assert_int_equal(vmstat(q->f.mm, "nr_file_pages"), resident);
	assert_int_equal(pages_listed(q->f.mm), resident);
}

static void pin_and_unpin(struct queue *q)
{
	uint64_t heap = heap_bytes(), rng = 3;
	umm_folio_t *folio;

	for (unsigned n = 0; n < CYCLES; n++) {
		assert_int_equal(umm_pin(q->obj, rng_next(&rng) % RESIDENT, 0, &folio), 0);
		umm_unpin(folio);
		if (n % (CYCLES / 20) == 0)
			assert_bookkeeping(q, RESIDENT, heap);
	}
	assert_bookkeeping(q, RESIDENT, heap);
	assert_int_equal(q->store.reads, RESIDENT);
	assert_int_equal(pages_scanned(q->f.mm), 0);
	assert_no_stale_entry(q, RESIDENT);
}

static void come_and_go(struct queue *q)
{
	uint64_t heap = heap_bytes();

	for (uint64_t n = 0; n < SHORT_LIVED; n++) {
		assert_int_equal(read_page_checked(q->brief, 2, n), 0);
		assert_int_equal(
			umm_advise(q->brief, n * UMM_PAGE_SIZE, UMM_PAGE_SIZE, UMM_ADVISE_DONTNEED),
			0);
		if (n % (SHORT_LIVED / 20) == 0)
			assert_bookkeeping(q, RESIDENT, heap);
	}
	assert_bookkeeping(q, RESIDENT, heap);
	assert_int_equal(pages_scanned(q->f.mm), 0);
	assert_no_stale_entry(q, RESIDENT);
}

static void squeeze(struct queue *q)
{
	uint64_t scanned, refilled;

	assert_int_equal(umm_memcg_set(q->cg, UMM_MEMORY_MAX, SQUEEZED * UMM_PAGE_SIZE), 0);
	scanned = memcg_stat(q->cg, "pgscan");
	refilled = memcg_stat(q->cg, "pgrefill");
	print_message("  to evict 900 pages: %llu scanned, %llu more moved from active\n",
		      (unsigned long long)scanned, (unsigned long long)refilled);
	assert_int_equal(memcg_stat(q->cg, "pgsteal"), RESIDENT - SQUEEZED);
	assert_true(scanned + refilled <= 2000);
	assert_no_stale_entry(q, SQUEEZED);
}

static void test_stale_entries(void **state)
{
	struct umm_options o = fixture_options(2 * MAX_PAGES);
	struct queue q;

	(void)state;
	o.readahead_pages = 0; /* short-lived pages come one by one */
	q.f = fixture_create_with(&o);
	q.cg = memcg_with_max(&q.f, NULL, "queue", MAX_PAGES);
	q.store = (struct mem_store){ .id = 1, .pages = RESIDENT };
	q.brief_store = (struct mem_store){ .id = 2, .pages = SHORT_LIVED };
	q.obj = mem_store_open(q.cg, &q.store);
	q.brief = mem_store_open(q.cg, &q.brief_store);
	for (uint64_t i = 0; i < RESIDENT; i++)
		assert_int_equal(read_page_checked(q.obj, 1, i), 0);
	pin_and_unpin(&q);
	come_and_go(&q);
	squeeze(&q);
	assert_int_equal(umm_close(q.obj), 0);
	assert_int_equal(umm_close(q.brief), 0);
	assert_int_equal(umm_memcg_destroy(q.cg), 0);
	assert_int_equal(log_warnings, 0);
	fixture_destroy(&q.f);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_stale_entries) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
