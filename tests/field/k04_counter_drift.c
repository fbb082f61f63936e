/* SPDX-License-Identifier: MIT */
/*
 * K-04, drift of batched counters. A tree of three levels with 64 leaves; 8 threads charge 31 pages
 * to each leaf, just less than a batch. Before a drain the figures may be off by a bound that does
 * not grow with the number of memcgs; after it they are exact: 15,872 pages. Once with leaves of
 * max 256, whose charges go to the counters at once, and once without a limit, where they go
 * through the CPUs' stocks.
 *
 * Then all threads charge more to each leaf than fits, and the test counts for itself what was
 * granted.
 */
#include "harness.h"

#define NR_LEAVES 64
#define NR_THREADS 8
#define EACH 31
#define TOTAL (NR_LEAVES * NR_THREADS * EACH)
#define LEAF_MAX 256
#define BOUND (NR_THREADS * 32) /* threads x batch */
#define GREEDY 48               /* pages of a thread that may not all fit: 8 x 48 > 256 */

_Static_assert(TOTAL == 15872, "the case's own number");

struct tree {
	struct fixture f;
	umm_memcg_t *middle[8], *leaf[NR_LEAVES];
	umm_obj_t *obj[NR_LEAVES];
	struct mem_store store[NR_LEAVES];
	_Atomic unsigned next_thread;
	_Atomic uint64_t granted[NR_LEAVES], most[NR_LEAVES]; /* the probe */
	_Atomic uint64_t refused;
	umm_folio_t *folio[NR_THREADS][NR_LEAVES][GREEDY];
};

/* 31 pages of this thread's own of each leaf's store. Leaves in turn: every CPU's batch mixes
 * memcgs. */
static void *reader_main(void *arg)
{
	struct tree *t = arg;
	unsigned me = t->next_thread++;

	for (unsigned n = 0; n < EACH; n++)
		for (unsigned leaf = 0; leaf < NR_LEAVES; leaf++)
			must(read_page_checked(t->obj[leaf], leaf, me * EACH + n) == 0);
	return NULL;
}

/* What is granted is counted after it was, and given back before it is: the probe is never too
 * high. */
static void *greedy_main(void *arg)
{
	struct tree *t = arg;
	unsigned me = t->next_thread++;

	for (unsigned leaf = 0; leaf < NR_LEAVES; leaf++) {
		for (unsigned n = 0; n < GREEDY; n++) {
			int err = umm_alloc(t->leaf[leaf], 0, 0, &t->folio[me][leaf][n]);
			uint64_t now, most = t->most[leaf];

			/* Busy: the cached pages are in the hands of others who reclaim. */
			must(err == 0 || err == -ENOMEM || err == -EBUSY);
			t->refused += err != 0;
			if (err) {
				t->folio[me][leaf][n] = NULL;
				continue;
			}
			now = ++t->granted[leaf];
			while (now > most &&
			       !atomic_compare_exchange_weak(&t->most[leaf], &most, now))
				;
		}
	}
	return NULL;
}

static void tree_open(struct tree *t, uint64_t leaf_max)
{
	struct umm_options o = fixture_options(2 * NR_LEAVES * LEAF_MAX);

	o.readahead_pages = 0;
	t->f = fixture_create_with(&o);
	for (unsigned i = 0; i < 8; i++)
		t->middle[i] = memcg_with_max(&t->f, NULL, "middle", 0);
	for (unsigned i = 0; i < NR_LEAVES; i++) {
		t->leaf[i] = memcg_with_max(&t->f, t->middle[i % 8], "leaf", leaf_max);
		t->store[i] = (struct mem_store){ .id = i, .pages = NR_THREADS * EACH };
		t->obj[i] = mem_store_open(t->leaf[i], &t->store[i]);
	}
}

