/* SPDX-License-Identifier: MIT */
/*
 * The engine on virtual CPUs, as the command sees it: a workload and a machine in, figures out. All of
 * it is simulated: no figure from here is a measurement.
 *
 * The same binary, options and seed give the same result to the bit. One world at a time in a process.
 */
#ifndef UMM_SIM_SIM_H
#define UMM_SIM_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <umm.h>

#define SIM_MAX_CPUS 240u

/* ---- costs: the table of sim/cost_table.h ---- */

struct sim_costs;

/* A copy of the table that can be changed; NULL: no memory. */
struct sim_costs *sim_costs_create(void);
void sim_costs_destroy(struct sim_costs *costs);
/* False: no cost of that name, or the value is negative or absurd. */
bool sim_costs_set(struct sim_costs *costs, const char *name, double value);
/* The nth entry; false: there are no more. Strings are constant. */
bool sim_costs_get(const struct sim_costs *costs, size_t nth, const char **name, double *value,
		   const char **origin);

/* ---- machines of which results are public ---- */

struct sim_machine {
	const char *name;
	const char *text;     /* the machine, and who reported */
	unsigned cpus, nodes; /* hyperthreads; sockets */
	bool smt;
	unsigned memcgs, readers;
	/* What was reported, lru_lock node and memcg; 0: only the ratio is known. */
	double node_mb_per_s, memcg_mb_per_s;
	double percent;
	/* Part of the run that went by before memory was full; 0: a small one. */
	double filling;
};

/* The nth machine, or NULL. */
const struct sim_machine *sim_machine_nth(size_t nth);
/* By name, or NULL. */
const struct sim_machine *sim_machine_find(const char *name);

/* ---- readtwice ---- */

struct sim_readtwice {
	unsigned cpus, nodes;
	bool smt;
	unsigned memcgs, readers; /* readers of each memcg, dealt out to the CPUs at random */
	uint64_t memory, memcg_max, file_size;
	uint32_t readahead_pages; /* 0: the library's default */
	enum umm_lru_lock lru_lock;
	/* The readers of a memcg read one file together, as two dd's in a container do. Otherwise each
	 * reads a file of its own, twice. */
	bool shared_files;
	/* 0: read every file twice, and take the time of that. Otherwise read on and on, and take so much
	 * time once memory is full; or from the beginning, so that it is full after this part of it. */
	double seconds;
	double filling;
	bool verify; /* keep contents, and compare them */
	uint64_t seed;
	const struct sim_costs *costs;
};

struct sim_result {
	int error; /* 0 or -errno: what follows is not valid then */
	uint64_t pages, bytes, misses, errors, mismatches, verified_bytes;
	uint64_t peak_bytes, memcg_peak_bytes;
	uint64_t check_violations;
	double virtual_seconds;
	struct umm_stat *vmstat; /* over the time taken */
	size_t nr_vmstat;
	struct umm_lock_stat *locks;
	size_t nr_locks;
	double cpu_seconds, idle_seconds, spin_seconds; /* of all CPUs, in the time taken */
	/* Over the whole life of the world: what the scheduler did. */
	uint64_t points, plain_accesses, switches;
	uint64_t hash; /* of every decision */
};

void sim_readtwice(const struct sim_readtwice *options, struct sim_result *ret);
void sim_result_fini(struct sim_result *result);

/* "x86-64", "aarch64" or "ucontext (slow)", and the compiler of the instrumented engine. */
const char *sim_switch_name(void);
const char *sim_compiler(void);

#endif
