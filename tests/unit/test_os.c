/* SPDX-License-Identifier: MIT */
/* base/os_linux.c: memory, threads and their slots, waiting, the mutex. Files: test_os_io.c. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os.h"

#define MS 1000000ull

/* ---- memory ---- */

static bool all_zero(const unsigned char *p, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (p[i])
			return false;
	return true;
}

static void test_alloc(void **state)
{
	void *p[64];

	(void)state;
	/* Twice, so that memory that was used before is seen as well. */
	for (int round = 0; round < 2; round++) {
		for (size_t i = 0; i < ARRAY_SIZE(p); i++) {
			size_t bytes = 1 + i * 100, align = 16u << (i % 9);

			p[i] = i % 2 ? os_alloc(bytes) : os_alloc_aligned(align, bytes);
			assert_non_null(p[i]);
			assert_true(all_zero(p[i], bytes));
			assert_true(i % 2 || (uintptr_t)p[i] % align == 0);
			memset(p[i], 0xff, bytes);
		}
		for (size_t i = 0; i < ARRAY_SIZE(p); i++)
			os_free(p[i]);
	}
	os_free(NULL);
}

static void test_reserve(void **state)
{
	size_t bytes = 8ul << 30;
	unsigned char *p = os_reserve(bytes);

	(void)state;
	assert_non_null(p);
	assert_true(all_zero(p + bytes - PAGE_SIZE, PAGE_SIZE));
	p[bytes - 1] = 1;
	os_unreserve(p, bytes);
	os_unreserve(NULL, 0);
	assert_null(os_reserve(SIZE_MAX / 2));
}

static size_t resident_pages(void *base, size_t bytes)
{
	size_t nr = (bytes + PAGE_SIZE - 1) / PAGE_SIZE, resident = 0;
	unsigned char *map = malloc(nr);

	assert_non_null(map);
	assert_int_equal(mincore(base, bytes, map), 0);
	for (size_t i = 0; i < nr; i++)
		resident += map[i] & 1;
	free(map);
	return resident;
}

static void test_arena(void **state)
{
	static const size_t aligns[] = { 1, PAGE_SIZE, 64 << 10, 2 << 20, 4 << 20, 64 << 20 };
	const size_t bytes = (70ul << 20) + 3 * PAGE_SIZE;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(aligns); i++) {
		unsigned flags = i % 2 ? OS_ARENA_PREFAULT | OS_ARENA_HUGE : OS_ARENA_PREFAULT;
		void *base = NULL;

		assert_int_equal(os_arena_map(bytes, aligns[i], &base), 0);
		assert_int_equal((uintptr_t)base % aligns[i], 0);
		/* Without PREFAULT nothing comes in. */
		assert_int_equal(os_arena_populate(base, bytes, OS_ARENA_HUGE, 0), 0);
		assert_int_equal(resident_pages(base, bytes), 0);
		/* In parts, and over what is there already: contents stay. */
		assert_int_equal(os_arena_populate(base, 8 * PAGE_SIZE, OS_ARENA_PREFAULT, -1), 0);
		memset(base, 0x5a, PAGE_SIZE);
		assert_int_equal(os_arena_populate(base, bytes, flags, 0), 0);
		assert_int_equal(resident_pages(base, bytes), bytes / PAGE_SIZE);
		assert_int_equal(*(unsigned char *)base, 0x5a);
		for (size_t off = PAGE_SIZE; off < bytes; off += PAGE_SIZE)
			assert_int_equal(*(uint64_t *)((char *)base + off), 0);
		os_arena_unmap(base, bytes);
	}
	os_arena_unmap(NULL, 0);
}

static void test_arena_refusals(void **state)
{
	const size_t huge = 1ul << 42;
	void *base = &base, *p;

	(void)state;
	assert_int_equal(os_arena_map(0, PAGE_SIZE, &base), -EINVAL);
	assert_int_equal(os_arena_map(PAGE_SIZE, 3 * PAGE_SIZE, &base), -EINVAL);
	assert_int_equal(os_arena_map(SIZE_MAX, PAGE_SIZE, &base), -EINVAL);
	assert_int_equal(os_arena_map(SIZE_MAX / 4, PAGE_SIZE, &base), -ENOMEM);
	assert_ptr_equal(base, &base);
	/* More than there is: refused before the first page, instead of being killed on the way. */
	p = mmap(NULL, huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		 -1, 0);
	if (p == MAP_FAILED)
		skip();
	assert_int_equal(os_arena_populate(p, huge, OS_ARENA_PREFAULT, -1), -ENOMEM);
	assert_int_equal(resident_pages(p, 1 << 20), 0);
	munmap(p, huge);
}

