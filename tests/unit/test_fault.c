/* SPDX-License-Identifier: MIT */
/* base/fault.c: the n-th point of the armed kinds fails, once, in the arming thread only. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/fault.h"
#include "base/os.h"

#if UMM_FAULT_POINTS

static void test_disarmed(void **state)
{
	(void)state;
	for (int i = 0; i < 100; i++)
		assert_false(fault_point(FAULT_PAGE));
	assert_false(fault_disarm());
}

static void test_nth(void **state)
{
	(void)state;
	for (unsigned n = 1; n < 5; n++) {
		fault_arm(FAULT_PAGE, n);
		for (unsigned i = 1; i < 10; i++)
			assert_int_equal(fault_point(FAULT_PAGE), i == n);
		assert_true(fault_disarm());
		assert_false(fault_disarm());
	}
}

static void test_kinds(void **state)
{
	(void)state;
	fault_arm(FAULT_CHARGE | FAULT_IO, 2);
	assert_false(fault_point(FAULT_PAGE));
	assert_false(fault_point(FAULT_CHARGE));
	assert_false(fault_point(FAULT_INDEX));
	assert_true(fault_point(FAULT_IO));
	assert_false(fault_point(FAULT_IO));
	assert_true(fault_disarm());

	fault_arm(FAULT_ANY, 3);
	assert_false(fault_point(FAULT_ALLOC));
	assert_false(fault_point(FAULT_IO));
	assert_true(fault_point(FAULT_INDEX));
	assert_true(fault_disarm());
}

static void test_not_reached(void **state)
{
	(void)state;
	fault_arm(FAULT_PAGE, 3);
	assert_false(fault_point(FAULT_PAGE));
	assert_false(fault_disarm());
	/* Disarmed for good: the count does not go on. */
	for (int i = 0; i < 10; i++)
		assert_false(fault_point(FAULT_PAGE));
	fault_arm(FAULT_PAGE, 0);
	assert_false(fault_point(FAULT_PAGE));
	assert_false(fault_disarm());
}

static void count_faults(void *arg)
{
	unsigned *hits = arg;

	for (int i = 0; i < 100; i++)
		*hits += fault_point(FAULT_ANY);
}

static void test_other_threads_untouched(void **state)
{
	struct os_thread t;
	unsigned hits = 0;

	(void)state;
	/* Arm after the thread's own allocation. */
	fault_arm(FAULT_PAGE, 1);
	assert_int_equal(os_thread_create(&t, count_faults, &hits, "other"), 0);
	os_thread_join(&t);
	assert_int_equal(hits, 0);
	assert_true(fault_point(FAULT_PAGE));
	assert_true(fault_disarm());
}

static void test_system_calls_fail(void **state)
{
	struct os_thread t;
	struct os_io *io = NULL;
	void *base = NULL;
	unsigned hits;

	(void)state;
	fault_arm(FAULT_ALLOC, 1);
	assert_null(os_alloc(16));
	fault_arm(FAULT_ALLOC, 1);
	assert_null(os_alloc_aligned(64, 64));
	fault_arm(FAULT_ALLOC, 1);
	assert_null(os_reserve(PAGE_SIZE));
	fault_arm(FAULT_ALLOC, 1);
	assert_int_equal(os_arena_map(PAGE_SIZE, PAGE_SIZE, &base), -ENOMEM);
	assert_null(base);
	fault_arm(FAULT_ALLOC, 1);
	assert_int_equal(os_thread_create(&t, count_faults, &hits, "none"), -ENOMEM);
	fault_arm(FAULT_ALLOC, 1);
	assert_int_equal(os_io_create(0, &io), -ENOMEM);
	assert_null(io);
	/* Without the first ring there is an instance all the same: rings are tried again later. */
	fault_arm(FAULT_ALLOC, 2);
	assert_int_equal(os_io_create(0, &io), 0);
	assert_true(fault_disarm());
	os_io_destroy(io);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_disarmed),
		cmocka_unit_test(test_nth),
		cmocka_unit_test(test_kinds),
		cmocka_unit_test(test_not_reached),
		cmocka_unit_test(test_other_threads_untouched),
		cmocka_unit_test(test_system_calls_fail),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
	return fault_point(FAULT_ANY);
}

#endif
