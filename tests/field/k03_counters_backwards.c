/* SPDX-License-Identifier: MIT */
/*
 * K-03, counters that run backwards. P has 3 children, max 100 pages each; each child's store of
 * 1,000 pages gets 5,000 reads. P's totals are sampled at each 500th read, and all the time by a
 * thread of its own. The children are destroyed one after another, the first while another thread
 * reads for it, which ends with -ESTALE. No total may ever fall, and in the end P's reads and
 * misses are exactly those that the test counted. Refaults are not built.
 *
 * Then 300 children one after another, each destroyed under two readers.
 */
#include "harness.h"

#define NR_CHILDREN 3
#define MAX_PAGES 100
#define STORE_PAGES 1000
#define READS 5000
#define SAMPLE_EVERY 500

static const char *const totals[] = { "pgfault",  "pgmajfault",    "pgscan",
				      "pgsteal",  "pgscan_direct", "pgsteal_direct",
				      "pgrefill", "pgactivate",    "pgdeactivate" };
static const char *const events[] = { "max", "oom", "pinned", "bypass" };
#define NR_TOTALS (sizeof(totals) / sizeof(totals[0]))
#define NR_EVENTS (sizeof(events) / sizeof(events[0]))

struct family {
	struct fixture f;
	umm_memcg_t *p, *child[NR_CHILDREN];
	umm_obj_t *obj[NR_CHILDREN];
	struct mem_store store[NR_CHILDREN];
	_Atomic uint64_t reads;
	_Atomic bool stop;
	_Atomic uint64_t first_reads; /* of the first child */
	uint64_t samples;
};

/* One look at P's totals; none may be below what this caller saw before. */
static void sample(struct family *fam, uint64_t *seen)
{
	struct umm_stat st[64];
	ssize_t nr = umm_memcg_stat(fam->p, st, 64);

	for (unsigned i = 0; i < NR_TOTALS; i++) {
		uint64_t now = stat_find(st, nr, totals[i]);

		must(now >= seen[i]);
		seen[i] = now;
	}
	nr = umm_memcg_events(fam->p, st, 64);
	for (unsigned i = 0; i < NR_EVENTS; i++) {
		uint64_t now = stat_find(st, nr, events[i]);

		must(now >= seen[NR_TOTALS + i]);
		seen[NR_TOTALS + i] = now;
	}
}

static void *sampler_main(void *arg)
{
	struct family *fam = arg;
	uint64_t seen[NR_TOTALS + NR_EVENTS] = { 0 };

	while (!fam->stop) {
		sample(fam, seen);
		fam->samples++;
	}
	return NULL;
}

/* Read for the first child until it is gone. */
static void *first_child_main(void *arg)
{
	struct family *fam = arg;
	uint64_t rng = 99;
	int err;

	for (;;) {
		err = read_page_checked(fam->obj[0], fam->store[0].id,
					rng_next(&rng) % STORE_PAGES);
		if (err)
			break;
		fam->reads++;
		fam->first_reads++;
	}
	must(err == -ESTALE);
	return NULL;
}

static void read_for_child(struct family *fam, unsigned child, uint64_t *seen)
{
	uint64_t rng = child;

	for (unsigned n = 0; n < READS; n++) {
		must(read_page_checked(fam->obj[child], fam->store[child].id,
				       rng_next(&rng) % STORE_PAGES) == 0);
		fam->reads++;
		if (n % SAMPLE_EVERY == 0)
			sample(fam, seen);
	}
}

static void family_open(struct family *fam)
{
	struct umm_options o = fixture_options(4096);

	o.readahead_pages = 0; /* a miss is one page read from the store */
	fam->f = fixture_create_with(&o);
	fam->p = memcg_with_max(&fam->f, NULL, "P", 0);
	for (unsigned i = 0; i < NR_CHILDREN; i++) {
		fam->child[i] = memcg_with_max(&fam->f, fam->p, "child", MAX_PAGES);
		fam->store[i] = (struct mem_store){ .id = i, .pages = STORE_PAGES };
		fam->obj[i] = mem_store_open(fam->child[i], &fam->store[i]);
	}
}

/* Every read that the stores served is a miss of P's or a read past the cache; every read is a
 * read. */
static void assert_exact(struct family *fam)
{
	uint64_t served = 0;

	for (unsigned i = 0; i < NR_CHILDREN; i++)
		served += fam->store[i].reads;
	assert_int_equal(memcg_event(fam->p, "bypass"), 0);
	assert_int_equal(memcg_stat(fam->p, "pgmajfault"), served);
	assert_int_equal(memcg_stat(fam->p, "pgfault"), fam->reads);
	assert_true(memcg_stat(fam->p, "pgsteal") > 0);
	assert_int_equal(memcg_stat(fam->p, "pgsteal") + memcg_pages(fam->p, UMM_MEMORY_CURRENT),
			 served);
	assert_int_equal(vmstat(fam->f.mm, "pgfault"), fam->reads);
	assert_int_equal(vmstat(fam->f.mm, "pgmajfault"), served);
}

