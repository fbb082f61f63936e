/* SPDX-License-Identifier: MIT */
/* base/lock.c: exclusion, exact counts, the contention split, and that the order checker fires. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/lock.h"
#include "base/rcu.h"

#if RCU_SEQ_CST
/* ThreadSanitizer: a case below starts a thread in a forked child. */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
	return "die_after_fork=0";
}
#endif

static struct umm_threads threads;

static int setup(void **state)
{
	(void)state;
	if (threads_init(&threads))
		return -1;
	return threads_enter(&threads);
}

static int teardown(void **state)
{
	(void)state;
	threads_fini(&threads);
	return 0;
}

struct figures {
	uint64_t acquisitions, contended_same, contended_other, wait_ns, hold_ns;
};

static struct figures sum(enum lock_class class)
{
	struct lock_counts c;

	lock_class_sum(&threads, class, &c);
	return (struct figures){
		.acquisitions = c.acquisitions,
		.contended_same = c.contended_same,
		.contended_other = c.contended_other,
		.wait_ns = c.wait_ns,
		.hold_ns = c.hold_ns,
	};
}

static void test_names(void **state)
{
	(void)state;
	assert_string_equal(lock_class_name(LOCK_LRUVEC), "lru_lock");
	assert_string_equal(lock_class_name(LOCK_ZONE), "zone_lock");
	for (int i = 0; i < NR_LOCK_CLASSES; i++)
		assert_non_null(lock_class_name(i));
}

/* ---- exclusion and counts ---- */

#define NR_WORKERS 4
#define NR_ROUNDS 20000

struct work {
	struct lock lock;
	uint64_t counter; /* not atomic: the lock must protect it */
	_Atomic uint32_t next_tag;
};

static void work(void *arg)
{
	struct work *w = arg;
	uint32_t tag = atomic_fetch_add(&w->next_tag, 1);
	unsigned tried = 0;

	if (threads_enter(&threads))
		abort();
	for (int i = 0; i < NR_ROUNDS; i++) {
		if (i % 4 || !lock_try(&threads, &w->lock, tag))
			lock_acquire_tagged(&threads, &w->lock, tag);
		else
			tried++;
		lock_assert_held(&threads, &w->lock);
		w->counter++;
		/* Give the processor away with the lock held now and then: there must be waiters. */
		if (i % 256 == 0)
			os_yield();
		lock_release(&threads, &w->lock);
	}
	if (tried > NR_ROUNDS / 4)
		abort();
}

static void run_workers(struct work *w)
{
	struct os_thread t[NR_WORKERS];

	for (int i = 0; i < NR_WORKERS; i++)
		assert_int_equal(os_thread_create(&t[i], work, w, "worker"), 0);
	for (int i = 0; i < NR_WORKERS; i++)
		os_thread_join(&t[i]);
}

static void test_exclusion_and_counts(void **state)
{
	struct work w = { 0 };
	struct figures c;

	(void)state;
	lock_init(&w.lock, LOCK_LRUVEC);
	run_workers(&w);
	assert_int_equal(w.counter, NR_WORKERS * NR_ROUNDS);
	c = sum(LOCK_LRUVEC);
	assert_int_equal(c.acquisitions, NR_WORKERS * NR_ROUNDS);
	assert_true(c.contended_same + c.contended_other <= c.acquisitions);
	assert_true(c.contended_same + c.contended_other == 0 || c.wait_ns > 0);
	assert_true(c.hold_ns > 0);
	/* Other classes have counted nothing. */
	assert_int_equal(sum(LOCK_ZONE).acquisitions, 0);
}

static void test_uncontended(void **state)
{
	struct lock l;
	struct figures c;

	(void)state;
	lock_init(&l, LOCK_ZONE);
	for (int i = 0; i < 1000; i++) {
		lock_acquire(&threads, &l);
		lock_release(&threads, &l);
	}
	c = sum(LOCK_ZONE);
	assert_int_equal(c.acquisitions, 1000);
	assert_int_equal(c.contended_same, 0);
	assert_int_equal(c.contended_other, 0);
	assert_int_equal(c.wait_ns, 0);
}

