/* SPDX-License-Identifier: MIT */
/*
 * One round of one arm: a fresh instance, a memcg and its threads for each tenant, the run, and the
 * proof that the instance is still whole. Trouble with files or checks is noted and the round goes on;
 * only what makes a round impossible ends it.
 */
#define _GNU_SOURCE
#include "readtwice.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "complain.h"
#include "interrupt.h"
#include "posix.h"
#include "progress.h"
#include "report.h"

#define STACK_BYTES ((size_t)512 << 10) /* the default, times thousands, is address space wasted */
#define LOOK_NS 100000000
#define LOG_LINES_MAX 16

struct run {
	const struct plan *plan;
	const char *what; /* "round 2 of 3, memcg" */
	umm_t *mm;
	umm_memcg_t **cgs;
	size_t nr_cgs;
	struct reader *readers;
	size_t nr_inited, nr_started;
	struct gate gate;
	_Atomic unsigned logged;
};

/* An instance complains in as many lines as it likes; the first ones tell the story. */
static void run_log(void *ctx, enum umm_log_level level, const char *message)
{
	struct run *run = ctx;

	if (level == UMM_LOG_ERROR && atomic_fetch_add(&run->logged, 1) < LOG_LINES_MAX)
		complain(READTWICE, "%s: %s", run->what, message);
}

static int run_fail(const struct run *run, const char *call, int err)
{
	complain(READTWICE, "%s: %s: %s", run->what, call, strerror(-err));
	return EXIT_FAILED;
}

static int run_create(struct run *run, enum umm_lru_lock lru_lock)
{
	const struct readtwice_options *options = run->plan->options;
	struct umm_options umm_options;
	int err;

	umm_options_init(&umm_options);
	umm_options.memory_bytes = options->memory;
	umm_options.nr_nodes = (uint32_t)options->nodes;
	umm_options.lru_lock = lru_lock;
	umm_options.log = run_log;
	umm_options.log_ctx = run;
	err = umm_create(&umm_options, &run->mm);
	if (err == -EINVAL) {
		complain(READTWICE, "--memory: %llu bytes in %llu nodes are refused",
			 (unsigned long long)options->memory, (unsigned long long)options->nodes);
		return EXIT_USAGE;
	}
	return err ? run_fail(run, "umm_create", err) : 0;
}

static int run_create_memcgs(struct run *run)
{
	const struct readtwice_options *options = run->plan->options;
	char name[32];
	int err;

	run->cgs = calloc(options->memcgs, sizeof(*run->cgs));
	if (!run->cgs)
		return run_fail(run, "memcgs", -ENOMEM);
	for (; run->nr_cgs < options->memcgs; run->nr_cgs++) {
		umm_memcg_t **cg = &run->cgs[run->nr_cgs];

		snprintf(name, sizeof(name), "memcg%zu", run->nr_cgs);
		err = umm_memcg_create(run->mm, NULL, name, cg);
		if (err)
			return run_fail(run, "umm_memcg_create", err);
		err = umm_memcg_set(*cg, UMM_MEMORY_MAX, options->memcg_max);
		if (err) {
			run->nr_cgs++; /* exists, and is to be destroyed */
			return run_fail(run, "umm_memcg_set", err);
		}
	}
	return 0;
}

static int run_start_readers(struct run *run)
{
	const struct plan *plan = run->plan;
	size_t nr = nr_readers(plan->options);
	pthread_attr_t attr;
	int err = 0;

	run->readers = aligned_alloc(_Alignof(struct reader), nr * sizeof(*run->readers));
	if (!run->readers)
		return run_fail(run, "readers", -ENOMEM);
	for (; run->nr_inited < nr; run->nr_inited++) {
		umm_memcg_t *cg = run->cgs[run->nr_inited / plan->options->readers];

		err = reader_init(&run->readers[run->nr_inited], plan,
				  &plan->shares[run->nr_inited], &run->gate, cg);
		if (err)
			return run_fail(run, "readers", err);
	}
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	for (; !err && run->nr_started < nr; run->nr_started += !err) {
		struct reader *reader = &run->readers[run->nr_started];

		err = pthread_create(&reader->thread, &attr, reader_main, reader);
	}
	pthread_attr_destroy(&attr);
	return err ? run_fail(run, "starting threads", -err) : 0;
}

static uint64_t pages_expected(const struct plan *plan)
{
	uint64_t pages = 0;

	for (size_t i = 0; i < nr_readers(plan->options); i++) {
		const struct share *share = &plan->shares[i];

		for (size_t j = 0; j < share->nr; j++)
			pages += (uint64_t)plan->set->files[share->files[j]].st.st_size /
					 READ_BYTES +
				 1;
	}
	return pages * PASSES;
}

