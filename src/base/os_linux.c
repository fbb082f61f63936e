/* SPDX-License-Identifier: MIT */
/*
 * The contract with the system (os.h) on Linux, all but the files: memory, threads, CPUs, waiting.
 *
 * What stands here is process-wide by nature (thread numbers, the machine's shape), so this file
 * may have static variables. It calls nothing above itself.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "base/os.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <linux/mempolicy.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#if defined(__has_include)
#if __has_include(<sys/rseq.h>) && (defined(__x86_64__) || defined(__aarch64__))
#include <sys/rseq.h>
#define HAVE_RSEQ 1
#endif
#endif
#ifndef HAVE_RSEQ
#define HAVE_RSEQ 0
#endif

#include "base/fault.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* ---- small files of /proc and /sys ---- */

/* The file's beginning as a string; false if it cannot be read. */
static bool read_text(const char *path, char *buf, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n, len = 0;

	if (fd < 0)
		return false;
	do {
		n = read(fd, buf + len, size - 1 - (size_t)len);
		if (n > 0)
			len += n;
	} while (n > 0 || (n < 0 && errno == EINTR));
	close(fd);
	buf[len] = '\0';
	return n == 0 && len > 0;
}

/* The number after `key` at the start of a line, else `otherwise`. */
static uint64_t text_value(const char *text, const char *key, uint64_t otherwise)
{
	size_t len = strlen(key);

	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (!strncmp(line, key, len))
			return strtoull(line + len, NULL, 10);
	}
	return otherwise;
}

/* Next range of a kernel list such as "0-3,8". */
static bool next_range(const char **s, unsigned *lo, unsigned *hi)
{
	char *end;

	if (**s < '0' || **s > '9')
		return false;
	*lo = (unsigned)strtoul(*s, &end, 10);
	*hi = *lo;
	if (*end == '-')
		*hi = (unsigned)strtoul(end + 1, &end, 10);
	*s = *end == ',' ? end + 1 : end;
	return *hi >= *lo;
}

/* ---- the machine's shape ---- */

#define MAX_CPUS 8192u
#define MAX_NUMA_NODES 64u

static struct {
	_Atomic unsigned
		nr_cpus_ready; /* nr_cpus once all of this is read: os_cpu's short way in */
	unsigned nr_cpus;
	unsigned nr_nodes;
	/* Nodes are numbered densely here; this is the kernel's number of each. */
	uint16_t node_id[MAX_NUMA_NODES];
	uint8_t cpu_node[MAX_CPUS];
} machine;
static pthread_once_t machine_once = PTHREAD_ONCE_INIT;

static void machine_read_nodes(void)
{
	char path[64], nodes[1024], cpus[4096];
	const char *n = nodes;
	unsigned lo, hi, first, last;

	/* Nodes without memory do not count: nothing can be placed there. */
	if (!read_text("/sys/devices/system/node/has_memory", nodes, sizeof(nodes)))
		return;
	while (next_range(&n, &lo, &hi)) {
		for (unsigned id = lo; id <= hi && machine.nr_nodes < MAX_NUMA_NODES; id++) {
			const char *c = cpus;

			machine.node_id[machine.nr_nodes] = (uint16_t)id;
			(void)snprintf(path, sizeof(path),
				       "/sys/devices/system/node/node%u/cpulist", id);
			if (!read_text(path, cpus, sizeof(cpus)))
				cpus[0] = '\0';
			while (next_range(&c, &first, &last))
				for (unsigned cpu = first; cpu <= last && cpu < MAX_CPUS; cpu++)
					machine.cpu_node[cpu] = (uint8_t)machine.nr_nodes;
			machine.nr_nodes++;
		}
	}
}

static void machine_read(void)
{
	char text[1024];
	const char *s = text;
	long conf = sysconf(_SC_NPROCESSORS_CONF);
	unsigned lo, hi;

	/* The highest number counts, not how many there are: numbers may have gaps. */
	machine.nr_cpus = conf > 0 ? (unsigned)conf : 1;
	if (read_text("/sys/devices/system/cpu/present", text, sizeof(text)))
		while (next_range(&s, &lo, &hi))
			if (hi >= machine.nr_cpus)
				machine.nr_cpus = hi + 1;
	if (machine.nr_cpus > MAX_CPUS)
		machine.nr_cpus = MAX_CPUS;
	machine_read_nodes();
	if (machine.nr_nodes == 0)
		machine.nr_nodes = 1;
	atomic_store_explicit(&machine.nr_cpus_ready, machine.nr_cpus, memory_order_release);
}