static void test_hold_is_sampled(void **state)
{
	struct lock l;

	(void)state;
	lock_init(&l, LOCK_PCP);
	for (int i = 1; i < LOCK_SAMPLE; i++) {
		lock_acquire(&threads, &l);
		os_sleep_ns(100000);
		lock_release(&threads, &l);
	}
	assert_int_equal(sum(LOCK_PCP).hold_ns, 0);
	lock_acquire(&threads, &l);
	os_sleep_ns(1000000);
	lock_release(&threads, &l);
	assert_true(sum(LOCK_PCP).hold_ns >= 1000000ull * LOCK_SAMPLE);
}

static void test_try(void **state)
{
	struct lock a, b;

	(void)state;
	lock_init(&a, LOCK_ZONE);
	lock_init(&b, LOCK_LRUVEC);
	assert_true(lock_try(&threads, &a, 1));
	assert_false(lock_try(&threads, &a, 1));
	/* Against the order: allowed, it does not wait. */
	assert_true(lock_try(&threads, &b, 1));
	lock_release(&threads, &a);
	lock_release(&threads, &b);
	assert_int_equal(sum(LOCK_ZONE).acquisitions, 1);
	assert_int_equal(sum(LOCK_ZONE).contended_same, 0);
}

/* ---- the contention split ---- */

struct waiter {
	struct lock *lock;
	uint32_t tag;
};

static void wait_for_lock(void *arg)
{
	struct waiter *w = arg;

	if (threads_enter(&threads))
		abort();
	lock_acquire_tagged(&threads, w->lock, w->tag);
	lock_release(&threads, w->lock);
}

/* One waiter with `theirs` while the lock is held with `ours`. */
static void contend(struct lock *l, uint32_t ours, uint32_t theirs)
{
	struct waiter w = { .lock = l, .tag = theirs };
	struct os_thread t;

	lock_acquire_tagged(&threads, l, ours);
	assert_int_equal(os_thread_create(&t, wait_for_lock, &w, "waiter"), 0);
	while (atomic_load(&l->m.state) != 2)
		os_yield();
	os_sleep_ns(1000000);
	lock_release(&threads, l);
	os_thread_join(&t);
}

static void test_contention_split(void **state)
{
	struct lock l;
	struct figures c;

	(void)state;
	lock_init(&l, LOCK_LRUVEC);
	contend(&l, 7, 7);
	c = sum(LOCK_LRUVEC);
	assert_int_equal(c.contended_same, 1);
	assert_int_equal(c.contended_other, 0);
	assert_true(c.wait_ns >= 1000000);

	contend(&l, 7, 8);
	contend(&l, LOCK_NO_TAG, 8);
	contend(&l, 9, LOCK_NO_TAG);
	c = sum(LOCK_LRUVEC);
	assert_int_equal(c.contended_same, 1);
	assert_int_equal(c.contended_other, 3);

	contend(&l, LOCK_NO_TAG, LOCK_NO_TAG);
	c = sum(LOCK_LRUVEC);
	assert_int_equal(c.contended_same, 2);
	assert_int_equal(c.contended_other, 3);
	assert_int_equal(c.acquisitions, 10);
}

/*
 * A holder that has the lock but has not written its tag yet works for the waiter's memcg: this must
 * not be called contention with another, a figure that is promised to be 0.
 */
static void test_no_false_contention(void **state)
{
	struct waiter w;
	struct os_thread t;
	struct lock l;

	(void)state;
	lock_init(&l, LOCK_LRUVEC);
	w = (struct waiter){ .lock = &l, .tag = 5 };
	/* What lock_acquire_tagged(5) does, stopped in the middle. */
	assert_true(os_mutex_try(&l.m));
	assert_int_equal(os_thread_create(&t, wait_for_lock, &w, "waiter"), 0);
	while (atomic_load(&l.m.state) != 2)
		os_yield();
	atomic_store(&l.tag, 5);
	os_mutex_unlock(&l.m);
	os_thread_join(&t);
	assert_int_equal(sum(LOCK_LRUVEC).contended_same, 1);
	assert_int_equal(sum(LOCK_LRUVEC).contended_other, 0);
}

