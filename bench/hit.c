/* SPDX-License-Identifier: MIT */
/*
 * What a hit costs, and what a miss costs beyond its I/O:
 *
 *	reading 4 KiB that are cached: umm_pread, pread of the kernel's page cache, memcpy from a mapping;
 *	umm_pin and umm_unpin of hot pages, counted in uncontended atomic additions;
 *	the same by two threads, each with a file and a memcg of its own;
 *	reading a store four times as large as its memcg's limit, where the store is plain memory, so
 *	that what is measured is loading, charging and reclaim.
 */
#define _GNU_SOURCE
#include "common.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <umm.h>
#include <unistd.h>

#define THREADS BENCH_MAX_THREADS
#define HOT_PAGES 10000u
#define FEW_PAGES 256u /* 1 MiB: the copies come out of the CPU's caches */
#define LINE_BYTES 64u
#define TURNS 5u /* of each arm in a round */
#define SLICE_NS 30000000u
#define QUICK_SLICE_NS 5000000u
#define WORKING_SET 4u /* times the limit */

struct sizes {
	uint64_t file;  /* of each file */
	uint64_t limit; /* of each memcg that has to reclaim */
};

/* What one thread reads, one page after the other in the given order. */
struct reader {
	umm_obj_t *obj;
	int fd;
	const char *map;
	char *buf;
	const uint32_t *order;
	uint32_t nr, at;
};

/* As many lines as there are hot pages, in the same order. */
struct lines {
	uint64_t *line;
	const uint32_t *order;
	uint32_t nr, at;
};

static uint64_t next_page(struct reader *r)
{
	uint32_t index = r->order[r->at++];

	if (r->at == r->nr)
		r->at = 0;
	return index;
}

/* ---- what the arms do -------------------------------------------------------------------- */

static void do_umm_pread(void *ctx, uint64_t ops)
{
	struct reader *r = ctx;

	while (ops--) {
		ssize_t n = umm_pread(r->obj, r->buf, UMM_PAGE_SIZE, next_page(r) * UMM_PAGE_SIZE);

		if (n != UMM_PAGE_SIZE)
			bench_die("umm_pread: %zd", n);
	}
}

static void do_pread(void *ctx, uint64_t ops)
{
	struct reader *r = ctx;

	while (ops--) {
		off_t offset = (off_t)(next_page(r) * UMM_PAGE_SIZE);

		if (pread(r->fd, r->buf, UMM_PAGE_SIZE, offset) != UMM_PAGE_SIZE)
			bench_die("pread: %s", strerror(errno));
	}
}

static void do_memcpy(void *ctx, uint64_t ops)
{
	struct reader *r = ctx;

	while (ops--) {
		memcpy(r->buf, r->map + next_page(r) * UMM_PAGE_SIZE, UMM_PAGE_SIZE);
		__asm__ volatile("" ::"r"(r->buf) : "memory"); /* the copy is "used" */
	}
}

static void do_pin(void *ctx, uint64_t ops)
{
	struct reader *r = ctx;
	umm_folio_t *folio;

	while (ops--) {
		int err = umm_pin(r->obj, next_page(r), 0, &folio);

		if (err)
			bench_die("umm_pin: %s", strerror(-err));
		umm_unpin(folio);
	}
}

static void do_add(void *ctx, uint64_t ops)
{
	uint64_t *counter = ctx;

	while (ops--)
		__atomic_fetch_add(counter, 1, __ATOMIC_SEQ_CST);
}

/* What counting references alone costs where each page's count is on a line of its own. */
static void do_add_scattered(void *ctx, uint64_t ops)
{
	struct lines *lines = ctx;
	uint32_t at = lines->at;

	while (ops--) {
		uint64_t *line = &lines->line[(size_t)lines->order[at++] * (LINE_BYTES / 8)];

		if (at == lines->nr)
			at = 0;
		__atomic_fetch_add(line, 1, __ATOMIC_SEQ_CST);
		__atomic_fetch_sub(line, 1, __ATOMIC_SEQ_CST);
	}
	lines->at = at;
}

static void do_syscall(void *ctx, uint64_t ops)
{
	(void)ctx;
	while (ops--)
		syscall(SYS_gettid);
}

/* ---- what the arms count ----------------------------------------------------------------- */