static uint64_t pages_read(const struct run *run)
{
	uint64_t pages = 0;

	for (size_t i = 0; i < run->nr_started; i++)
		pages += atomic_load_explicit(&run->readers[i].pages, memory_order_relaxed);
	return pages;
}

/* Wait until *count is `nr`, showing how far the reading is. Gate locked. */
static void gate_await(struct run *run, const size_t *count, size_t nr, uint64_t expected)
{
	struct gate *gate = &run->gate;

	while (*count < nr) {
		struct timespec until;

		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_nsec += LOOK_NS;
		if (until.tv_nsec >= 1000000000) {
			until.tv_sec++;
			until.tv_nsec -= 1000000000;
		}
		pthread_cond_timedwait(&gate->moved, &gate->lock, &until);
		progress_show(run->what, pages_read(run), expected);
	}
}

/* Let the readers go, and wait for the last of them; also if not all could be started. */
static void run_read(struct run *run, struct round *round)
{
	struct gate *gate = &run->gate;
	uint64_t expected = pages_expected(run->plan);
	uint64_t end_ns;

	pthread_mutex_lock(&gate->lock);
	gate_await(run, &gate->ready, run->nr_started, expected);
	gate->open = true;
	gate->cancelled = run->nr_started < nr_readers(run->plan->options);
	gate->opened_ns = end_ns = now_ns();
	pthread_cond_broadcast(&gate->opened);
	gate_await(run, &gate->done, run->nr_started, expected);
	pthread_mutex_unlock(&gate->lock);

	for (size_t i = 0; i < run->nr_started; i++) {
		struct reader *reader = &run->readers[i];

		pthread_join(reader->thread, NULL);
		end_ns = reader->end_ns > end_ns ? reader->end_ns : end_ns;
		round->pages += atomic_load(&reader->pages);
		round->bytes += reader->bytes;
		round->verified_bytes += reader->verified_bytes;
		round->errors += reader->errors;
		round->io_modes |= reader->io_modes;
	}
	round->seconds = (double)(end_ns - gate->opened_ns) / 1e9;
}

/* ---- snapshots --------------------------------------------------------------------------- */

/* Counters as an object; NULL if that fails. `what` says whose: vmstat, or a memcg's two tables. */
enum counters { COUNTERS_VMSTAT, COUNTERS_STAT, COUNTERS_EVENTS };

static ssize_t fetch_counters(const struct run *run, enum counters what, struct umm_stat *out,
			      size_t cap)
{
	switch (what) {
	case COUNTERS_VMSTAT: return umm_vmstat(run->mm, out, cap);
	case COUNTERS_STAT: return umm_memcg_stat(run->cgs[0], out, cap);
	case COUNTERS_EVENTS: return umm_memcg_events(run->cgs[0], out, cap);
	}
	return -EINVAL;
}

static json_t *snapshot_counters(const struct run *run, enum counters what)
{
	ssize_t nr = fetch_counters(run, what, NULL, 0);
	struct umm_stat *stats = nr > 0 ? calloc((size_t)nr, sizeof(*stats)) : NULL;
	json_t *object = NULL;

	if (stats && fetch_counters(run, what, stats, (size_t)nr) >= nr) {
		object = json_object();
		for (ssize_t i = 0; i < nr; i++)
			json_object_set_new(object, stats[i].name,
					    json_integer((json_int_t)stats[i].value));
	}
	free(stats);
	return object;
}

static json_t *snapshot_locks(const struct run *run)
{
	ssize_t nr = umm_lock_stats(run->mm, NULL, 0);
	struct umm_lock_stat *locks = nr > 0 ? calloc((size_t)nr, sizeof(*locks)) : NULL;
	json_t *object = NULL;

	if (locks && umm_lock_stats(run->mm, locks, (size_t)nr) >= nr) {
		object = json_object();
		for (ssize_t i = 0; i < nr; i++)
			json_object_set_new(object, locks[i].name,
					    json_pack("{s:I,s:I,s:I,s:I,s:I}", "acquisitions",
						      (json_int_t)locks[i].acquisitions,
						      "contended_same_memcg",
						      (json_int_t)locks[i].contended_same_memcg,
						      "contended_other_memcg",
						      (json_int_t)locks[i].contended_other_memcg,
						      "wait_ns", (json_int_t)locks[i].wait_ns,
						      "hold_ns", (json_int_t)locks[i].hold_ns));
	}
	free(locks);
	return object;
}

/* The most ever charged, held against what was allowed. */
static uint64_t check_peak(const struct run *run, umm_memcg_t *cg, uint64_t allowed,
			   const char *whose)
{
	char is[COUNT_CHARS], may[COUNT_CHARS];
	uint64_t peak = 0;
	int err = umm_memcg_get(cg, UMM_MEMORY_PEAK, &peak);

	if (err)
		trouble_add(run->plan->trouble, TROUBLE_CHECK, "%s: peak usage of %s: %s",
			    run->what, whose, strerror(-err));
	else if (peak > allowed)
		trouble_add(run->plan->trouble, TROUBLE_CHECK,
			    "%s: %s used %s bytes, but %s are allowed", run->what, whose,
			    format_count(is, peak), format_count(may, allowed));
	return peak;
}