unsigned os_nr_cpus(void)
{
	unsigned nr = atomic_load_explicit(&machine.nr_cpus_ready, memory_order_acquire);

	if (likely(nr))
		return nr;
	(void)pthread_once(&machine_once, machine_read);
	return machine.nr_cpus;
}

unsigned os_nr_numa_nodes(void)
{
	(void)pthread_once(&machine_once, machine_read);
	return machine.nr_nodes;
}

unsigned os_cpu_numa_node(unsigned cpu)
{
	(void)pthread_once(&machine_once, machine_read);
	return cpu < MAX_CPUS ? machine.cpu_node[cpu] : 0;
}

unsigned os_cpu(void)
{
	unsigned nr = os_nr_cpus();
	int cpu = -1;

#if HAVE_RSEQ
	/* One load, not a call through glibc (0.7 against 2.2 ns): a hit may come by here. */
	if (likely(__rseq_size)) {
		const volatile struct rseq *rs =
			(const volatile struct rseq *)((char *)__builtin_thread_pointer() +
						       __rseq_offset);

		cpu = (int)rs->cpu_id;
	}
#endif
	if (unlikely(cpu < 0))
		cpu = sched_getcpu();
	if (unlikely(cpu < 0))
		return 0;
	/* A CPU plugged in later shares another's number: callers index arrays with it. */
	return likely((unsigned)cpu < nr) ? (unsigned)cpu : (unsigned)cpu % nr;
}

/* ---- memory ---- */

void *os_alloc(size_t bytes)
{
	if (fault_point(FAULT_ALLOC))
		return NULL;
	return calloc(1, bytes);
}

void *os_alloc_aligned(size_t align, size_t bytes)
{
	void *p;

	VM_BUG_ON(align < 16 || (align & (align - 1)));
	if (fault_point(FAULT_ALLOC) || posix_memalign(&p, align, bytes))
		return NULL;
	return memset(p, 0, bytes);
}

void os_free(void *p)
{
	free(p);
}

void *os_reserve(size_t bytes)
{
	void *p;

	if (fault_point(FAULT_ALLOC))
		return NULL;
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		 -1, 0);
	return p == MAP_FAILED ? NULL : p;
}

void os_unreserve(void *p, size_t bytes)
{
	int err = p ? munmap(p, bytes) : 0;

	VM_BUG_ON(err);
}