static uint64_t count_locks(umm_t *mm, const char *class)
{
	struct umm_lock_stat stats[64];
	ssize_t nr = umm_lock_stats(mm, stats, 64);
	uint64_t sum = 0;

	for (ssize_t i = 0; i < nr && i < 64; i++)
		if (!class || !strcmp(stats[i].name, class))
			sum += stats[i].acquisitions;
	return sum;
}

static uint64_t count_all_locks(void *mm)
{
	return count_locks(mm, NULL);
}

static uint64_t count_lru_locks(void *mm)
{
	return count_locks(mm, "lru_lock");
}

/* ---- hits: files that are cached --------------------------------------------------------- */

struct hits {
	umm_t *mm;
	umm_memcg_t *cg[THREADS];
	umm_obj_t *obj[THREADS];
	int fd[THREADS];
	char *map[THREADS];
	struct reader random[THREADS], in_order[THREADS], hot[THREADS], few[THREADS];
	uint64_t *counter[THREADS]; /* each on a line of its own */
	struct lines lines;
	uint64_t file_bytes;
};

static umm_t *create(uint64_t memory, enum umm_lru_lock lru_lock)
{
	struct umm_options options;
	umm_t *mm;
	int err;

	umm_options_init(&options);
	options.memory_bytes = memory;
	options.lru_lock = lru_lock;
	err = umm_create(&options, &mm);
	if (err)
		bench_die("umm_create: %s", strerror(-err));
	return mm;
}

static umm_memcg_t *create_memcg(umm_t *mm, unsigned nr, uint64_t limit)
{
	umm_memcg_t *cg;
	char name[16];
	int err;

	snprintf(name, sizeof(name), "reader%u", nr);
	err = umm_memcg_create(mm, NULL, name, &cg);
	if (!err)
		err = umm_memcg_set(cg, UMM_MEMORY_MAX, limit);
	if (err)
		bench_die("memcg: %s", strerror(-err));
	return cg;
}

static const uint32_t *pages_in_order(uint32_t nr)
{
	uint32_t *order = calloc(nr, sizeof(*order));

	if (!order)
		bench_die("out of memory");
	for (uint32_t i = 0; i < nr; i++)
		order[i] = i;
	return order;
}

/* Everything is touched here: both caches are filled, all mappings are populated. */
static void hits_open(struct bench *b, struct hits *h, unsigned i, uint64_t *random)
{
	uint32_t pages = (uint32_t)(h->file_bytes / UMM_PAGE_SIZE);
	struct reader *r = &h->random[i];
	char path[64];
	int err;

	h->fd[i] = bench_file(b, h->file_bytes, path);
	h->map[i] = mmap(NULL, h->file_bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, h->fd[i], 0);
	if (h->map[i] == MAP_FAILED)
		bench_die("mmap: %s", strerror(errno));
	h->cg[i] = create_memcg(h->mm, i, UMM_NO_LIMIT);
	err = umm_file_open(h->cg[i], path, 0, &h->obj[i]);
	if (err)
		bench_die("umm_file_open: %s", strerror(-err));
	*r = (struct reader){
		.obj = h->obj[i],
		.fd = h->fd[i],
		.map = h->map[i],
		.buf = bench_memory(UMM_PAGE_SIZE),
		.order = pages_in_order(pages),
		.nr = pages,
	};
	h->in_order[i] = *r;
	do_umm_pread(&h->in_order[i], pages);
	do_pread(&h->in_order[i], pages);
	if (memcmp(r->buf, h->map[i] + h->file_bytes - UMM_PAGE_SIZE, UMM_PAGE_SIZE) != 0)
		bench_die("umm read wrong bytes");
	r->order = bench_permutation(pages, random);
	h->few[i] = h->hot[i] = *r;
	h->hot[i].nr = pages < HOT_PAGES ? pages : HOT_PAGES;
	h->few[i].nr = FEW_PAGES;
	h->counter[i] = bench_memory(UMM_PAGE_SIZE);
}

