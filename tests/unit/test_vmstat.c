/* SPDX-License-Identifier: MIT */
/* page/vmstat: names are what /proc/vmstat has, sums are exact over living and dead threads. */
#include "mm_fixture.h"

#include <pthread.h>

static void test_names(void **state)
{
	(void)state;
	for (unsigned a = 0; a < NR_VM_EVENTS; a++) {
		assert_non_null(vm_event_name(a));
		assert_true(vm_event_name(a)[0] != '\0');
		for (unsigned b = 0; b < a; b++)
			assert_string_not_equal(vm_event_name(a), vm_event_name(b));
	}
	assert_string_equal(vm_event_name(PGALLOC), "pgalloc_normal");
	assert_string_equal(vm_event_name(PAGEBLOCK_CLAIM), "pageblock_claim");
}

static void *count_thread(void *arg)
{
	struct mm *mm = arg;

	if (threads_enter(&mm->threads))
		return arg;
	for (unsigned i = 0; i < 1000; i++)
		for (unsigned e = 0; e < NR_VM_EVENTS; e++)
			count_vm_events(mm, e, e + 1);
	return NULL;
}

static void test_sum_over_threads(void **state)
{
	struct mm *mm = &fixture_new(16, 1)->mm;
	pthread_t t[8];

	(void)state;
	/* Two generations: the second one counts on in the slots of the first. */
	for (unsigned round = 1; round <= 2; round++) {
		for (unsigned i = 0; i < ARRAY_SIZE(t); i++)
			assert_int_equal(pthread_create(&t[i], NULL, count_thread, mm), 0);
		for (unsigned e = 0; e < NR_VM_EVENTS; e++)
			assert_true(vm_event_sum(mm, e) <= round * 8000 * (e + 1));
		for (unsigned i = 0; i < ARRAY_SIZE(t); i++) {
			void *failed;

			assert_int_equal(pthread_join(t[i], &failed), 0);
			assert_null(failed);
		}
		for (unsigned e = 0; e < NR_VM_EVENTS; e++)
			assert_int_equal(vm_event_sum(mm, e), round * 8000 * (e + 1));
	}
	fixture_delete(container_of(mm, struct fixture, mm));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_sum_over_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
