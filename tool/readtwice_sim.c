/* SPDX-License-Identifier: MIT */
/* `umm readtwice --sim`: from its options to the result. */
#define _GNU_SOURCE
#include "readtwice_sim.h"

#include <ctype.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "command.h"
#include "complain.h"
#include "progress.h"
#include "readtwice.h"
#include "report.h"

#define OPTION(member) offsetof(struct sim_options, member)
#define SWEEP_MAX 256
#define FILES_PER_MEMORY 4 /* as without --sim */
/* A machine's readers go through much more than fits, as the containers' did. */
#define MACHINE_FILES_PER_MEMORY 8
#define MACHINE_SECONDS 0.05
#define SECONDS 0.03
#define MACHINE_READAHEAD 32 /* Linux's 128 KiB */

struct sim_options {
	uint64_t cpus, nodes, memcgs, readers, memory, memcg_max, file_size, seed;
	const char *preset, *cost, *sweep, *seconds, *json;
	unsigned lru_lock, smt, files;
	bool sim, whole, verify, stat;
};

static const char *const lock_choices[] = { "node", "memcg", "both", NULL };
static const char *const smt_choices[] = { "on", "off", NULL };
static const char *const files_choices[] = { "auto", "own", "shared", NULL };
enum files_choice { FILES_AUTO, FILES_OWN, FILES_SHARED };

#define NUMBER(option, least, most, text)                                                    \
	{                                                                                    \
		.name = #option, .kind = ARG_NUMBER, .offset = OPTION(option), .value = "N", \
		.min = (least), .max = (most), .help = (text)                                \
	}

static const struct arg sim_args[] = {
	{ .name = "sim",
	  .kind = ARG_FLAG,
	  .offset = OPTION(sim),
	  .help = "on virtual CPUs: results are simulated" },
	NUMBER(cpus, 1, SIM_MAX_CPUS, "virtual CPUs [104]"),
	NUMBER(nodes, 1, UMM_MAX_NODES, "sockets, each a node of the instance [2]"),
	{ .name = "smt",
	  .kind = ARG_CHOICE,
	  .offset = OPTION(smt),
	  .choices = smt_choices,
	  .value = "on|off",
	  .help = "two hyperthreads a core [on]" },
	{ .name = "preset",
	  .kind = ARG_TEXT,
	  .offset = OPTION(preset),
	  .value = "A1|A2|A3|D1|D2",
	  .help = "a machine of which a result was published, and its load" },
	NUMBER(memcgs, 1, 4096, "memcgs [one a CPU]"),
	NUMBER(readers, 1, 64, "readers of each memcg [2]"),
	{ .name = "memory",
	  .kind = ARG_SIZE,
	  .offset = OPTION(memory),
	  .value = "SIZE",
	  .min = 16 * UMM_PAGE_SIZE,
	  .max = UINT64_C(64) << 30,
	  .help = "the budget of the instance [256M]" },
	{ .name = "memcg-max",
	  .kind = ARG_SIZE,
	  .offset = OPTION(memcg_max),
	  .value = "SIZE",
	  .min = UMM_PAGE_SIZE,
	  .max = INT64_MAX,
	  .help = "limit of each memcg [its share of the memory]" },
	{ .name = "file-size",
	  .kind = ARG_SIZE,
	  .offset = OPTION(file_size),
	  .value = "SIZE",
	  .min = UMM_PAGE_SIZE,
	  .max = INT64_MAX,
	  .help = "size of each file [in all 4 x memory; with --preset 8 x]" },
	{ .name = "files",
	  .kind = ARG_CHOICE,
	  .offset = OPTION(files),
	  .choices = files_choices,
	  .value = "auto|own|shared",
	  .help = "a file a reader, or one for a memcg's readers [own]" },
	{ .name = "lru-lock",
	  .kind = ARG_CHOICE,
	  .offset = OPTION(lru_lock),
	  .choices = lock_choices,
	  .value = "node|memcg|both",
	  .help = "who shares an LRU lock; an arm each [both]" },
	{ .name = "seconds",
	  .kind = ARG_TEXT,
	  .offset = OPTION(seconds),
	  .value = "S",
	  .help = "virtual seconds to look at, once memory is full [0.03]" },
	{ .name = "whole",
	  .kind = ARG_FLAG,
	  .offset = OPTION(whole),
	  .help = "every file twice, from the start to the last reader's end" },
	{ .name = "sweep",
	  .kind = ARG_TEXT,
	  .offset = OPTION(sweep),
	  .value = "cpus=A..B[,STEP]",
	  .help = "a run for each number of CPUs" },
	{ .name = "cost",
	  .kind = ARG_TEXT,
	  .offset = OPTION(cost),
	  .value = "NAME=X[,..]",
	  .help = "change costs; the result lists them" },
	{ .name = "verify",
	  .kind = ARG_FLAG,
	  .offset = OPTION(verify),
	  .help = "keep contents, and compare every byte" },
	NUMBER(seed, 0, UINT64_MAX, "same seed, same result to the bit [1]"),
	{ .name = "stat", .kind = ARG_FLAG, .offset = OPTION(stat), .help = "also print vmstat" },
	{ .name = "json",
	  .kind = ARG_TEXT,
	  .offset = OPTION(json),
	  .value = "FILE|-",
	  .help = "write one JSON object; '-': to standard output, alone" },
};

