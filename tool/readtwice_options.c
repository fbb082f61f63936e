/* SPDX-License-Identifier: MIT */
/* Owns what readtwice's options mean, their defaults, and which go together. */
#define _GNU_SOURCE
#include "readtwice.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "args.h"
#include "command.h"
#include "complain.h"
#include "report.h"

#define OPTION(member) offsetof(struct readtwice_options, member)
#define OWN_FILE_MIN (UINT64_C(64) << 10)
#define OWN_FILES_PER_MEMORY 4 /* enough that no second pass finds much of the first */
/* Leaves some of umm's threads for this program's own and the instance's. */
#define THREADS_MAX (UMM_MAX_THREADS - 64u)

static const char *const lock_choices[] = { "node", "memcg", "both", NULL };
static const char *const io_choices[] = { "direct", "buffered", NULL };

static const struct arg readtwice_args[] = {
	{ .name = "memcgs",
	  .kind = ARG_NUMBER,
	  .offset = OPTION(memcgs),
	  .value = "N",
	  .min = 1,
	  .max = THREADS_MAX,
	  .help = "memcgs, siblings under the root [104]" },
	{ .name = "readers",
	  .kind = ARG_NUMBER,
	  .offset = OPTION(readers),
	  .value = "N",
	  .min = 1,
	  .max = THREADS_MAX,
	  .help = "threads of each memcg [2]" },
	{ .name = "memory",
	  .kind = ARG_SIZE,
	  .offset = OPTION(memory),
	  .value = "SIZE",
	  .min = 16 * UMM_PAGE_SIZE,
	  .max = INT64_MAX,
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
	  .min = 1,
	  .max = INT64_MAX,
	  .help = "size of each file made here [in all 4 x memory]" },
	{ .name = "lru-lock",
	  .kind = ARG_CHOICE,
	  .offset = OPTION(lru_lock),
	  .choices = lock_choices,
	  .value = "node|memcg|both",
	  .help = "who shares an LRU lock; an arm each [both]" },
	{ .name = "nodes",
	  .kind = ARG_NUMBER,
	  .offset = OPTION(nodes),
	  .value = "N",
	  .min = 1,
	  .max = UMM_MAX_NODES,
	  .help = "parts with LRU lists of their own [1]" },
	{ .name = "io",
	  .kind = ARG_CHOICE,
	  .offset = OPTION(io),
	  .choices = io_choices,
	  .value = "direct|buffered",
	  .help = "past or through the kernel's page cache [direct]" },
	{ .name = "verify",
	  .kind = ARG_FLAG,
	  .offset = OPTION(verify),
	  .help = "compare every byte read; costs time" },
	{ .name = "rounds",
	  .kind = ARG_NUMBER,
	  .offset = OPTION(rounds),
	  .value = "N",
	  .min = 1,
	  .max = 1000,
	  .help = "runs of each arm, in turn [3]" },
	{ .name = "seed",
	  .kind = ARG_NUMBER,
	  .offset = OPTION(seed),
	  .value = "S",
	  .min = 0,
	  .max = UINT64_MAX,
	  .help = "of the contents of files made here [1]" },
	{ .name = "stat",
	  .kind = ARG_FLAG,
	  .offset = OPTION(stat),
	  .help = "also print the first memcg's statistics, and vmstat" },
	{ .name = "json",
	  .kind = ARG_TEXT,
	  .offset = OPTION(json),
	  .value = "FILE|-",
	  .help = "write one JSON object; '-': to standard output, alone" },
};

static const struct arg_table readtwice_table = {
	.command = READTWICE,
	.args = readtwice_args,
	.nr = sizeof(readtwice_args) / sizeof(readtwice_args[0]),
};

