/* SPDX-License-Identifier: MIT */
/*
 * F-08, resize at run time, and D-08, shrinking, as far as it is built: a memcg of max 1,000 is
 * full, 300 pages of it pinned. A limit that cannot be kept is refused in time and the old one
 * stays both what is reported and what is enforced; what is freed can be used by others at once.
 */
#include "harness.h"

#define MAX_PAGES 1000
#define PINNED 300
#define BUDGET 1100

struct resized {
	struct fixture f;
	umm_memcg_t *cg, *other;
	umm_obj_t *obj;
	struct mem_store store;
	umm_folio_t *pin[PINNED];
};

static int set_max(struct resized *r, uint64_t pages)
{
	return umm_memcg_set(r->cg, UMM_MEMORY_MAX, pages * UMM_PAGE_SIZE);
}

/* Reads far more than fits: usage comes up to the limit and no further. */
static void assert_enforced(struct resized *r, uint64_t max)
{
	assert_int_equal(memcg_pages(r->cg, UMM_MEMORY_MAX), max);
	for (uint64_t i = 0; i < r->store.pages; i++) {
		assert_int_equal(read_page_checked(r->obj, 1, i), 0);
		assert_true(memcg_pages(r->cg, UMM_MEMORY_CURRENT) <= max);
	}
	assert_true(memcg_pages(r->cg, UMM_MEMORY_CURRENT) > max - max / 4);
}

static void resized_open(struct resized *r)
{
	r->f = fixture_create(BUDGET);
	r->cg = memcg_with_max(&r->f, NULL, "resized", MAX_PAGES);
	r->other = memcg_with_max(&r->f, NULL, "other", 0);
	r->store = (struct mem_store){ .id = 1, .pages = 3 * MAX_PAGES };
	r->obj = mem_store_open(r->cg, &r->store);
	for (unsigned i = 0; i < PINNED; i++)
		assert_int_equal(pin_checked(r->obj, 1, 7 * i, &r->pin[i]), 0);
	assert_enforced(r, MAX_PAGES);
}

/* What the memcg gave up is there for somebody else, as a whole and without a drain by hand. */
static void others_take(struct resized *r, uint64_t pages)
{
	umm_folio_t **folio = calloc(pages, sizeof(folio[0]));

	assert_non_null(folio);
	for (uint64_t i = 0; i < pages; i++)
		assert_int_equal(umm_alloc(r->other, 0, 0, &folio[i]), 0);
	for (uint64_t i = 0; i < pages; i++)
		umm_free(folio[i]);
	free(folio);
}

static void test_shrink_and_grow(void **state)
{
	struct resized r = { .pin = { NULL } };
	uint64_t start;

	(void)state;
	resized_open(&r);
	assert_int_equal(set_max(&r, 500), 0);
	assert_true(memcg_pages(r.cg, UMM_MEMORY_CURRENT) <= 500);
	assert_enforced(&r, 500);
	others_take(&r, BUDGET - 500);

	/* Not possible now: says so in time, having tried, and 500 stays the limit. */
	start = now_ns();
	assert_int_equal(set_max(&r, 200), -EBUSY);
	print_message("  refused after %llu us\n", (unsigned long long)(now_ns() - start) / 1000);
	assert_int_equal(memcg_pages(r.cg, UMM_MEMORY_CURRENT), PINNED);
	assert_enforced(&r, 500);

	for (unsigned i = 0; i < PINNED; i++) {
		assert_true(page_is(umm_folio_data(r.pin[i]), 1, 7 * i));
		umm_unpin(r.pin[i]);
	}
	assert_int_equal(set_max(&r, 200), 0);
	assert_true(memcg_pages(r.cg, UMM_MEMORY_CURRENT) <= 200);
	assert_enforced(&r, 200);
	others_take(&r, BUDGET - 200);

	assert_int_equal(set_max(&r, MAX_PAGES), 0);
	assert_enforced(&r, MAX_PAGES);
	assert_int_equal(set_max(&r, 0), 0);
	assert_int_equal(memcg_pages(r.cg, UMM_MEMORY_CURRENT), 0);
	assert_int_equal(umm_close(r.obj), 0);
	assert_int_equal(umm_memcg_destroy(r.cg), 0);
	assert_int_equal(umm_memcg_destroy(r.other), 0);
	assert_int_equal(log_warnings, 0);
	fixture_destroy(&r.f);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_shrink_and_grow) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
