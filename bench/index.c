/* SPDX-License-Identifier: MIT */
/*
 * What the index costs: loads hot and cold, stores, erasures, a walk in order, and memory. CPU time of
 * one thread, the median of several rounds, as JSON on standard output.
 *
 * A load stands in a read section of its own, as in a cached read. Entries are page records handed out
 * in random order, as page frames are; "touch" also reads the record that was found.
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "cache/xarray.h"

#define NR_ROUNDS 5
#define NR_HOT (1u << 14)
#define NR_COLD (1u << 20)
#define NR_LOADS (1u << 22)

enum figure {
	LOAD_HOT,
	LOAD_COLD,
	LOAD_COLD_TOUCH,
	LOAD_MISS,
	STORE_ORDERED,
	STORE_RANDOM,
	ERASE_ORDERED,
	ERASE_RANDOM,
	WALK,
	NR_FIGURES,
};

static const char *const figure_name[NR_FIGURES] = {
	"load_hot_ns",      "load_cold_ns",     "load_cold_touch_ns",
	"load_miss_ns",     "store_ordered_ns", "store_random_ns",
	"erase_ordered_ns", "erase_random_ns",  "walk_ns",
};

struct bench {
	struct mm *mm;
	struct page *page;  /* NR_COLD of them */
	uint32_t *order;    /* 0 .. NR_COLD - 1, shuffled */
	uint64_t sum;       /* so that no load can be left out */
	double bytes_nodes; /* per entry: nodes in use */
	double bytes_heap;  /* per entry: with what the allocator adds */
	double ns[NR_FIGURES][NR_ROUNDS];
};

static double cpu_ns(void)
{
	struct timespec t;

	if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t))
		abort();
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static uint64_t rng(uint64_t *state)
{
	uint64_t x = *state;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return *state = x;
}

static void die(const char *what)
{
	fprintf(stderr, "index: %s\n", what);
	exit(1);
}

static void bench_init(struct bench *b)
{
	uint64_t seed = 12345;

	b->mm = calloc(1, sizeof(*b->mm));
	b->page = aligned_alloc(CACHE_LINE, NR_COLD * sizeof(*b->page));
	b->order = malloc(NR_COLD * sizeof(*b->order));
	if (!b->mm || !b->page || !b->order)
		die("no memory");
	if (threads_init(&b->mm->threads) || threads_enter(&b->mm->threads) ||
	    rcu_init(&b->mm->rcu, &b->mm->threads))
		die("no threads");
	for (uint32_t i = 0; i < NR_COLD; i++) {
		b->order[i] = i;
		atomic_init(&b->page[i].folio.flags, i);
	}
	for (uint32_t i = NR_COLD - 1; i > 0; i--) {
		uint32_t j = (uint32_t)(rng(&seed) % (i + 1)), x = b->order[i];

		b->order[i] = b->order[j];
		b->order[j] = x;
	}
}

static void bench_fini(struct bench *b)
{
	rcu_flush(&b->mm->rcu, true);
	rcu_fini(&b->mm->rcu);
	threads_fini(&b->mm->threads);
	free(b->order);
	free(b->page);
	free(b->mm);
}

/* Fill, or empty, a tree of `nr` entries; ns per entry. */
static double bench_store(struct bench *b, struct xarray *xa, uint32_t nr, bool random, bool fill)
{
	double start = cpu_ns();

	for (uint32_t i = 0; i < nr; i++) {
		uint32_t index = random ? b->order[i] : i;
		void *entry = fill ? &b->page[b->order[index]] : NULL;

		if (xa_store(b->mm, xa, index, entry, NULL))
			die("no memory");
		rcu_flush_if_due(&b->mm->rcu);
	}
	return (cpu_ns() - start) / nr;
}

