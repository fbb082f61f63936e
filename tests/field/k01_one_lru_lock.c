/* SPDX-License-Identifier: MIT */
/*
 * K-01, one LRU lock for all. 16 memcgs, max 1,024 pages each, in a budget of 17,000; each has two
 * threads that read a 4,096-page store of their own twice in order. With a lock for each memcg
 * nobody waits for another memcg's; with one lock for the node they do, else the load is too easy.
 *
 * Moving pages between memcgs and compaction are not built. What does move pages here is
 * destroying: one thread makes a child of the first memcg, reads, and destroys it, so that its
 * pages change hands. Throughput is printed, not asserted: it takes 8 CPUs to mean something.
 */
#include "harness.h"

#define NR_MEMCGS 16
#define READERS 2
#define BUDGET 17000
/* Under ThreadSanitizer an eighth of the pages, and a quarter of the limits. */
#define MEMCG_PAGES FEWER_IN_TSAN(1024, 4)
#define FILE_PAGES FEWER_IN_TSAN(4096, 8)
#define ROUNDS 2

struct reader {
	umm_obj_t *obj;
	struct mem_store store;
};

struct result {
	uint64_t acquisitions, same, other, pages, moved;
	double seconds;
};

struct arm {
	struct fixture f;
	struct result result;
	umm_memcg_t *cg[NR_MEMCGS];
	struct reader reader[NR_MEMCGS * READERS];
	unsigned nr_memcgs;
	_Atomic bool stop;
};

static void *reader_main(void *arg)
{
	struct reader *r = arg;

	for (unsigned round = 0; round < ROUNDS; round++)
		for (uint64_t i = 0; i < r->store.pages; i++)
			must(read_page_checked(r->obj, r->store.id, i) == 0);
	return NULL;
}

/* Pages of a child come to the first memcg, again and again. */
static void *mover_main(void *arg)
{
	struct arm *arm = arg;
	struct mem_store store = { .id = 1000, .pages = 256 };
	umm_obj_t *keep = mem_store_open(arm->cg[0], &store), *obj;
	uint64_t at = 0;

	while (!arm->stop) {
		umm_memcg_t *child = memcg_with_max(&arm->f, arm->cg[0], "child", 0);

		must(umm_obj_reopen(keep, child, &obj) == 0);
		for (unsigned i = 0; i < 32; i++, at++)
			must(read_page_checked(obj, store.id, at % store.pages) == 0);
		must(umm_memcg_destroy(child) == 0);
		must(umm_close(obj) == 0);
		arm->result.moved++;
	}
	must(umm_close(keep) == 0);
	return NULL;
}

static void arm_open(struct arm *arm, enum umm_lru_lock lock, unsigned nr_memcgs)
{
	struct umm_options o = fixture_options(BUDGET);

	o.lru_lock = lock;
	arm->f = fixture_create_with(&o);
	arm->nr_memcgs = nr_memcgs;
	for (unsigned m = 0; m < nr_memcgs; m++) {
		arm->cg[m] = memcg_with_max(&arm->f, NULL, "memcg", MEMCG_PAGES);
		for (unsigned i = m * READERS; i < (m + 1) * READERS; i++) {
			arm->reader[i].store.id = i;
			arm->reader[i].store.pages = FILE_PAGES;
			arm->reader[i].obj = mem_store_open(arm->cg[m], &arm->reader[i].store);
		}
	}
}

static void arm_close(struct arm *arm)
{
	struct umm_lock_stat lru = lock_stat(arm->f.mm, "lru_lock");

	arm->result.acquisitions = lru.acquisitions;
	arm->result.same = lru.contended_same_memcg;
	arm->result.other = lru.contended_other_memcg;
	for (unsigned m = 0; m < arm->nr_memcgs; m++) {
		assert_true(memcg_pages(arm->cg[m], UMM_MEMORY_PEAK) <= MEMCG_PAGES);
		assert_int_equal(memcg_event(arm->cg[m], "oom"), 0);
	}
	/* Whole while every page is still cached, and again when none is. */
	assert_int_equal(umm_check(arm->f.mm), 0);
	for (unsigned i = 0; i < arm->nr_memcgs * READERS; i++)
		assert_int_equal(umm_close(arm->reader[i].obj), 0);
	for (unsigned m = 0; m < arm->nr_memcgs; m++)
		assert_int_equal(umm_memcg_destroy(arm->cg[m]), 0);
	assert_int_equal(log_warnings, 0);
	fixture_destroy(&arm->f);
}

static struct result run(enum umm_lru_lock lock, unsigned nr_memcgs, bool with_mover)
{
	struct arm *arm = calloc(1, sizeof(*arm));
	struct test_threads readers = { .nr = 0 }, mover = { .nr = 0 };
	struct result result;
	uint64_t start;

	assert_non_null(arm);
	arm_open(arm, lock, nr_memcgs);
	start = now_ns();
	for (unsigned i = 0; i < nr_memcgs * READERS; i++)
		threads_spawn(&readers, 1, reader_main, &arm->reader[i]);
	if (with_mover)
		threads_spawn(&mover, 1, mover_main, arm);
	threads_join(&readers);
	arm->result.seconds = (double)(now_ns() - start) / 1e9;
	arm->stop = true;
	threads_join(&mover);
	arm->result.pages = (uint64_t)nr_memcgs * READERS * ROUNDS * FILE_PAGES;
	arm_close(arm);
	result = arm->result;
	free(arm);
	print_message("  %s, %2u memcgs%s: %.0f pages/s, lru_lock taken %.4f a page, "
		      "waits %llu own, %llu other's\n",
		      lock == UMM_LRU_LOCK_NODE ? "node " : "memcg", nr_memcgs,
		      with_mover ? ", mover" : "", (double)result.pages / result.seconds,
		      (double)result.acquisitions / (double)result.pages,
		      (unsigned long long)result.same, (unsigned long long)result.other);
	return result;
}

static void test_waits(void **state)
{
	struct result node = { .other = 0 }, memcg;

	(void)state;
	memcg = run(UMM_LRU_LOCK_MEMCG, NR_MEMCGS, false);
	assert_int_equal(memcg.other, 0);
	assert_true(memcg.acquisitions <= memcg.pages / 10);
	/* Whether two threads meet at a lock is the scheduler's choice: it gets three chances. */
	for (unsigned i = 0; i < 3 && !node.other; i++)
		node = run(UMM_LRU_LOCK_NODE, NR_MEMCGS, false);
	assert_true(node.other > 0);
	assert_true(node.acquisitions <= node.pages / 10);
	print_message("  memcg / node: %.2f\n",
		      (double)memcg.pages / memcg.seconds / ((double)node.pages / node.seconds));
}

static void test_mover(void **state)
{
	struct result result;

	(void)state;
	result = run(UMM_LRU_LOCK_MEMCG, NR_MEMCGS, true);
	assert_int_equal(result.other, 0);
	assert_true(result.moved > 0);
}

/* A lock more costs one memcg alone nothing: the number of times it is taken is the same. */
static void test_alone(void **state)
{
	struct result node, memcg;

	(void)state;
	memcg = run(UMM_LRU_LOCK_MEMCG, 1, false);
	node = run(UMM_LRU_LOCK_NODE, 1, false);
	assert_int_equal(memcg.other, 0);
	assert_int_equal(node.other, 0);
	assert_true(memcg.acquisitions <= node.acquisitions + node.acquisitions / 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_waits),
		cmocka_unit_test(test_mover),
		cmocka_unit_test(test_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