int os_arena_map(size_t bytes, size_t align, void **ret_base)
{
	size_t len = round_up_u64(bytes, PAGE_SIZE);
	size_t slack = align > PAGE_SIZE ? align - PAGE_SIZE : 0;
	char *p, *base;

	if (bytes == 0 || len < bytes || len + slack < len || (align & (align - 1)))
		return -EINVAL;
	if (fault_point(FAULT_ALLOC))
		return -ENOMEM;
	/* Accounted (no MAP_NORESERVE): where overcommit is off, this is the call that refuses. */
	p = mmap(NULL, len + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return -ENOMEM;
	base = p;
	if (slack) {
		size_t head = (size_t)(-(uintptr_t)p & (align - 1));

		base = p + head;
		if ((head && munmap(p, head)) ||
		    (slack > head && munmap(base + len, slack - head))) {
			(void)munmap(p, len + slack);
			return -ENOMEM;
		}
	}
	*ret_base = base;
	return 0;
}

void os_arena_unmap(void *base, size_t bytes)
{
	int err = base ? munmap(base, round_up_u64(bytes, PAGE_SIZE)) : 0;

	VM_BUG_ON(err);
}

/* ---- how much memory there is to have ---- */

static uint64_t dir_value(const char *dir, const char *file, const char *key, uint64_t otherwise)
{
	char path[512], text[8192];

	if ((size_t)snprintf(path, sizeof(path), "%s/%s", dir, file) >= sizeof(path) ||
	    !read_text(path, text, sizeof(text)) || !strncmp(text, "max", 3))
		return otherwise;
	return text_value(text, key, otherwise);
}

/* What a control group would still give us: its limit less what it cannot get back from caches. */
static uint64_t cgroup_room(const char *dir, bool v2)
{
	uint64_t max = dir_value(dir, v2 ? "memory.max" : "memory.limit_in_bytes", "", UINT64_MAX);
	uint64_t used = dir_value(dir, v2 ? "memory.current" : "memory.usage_in_bytes", "", 0);
	uint64_t file = dir_value(dir, "memory.stat", v2 ? "file " : "total_cache ", 0);
	uint64_t shmem = dir_value(dir, "memory.stat", v2 ? "shmem " : "total_shmem ", 0);

	if (max == UINT64_MAX)
		return UINT64_MAX;
	used -= min_u64(used, file - min_u64(file, shmem));
	return max - min_u64(max, used);
}

/* Our groups from the leaf to the root; each level's limit holds. */
static uint64_t cgroup_path_room(const char *mount, const char *group, size_t group_len, bool v2)
{
	char dir[400];
	int len = snprintf(dir, sizeof(dir), "%s%.*s", mount, (int)group_len, group);
	uint64_t room = UINT64_MAX;
	size_t root_len = strlen(mount);

	if (len < 0 || (size_t)len >= sizeof(dir))
		return UINT64_MAX;
	for (;;) {
		char *slash = strrchr(dir, '/');

		room = min_u64(room, cgroup_room(dir, v2));
		if (strlen(dir) <= root_len || !slash)
			return room;
		/* "mount/a/b" -> "mount/a" -> "mount" */
		*slash = '\0';
	}
}

/*
 * How much could be taken now without the out-of-memory killer being called. The kernel does not
 * refuse page faults, it kills, and there is no other way to be told before.
 */
static uint64_t memory_room(void)
{
	char text[8192];
	uint64_t room = UINT64_MAX;

	if (read_text("/proc/meminfo", text, sizeof(text))) {
		uint64_t kib = text_value(text, "MemAvailable:", UINT64_MAX >> 11);

		room = (kib + text_value(text, "SwapFree:", 0)) << 10;
	}
	if (!read_text("/proc/self/cgroup", text, sizeof(text)))
		return room;
	for (const char *line = text; line && *line; line = strchr(line, '\n')) {
		const char *group, *controllers;

		line += *line == '\n';
		controllers = strchr(line, ':');
		group = controllers ? strchr(controllers + 1, ':') : NULL;
		if (!group)
			break;
		group++;
		if (!strncmp(controllers, "::", 2)) {
			size_t len = strcspn(group, "\n");

			room = min_u64(room, cgroup_path_room("/sys/fs/cgroup", group, len, true));
		} else if (!strncmp(controllers, ":memory:", 8)) {
			size_t len = strcspn(group, "\n");

			room = min_u64(
				room, cgroup_path_room("/sys/fs/cgroup/memory", group, len, false));
		}
	}
	return room;
}

/* ---- bringing the arena in ---- */

#define POPULATE_CHUNK (32ul << 20)
#define POPULATE_THREADS_MAX 64u

struct populate {
	char *base;
	size_t bytes;
	_Atomic size_t next;
	_Atomic int err;
};

/* For kernels before 5.14. Must not change what is there: writes back what it reads, in one go. */
static void touch_pages(char *p, size_t bytes)
{
	for (size_t off = 0; off < bytes; off += PAGE_SIZE)
		(void)atomic_fetch_or_explicit((_Atomic unsigned char *)(p + off), 0,
					       memory_order_relaxed);
}

static int populate_chunk(char *p, size_t bytes)
{
	for (int tries = 0; tries < 100; tries++) {
		if (!madvise(p, bytes, MADV_POPULATE_WRITE))
			return 0;
		if (errno == EINVAL) {
			touch_pages(p, bytes);
			return 0;
		}
		if (errno != EINTR && errno != EAGAIN)
			break;
	}
	return -ENOMEM;
}

static void populate_run(void *arg)
{
	struct populate *pop = arg;

	while (!atomic_load_explicit(&pop->err, memory_order_relaxed)) {
		size_t off =
			atomic_fetch_add_explicit(&pop->next, POPULATE_CHUNK, memory_order_relaxed);
		int err;

		if (off >= pop->bytes)
			break;
		err = populate_chunk(pop->base + off, min_u64(POPULATE_CHUNK, pop->bytes - off));
		if (err)
			atomic_store_explicit(&pop->err, err, memory_order_relaxed);
	}
}

/* First touch is slow (the kernel clears, a hypervisor may have to find memory): use all CPUs. */
static int populate_all(void *base, size_t bytes)
{
	struct populate pop = { .base = base, .bytes = bytes };
	struct os_thread helper[POPULATE_THREADS_MAX];
	unsigned nr = 0;
	unsigned want = (unsigned)min_u64(min_u64(os_nr_cpus(), POPULATE_THREADS_MAX),
					  (bytes + POPULATE_CHUNK - 1) / POPULATE_CHUNK);

	/* The caller works as well; with fewer helpers than wanted it only takes longer. */
	while (nr + 1 < want && !os_thread_create(&helper[nr], populate_run, &pop, "umm-populate"))
		nr++;
	populate_run(&pop);
	while (nr)
		os_thread_join(&helper[--nr]);
	return atomic_load_explicit(&pop.err, memory_order_relaxed);
}

int os_arena_populate(void *base, size_t bytes, unsigned flags, int numa_node)
{
	VM_BUG_ON((uintptr_t)base % PAGE_SIZE);
	if (fault_point(FAULT_ALLOC))
		return -ENOMEM;
	bytes = round_up_u64(bytes, PAGE_SIZE);
	/* Both are wishes. A kernel without huge pages or NUMA says no, and that is fine. */
	if (flags & OS_ARENA_HUGE)
		(void)madvise(base, bytes, MADV_HUGEPAGE);
	if (numa_node >= 0 && os_nr_numa_nodes() > 1 && (unsigned)numa_node < os_nr_numa_nodes()) {
		/* The raw call: libnuma would be a dependency for nothing more than this. */
		unsigned long mask[1024 / (8 * sizeof(unsigned long))] = { 0 };
		unsigned id = machine.node_id[numa_node];

		if (id < 1024) {
			mask[id / (8 * sizeof(mask[0]))] |= 1ul << id % (8 * sizeof(mask[0]));
			(void)syscall(SYS_mbind, base, bytes, MPOL_PREFERRED, mask, 1024ul + 1, 0u);
		}
	}
	if (!(flags & OS_ARENA_PREFAULT))
		return 0;
	if (bytes > memory_room())
		return -ENOMEM;
	return populate_all(base, bytes);
}

/* ---- threads ---- */

struct thread_start {
	pthread_t thread;
	void (*fn)(void *);
	void *arg;
	char name[16];
};

static void *thread_main(void *arg)
{
	struct thread_start *start = arg;

	(void)pthread_setname_np(pthread_self(), start->name);
	start->fn(start->arg);
	return NULL;
}

int os_thread_create(struct os_thread *t, void (*fn)(void *), void *arg, const char *name)
{
	struct thread_start *start = os_alloc(sizeof(*start));
	sigset_t all, before;
	int err;

	if (!start)
		return -ENOMEM;
	start->fn = fn;
	start->arg = arg;
	(void)snprintf(start->name, sizeof(start->name), "%s", name);
	/* A library's threads must not run the handlers of the program that hosts it. */
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&start->thread, NULL, thread_main, start);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (err) {
		/* EAGAIN itself, but for faults of ours. */
		os_free(start);
		return -EAGAIN;
	}
	t->impl = start;
	return 0;
}

