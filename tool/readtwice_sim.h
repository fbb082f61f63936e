/* SPDX-License-Identifier: MIT */
/*
 * `umm readtwice --sim`: the same experiment on virtual CPUs.
 *
 *	readtwice_sim.c         options -> runs -> result
 *	readtwice_sim_report.c  table and JSON
 */
#ifndef UMM_TOOL_READTWICE_SIM_H
#define UMM_TOOL_READTWICE_SIM_H

#include <jansson.h>
#include <stdbool.h>
#include "sim/sim.h"

#define SIM_ARMS 2

/* What was asked for, after presets and defaults. */
struct sim_plan {
	struct sim_readtwice run;          /* of the first arm, but for lru_lock */
	const struct sim_machine *machine; /* NULL: none was named */
	struct sim_costs *costs;
	unsigned lru_lock; /* enum lock_choice */
	bool stat;
};

/* One number of CPUs, one run for each arm. */
struct sim_point {
	unsigned cpus, memcgs;
	size_t nr_arms;
	enum umm_lru_lock lru_lock[SIM_ARMS];
	struct sim_result result[SIM_ARMS];
};

double sim_pages_per_second(const struct sim_result *result);
/* Pages per second, memcg over node; 0 unless both arms ran. */
double sim_ratio(const struct sim_point *point);
/*
 * Where a curve bends: the first number of CPUs from which on another CPU adds less than half of what
 * one added at the start. 0: nowhere.
 */
unsigned sim_knee(const struct sim_point *points, size_t nr, enum umm_lru_lock lru_lock);

void sim_print(const struct sim_plan *plan, const struct sim_point *points, size_t nr);
/* NULL if there is no memory for it. */
json_t *sim_json(const struct sim_plan *plan, const struct sim_point *points, size_t nr);

#endif
