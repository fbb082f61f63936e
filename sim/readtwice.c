/* SPDX-License-Identifier: MIT */
/*
 * `umm readtwice` on virtual CPUs: the same workload through the same public API, on the engine that was
 * compiled for them. What is not the engine, that is, the system calls and the copying of a reader, is a
 * cost of the table.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os_sim.h"
#include "sim.h"

#define PASSES 2
#define PATH_BYTES 48
/* How often the length of the fill is looked at, and how long a steady run settles after it. */
#define LOOK_NS 250000u
#define SETTLE_NS 3000000u
/* No run takes longer, even one whose memory never becomes full. */
#define FILL_MAX_NS 60000000000u

/* Counters at one moment. */
struct counters {
	struct umm_stat *vmstat;
	size_t nr_vmstat;
	struct umm_lock_stat *locks;
	size_t nr_locks;
	uint64_t pages, ns;
	uint64_t cpu_ps, idle_ps, spin_ps; /* of all CPUs */
};

struct run {
	const struct sim_readtwice *opt;
	struct sim_result *ret;
	umm_t *mm;
	umm_memcg_t **cgs;
	struct reader *readers;
	size_t nr_readers, nr_started;
	_Atomic uint32_t go;
	bool stop;
	struct counters before, after;
};

struct reader {
	struct run *run;
	struct os_thread thread;
	umm_obj_t *obj;
	uint64_t seed; /* of its file */
	uint64_t pages, bytes, errors, mismatches, verified;
	unsigned char *page;
};

/* ---- a reader ---- */

static void verify(struct reader *r, size_t got, uint64_t offset)
{
	for (size_t i = 0; i < got; i++)
		r->mismatches += r->page[i] != os_sim_file_byte(r->seed, offset + i);
	r->verified += got;
}

/* One pass through the file. False: told to stop, or it makes no sense to go on. */
static bool read_pass(struct reader *r)
{
	const struct run *run = r->run;

	for (uint64_t at = 0; at < run->opt->file_size; at += UMM_PAGE_SIZE) {
		ssize_t got;

		if (run->stop)
			return false;
		sim_work(sim_ps.read);
		got = umm_pread(r->obj, r->page, UMM_PAGE_SIZE, at);
		if (got <= 0) {
			r->errors++;
			return false;
		}
		if (run->opt->verify)
			verify(r, (size_t)got, at);
		r->pages++;
		r->bytes += (uint64_t)got;
	}
	return true;
}

static void reader_main(void *arg)
{
	struct reader *r = arg;
	struct run *run = r->run;

	while (!atomic_load_explicit(&run->go, memory_order_acquire))
		(void)os_wait(&run->go, 0, OS_FOREVER);
	if (run->opt->seconds > 0) {
		while (read_pass(r))
			;
		return;
	}
	for (int pass = 0; pass < PASSES; pass++)
		if (!read_pass(r))
			return;
}

/* ---- counters ---- */

static void cpus_take(struct counters *c)
{
	c->cpu_ps = c->idle_ps = c->spin_ps = 0;
	for (unsigned i = 0; i < sim_nr_cpus(); i++) {
		const struct sim_vcpu *v = sim_vcpu(i);
		uint64_t now = max_u64(v->clk_ps, sim_me->clk_ps);

		c->cpu_ps += now;
		c->idle_ps += v->idle_ps + (v->cur ? 0 : now - v->idle_since_ps);
		c->spin_ps += v->spin_ps;
	}
}

static int counters_take(const struct run *run, struct counters *c)
{
	ssize_t nr = umm_vmstat(run->mm, NULL, 0);

	c->ns = os_now_ns();
	cpus_take(c);
	c->pages = 0;
	for (size_t i = 0; i < run->nr_started; i++)
		c->pages += run->readers[i].pages;
	c->vmstat = nr > 0 ? calloc((size_t)nr, sizeof(*c->vmstat)) : NULL;
	c->nr_vmstat = (size_t)nr;
	if (!c->vmstat || umm_vmstat(run->mm, c->vmstat, (size_t)nr) != nr)
		return -ENOMEM;
	nr = umm_lock_stats(run->mm, NULL, 0);
	c->locks = nr > 0 ? calloc((size_t)nr, sizeof(*c->locks)) : NULL;
	c->nr_locks = (size_t)nr;
	if (!c->locks || umm_lock_stats(run->mm, c->locks, (size_t)nr) != nr)
		return -ENOMEM;
	return 0;
}

static void counters_fini(struct counters *c)
{
	free(c->vmstat);
	free(c->locks);
	*c = (struct counters){ 0 };
}

static uint64_t counter(const struct umm_stat *stats, size_t nr, const char *name)
{
	for (size_t i = 0; i < nr; i++)
		if (!strcmp(stats[i].name, name))
			return stats[i].value;
	return 0;
}

