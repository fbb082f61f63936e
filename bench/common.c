/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "common.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <umm.h>
#include <unistd.h>

#define EXIT_USAGE 2
#define MAX_ROUNDS 200u

/* ---- messages and arguments -------------------------------------------------------------- */

void bench_die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fprintf(stderr, "%s: ", program_invocation_short_name);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	exit(1);
}

void bench_fact(struct bench *b, const char *name, const char *format, ...)
{
	char text[256];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (json_object_set_new(b->facts, name, json_string(text)))
		bench_die("out of memory");
}

static void help(const struct bench *b, const struct bench_option *options, size_t nr_options)
{
	printf("usage: %s [OPTION...]\n%s\n\n", b->name, b->summary);
	for (size_t i = 0; i < nr_options; i++)
		printf("  %-16s %s (%llu)\n", options[i].name, options[i].help,
		       (unsigned long long)*options[i].value);
	printf("  %-16s how often each arm has its turns (%llu)\n", "--rounds N",
	       (unsigned long long)b->rounds);
	printf("  %-16s of everything random (%llu)\n", "--seed N", (unsigned long long)b->seed);
	printf("  %-16s a smoke run of a few seconds\n", "--quick");
	printf("  %-16s one JSON object to a file, or with - to standard output and no table\n",
	       "--json FILE");
}

__attribute__((noreturn)) static void usage(const char *argument, const char *why)
{
	fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, argument, why);
	exit(EXIT_USAGE);
}

static uint64_t parse_number(const char *argument, const char *text, uint64_t min, uint64_t max)
{
	static const char suffixes[] = "KMG";
	unsigned long long value;
	const char *suffix;
	char *end;
	char why[96];

	if (!text)
		usage(argument, "wants a number");
	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || end == text || *text == '-')
		usage(argument, "wants a number");
	suffix = *end ? strchr(suffixes, *end) : NULL;
	if (suffix && !end[1]) {
		unsigned shift = 10 * (unsigned)(suffix - suffixes + 1);

		if (value > UINT64_MAX >> shift)
			usage(argument, "is too large");
		value <<= shift;
	} else if (*end) {
		usage(argument, "wants a number, with K, M or G at most");
	}
	snprintf(why, sizeof(why), "must be %llu .. %llu", (unsigned long long)min,
		 (unsigned long long)max);
	if (value < min || value > max)
		usage(argument, why);
	return value;
}

/* Parse the option at argv[at]; return how many arguments it took. */
static int parse_option(struct bench *b, char **argv, int at, const struct bench_option *options,
			size_t nr_options)
{
	const char *argument = argv[at], *value = argv[at + 1];

	if (!strcmp(argument, "--help") || !strcmp(argument, "-h")) {
		help(b, options, nr_options);
		exit(0);
	}
	if (!strcmp(argument, "--quick")) {
		b->quick = true;
		return 1;
	}
	for (size_t i = 0; i < nr_options; i++) {
		size_t length = strcspn(options[i].name, " ");

		if (!strncmp(argument, options[i].name, length) && !argument[length]) {
			*options[i].value =
				parse_number(argument, value, options[i].min, options[i].max);
			return 2;
		}
	}
	if (!strcmp(argument, "--rounds"))
		b->rounds = parse_number(argument, value, 1, MAX_ROUNDS);
	else if (!strcmp(argument, "--seed"))
		b->seed = parse_number(argument, value, 0, INT64_MAX);
	else if (!strcmp(argument, "--json"))
		b->json_path = value ? value : (usage(argument, "wants a file or -"), NULL);
	else
		usage(argument, "unknown argument; --help lists them");
	return 2;
}

static struct bench_pool *pool_create(void);
static void pool_destroy(struct bench_pool *pool);

void bench_init(struct bench *b, int argc, char **argv, const struct bench_option *options,
		size_t nr_options)
{
	for (int at = 1; at < argc;)
		at += parse_option(b, argv, at, options, nr_options);
	b->facts = json_object();
	if (!b->facts)
		bench_die("out of memory");
	b->pool = pool_create();
	bench_fact(b, "version", "%s", umm_version());
	bench_fact(b, "cpus", "%ld", sysconf(_SC_NPROCESSORS_ONLN));
}

void bench_fini(struct bench *b)
{
	pool_destroy(b->pool);
	json_decref(b->facts);
}

/* ---- tools ------------------------------------------------------------------------------- */