static void run_snapshot(struct run *run, struct round *round)
{
	const struct readtwice_options *options = run->plan->options;

	round->vmstat = snapshot_counters(run, COUNTERS_VMSTAT);
	round->locks = snapshot_locks(run);
	if (options->stat) {
		round->memory_stat = snapshot_counters(run, COUNTERS_STAT);
		round->memory_events = snapshot_counters(run, COUNTERS_EVENTS);
	}
	if (!round->vmstat || !round->locks ||
	    (options->stat && (!round->memory_stat || !round->memory_events)))
		trouble_add(run->plan->trouble, TROUBLE_CHECK, "%s: counters cannot be read",
			    run->what);
	round->misses = (uint64_t)json_integer_value(json_object_get(round->vmstat, "pgmajfault"));
	if (round->misses > round->pages)
		round->misses = round->pages;

	round->peak_bytes =
		check_peak(run, umm_memcg_root(run->mm), options->memory, "the instance");
	for (size_t i = 0; i < run->nr_cgs; i++) {
		uint64_t peak = check_peak(run, run->cgs[i], options->memcg_max,
					   umm_memcg_name(run->cgs[i]));

		if (peak > round->memcg_peak_bytes)
			round->memcg_peak_bytes = peak;
	}
}

static void run_drain(struct run *run)
{
	int err = umm_drain(run->mm);

	if (err)
		trouble_add(run->plan->trouble, TROUBLE_CHECK, "%s: umm_drain: %s", run->what,
			    strerror(-err));
}

static void run_check(struct run *run, struct round *round, const char *when)
{
	int found = umm_check(run->mm);

	if (found < 0)
		trouble_add(run->plan->trouble, TROUBLE_CHECK, "%s: umm_check %s: %s", run->what,
			    when, strerror(-found));
	else if (found)
		trouble_add(run->plan->trouble, TROUBLE_CHECK,
			    "%s: umm_check %s: %d broken invariants", run->what, when, found);
	round->check_violations += found > 0 ? (uint64_t)found : 0;
}

/* ---- the whole --------------------------------------------------------------------------- */

/* In the order the API asks for; what is left standing is trouble of its own. */
static void run_teardown(struct run *run, struct round *round)
{
	int err = 0;

	for (size_t i = 0; i < run->nr_inited; i++)
		reader_fini(&run->readers[i]);
	free(run->readers);
	for (size_t i = 0; i < run->nr_cgs; i++) {
		int failed = umm_memcg_destroy(run->cgs[i]);

		err = err ? err : failed;
	}
	free(run->cgs);
	if (err)
		trouble_add(run->plan->trouble, TROUBLE_CHECK, "%s: umm_memcg_destroy: %s",
			    run->what, strerror(-err));
	if (run->mm) {
		run_drain(run);
		run_check(run, round, "after all was closed");
	}
	err = umm_destroy(run->mm);
	if (err)
		trouble_add(run->plan->trouble, TROUBLE_CHECK, "%s: umm_destroy: %s", run->what,
			    strerror(-err));
}

static void gate_init(struct gate *gate)
{
	pthread_condattr_t attr;

	pthread_mutex_init(&gate->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&gate->opened, &attr);
	pthread_cond_init(&gate->moved, &attr);
	pthread_condattr_destroy(&attr);
}

static void gate_fini(struct gate *gate)
{
	pthread_cond_destroy(&gate->opened);
	pthread_cond_destroy(&gate->moved);
	pthread_mutex_destroy(&gate->lock);
}

int readtwice_run(const struct plan *plan, enum umm_lru_lock lru_lock, const char *what,
		  struct round *ret_round)
{
	struct run run = { .plan = plan, .what = what };
	struct round round = { 0 };
	int status;

	gate_init(&run.gate);
	status = run_create(&run, lru_lock);
	if (!status)
		status = run_create_memcgs(&run);
	if (!status)
		status = run_start_readers(&run);
	if (run.nr_started)
		run_read(&run, &round);
	if (!status && !interrupted()) {
		run_drain(&run);
		run_snapshot(&run, &round); /* before the check, which takes every LRU lock */
		run_check(&run, &round, "after the reading");
	}
	run_teardown(&run, &round);
	gate_fini(&run.gate);
	*ret_round = round;
	return status;
}

void round_fini(struct round *round)
{
	json_decref(round->vmstat);
	json_decref(round->locks);
	json_decref(round->memory_stat);
	json_decref(round->memory_events);
	*round = (struct round){ 0 };
}
