/* SPDX-License-Identifier: MIT */
/* Counters of memcgs: summed over subtrees, kept when a memcg is destroyed, never running backwards. */
#include "memcg_fixture.h"

static void names_are_those_of_memory_stat(void **state)
{
	(void)state;
	assert_string_equal(memcg_stat_name(MEMCG_FILE), "file");
	assert_string_equal(memcg_stat_name(MEMCG_PGMAJFAULT), "pgmajfault");
	assert_string_equal(memcg_event_name(MEMCG_EV_MAX), "max");
	for (unsigned i = 0; i < NR_MEMCG_STATS; i++)
		assert_non_null(memcg_stat_name(i));
	for (unsigned i = 0; i < NR_MEMCG_EVENTS; i++)
		assert_non_null(memcg_event_name(i));
	assert_int_equal(NR_MEMCG_GAUGES, MEMCG_LOADING + 1);
}

static void count_reads(struct mem_cgroup *memcg, uint64_t n, bool in_section)
{
	if (in_section)
		rcu_read_lock(&memcg->mm->rcu);
	while (n-- > 0)
		memcg_count_read(memcg);
	if (in_section)
		rcu_read_unlock(&memcg->mm->rcu);
}

static void sums_cover_the_subtree(void **state)
{
	struct mm *mm = state_mm(state);
	struct mem_cgroup *a = new_memcg(root_memcg(mm), "a"), *b = new_memcg(a, "b");
	struct mem_cgroup *c = new_memcg(root_memcg(mm), "c");

	memcg_count(a, MEMCG_PGSCAN, 5);
	memcg_count(b, MEMCG_PGSCAN, 7);
	memcg_count(c, MEMCG_PGSCAN, 100);
	memcg_count_event(b, MEMCG_EV_OOM, 2);
	assert_int_equal(memcg_reads_alloc(b), 0);
	count_reads(a, 10, true); /* no counters of its own yet */
	count_reads(b, 20, true);
	count_reads(b, 30, false);
	atomic_fetch_add(&a->lruvec[0].nr[LRU_INACTIVE_FILE], 3);
	atomic_fetch_add(&b->lruvec[1].nr[LRU_INACTIVE_FILE], 4);

	assert_int_equal(memcg_stat_sum(b, MEMCG_PGSCAN), 7);
	assert_int_equal(memcg_stat_sum(a, MEMCG_PGSCAN), 12);
	assert_int_equal(memcg_stat_sum(root_memcg(mm), MEMCG_PGSCAN), 112);
	assert_int_equal(memcg_stat_sum(a, MEMCG_PGSTEAL), 0);
	assert_int_equal(memcg_event_sum(a, MEMCG_EV_OOM), 2);
	assert_int_equal(memcg_event_sum(c, MEMCG_EV_OOM), 0);
	assert_int_equal(memcg_pgfault_sum(b), 50);
	assert_int_equal(memcg_pgfault_sum(a), 60);
	assert_int_equal(memcg_lru_sum(a, LRU_INACTIVE_FILE), 7);
	assert_int_equal(memcg_lru_sum(b, LRU_INACTIVE_FILE), 4);
	assert_int_equal(memcg_lru_sum(a, LRU_ACTIVE_FILE), 0);
	destroy(b);
	destroy(a);
	destroy(c);
}

static void destroying_keeps_counts(void **state)
{
	struct mm *mm = state_mm(state);
	struct mem_cgroup *root = root_memcg(mm), *a = new_memcg(root, "a"), *b = new_memcg(a, "b");

	assert_int_equal(memcg_reads_alloc(b), 0);
	count_reads(b, 1, true);
	memcg_count(b, MEMCG_PGSTEAL, 2);
	memcg_count_event(b, MEMCG_EV_PINNED, 3);
	memcg_get(b);
	destroy(b);
	assert_int_equal(memcg_pgfault_sum(a), 1);
	assert_int_equal(memcg_stat_sum(a, MEMCG_PGSTEAL), 2);
	assert_int_equal(memcg_event_sum(a, MEMCG_EV_PINNED), 3);

	/* Who still has a reference counts at the nearest that lives. */
	assert_int_equal(memcg_reads_alloc(a), 0);
	count_reads(b, 10, true);
	count_reads(b, 10, false);
	memcg_count(b, MEMCG_PGSTEAL, 20);
	memcg_count_event(b, MEMCG_EV_PINNED, 30);
	destroy(a);
	count_reads(b, 100, true);
	memcg_count(b, MEMCG_PGSTEAL, 200);
	memcg_count_event(b, MEMCG_EV_PINNED, 300);
	assert_int_equal(memcg_pgfault_sum(root), 121);
	assert_int_equal(memcg_stat_sum(root, MEMCG_PGSTEAL), 222);
	assert_int_equal(memcg_event_sum(root, MEMCG_EV_PINNED), 333);
	memcg_put(b);
}