/* ---- what old kernels and sandboxes refuse ---- */

/* From now on this process gets `err` from one system call. */
static bool forbid(unsigned nr, unsigned err)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | err),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { ARRAY_SIZE(filter), filter };

	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog);
}

/* In a child: no assertions here. Says what went wrong, 0: nothing, 77: filters do not work here. */
static int without_system_calls(void)
{
	const size_t bytes = 4ul << 20;
	void *base;

	if (!forbid(SYS_membarrier, ENOSYS) || !forbid(SYS_getrandom, ENOSYS) ||
	    !forbid(SYS_madvise, EINVAL))
		return 77;
	if (os_membarrier() != -ENOSYS)
		return 1;
	if (os_random() == os_random())
		return 2;
	if (os_arena_map(bytes, 2 << 20, &base))
		return 3;
	*(char *)base = 5;
	if (os_arena_populate(base, bytes, OS_ARENA_PREFAULT | OS_ARENA_HUGE, 0))
		return 4;
	if (resident_pages(base, bytes) != bytes / PAGE_SIZE || *(char *)base != 5)
		return 5;
	return 0;
}

static void test_sandbox(void **state)
{
	pid_t pid = fork();
	int status;

	(void)state;
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(without_system_calls());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) != 77)
		assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- CPUs ---- */

static void test_cpus(void **state)
{
	unsigned nr = os_nr_cpus(), nodes = os_nr_numa_nodes();
	cpu_set_t before, one;

	(void)state;
	assert_true(nr >= 1 && nodes >= 1);
	for (unsigned cpu = 0; cpu < nr + 10; cpu++)
		assert_true(os_cpu_numa_node(cpu) < nodes);
	assert_true(os_cpu_numa_node(UINT_MAX) < nodes);
	assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
	for (unsigned cpu = 0; cpu < nr && cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &before))
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
		assert_int_equal(os_cpu(), cpu);
	}
	assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
}

/* ---- threads ---- */

struct thread_seen {
	char name[32];
	bool usr1_blocked;
};

static void look_around(void *arg)
{
	struct thread_seen *seen = arg;
	sigset_t mask;

	if (pthread_getname_np(pthread_self(), seen->name, sizeof(seen->name)) ||
	    pthread_sigmask(SIG_SETMASK, NULL, &mask))
		abort();
	seen->usr1_blocked = sigismember(&mask, SIGUSR1);
}

static void test_thread(void **state)
{
	struct thread_seen seen = { 0 };
	struct os_thread t;
	sigset_t mask;

	(void)state;
	assert_int_equal(os_thread_create(&t, look_around, &seen, "a-name-of-over-15-bytes"), 0);
	os_thread_join(&t);
	assert_null(t.impl);
	assert_string_equal(seen.name, "a-name-of-over-");
	/* Signals are for the program's own threads. */
	assert_true(seen.usr1_blocked);
	assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &mask), 0);
	assert_false(sigismember(&mask, SIGUSR1));
}

#define NR_SHORT_THREADS 20000
#define AT_ONCE 4

static struct {
	uint64_t uses[OS_MAX_THREADS]; /* plain: each slot's owners come one after the other */
	_Atomic uint32_t highest;
} slots;

static void use_slot(void *arg)
{
	uint32_t s = os_thread_slot(), high = atomic_load(&slots.highest);

	(void)arg;
	if (s >= OS_MAX_THREADS || os_thread_slot() != s)
		abort();
	slots.uses[s]++;
	while (high < s && !atomic_compare_exchange_weak(&slots.highest, &high, s))
		;
}

