/* SPDX-License-Identifier: MIT */
/*
 * What tests of the whole engine share: an instance with its log captured, a store in memory whose delay
 * and errors can be programmed, counters by name, and the end of every test: drain, whole-state check.
 * Uses the public API only. cmocka's asserts belong to the main thread; other threads use must().
 */
#ifndef UMM_TESTS_HARNESS_H
#define UMM_TESTS_HARNESS_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <errno.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <umm.h>

#define KEEP __attribute__((unused)) static

/* For any thread: a failed condition ends the program with the place and the condition. */
#define must(cond)                                                                       \
	do {                                                                             \
		if (!(cond)) {                                                           \
			fprintf(stderr, "%s:%d: must: %s\n", __FILE__, __LINE__, #cond); \
			abort();                                                         \
		}                                                                        \
	} while (0)

/* ---- log ---- */

/* Warnings that the library gave; the last one's text. Tests expect 0 unless they provoke one. */
KEEP _Atomic int log_warnings;
KEEP char log_last[256];

KEEP void harness_log(void *ctx, enum umm_log_level level, const char *message)
{
	(void)ctx;
	if (level == UMM_LOG_INFO)
		return;
	log_warnings++;
	snprintf(log_last, sizeof(log_last), "%s", message);
	fprintf(stderr, "umm: %s\n", message);
}

/* ---- time ---- */

KEEP uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

KEEP void sleep_ns(uint64_t ns)
{
	struct timespec t = { .tv_sec = (time_t)(ns / 1000000000u),
			      .tv_nsec = (long)(ns % 1000000000u) };

	nanosleep(&t, NULL);
}

/* CPU time of the calling thread: what a busy machine does to it does not count. */
KEEP uint64_t thread_cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- builds ---- */

#if defined(__SANITIZE_THREAD__)
#define UNDER_TSAN 1
#else
#define UNDER_TSAN 0
#endif
#if defined(__SANITIZE_ADDRESS__)
#define UNDER_ASAN 1
#else
#define UNDER_ASAN 0
#endif

/* A number of rounds, so many times smaller under ThreadSanitizer. */
#define FEWER_IN_TSAN(n, factor) (UNDER_TSAN ? (n) / (factor) : (n))

/* ---- random ---- */

KEEP uint64_t rng_next(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15ull);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

/* ---- instance ---- */

struct fixture {
	umm_t *mm;
	umm_memcg_t *root;
};

KEEP struct umm_options fixture_options(uint64_t pages)
{
	struct umm_options o;

	umm_options_init(&o);
	o.memory_bytes = pages * UMM_PAGE_SIZE;
	o.log = harness_log;
	return o;
}

KEEP struct fixture fixture_create_with(const struct umm_options *o)
{
	struct fixture f;

	log_warnings = 0;
	must(umm_create(o, &f.mm) == 0);
	f.root = umm_memcg_root(f.mm);
	return f;
}

/* An arena of so many pages, everything else by default. */
KEEP struct fixture fixture_create(uint64_t pages)
{
	struct umm_options o = fixture_options(pages);

	return fixture_create_with(&o);
}

/* With everything closed and destroyed by the test: the state must be whole, and nothing left. */
KEEP void fixture_destroy(struct fixture *f)
{
	must(umm_check(f->mm) == 0);
	must(umm_destroy(f->mm) == 0);
	f->mm = NULL;
}

/* A memcg with a limit in pages; 0: none. */
KEEP umm_memcg_t *memcg_with_max(struct fixture *f, umm_memcg_t *parent, const char *name,
				 uint64_t pages)
{
	umm_memcg_t *cg;

	must(umm_memcg_create(f->mm, parent, name, &cg) == 0);
	if (pages)
		must(umm_memcg_set(cg, UMM_MEMORY_MAX, pages * UMM_PAGE_SIZE) == 0);
	return cg;
}

KEEP uint64_t memcg_pages(umm_memcg_t *cg, enum umm_memcg_param what)
{
	uint64_t bytes;

	must(umm_memcg_get(cg, what, &bytes) == 0);
	return bytes / UMM_PAGE_SIZE;
}

/* ---- counters by name ---- */

KEEP uint64_t stat_find(const struct umm_stat *st, ssize_t nr, const char *name)
{
	for (ssize_t i = 0; i < nr; i++)
		if (!strcmp(st[i].name, name))
			return st[i].value;
	fprintf(stderr, "no counter %s\n", name);
	abort();
}

KEEP uint64_t vmstat(umm_t *mm, const char *name)
{
	struct umm_stat st[128];

	return stat_find(st, umm_vmstat(mm, st, 128), name);
}

KEEP uint64_t memcg_stat(umm_memcg_t *cg, const char *name)
{
	struct umm_stat st[128];

	return stat_find(st, umm_memcg_stat(cg, st, 128), name);
}

KEEP uint64_t memcg_event(umm_memcg_t *cg, const char *name)
{
	struct umm_stat st[32];

	return stat_find(st, umm_memcg_events(cg, st, 32), name);
}

/* Pages on all lists of the instance, as far as they are not in a CPU's batch. */
KEEP uint64_t pages_listed(umm_t *mm)
{
	return vmstat(mm, "nr_inactive_file") + vmstat(mm, "nr_active_file") +
	       vmstat(mm, "nr_unevictable");
}

KEEP uint64_t pages_scanned(umm_t *mm)
{
	return vmstat(mm, "pgscan_direct") + vmstat(mm, "pgscan_kswapd") +
	       vmstat(mm, "pgscan_proactive");
}

KEEP uint64_t pages_reclaimed(umm_t *mm)
{
	return vmstat(mm, "pgsteal_direct") + vmstat(mm, "pgsteal_kswapd") +
	       vmstat(mm, "pgsteal_proactive");
}

KEEP struct umm_lock_stat lock_stat(umm_t *mm, const char *name)
{
	struct umm_lock_stat st[32];
	ssize_t nr = umm_lock_stats(mm, st, 32);

	for (ssize_t i = 0; i < nr; i++)
		if (!strcmp(st[i].name, name))
			return st[i];
	abort();
}

/* ---- a store in memory ---- */

/* Page `index` of store `id` consists of 8-byte words derived from both and the word's place. */
KEEP uint64_t page_word(uint64_t id, uint64_t index, unsigned word)
{
	uint64_t s = id * 0x100000001b3ull + index * 512 + word;

	return rng_next(&s);
}

KEEP void page_fill(void *page, uint64_t id, uint64_t index)
{
	uint64_t *w = page;

	for (unsigned i = 0; i < UMM_PAGE_SIZE / 8; i++)
		w[i] = page_word(id, index, i);
}

KEEP bool page_is(const void *page, uint64_t id, uint64_t index)
{
	const uint64_t *w = page;

	for (unsigned i = 0; i < UMM_PAGE_SIZE / 8; i++)
		if (w[i] != page_word(id, index, i))
			return false;
	return true;
}

struct mem_store {
	uint64_t id;
	uint64_t pages;
	_Atomic uint64_t reads; /* pages read from it */
	_Atomic uint64_t calls;
	_Atomic uint64_t delay_ns; /* of each call */
	_Atomic int fail_calls;    /* so many calls from now on fail ... */
	_Atomic int error;         /* ... with this -errno */
	_Atomic int closed;
};

KEEP ssize_t mem_store_read(void *ctx, const struct iovec *iov, int iovcnt, uint64_t offset)
{
	struct mem_store *s = ctx;
	uint64_t index = offset / UMM_PAGE_SIZE;
	ssize_t done = 0;

	s->calls++;
	if (s->delay_ns)
		sleep_ns(s->delay_ns);
	if (s->fail_calls > 0) {
		s->fail_calls--;
		return s->error;
	}
	for (int i = 0; i < iovcnt && index < s->pages; i++, index++) {
		must(iov[i].iov_len == UMM_PAGE_SIZE);
		page_fill(iov[i].iov_base, s->id, index);
		done += UMM_PAGE_SIZE;
		s->reads++;
	}
	return done;
}

KEEP void mem_store_close(void *ctx)
{
	struct mem_store *s = ctx;

	s->closed++;
}

KEEP const struct umm_store_ops mem_store_ops = {
	.size = sizeof(struct umm_store_ops),
	.read = mem_store_read,
	.close = mem_store_close,
};

KEEP umm_obj_t *mem_store_open(umm_memcg_t *cg, struct mem_store *s)
{
	umm_obj_t *obj;

	must(umm_store_open(cg, &mem_store_ops, s, s->pages * UMM_PAGE_SIZE, &obj) == 0);
	return obj;
}

/* Read one whole page and check its bytes. Returns 0 or -errno. */
KEEP int read_page_checked(umm_obj_t *obj, uint64_t id, uint64_t index)
{
	_Alignas(8) char buf[UMM_PAGE_SIZE];
	ssize_t got = umm_pread(obj, buf, sizeof(buf), index * UMM_PAGE_SIZE);

	if (got < 0)
		return (int)got;
	must(got == UMM_PAGE_SIZE && page_is(buf, id, index));
	return 0;
}

/* Pin a page and check its bytes. */
KEEP int pin_checked(umm_obj_t *obj, uint64_t id, uint64_t index, umm_folio_t **ret)
{
	int err = umm_pin(obj, index, 0, ret);

	if (!err)
		must(page_is(umm_folio_data(*ret), id, index));
	return err;
}

/* Is the page in the cache? */
KEEP bool page_is_cached(umm_obj_t *obj, uint64_t index)
{
	umm_folio_t *folio;

	if (umm_pin(obj, index, UMM_NOWAIT, &folio))
		return false;
	umm_unpin(folio);
	return true;
}

KEEP uint64_t pages_cached(umm_obj_t *obj)
{
	uint64_t nr = 0;

	for (uint64_t i = 0; i < umm_obj_bytes(obj) / UMM_PAGE_SIZE; i++)
		nr += page_is_cached(obj, i);
	return nr;
}

/* ---- threads ---- */

struct test_threads {
	pthread_t thread[256];
	unsigned nr;
};

KEEP void threads_spawn(struct test_threads *ts, unsigned nr, void *(*fn)(void *), void *arg)
{
	for (unsigned i = 0; i < nr; i++)
		must(pthread_create(&ts->thread[ts->nr++], NULL, fn, arg) == 0);
}

KEEP void threads_join(struct test_threads *ts)
{
	for (unsigned i = 0; i < ts->nr; i++)
		must(pthread_join(ts->thread[i], NULL) == 0);
	ts->nr = 0;
}

#endif