static uint64_t read_clock(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t bench_now(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

uint64_t bench_cpu(void)
{
	return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

/* A counter through a mixing function (splitmix64): tiny, and good enough to scatter accesses. */
uint64_t bench_random(uint64_t *state)
{
	uint64_t x = *state += 0x9e3779b97f4a7c15u;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

uint32_t *bench_permutation(uint32_t n, uint64_t *state)
{
	uint32_t *order = calloc(n ? n : 1, sizeof(*order));

	if (!order)
		bench_die("out of memory");
	for (uint32_t i = 0; i < n; i++) {
		uint32_t j = (uint32_t)(bench_random(state) % (i + 1));

		order[i] = order[j];
		order[j] = i;
	}
	return order;
}

void *bench_memory(size_t bytes)
{
	void *memory =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		bench_die("no memory for %zu bytes", bytes);
	/* Only a hint: small pages are slower to touch and to copy from. */
	madvise(memory, bytes, MADV_HUGEPAGE);
	memset(memory, 1, bytes);
	return memory;
}

static void write_random(struct bench *b, int fd, uint64_t bytes)
{
	uint64_t state = b->seed;
	uint64_t chunk[8192];

	for (uint64_t done = 0; done < bytes; done += sizeof(chunk)) {
		uint64_t left = bytes - done;
		size_t want = left < sizeof(chunk) ? (size_t)left : sizeof(chunk);

		for (size_t i = 0; i < sizeof(chunk) / sizeof(*chunk); i++)
			chunk[i] = bench_random(&state);
		if (pwrite(fd, chunk, want, (off_t)done) != (ssize_t)want)
			bench_die("writing a file: %s", strerror(errno));
	}
	/* Dirty pages can neither be dropped from the page cache nor be read past it. */
	if (fsync(fd))
		bench_die("writing a file: %s", strerror(errno));
}

int bench_file(struct bench *b, uint64_t bytes, char path[64])
{
	const char *dir = getenv("TMPDIR");
	char name[4096];
	int fd;

	if (!dir || !*dir)
		dir = "/var/tmp";
	if (snprintf(name, sizeof(name), "%s/umm-bench-XXXXXX", dir) >= (int)sizeof(name))
		bench_die("TMPDIR is too long");
	fd = mkostemp(name, O_CLOEXEC);
	if (fd < 0)
		bench_die("no file in %s: %s", dir, strerror(errno));
	unlink(name);
	write_random(b, fd, bytes);
	snprintf(path, 64, "/proc/%d/fd/%d", (int)getpid(), fd);
	return fd;
}

/* ---- the pool: threads that wait for slices to run ---------------------------------------- */

struct bench_worker {
	_Alignas(128) struct bench_pool *pool;
	unsigned nr;
	pthread_t thread;
	uint64_t start_ns, end_ns, cpu_ns, ops;
};

struct bench_pool {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct bench_arm *arm; /* NULL: the threads shall end */
	uint64_t slice_ns;
	uint64_t slice; /* grows with each slice */
	unsigned running;
	atomic_uint at_start; /* how many threads stand at the starting line */
	struct bench_worker workers[BENCH_MAX_THREADS];
};

static void worker_run(struct bench_worker *w, struct bench_arm *arm)
{
	struct bench_pool *pool = w->pool;
	uint64_t cpu, now;

	/* Start together: a slice of two threads shall not begin with one of them running alone. */
	atomic_fetch_add(&pool->at_start, 1);
	while (atomic_load(&pool->at_start) < arm->threads)
		sched_yield();
	w->ops = 0;
	cpu = bench_cpu();
	now = w->start_ns = bench_now();
	while (now - w->start_ns < pool->slice_ns) {
		arm->run(arm->ctx[w->nr], arm->batch);
		w->ops += arm->batch;
		now = bench_now();
	}
	w->end_ns = now;
	w->cpu_ns = bench_cpu() - cpu;
}

static void *worker_main(void *arg)
{
	struct bench_worker *w = arg;
	struct bench_pool *pool = w->pool;
	uint64_t seen = 0;

	pthread_mutex_lock(&pool->lock);
	for (;;) {
		struct bench_arm *arm;

		while (pool->slice == seen)
			pthread_cond_wait(&pool->changed, &pool->lock);
		seen = pool->slice;
		arm = pool->arm;
		if (!arm)
			break;
		if (w->nr >= arm->threads)
			continue;
		pthread_mutex_unlock(&pool->lock);
		worker_run(w, arm);
		pthread_mutex_lock(&pool->lock);
		pool->running--;
		pthread_cond_broadcast(&pool->changed);
	}
	pthread_mutex_unlock(&pool->lock);
	return NULL;
}

static struct bench_pool *pool_create(void)
{
	struct bench_pool *pool = aligned_alloc(128, sizeof(*pool));

	if (!pool)
		bench_die("out of memory");
	memset(pool, 0, sizeof(*pool));
	pthread_mutex_init(&pool->lock, NULL);
	pthread_cond_init(&pool->changed, NULL);
	for (unsigned i = 0; i < BENCH_MAX_THREADS; i++) {
		pool->workers[i].pool = pool;
		pool->workers[i].nr = i;
		if (pthread_create(&pool->workers[i].thread, NULL, worker_main, &pool->workers[i]))
			bench_die("no thread");
	}
	return pool;
}

/* Hand out a slice (or, without an arm, the end) and wait until it was run. */
static void pool_run(struct bench_pool *pool, struct bench_arm *arm, uint64_t slice_ns)
{
	pthread_mutex_lock(&pool->lock);
	pool->arm = arm;
	pool->slice_ns = slice_ns;
	pool->slice++;
	pool->running = arm ? arm->threads : 0;
	atomic_store(&pool->at_start, 0);
	pthread_cond_broadcast(&pool->changed);
	while (pool->running)
		pthread_cond_wait(&pool->changed, &pool->lock);
	pthread_mutex_unlock(&pool->lock);
}

static void pool_destroy(struct bench_pool *pool)
{
	pool_run(pool, NULL, 0);
	for (unsigned i = 0; i < BENCH_MAX_THREADS; i++)
		pthread_join(pool->workers[i].thread, NULL);
	pthread_cond_destroy(&pool->changed);
	pthread_mutex_destroy(&pool->lock);
	free(pool);
}

void bench_sample(struct bench_arm *arm, double rate, double cpu_ns, double count)
{
	if (arm->nr == BENCH_MAX_SAMPLES)
		bench_die("too many samples");
	arm->rate[arm->nr] = rate;
	arm->cpu_ns[arm->nr] = cpu_ns;
	arm->count[arm->nr] = count;
	arm->nr++;
}

void bench_slice(struct bench *b, struct bench_arm *arm, uint64_t slice_ns)
{
	const struct bench_worker *w = b->pool->workers;
	uint64_t start = UINT64_MAX, end = 0, ops = 0, cpu = 0, count = 0;

	if (arm->counter)
		count = arm->counter(arm->counter_ctx);
	pool_run(b->pool, arm, slice_ns);
	if (arm->counter)
		count = arm->counter(arm->counter_ctx) - count;
	for (unsigned i = 0; i < arm->threads; i++) {
		start = w[i].start_ns < start ? w[i].start_ns : start;
		end = w[i].end_ns > end ? w[i].end_ns : end;
		ops += w[i].ops;
		cpu += w[i].cpu_ns;
	}
	bench_sample(arm, (double)ops * 1e9 / (double)(end - start), (double)cpu / (double)ops,
		     (double)count / (double)ops);
}

/* ---- reporting --------------------------------------------------------------------------- */

struct spread {
	double median, min, max;
};

static int compare(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static struct spread spread_of(const double *samples, unsigned nr)
{
	double sorted[BENCH_MAX_SAMPLES];

	if (!nr)
		return (struct spread){ 0 };
	memcpy(sorted, samples, nr * sizeof(*sorted));
	qsort(sorted, nr, sizeof(*sorted), compare);
	return (struct spread){
		.median = (sorted[(nr - 1) / 2] + sorted[nr / 2]) / 2,
		.min = sorted[0],
		.max = sorted[nr - 1],
	};
}

static double measure_one(const struct bench_ratio *ratio, unsigned i)
{
	const struct bench_arm *over = ratio->over, *under = ratio->under;

	if (!under)
		return over->count[i];
	switch (ratio->measure) {
	case BENCH_COST: return over->cpu_ns[i] / under->cpu_ns[i];
	case BENCH_BEYOND:
		return (over->cpu_ns[i] - ratio->base->cpu_ns[i]) /
		       (under->cpu_ns[i] - ratio->base->cpu_ns[i]);
	case BENCH_RATE: return over->rate[i] / under->rate[i];
	case BENCH_SCALING:
		return (double)over->threads / under->threads * under->cpu_ns[i] / over->cpu_ns[i];
	case BENCH_COUNT: break;
	}
	return over->count[i];
}

/* Over the turns in which both arms ran: each compares slices that lie close together in time. */
static struct spread ratio_spread(const struct bench_ratio *ratio)
{
	double values[BENCH_MAX_SAMPLES];
	unsigned nr = ratio->over->nr;

	if (ratio->under && ratio->under->nr < nr)
		nr = ratio->under->nr;
	for (unsigned i = 0; i < nr; i++)
		values[i] = measure_one(ratio, i);
	return spread_of(values, nr);
}

static const char *verdict(const struct bench_ratio *ratio, double median)
{
	if (ratio->aim <= 0)
		return "";
	return (ratio->at_most ? median <= ratio->aim : median >= ratio->aim) ? "met" : "missed";
}

static json_t *spread_json(struct spread s)
{
	return json_pack("{s:f, s:f, s:f}", "median", s.median, "min", s.min, "max", s.max);
}

static json_t *arm_json(const struct bench_arm *arm)
{
	json_t *json = json_pack("{s:s, s:i, s:i, s:o, s:o}", "name", arm->name, "threads",
				 (int)arm->threads, "samples", (int)arm->nr, "ops_per_s",
				 spread_json(spread_of(arm->rate, arm->nr)), "cpu_ns_per_op",
				 spread_json(spread_of(arm->cpu_ns, arm->nr)));

	if (arm->counter_name)
		json_object_set_new(json, arm->counter_name,
				    spread_json(spread_of(arm->count, arm->nr)));
	return json;
}

static json_t *ratio_json(const struct bench_ratio *ratio)
{
	struct spread s = ratio_spread(ratio);
	json_t *json = json_pack("{s:s, s:f, s:f, s:f}", "name", ratio->name, "median", s.median,
				 "min", s.min, "max", s.max);

	if (ratio->aim > 0)
		json_object_update_new(json, json_pack("{s:s, s:f, s:b}", "aim_is",
						       ratio->at_most ? "at most" : "at least",
						       "aim", ratio->aim, "met",
						       !strcmp(verdict(ratio, s.median), "met")));
	return json;
}

static void write_json(const struct bench *b, json_t *json)
{
	bool to_stdout = !strcmp(b->json_path, "-");
	FILE *file = to_stdout ? stdout : fopen(b->json_path, "w");
	int err;

	if (!file)
		bench_die("%s: %s", b->json_path, strerror(errno));
	err = json_dumpf(json, file, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
	err |= fputc('\n', file) == EOF;
	err |= to_stdout ? fflush(file) : fclose(file);
	if (err)
		bench_die("%s: cannot write", b->json_path);
}

static void report_json(struct bench *b, const struct bench_arm *const *arms, size_t nr_arms,
			const struct bench_ratio *ratios, size_t nr_ratios)
{
	json_t *arm_list = json_array(), *ratio_list = json_array(), *json;

	for (size_t i = 0; i < nr_arms; i++)
		json_array_append_new(arm_list, arm_json(arms[i]));
	for (size_t i = 0; i < nr_ratios; i++)
		json_array_append_new(ratio_list, ratio_json(&ratios[i]));
	json = json_pack("{s:s, s:I, s:I, s:b, s:O, s:o, s:o}", "benchmark", b->name, "rounds",
			 (json_int_t)b->rounds, "seed", (json_int_t)b->seed, "quick", b->quick,
			 "facts", b->facts, "arms", arm_list, "ratios", ratio_list);
	if (!json)
		bench_die("out of memory");
	write_json(b, json);
	json_decref(json);
}

static void print_arm(const struct bench_arm *arm)
{
	struct spread cpu = spread_of(arm->cpu_ns, arm->nr);
	struct spread rate = spread_of(arm->rate, arm->nr);

	printf("%-42s %9.1f %9.1f %9.1f  %11.0f %11.0f %11.0f", arm->name, cpu.median, cpu.min,
	       cpu.max, rate.median, rate.min, rate.max);
	if (arm->counter_name)
		printf("  %.4f %s", spread_of(arm->count, arm->nr).median, arm->counter_name);
	putchar('\n');
}

static void print_table(const struct bench *b, const struct bench_arm *const *arms, size_t nr_arms,
			const struct bench_ratio *ratios, size_t nr_ratios)
{
	printf("%s: %u slices of each arm, in turn%s\n", b->name, arms[0]->nr,
	       b->quick ? " (a smoke run: figures mean little)" : "");
	for (void *at = json_object_iter(b->facts); at; at = json_object_iter_next(b->facts, at))
		printf("  %s: %s\n", json_object_iter_key(at),
		       json_string_value(json_object_iter_value(at)));
	printf("\n%-42s %29s  %35s\n%-42s %9s %9s %9s  %11s %11s %11s\n", "",
	       "ns of CPU per operation", "operations per second", "arm", "median", "min", "max",
	       "median", "min", "max");
	for (size_t i = 0; i < nr_arms; i++)
		print_arm(arms[i]);
	printf("\n%-60s %9s %9s %9s\n", "ratio", "median", "min", "max");
	for (size_t i = 0; i < nr_ratios; i++) {
		const struct bench_ratio *ratio = &ratios[i];
		struct spread s = ratio_spread(ratio);

		printf("%-60s %9.3f %9.3f %9.3f", ratio->name, s.median, s.min, s.max);
		if (ratio->aim > 0)
			printf("  aim %s %g: %s", ratio->at_most ? "<=" : ">=", ratio->aim,
			       verdict(ratio, s.median));
		putchar('\n');
	}
}

void bench_report(struct bench *b, const struct bench_arm *const *arms, size_t nr_arms,
		  const struct bench_ratio *ratios, size_t nr_ratios)
{
	if (!b->json_path || strcmp(b->json_path, "-") != 0)
		print_table(b, arms, nr_arms, ratios, nr_ratios);
	if (b->json_path)
		report_json(b, arms, nr_arms, ratios, nr_ratios);
}