static void run_short_threads(void (*fn)(void *), unsigned nr)
{
	struct os_thread t[AT_ONCE];

	for (unsigned i = 0; i < nr; i += AT_ONCE) {
		for (int k = 0; k < AT_ONCE; k++)
			assert_int_equal(os_thread_create(&t[k], fn, NULL, "short"), 0);
		for (int k = 0; k < AT_ONCE; k++)
			os_thread_join(&t[k]);
	}
}

static uint64_t slot_uses(void)
{
	uint64_t sum = 0;

	for (uint32_t s = 0; s < OS_MAX_THREADS; s++)
		sum += slots.uses[s];
	return sum;
}

static void test_slots_are_recycled(void **state)
{
	uint32_t mine = os_thread_slot();

	(void)state;
	memset(&slots, 0, sizeof(slots));
	run_short_threads(use_slot, NR_SHORT_THREADS);
	assert_int_equal(slot_uses(), NR_SHORT_THREADS);
	/* Nobody was given the main thread's, and they stayed dense. */
	assert_int_equal(slots.uses[mine], 0);
	assert_true(slots.highest <= AT_ONCE + 1);
	assert_int_equal(os_thread_slot(), mine);
}

static pthread_key_t late_key;

static void use_slot_late(void *rounds)
{
	use_slot(NULL);
	/* Again in the next round of destructors, when the slot has been given back. */
	if ((uintptr_t)rounds > 1)
		(void)pthread_setspecific(late_key, (void *)((uintptr_t)rounds - 1));
}

static void use_slot_and_late(void *arg)
{
	use_slot(arg);
	if (pthread_setspecific(late_key, (void *)2))
		abort();
}

static void test_slots_in_destructors(void **state)
{
	(void)state;
	(void)os_thread_slot();
	assert_int_equal(pthread_key_create(&late_key, use_slot_late), 0);
	memset(&slots, 0, sizeof(slots));
	run_short_threads(use_slot_and_late, 1000);
	assert_int_equal(slot_uses(), 3000);
	assert_true(slots.highest <= AT_ONCE + 1);
	assert_int_equal(pthread_key_delete(late_key), 0);
}

/* ---- waiting, clock, random ---- */

static void test_wait_returns(void **state)
{
	_Atomic uint32_t word = 1;
	uint64_t now = os_now_ns();

	(void)state;
	/* Not what was expected: at once. */
	assert_int_equal(os_wait(&word, 0, OS_FOREVER), 0);
	assert_int_equal(os_wait(&word, 0, now + 100000 * MS), 0);
	/* The deadline has passed, whatever the word says. */
	assert_int_equal(os_wait(&word, 1, now), -ETIMEDOUT);
	assert_int_equal(os_wait(&word, 1, 0), -ETIMEDOUT);
	assert_int_equal(os_wait(&word, 0, now), -ETIMEDOUT);
	assert_int_equal(os_wait(&word, 1, now + 20 * MS), -ETIMEDOUT);
	assert_true(os_now_ns() >= now + 20 * MS);
	os_wake(&word, 1);
}

#define NR_ROUNDS 2000

static void pong(void *arg)
{
	_Atomic uint32_t *word = arg;

	for (uint32_t i = 0; i < NR_ROUNDS; i++) {
		while (atomic_load(word) != 2 * i + 1)
			(void)os_wait(word, 2 * i, OS_FOREVER);
		atomic_store(word, 2 * i + 2);
		os_wake(word, 1);
	}
}

static void test_wait_and_wake(void **state)
{
	_Atomic uint32_t word = 0;
	struct os_thread t;

	(void)state;
	assert_int_equal(os_thread_create(&t, pong, (void *)&word, "pong"), 0);
	for (uint32_t i = 0; i < NR_ROUNDS; i++) {
		atomic_store(&word, 2 * i + 1);
		os_wake(&word, 1);
		while (atomic_load(&word) != 2 * i + 2)
			assert_int_equal(os_wait(&word, 2 * i + 1, os_now_ns() + 60000 * MS), 0);
	}
	os_thread_join(&t);
}

static void sleep_on(void *arg)
{
	_Atomic uint32_t *word = arg;

	while (atomic_load(word) == 0)
		(void)os_wait(word, 0, OS_FOREVER);
}

