/* SPDX-License-Identifier: MIT */
/*
 * D-04, the cost of scanning when nearly all is pinned. A memcg of max 4,096 pages has 4,088 pinned
 * and misses 10,000 times on other pages; then all are pinned and 1,000 reads fail. The same at 512
 * and at 65,536 (under ThreadSanitizer at 8,192): the cost of one of them does not grow with the
 * pinned pages.
 *
 * Pinned in any order, each page is loaded by its own pin, and is out of reclaim's way from the
 * start. Pinned in order, most pages are loaded ahead of their pin and stand on the lists: the
 * second test.
 */
#include "harness.h"

#define FREE_PAGES 8
#define MISSES FEWER_IN_TSAN(10000, 10)
#define FAILURES 1000
#define MAX_STEPS 64 /* a miss, or a refusal */

struct cost {
	uint64_t scanned, reclaimed, most;
	uint64_t failing_ns; /* CPU time of a refusal */
	uint64_t failing_most;
};

struct pinned {
	struct fixture f;
	umm_memcg_t *cg;
	umm_obj_t *obj, *other;
	struct mem_store store, other_store;
	umm_folio_t **pin;
	uint64_t max;
	bool in_order;
};

static void pinned_open(struct pinned *p, uint64_t max, bool in_order)
{
	*p = (struct pinned){ .max = max, .in_order = in_order };
	p->f = fixture_create(max + 1024);
	p->cg = memcg_with_max(&p->f, NULL, "pinned", max);
	p->store = (struct mem_store){ .id = 1, .pages = max };
	p->other_store = (struct mem_store){ .id = 2, .pages = 3 * (MISSES + FAILURES) };
	p->obj = mem_store_open(p->cg, &p->store);
	p->other = mem_store_open(p->cg, &p->other_store);
	p->pin = calloc(max, sizeof(p->pin[0]));
	assert_non_null(p->pin);
}

static void pinned_close(struct pinned *p)
{
	assert_int_equal(umm_close(p->obj), 0);
	assert_int_equal(umm_close(p->other), 0);
	assert_int_equal(umm_memcg_destroy(p->cg), 0);
	free(p->pin);
	assert_int_equal(log_warnings, 0);
	fixture_destroy(&p->f);
}

/* The n-th page to be pinned; max is a power of two, so an odd factor visits every page once. */
static uint64_t pin_order(const struct pinned *p, uint64_t n)
{
	return p->in_order ? n : (n * 37 + 5) % p->max;
}

static void pin_range(struct pinned *p, uint64_t from, uint64_t to)
{
	for (uint64_t n = from; n < to; n++) {
		uint64_t index = pin_order(p, n);

		assert_int_equal(umm_pin(p->obj, index, 0, &p->pin[index]), 0);
	}
}

/* Page `n` of those that nobody else asks for, never in order. */
static uint64_t other_page(uint64_t n)
{
	return 3 * n + 1;
}

static void miss(struct pinned *p, struct cost *cost)
{
	uint64_t steal = memcg_stat(p->cg, "pgsteal");

	for (uint64_t n = 0; n < MISSES; n++) {
		uint64_t before = memcg_stat(p->cg, "pgscan"), steps;

		assert_int_equal(read_page_checked(p->other, 2, other_page(n)), 0);
		steps = memcg_stat(p->cg, "pgscan") - before;
		cost->scanned += steps;
		cost->most = steps > cost->most ? steps : cost->most;
	}
	cost->reclaimed = memcg_stat(p->cg, "pgsteal") - steal;
	assert_int_equal(memcg_event(p->cg, "bypass"), 0);
	assert_int_equal(memcg_stat(p->cg, "pgmajfault") - p->store.calls, MISSES);
}

/* CPU time of 100 refusals, the least of 10 series: the least disturbed one. */
static void be_refused(struct pinned *p, struct cost *cost)
{
	umm_folio_t *folio;

	cost->failing_ns = UINT64_MAX;
	for (uint64_t n = 0; n < FAILURES;) {
		uint64_t before = memcg_stat(p->cg, "pgscan"), start = thread_cpu_ns(), spent;

		for (unsigned i = 0; i < 100; i++, n++)
			assert_int_equal(umm_pin(p->other, other_page(MISSES + n), 0, &folio),
					 -EBUSY);
		spent = (thread_cpu_ns() - start) / 100;
		cost->failing_ns = spent < cost->failing_ns ? spent : cost->failing_ns;
		before = memcg_stat(p->cg, "pgscan") - before;
		cost->failing_most = before > cost->failing_most ? before : cost->failing_most;
	}
	assert_int_equal(memcg_pages(p->cg, UMM_MEMORY_CURRENT), p->max);
}

/* The very next miss may have a page that was just unpinned. */
static void unpin_one_then_miss(struct pinned *p)
{
	for (uint64_t n = 0; n < 100; n++) {
		uint64_t victim = n * (p->max / 100);
		umm_folio_t *folio;

		umm_unpin(p->pin[victim]);
		assert_int_equal(pin_checked(p->other, 2, other_page(MISSES + n), &folio), 0);
		assert_false(page_is_cached(p->obj, victim));
		umm_unpin(folio);
		assert_int_equal(umm_pin(p->obj, victim, 0, &p->pin[victim]), 0);
	}
}

static struct cost run(uint64_t max, bool in_order)
{
	struct cost cost = { .scanned = 0 };
	struct pinned p;

	pinned_open(&p, max, in_order);
	pin_range(&p, 0, max - FREE_PAGES);
	miss(&p, &cost);
	assert_int_equal(memcg_pages(p.cg, UMM_MEMORY_PEAK), max);
	pin_range(&p, max - FREE_PAGES, max);
	be_refused(&p, &cost);
	unpin_one_then_miss(&p);
	assert_int_equal(umm_check(p.f.mm), 0);
	for (uint64_t i = 0; i < max; i++)
		umm_unpin(p.pin[i]);
	pinned_close(&p);
	print_message(
		"  max %5llu: %llu scanned, %llu reclaimed, most for one miss %llu; a refusal "
		"%llu ns, scanned for 100: %llu\n",
		(unsigned long long)max, (unsigned long long)cost.scanned,
		(unsigned long long)cost.reclaimed, (unsigned long long)cost.most,
		(unsigned long long)cost.failing_ns, (unsigned long long)cost.failing_most);
	assert_true(cost.scanned <= 4 * cost.reclaimed);
	assert_true(cost.most <= MAX_STEPS);
	assert_true(cost.failing_most <= 100 * MAX_STEPS);
	return cost;
}

static void test_three_sizes(void **state)
{
	const uint64_t max[3] = { 512, 4096, FEWER_IN_TSAN(65536, 8) };
	uint64_t least = UINT64_MAX, most = 0;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		struct cost cost = run(max[i], false);

		least = cost.failing_ns < least ? cost.failing_ns : least;
		most = cost.failing_ns > most ? cost.failing_ns : most;
	}
	assert_true(most <= 2 * least);
}

static void test_pinned_in_order(void **state)
{
	(void)state;
	(void)run(4096, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_three_sizes),
		cmocka_unit_test(test_pinned_in_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
