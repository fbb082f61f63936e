/* SPDX-License-Identifier: MIT */
/*
 * What the benchmark programs share. A benchmark is a few *arms* which do the same work in different
 * ways. They are measured in turn (A B C A B C ...), in slices of some milliseconds, because other
 * work on the machine comes and goes: a ratio is taken between slices of one turn and its median over
 * all turns is what counts. Absolute figures are for orientation.
 */
#ifndef UMM_BENCH_COMMON_H
#define UMM_BENCH_COMMON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BENCH_MAX_THREADS 2u
#define BENCH_MAX_SAMPLES 1024u

struct bench_pool;

struct bench {
	const char *name;
	const char *summary; /* one line for --help */
	uint64_t rounds;     /* the program presets these four with its defaults */
	uint64_t seed;
	bool quick;            /* a smoke run of a few seconds; figures mean little */
	const char *json_path; /* NULL: a table; "-": standard output, without a table */
	json_t *facts;         /* what the figures depend on; printed with them */
	struct bench_pool *pool;
};

/* An option of one program, with a number (suffixes K, M, G). */
struct bench_option {
	const char *name; /* with its dashes */
	const char *help;
	uint64_t *value;
	uint64_t min, max;
};

/* Parse the arguments; --help ends the process with 0, a bad argument with 2. */
void bench_init(struct bench *b, int argc, char **argv, const struct bench_option *options,
		size_t nr_options);
void bench_fini(struct bench *b);

/* Print "NAME: MESSAGE" on standard error and end the process with 1. */
__attribute__((noreturn, format(printf, 1, 2))) void bench_die(const char *format, ...);

/* Remember something the figures depend on. */
__attribute__((format(printf, 3, 4))) void bench_fact(struct bench *b, const char *name,
						      const char *format, ...);

/* ---- tools ------------------------------------------------------------------------------- */

uint64_t bench_now(void); /* CLOCK_MONOTONIC, ns */
uint64_t bench_cpu(void); /* CPU time of the calling thread, ns */

uint64_t bench_random(uint64_t *state); /* any state, 0 too, is a seed */
/* 0 .. n-1 in random order; to be freed. */
uint32_t *bench_permutation(uint32_t n, uint64_t *state);

/* Memory that was touched already, at a multiple of 4 KiB. Never NULL; lives as long as the process. */
void *bench_memory(size_t bytes);

/*
 * A file of random bytes, on the disk and in the kernel's page cache, which vanishes with the process
 * however that ends: it has no name in any directory. `path` gets one below /proc that serves to open
 * it. In $TMPDIR, else /var/tmp. Return the descriptor.
 */
int bench_file(struct bench *b, uint64_t bytes, char path[64]);

/* ---- arms -------------------------------------------------------------------------------- */

struct bench_arm {
	const char *name;
	uint64_t batch;                       /* operations between two looks at the clock */
	void (*run)(void *ctx, uint64_t ops); /* called by `threads` threads at once */
	void *ctx[BENCH_MAX_THREADS];         /* one a thread */
	/* A figure that grows, such as lock acquisitions: its growth per operation is reported. */
	uint64_t (*counter)(void *counter_ctx);
	void *counter_ctx;
	const char *counter_name;

	unsigned threads;                 /* 1 or 2 */
	unsigned nr;                      /* samples, one a slice */
	double rate[BENCH_MAX_SAMPLES];   /* operations of all threads per second of wall clock */
	double cpu_ns[BENCH_MAX_SAMPLES]; /* CPU time per operation */
	double count[BENCH_MAX_SAMPLES];  /* growth of the counter per operation */
};

/* Run one slice of the arm on threads of the pool, and add its sample. */
void bench_slice(struct bench *b, struct bench_arm *arm, uint64_t slice_ns);

/* Add a sample that the program measured itself. */
void bench_sample(struct bench_arm *arm, double rate, double cpu_ns, double count);

enum bench_measure {
	BENCH_COST, /* CPU time per operation of `over` / that of `under` */
	BENCH_BEYOND, /* the same, of what both spend beyond `base`, which does the work and no more */
	BENCH_RATE, /* operations a second of `over` / those of `under`, by the wall clock */
	/* What BENCH_RATE would be if each thread had a CPU to itself: it tells a machine that is busy
	 * with other work from threads that disturb one another. It does not see time spent asleep. */
	BENCH_SCALING,
	BENCH_COUNT, /* the counter of `over` per operation; no ratio */
};

struct bench_ratio {
	const char *name;
	const struct bench_arm *over, *under, *base;
	double aim; /* 0: none */
	bool at_most;
	enum bench_measure measure;
};

/* Print all arms and ratios, as a table and as JSON, whichever is wanted. */
void bench_report(struct bench *b, const struct bench_arm *const *arms, size_t nr_arms,
		  const struct bench_ratio *ratios, size_t nr_ratios);

#endif
