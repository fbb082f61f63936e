/* SPDX-License-Identifier: MIT */
/*
 * D-05, memory stuck in a size class. 4,096 pages are filled with pieces of one size and freed,
 * size by size: 4,096 x order 0, 64 x order 6, 512 x order 3, 8 x order 9; 10 rounds, sizes in
 * random order and freed in random order. Every phase gets all of it, without a drain in between,
 * and after each the free lists are as at the start: nothing but pieces of the largest order.
 */
#include "harness.h"

#include "core/core.h"

#define PAGES 4096
#define ROUNDS FEWER_IN_TSAN(10, 5)

static const unsigned phases[] = { 0, 6, 3, 9 };
#define NR_PHASES (sizeof(phases) / sizeof(phases[0]))

struct pieces {
	struct fixture f;
	umm_memcg_t *cg;
	umm_folio_t *folio[PAGES];
	uint64_t rng;
};

static void shuffle(void **what, unsigned nr, uint64_t *rng)
{
	for (unsigned i = nr; i > 1; i--) {
		unsigned j = (unsigned)(rng_next(rng) % i);
		void *tmp = what[i - 1];

		what[i - 1] = what[j];
		what[j] = tmp;
	}
}

static void assert_free_lists_as_new(struct pieces *p)
{
	struct zone *zone = &p->f.mm->mm.node[0].zone;

	assert_int_equal(umm_drain(p->f.mm), 0);
	assert_int_equal(vmstat(p->f.mm, "nr_free_pages"), PAGES);
	for (unsigned order = 0; order < MAX_ORDER; order++)
		assert_int_equal(zone->free_area[order].nr_free, 0);
	assert_int_equal(zone->free_area[MAX_ORDER].nr_free, PAGES >> MAX_ORDER);
	assert_int_equal(umm_check(p->f.mm), 0);
}

/* Take the whole budget in pieces of one order, and give it back in random order. */
static void phase(struct pieces *p, unsigned order)
{
	unsigned nr = PAGES >> order;
	umm_folio_t *more;

	for (unsigned i = 0; i < nr; i++) {
		assert_int_equal(umm_alloc(p->cg, order, 0, &p->folio[i]), 0);
		assert_int_equal(umm_folio_bytes(p->folio[i]), UMM_PAGE_SIZE << order);
		memset(umm_folio_data(p->folio[i]), 0xee, UMM_PAGE_SIZE << order);
	}
	assert_int_equal(memcg_pages(p->cg, UMM_MEMORY_CURRENT), PAGES);
	assert_int_equal(vmstat(p->f.mm, "nr_free_pages"), 0);
	assert_int_equal(umm_alloc(p->cg, 0, 0, &more), -ENOMEM);
	shuffle((void **)p->folio, nr, &p->rng);
	for (unsigned i = 0; i < nr; i++)
		umm_free(p->folio[i]);
	assert_int_equal(memcg_pages(p->cg, UMM_MEMORY_CURRENT), 0);
}

static void run(bool look_between)
{
	struct pieces *p = calloc(1, sizeof(*p));

	assert_non_null(p);
	p->rng = 7;
	p->f = fixture_create(PAGES);
	p->cg = memcg_with_max(&p->f, NULL, "pieces", 0);
	assert_free_lists_as_new(p);
	for (unsigned round = 0; round < ROUNDS; round++) {
		void *order[NR_PHASES];

		for (unsigned i = 0; i < NR_PHASES; i++)
			order[i] = (void *)&phases[i];
		if (round)
			shuffle(order, NR_PHASES, &p->rng);
		for (unsigned i = 0; i < NR_PHASES; i++) {
			phase(p, *(const unsigned *)order[i]);
			if (look_between)
				assert_free_lists_as_new(p);
		}
	}
	assert_free_lists_as_new(p);
	assert_int_equal(umm_memcg_destroy(p->cg), 0);
	assert_int_equal(log_warnings, 0);
	fixture_destroy(&p->f);
	free(p);
}

static void test_without_drains(void **state)
{
	(void)state;
	run(false);
}

static void test_lists_after_each_phase(void **state)
{
	(void)state;
	run(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_without_drains),
		cmocka_unit_test(test_lists_after_each_phase),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