void readtwice_help(void)
{
	fputs("usage: umm readtwice [OPTIONS] [PATH...]\n"
	      "\n"
	      "The readers of each memcg read files of their own twice, in order, 4 KiB at a time:\n"
	      "once with one LRU lock for all memcgs of a node, once with a lock for each memcg.\n"
	      "PATHs are files, or directories searched for files, and are shared out among the\n"
	      "readers. Without any, a file for each reader is made in $TMPDIR or /var/tmp, and\n"
	      "removed at the end.\n"
	      "\n",
	      stdout);
	args_help(&readtwice_table);
	fputs("\n"
	      "Sizes are in bytes, or take K, M or G (powers of 1024). Exit status: 0 all done, 1 a\n"
	      "read or a check failed, 2 the arguments cannot be carried out as given.\n"
	      "\n"
	      "Example: 16 tenants of 4 MiB in a budget of 64 MiB, reading what is below /usr/lib,\n"
	      "every byte compared:\n"
	      "\n"
	      "  umm readtwice --memcgs 16 --memory 64M --memcg-max 4M --verify /usr/lib\n",
	      stdout);
#if UMM_HAVE_SIM
	readtwice_sim_help();
#endif
}

/* What the machine could still give, or 0 if it does not say. */
static uint64_t memory_available(void)
{
	FILE *file = fopen("/proc/meminfo", "re");
	unsigned long long kib = 0;
	char line[256];

	if (!file)
		return 0;
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1)
			break;
	}
	fclose(file);
	return (uint64_t)kib << 10;
}

static int check_memory(const struct readtwice_options *options)
{
	uint64_t available = memory_available();
	char want[SIZE_CHARS], have[SIZE_CHARS];

	if (available && options->memory > available) {
		complain(READTWICE, "--memory: %s is more than the %s this machine has left",
			 format_bytes(want, options->memory), format_bytes(have, available));
		return EXIT_USAGE;
	}
	if (!options->memcg_max && options->memory / options->memcgs < UMM_PAGE_SIZE) {
		complain(READTWICE, "--memory: %s is less than a page for each of %llu memcgs",
			 format_bytes(want, options->memory), (unsigned long long)options->memcgs);
		return EXIT_USAGE;
	}
	return 0;
}

static void derive_sizes(struct readtwice_options *options)
{
	uint64_t page_mask = ~(uint64_t)(UMM_PAGE_SIZE - 1);

	options->memory &= page_mask;
	if (!options->memcg_max)
		options->memcg_max = options->memory / options->memcgs;
	options->memcg_max &= page_mask;
	if (!options->file_size) {
		uint64_t each = options->memory / nr_readers(options) * OWN_FILES_PER_MEMORY;

		each = (each + UMM_PAGE_SIZE - 1) & page_mask;
		options->file_size = each > OWN_FILE_MIN ? each : OWN_FILE_MIN;
	}
}

int readtwice_options_parse(struct readtwice_options *options, int argc, char **argv,
			    int *ret_paths)
{
	int status;

	*options = (struct readtwice_options){
		.memcgs = 104,
		.readers = 2,
		.memory = UINT64_C(256) << 20,
		.nodes = 1,
		.rounds = 3,
		.seed = 1,
		.lru_lock = CHOOSE_BOTH,
		.io = CHOOSE_DIRECT,
	};
	status = args_parse(&readtwice_table, argc, argv, options, ret_paths);
	if (status)
		return status;
	if (options->memcgs * options->readers > THREADS_MAX) {
		complain(READTWICE,
			 "--readers: %llu memcgs with %llu readers each are more than %u "
			 "threads",
			 (unsigned long long)options->memcgs, (unsigned long long)options->readers,
			 THREADS_MAX);
		return EXIT_USAGE;
	}
	if (options->file_size && *ret_paths) {
		complain(READTWICE, "--file-size: is for files made here, but '%s' is to be read",
			 argv[0]);
		return EXIT_USAGE;
	}
	status = check_memory(options);
	if (!status && options->json)
		status = report_json_check(READTWICE, options->json);
	if (!status)
		derive_sizes(options);
	return status;
}
