/* SPDX-License-Identifier: MIT */
/*
 * The engine on virtual CPUs: the same seed gives the same run to the bit, another seed another one;
 * every byte that a reader gets is right, limits hold, and the whole-state check is clean.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/sim.h"

#define CHECK(condition)                                                                \
	do {                                                                            \
		if (!(condition)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			exit(1);                                                        \
		}                                                                       \
	} while (0)

static struct sim_costs *costs;

static struct sim_readtwice small(enum umm_lru_lock lru_lock, uint64_t seed)
{
	return (struct sim_readtwice){
		.cpus = 8,
		.nodes = 2,
		.smt = true,
		.memcgs = 6,
		.readers = 3,
		.memory = 4u << 20,
		.memcg_max = (4u << 20) / 6 & ~4095u,
		.file_size = 300u << 10,
		.lru_lock = lru_lock,
		.seed = seed,
		.costs = costs,
	};
}

static struct sim_result run(const struct sim_readtwice *options)
{
	struct sim_result result;

	sim_readtwice(options, &result);
	CHECK(result.error == 0);
	CHECK(result.errors == 0 && result.mismatches == 0 && result.check_violations == 0);
	CHECK(result.memcg_peak_bytes <= options->memcg_max);
	CHECK(result.peak_bytes <= options->memory);
	return result;
}

static void check_determinism(enum umm_lru_lock lru_lock)
{
	struct sim_readtwice options = small(lru_lock, 1);
	struct sim_result first = run(&options), again = run(&options), other;

	CHECK(first.hash == again.hash && first.points == again.points);
	CHECK(first.plain_accesses == again.plain_accesses);
	CHECK(first.virtual_seconds == again.virtual_seconds);
	CHECK(first.nr_locks == again.nr_locks && first.nr_vmstat == again.nr_vmstat);
	for (size_t i = 0; i < first.nr_locks; i++) {
		CHECK(first.locks[i].acquisitions == again.locks[i].acquisitions);
		CHECK(first.locks[i].wait_ns == again.locks[i].wait_ns);
	}
	for (size_t i = 0; i < first.nr_vmstat; i++)
		CHECK(first.vmstat[i].value == again.vmstat[i].value);
	options.seed = 2;
	other = run(&options);
	CHECK(other.hash != first.hash);
	CHECK(other.pages == first.pages);
	sim_result_fini(&first);
	sim_result_fini(&again);
	sim_result_fini(&other);
}

/* Contents and state, over seeds, sharing, a device with latency, and worlds of one CPU. */
static void check_contents(void)
{
	for (unsigned i = 0; i < 12; i++) {
		struct sim_readtwice options =
			small(i % 2 ? UMM_LRU_LOCK_NODE : UMM_LRU_LOCK_MEMCG, i);
		struct sim_result result;

		options.verify = true;
		options.shared_files = i % 3 == 0;
		options.cpus = i % 4 ? 8 : 1;
		options.nodes = i % 4 ? 2 : 1;
		CHECK(sim_costs_set(costs, "io_latency_us", i < 6 ? 0 : 50));
		CHECK(sim_costs_set(costs, "io_mbytes_per_s", i < 6 ? 0 : 2000));
		result = run(&options);
		CHECK(result.verified_bytes == 2ull * 6 * 3 * (300u << 10));
		CHECK(result.verified_bytes == result.bytes);
		sim_result_fini(&result);
	}
	CHECK(sim_costs_set(costs, "io_latency_us", 0));
	CHECK(sim_costs_set(costs, "io_mbytes_per_s", 0));
}

/* Global pressure: no limits but the budget, so that kswapd and direct reclaim work. */
static void check_global_reclaim(void)
{
	struct sim_readtwice options = small(UMM_LRU_LOCK_MEMCG, 5);
	struct sim_result result;

	options.memcg_max = options.memory;
	options.verify = true;
	result = run(&options);
	sim_result_fini(&result);
}

static const struct umm_lock_stat *lru_lock_of(const struct sim_result *result)
{
	for (size_t i = 0; i < result->nr_locks; i++)
		if (!strcmp(result->locks[i].name, "lru_lock"))
			return &result->locks[i];
	abort();
}

/* The point of it all: one lock a node is waited for by other memcgs, one a memcg never. */
static void check_contention(void)
{
	struct sim_readtwice options = small(UMM_LRU_LOCK_NODE, 1);
	struct sim_result node, memcg;

	options.cpus = 48;
	options.memcgs = 48;
	options.readers = 2;
	options.memory = 32u << 20;
	options.memcg_max = options.memory / 48 & ~4095u;
	node = run(&options);
	options.lru_lock = UMM_LRU_LOCK_MEMCG;
	memcg = run(&options);
	CHECK(lru_lock_of(&node)->contended_other_memcg > 0);
	CHECK(lru_lock_of(&memcg)->contended_other_memcg == 0);
	CHECK(node.pages == memcg.pages);
	sim_result_fini(&node);
	sim_result_fini(&memcg);
}

static void check_costs(void)
{
	const char *name, *origin;
	double value;
	size_t nr = 0;

	while (sim_costs_get(costs, nr, &name, &value, &origin)) {
		CHECK(strstr(name, "_") || !strcmp(name, "jitter"));
		CHECK(*origin && value >= 0);
		nr++;
	}
	CHECK(nr > 20);
	CHECK(!sim_costs_set(costs, "no_such_ns", 1));
	CHECK(!sim_costs_set(costs, "read_ns", -1));
	CHECK(sim_machine_find("D2") && !sim_machine_find("D3"));
}

int main(void)
{
	costs = sim_costs_create();
	CHECK(costs);
	check_costs();
	check_determinism(UMM_LRU_LOCK_NODE);
	check_determinism(UMM_LRU_LOCK_MEMCG);
	check_contents();
	check_global_reclaim();
	check_contention();
	sim_costs_destroy(costs);
	return 0;
}
