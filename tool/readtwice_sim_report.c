/* SPDX-License-Identifier: MIT */
/* Owns how a simulated result is shown: always as simulated, and with all its costs. */
#define _GNU_SOURCE
#include "readtwice_sim.h"

#include <stdio.h>
#include <string.h>

#include "readtwice.h"
#include "report.h"

static double part(double of, double all)
{
	return all > 0 ? of / all : 0;
}

double sim_pages_per_second(const struct sim_result *result)
{
	return part((double)result->pages, result->virtual_seconds);
}

double sim_ratio(const struct sim_point *point)
{
	if (point->nr_arms != 2)
		return 0;
	return part(sim_pages_per_second(&point->result[1]),
		    sim_pages_per_second(&point->result[0]));
}

static const struct sim_result *arm_of(const struct sim_point *point, enum umm_lru_lock lru_lock)
{
	for (size_t a = 0; a < point->nr_arms; a++)
		if (point->lru_lock[a] == lru_lock)
			return &point->result[a];
	return NULL;
}

unsigned sim_knee(const struct sim_point *points, size_t nr, enum umm_lru_lock lru_lock)
{
	double first = 0;

	for (size_t i = 1; i < nr; i++) {
		const struct sim_result *left = arm_of(&points[i - 1], lru_lock);
		const struct sim_result *right = arm_of(&points[i], lru_lock);
		double slope;

		if (!left || !right)
			return 0;
		slope = (sim_pages_per_second(right) - sim_pages_per_second(left)) /
			(points[i].cpus - points[i - 1].cpus);
		if (i == 1)
			first = sim_pages_per_second(left) / points[0].cpus;
		if (slope < first / 2)
			return points[i - 1].cpus;
	}
	return 0;
}

static const struct umm_lock_stat *lock_of(const struct sim_result *result, const char *name)
{
	static const struct umm_lock_stat none = { .name = "" };

	for (size_t i = 0; i < result->nr_locks; i++)
		if (!strcmp(result->locks[i].name, name))
			return &result->locks[i];
	return &none;
}

static double mb_per_s_per_reader(const struct sim_plan *plan, const struct sim_point *point,
				  const struct sim_result *result)
{
	return part((double)result->bytes / 1e6,
		    result->virtual_seconds * point->memcgs * plan->run.readers);
}

/* ---- for people ---- */

static void print_costs(const struct sim_plan *plan)
{
	const char *name, *origin;
	double value;

	printf("costs (each name ends in its unit):\n");
	for (size_t i = 0; sim_costs_get(plan->costs, i, &name, &value, &origin); i++)
		printf("  %-18s %8g  %s\n", name, value, origin);
}

static void print_point(const struct sim_plan *plan, const struct sim_point *point,
			struct table *table)
{
	char count[COUNT_CHARS];

	for (size_t a = 0; a < point->nr_arms; a++) {
		const struct sim_result *r = &point->result[a];
		const struct umm_lock_stat *lru = lock_of(r, "lru_lock");

		table_row(table, "");
		table_cell(table, "%u", point->cpus);
		table_cell(table, "%s", lru_lock_name(point->lru_lock[a]));
		table_cell(table, "%s", format_count(count, (uint64_t)sim_pages_per_second(r)));
		table_cell(table, "%.1f", mb_per_s_per_reader(plan, point, r));
		table_cell(table, "%.3f", part((double)lru->acquisitions, (double)r->pages));
		table_cell(table, "%.0f", part((double)lru->hold_ns, (double)r->pages));
		table_cell(table, "%.1f %%", 100 * part(r->spin_seconds, r->cpu_seconds));
		table_cell(table, "%.1f %%", 100 * part(r->idle_seconds, r->cpu_seconds));
		table_cell(table, "%.4f", r->virtual_seconds);
	}
}

static void print_reported(const struct sim_plan *plan, const struct sim_point *point)
{
	const struct sim_machine *m = plan->machine;

	printf("reported by others for %s (%s): %+.0f %%", m->name, m->text, m->percent);
	if (m->node_mb_per_s > 0)
		printf(", %g -> %g MB/s a reader", m->node_mb_per_s, m->memcg_mb_per_s);
	printf("\nsimulated: %+.1f %%\n", 100 * (sim_ratio(point) - 1));
}

