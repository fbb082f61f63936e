/* SPDX-License-Identifier: MIT */
/*
 * What the stress tests share: a time limit, a printed seed, worker threads that come in rounds,
 * and the check of any run of bytes. Between two rounds nobody is in a call: the whole state is
 * checked there, with all that the workers keep (pins, allocations, handles) still in place.
 *
 * UMM_STRESS_SECONDS sets the time of the whole program, UMM_STRESS_SEED the seed.
 */
#ifndef UMM_TESTS_STRESS_H
#define UMM_TESTS_STRESS_H

#include "harness.h"

#include <sched.h>

#define STRESS_MAX_WORKERS 128

struct stress_worker {
	struct stress *stress;
	unsigned number;
	uint64_t rng;
	void *state; /* the test's */
	pthread_t thread;
};

struct stress {
	uint64_t seed;
	uint64_t end_ns; /* of this round */
	void *world;
	void (*step)(struct stress_worker *w); /* called again and again until the round is over */
	unsigned nr_workers;
	struct stress_worker worker[STRESS_MAX_WORKERS];
};

/* Seconds that the whole program may take. */
KEEP double stress_seconds(double normally)
{
	const char *env = getenv("UMM_STRESS_SECONDS");

	return env ? strtod(env, NULL) : normally;
}

KEEP uint64_t stress_seed(const char *name)
{
	const char *env = getenv("UMM_STRESS_SEED");
	uint64_t seed = env ? strtoull(env, NULL, 0) : now_ns() ^ (uint64_t)getpid() << 32;

	fprintf(stderr, "%s: seed %llu\n", name, (unsigned long long)seed);
	return seed;
}

KEEP uint64_t stress_below(struct stress_worker *w, uint64_t n)
{
	return rng_next(&w->rng) % n;
}

KEEP void *stress_worker_main(void *arg)
{
	struct stress_worker *w = arg;

	do {
		for (unsigned i = 0; i < 8; i++)
			w->stress->step(w);
	} while (now_ns() < w->stress->end_ns);
	return NULL;
}

KEEP void stress_init(struct stress *s, uint64_t seed, unsigned nr_workers, void *world,
		      void (*step)(struct stress_worker *w))
{
	must(nr_workers <= STRESS_MAX_WORKERS);
	memset(s, 0, sizeof(*s));
	s->seed = seed;
	s->world = world;
	s->step = step;
	s->nr_workers = nr_workers;
	for (unsigned i = 0; i < nr_workers; i++) {
		s->worker[i].stress = s;
		s->worker[i].number = i;
		s->worker[i].rng = seed * 1000003 + i;
	}
}

/* New threads for the workers, for so long; all of them have ended when it returns. */
KEEP void stress_round(struct stress *s, double seconds)
{
	s->end_ns = now_ns() + (uint64_t)(seconds * 1e9);
	for (unsigned i = 0; i < s->nr_workers; i++)
		must(pthread_create(&s->worker[i].thread, NULL, stress_worker_main,
				    &s->worker[i]) == 0);
	for (unsigned i = 0; i < s->nr_workers; i++)
		must(pthread_join(s->worker[i].thread, NULL) == 0);
}

/* Are these the bytes of object `id` from `offset` on? */
KEEP bool bytes_are(const void *buf, uint64_t id, uint64_t offset, size_t bytes)
{
	_Alignas(8) char page[UMM_PAGE_SIZE];
	const char *p = buf;

	while (bytes) {
		size_t in_page = offset % UMM_PAGE_SIZE, part = UMM_PAGE_SIZE - in_page;

		if (part > bytes)
			part = bytes;
		page_fill(page, id, offset / UMM_PAGE_SIZE);
		if (memcmp(p, page + in_page, part) != 0)
			return false;
		p += part;
		offset += part;
		bytes -= part;
	}
	return true;
}

/* A file with the pages of object `id`; removed when closed by the caller of unlink. */
KEEP void file_create(char *path, size_t cap, uint64_t id, uint64_t pages)
{
	_Alignas(8) char page[UMM_PAGE_SIZE];
	int fd;

	snprintf(path, cap, "%s/umm-test-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	fd = mkstemp(path);
	must(fd >= 0);
	for (uint64_t i = 0; i < pages; i++) {
		page_fill(page, id, i);
		must(write(fd, page, sizeof(page)) == sizeof(page));
	}
	must(close(fd) == 0);
}

#endif
