/* SPDX-License-Identifier: MIT */
/*
 * An instance of the lower floors only: threads, RCU, arena and, if asked for, the page allocator. For
 * tests of page/ and alloc/; everything fails the running test by itself.
 */
#ifndef TESTS_UNIT_MM_FIXTURE_H
#define TESTS_UNIT_MM_FIXTURE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc/page_alloc.h"
#include "base/fault.h"
#include "page/vmstat.h"

struct fixture {
	struct mm mm;
	char last_line[512];
	unsigned nr_lines;
};

/* Sizes and splits with every kind of edge: whole blocks, none, unaligned ends and splits. */
static const struct shape {
	uint64_t pages;
	unsigned nodes;
} shapes[] = {
	{ 4096, 1 }, { 4096, 2 },  { 4096, 3 },  { 1000, 1 },  { 1000, 2 },
	{ 1000, 3 }, { 17000, 1 }, { 17000, 2 }, { 17000, 3 },
};

static inline void fixture_log(void *ctx, enum umm_log_level level, const char *message)
{
	struct fixture *f = ctx;

	(void)level;
	(void)snprintf(f->last_line, sizeof(f->last_line), "%s", message);
	f->nr_lines++;
}

/* Threads and options, no arena yet. */
static inline struct fixture *fixture_new(uint64_t pages, unsigned nodes)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	f->mm.opt.memory_bytes = pages * PAGE_SIZE;
	f->mm.opt.nr_nodes = nodes;
	f->mm.opt.flags = UMM_NO_PREFAULT | UMM_NO_HUGEPAGES;
	f->mm.opt.log = fixture_log;
	f->mm.opt.log_ctx = f;
	assert_int_equal(threads_init(&f->mm.threads), 0);
	assert_int_equal(threads_enter(&f->mm.threads), 0);
	assert_int_equal(rcu_init(&f->mm.rcu, &f->mm.threads), 0);
	return f;
}

static inline void fixture_delete(struct fixture *f)
{
	rcu_fini(&f->mm.rcu);
	threads_fini(&f->mm.threads);
	free(f);
}

static inline struct mm *mm_new(uint64_t pages, unsigned nodes)
{
	struct fixture *f = fixture_new(pages, nodes);

	assert_int_equal(mm_arena_init(&f->mm), 0);
	assert_int_equal(page_alloc_init(&f->mm), 0);
	return &f->mm;
}

static inline int mm_buddy_check(struct mm *mm)
{
	int violations = 0;

	for (unsigned i = 0; i < mm->nr_nodes; i++)
		violations += buddy_check(mm, &mm->node[i].zone);
	if (violations)
		print_error("%s\n", container_of(mm, struct fixture, mm)->last_line);
	return violations;
}

/* All pages are back, in the largest pieces that fit, as at the start. */
static inline void assert_pristine(struct mm *mm)
{
	drain_all_pages(mm);
	assert_int_equal(mm_nr_free(mm), mm->nr_pages);
	assert_int_equal(mm_buddy_check(mm), 0);
	for (unsigned i = 0; i < mm->nr_nodes; i++) {
		struct zone *zone = &mm->node[i].zone;
		uint64_t want[NR_ORDERS] = { 0 };

		for (uint64_t pfn = zone->start_pfn; pfn < zone->end_pfn;) {
			unsigned order = MAX_ORDER;

			while (pfn % (1ul << order) || pfn + (1ul << order) > zone->end_pfn)
				order--;
			want[order]++;
			pfn += 1ul << order;
		}
		for (unsigned order = 0; order < NR_ORDERS; order++)
			assert_int_equal(zone->free_area[order].nr_free, want[order]);
	}
}

static inline void mm_delete(struct mm *mm)
{
	assert_pristine(mm);
	page_alloc_fini(mm);
	mm_arena_fini(mm);
	fixture_delete(container_of(mm, struct fixture, mm));
}

/* Drop the only reference and free. */
static inline void release_folio(struct mm *mm, struct folio *folio)
{
	assert_true(folio_ref_freeze(folio, 1));
	free_folio(mm, folio);
}

/* What was just allocated: one reference and nothing else. */
static inline void assert_fresh(const struct folio *folio, unsigned order)
{
	assert_int_equal(folio_ref_count(folio), 1);
	assert_int_equal(folio->flags, 0);
	assert_int_equal(folio->order, order);
	assert_null(folio->mapping);
	assert_null(folio->lru.next);
	assert_null(folio->lru.prev);
	assert_int_equal(folio->memcg_slot, MEMCG_SLOT_NONE);
	assert_int_equal(folio->private, 0);
	for (unsigned long i = 1; i < folio_nr_pages(folio); i++) {
		const struct page *tail = (const struct page *)folio + i;

		assert_int_equal(tail->folio.flags, PG_BIT(PG_tail));
		assert_int_equal(tail->folio.refcount, 0);
	}
}

/* Repeatable random numbers. */
static inline uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state * UINT64_C(0x2545f4914f6cdd1d) >> 16;
}

static inline void shuffle(struct folio **v, size_t nr, uint64_t *state)
{
	for (size_t i = nr; i > 1; i--) {
		size_t j = next_random(state) % i;
		struct folio *tmp = v[i - 1];

		v[i - 1] = v[j];
		v[j] = tmp;
	}
}

/* Stay on one CPU, so that its page lists can be watched. */
static inline void stay_on_this_cpu(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(sched_getcpu(), &set);
	assert_int_equal(sched_setaffinity(0, sizeof(set), &set), 0);
}

/* Does fn(arg) abort? In a child, whose last words are not for the test's output. */
static inline bool aborts(void (*fn)(void *), void *arg)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		(void)signal(SIGABRT, SIG_DFL);
		(void)!freopen("/dev/null", "w", stderr);
		fn(arg);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

#endif
