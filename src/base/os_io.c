/* SPDX-License-Identifier: MIT */
/*
 * Files: opening them, and reading many extents at once through io_uring rings, or one after the
 * other with preadv where there are no rings (old kernels, sandboxes, too many files open).
 *
 * Rings are leased for the time of one os_io_read() and belong to their thread meanwhile: no lock
 * is held while I/O is in flight. A ring whose system call fails for good is thrown away and what
 * it had not done is read with preadv. Whatever happens, no read is in flight when os_io_read()
 * returns: its buffers are page frames, which will hold somebody else's data soon.
 *
 * After fork() a child shares the rings' memory with its parent: it must not use the instance.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "base/os.h"

#include <fcntl.h>
#include <liburing.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"

#ifndef RWF_DONTCACHE
#define RWF_DONTCACHE 0x80
#endif

#define RING_ENTRIES 64u
#define NR_RINGS_MAX 64u
/* After a failure that may pass (no memory, no file descriptor), do not try a new ring for so long. */
#define GROW_PAUSE_NS 100000000u
/* Turns without progress until a ring is given up (retries of EAGAIN and EBUSY). */
#define RING_TRIES 100u
#define RETRY_NS 50000u
#define DRAIN_TIMEOUT_NS 120000000000u

/* os_read.result while the read is not done. No read can end with it. */
#define NOT_DONE (-EINPROGRESS)

struct ring {
	struct io_uring uring;
	struct ring *next_free;
};

struct os_io {
	_Atomic bool uring;    /* rings work here, as far as known */
	struct os_mutex mutex; /* the fields below */
	struct ring *free;
	unsigned nr_rings;
	uint64_t grow_after_ns;
};

/* ---- opening ---- */

/* Can direct I/O work in units of a page? File systems that cannot say are believed. */
static int check_direct_alignment(int fd)
{
#ifdef STATX_DIOALIGN
	struct statx stx;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &stx) || !(stx.stx_mask & STATX_DIOALIGN))
		return 0;
	if (stx.stx_dio_mem_align == 0 || stx.stx_dio_mem_align > PAGE_SIZE ||
	    stx.stx_dio_offset_align == 0 || stx.stx_dio_offset_align > PAGE_SIZE)
		return -EINVAL;
#else
	(void)fd;
#endif
	return 0;
}

static int check_regular(const struct stat *st)
{
	if (S_ISREG(st->st_mode))
		return 0;
	return S_ISDIR(st->st_mode) ? -EISDIR : -EINVAL;
}

static int check_opened(int fd, enum os_open_mode mode, struct stat *st)
{
	int flags, err;

	if (fstat(fd, st))
		return -errno;
	err = check_regular(st);
	if (err)
		return err;
	/* io_uring would take O_NONBLOCK to mean "fail rather than wait for the disk". */
	flags = fcntl(fd, F_GETFL);
	if (flags < 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK))
		return -errno;
	return mode == OS_OPEN_DIRECT ? check_direct_alignment(fd) : 0;
}

int os_file_open(const char *path, enum os_open_mode mode, struct os_file *ret)
{
	/* O_NONBLOCK: if the path has become a FIFO since stat(), do not wait for its writer. */
	int flags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
	struct stat st;
	int fd, err;

	/* First look, then open: opening a device can have effects. */
	if (stat(path, &st))
		return -errno;
	err = check_regular(&st);
	if (err)
		return err;
	if (mode == OS_OPEN_DIRECT)
		flags |= O_DIRECT;
	do
		fd = open(path, flags);
	while (fd < 0 && errno == EINTR);
	if (fd < 0)
		return -errno;
	err = check_opened(fd, mode, &st);
	if (err) {
		(void)close(fd);
		return err;
	}
	/* We read ahead ourselves; what the kernel adds to that it would keep. */
	if (mode == OS_OPEN_BUFFERED)
		(void)posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
	ret->fd = fd;
	ret->bytes = (uint64_t)st.st_size;
	ret->dev = st.st_dev;
	ret->ino = st.st_ino;
	return 0;
}

void os_file_close(struct os_file *f)
{
	if (f->fd >= 0)
		(void)close(f->fd);
	f->fd = -1;
}

void os_file_drop_cache(struct os_file *f, uint64_t offset, uint64_t bytes)
{
	(void)posix_fadvise(f->fd, (off_t)offset, (off_t)bytes, POSIX_FADV_DONTNEED);
}

/* ---- one read, synchronous ---- */

static size_t read_bytes(const struct os_read *r)
{
	size_t bytes = 0;

	for (int i = 0; i < r->iovcnt; i++)
		bytes += r->iov[i].iov_len;
	return bytes;
}

/* The part of the read's vector that begins after `done` bytes, as much of it as fits `part`. */
static int rest_of_vector(const struct os_read *r, size_t done, struct iovec *part, int max)
{
	int i = 0, n = 0;

	while (i < r->iovcnt && done >= r->iov[i].iov_len)
		done -= r->iov[i++].iov_len;
	for (; i < r->iovcnt && n < max; i++, n++) {
		part[n].iov_base = (char *)r->iov[i].iov_base + done;
		part[n].iov_len = r->iov[i].iov_len - done;
		done = 0;
	}
	return n;
}

