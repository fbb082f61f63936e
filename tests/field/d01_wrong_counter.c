/* SPDX-License-Identifier: MIT */
/*
 * D-01, a counter that disagrees with its list. 128 memcgs in a budget of 8,192 pages; the size of
 * one LRU list of one memcg is made wrong by 1. Balancing and reclaim of that memcg end within the
 * length of its lists; the mismatch is reported once and repaired; the other 127 read on meanwhile;
 * destroying returns; no size is ever above the budget.
 */
#include "harness.h"

#include "lru/lru.h"
#include "memcg/memcontrol.h"

#define BUDGET 8192
#define NR_MEMCGS 128
#define MEMCG_PAGES 56
#define KERNEL 8 /* charged, but on no list: reclaim is asked for more than there is */
#define STORE_PAGES 100
#define READS 1000
#define NR_READERS 2

/* memcg 0 is the one whose counter goes wrong. */
struct many {
	struct fixture f;
	umm_memcg_t *cg[NR_MEMCGS];
	umm_obj_t *obj[NR_MEMCGS];
	struct mem_store store[NR_MEMCGS];
	umm_folio_t *kernel[KERNEL];
	_Atomic unsigned next_reader, readers_done;
	_Atomic uint64_t cpu_ns;
};

/* Readers share out memcgs 1 to 127: 1,000 reads each, in turn. */
static void *reader_main(void *arg)
{
	struct many *m = arg;
	unsigned me = m->next_reader++;
	uint64_t rng = me, start = thread_cpu_ns();

	for (unsigned n = 0; n < FEWER_IN_TSAN(READS, 10); n++)
		for (unsigned i = 1 + me; i < NR_MEMCGS; i += NR_READERS)
			must(read_page_checked(m->obj[i], i, rng_next(&rng) % STORE_PAGES) == 0);
	m->cpu_ns += thread_cpu_ns() - start;
	m->readers_done++;
	return NULL;
}

static void many_open(struct many *m)
{
	struct umm_options o = fixture_options(BUDGET);

	o.readahead_pages = 0; /* lists of exactly the pages that were read */
	m->f = fixture_create_with(&o);
	for (unsigned i = 0; i < NR_MEMCGS; i++) {
		m->cg[i] = memcg_with_max(&m->f, NULL, "memcg", MEMCG_PAGES);
		m->store[i] = (struct mem_store){ .id = i, .pages = STORE_PAGES };
		m->obj[i] = mem_store_open(m->cg[i], &m->store[i]);
	}
	for (unsigned i = 0; i < KERNEL; i++)
		assert_int_equal(umm_alloc(m->cg[0], 0, 0, &m->kernel[i]), 0);
}

static void many_close(struct many *m)
{
	for (unsigned i = 0; i < KERNEL; i++)
		umm_free(m->kernel[i]);
	for (unsigned i = 0; i < NR_MEMCGS; i++) {
		assert_int_equal(umm_close(m->obj[i]), 0);
		if (m->cg[i])
			assert_int_equal(umm_memcg_destroy(m->cg[i]), 0);
	}
	fixture_destroy(&m->f);
	free(m);
}

/* Fill memcg 0's lists: 40 pages, each used twice, so that they are active. */
#define ACTIVE 40
static void fill_active(struct many *m)
{
	for (unsigned round = 0; round < 2; round++) {
		for (unsigned i = 0; i < ACTIVE; i++)
			must(read_page_checked(m->obj[0], 0, i) == 0);
		must(umm_drain(m->f.mm) == 0);
	}
}

/* The fault: nobody else is at memcg 0 just now. */
static void make_size_wrong(struct many *m, enum lru_list lru, int by)
{
	struct lruvec *lruvec = &m->cg[0]->lruvec[0];

	lruvec_lock(lruvec);
	lruvec_size_add(lruvec, lru, by);
	lruvec_unlock(lruvec);
}

static void check_sizes(struct many *m, umm_memcg_t *cg)
{
	must(memcg_stat(cg, "active_file") / UMM_PAGE_SIZE <= BUDGET);
	must(memcg_stat(cg, "inactive_file") / UMM_PAGE_SIZE <= BUDGET);
	must(memcg_stat(cg, "unevictable") / UMM_PAGE_SIZE <= BUDGET);
	must(pages_listed(m->f.mm) <= BUDGET);
}

/* Reclaim all of memcg 0. Steps are bounded by the lists: once over each. Returns pages
 * reclaimed. */
static uint64_t reclaim_all(struct many *m)
{
	uint64_t len = memcg_pages(m->cg[0], UMM_MEMORY_CURRENT), got;
	uint64_t steps = memcg_stat(m->cg[0], "pgscan") + memcg_stat(m->cg[0], "pgrefill");

	(void)umm_memcg_reclaim(m->cg[0], BUDGET * UMM_PAGE_SIZE, &got);
	steps = memcg_stat(m->cg[0], "pgscan") + memcg_stat(m->cg[0], "pgrefill") - steps;
	must(steps <= 2 * (len + 1));
	check_sizes(m, m->cg[0]);
	return got / UMM_PAGE_SIZE;
}