static void test_wake_all(void **state)
{
	_Atomic uint32_t word = 0;
	struct os_thread t[5];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(t); i++)
		assert_int_equal(os_thread_create(&t[i], sleep_on, (void *)&word, "sleeper"), 0);
	os_sleep_ns(5 * MS);
	atomic_store(&word, 1);
	os_wake(&word, INT_MAX);
	for (size_t i = 0; i < ARRAY_SIZE(t); i++)
		os_thread_join(&t[i]);
}

static void on_signal(int sig)
{
	(void)sig;
}

/* Signals neither end a sleep early nor prolong it, and do not break a wait. */
static void test_signals(void **state)
{
	const struct sigaction sa = { .sa_handler = on_signal };
	const struct itimerval often = { { 0, 1000 }, { 0, 1000 } }, never = { { 0, 0 }, { 0, 0 } };
	struct sigaction before;
	_Atomic uint32_t word = 0;
	uint64_t start;
	int err;

	(void)state;
	assert_int_equal(sigaction(SIGALRM, &sa, &before), 0);
	assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
	start = os_now_ns();
	os_sleep_ns(30 * MS);
	assert_true(os_now_ns() - start >= 30 * MS);
	start = os_now_ns();
	do
		err = os_wait(&word, 0, start + 30 * MS);
	while (!err);
	assert_int_equal(err, -ETIMEDOUT);
	assert_true(os_now_ns() - start >= 30 * MS);
	assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
	assert_int_equal(sigaction(SIGALRM, &before, NULL), 0);
}

static void test_random(void **state)
{
	uint64_t any = 0, all = UINT64_MAX, last = os_random();

	(void)state;
	for (int i = 0; i < 100; i++) {
		uint64_t v = os_random();

		assert_true(v != last);
		last = v;
		any |= v;
		all &= v;
	}
	assert_true(any == UINT64_MAX && all == 0);
}

static void test_membarrier(void **state)
{
	int err = os_membarrier();

	(void)state;
	assert_true(err == 0 || err == -ENOSYS);
	assert_int_equal(os_membarrier(), err);
}

/* ---- mutex ---- */

#define NR_LOCKERS 4
#define NR_LOCKS 50000

static struct {
	struct os_mutex mutex;
	uint64_t counter;
} shared;

static void locker(void *arg)
{
	(void)arg;
	for (int i = 0; i < NR_LOCKS; i++) {
		if (!os_mutex_try(&shared.mutex))
			os_mutex_lock_slow(&shared.mutex);
		shared.counter++;
		/* Hold it over a time slice now and then: others must get to sleep. */
		if (i % 1000 == 0)
			os_yield();
		os_mutex_unlock(&shared.mutex);
	}
}

static void test_mutex(void **state)
{
	struct os_thread t[NR_LOCKERS];

	(void)state;
	shared.counter = 0;
	for (int i = 0; i < NR_LOCKERS; i++)
		assert_int_equal(os_thread_create(&t[i], locker, NULL, "locker"), 0);
	for (int i = 0; i < NR_LOCKERS; i++)
		os_thread_join(&t[i]);
	assert_int_equal(shared.counter, NR_LOCKERS * NR_LOCKS);
	assert_int_equal(atomic_load(&shared.mutex.state), 0);
	assert_true(os_mutex_try(&shared.mutex));
	assert_false(os_mutex_try(&shared.mutex));
	os_mutex_unlock(&shared.mutex);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sandbox), /* forks, so before the first thread */
		cmocka_unit_test(test_alloc),
		cmocka_unit_test(test_reserve),
		cmocka_unit_test(test_arena),
		cmocka_unit_test(test_arena_refusals),
		cmocka_unit_test(test_cpus),
		cmocka_unit_test(test_thread),
		cmocka_unit_test(test_slots_are_recycled),
		cmocka_unit_test(test_slots_in_destructors),
		cmocka_unit_test(test_wait_returns),
		cmocka_unit_test(test_wait_and_wake),
		cmocka_unit_test(test_wake_all),
		cmocka_unit_test(test_signals),
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_membarrier),
		cmocka_unit_test(test_mutex),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