static void test_totals_never_fall(void **state)
{
	struct family fam = { .samples = 0 };
	uint64_t seen[NR_TOTALS + NR_EVENTS] = { 0 };
	struct test_threads sampler = { .nr = 0 }, first = { .nr = 0 };

	(void)state;
	family_open(&fam);
	threads_spawn(&sampler, 1, sampler_main, &fam);
	for (unsigned i = 0; i < NR_CHILDREN; i++)
		read_for_child(&fam, i, seen);
	threads_spawn(&first, 1, first_child_main, &fam);
	while (fam.first_reads < READS)
		sample(&fam, seen);
	for (unsigned i = 0; i < NR_CHILDREN; i++) {
		must(umm_memcg_destroy(fam.child[i]) == 0);
		sample(&fam, seen);
	}
	threads_join(&first);
	sample(&fam, seen);
	fam.stop = true;
	threads_join(&sampler);
	assert_int_equal(umm_drain(fam.f.mm), 0);
	sample(&fam, seen);
	assert_exact(&fam);
	print_message("  %llu reads, %llu misses, %llu samples on the side\n",
		      (unsigned long long)fam.reads,
		      (unsigned long long)memcg_stat(fam.p, "pgmajfault"),
		      (unsigned long long)fam.samples);

	for (unsigned i = 0; i < NR_CHILDREN; i++)
		assert_int_equal(umm_close(fam.obj[i]), 0);
	assert_int_equal(memcg_stat(fam.p, "pgfault"), fam.reads);
	assert_int_equal(umm_memcg_destroy(fam.p), 0);
	assert_int_equal(vmstat(fam.f.mm, "pgfault"), fam.reads);
	assert_int_equal(log_warnings, 0);
	fixture_destroy(&fam.f);
}

struct brief {
	struct family *fam;
	umm_obj_t *obj;
};

static void *brief_main(void *arg)
{
	struct brief *b = arg;
	uint64_t rng = now_ns();
	int err;

	for (;;) {
		err = read_page_checked(b->obj, b->fam->store[0].id, rng_next(&rng) % STORE_PAGES);
		if (err)
			break;
		b->fam->reads++;
	}
	must(err == -ESTALE);
	return NULL;
}

/* Two threads read for a child of P until it is destroyed. */
static void child_with_readers(struct family *fam)
{
	struct test_threads readers = { .nr = 0 };
	umm_memcg_t *child = memcg_with_max(&fam->f, fam->p, "brief", MAX_PAGES);
	struct brief b = { .fam = fam };
	uint64_t reads = fam->reads;

	must(umm_obj_reopen(fam->obj[0], child, &b.obj) == 0);
	threads_spawn(&readers, 2, brief_main, &b);
	while (fam->reads < reads + 20)
		sleep_ns(20000);
	must(umm_memcg_destroy(child) == 0);
	threads_join(&readers);
	must(umm_close(b.obj) == 0);
}

static void test_many_brief_children(void **state)
{
	struct family fam = { .samples = 0 };
	struct test_threads sampler = { .nr = 0 };

	(void)state;
	family_open(&fam);
	threads_spawn(&sampler, 1, sampler_main, &fam);
	for (unsigned n = 0; n < FEWER_IN_TSAN(300, 3); n++)
		child_with_readers(&fam);
	fam.stop = true;
	threads_join(&sampler);
	assert_int_equal(umm_drain(fam.f.mm), 0);
	assert_int_equal(memcg_stat(fam.p, "pgfault"), fam.reads);
	assert_int_equal(memcg_stat(fam.p, "pgmajfault") + memcg_event(fam.p, "bypass"),
			 fam.store[0].reads);
	print_message("  %llu reads, %llu samples on the side\n", (unsigned long long)fam.reads,
		      (unsigned long long)fam.samples);
	for (unsigned i = 0; i < NR_CHILDREN; i++) {
		assert_int_equal(umm_close(fam.obj[i]), 0);
		assert_int_equal(umm_memcg_destroy(fam.child[i]), 0);
	}
	assert_int_equal(umm_memcg_destroy(fam.p), 0);
	assert_int_equal(log_warnings, 0);
	fixture_destroy(&fam.f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_totals_never_fall),
		cmocka_unit_test(test_many_brief_children),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