void sim_print(const struct sim_plan *plan, const struct sim_point *points, size_t nr)
{
	static const char *const heads[] = { "CPUs",         "lru_lock", "pages/s",
					     "MB/s/reader",  "acq/page", "hold ns/page",
					     "CPU spinning", "CPU idle", "virtual s" };
	struct table table;

	printf("SIMULATED: %u nodes, %u readers a memcg, %s, %s, seed %llu, %s\n\n",
	       plan->run.nodes, plan->run.readers,
	       plan->run.shared_files ? "which share a file" : "each with files of its own",
	       plan->run.seconds > 0 ? "a part of the run" : "the whole run",
	       (unsigned long long)plan->run.seed, sim_compiler());
	table_init(&table, sizeof(heads) / sizeof(heads[0]));
	table_row(&table, "");
	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++)
		table_cell(&table, "%s", heads[i]);
	for (size_t i = 0; i < nr; i++)
		print_point(plan, &points[i], &table);
	table_print(&table, stdout);
	table_fini(&table);
	printf("\n");
	for (size_t i = 0; i < nr && points[i].nr_arms == 2; i++)
		printf("memcg/node at %u CPUs, pages/s: %.3f\n", points[i].cpus,
		       sim_ratio(&points[i]));
	if (nr > 1)
		printf("knee of lru_lock node: %u CPUs\n", sim_knee(points, nr, UMM_LRU_LOCK_NODE));
	if (plan->machine && points[0].nr_arms == 2)
		print_reported(plan, &points[0]);
	print_costs(plan);
	for (size_t a = 0; plan->stat && a < points[0].nr_arms; a++) {
		printf("\nlru_lock %s: vmstat\n", lru_lock_name(points[0].lru_lock[a]));
		for (size_t i = 0; i < points[0].result[a].nr_vmstat; i++)
			printf("  %s %llu\n", points[0].result[a].vmstat[i].name,
			       (unsigned long long)points[0].result[a].vmstat[i].value);
	}
}

/* ---- JSON ---- */

static json_t *integer(uint64_t value)
{
	return json_integer((json_int_t)value);
}

static json_t *vmstat_json(const struct sim_result *r)
{
	json_t *object = json_object();

	for (size_t i = 0; i < r->nr_vmstat; i++)
		json_object_set_new(object, r->vmstat[i].name, integer(r->vmstat[i].value));
	return object;
}

static json_t *locks_json(const struct sim_result *r)
{
	json_t *object = json_object();

	for (size_t i = 0; i < r->nr_locks; i++) {
		const struct umm_lock_stat *l = &r->locks[i];

		json_object_set_new(
			object, l->name,
			json_pack("{s:I,s:I,s:I,s:I,s:I}", "acquisitions",
				  (json_int_t)l->acquisitions, "contended_same_memcg",
				  (json_int_t)l->contended_same_memcg, "contended_other_memcg",
				  (json_int_t)l->contended_other_memcg, "wait_ns",
				  (json_int_t)l->wait_ns, "hold_ns", (json_int_t)l->hold_ns));
	}
	return object;
}

static json_t *arm_json(const struct sim_plan *plan, const struct sim_point *point, size_t a)
{
	const struct sim_result *r = &point->result[a];
	const struct umm_lock_stat *lru = lock_of(r, "lru_lock");
	json_t *object = json_pack("{s:s}", "lru_lock", lru_lock_name(point->lru_lock[a]));
	char hash[32];

	snprintf(hash, sizeof(hash), "%016llx", (unsigned long long)r->hash);
	json_object_set_new(object, "pages", integer(r->pages));
	json_object_set_new(object, "bytes", integer(r->bytes));
	json_object_set_new(object, "seconds", json_real(r->virtual_seconds));
	json_object_set_new(object, "pages_per_s", json_real(sim_pages_per_second(r)));
	json_object_set_new(object, "mb_per_s_per_reader",
			    json_real(mb_per_s_per_reader(plan, point, r)));
	json_object_set_new(object, "misses", integer(r->misses));
	json_object_set_new(object, "errors", integer(r->errors));
	json_object_set_new(object, "verified_bytes", integer(r->verified_bytes));
	json_object_set_new(object, "peak_bytes", integer(r->peak_bytes));
	json_object_set_new(object, "memcg_peak_bytes", integer(r->memcg_peak_bytes));
	json_object_set_new(object, "check_violations", integer(r->check_violations));
	json_object_set_new(object, "lru_lock_acquisitions_per_page",
			    json_real(part((double)lru->acquisitions, (double)r->pages)));
	json_object_set_new(object, "vmstat", vmstat_json(r));
	json_object_set_new(object, "locks", locks_json(r));
	json_object_set_new(object, "cpu",
			    json_pack("{s:f,s:f,s:f}", "seconds", r->cpu_seconds,
				      "spinning_seconds", r->spin_seconds, "idle_seconds",
				      r->idle_seconds));
	json_object_set_new(object, "schedule",
			    json_pack("{s:I,s:I,s:I,s:s}", "points", (json_int_t)r->points,
				      "plain_accesses", (json_int_t)r->plain_accesses, "switches",
				      (json_int_t)r->switches, "hash", hash));
	return object;
}

