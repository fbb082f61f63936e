/* SPDX-License-Identifier: MIT */
/*
 * F-04, F-06 and F-12: use and limits for each tenant under one shared budget; memory that is not
 * cache as a tenant of its own, which is refused at its own limit and pushes out nobody. A group of
 * max 1,000 holds four children of max 400 each, together more than the group has, and one for
 * overhead, max 100.
 */
#include "harness.h"

#define GROUP 1000
#define NR_CHILDREN 4
#define CHILD 400
#define OVERHEAD 100
#define STORE_PAGES 2000

struct group {
	struct fixture f;
	umm_memcg_t *group, *child[NR_CHILDREN], *overhead;
	umm_obj_t *obj[NR_CHILDREN];
	struct mem_store store[NR_CHILDREN];
	_Atomic unsigned next;
	_Atomic bool stop;
};

static void group_open(struct group *g)
{
	g->f = fixture_create(4 * GROUP);
	g->group = memcg_with_max(&g->f, NULL, "group", GROUP);
	g->overhead = memcg_with_max(&g->f, g->group, "overhead", OVERHEAD);
	for (unsigned i = 0; i < NR_CHILDREN; i++) {
		g->child[i] = memcg_with_max(&g->f, g->group, "child", CHILD);
		g->store[i] = (struct mem_store){ .id = i, .pages = STORE_PAGES };
		g->obj[i] = mem_store_open(g->child[i], &g->store[i]);
	}
}

static void group_close(struct group *g)
{
	for (unsigned i = 0; i < NR_CHILDREN; i++) {
		assert_int_equal(umm_close(g->obj[i]), 0);
		assert_int_equal(umm_memcg_destroy(g->child[i]), 0);
	}
	assert_int_equal(umm_memcg_destroy(g->overhead), 0);
	assert_int_equal(umm_memcg_destroy(g->group), 0);
	assert_int_equal(log_warnings, 0);
	fixture_destroy(&g->f);
}

static uint64_t usage(umm_memcg_t *cg)
{
	return memcg_pages(cg, UMM_MEMORY_CURRENT);
}

/* At rest, for each figure: the group's is the sum of its children's. */
static void assert_adds_up(struct group *g)
{
	static const char *const stats[] = { "file",   "kernel",  "pgfault",       "pgmajfault",
					     "pgscan", "pgsteal", "inactive_file", "active_file" };
	uint64_t sum = usage(g->overhead);

	assert_int_equal(umm_drain(g->f.mm), 0);
	for (unsigned i = 0; i < NR_CHILDREN; i++)
		sum += usage(g->child[i]);
	assert_int_equal(usage(g->group), sum);
	for (unsigned n = 0; n < sizeof(stats) / sizeof(stats[0]); n++) {
		sum = memcg_stat(g->overhead, stats[n]);
		for (unsigned i = 0; i < NR_CHILDREN; i++)
			sum += memcg_stat(g->child[i], stats[n]);
		assert_int_equal(memcg_stat(g->group, stats[n]), sum);
	}
}

static void *reader_main(void *arg)
{
	struct group *g = arg;
	unsigned me = g->next++ % NR_CHILDREN;
	uint64_t rng = me;

	for (unsigned n = 0; n < FEWER_IN_TSAN(20000, 4); n++)
		must(read_page_checked(g->obj[me], me, rng_next(&rng) % STORE_PAGES) == 0);
	return NULL;
}

/* Pages that a thread has uncharged and not yet freed: at most a batch. */
#define IN_FLIGHT (2 * NR_CHILDREN * 32)

/* Never more than the limit at any level, whoever looks and whenever. */
static void *watcher_main(void *arg)
{
	struct group *g = arg;

	while (!g->stop) {
		must(usage(g->group) <= GROUP);
		for (unsigned i = 0; i < NR_CHILDREN; i++)
			must(usage(g->child[i]) <= CHILD);
		must(vmstat(g->f.mm, "nr_free_pages") + IN_FLIGHT >= 3 * GROUP);
	}
	return NULL;
}