/* Sizes are as they are at the end, events what happened meanwhile. */
static void counters_subtract(struct counters *after, const struct counters *before)
{
	for (size_t i = 0; i < after->nr_vmstat && before->vmstat; i++)
		if (strncmp(after->vmstat[i].name, "nr_", 3) != 0)
			after->vmstat[i].value -= before->vmstat[i].value;
	for (size_t i = 0; i < after->nr_locks && before->locks; i++) {
		struct umm_lock_stat *a = &after->locks[i];
		const struct umm_lock_stat *b = &before->locks[i];

		a->acquisitions -= b->acquisitions;
		a->contended_same_memcg -= b->contended_same_memcg;
		a->contended_other_memcg -= b->contended_other_memcg;
		a->wait_ns -= b->wait_ns;
		a->hold_ns -= b->hold_ns;
	}
}

/* ---- the run ---- */

/* Files are opened before the clock starts; a shared one by each of its readers. */
static int reader_init(struct run *run, size_t nr)
{
	const struct sim_readtwice *opt = run->opt;
	struct reader *r = &run->readers[nr];
	size_t memcg = nr / opt->readers, file = opt->shared_files ? memcg : nr;
	char path[PATH_BYTES];
	int err;

	r->run = run;
	r->seed = opt->seed + (uint64_t)file * 0x100000000u;
	(void)snprintf(path, sizeof(path), "/sim/%zu", file);
	err = os_sim_file_create(path, opt->file_size, r->seed);
	if (err && err != -EEXIST)
		return err;
	r->page = aligned_alloc(UMM_PAGE_SIZE, UMM_PAGE_SIZE);
	if (!r->page)
		return -ENOMEM;
	return umm_file_open(run->cgs[memcg], path, 0, &r->obj);
}

static int run_create(struct run *run)
{
	const struct sim_readtwice *opt = run->opt;
	struct umm_options options;
	char name[32];
	int err;

	umm_options_init(&options);
	options.memory_bytes = opt->memory;
	options.nr_nodes = opt->nodes;
	options.lru_lock = opt->lru_lock;
	if (opt->readahead_pages)
		options.readahead_pages = opt->readahead_pages;
	err = umm_create(&options, &run->mm);
	for (size_t i = 0; i < opt->memcgs && !err; i++) {
		(void)snprintf(name, sizeof(name), "memcg%zu", i);
		err = umm_memcg_create(run->mm, NULL, name, &run->cgs[i]);
		if (!err && opt->memcg_max < opt->memory)
			err = umm_memcg_set(run->cgs[i], UMM_MEMORY_MAX, opt->memcg_max);
	}
	for (size_t i = 0; i < run->nr_readers && !err; i++)
		err = reader_init(run, i);
	return err;
}

/* A place for each reader: as many on each CPU, and which ones is chance. */
static int run_start(struct run *run)
{
	uint32_t *place = calloc(run->nr_readers, sizeof(*place));
	int err = place ? 0 : -ENOMEM;

	for (size_t i = 0; i < run->nr_readers && place; i++)
		place[i] = (uint32_t)(i % run->opt->cpus);
	for (size_t i = run->nr_readers; i > 1 && place; i--) {
		size_t other = sim_random() % i;
		uint32_t tmp = place[i - 1];

		place[i - 1] = place[other];
		place[other] = tmp;
	}
	for (size_t i = 0; i < run->nr_readers && !err; i++) {
		struct reader *r = &run->readers[i];

		err = os_sim_thread_create_on(place[i], &r->thread, reader_main, r, "reader");
		run->nr_started += !err;
	}
	free(place);
	return err;
}

static void run_go(struct run *run)
{
	atomic_store_explicit(&run->go, 1, memory_order_release);
	os_wake(&run->go, INT32_MAX);
}

static void run_join(struct run *run)
{
	for (size_t i = 0; i < run->nr_started; i++)
		os_thread_join(&run->readers[i].thread);
}

/* Wait until reclaim has begun, which is when memory is full. Returns how long that took. */
static uint64_t wait_until_full(const struct run *run)
{
	uint64_t start = os_now_ns(), now = start;
	struct counters c = { 0 };
	uint64_t reclaimed = 0;

	while (!reclaimed && now - start < FILL_MAX_NS) {
		os_sleep_ns(LOOK_NS);
		now = os_now_ns();
		if (!counters_take(run, &c))
			reclaimed = counter(c.vmstat, c.nr_vmstat, "pgsteal_kswapd") +
				    counter(c.vmstat, c.nr_vmstat, "pgsteal_direct");
		counters_fini(&c);
	}
	return now - start;
}

/* Read on and on, and look at a part of it. */
static int run_steady(struct run *run)
{
	const struct sim_readtwice *opt = run->opt;
	uint64_t ns = (uint64_t)(opt->seconds * 1e9), full;
	int err = counters_take(run, &run->before);

	run_go(run);
	full = wait_until_full(run);
	if (opt->filling > 0) {
		double rest = (double)full / opt->filling - (double)full;

		os_sleep_ns((uint64_t)rest);
	} else {
		os_sleep_ns(SETTLE_NS);
		counters_fini(&run->before);
		err = err ? err : counters_take(run, &run->before);
		os_sleep_ns(ns);
	}
	err = err ? err : counters_take(run, &run->after);
	run->stop = true;
	run_join(run);
	return err;
}

