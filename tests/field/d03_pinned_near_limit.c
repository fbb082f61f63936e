/* SPDX-License-Identifier: MIT */
/*
 * D-03, pinned near the limit. Three memcgs, max 64, 64 and 256 pages. A pins 60 and then reads
 * 1,000 pages in order through the 4 that are left; then it pins 64 and asks for one more, by a pin
 * and by a read into its own buffer. The others do not notice.
 */
#include "harness.h"

#define A_MAX 64
#define B_MAX 64
#define C_MAX 256
#define PINS 60
#define READS 1000

struct three {
	struct fixture f;
	umm_memcg_t *a, *b, *c;
	umm_obj_t *pinned, *stream, *of_b, *of_c;
	struct mem_store store[4];
	umm_folio_t *pin[A_MAX];
};

static void fill(umm_obj_t *obj, uint64_t id, uint64_t pages)
{
	for (uint64_t i = 0; i < pages; i++)
		assert_int_equal(read_page_checked(obj, id, i), 0);
}

static void three_open(struct three *t)
{
	t->f = fixture_create(2048);
	t->a = memcg_with_max(&t->f, NULL, "A", A_MAX);
	t->b = memcg_with_max(&t->f, NULL, "B", B_MAX);
	t->c = memcg_with_max(&t->f, NULL, "C", C_MAX);
	t->store[0] = (struct mem_store){ .id = 10, .pages = A_MAX };
	t->store[1] = (struct mem_store){ .id = 11, .pages = 2 * READS };
	t->store[2] = (struct mem_store){ .id = 12, .pages = B_MAX };
	t->store[3] = (struct mem_store){ .id = 13, .pages = C_MAX };
	t->pinned = mem_store_open(t->a, &t->store[0]);
	t->stream = mem_store_open(t->a, &t->store[1]);
	t->of_b = mem_store_open(t->b, &t->store[2]);
	t->of_c = mem_store_open(t->c, &t->store[3]);
	fill(t->of_b, 12, B_MAX);
	fill(t->of_c, 13, C_MAX);
}

static void assert_others_unchanged(struct three *t)
{
	assert_int_equal(memcg_pages(t->b, UMM_MEMORY_CURRENT), B_MAX);
	assert_int_equal(memcg_pages(t->c, UMM_MEMORY_CURRENT), C_MAX);
	assert_int_equal(memcg_stat(t->b, "pgscan") + memcg_stat(t->c, "pgscan"), 0);
	assert_int_equal(pages_cached(t->of_b), B_MAX);
	assert_int_equal(pages_cached(t->of_c), C_MAX);
}

/* Every one of 1,000 reads succeeds, through the cache, and what was scanned for it is bounded. */
static void read_through_four(struct three *t)
{
	uint64_t scanned = memcg_stat(t->a, "pgscan");

	for (uint64_t i = 0; i < READS; i++) {
		assert_int_equal(read_page_checked(t->stream, 11, i), 0);
		assert_true(memcg_pages(t->a, UMM_MEMORY_CURRENT) <= A_MAX);
	}
	scanned = memcg_stat(t->a, "pgscan") - scanned;
	print_message("  %d reads on 4 free pages: %llu scanned, %llu past the cache\n", READS,
		      (unsigned long long)scanned, (unsigned long long)memcg_event(t->a, "bypass"));
	assert_true(scanned <= 2 * READS);
	assert_int_equal(memcg_event(t->a, "bypass"), 0);
	assert_int_equal(memcg_event(t->a, "oom"), 0);
}

/* All is pinned: the caching call says so, at a bounded cost; the other one reads, and charges
 * nothing. */
static void ask_for_one_more(struct three *t)
{
	uint64_t scanned = memcg_stat(t->a, "pgscan");
	umm_folio_t *folio = NULL;

	assert_int_equal(umm_pin(t->stream, 2 * READS - 1, 0, &folio), -EBUSY);
	assert_null(folio);
	assert_true(memcg_event(t->a, "pinned") > 0);
	assert_true(memcg_stat(t->a, "pgscan") - scanned <= 64);
	assert_int_equal(memcg_pages(t->a, UMM_MEMORY_CURRENT), A_MAX);

	scanned = memcg_stat(t->a, "pgscan");
	assert_int_equal(read_page_checked(t->stream, 11, 2 * READS - 1), 0);
	assert_int_equal(memcg_event(t->a, "bypass"), 1);
	assert_true(memcg_stat(t->a, "pgscan") - scanned <= 64);
	assert_int_equal(memcg_pages(t->a, UMM_MEMORY_CURRENT), A_MAX);
	assert_false(page_is_cached(t->stream, 2 * READS - 1));
}

static void test_pinned_near_limit(void **state)
{
	struct three t = { .pin = { NULL } };

	(void)state;
	three_open(&t);
	for (unsigned i = 0; i < PINS; i++)
		assert_int_equal(pin_checked(t.pinned, 10, i, &t.pin[i]), 0);
	read_through_four(&t);
	for (unsigned i = PINS; i < A_MAX; i++)
		assert_int_equal(pin_checked(t.pinned, 10, i, &t.pin[i]), 0);
	ask_for_one_more(&t);
	assert_int_equal(memcg_pages(t.a, UMM_MEMORY_PEAK), A_MAX);
	assert_others_unchanged(&t);
	assert_int_equal(umm_check(t.f.mm), 0);

	/* One unpinned, and there is room again. */
	umm_unpin(t.pin[0]);
	assert_int_equal(pin_checked(t.stream, 11, 2 * READS - 1, &t.pin[0]), 0);
	for (unsigned i = 0; i < A_MAX; i++)
		umm_unpin(t.pin[i]);
	assert_int_equal(umm_close(t.pinned), 0);
	assert_int_equal(umm_close(t.stream), 0);
	assert_int_equal(umm_close(t.of_b), 0);
	assert_int_equal(umm_close(t.of_c), 0);
	assert_int_equal(umm_memcg_destroy(t.a), 0);
	assert_int_equal(umm_memcg_destroy(t.b), 0);
	assert_int_equal(umm_memcg_destroy(t.c), 0);
	assert_int_equal(log_warnings, 0);
	fixture_destroy(&t.f);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_pinned_near_limit) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