static void hits_init(struct bench *b, struct hits *h, uint64_t file_bytes)
{
	uint64_t random = b->seed;

	h->file_bytes = file_bytes;
	/* Room to spare: no reclaim while hits are measured. */
	h->mm = create(THREADS * file_bytes + file_bytes / 2 + (16u << 20), UMM_LRU_LOCK_MEMCG);
	for (unsigned i = 0; i < THREADS; i++)
		hits_open(b, h, i, &random);
	h->lines = (struct lines){
		.line = bench_memory(file_bytes / UMM_PAGE_SIZE * LINE_BYTES),
		.order = h->hot[0].order,
		.nr = h->hot[0].nr,
	};
}

static void destroy(umm_t *mm, umm_memcg_t **cgs)
{
	for (unsigned i = 0; i < THREADS; i++)
		umm_memcg_destroy(cgs[i]);
	if (umm_destroy(mm))
		bench_die("umm_destroy: something is still in use");
}

static void hits_fini(struct hits *h)
{
	for (unsigned i = 0; i < THREADS; i++) {
		free((void *)h->random[i].order);
		free((void *)h->in_order[i].order);
		umm_close(h->obj[i]);
		munmap(h->map[i], h->file_bytes);
		close(h->fd[i]);
	}
	destroy(h->mm, h->cg);
}

/* ---- misses: a store in memory, larger than its memcg may be ----------------------------- */

struct misses {
	umm_t *mm;
	umm_memcg_t *cg[THREADS];
	umm_obj_t *obj[THREADS];
	struct reader random[THREADS], in_order[THREADS];
};

/* The two instances, one for each lru_lock, read the same bytes. */
struct miss_source {
	char *bytes[THREADS];
	char *buf[THREADS];
	const uint32_t *random[THREADS], *in_order;
	uint64_t size;
};

static ssize_t memory_read(void *ctx, const struct iovec *iov, int iovcnt, uint64_t offset)
{
	const char *bytes = ctx;
	ssize_t done = 0;

	for (int i = 0; i < iovcnt; i++) {
		memcpy(iov[i].iov_base, bytes + offset + (uint64_t)done, iov[i].iov_len);
		done += (ssize_t)iov[i].iov_len;
	}
	return done;
}

static void source_init(struct bench *b, struct miss_source *source, uint64_t size)
{
	uint32_t pages = (uint32_t)(size / UMM_PAGE_SIZE);
	uint64_t random = b->seed;

	source->size = size;
	source->in_order = pages_in_order(pages);
	for (unsigned i = 0; i < THREADS; i++) {
		source->bytes[i] = bench_memory(size);
		source->buf[i] = bench_memory(UMM_PAGE_SIZE);
		source->random[i] = bench_permutation(pages, &random);
	}
}

static void source_fini(struct miss_source *source)
{
	free((void *)source->in_order);
	for (unsigned i = 0; i < THREADS; i++)
		free((void *)source->random[i]);
}

static void misses_init(struct misses *m, const struct miss_source *source, uint64_t limit,
			enum umm_lru_lock lru_lock)
{
	static const struct umm_store_ops ops = { .size = sizeof(ops), .read = memory_read };
	uint32_t pages = (uint32_t)(source->size / UMM_PAGE_SIZE);

	/* The limits shall bind, not the budget. */
	m->mm = create(THREADS * limit + limit + (16u << 20), lru_lock);
	for (unsigned i = 0; i < THREADS; i++) {
		struct reader *r = &m->in_order[i];
		int err;

		m->cg[i] = create_memcg(m->mm, i, limit);
		err = umm_store_open(m->cg[i], &ops, source->bytes[i], source->size, &m->obj[i]);
		if (err)
			bench_die("umm_store_open: %s", strerror(-err));
		*r = (struct reader){
			.obj = m->obj[i],
			.buf = source->buf[i],
			.order = source->in_order,
			.nr = pages,
		};
		m->random[i] = *r;
		m->random[i].order = source->random[i];
		do_umm_pread(r, pages);
	}
}

static void misses_fini(struct misses *m)
{
	for (unsigned i = 0; i < THREADS; i++)
		umm_close(m->obj[i]);
	destroy(m->mm, m->cg);
}

/* ---- the arms and what is made of them --------------------------------------------------- */

