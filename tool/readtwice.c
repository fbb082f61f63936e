/* SPDX-License-Identifier: MIT */
/* `umm readtwice`: from the options to the result. */
#define _GNU_SOURCE
#include "readtwice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "command.h"
#include "complain.h"
#include "interrupt.h"
#include "progress.h"
#include "report.h"

#define NR_ARMS_MAX 2
#define OWN_DESCRIPTORS 64 /* standard streams, rings, the library's own */

static int out_of_memory(void)
{
	complain(READTWICE, "out of memory");
	return EXIT_FAILED;
}

/*
 * How many handles each reader may keep open at once so that all of them fit into what the system lets
 * a process open; SIZE_MAX if they fit anyway. A handle may cost two descriptors.
 */
static size_t handle_window(const struct share *shares, size_t nr_readers)
{
	struct rlimit limit = { .rlim_cur = 1024, .rlim_max = 1024 };
	uint64_t wanted = 0;
	uint64_t room;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
		struct rlimit raised = { .rlim_cur = limit.rlim_max, .rlim_max = limit.rlim_max };

		if (setrlimit(RLIMIT_NOFILE, &raised) == 0)
			limit = raised;
	}
	for (size_t i = 0; i < nr_readers; i++)
		wanted += 2 * shares[i].nr + 1;
	room = limit.rlim_cur > OWN_DESCRIPTORS ? limit.rlim_cur - OWN_DESCRIPTORS : 0;
	if (wanted <= room)
		return SIZE_MAX;
	room = room / nr_readers / 2;
	return room > 0 ? (size_t)room : 1;
}

static size_t choose_arms(const struct readtwice_options *options, struct arm *arms)
{
	size_t nr = 0;

	if (options->lru_lock != CHOOSE_MEMCG)
		arms[nr++].lru_lock = UMM_LRU_LOCK_NODE;
	if (options->lru_lock != CHOOSE_NODE)
		arms[nr++].lru_lock = UMM_LRU_LOCK_MEMCG;
	return nr;
}

/* Round by round, taking turns at who goes first: what drifts meanwhile then hits both arms alike. */
static int run_rounds(const struct plan *plan, struct arm *arms, size_t nr_arms)
{
	char what[64];
	int status = 0;

	for (uint64_t i = 0; i < plan->options->rounds; i++) {
		for (size_t turn = 0; turn < nr_arms; turn++) {
			struct arm *arm = &arms[(i + turn) % nr_arms];

			if (status || interrupted())
				return status;
			snprintf(what, sizeof(what), "round %llu of %llu, lru_lock %s",
				 (unsigned long long)i + 1,
				 (unsigned long long)plan->options->rounds,
				 lru_lock_name(arm->lru_lock));
			status = readtwice_run(plan, arm->lru_lock, what, &arm->rounds[i]);
		}
	}
	return status;
}

static int report(const struct result *result)
{
	const char *target = result->options->json;
	int status = EXIT_DONE;
	json_t *root;

	if (!target || strcmp(target, "-") != 0) {
		readtwice_print(result);
		status = report_flush(READTWICE);
	}
	if (!target)
		return status;
	root = readtwice_json(result);
	if (report_json(READTWICE, target, root))
		status = EXIT_FAILED;
	json_decref(root);
	return status;
}

static int run_arms(const struct readtwice_options *options, const struct plan *plan)
{
	struct arm arms[NR_ARMS_MAX] = { 0 };
	struct result result = {
		.options = options,
		.set = plan->set,
		.trouble = plan->trouble,
		.arms = arms,
		.nr_arms = choose_arms(options, arms),
		.window = plan->window == SIZE_MAX ? 0 : plan->window,
	};
	int status = 0;

	for (size_t i = 0; i < result.nr_arms; i++) {
		arms[i].rounds = calloc(options->rounds, sizeof(*arms[i].rounds));
		if (!arms[i].rounds)
			status = out_of_memory();
	}
	if (!status)
		status = run_rounds(plan, arms, result.nr_arms);
	/* The files have served, and what follows may take its time. */
	own_remove();
	progress_clear();
	if (interrupt_settle()) {
		int troubled;

		status = status ? status : report(&result);
		troubled = trouble_tell(plan->trouble);
		status = status ? status : troubled;
	}
	for (size_t i = 0; i < result.nr_arms; i++) {
		for (uint64_t j = 0; arms[i].rounds && j < options->rounds; j++)
			round_fini(&arms[i].rounds[j]);
		free(arms[i].rounds);
	}
	return status;
}

static int run_files(const struct readtwice_options *options, struct file_set *set)
{
	size_t nr = nr_readers(options);
	struct trouble trouble;
	struct plan plan = {
		.options = options,
		.set = set,
		.shares = shares_create(set, nr),
		.trouble = &trouble,
	};
	int status;

	if (!plan.shares)
		return out_of_memory();
	plan.window = handle_window(plan.shares, nr);
	trouble_init(&trouble);
	status = run_arms(options, &plan);
	trouble_fini(&trouble);
	shares_destroy(plan.shares, nr);
	return status;
}

int readtwice_main(int argc, char **argv)
{
	struct readtwice_options options;
	struct file_set set = { 0 };
	int nr_paths = 0;
	int signal;
	int status;

#if UMM_HAVE_SIM
	if (readtwice_wants_sim(argc, argv))
		return readtwice_sim_main(argc, argv);
#endif
	status = readtwice_options_parse(&options, argc, argv, &nr_paths);

	if (status)
		return status;
	status = interrupt_start(own_remove);
	if (status) {
		complain(READTWICE, "signals: %s", strerror(-status));
		return EXIT_FAILED;
	}
	argv[nr_paths] = NULL; /* the end of the list for the walk; argv has room for it */
	status = nr_paths ? files_find(&set, argv, nr_paths) : own_create(&set, &options);
	if (!status && !interrupted())
		status = run_files(&options, &set);
	own_remove();
	files_fini(&set);
	signal = atomic_load(&interrupt_signal);
	if (signal <= 0)
		return status;
	complain(READTWICE, "interrupted by signal %d, nothing is reported", signal);
	return 128 + signal;
}