void os_thread_join(struct os_thread *t)
{
	struct thread_start *start = t->impl;
	int err = pthread_join(start->thread, NULL);

	VM_BUG_ON(err);
	os_free(start);
	t->impl = NULL;
}

/*
 * Thread slots: a bitmap of the numbers in use, lowest free first, so that they stay dense.
 *
 * A thread's number is given back by the destructor of a pthread key. If other destructors of the
 * same thread call the library after that, the thread gets a number again and arms the key again;
 * pthreads runs destructors in up to four rounds, so the number is given back in the next one. (A
 * destructor that calls us in all four rounds loses a number.) The clear of a bit releases and the
 * set acquires, and all changes of a word are read-modify-writes: a new owner sees all that the old
 * one wrote.
 */
#define SLOT_WORDS (OS_MAX_THREADS / 64)

_Thread_local uint32_t os_thread_slot_cache __attribute__((tls_model("initial-exec")));

static _Atomic uint64_t slot_used[SLOT_WORDS];
static pthread_key_t slot_key;
static _Atomic bool slot_key_ok;
static pthread_once_t slot_once = PTHREAD_ONCE_INIT;

static void slot_put(uint32_t slot)
{
	uint64_t bit = 1ull << slot % 64;
	uint64_t old = atomic_fetch_and_explicit(&slot_used[slot / 64], ~bit, memory_order_release);

	VM_BUG_ON(!(old & bit));
}

static uint32_t slot_get(void)
{
	for (uint32_t w = 0; w < SLOT_WORDS; w++) {
		uint64_t used = atomic_load_explicit(&slot_used[w], memory_order_relaxed);

		while (~used) {
			unsigned b = (unsigned)__builtin_ctzll(~used);

			if (atomic_compare_exchange_weak_explicit(
				    &slot_used[w], &used, used | 1ull << b, memory_order_acquire,
				    memory_order_relaxed))
				return w * 64 + b;
		}
	}
	return OS_NO_SLOT;
}

static void slot_destructor(void *slot_plus_1)
{
	uint32_t slot = (uint32_t)(uintptr_t)slot_plus_1 - 1;

	VM_BUG_ON(os_thread_slot_cache != slot + 1);
	os_thread_slot_cache = 0;
	slot_put(slot);
}