/* The 127 read; memcg 0 is filled and reclaimed all the while. Returns their CPU time. */
static uint64_t run_readers(struct many *m, int fault, uint64_t *ret_wall)
{
	struct test_threads ts = { .nr = 0 };
	uint64_t start = now_ns();

	m->next_reader = m->readers_done = 0;
	m->cpu_ns = 0;
	threads_spawn(&ts, NR_READERS, reader_main, m);
	do {
		fill_active(m);
		if (fault)
			make_size_wrong(m, LRU_ACTIVE_FILE, fault);
		fault = 0;
		/* Not always all: a reader that brings a batch home may hold some of them. */
		must(reclaim_all(m) <= MEMCG_PAGES);
	} while (m->readers_done < NR_READERS);
	threads_join(&ts);
	*ret_wall = now_ns() - start;
	fill_active(m);
	assert_true(reclaim_all(m) >= ACTIVE);
	assert_int_equal(memcg_pages(m->cg[0], UMM_MEMORY_CURRENT), KERNEL);
	return m->cpu_ns;
}

static void test_reclaim_repairs(void **state)
{
	struct many *m = calloc(1, sizeof(*m));
	uint64_t undisturbed, disturbed, wall[2];
	struct umm_lock_stat lru;

	(void)state;
	assert_non_null(m);
	many_open(m);
	undisturbed = run_readers(m, 0, &wall[0]);
	assert_int_equal(vmstat(m->f.mm, "warnings"), 0);
	disturbed = run_readers(m, 1, &wall[1]);
	assert_int_equal(vmstat(m->f.mm, "warnings"), 1);
	assert_int_equal(log_warnings, 1);
	assert_non_null(strstr(log_last, "list"));
	lru = lock_stat(m->f.mm, "lru_lock");
	assert_int_equal(lru.contended_other_memcg, 0);
	print_message(
		"  127 memcgs x %d reads: %.2f of the undisturbed CPU time, %.2f of the time\n",
		FEWER_IN_TSAN(READS, 10), (double)disturbed / (double)undisturbed,
		(double)wall[1] / (double)wall[0]);
	assert_true(disturbed <= 2 * undisturbed);

	assert_int_equal(umm_check(m->f.mm), 0);
	assert_int_equal(umm_memcg_destroy(m->cg[0]), 0);
	m->cg[0] = NULL;
	assert_int_equal(log_warnings, 1);
	many_close(m);
}

/* Destroyed with the wrong size: it is the parent's from then on, and found there. */
static void test_destroy_first(void **state)
{
	struct many *m = calloc(1, sizeof(*m));

	(void)state;
	assert_non_null(m);
	many_open(m);
	fill_active(m);
	make_size_wrong(m, LRU_ACTIVE_FILE, 1);
	assert_int_equal(umm_memcg_destroy(m->cg[0]), 0);
	m->cg[0] = NULL;
	check_sizes(m, m->f.root);
	assert_int_equal(memcg_pages(m->f.root, UMM_MEMORY_CURRENT), ACTIVE + KERNEL);
	(void)umm_memcg_reclaim(m->f.root, BUDGET * UMM_PAGE_SIZE, NULL);
	assert_int_equal(memcg_pages(m->f.root, UMM_MEMORY_CURRENT), KERNEL);
	assert_int_equal(vmstat(m->f.mm, "warnings"), 1);
	assert_int_equal(log_warnings, 1);
	assert_int_equal(pages_listed(m->f.mm), 0);
	many_close(m);
}

/* The other direction: 1 too small. It must not wrap when the last page leaves. */
static void test_size_too_small(void **state)
{
	struct many *m = calloc(1, sizeof(*m));
	uint64_t got;

	(void)state;
	assert_non_null(m);
	many_open(m);
	fill_active(m);
	make_size_wrong(m, LRU_ACTIVE_FILE, -1);
	got = reclaim_all(m);
	assert_true(got >= ACTIVE - 1);
	assert_int_equal(umm_advise(m->obj[0], 0, STORE_PAGES * UMM_PAGE_SIZE, UMM_ADVISE_DONTNEED),
			 0);
	assert_int_equal(memcg_pages(m->cg[0], UMM_MEMORY_CURRENT), KERNEL);
	check_sizes(m, m->cg[0]);
	assert_int_equal(vmstat(m->f.mm, "warnings"), 1);
	assert_int_equal(log_warnings, 1);
	fill_active(m);
	assert_int_equal(reclaim_all(m), ACTIVE);
	assert_int_equal(log_warnings, 1);
	many_close(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reclaim_repairs),
		cmocka_unit_test(test_destroy_first),
		cmocka_unit_test(test_size_too_small),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