static void tree_close(struct tree *t)
{
	for (unsigned i = 0; i < NR_LEAVES; i++) {
		assert_int_equal(umm_close(t->obj[i]), 0);
		assert_int_equal(umm_memcg_destroy(t->leaf[i]), 0);
	}
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(umm_memcg_destroy(t->middle[i]), 0);
	assert_int_equal(log_warnings, 0);
	fixture_destroy(&t->f);
	free(t);
}

static void all_threads(struct tree *t, void *(*fn)(void *))
{
	struct test_threads ts = { .nr = 0 };

	t->next_thread = 0;
	threads_spawn(&ts, NR_THREADS, fn, t);
	threads_join(&ts);
}

static void assert_near(const char *what, uint64_t value)
{
	print_message("  before the drain: %s is off by %lld\n", what, (long long)value - TOTAL);
	assert_true(value + BOUND >= TOTAL && value <= TOTAL + BOUND);
}

static void read_and_compare(struct tree *t)
{
	all_threads(t, reader_main);
	assert_near("memory.current", memcg_pages(t->f.root, UMM_MEMORY_CURRENT));
	assert_near("file", memcg_stat(t->f.root, "file") / UMM_PAGE_SIZE);
	assert_near("pages on lists", pages_listed(t->f.mm));
	assert_int_equal(umm_drain(t->f.mm), 0);
	assert_int_equal(memcg_pages(t->f.root, UMM_MEMORY_CURRENT), TOTAL);
	assert_int_equal(memcg_stat(t->f.root, "file"), (uint64_t)TOTAL * UMM_PAGE_SIZE);
	assert_int_equal(memcg_stat(t->f.root, "pgmajfault"), TOTAL);
	assert_int_equal(memcg_stat(t->f.root, "pgfault"), TOTAL);
	assert_int_equal(pages_listed(t->f.mm), TOTAL);
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(memcg_pages(t->middle[i], UMM_MEMORY_CURRENT), TOTAL / 8);
	for (unsigned i = 0; i < NR_LEAVES; i++)
		assert_int_equal(memcg_pages(t->leaf[i], UMM_MEMORY_CURRENT), NR_THREADS * EACH);
	assert_int_equal(umm_check(t->f.mm), 0);
}

static void test_leaves_with_limit(void **state)
{
	struct tree *t = calloc(1, sizeof(*t));

	(void)state;
	assert_non_null(t);
	tree_open(t, LEAF_MAX);
	read_and_compare(t);
	for (unsigned i = 0; i < NR_LEAVES; i++)
		assert_int_equal(memcg_pages(t->leaf[i], UMM_MEMORY_PEAK), NR_THREADS * EACH);

	all_threads(t, greedy_main);
	assert_int_equal(t->refused, (uint64_t)NR_LEAVES * (NR_THREADS * GREEDY - LEAF_MAX));
	for (unsigned i = 0; i < NR_LEAVES; i++) {
		assert_int_equal(t->granted[i], LEAF_MAX);
		assert_int_equal(t->most[i], LEAF_MAX);
		assert_int_equal(memcg_pages(t->leaf[i], UMM_MEMORY_PEAK), LEAF_MAX);
		assert_int_equal(memcg_pages(t->leaf[i], UMM_MEMORY_CURRENT), LEAF_MAX);
	}
	for (unsigned i = 0; i < NR_THREADS; i++)
		for (unsigned leaf = 0; leaf < NR_LEAVES; leaf++)
			for (unsigned n = 0; n < GREEDY; n++)
				umm_free(t->folio[i][leaf][n]);
	assert_int_equal(memcg_pages(t->f.root, UMM_MEMORY_CURRENT), 0);
	tree_close(t);
}

static void test_leaves_without_limit(void **state)
{
	struct tree *t = calloc(1, sizeof(*t));

	(void)state;
	assert_non_null(t);
	tree_open(t, 0);
	read_and_compare(t);
	tree_close(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_leaves_with_limit),
		cmocka_unit_test(test_leaves_without_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