static void slot_key_create(void)
{
	if (!pthread_key_create(&slot_key, slot_destructor))
		atomic_store_explicit(&slot_key_ok, true, memory_order_release);
}

/* If the library is unloaded, threads that end later must not jump to where the destructor was. */
__attribute__((destructor)) static void slot_key_delete(void)
{
	if (atomic_exchange_explicit(&slot_key_ok, false, memory_order_acq_rel))
		(void)pthread_key_delete(slot_key);
}

uint32_t os_thread_slot_slow(void)
{
	uint32_t slot;

	VM_BUG_ON(os_thread_slot_cache != 0);
	(void)pthread_once(&slot_once, slot_key_create);
	slot = slot_get();
	if (slot == OS_NO_SLOT)
		return OS_NO_SLOT;
	/* Without the key (a process that is exiting) the number is never given back: no matter. */
	if (atomic_load_explicit(&slot_key_ok, memory_order_acquire) &&
	    pthread_setspecific(slot_key, (void *)((uintptr_t)slot + 1))) {
		slot_put(slot);
		return OS_NO_SLOT;
	}
	os_thread_slot_cache = slot + 1;
	return slot;
}

/* ---- waiting, clock, random ---- */

_Static_assert(sizeof(_Atomic uint32_t) == sizeof(uint32_t), "a futex is 32 bits");

uint64_t os_now_ns(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static struct timespec timespec_of_ns(uint64_t ns)
{
	return (struct timespec){
		.tv_sec = (time_t)(ns / 1000000000u),
		.tv_nsec = (long)(ns % 1000000000u),
	};
}

int os_wait(_Atomic uint32_t *word, uint32_t expected, uint64_t deadline_ns)
{
	struct timespec deadline = timespec_of_ns(deadline_ns);
	long ret =
		syscall(SYS_futex, word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, expected,
			deadline_ns == OS_FOREVER ? NULL : &deadline, NULL, FUTEX_BITSET_MATCH_ANY);

	if (ret == 0)
		return 0;
	VM_BUG_ON(errno != EAGAIN && errno != EINTR && errno != ETIMEDOUT);
	if (errno == ETIMEDOUT)
		return -ETIMEDOUT;
	/* Signals, or a word that keeps changing, must not keep a caller beyond its deadline. */
	if (deadline_ns != OS_FOREVER && os_now_ns() >= deadline_ns)
		return -ETIMEDOUT;
	return 0;
}

void os_wake(_Atomic uint32_t *word, int n)
{
	/* No check: by now the word's owner may be done with it, and its memory may be gone. */
	(void)syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, n, NULL, NULL, 0);
}

void os_sleep_ns(uint64_t ns)
{
	struct timespec until = timespec_of_ns(os_now_ns() + ns);

	/* Until a point in time, so that signals do not prolong it. */
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
		;
}

void os_yield(void)
{
	(void)sched_yield();
}

void os_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("isb" ::: "memory");
#else
	__asm__ volatile("" ::: "memory");
#endif
}

uint64_t os_random(void)
{
	uint64_t v;
	long n;

	do
		n = syscall(SYS_getrandom, &v, sizeof(v), 0);
	while (n < 0 && errno == EINTR);
	if (n != (long)sizeof(v)) {
		/* A sandbox without getrandom: seeds still have to differ; none is a secret. */
		v = (os_now_ns() ^ (uintptr_t)&v) * 0x9e3779b97f4a7c15u;
		v ^= v >> 32;
	}
	return v;
}

int os_membarrier(void)
{
	/* Unregistered (first call, or the child of a fork): register and try again. */
	for (int tries = 0; tries < 2; tries++) {
		if (!syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0))
			return 0;
		if (errno != EPERM ||
		    syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0))
			break;
	}
	/* The expedited form may be short of memory; the slow one needs none. */
	if (!syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0))
		return 0;
	return -ENOSYS;
}

/* ---- mutex ---- */

#define MUTEX_SPINS 100

void os_mutex_lock_slow(struct os_mutex *m)
{
	/* Holds are short, and a sleep costs both sides a system call. */
	for (int i = 0; i < MUTEX_SPINS; i++) {
		if (atomic_load_explicit(&m->state, memory_order_relaxed) == 0 && os_mutex_try(m))
			return;
		os_relax();
	}
	/* Who has slept takes it as "somebody may sleep": it may not have been the only one. */
	while (atomic_exchange_explicit(&m->state, 2, memory_order_acquire) != 0)
		(void)os_wait(&m->state, 2, OS_FOREVER);
}

void os_mutex_wake(struct os_mutex *m)
{
	os_wake(&m->state, 1);
}