static void test_order_accepted(void **state)
{
	struct lock l[NR_LOCK_CLASSES], parent;

	(void)state;
	for (int i = 0; i < NR_LOCK_CLASSES; i++)
		lock_init(&l[i], i);
	/* As many as may be held at once, top to bottom, released in another order. */
	for (int i = NR_LOCK_CLASSES - LOCK_HELD_MAX; i < NR_LOCK_CLASSES; i++)
		lock_acquire(&threads, &l[i]);
	for (int i = NR_LOCK_CLASSES - LOCK_HELD_MAX; i < NR_LOCK_CLASSES; i += 2)
		lock_release(&threads, &l[i]);
	for (int i = NR_LOCK_CLASSES - LOCK_HELD_MAX + 1; i < NR_LOCK_CLASSES; i += 2)
		lock_release(&threads, &l[i]);
	lock_init(&parent, LOCK_LRUVEC);
	lock_acquire(&threads, &l[LOCK_LRUVEC]);
	lock_acquire_nested(&threads, &parent, LOCK_NO_TAG);
	lock_acquire(&threads, &l[LOCK_ZONE]);
	lock_release(&threads, &l[LOCK_LRUVEC]);
	lock_release(&threads, &parent);
	lock_release(&threads, &l[LOCK_ZONE]);
	lock_acquire(&threads, &l[LOCK_MEMCG_TREE]);
	lock_assert_may_sleep(&threads);
	lock_release(&threads, &l[LOCK_MEMCG_TREE]);
	lock_assert_may_sleep(&threads);
}

/* ---- the checker must fire: each case dies in a child, and says why ---- */

#if UMM_DEBUG >= 1

static struct lock lru, lru2, lru3, zone, pcp, tree, gp;

static void init_locks(void)
{
	lock_init(&lru, LOCK_LRUVEC);
	lock_init(&lru2, LOCK_LRUVEC);
	lock_init(&lru3, LOCK_LRUVEC);
	lock_init(&zone, LOCK_ZONE);
	lock_init(&pcp, LOCK_PCP);
	lock_init(&tree, LOCK_MEMCG_TREE);
	lock_init(&gp, LOCK_RCU_GP);
}

static void inversion(void)
{
	lock_acquire(&threads, &zone);
	lock_acquire(&threads, &lru);
}

static void inversion_below_the_last(void)
{
	lock_acquire(&threads, &pcp);
	(void)lock_try(&threads, &tree, LOCK_NO_TAG);
	lock_acquire(&threads, &lru);
}

static void two_of_a_class(void)
{
	lock_acquire(&threads, &lru);
	lock_acquire(&threads, &lru2);
}

static void twice(void)
{
	lock_acquire(&threads, &pcp);
	lock_acquire(&threads, &pcp);
}

static void nested_without_child(void)
{
	lock_acquire_nested(&threads, &lru, LOCK_NO_TAG);
}

static void nested_third(void)
{
	lock_acquire(&threads, &lru);
	lock_acquire_nested(&threads, &lru2, LOCK_NO_TAG);
	lock_acquire_nested(&threads, &lru3, LOCK_NO_TAG);
}

static void nested_wrong_class(void)
{
	struct lock zone2;

	lock_init(&zone2, LOCK_ZONE);
	lock_acquire(&threads, &zone);
	lock_acquire_nested(&threads, &zone2, LOCK_NO_TAG);
}

static void release_not_held(void)
{
	lock_acquire(&threads, &pcp);
	lock_release(&threads, &zone);
}

static void not_held(void)
{
	lock_acquire(&threads, &pcp);
	lock_assert_held(&threads, &zone);
}

static void acquire_only(void *arg)
{
	if (threads_enter(&threads))
		_exit(3);
	lock_acquire(&threads, arg);
	/* Stay, so that the thread's slot is not handed on. */
	os_sleep_ns(10000000000u);
}

