/* SPDX-License-Identifier: MIT */
/* base/thread.c: slots of an instance, counting in them, and the refusal when there are too many. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/fault.h"
#include "base/thread.h"

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

static void test_init(void **state)
{
	struct umm_threads ts = { 0 };

	(void)state;
	/* Half-built or not built at all: nothing to do. */
	threads_fini(&ts);
#if UMM_FAULT_POINTS
	fault_arm(FAULT_ALLOC, 1);
	assert_int_equal(threads_init(&ts), -ENOMEM);
	assert_true(fault_disarm());
	assert_null(ts.slot);
#endif
	assert_int_equal(threads_init(&ts), 0);
	assert_int_equal(atomic_load(&ts.nr_slots), 0);
	assert_int_equal((uintptr_t)ts.slot % CACHE_LINE, 0);
	assert_int_equal(threads_enter(&ts), 0);
	assert_int_equal(threads_enter(&ts), 0);
	assert_int_equal(atomic_load(&ts.nr_slots), os_thread_slot() + 1);
	assert_ptr_equal(thread_self(&ts), &ts.slot[os_thread_slot()]);
	assert_int_equal(thread_self(&ts)->nr_held, 0);
	threads_fini(&ts);
	threads_fini(&ts);
}

/* Slots are reserved, not used: an instance costs what its threads touch. */
static void test_untouched_slots_take_no_memory(void **state)
{
	struct umm_threads ts;
	size_t bytes = OS_MAX_THREADS * sizeof(struct umm_thread), resident = 0;
	unsigned char *map = malloc(bytes / PAGE_SIZE);

	(void)state;
	assert_non_null(map);
	assert_int_equal(threads_init(&ts), 0);
	assert_int_equal(threads_enter(&ts), 0);
	thread_count(&thread_self(&ts)->event[0], 1);
	assert_int_equal(mincore(ts.slot, bytes, map), 0);
	for (size_t i = 0; i < bytes / PAGE_SIZE; i++)
		resident += map[i] & 1;
	/* One huge page at most, where the system makes them unasked. */
	assert_true(resident <= 512);
	threads_fini(&ts);
	free(map);
}

#define NR_COUNTERS 8
#define NR_COUNTS 10000

static void counter(void *arg)
{
	struct umm_threads *ts = arg;

	if (threads_enter(ts))
		abort();
	for (int i = 0; i < NR_COUNTS; i++)
		thread_count(&thread_self(ts)->event[3], 2);
}

/* Several generations of threads share slots one after the other; no count is lost. */
static void test_counts_survive_threads(void **state)
{
	struct umm_threads ts;
	struct os_thread t[NR_COUNTERS];
	uint64_t sum = 0;

	(void)state;
	assert_int_equal(threads_init(&ts), 0);
	for (int generation = 0; generation < 5; generation++) {
		for (int i = 0; i < NR_COUNTERS; i++)
			assert_int_equal(os_thread_create(&t[i], counter, &ts, "counter"), 0);
		for (int i = 0; i < NR_COUNTERS; i++)
			os_thread_join(&t[i]);
	}
	/* Dense: no more slots than threads alive at once (and the main thread's). */
	assert_true(atomic_load(&ts.nr_slots) <= NR_COUNTERS + 1);
	for (uint32_t s = 0; s < atomic_load(&ts.nr_slots); s++)
		sum += atomic_load(&ts.slot[s].event[3]);
	assert_int_equal(sum, 5ull * NR_COUNTERS * NR_COUNTS * 2);
	threads_fini(&ts);
}

static void test_two_instances(void **state)
{
	struct umm_threads a, b;

	(void)state;
	assert_int_equal(threads_init(&a), 0);
	assert_int_equal(threads_init(&b), 0);
	assert_int_equal(threads_enter(&a), 0);
	assert_int_equal(atomic_load(&b.nr_slots), 0);
	assert_int_equal(threads_enter(&b), 0);
	thread_count(&thread_self(&a)->event[0], 5);
	assert_int_equal(atomic_load(&thread_self(&b)->event[0]), 0);
	threads_fini(&a);
	threads_fini(&b);
}

/* ---- more threads than slots ---- */

struct crowd {
	struct umm_threads ts;
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	unsigned entered, refused, wrong;
	bool leave;
};

static void *crowd_member(void *arg)
{
	struct crowd *c = arg;
	int err = threads_enter(&c->ts);

	pthread_mutex_lock(&c->mutex);
	c->entered += err == 0;
	c->refused += err == -EAGAIN;
	c->wrong += err != 0 && err != -EAGAIN;
	pthread_cond_broadcast(&c->cond);
	while (!c->leave)
		pthread_cond_wait(&c->cond, &c->mutex);
	pthread_mutex_unlock(&c->mutex);
	return NULL;
}

static void test_too_many_threads(void **state)
{
	static struct crowd c = { .mutex = PTHREAD_MUTEX_INITIALIZER,
				  .cond = PTHREAD_COND_INITIALIZER };
	static pthread_t t[OS_MAX_THREADS + 2];
	pthread_attr_t attr;
	unsigned nr = 0;

	(void)state;
	if (SANITIZED)
		skip(); /* each thread would cost megabytes */
	assert_int_equal(threads_init(&c.ts), 0);
	assert_int_equal(threads_enter(&c.ts), 0);
	assert_int_equal(pthread_attr_init(&attr), 0);
	assert_int_equal(pthread_attr_setstacksize(&attr, 64 << 10), 0);
	while (nr < ARRAY_SIZE(t) && !pthread_create(&t[nr], &attr, crowd_member, &c))
		nr++;
	pthread_mutex_lock(&c.mutex);
	while (c.entered + c.refused + c.wrong < nr)
		pthread_cond_wait(&c.cond, &c.mutex);
	c.leave = true;
	pthread_cond_broadcast(&c.cond);
	pthread_mutex_unlock(&c.mutex);
	for (unsigned i = 0; i < nr; i++)
		pthread_join(t[i], NULL);
	pthread_attr_destroy(&attr);
	/* The main thread has one slot; the system may have allowed fewer threads than that. */
	assert_int_equal(c.wrong, 0);
	assert_int_equal(c.refused, nr > OS_MAX_THREADS - 1 ? nr - (OS_MAX_THREADS - 1) : 0);
	assert_true(atomic_load(&c.ts.nr_slots) <= OS_MAX_THREADS);
	threads_fini(&c.ts);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_init),
		cmocka_unit_test(test_untouched_slots_take_no_memory),
		cmocka_unit_test(test_counts_survive_threads),
		cmocka_unit_test(test_two_instances),
		cmocka_unit_test(test_too_many_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