static const struct arg_table sim_table = {
	.command = READTWICE,
	.args = sim_args,
	.nr = sizeof(sim_args) / sizeof(sim_args[0]),
};

void readtwice_sim_help(void)
{
	fputs("\nWith --sim the same runs on virtual CPUs, in virtual time:\n\n", stdout);
	args_help(&sim_table);
	fputs("\n  umm readtwice --sim --cpus 104 --nodes 2\n", stdout);
}

bool readtwice_wants_sim(int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
		if (!strcmp(argv[i], "--sim"))
			return true;
	return false;
}

/* ---- what the options mean ---- */

static int bad(const char *option, const char *text, const char *why)
{
	complain(READTWICE, "--%s: '%s' %s", option, text, why);
	return EXIT_USAGE;
}

static int set_costs(struct sim_costs *costs, const char *text)
{
	char *copy = strdup(text), *rest = copy, *item;
	int status = copy ? 0 : EXIT_FAILED;

	while (!status && (item = strsep(&rest, ","))) {
		char *equals = strchr(item, '='), *end = NULL;
		double value = 0;

		if (equals) {
			*equals = '\0';
			value = strtod(equals + 1, &end);
		}
		if (!equals || end == equals + 1 || *end)
			status = bad("cost", text, "is not NAME=NUMBER[,NAME=NUMBER..]");
		else if (!sim_costs_set(costs, item, value))
			status = bad("cost", item, "is no cost, or cannot be so much");
	}
	free(copy);
	return status;
}

/* "cpus=A..B" or "cpus=A..B,STEP". */
static int parse_sweep(const char *text, unsigned *cpus, size_t *ret_nr)
{
	unsigned from, to, step;
	int end = 0;

	if (sscanf(text, "cpus=%u..%u%n", &from, &to, &end) < 2 || !end)
		return bad("sweep", text, "is not cpus=A..B[,STEP]");
	step = from < to ? (to - from + 15) / 16 : 1;
	if (text[end] && (sscanf(text + end, ",%u", &step) != 1 || !step))
		return bad("sweep", text, "is not cpus=A..B[,STEP]");
	if (!from || from > to || to > SIM_MAX_CPUS)
		return bad("sweep", text, "asks for a number of CPUs that cannot be");
	*ret_nr = 0;
	for (unsigned n = from; n <= to && *ret_nr < SWEEP_MAX - 1; n += step)
		cpus[(*ret_nr)++] = n;
	/* The end is always looked at. */
	if (cpus[*ret_nr - 1] != to)
		cpus[(*ret_nr)++] = to;
	return 0;
}

static int set_seconds(const char *text, double *ret_seconds)
{
	char *end;

	*ret_seconds = strtod(text, &end);
	if (end == text || *end || !(*ret_seconds > 0 && *ret_seconds <= 1000))
		return bad("seconds", text, "is no time up to 1000 s");
	return 0;
}

/* Options that were given come before the machine's, those before the defaults. */
static int make_plan(const struct sim_options *o, struct sim_plan *plan)
{
	const struct sim_machine *m = NULL;
	struct sim_readtwice *run = &plan->run;
	int status = 0;

	if (o->preset) {
		m = sim_machine_find(o->preset);
		if (!m)
			return bad("preset", o->preset, "is none of A1, A2, A3, D1, D2");
	}
	plan->machine = m;
	plan->lru_lock = o->lru_lock;
	plan->stat = o->stat;
	*run = (struct sim_readtwice){
		.cpus = (unsigned)(o->cpus ? o->cpus
				   : m     ? m->cpus
					   : 104),
		.nodes = (unsigned)(o->nodes ? o->nodes
				    : m      ? m->nodes
					     : 2),
		.smt = o->smt == 0,
		.memcgs = (unsigned)(o->memcgs ? o->memcgs
				     : m       ? m->memcgs
					       : 0),
		.readers = (unsigned)(o->readers ? o->readers
				      : m        ? m->readers
						 : 2),
		.memory = o->memory & ~(uint64_t)(UMM_PAGE_SIZE - 1),
		.memcg_max = o->memcg_max,
		.file_size = o->file_size,
		.readahead_pages = m ? MACHINE_READAHEAD : 0,
		.shared_files = o->files == FILES_AUTO ? !!m : o->files == FILES_SHARED,
		.seconds = o->whole ? 0
			   : m      ? MACHINE_SECONDS
				    : SECONDS,
		.filling = m ? m->filling : 0,
		.verify = o->verify,
		.seed = o->seed,
		.costs = plan->costs,
	};
	if (o->seconds && o->whole)
		return bad("seconds", o->seconds, "cannot be had with --whole");
	if (o->seconds)
		status = set_seconds(o->seconds, &run->seconds);
	if (!status && o->cost)
		status = set_costs(plan->costs, o->cost);
	if (!status && o->json)
		status = report_json_check(READTWICE, o->json);
	return status;
}