/* A page counted by a child and uncounted by its parent: the parts are below zero, sums never. */
static void gauges_do_not_wrap(void **state)
{
	struct mm *mm = state_mm(state);
	struct mem_cgroup *a = new_memcg(root_memcg(mm), "a"), *b = new_memcg(a, "b");

	memcg_count(b, MEMCG_FILE, 5);
	memcg_count(a, MEMCG_FILE, -3);
	assert_int_equal(memcg_stat_sum(a, MEMCG_FILE), 2);
	memcg_count(b, MEMCG_FILE, -5);
	assert_int_equal(memcg_stat_sum(a, MEMCG_FILE), 0);
	memcg_count(a, MEMCG_FILE, 3);
	destroy(b);
	assert_int_equal(memcg_stat_sum(a, MEMCG_FILE), 0);
	destroy(a);
}

/* ---- field case K-03 ---- */

#define K03_CHILDREN 3
#define K03_COUNTERS 3

struct k03 {
	struct mem_cgroup *parent;
	pthread_mutex_t lock;
	struct mem_cgroup *child[K03_CHILDREN]; /* lock */
	_Atomic uint64_t counted;               /* of each of the counters */
	_Atomic uint64_t samples;
	_Atomic bool stop, stop_samples;
};

static void k03_counter(struct worker *w, void *arg)
{
	struct k03 *k = arg;

	while (!atomic_load(&k->stop)) {
		struct mem_cgroup *memcg;

		pthread_mutex_lock(&k->lock);
		memcg = k->child[worker_random(w, K03_CHILDREN)];
		memcg_get(memcg);
		pthread_mutex_unlock(&k->lock);
		/* A while, so that it is often destroyed under us. */
		for (unsigned i = 0; i < 20; i++) {
			uint64_t n = 1 + worker_random(w, 3);

			count_reads(memcg, n, i % 2);
			memcg_count(memcg, MEMCG_PGMAJFAULT, (int64_t)n);
			memcg_count_event(memcg, MEMCG_EV_MAX, n);
			atomic_fetch_add(&k->counted, n);
		}
		memcg_put(memcg);
	}
}

static void k03_read(struct k03 *k, uint64_t *sum)
{
	sum[0] = memcg_pgfault_sum(k->parent);
	sum[1] = memcg_stat_sum(k->parent, MEMCG_PGMAJFAULT);
	sum[2] = memcg_event_sum(k->parent, MEMCG_EV_MAX);
}

static void k03_sampler(struct worker *w, void *arg)
{
	struct k03 *k = arg;
	uint64_t last[K03_COUNTERS] = { 0 };

	(void)w;
	while (!atomic_load(&k->stop_samples)) {
		uint64_t least = atomic_load(&k->counted), now[K03_COUNTERS];

		k03_read(k, now);
		for (unsigned i = 0; i < K03_COUNTERS; i++) {
			CHECK(now[i] >= last[i]);
			CHECK(now[i] >= least); /* what was counted before is in it */
			last[i] = now[i];
		}
		atomic_fetch_add(&k->samples, 1);
	}
}

static void k03_totals_never_run_backwards(void **state)
{
	struct mm *mm = state_mm(state);
	struct k03 k = { .parent = new_memcg(root_memcg(mm), "p"),
			 .lock = PTHREAD_MUTEX_INITIALIZER };
	struct worker w[3], sampler;
	struct stutter stutter;
	uint64_t sum[K03_COUNTERS];

	for (unsigned i = 0; i < K03_CHILDREN; i++)
		k.child[i] = new_memcg(k.parent, "child");
	workers_start(w, 3, mm, k03_counter, &k);
	workers_start(&sampler, 1, mm, k03_sampler, &k);
	stutter_start(&stutter, w, 3);
	for (unsigned round = 0;
	     round < 3000 || (round < 1000000 && atomic_load(&k.samples) < 2000); round++) {
		struct mem_cgroup *young = new_memcg(k.parent, "child"), *old;

		if (round % 2)
			assert_int_equal(memcg_reads_alloc(young), 0);
		pthread_mutex_lock(&k.lock);
		old = k.child[round % K03_CHILDREN];
		k.child[round % K03_CHILDREN] = young;
		pthread_mutex_unlock(&k.lock);
		destroy(old);
	}
	stutter_stop(&stutter);
	atomic_store(&k.stop, true);
	workers_join(w, 3);
	atomic_store(&k.stop_samples, true);
	workers_join(&sampler, 1);
	k03_read(&k, sum);
	for (unsigned i = 0; i < K03_COUNTERS; i++)
		assert_int_equal(sum[i], atomic_load(&k.counted));
	for (unsigned i = 0; i < K03_CHILDREN; i++)
		destroy(k.child[i]);
	k03_read(&k, sum);
	for (unsigned i = 0; i < K03_COUNTERS; i++)
		assert_int_equal(sum[i], atomic_load(&k.counted));
	destroy(k.parent);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_are_those_of_memory_stat),
		mm_test(sums_cover_the_subtree),
		mm_test(destroying_keeps_counts),
		mm_test(gauges_do_not_wrap),
		mm_test(k03_totals_never_run_backwards),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