/* Arms that are compared stand side by side, so that they run one after the other. */
enum {
	RANDOM_UMM,
	RANDOM_KERNEL,
	RANDOM_MAP,
	ORDER_UMM,
	ORDER_KERNEL,
	ORDER_MAP,
	FEW_UMM,
	FEW_KERNEL,
	FEW_MAP,
	SYSCALL,
	PIN_FEW,
	ADD,
	PIN,
	ADD_SCATTERED,
	PIN_2,
	ADD_2,
	PREAD_1,
	PREAD_2,
	MAP_1,
	MAP_2,
	MISS, /* of each kind of lru_lock: in order by 1, by 2, random by 1, by 2 */
	MISS_NODE = MISS + 4,
	NR_ARMS = MISS_NODE + 4,
};

static void arm_init(struct bench_arm *arm, const char *name, unsigned threads,
		     void (*run)(void *, uint64_t), uint64_t batch, void *ctx0, void *ctx1)
{
	arm->name = name;
	arm->threads = threads;
	arm->run = run;
	arm->batch = batch;
	arm->ctx[0] = ctx0;
	arm->ctx[1] = ctx1;
}

static void arm_count(struct bench_arm *arm, umm_t *mm, const char *name,
		      uint64_t (*counter)(void *))
{
	arm->counter = counter;
	arm->counter_ctx = mm;
	arm->counter_name = name;
}

static void hit_arms(struct bench_arm *arms, struct hits *h)
{
	static const unsigned without_locks[] = {
		RANDOM_UMM, ORDER_UMM, FEW_UMM, PIN_FEW, PIN, PIN_2, PREAD_1, PREAD_2,
	};
	struct reader *rnd = h->random, *seq = h->in_order, *hot = h->hot, *few = h->few;
	uint64_t **add = h->counter;

	arm_init(&arms[RANDOM_UMM], "random 4 KiB, umm_pread", 1, do_umm_pread, 64, &rnd[0], NULL);
	arm_init(&arms[RANDOM_KERNEL], "random 4 KiB, pread", 1, do_pread, 64, &rnd[0], NULL);
	arm_init(&arms[RANDOM_MAP], "random 4 KiB, mmap and memcpy", 1, do_memcpy, 64, &rnd[0],
		 NULL);
	arm_init(&arms[ORDER_UMM], "in order 4 KiB, umm_pread", 1, do_umm_pread, 64, &seq[0], NULL);
	arm_init(&arms[ORDER_KERNEL], "in order 4 KiB, pread", 1, do_pread, 64, &seq[0], NULL);
	arm_init(&arms[ORDER_MAP], "in order 4 KiB, mmap and memcpy", 1, do_memcpy, 64, &seq[0],
		 NULL);
	arm_init(&arms[FEW_UMM], "few 4 KiB, umm_pread", 1, do_umm_pread, 64, few, NULL);
	arm_init(&arms[FEW_KERNEL], "few 4 KiB, pread", 1, do_pread, 64, few, NULL);
	arm_init(&arms[FEW_MAP], "few 4 KiB, mmap and memcpy", 1, do_memcpy, 64, few, NULL);
	arm_init(&arms[SYSCALL], "a system call (gettid)", 1, do_syscall, 64, NULL, NULL);
	arm_init(&arms[PIN], "pin and unpin, hot pages", 1, do_pin, 256, &hot[0], NULL);
	arm_init(&arms[PIN_FEW], "pin and unpin, few pages", 1, do_pin, 256, few, NULL);
	arm_init(&arms[ADD_SCATTERED], "an addition and its undoing, scattered", 1,
		 do_add_scattered, 256, &h->lines, NULL);
	arm_init(&arms[ADD], "atomic addition", 1, do_add, 1024, add[0], NULL);
	arm_init(&arms[PIN_2], "pin and unpin, 2 threads", 2, do_pin, 256, &hot[0], &hot[1]);
	arm_init(&arms[ADD_2], "atomic addition, 2 threads", 2, do_add, 1024, add[0], add[1]);
	arm_init(&arms[PREAD_1], "random 4 KiB, umm_pread, 1 thread", 1, do_umm_pread, 64, &rnd[0],
		 NULL);
	arm_init(&arms[PREAD_2], "random 4 KiB, umm_pread, 2 threads", 2, do_umm_pread, 64, &rnd[0],
		 &rnd[1]);
	arm_init(&arms[MAP_1], "random 4 KiB, mmap, 1 thread", 1, do_memcpy, 64, &rnd[0], NULL);
	arm_init(&arms[MAP_2], "random 4 KiB, mmap, 2 threads", 2, do_memcpy, 64, &rnd[0], &rnd[1]);
	for (size_t i = 0; i < sizeof(without_locks) / sizeof(*without_locks); i++)
		arm_count(&arms[without_locks[i]], h->mm, "locks", count_all_locks);
}