/* Direct I/O may refuse to be asked from the odd end of a file onwards: is this that? */
static bool at_end_of_file(const struct os_read *r, size_t done)
{
	struct stat st;

	return !fstat(r->fd, &st) && r->offset + done >= (uint64_t)st.st_size;
}

/*
 * Read all that is still missing after `done` bytes, to the end of the file at most. File systems
 * may return less than was asked for in the middle of a file; only a read of 0 bytes is the end.
 */
static ssize_t read_rest(const struct os_read *r, size_t done)
{
	size_t bytes = read_bytes(r);
	unsigned tries = 0;

	while (done < bytes) {
		struct iovec part[64];
		int n = rest_of_vector(r, done, part, ARRAY_SIZE(part));
		ssize_t got = preadv2(r->fd, part, n, (off_t)(r->offset + done),
				      r->flags & OS_READ_DONTCACHE ? RWF_DONTCACHE : 0);

		VM_BUG_ON(n == 0);
		if (got > 0) {
			done += (size_t)got;
			tries = 0;
		} else if (got == 0) {
			break;
		} else if (errno == EINVAL && done && at_end_of_file(r, done)) {
			break;
		} else if (errno == EAGAIN && tries++ < RING_TRIES) {
			os_sleep_ns(RETRY_NS);
		} else if (errno != EINTR) {
			return -errno;
		}
	}
	return (ssize_t)done;
}

/* ---- rings ---- */

/* A new ring, or NULL. `ret_for_ever`: rings are not to be had here at all. */
static struct ring *ring_create(bool *ret_for_ever)
{
	struct ring *ring = os_alloc(sizeof(*ring));
	int err;

	*ret_for_ever = false;
	if (!ring)
		return NULL;
	err = io_uring_queue_init(RING_ENTRIES, &ring->uring, 0);
	if (!err)
		return ring;
	*ret_for_ever = err != -ENOMEM && err != -EMFILE && err != -ENFILE && err != -EAGAIN &&
			err != -EINTR;
	os_free(ring);
	return NULL;
}

static void ring_destroy(struct ring *ring)
{
	io_uring_queue_exit(&ring->uring);
	os_free(ring);
}

static void io_lock(struct os_io *io)
{
	if (!os_mutex_try(&io->mutex))
		os_mutex_lock_slow(&io->mutex);
}

static struct ring *ring_lease(struct os_io *io)
{
	struct ring *ring;
	bool grow, for_ever;

	if (!atomic_load_explicit(&io->uring, memory_order_relaxed))
		return NULL;
	io_lock(io);
	ring = io->free;
	if (ring)
		io->free = ring->next_free;
	grow = !ring && io->nr_rings < NR_RINGS_MAX && os_now_ns() >= io->grow_after_ns;
	io->nr_rings += grow;
	os_mutex_unlock(&io->mutex);
	if (!grow)
		return ring;

	ring = ring_create(&for_ever);
	if (ring)
		return ring;
	if (for_ever)
		atomic_store_explicit(&io->uring, false, memory_order_relaxed);
	io_lock(io);
	io->nr_rings--;
	io->grow_after_ns = os_now_ns() + GROW_PAUSE_NS;
	os_mutex_unlock(&io->mutex);
	return NULL;
}

static void ring_return(struct os_io *io, struct ring *ring)
{
	io_lock(io);
	ring->next_free = io->free;
	io->free = ring;
	os_mutex_unlock(&io->mutex);
}

/* The ring is of no use any more; nothing is in flight on it. */
static void ring_discard(struct os_io *io, struct ring *ring, int err)
{
	/* A program that closes all its file descriptors closes ours. The number may be another
	 * file's by now: leave it alone. */
	if (err == -EBADF || err == -EOPNOTSUPP)
		ring->uring.ring_fd = -1;
	ring_destroy(ring);
	/* A sandbox that was entered after the ring was made. */
	if (err == -EPERM || err == -EACCES || err == -ENOSYS)
		atomic_store_explicit(&io->uring, false, memory_order_relaxed);
	io_lock(io);
	VM_BUG_ON(io->nr_rings == 0);
	io->nr_rings--;
	os_mutex_unlock(&io->mutex);
}

int os_io_create(unsigned flags, struct os_io **ret)
{
	struct os_io *io = os_alloc(sizeof(*io));
	struct ring *ring;

	if (!io)
		return -ENOMEM;
	atomic_init(&io->uring, !(flags & OS_IO_NO_URING));
	atomic_init(&io->mutex.state, 0);
	/* The first ring now, so that os_io_name() is an answer and not a hope. */
	ring = ring_lease(io);
	if (ring)
		ring_return(io, ring);
	*ret = io;
	return 0;
}

void os_io_destroy(struct os_io *io)
{
	if (!io)
		return;
	while (io->free) {
		struct ring *ring = io->free;

		io->free = ring->next_free;
		ring_destroy(ring);
		io->nr_rings--;
	}
	/* Nobody may be reading any more. */
	VM_BUG_ON(io->nr_rings != 0);
	os_free(io);
}

