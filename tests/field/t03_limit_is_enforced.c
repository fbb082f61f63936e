/* SPDX-License-Identifier: MIT */
/*
 * T-03, a limit that is only a gauge. Through the public API alone: max 100, 10,000 distinct reads,
 * the limit set before the reads, on the parent, or changed while they go on; peak usage is at most
 * 100 and at least 9,900 pages are reclaimed. The same page dropped and read again 100 times (there
 * are no writes yet) takes one page. The command's flag is tests/cli's.
 */
#include "harness.h"

#define LIMIT 100
#define READS 10000

struct limited {
	struct fixture f;
	umm_memcg_t *cg; /* whose limit it is */
	umm_memcg_t *reader;
	umm_obj_t *obj;
	struct mem_store store;
};

static void limited_open(struct limited *l, uint64_t budget, uint64_t max, bool by_parent)
{
	*l = (struct limited){ .store = { .id = 1, .pages = READS } };
	l->f = fixture_create(budget);
	l->cg = memcg_with_max(&l->f, NULL, "limited", max);
	l->reader = by_parent ? memcg_with_max(&l->f, l->cg, "reader", 0) : l->cg;
	l->obj = mem_store_open(l->reader, &l->store);
}

static void limited_close(struct limited *l)
{
	assert_int_equal(umm_close(l->obj), 0);
	if (l->reader != l->cg)
		assert_int_equal(umm_memcg_destroy(l->reader), 0);
	assert_int_equal(umm_memcg_destroy(l->cg), 0);
	assert_int_equal(log_warnings, 0);
	fixture_destroy(&l->f);
}

/* Reads in random order of all pages from `from` on; usage may never be seen above `limit`. */
static void read_range(struct limited *l, uint64_t from, uint64_t to, uint64_t limit)
{
	for (uint64_t i = from; i < to; i++) {
		assert_int_equal(read_page_checked(l->obj, 1, i), 0);
		assert_true(memcg_pages(l->cg, UMM_MEMORY_CURRENT) <= limit);
	}
}

static void assert_enforced(struct limited *l)
{
	uint64_t reclaimed = memcg_stat(l->cg, "pgsteal");

	assert_true(memcg_pages(l->cg, UMM_MEMORY_CURRENT) <= LIMIT);
	assert_int_equal(memcg_pages(l->cg, UMM_MEMORY_MAX), LIMIT);
	assert_true(reclaimed >= READS - LIMIT);
	assert_true(pages_cached(l->obj) <= LIMIT);
	assert_int_equal(umm_drain(l->f.mm), 0);
	assert_int_equal(l->store.reads, reclaimed + memcg_pages(l->cg, UMM_MEMORY_CURRENT));
}

static void test_set_before(void **state)
{
	struct limited l;

	(void)state;
	limited_open(&l, 2 * READS, LIMIT, false);
	read_range(&l, 0, READS, LIMIT);
	assert_true(memcg_pages(l.cg, UMM_MEMORY_PEAK) <= LIMIT);
	assert_enforced(&l);
	limited_close(&l);
}

static void test_of_the_parent(void **state)
{
	struct limited l;

	(void)state;
	limited_open(&l, 2 * READS, LIMIT, true);
	read_range(&l, 0, READS, LIMIT);
	assert_true(memcg_pages(l.cg, UMM_MEMORY_PEAK) <= LIMIT);
	assert_true(memcg_pages(l.reader, UMM_MEMORY_PEAK) <= LIMIT);
	assert_enforced(&l);
	limited_close(&l);
}

