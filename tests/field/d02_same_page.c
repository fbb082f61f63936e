/* SPDX-License-Identifier: MIT */
/*
 * D-02, many threads miss on the same page. 64 threads read one page that is not cached, whose load
 * takes 50 ms; 16 pages one after another, in a memcg of max 128. The store is read 16 times; each
 * load has charged one page before it starts and no more; all 64 get the same bytes. Then with a
 * load that fails the first time: whoever waited gets the error, the next read tries again, and
 * nothing leaks.
 */
#include "harness.h"

#define NR_THREADS 64
#define NR_PAGES 16
#define MAX_PAGES 128
#define STRIDE 37 /* not in order, or readahead would load them */
#define LOAD_NS 50000000u

struct crowd {
	struct fixture f;
	umm_memcg_t *cg;
	umm_obj_t *obj;
	struct mem_store store;
	pthread_barrier_t start, end;
	_Atomic unsigned entered, ok, failed;
	unsigned pages_before; /* charged before the load under way */
	unsigned rounds;
	bool failing;
};

/* Called by the loader, with no lock of the library's held: its page must be charged by now. Beside
 * it there may be that of a load that failed a moment ago. */
static void check_charged(struct crowd *c)
{
	uint64_t loading = memcg_pages(c->cg, UMM_MEMORY_CURRENT) - c->pages_before;

	must(loading == 1 || (c->failing && loading == 2));
}

static ssize_t slow_read(void *ctx, const struct iovec *iov, int iovcnt, uint64_t offset)
{
	struct crowd *c = ctx;

	check_charged(c);
	while (c->entered < NR_THREADS)
		sleep_ns(1000000);
	sleep_ns(LOAD_NS);
	check_charged(c);
	return mem_store_read(&c->store, iov, iovcnt, offset);
}

static const struct umm_store_ops slow_ops = {
	.size = sizeof(struct umm_store_ops),
	.read = slow_read,
};

static void *reader_main(void *arg)
{
	struct crowd *c = arg;

	for (unsigned round = 0; round < c->rounds; round++) {
		int err;

		pthread_barrier_wait(&c->start);
		c->entered++;
		err = read_page_checked(c->obj, c->store.id, (uint64_t)round * STRIDE + 1);
		must(err == 0 || err == -EIO);
		if (err)
			c->failed++;
		else
			c->ok++;
		pthread_barrier_wait(&c->end);
	}
	return NULL;
}

static void crowd_open(struct crowd *c, unsigned rounds)
{
	*c = (struct crowd){ .rounds = rounds };
	c->f = fixture_create(1024);
	c->cg = memcg_with_max(&c->f, NULL, "crowd", MAX_PAGES);
	c->store = (struct mem_store){ .id = 5, .pages = (NR_PAGES + 1) * STRIDE };
	must(umm_store_open(c->cg, &slow_ops, c, c->store.pages * UMM_PAGE_SIZE, &c->obj) == 0);
	must(pthread_barrier_init(&c->start, NULL, NR_THREADS + 1) == 0);
	must(pthread_barrier_init(&c->end, NULL, NR_THREADS + 1) == 0);
}

static void crowd_close(struct crowd *c)
{
	assert_int_equal(umm_close(c->obj), 0);
	assert_int_equal(umm_drain(c->f.mm), 0);
	assert_int_equal(memcg_pages(c->cg, UMM_MEMORY_CURRENT), 0);
	assert_int_equal(umm_memcg_destroy(c->cg), 0);
	pthread_barrier_destroy(&c->start);
	pthread_barrier_destroy(&c->end);
	assert_int_equal(log_warnings, 0);
	fixture_destroy(&c->f);
}

static void one_round(struct crowd *c, unsigned pages_before)
{
	c->entered = c->ok = c->failed = 0;
	c->pages_before = pages_before;
	pthread_barrier_wait(&c->start);
	pthread_barrier_wait(&c->end);
}

static void test_one_load(void **state)
{
	struct test_threads ts = { .nr = 0 };
	struct crowd c;

	(void)state;
	crowd_open(&c, NR_PAGES);
	threads_spawn(&ts, NR_THREADS, reader_main, &c);
	for (unsigned i = 0; i < NR_PAGES; i++) {
		one_round(&c, i);
		must(c.ok == NR_THREADS);
		must(c.store.reads == i + 1);
	}
	threads_join(&ts);
	assert_int_equal(c.store.reads, NR_PAGES);
	assert_int_equal(c.store.calls, NR_PAGES);
	assert_int_equal(memcg_pages(c.cg, UMM_MEMORY_CURRENT), NR_PAGES);
	assert_int_equal(memcg_pages(c.cg, UMM_MEMORY_PEAK), NR_PAGES);
	assert_int_equal(memcg_stat(c.cg, "pgmajfault"), NR_PAGES);
	assert_int_equal(memcg_stat(c.cg, "pgfault"), NR_PAGES * NR_THREADS);
	crowd_close(&c);
}

/*
 * A thread that was held up for the whole 50 ms between `entered` and its read comes too late to
 * wait for the failing load, and starts a second one that succeeds. So a few may.
 */
static void test_failing_load(void **state)
{
	struct test_threads ts = { .nr = 0 };
	struct crowd c;
	unsigned cached = 0, late = 0;

	(void)state;
	crowd_open(&c, NR_PAGES);
	c.failing = true;
	threads_spawn(&ts, NR_THREADS, reader_main, &c);
	for (unsigned i = 0; i < NR_PAGES; i++) {
		uint64_t calls = c.store.calls;

		c.store.error = -EIO;
		c.store.fail_calls = 1;
		one_round(&c, cached);
		must(c.ok + c.failed == NR_THREADS);
		must(c.failed >= NR_THREADS / 2);
		must(c.store.calls - calls == 1 + (c.ok > 0));
		late += c.ok;
		/* Nothing stays charged for a page that did not come. */
		cached += c.ok > 0;
		must(memcg_pages(c.cg, UMM_MEMORY_CURRENT) == cached);
		c.entered = NR_THREADS;
		c.pages_before = cached;
		must(read_page_checked(c.obj, c.store.id, (uint64_t)i * STRIDE + 1) == 0);
		cached = i + 1;
		must(memcg_pages(c.cg, UMM_MEMORY_CURRENT) == cached);
		must(c.store.reads == cached);
	}
	threads_join(&ts);
	print_message("  %u of %u waiters came too late\n", late, NR_PAGES * NR_THREADS);
	assert_true(memcg_pages(c.cg, UMM_MEMORY_PEAK) <= NR_PAGES);
	crowd_close(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_load),
		cmocka_unit_test(test_failing_load),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