/* Random loads of [first, first + nr), nr a power of two. */
static double bench_load(struct bench *b, struct xarray *xa, uint64_t first, uint32_t nr,
			 bool touch)
{
	uint64_t seed = 88172645463325252u, sum = 0;
	double start = cpu_ns();

	for (uint32_t i = 0; i < NR_LOADS; i++) {
		struct folio *f;

		rcu_read_lock(&b->mm->rcu);
		f = xa_load(xa, first + (rng(&seed) & (nr - 1)));
		sum += touch ? atomic_load_explicit(&f->flags, memory_order_relaxed) : f != NULL;
		rcu_read_unlock(&b->mm->rcu);
	}
	b->sum += sum;
	return (cpu_ns() - start) / NR_LOADS;
}

static double bench_walk(struct bench *b, struct xarray *xa)
{
	double start = cpu_ns();
	uint64_t at = 0, nr = 0;

	rcu_read_lock(&b->mm->rcu);
	while (xa_find(xa, &at, UINT64_MAX)) {
		nr++;
		at++;
	}
	rcu_read_unlock(&b->mm->rcu);
	if (nr != NR_COLD)
		die("entries are missing");
	return (cpu_ns() - start) / (double)nr;
}

/* What the allocator took from the system, so with its headers and gaps. */
static uint64_t heap_bytes(void)
{
	struct mallinfo2 m = mallinfo2();

	return m.arena + m.hblkhd;
}

/* Only the first time can this be seen: the allocator keeps what is freed. */
static void bench_size(struct bench *b)
{
	uint64_t before = heap_bytes();
	struct xarray xa;

	xa_init(&xa);
	bench_store(b, &xa, NR_COLD, false, true);
	b->bytes_heap = (double)(heap_bytes() - before) / NR_COLD;
	b->bytes_nodes = (double)xa_nr_nodes(&xa) * sizeof(struct xa_node) / NR_COLD;
	bench_store(b, &xa, NR_COLD, false, false);
	rcu_flush(&b->mm->rcu, true);
}

static void bench_round(struct bench *b, unsigned round)
{
	struct xarray xa;

	xa_init(&xa);
	bench_store(b, &xa, NR_HOT, false, true);
	b->ns[LOAD_HOT][round] = bench_load(b, &xa, 0, NR_HOT, false);
	bench_store(b, &xa, NR_HOT, false, false);

	b->ns[STORE_ORDERED][round] = bench_store(b, &xa, NR_COLD, false, true);
	b->ns[ERASE_ORDERED][round] = bench_store(b, &xa, NR_COLD, false, false);
	rcu_flush(&b->mm->rcu, true);

	b->ns[STORE_RANDOM][round] = bench_store(b, &xa, NR_COLD, true, true);
	b->ns[LOAD_COLD][round] = bench_load(b, &xa, 0, NR_COLD, false);
	b->ns[LOAD_COLD_TOUCH][round] = bench_load(b, &xa, 0, NR_COLD, true);
	b->ns[LOAD_MISS][round] = bench_load(b, &xa, 1ull << 40, NR_COLD, false);
	b->ns[WALK][round] = bench_walk(b, &xa);
	b->ns[ERASE_RANDOM][round] = bench_store(b, &xa, NR_COLD, true, false);
	rcu_flush(&b->mm->rcu, true);
}

static int compare_double(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int main(void)
{
	static struct bench b;

	bench_init(&b);
	bench_size(&b);
	for (unsigned round = 0; round < NR_ROUNDS; round++)
		bench_round(&b, round);
	printf("{\n  \"bench\": \"index\",\n  \"rounds\": %d,\n", NR_ROUNDS);
	printf("  \"entries_hot\": %u,\n  \"entries_cold\": %u,\n", NR_HOT, NR_COLD);
	for (unsigned i = 0; i < NR_FIGURES; i++) {
		qsort(b.ns[i], NR_ROUNDS, sizeof(double), compare_double);
		printf("  \"%s\": %.1f,\n", figure_name[i], b.ns[i][NR_ROUNDS / 2]);
	}
	printf("  \"node_bytes_per_entry\": %.2f,\n", b.bytes_nodes);
	printf("  \"heap_bytes_per_entry\": %.2f\n}\n", b.bytes_heap);
	bench_fini(&b);
	return b.sum ? 0 : 1;
}
