/* SPDX-License-Identifier: MIT */
/*
 * F-13, no progress is told and every wait has an end: a pin with a deadline returns when it has
 * passed and not before, an unpin ends the wait of the first in line, and destroying the memcg ends
 * all waits.
 */
#include "harness.h"

#define MAX_PAGES 16
#define STORE_PAGES 100
#define WAITERS 8
#define FOREVER_NS 60000000000ull

struct line {
	struct fixture f;
	umm_memcg_t *cg;
	umm_obj_t *obj;
	struct mem_store store;
	umm_folio_t *pin[MAX_PAGES];
	_Atomic unsigned next, started, pinned, stale;
};

static void line_open(struct line *l)
{
	*l = (struct line){ .store = { .id = 1, .pages = STORE_PAGES } };
	l->f = fixture_create(1024);
	l->cg = memcg_with_max(&l->f, NULL, "line", MAX_PAGES);
	l->obj = mem_store_open(l->cg, &l->store);
	for (unsigned i = 0; i < MAX_PAGES; i++)
		assert_int_equal(pin_checked(l->obj, 1, i, &l->pin[i]), 0);
}

static void line_close(struct line *l)
{
	for (unsigned i = 0; i < MAX_PAGES; i++)
		umm_unpin(l->pin[i]);
	assert_int_equal(umm_close(l->obj), 0);
	if (l->cg)
		assert_int_equal(umm_memcg_destroy(l->cg), 0);
	assert_int_equal(log_warnings, 0);
	fixture_destroy(&l->f);
}

static void test_deadline(void **state)
{
	const uint64_t timeout[] = { 0, 1, 5000000, 50000000 };
	umm_folio_t *folio = NULL;
	struct line l;

	(void)state;
	line_open(&l);
	assert_int_equal(umm_pin(l.obj, 50, UMM_NOWAIT, &folio), -EAGAIN);
	assert_int_equal(umm_pin(l.obj, 50, 0, &folio), -EBUSY);
	for (unsigned i = 0; i < sizeof(timeout) / sizeof(timeout[0]); i++) {
		uint64_t start = now_ns(), cpu = thread_cpu_ns();

		assert_int_equal(umm_pin_timed(l.obj, 50, 0, timeout[i], &folio), -ETIMEDOUT);
		assert_true(now_ns() - start >= timeout[i]);
		/* Waiting is sleeping: half of the time is far more than looking again may take. */
		assert_true(timeout[i] < 50000000 || thread_cpu_ns() - cpu <= timeout[i] / 2);
	}
	assert_null(folio);
	assert_true(vmstat(l.f.mm, "pin_wait") > 0);
	/* What is cached needs no wait. */
	assert_int_equal(umm_pin_timed(l.obj, 3, 0, 0, &folio), 0);
	umm_unpin(folio);
	assert_int_equal(umm_check(l.f.mm), 0);
	line_close(&l);
}

static void *waiter_main(void *arg)
{
	struct line *l = arg;
	unsigned me = l->next++;
	umm_folio_t *folio;
	int err;

	l->started++;
	err = umm_pin_timed(l->obj, MAX_PAGES + me, 0, FOREVER_NS, &folio);
	must(err == 0 || err == -ESTALE);
	if (err) {
		l->stale++;
		return NULL;
	}
	must(page_is(umm_folio_data(folio), 1, MAX_PAGES + me));
	umm_unpin(folio);
	l->pinned++;
	return NULL;
}

/* Until all of them wait, or as good as. */
static void start_waiters(struct line *l, struct test_threads *ts)
{
	uint64_t waits = vmstat(l->f.mm, "pin_wait");

	threads_spawn(ts, WAITERS, waiter_main, l);
	while (l->started < WAITERS || vmstat(l->f.mm, "pin_wait") < waits + WAITERS)
		sleep_ns(1000000);
}

static void test_unpin_wakes(void **state)
{
	struct test_threads ts = { .nr = 0 };
	struct line l;

	(void)state;
	line_open(&l);
	start_waiters(&l, &ts);
	must(l.pinned == 0);
	/* One page goes round: each that has it lets the next one in. */
	umm_unpin(l.pin[0]);
	threads_join(&ts);
	assert_int_equal(l.pinned, WAITERS);
	assert_int_equal(pin_checked(l.obj, 1, 0, &l.pin[0]), 0);
	line_close(&l);
}

static void test_destroy_wakes(void **state)
{
	struct test_threads ts = { .nr = 0 };
	struct line l;

	(void)state;
	line_open(&l);
	start_waiters(&l, &ts);
	must(umm_memcg_destroy(l.cg) == 0);
	l.cg = NULL;
	threads_join(&ts);
	assert_int_equal(l.stale, WAITERS);
	assert_int_equal(memcg_pages(l.f.root, UMM_MEMORY_CURRENT), MAX_PAGES);
	line_close(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_deadline),
		cmocka_unit_test(test_unpin_wakes),
		cmocka_unit_test(test_destroy_wakes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