static void test_limits_that_add_up_to_more(void **state)
{
	struct test_threads readers = { .nr = 0 }, watcher = { .nr = 0 };
	struct group g = { .next = 0 };

	(void)state;
	group_open(&g);
	threads_spawn(&watcher, 1, watcher_main, &g);
	threads_spawn(&readers, 2 * NR_CHILDREN, reader_main, &g);
	threads_join(&readers);
	g.stop = true;
	threads_join(&watcher);
	assert_adds_up(&g);
	assert_true(memcg_pages(g.group, UMM_MEMORY_PEAK) <= GROUP);
	assert_true(usage(g.group) > GROUP - GROUP / 8);
	for (unsigned i = 0; i < NR_CHILDREN; i++) {
		assert_true(memcg_pages(g.child[i], UMM_MEMORY_PEAK) <= CHILD);
		assert_int_equal(memcg_event(g.child[i], "oom"), 0);
	}
	assert_int_equal(umm_check(g.f.mm), 0);
	group_close(&g);
}

/* Overhead asks for ten times its limit: it gets the limit, and nobody's cache pays for the
 * rest. */
static void test_overhead_has_its_own_limit(void **state)
{
	struct group g = { .next = 0 };
	umm_folio_t *folio[10 * OVERHEAD];
	uint64_t before, scanned;
	unsigned got = 0;

	(void)state;
	group_open(&g);
	for (unsigned i = 0; i < 2; i++)
		for (uint64_t n = 0; n < CHILD; n++)
			assert_int_equal(read_page_checked(g.obj[i], i, n), 0);
	before = usage(g.child[0]) + usage(g.child[1]);
	scanned = pages_scanned(g.f.mm);
	for (unsigned i = 0; i < 10 * OVERHEAD; i++) {
		int err = umm_alloc(g.overhead, 0, 0, &folio[got]);

		assert_int_equal(err, got < OVERHEAD ? 0 : -ENOMEM);
		got += err == 0;
	}
	assert_int_equal(got, OVERHEAD);
	assert_int_equal(umm_alloc(g.overhead, 7, 0, &folio[got]), -ENOMEM);
	assert_int_equal(umm_alloc(g.overhead, 0, UMM_NOWAIT, &folio[got]), -EAGAIN);
	assert_int_equal(memcg_event(g.overhead, "oom"), 10 * OVERHEAD - OVERHEAD + 1);
	assert_int_equal(usage(g.child[0]) + usage(g.child[1]), before);
	assert_int_equal(pages_scanned(g.f.mm), scanned);
	assert_adds_up(&g);
	while (got)
		umm_free(folio[--got]);
	group_close(&g);
}

#define ASKERS 8
#define ASKS 48 /* 8 x 48 is more than fits */

struct askers {
	struct group *g;
	pthread_barrier_t barrier;
	_Atomic unsigned granted, full, other;
};

static void *asker_main(void *arg)
{
	struct askers *a = arg;
	umm_folio_t *folio[ASKS];
	unsigned nr = 0;

	pthread_barrier_wait(&a->barrier);
	for (unsigned i = 0; i < ASKS; i++) {
		int err = umm_alloc(a->g->overhead, 0, 0, &folio[nr]);

		nr += err == 0;
		a->granted += err == 0;
		a->full += err == -ENOMEM;
		a->other += err != 0 && err != -ENOMEM;
	}
	pthread_barrier_wait(&a->barrier);
	while (nr)
		umm_free(folio[--nr]);
	return NULL;
}

/* Nothing is cached, so nothing can be pinned: -ENOMEM is the only right answer, also to many at
 * once. */
static void test_refusal_says_why(void **state)
{
	struct group g = { .next = 0 };
	struct askers a = { .g = &g };
	const unsigned rounds = FEWER_IN_TSAN(200, 4);

	(void)state;
	group_open(&g);
	must(pthread_barrier_init(&a.barrier, NULL, ASKERS) == 0);
	for (unsigned n = 0; n < rounds; n++) {
		struct test_threads ts = { .nr = 0 };

		threads_spawn(&ts, ASKERS, asker_main, &a);
		threads_join(&ts);
	}
	pthread_barrier_destroy(&a.barrier);
	print_message("  refused: %u -ENOMEM, %u something else\n", a.full, a.other);
	assert_int_equal(a.granted, rounds * OVERHEAD);
	assert_int_equal(a.other, 0);
	group_close(&g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_limits_that_add_up_to_more),
		cmocka_unit_test(test_overhead_has_its_own_limit),
		cmocka_unit_test(test_refusal_says_why),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
