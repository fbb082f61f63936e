/* SPDX-License-Identifier: MIT */
/*
 * The whole contract with the system. Everything the engine needs that is not plain C11 stands here:
 * memory, threads, CPU ids, waiting, clock, random numbers, mutexes, file I/O. os_linux.c and os_io.c
 * implement it; a second implementation on virtual CPUs can be linked instead. No other file of the
 * engine makes a system call, reads a clock or calls malloc.
 *
 * Unless said otherwise: 0 or -errno, any thread, no lock needed.
 */
#ifndef UMM_BASE_OS_H
#define UMM_BASE_OS_H

#include <sys/types.h>
#include <sys/uio.h>

#include "base/base.h"

/* ---- memory ---- */

/* Zeroed metadata memory; NULL if there is none (fault point FAULT_ALLOC). */
void *os_alloc(size_t bytes);
/* The same, aligned to `align` (a power of two >= 16). */
void *os_alloc_aligned(size_t align, size_t bytes);
void os_free(void *p);

/* Reserve address space that reads as zero and takes memory only where it is touched. NULL if refused. */
void *os_reserve(size_t bytes);
void os_unreserve(void *p, size_t bytes);

enum { OS_ARENA_HUGE = 1u << 0, OS_ARENA_PREFAULT = 1u << 1 };

/* Map `bytes` of memory for page frames, aligned to `align`, huge pages and pre-faulted as asked. */
int os_arena_map(size_t bytes, size_t align, void **ret_base);
/* Bring part of an arena in, on a real NUMA node (-1: wherever). -ENOMEM if the system has not enough. */
int os_arena_populate(void *base, size_t bytes, unsigned flags, int numa_node);
void os_arena_unmap(void *base, size_t bytes);

/* ---- threads and CPUs ---- */

struct os_thread {
	void *impl;
};

int os_thread_create(struct os_thread *t, void (*fn)(void *), void *arg, const char *name);
void os_thread_join(struct os_thread *t);

#define OS_MAX_THREADS 8192u
#define OS_NO_SLOT UINT32_MAX
/*
 * A small dense number of the calling thread, below OS_MAX_THREADS, its own until it ends; then the
 * number goes to another thread (with everything that the old thread wrote visible to it).
 * OS_NO_SLOT if there are too many threads: API entry points refuse with -EAGAIN then.
 */
uint32_t os_thread_slot_slow(void);
extern _Thread_local uint32_t os_thread_slot_cache __attribute__((tls_model("initial-exec")));
static inline uint32_t os_thread_slot(void)
{
	uint32_t s = os_thread_slot_cache; /* slot + 1, 0 while not asked for */
	return likely(s) ? s - 1 : os_thread_slot_slow();
}

/* CPU the thread runs on right now (a hint: it may move at any time) and how many there can be. */
unsigned os_cpu(void);
unsigned os_nr_cpus(void);
/* Real NUMA nodes of the machine (1 if unknown), and the one of a CPU. */
unsigned os_nr_numa_nodes(void);
unsigned os_cpu_numa_node(unsigned cpu);

/* ---- waiting, clock, random ---- */

#define OS_FOREVER UINT64_MAX

/* Nanoseconds of a monotonic clock. */
uint64_t os_now_ns(void);
/* Sleep while *word == expected, until os_wake, the deadline (os_now_ns time), or for no reason.
 * -ETIMEDOUT once the deadline has passed, else 0: the caller looks at its condition again. */
int os_wait(_Atomic uint32_t *word, uint32_t expected, uint64_t deadline_ns);
/* Wake up to n sleepers on the word. */
void os_wake(_Atomic uint32_t *word, int n);
void os_sleep_ns(uint64_t ns);
void os_yield(void);
/* One turn of a short spin. */
void os_relax(void);
uint64_t os_random(void);

/* Every other thread of the process passes a full memory barrier before this returns; -ENOSYS if the
 * system cannot. */
int os_membarrier(void);

/* ---- mutex: what base/lock.h is made of ---- */

struct os_mutex {
	_Atomic uint32_t state; /* 0 free, 1 held, 2 held and somebody may sleep */
};

/* On virtual CPUs (UMM_SIM) the lock is the scheduler's. */
#ifdef UMM_SIM
bool os_mutex_try(struct os_mutex *m);
void os_mutex_lock_slow(struct os_mutex *m);
void os_mutex_unlock(struct os_mutex *m);
#else
static inline bool os_mutex_try(struct os_mutex *m)
{
	uint32_t free = 0;

	return atomic_compare_exchange_strong_explicit(&m->state, &free, 1, memory_order_acquire,
						       memory_order_relaxed);
}
/* Spin for a moment, then sleep. */
void os_mutex_lock_slow(struct os_mutex *m);
void os_mutex_wake(struct os_mutex *m);
static inline void os_mutex_unlock(struct os_mutex *m)
{
	if (atomic_exchange_explicit(&m->state, 0, memory_order_release) == 2)
		os_mutex_wake(m);
}
#endif

/* ---- files ---- */

struct os_file {
	int fd;
	uint64_t bytes;
	uint64_t dev, ino;
};

enum os_open_mode { OS_OPEN_DIRECT, OS_OPEN_BUFFERED };
/* Do not keep the pages in the kernel's cache. -EOPNOTSUPP where the file system, or the kernel, cannot. */
enum { OS_READ_DONTCACHE = 1u << 0 };

/* Open a regular file for reading. -EISDIR, -EINVAL (special file), -EINVAL (direct I/O refused), errno. */
int os_file_open(const char *path, enum os_open_mode mode, struct os_file *ret);
void os_file_close(struct os_file *f);
/* Ask the kernel to drop its cached pages of a range. Best effort. */
void os_file_drop_cache(struct os_file *f, uint64_t offset, uint64_t bytes);

/* One read. `result` gets the bytes read (short only at the end of the file) or -errno. */
struct os_read {
	int fd;
	unsigned flags; /* OS_READ_* */
	const struct iovec *iov;
	int iovcnt;
	uint64_t offset;
	ssize_t result;
};

/* A pool of I/O rings of one instance; grows on demand up to a bound. */
struct os_io;
enum { OS_IO_NO_URING = 1u << 0 };
int os_io_create(unsigned flags, struct os_io **ret);
void os_io_destroy(struct os_io *io);
/* "io_uring" or "preadv": what is in use. */
const char *os_io_name(const struct os_io *io);
/* Do all reads, at once where a ring can be had, and return when the last is done. */
void os_io_read(struct os_io *io, struct os_read *reads, unsigned nr);

#endif