static void miss_arms(struct bench_arm *arms, struct misses *m, const char *const names[4])
{
	struct reader *rnd = m->random, *seq = m->in_order;

	arm_init(&arms[0], names[0], 1, do_umm_pread, 64, &seq[0], NULL);
	arm_init(&arms[1], names[1], 2, do_umm_pread, 64, &seq[0], &seq[1]);
	arm_init(&arms[2], names[2], 1, do_umm_pread, 64, &rnd[0], NULL);
	arm_init(&arms[3], names[3], 2, do_umm_pread, 64, &rnd[0], &rnd[1]);
	for (unsigned i = 0; i < 4; i++)
		arm_count(&arms[i], m->mm, "lru_locks", count_lru_locks);
}

#define NO_AIM 0, false
#define AT_MOST(aim) (aim), true
#define AT_LEAST(aim) (aim), false
#define RATIO(name, measure, over, under, aim)                      \
	{                                                           \
		(name), (over), (under), NULL, aim, BENCH_##measure \
	}
#define BEYOND(name, arms)                                                       \
	{                                                                        \
		(name), &(arms)[0], &(arms)[1], &(arms)[2], NO_AIM, BENCH_BEYOND \
	}
#define ALONE " - if each had a CPU to itself"

static void report(struct bench *b, const struct bench_arm *a)
{
	const struct bench_arm *rnd = &a[RANDOM_UMM], *seq = &a[ORDER_UMM], *few = &a[FEW_UMM];
	const struct bench_arm *memcg = &a[MISS], *node = &a[MISS_NODE];
	const struct bench_arm *pin = &a[PIN], *pin2 = &a[PIN_2];
	const struct bench_arm *copy = &a[PREAD_1], *copy2 = &a[PREAD_2];
	const struct bench_ratio ratios[] = {
		RATIO("random: umm_pread / pread, cost", COST, &rnd[0], &rnd[1], AT_MOST(0.25)),
		RATIO(" - memcpy from a mapping / pread", COST, &rnd[2], &rnd[1], NO_AIM),
		BEYOND(" - umm_pread / pread beyond that memcpy", rnd),
		RATIO("in order: umm_pread / pread, cost", COST, &seq[0], &seq[1], AT_MOST(0.25)),
		RATIO(" - memcpy from a mapping / pread", COST, &seq[2], &seq[1], NO_AIM),
		BEYOND(" - umm_pread / pread beyond that memcpy", seq),
		RATIO("few pages: umm_pread / pread, cost", COST, &few[0], &few[1], NO_AIM),
		RATIO(" - memcpy from a mapping / pread", COST, &few[2], &few[1], NO_AIM),
		BEYOND(" - umm_pread / pread beyond that memcpy", few),
		RATIO("pin and unpin / random pread, cost", COST, pin, &rnd[1], AT_MOST(0.1)),
		RATIO("pin and unpin / atomic addition, cost", COST, pin, &a[ADD], AT_MOST(10)),
		RATIO(" - few pages", COST, &a[PIN_FEW], &a[ADD], NO_AIM),
		RATIO(" - hot pages / counting on as many lines", COST, pin, &a[ADD_SCATTERED],
		      NO_AIM),
		RATIO("pin and unpin: 2 threads / 1, rate", RATE, pin2, pin, AT_LEAST(1.8)),
		RATIO(ALONE, SCALING, pin2, pin, NO_AIM),
		RATIO(" - atomic addition", RATE, &a[ADD_2], &a[ADD], NO_AIM),
		RATIO("umm_pread: 2 threads / 1, rate", RATE, copy2, copy, AT_LEAST(1.8)),
		RATIO(ALONE, SCALING, copy2, copy, NO_AIM),
		RATIO(" - memcpy from a mapping", RATE, &a[MAP_2], &a[MAP_1], NO_AIM),
		RATIO("miss in order, memcg: 2 / 1, rate", RATE, &memcg[1], &memcg[0],
		      AT_LEAST(1.7)),
		RATIO(ALONE, SCALING, &memcg[1], &memcg[0], NO_AIM),
		RATIO("miss random, memcg: 2 / 1, rate", RATE, &memcg[3], &memcg[2], AT_LEAST(1.7)),
		RATIO(ALONE, SCALING, &memcg[3], &memcg[2], NO_AIM),
		RATIO("miss in order, node: 2 / 1, rate", RATE, &node[1], &node[0], NO_AIM),
		RATIO(ALONE, SCALING, &node[1], &node[0], NO_AIM),
		RATIO("miss random, node: 2 / 1, rate", RATE, &node[3], &node[2], NO_AIM),
		RATIO(ALONE, SCALING, &node[3], &node[2], NO_AIM),
		RATIO("miss in order, 2 threads: memcg / node, rate", RATE, &memcg[1], &node[1],
		      NO_AIM),
		RATIO("miss random, 2 threads: memcg / node, rate", RATE, &memcg[3], &node[3],
		      NO_AIM),
		RATIO("miss in order, memcg: lru_locks per page", COUNT, &memcg[1], NULL,
		      AT_MOST(0.1)),
		RATIO("miss random, memcg: lru_locks per page", COUNT, &memcg[3], NULL,
		      AT_MOST(0.1)),
	};
	const struct bench_arm *list[NR_ARMS];

	for (unsigned i = 0; i < NR_ARMS; i++)
		list[i] = &a[i];
	bench_report(b, list, NR_ARMS, ratios, sizeof(ratios) / sizeof(*ratios));
}