/* What depends on the number of CPUs. 0 or EXIT_USAGE. */
static int derive(const struct sim_plan *plan, unsigned cpus, struct sim_readtwice *run)
{
	uint64_t page_mask = ~(uint64_t)(UMM_PAGE_SIZE - 1);
	unsigned times = plan->machine ? MACHINE_FILES_PER_MEMORY : FILES_PER_MEMORY;

	*run = plan->run;
	run->cpus = cpus;
	if (!run->memcgs)
		run->memcgs = cpus;
	if (!run->memcg_max)
		run->memcg_max = run->memory / run->memcgs;
	run->memcg_max &= page_mask;
	if (!run->file_size)
		run->file_size = run->memory * times /
				 (run->memcgs * (run->shared_files ? 1 : run->readers));
	run->file_size = (run->file_size + UMM_PAGE_SIZE - 1) & page_mask;
	if (run->memcg_max)
		return 0;
	complain(READTWICE, "--memory: less than a page for each of %u memcgs", run->memcgs);
	return EXIT_USAGE;
}

/* ---- running ---- */

static int run_arm(struct sim_readtwice *run, enum umm_lru_lock lru_lock, struct sim_point *point)
{
	struct sim_result *result = &point->result[point->nr_arms];

	run->lru_lock = lru_lock;
	point->lru_lock[point->nr_arms] = lru_lock;
	sim_readtwice(run, result);
	if (result->error) {
		complain(READTWICE, "simulation: %s", strerror(-result->error));
		return EXIT_FAILED;
	}
	point->nr_arms++;
	if (result->check_violations || result->errors || result->mismatches) {
		complain(READTWICE,
			 "simulation: %llu broken invariants, %llu errors, %llu bytes wrong",
			 (unsigned long long)result->check_violations,
			 (unsigned long long)result->errors,
			 (unsigned long long)result->mismatches);
		return EXIT_FAILED;
	}
	return 0;
}

static int run_point(const struct sim_plan *plan, unsigned cpus, struct sim_point *point)
{
	struct sim_readtwice run;
	int status = derive(plan, cpus, &run);

	point->cpus = run.cpus;
	point->memcgs = run.memcgs;
	if (!status && plan->lru_lock != CHOOSE_MEMCG)
		status = run_arm(&run, UMM_LRU_LOCK_NODE, point);
	if (!status && plan->lru_lock != CHOOSE_NODE)
		status = run_arm(&run, UMM_LRU_LOCK_MEMCG, point);
	return status;
}

static int report(const struct sim_plan *plan, const struct sim_point *points, size_t nr,
		  const char *target)
{
	int status = EXIT_DONE;
	json_t *root;

	if (!target || strcmp(target, "-") != 0) {
		sim_print(plan, points, nr);
		status = report_flush(READTWICE);
	}
	if (!target)
		return status;
	root = sim_json(plan, points, nr);
	if (report_json(READTWICE, target, root))
		status = EXIT_FAILED;
	json_decref(root);
	return status;
}

static int run_points(const struct sim_options *options, const struct sim_plan *plan)
{
	unsigned cpus[SWEEP_MAX] = { plan->run.cpus };
	size_t nr = 1;
	int status = options->sweep ? parse_sweep(options->sweep, cpus, &nr) : 0, told;
	struct sim_point *points = calloc(nr, sizeof(*points));
	char what[64];

	for (size_t i = 0; i < nr && points && !status; i++) {
		snprintf(what, sizeof(what), "simulating %u CPUs", cpus[i]);
		progress_show(what, i, nr > 1 ? nr : 0);
		status = run_point(plan, cpus[i], &points[i]);
	}
	progress_clear();
	if (points && !status) {
		told = report(plan, points, nr, options->json);
		status = status ? status : told;
	}
	for (size_t i = 0; i < nr && points; i++)
		for (size_t a = 0; a < SIM_ARMS; a++)
			sim_result_fini(&points[i].result[a]);
	free(points);
	return status;
}

int readtwice_sim_main(int argc, char **argv)
{
	struct sim_options options = {
		.memory = UINT64_C(256) << 20,
		.seed = 1,
		.lru_lock = CHOOSE_BOTH,
	};
	struct sim_plan plan = { 0 };
	int nr_rest = 0;
	int status = args_parse(&sim_table, argc, argv, &options, &nr_rest);

	if (status)
		return status;
	if (nr_rest)
		return bad("sim", argv[0], "is not read: the files are simulated as well");
	plan.costs = sim_costs_create();
	if (!plan.costs) {
		complain(READTWICE, "out of memory");
		return EXIT_FAILED;
	}
	status = make_plan(&options, &plan);
	if (!status)
		status = run_points(&options, &plan);
	sim_costs_destroy(plan.costs);
	return status;
}