const char *os_io_name(const struct os_io *io)
{
	return atomic_load_explicit(&io->uring, memory_order_relaxed) ? "io_uring" : "preadv";
}

/* ---- many reads, through a ring ---- */

/* One os_io_read() on its way through a ring. */
struct pass {
	struct ring *ring;
	struct os_read *reads;
	unsigned nr;
	int err; /* out: the ring is broken */
};

/* What the kernel says of one read. Left NOT_DONE: to be read again in another way. */
static void pass_complete(struct os_read *r, int res)
{
	VM_BUG_ON(r->result != NOT_DONE);
	if (res >= 0 && (size_t)res < read_bytes(r))
		r->result = res ? read_rest(r, (size_t)res) : 0;
	else if (res != -EAGAIN && res != -EINTR)
		r->result = res;
}

static unsigned pass_reap(struct pass *p)
{
	struct io_uring *uring = &p->ring->uring;
	struct io_uring_cqe *cqe;
	unsigned head, nr = 0;

	io_uring_for_each_cqe(uring, head, cqe)
	{
		VM_BUG_ON(cqe->user_data >= p->nr);
		pass_complete(&p->reads[cqe->user_data], cqe->res);
		nr++;
	}
	io_uring_cq_advance(uring, nr);
	return nr;
}

/*
 * The ring fails while reads are in flight. They write to their buffers when they please, so wait
 * for them all; their completions come into the ring's memory without system calls on the ring.
 */
static void pass_drain(struct pass *p, unsigned in_flight)
{
	uint64_t deadline_ns = os_now_ns() + DRAIN_TIMEOUT_NS;

	while (in_flight) {
		in_flight -= pass_reap(p);
		/* The pages cannot be given back and cannot be kept: no way to go on. */
		VM_BUG_ON(in_flight && os_now_ns() > deadline_ns);
		if (in_flight)
			os_sleep_ns(RETRY_NS);
	}
}

/* Submit what is in the submission queue and wait until all of it is done. */
static void pass_round(struct pass *p, unsigned nr)
{
	struct io_uring *uring = &p->ring->uring;
	unsigned tries = 0;

	while (nr) {
		/* Fewer than all may be submitted, or a signal may end the wait: go round again. */
		int ret = io_uring_submit_and_wait(uring, nr);
		unsigned reaped = pass_reap(p);

		nr -= reaped;
		if (ret >= 0 || reaped || ret == -EINTR)
			tries = 0;
		else if ((ret == -EAGAIN || ret == -EBUSY) && tries++ < RING_TRIES)
			os_sleep_ns(RETRY_NS);
		else
			p->err = ret;
		if (p->err) {
			pass_drain(p, nr - io_uring_sq_ready(uring));
			return;
		}
	}
}

/* Read all that is NOT_DONE, in rounds of as many as the ring takes. */
static void pass_run(struct pass *p)
{
	unsigned i = 0;

	while (i < p->nr && !p->err) {
		unsigned nr = 0;

		for (; i < p->nr && nr < RING_ENTRIES; i++) {
			struct os_read *r = &p->reads[i];
			struct io_uring_sqe *sqe;

			/* A vector longer than the kernel takes is left for read_rest(). */
			if (r->result != NOT_DONE || r->iovcnt > IOV_MAX)
				continue;
			sqe = io_uring_get_sqe(&p->ring->uring);
			VM_BUG_ON(!sqe);
			io_uring_prep_readv(sqe, r->fd, r->iov, (unsigned)r->iovcnt, r->offset);
			if (r->flags & OS_READ_DONTCACHE)
				sqe->rw_flags = RWF_DONTCACHE;
			sqe->user_data = i;
			nr++;
		}
		pass_round(p, nr);
	}
}

static void read_through_ring(struct os_io *io, struct ring *ring, struct os_read *reads,
			      unsigned nr)
{
	struct pass p = { .ring = ring, .reads = reads, .nr = nr };

	pass_run(&p);
	if (p.err)
		ring_discard(io, ring, p.err);
	else
		ring_return(io, ring);
}

void os_io_read(struct os_io *io, struct os_read *reads, unsigned nr)
{
	struct ring *ring = NULL;
	unsigned nr_left = 0;

	for (unsigned i = 0; i < nr; i++) {
		reads[i].result = fault_point(FAULT_IO) ? -EIO : NOT_DONE;
		nr_left += reads[i].result == NOT_DONE;
	}
	/* One read is one system call either way, and preadv is the cheaper one: 4.6 against 7.1 us
	 * for a page from the kernel's cache, 106 against 125 us from the disk (medians, 2 CPUs). */
	if (nr_left > 1)
		ring = ring_lease(io);
	if (ring)
		read_through_ring(io, ring, reads, nr);
	for (unsigned i = 0; i < nr; i++)
		if (reads[i].result == NOT_DONE)
			reads[i].result = read_rest(&reads[i], 0);
}