static int run_whole(struct run *run)
{
	int err = counters_take(run, &run->before);

	run_go(run);
	run_join(run);
	return err ? err : counters_take(run, &run->after);
}

static void run_figures(struct run *run)
{
	struct sim_result *ret = run->ret;
	uint64_t peak;

	counters_subtract(&run->after, &run->before);
	ret->pages = run->after.pages - run->before.pages;
	ret->bytes = ret->pages * UMM_PAGE_SIZE;
	ret->virtual_seconds = (double)(run->after.ns - run->before.ns) / 1e9;
	ret->cpu_seconds = (double)(run->after.cpu_ps - run->before.cpu_ps) / 1e12;
	ret->idle_seconds = (double)(run->after.idle_ps - run->before.idle_ps) / 1e12;
	ret->spin_seconds = (double)(run->after.spin_ps - run->before.spin_ps) / 1e12;
	ret->vmstat = run->after.vmstat;
	ret->nr_vmstat = run->after.nr_vmstat;
	ret->locks = run->after.locks;
	ret->nr_locks = run->after.nr_locks;
	ret->misses = counter(ret->vmstat, ret->nr_vmstat, "pgmajfault");
	for (size_t i = 0; i < run->nr_started; i++) {
		ret->errors += run->readers[i].errors;
		ret->mismatches += run->readers[i].mismatches;
		ret->verified_bytes += run->readers[i].verified;
	}
	if (!umm_memcg_get(umm_memcg_root(run->mm), UMM_MEMORY_PEAK, &peak))
		ret->peak_bytes = peak;
	for (size_t i = 0; i < run->opt->memcgs; i++)
		if (!umm_memcg_get(run->cgs[i], UMM_MEMORY_PEAK, &peak) &&
		    peak > ret->memcg_peak_bytes)
			ret->memcg_peak_bytes = peak;
}

static void run_check(struct run *run)
{
	int found = umm_check(run->mm);

	run->ret->check_violations += found > 0 ? (uint64_t)found : found < 0;
}

static int run_close(struct run *run)
{
	int err = 0, failed;

	for (size_t i = 0; i < run->nr_readers; i++) {
		failed = umm_close(run->readers[i].obj);
		err = err ? err : failed;
		free(run->readers[i].page);
	}
	for (size_t i = 0; i < run->opt->memcgs; i++) {
		failed = run->cgs[i] ? umm_memcg_destroy(run->cgs[i]) : 0;
		err = err ? err : failed;
	}
	if (run->mm)
		run_check(run);
	failed = umm_destroy(run->mm);
	return err ? err : failed;
}

static void world_main(void *arg)
{
	struct run *run = arg;
	int err = run_create(run), failed;

	if (!err)
		err = run_start(run);
	if (err) {
		run->stop = true;
		run_go(run);
		run_join(run);
	} else {
		err = run->opt->seconds > 0 ? run_steady(run) : run_whole(run);
	}
	if (!err) {
		(void)umm_drain(run->mm);
		run_figures(run);
		run_check(run);
	}
	failed = run_close(run);
	run->ret->error = err ? err : failed;
	run->ret->points = sim_counts.points;
	run->ret->plain_accesses = sim_counts.plain;
	run->ret->switches = sim_counts.switches;
	run->ret->hash = sim_counts.hash;
}

void sim_readtwice(const struct sim_readtwice *opt, struct sim_result *ret)
{
	const struct sim_shape shape = {
		.nr_cpus = opt->cpus,
		.nr_nodes = opt->nodes,
		.smt = opt->smt,
		.seed = opt->seed,
	};
	struct run run = { .opt = opt, .ret = ret, .nr_readers = opt->memcgs * opt->readers };
	int err;

	*ret = (struct sim_result){ 0 };
	run.readers = calloc(run.nr_readers, sizeof(*run.readers));
	run.cgs = calloc(opt->memcgs, sizeof(*run.cgs));
	os_sim_keep_contents(opt->verify);
	err = run.readers && run.cgs ? os_sim_run(&shape, opt->costs, world_main, &run) : -ENOMEM;
	if (err)
		ret->error = err;
	counters_fini(&run.before);
	if (ret->vmstat != run.after.vmstat)
		counters_fini(&run.after);
	free(run.readers);
	free(run.cgs);
}

void sim_result_fini(struct sim_result *result)
{
	free(result->vmstat);
	free(result->locks);
	*result = (struct sim_result){ 0 };
}

struct sim_costs *sim_costs_create(void)
{
	struct sim_costs *costs = malloc(sizeof(*costs));

	if (costs)
		sim_costs_default(costs);
	return costs;
}

void sim_costs_destroy(struct sim_costs *costs)
{
	free(costs);
}

const char *sim_switch_name(void)
{
	return fiber_switch_name();
}

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

const char *sim_compiler(void)
{
#ifdef __clang__
	return "clang " TEXT(__clang_major__) "." TEXT(__clang_minor__);
#else
	return "gcc " TEXT(__GNUC__) "." TEXT(__GNUC_MINOR__);
#endif
}