static json_t *costs_json(const struct sim_plan *plan)
{
	json_t *object = json_object();
	const char *name, *origin;
	double value;

	for (size_t i = 0; sim_costs_get(plan->costs, i, &name, &value, &origin); i++)
		json_object_set_new(object, name,
				    json_pack("{s:f,s:s}", "value", value, "origin", origin));
	return object;
}

static json_t *ratio_json(const struct sim_point *point)
{
	double ratio = sim_ratio(point);

	if (point->nr_arms != 2)
		return json_null();
	return json_pack("{s:f,s:f,s:f}", "median", ratio, "min", ratio, "max", ratio);
}

static json_t *point_json(const struct sim_plan *plan, const struct sim_point *point)
{
	json_t *object = json_object();
	json_t *arms = json_array();

	for (size_t a = 0; a < point->nr_arms; a++)
		json_array_append_new(arms, arm_json(plan, point, a));
	json_object_set_new(object, "cpus", integer(point->cpus));
	json_object_set_new(object, "memcgs", integer(point->memcgs));
	json_object_set_new(object, "virtual_seconds", json_real(point->result[0].virtual_seconds));
	json_object_set_new(object, "arms", arms);
	json_object_set_new(object, "ratio_memcg_over_node", ratio_json(point));
	return object;
}

static json_t *machine_json(const struct sim_machine *m)
{
	json_t *object = json_pack("{s:s,s:s,s:f}", "name", m->name, "text", m->text,
				   "reported_percent", m->percent);

	if (m->node_mb_per_s > 0)
		json_object_set_new(object, "reported_mb_per_s_per_reader",
				    json_pack("{s:f,s:f}", "node", m->node_mb_per_s, "memcg",
					      m->memcg_mb_per_s));
	return object;
}

json_t *sim_json(const struct sim_plan *plan, const struct sim_point *points, size_t nr)
{
	const struct sim_readtwice *run = &plan->run;
	json_t *root = json_pack("{s:s,s:s,s:b}", "command", READTWICE, "version", umm_version(),
				 "simulated", 1);
	json_t *sweep;

	json_object_set_new(root, "nodes", integer(run->nodes));
	json_object_set_new(root, "smt", json_boolean(run->smt));
	json_object_set_new(root, "readers", integer(run->readers));
	json_object_set_new(root, "memory_bytes", integer(run->memory));
	json_object_set_new(root, "shared_files", json_boolean(run->shared_files));
	json_object_set_new(root, "whole", json_boolean(!(run->seconds > 0)));
	json_object_set_new(root, "seed", integer(run->seed));
	json_object_set_new(root, "compiler", json_string(sim_compiler()));
	if (plan->machine)
		json_object_set_new(root, "machine", machine_json(plan->machine));
	json_object_set_new(root, "costs", costs_json(plan));
	if (nr == 1) {
		json_t *point = point_json(plan, &points[0]);

		json_object_update(root, point);
		json_decref(point);
		return root;
	}
	sweep = json_array();
	for (size_t i = 0; i < nr; i++)
		json_array_append_new(sweep, point_json(plan, &points[i]));
	json_object_set_new(root, "sweep", sweep);
	json_object_set_new(root, "knee_cpus",
			    json_pack("{s:I,s:I}", "node",
				      (json_int_t)sim_knee(points, nr, UMM_LRU_LOCK_NODE), "memcg",
				      (json_int_t)sim_knee(points, nr, UMM_LRU_LOCK_MEMCG)));
	return root;
}