static void measure(struct bench *b, struct bench_arm *arms)
{
	uint64_t slice = b->quick ? QUICK_SLICE_NS : SLICE_NS;
	uint64_t turns = b->quick ? 2 : b->rounds * TURNS;

	for (unsigned i = 0; i < NR_ARMS; i++) { /* a slice to warm up, which does not count */
		bench_slice(b, &arms[i], slice);
		arms[i].nr = 0;
	}
	for (uint64_t turn = 0; turn < turns; turn++)
		for (unsigned i = 0; i < NR_ARMS; i++)
			bench_slice(b, &arms[i], slice);
}

int main(int argc, char **argv)
{
	static const char *const memcg_names[] = {
		"miss in order, lru_lock=memcg, 1 thread",
		"miss in order, lru_lock=memcg, 2 threads",
		"miss random, lru_lock=memcg, 1 thread",
		"miss random, lru_lock=memcg, 2 threads",
	};
	static const char *const node_names[] = {
		"miss in order, lru_lock=node, 1 thread",
		"miss in order, lru_lock=node, 2 threads",
		"miss random, lru_lock=node, 1 thread",
		"miss random, lru_lock=node, 2 threads",
	};
	static struct bench_arm arms[NR_ARMS];
	static struct hits hits;
	static struct misses memcg, node;
	struct bench b = {
		.name = "hit",
		.summary = "What hits cost, beside the kernel's, and how hits and misses scale.",
		.rounds = 7,
		.seed = 1,
	};
	struct miss_source source;
	struct sizes sizes;

	bench_init(&b, argc, argv, NULL, 0);
	sizes.file = (b.quick ? 8u : 64u) << 20;
	sizes.limit = (b.quick ? 2u : 16u) << 20;
	hits_init(&b, &hits, sizes.file);
	source_init(&b, &source, sizes.limit * WORKING_SET);
	misses_init(&memcg, &source, sizes.limit, UMM_LRU_LOCK_MEMCG);
	misses_init(&node, &source, sizes.limit, UMM_LRU_LOCK_NODE);
	bench_fact(&b, "file", "%llu MiB, of each thread", (unsigned long long)sizes.file >> 20);
	bench_fact(&b, "hot pages", "%u", hits.hot[0].nr);
	bench_fact(&b, "misses", "%llu MiB in memory, through a limit of %llu MiB, of each thread",
		   (unsigned long long)source.size >> 20, (unsigned long long)sizes.limit >> 20);
	hit_arms(arms, &hits);
	miss_arms(&arms[MISS], &memcg, memcg_names);
	miss_arms(&arms[MISS_NODE], &node, node_names);
	measure(&b, arms);
	report(&b, arms);
	misses_fini(&node);
	misses_fini(&memcg);
	source_fini(&source);
	hits_fini(&hits);
	bench_fini(&b);
	return 0;
}
