/* SPDX-License-Identifier: MIT */
/*
 * What os.h promises, checked on both implementations: this file is built once for Linux and once, with
 * UMM_SIM, for virtual CPUs, where all of it runs as threads of a world.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#ifdef UMM_SIM
#include "sim/os_sim.h"
#endif

#define CHECK(condition)                                                                \
	do {                                                                            \
		if (!(condition)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			exit(1);                                                        \
		}                                                                       \
	} while (0)

#define MS UINT64_C(1000000)
#define NR_THREADS 12u

/* ---- memory ---- */

static bool all_zero(const unsigned char *p, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (p[i])
			return false;
	return true;
}

static void check_alloc(void)
{
	void *p[64];

	/* Twice, so that memory that was used before is seen as well. */
	for (int round = 0; round < 2; round++) {
		for (size_t i = 0; i < ARRAY_SIZE(p); i++) {
			size_t bytes = 1 + i * 100, align = 16u << (i % 9);

			p[i] = i % 2 ? os_alloc(bytes) : os_alloc_aligned(align, bytes);
			CHECK(p[i]);
			CHECK(all_zero(p[i], bytes));
			CHECK(i % 2 || (uintptr_t)p[i] % align == 0);
			memset(p[i], 0xff, bytes);
		}
		for (size_t i = 0; i < ARRAY_SIZE(p); i++)
			for (size_t j = 0; j < 1 + i * 100; j++)
				CHECK(((unsigned char *)p[i])[j] == 0xff);
		for (size_t i = 0; i < ARRAY_SIZE(p); i++)
			os_free(p[i]);
	}
	os_free(NULL);
}

static void check_ranges(void)
{
	size_t bytes = 4ul << 30;
	unsigned char *p = os_reserve(bytes);
	void *base = NULL;

	CHECK(p && all_zero(p + bytes - PAGE_SIZE, PAGE_SIZE));
	p[bytes - 1] = 1;
	os_unreserve(p, bytes);
	os_unreserve(NULL, 0);
	CHECK(!os_reserve(SIZE_MAX / 2));

	CHECK(os_arena_map(0, PAGE_SIZE, &base) == -EINVAL);
	CHECK(os_arena_map(PAGE_SIZE, 3 * PAGE_SIZE, &base) == -EINVAL);
	CHECK(os_arena_map(SIZE_MAX, PAGE_SIZE, &base) == -EINVAL);
	CHECK(os_arena_map(SIZE_MAX / 4, PAGE_SIZE, &base) == -ENOMEM);
	CHECK(!base);
	CHECK(!os_arena_map((4ul << 20) + 5, 4ul << 20, &base));
	CHECK((uintptr_t)base % (4ul << 20) == 0);
	CHECK(!os_arena_populate(base, 8 * PAGE_SIZE, OS_ARENA_PREFAULT, -1));
	CHECK(all_zero(base, 8 * PAGE_SIZE));
	os_arena_unmap(base, (4ul << 20) + 5);
	os_arena_unmap(NULL, 0);
}

/* ---- threads ---- */

struct shared {
	struct os_mutex mutex;
	_Atomic uint32_t word, running;
	uint64_t count; /* under the mutex */
	uint32_t slots[NR_THREADS];
	uint32_t nr_slots;
};

#define TURNS 500u

static void count_up(void *arg)
{
	struct shared *s = arg;

	CHECK(os_thread_slot() != OS_NO_SLOT);
	CHECK(os_cpu() < os_nr_cpus() && os_cpu_numa_node(os_cpu()) < os_nr_numa_nodes());
	for (unsigned i = 0; i < TURNS; i++) {
		uint64_t seen;

		if (!os_mutex_try(&s->mutex))
			os_mutex_lock_slow(&s->mutex);
		seen = s->count;
		if (i % 100 == 0)
			os_sleep_ns(20000); /* others have to wait, some of them asleep */
		else if (i % 10 == 0)
			os_yield();
		CHECK(s->count == seen);
		s->count = seen + 1;
		if (i == 0)
			s->slots[s->nr_slots++] = os_thread_slot();
		os_mutex_unlock(&s->mutex);
		os_relax();
	}
	/* All have a number at the same time, so all numbers differ. */
	atomic_fetch_add(&s->running, 1);
	while (atomic_load(&s->running) < NR_THREADS)
		os_sleep_ns(100000);
}