/* Without any limit at first: lowering evicts what is there, and holds from then on. */
static void test_changed_at_run_time(void **state)
{
	struct limited l;

	(void)state;
	limited_open(&l, 2 * READS, 0, false);
	read_range(&l, 0, READS / 2, 2 * READS);
	assert_int_equal(memcg_stat(l.cg, "pgsteal"), 0);
	assert_true(memcg_pages(l.cg, UMM_MEMORY_CURRENT) >= READS / 2);
	assert_int_equal(umm_memcg_set(l.cg, UMM_MEMORY_MAX, LIMIT * UMM_PAGE_SIZE), 0);
	assert_true(memcg_pages(l.cg, UMM_MEMORY_CURRENT) <= LIMIT);
	read_range(&l, READS / 2, READS, LIMIT);
	assert_enforced(&l);
	limited_close(&l);
}

/* No limit but the budget of the whole instance. */
static void test_budget(void **state)
{
	struct limited l;

	(void)state;
	limited_open(&l, LIMIT, 0, false);
	read_range(&l, 0, READS, LIMIT);
	assert_true(memcg_pages(l.f.root, UMM_MEMORY_PEAK) <= LIMIT);
	assert_true(pages_reclaimed(l.f.mm) >= READS - LIMIT);
	limited_close(&l);
}

struct changer {
	struct limited *l;
	_Atomic bool stop;
};

static void *reader_main(void *arg)
{
	struct changer *c = arg;
	uint64_t rng = 1;

	while (!c->stop)
		must(read_page_checked(c->l->obj, 1, rng_next(&rng) % READS) == 0);
	return NULL;
}

/* Up and down while four threads read: once a lower limit was accepted usage is below it. */
static void test_changed_under_readers(void **state)
{
	struct test_threads ts = { .nr = 0 };
	struct limited l;
	struct changer c = { .l = &l };

	(void)state;
	limited_open(&l, 2 * READS, LIMIT, false);
	threads_spawn(&ts, 4, reader_main, &c);
	for (unsigned n = 0; n < FEWER_IN_TSAN(400, 4); n++) {
		uint64_t limit = n % 2 ? LIMIT : 10 * LIMIT;
		int err = umm_memcg_set(l.cg, UMM_MEMORY_MAX, limit * UMM_PAGE_SIZE);

		must(err == 0 || err == -EBUSY);
		if (err)
			limit = memcg_pages(l.cg, UMM_MEMORY_MAX);
		for (unsigned i = 0; i < 20; i++)
			must(memcg_pages(l.cg, UMM_MEMORY_CURRENT) <= limit);
		sleep_ns(500000);
	}
	c.stop = true;
	threads_join(&ts);
	assert_true(memcg_pages(l.cg, UMM_MEMORY_PEAK) <= 10 * LIMIT);
	assert_int_equal(umm_memcg_set(l.cg, UMM_MEMORY_MAX, LIMIT * UMM_PAGE_SIZE), 0);
	assert_true(memcg_pages(l.cg, UMM_MEMORY_CURRENT) <= LIMIT);
	limited_close(&l);
}

static void test_one_page_again_and_again(void **state)
{
	struct limited l;

	(void)state;
	limited_open(&l, 2 * READS, LIMIT, false);
	for (unsigned n = 0; n < 100; n++) {
		assert_int_equal(read_page_checked(l.obj, 1, 500), 0);
		assert_int_equal(memcg_pages(l.cg, UMM_MEMORY_CURRENT), 1);
		assert_int_equal(
			umm_advise(l.obj, 500 * UMM_PAGE_SIZE, UMM_PAGE_SIZE, UMM_ADVISE_DONTNEED),
			0);
		assert_int_equal(memcg_pages(l.cg, UMM_MEMORY_CURRENT), 0);
	}
	assert_int_equal(l.store.reads, 100);
	assert_int_equal(memcg_pages(l.cg, UMM_MEMORY_PEAK), 1);
	limited_close(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_set_before),
		cmocka_unit_test(test_of_the_parent),
		cmocka_unit_test(test_changed_at_run_time),
		cmocka_unit_test(test_budget),
		cmocka_unit_test(test_changed_under_readers),
		cmocka_unit_test(test_one_page_again_and_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