static void held_by_another(void)
{
	struct os_thread t;

	if (os_thread_create(&t, acquire_only, &lru, "other"))
		_exit(3);
	while (!atomic_load(&lru.owner))
		os_yield();
	lock_release(&threads, &lru);
}

static void sleeps_under_lru_lock(void)
{
	lock_acquire(&threads, &tree);
	lock_acquire(&threads, &lru);
	lock_assert_may_sleep(&threads);
}

static void too_many(void)
{
	static struct lock l[LOCK_HELD_MAX + 1];

	for (int i = 0; i <= LOCK_HELD_MAX; i++) {
		lock_init(&l[i], i);
		lock_acquire(&threads, &l[i]);
	}
}

static void unknown_thread(void)
{
	struct umm_threads other;

	if (threads_init(&other))
		_exit(3);
	lock_acquire(&other, &lru);
}

static const struct {
	void (*fn)(void);
	const char *says[3];
} deaths[] = {
	{ inversion, { "lock order", "lru_lock", "zone_lock" } },
	{ inversion_below_the_last, { "lock order", "lru_lock", "pcp" } },
	{ two_of_a_class, { "second lock of a class", "lru_lock", "lru_lock" } },
	{ twice, { "lock taken twice", "pcp", "pcp" } },
	{ nested_without_child, { "parent's lock", "lru_lock", "lru_lock" } },
	{ nested_third, { "parent's lock", "lru_lock", "lru_lock" } },
	{ nested_wrong_class, { "parent's lock", "zone_lock", "zone_lock" } },
	{ release_not_held, { "does not hold", "zone_lock", "pcp" } },
	{ not_held, { "not held", "zone_lock", "pcp" } },
	{ held_by_another, { "does not hold", "lru_lock", "lru_lock" } },
	{ sleeps_under_lru_lock, { "sleep", "lru_lock", "lru_lock" } },
	{ too_many, { "too many locks", "i_pages", "memcg_stock" } },
	{ unknown_thread, { "nr_slots", "nr_slots", "nr_slots" } },
};

/* Run fn in a child with its standard error going to `fd`. */
static void die_in_child(void (*fn)(void), int fd)
{
	const struct rlimit no_core = { 0, 0 };

	(void)setrlimit(RLIMIT_CORE, &no_core);
	(void)signal(SIGABRT, SIG_DFL);
	(void)dup2(fd, STDERR_FILENO);
	init_locks();
	fn();
	_exit(0);
}

static void expect_death(void (*fn)(void), const char *const *says)
{
	char text[1024];
	size_t len = 0;
	ssize_t n;
	int out[2], status;
	pid_t pid;

	assert_int_equal(pipe(out), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		die_in_child(fn, out[1]);
	close(out[1]);
	while ((n = read(out[0], text + len, sizeof(text) - 1 - len)) > 0)
		len += (size_t)n;
	close(out[0]);
	text[len] = '\0';
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT)
		fail_msg("no abort (status %#x): %s", status, text);
	for (int i = 0; i < 3; i++)
		if (!strstr(text, says[i]))
			fail_msg("no \"%s\" in: %s", says[i], text);
}

static void test_checker_fires(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(deaths); i++)
		expect_death(deaths[i].fn, deaths[i].says);
}

#else

static void test_checker_fires(void **state)
{
	(void)state;
	skip();
}

#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_names, setup, teardown),
		/* Forks, so before the first thread. */
		cmocka_unit_test_setup_teardown(test_checker_fires, setup, teardown),
		cmocka_unit_test_setup_teardown(test_exclusion_and_counts, setup, teardown),
		cmocka_unit_test_setup_teardown(test_uncontended, setup, teardown),
		cmocka_unit_test_setup_teardown(test_hold_is_sampled, setup, teardown),
		cmocka_unit_test_setup_teardown(test_try, setup, teardown),
		cmocka_unit_test_setup_teardown(test_contention_split, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_false_contention, setup, teardown),
		cmocka_unit_test_setup_teardown(test_order_accepted, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