static void check_threads(void)
{
	struct shared s = { 0 };
	struct os_thread t[NR_THREADS];
	uint32_t own = os_thread_slot();

	for (unsigned i = 0; i < NR_THREADS; i++)
		CHECK(!os_thread_create(&t[i], count_up, &s, "counts"));
	for (unsigned i = 0; i < NR_THREADS; i++) {
		os_thread_join(&t[i]);
		CHECK(!t[i].impl);
	}
	CHECK(s.count == (uint64_t)NR_THREADS * TURNS);
	CHECK(os_mutex_try(&s.mutex));
	CHECK(!os_mutex_try(&s.mutex));
	os_mutex_unlock(&s.mutex);
	CHECK(s.nr_slots == NR_THREADS);
	for (unsigned i = 0; i < NR_THREADS; i++)
		for (unsigned j = 0; j < i; j++)
			CHECK(s.slots[i] != s.slots[j]);
	for (unsigned i = 0; i < NR_THREADS; i++)
		CHECK(s.slots[i] != own);
	CHECK(os_thread_slot() == own);
}

/* ---- waiting ---- */

static void sleep_on_word(void *arg)
{
	struct shared *s = arg;

	atomic_fetch_add(&s->running, 1);
	while (atomic_load(&s->word) == 0)
		CHECK(!os_wait(&s->word, 0, OS_FOREVER));
	atomic_fetch_sub(&s->running, 1);
}

static void check_wait(void)
{
	struct shared s = { 0 };
	struct os_thread t[NR_THREADS];
	uint64_t before = os_now_ns();

	CHECK(os_wait(&s.word, 1, OS_FOREVER) == 0); /* another value: not at all */
	CHECK(os_wait(&s.word, 0, before) == -ETIMEDOUT);
	CHECK(os_wait(&s.word, 0, before + 5 * MS) == -ETIMEDOUT);
	CHECK(os_now_ns() >= before + 5 * MS);
	before = os_now_ns();
	os_sleep_ns(3 * MS);
	CHECK(os_now_ns() >= before + 3 * MS);

	for (unsigned i = 0; i < NR_THREADS; i++)
		CHECK(!os_thread_create(&t[i], sleep_on_word, &s, "sleeps"));
	while (atomic_load(&s.running) < NR_THREADS)
		os_yield();
	os_sleep_ns(MS);
	CHECK(atomic_load(&s.running) == NR_THREADS);
	os_wake(&s.word, INT32_MAX); /* the word is as it was: they sleep again */
	os_sleep_ns(MS);
	CHECK(atomic_load(&s.running) == NR_THREADS);
	atomic_store(&s.word, 1);
	os_wake(&s.word, INT32_MAX);
	for (unsigned i = 0; i < NR_THREADS; i++)
		os_thread_join(&t[i]);
	CHECK(atomic_load(&s.running) == 0);
}

/* Two threads hand a word to and fro: each wake-up must arrive. */
static void answer(void *arg)
{
	struct shared *s = arg;

	for (uint32_t turn = 0; turn < 200; turn++) {
		while (atomic_load(&s->word) != 2 * turn + 1)
			(void)os_wait(&s->word, 2 * turn, OS_FOREVER);
		atomic_store(&s->word, 2 * turn + 2);
		os_wake(&s->word, 1);
	}
}

static void check_ping_pong(void)
{
	struct shared s = { 0 };
	struct os_thread t;

	CHECK(!os_thread_create(&t, answer, &s, "answers"));
	for (uint32_t turn = 0; turn < 200; turn++) {
		atomic_store(&s.word, 2 * turn + 1);
		os_wake(&s.word, 1);
		while (atomic_load(&s.word) != 2 * turn + 2)
			(void)os_wait(&s.word, 2 * turn + 1, OS_FOREVER);
	}
	os_thread_join(&t);
}

static void check_all(void *arg)
{
	(void)arg;
	check_alloc();
	check_ranges();
	check_threads();
	check_wait();
	check_ping_pong();
	CHECK(os_random() != os_random());
	CHECK(os_membarrier() == 0 || os_membarrier() == -ENOSYS);
}

int main(void)
{
#ifdef UMM_SIM
	static const unsigned cpus[] = { 1, 2, 7, 104 };
	struct sim_costs costs;

	sim_costs_default(&costs);
	for (size_t i = 0; i < ARRAY_SIZE(cpus); i++) {
		struct sim_shape shape = {
			.nr_cpus = cpus[i], .nr_nodes = 1 + i % 2, .smt = i > 1, .seed = i
		};

		CHECK(!os_sim_run(&shape, &costs, check_all, NULL));
	}
#else
	check_all(NULL);
#endif
	return 0;
}
