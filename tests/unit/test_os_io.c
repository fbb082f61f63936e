/* SPDX-License-Identifier: MIT */
/*
 * base/os_io.c on real files: what open refuses, and that reads through rings, reads with preadv and a
 * copy of the file in memory agree byte for byte, whatever goes wrong on the way.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/os.h"

#define FILE_BYTES (64 * PAGE_SIZE + 1234)
#define EXT_MAGIC 0xef53
#define XFS_MAGIC 0x58465342

static char dir[256];          /* a directory of our own, on a disk if there is one */
static char path[300];         /* a file of FILE_BYTES in it */
static unsigned char *content; /* its bytes */

static uint64_t seed = 42;

static uint64_t rnd(uint64_t n)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (seed >> 33) % n;
}

static void write_file(const char *name, const void *data, size_t bytes)
{
	int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, bytes), bytes);
	/* Dirty pages would not leave the cache when asked to. */
	assert_int_equal(fsync(fd), 0);
	assert_int_equal(close(fd), 0);
}

static int setup(void **state)
{
	const char *tmp = getenv("TMPDIR");

	(void)state;
	(void)snprintf(dir, sizeof(dir), "%s/umm-test-XXXXXX", tmp ? tmp : "/var/tmp");
	if (!mkdtemp(dir))
		return -1;
	(void)snprintf(path, sizeof(path), "%s/file", dir);
	content = malloc(FILE_BYTES);
	if (!content)
		return -1;
	for (size_t i = 0; i < FILE_BYTES; i++)
		content[i] = (unsigned char)rnd(256);
	write_file(path, content, FILE_BYTES);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	free(content);
	(void)unlink(path);
	return rmdir(dir);
}

static void in_dir(char *buf, size_t size, const char *name)
{
	assert_true((size_t)snprintf(buf, size, "%s/%s", dir, name) < size);
}

/* ---- opening ---- */

static void expect_refusal(const char *name, int err)
{
	struct os_file f = { .fd = -7, .bytes = 7 };

	assert_int_equal(os_file_open(name, OS_OPEN_BUFFERED, &f), err);
	assert_int_equal(os_file_open(name, OS_OPEN_DIRECT, &f), err);
	assert_int_equal(f.fd, -7);
	assert_int_equal(f.bytes, 7);
}

static void test_open_refusals(void **state)
{
	char name[300];

	(void)state;
	in_dir(name, sizeof(name), "missing");
	expect_refusal(name, -ENOENT);
	expect_refusal("", -ENOENT);
	expect_refusal(dir, -EISDIR);
	expect_refusal("/dev/null", -EINVAL);
	in_dir(name, sizeof(name), "file/below");
	expect_refusal(name, -ENOTDIR);
	/* Nobody writes to it: opening it to read would wait for ever. */
	in_dir(name, sizeof(name), "fifo");
	assert_int_equal(mkfifo(name, 0600), 0);
	expect_refusal(name, -EINVAL);
	assert_int_equal(unlink(name), 0);
}

static void test_open(void **state)
{
	char name[300];
	struct os_file f;
	struct stat st;

	(void)state;
	in_dir(name, sizeof(name), "link");
	assert_int_equal(symlink(path, name), 0);
	assert_int_equal(os_file_open(name, OS_OPEN_BUFFERED, &f), 0);
	assert_int_equal(unlink(name), 0);
	assert_int_equal(fstat(f.fd, &st), 0);
	assert_int_equal(f.bytes, FILE_BYTES);
	assert_int_equal(f.dev, st.st_dev);
	assert_int_equal(f.ino, st.st_ino);
	assert_int_equal(fcntl(f.fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(fcntl(f.fd, F_GETFL) & (O_NONBLOCK | O_DIRECT | O_ACCMODE), O_RDONLY);
	os_file_close(&f);
	assert_int_equal(f.fd, -1);
	os_file_close(&f);
}

static void test_direct_refused(void **state)
{
	struct os_file f;

	(void)state;
	/* A regular file of a file system that has no direct I/O. */
	assert_int_equal(os_file_open("/proc/version", OS_OPEN_DIRECT, &f), -EINVAL);
	assert_int_equal(os_file_open("/proc/version", OS_OPEN_BUFFERED, &f), 0);
	os_file_close(&f);
}

/* ---- reading ---- */

static struct os_io *io_create(unsigned flags)
{
	struct os_io *io = NULL;

	assert_int_equal(os_io_create(flags, &io), 0);
	assert_non_null(io);
	return io;
}

static ssize_t read_one(struct os_io *io, struct os_file *f, void *buf, size_t bytes, uint64_t off,
			unsigned flags)
{
	struct iovec iov = { buf, bytes };
	struct os_read r = { .fd = f->fd, .flags = flags, .iov = &iov, .iovcnt = 1, .offset = off };

	os_io_read(io, &r, 1);
	return r.result;
}

static void test_one_read(void **state)
{
	struct os_io *io = io_create(0);
	unsigned char buf[2 * PAGE_SIZE];
	struct os_file f;

	(void)state;
	assert_int_equal(os_file_open(path, OS_OPEN_BUFFERED, &f), 0);
	assert_int_equal(read_one(io, &f, buf, sizeof(buf), 4096, 0), sizeof(buf));
	assert_memory_equal(buf, content + 4096, sizeof(buf));
	/* Over the end, at the end, beyond it, and nothing at all. */
	assert_int_equal(read_one(io, &f, buf, sizeof(buf), FILE_BYTES - 100, 0), 100);
	assert_memory_equal(buf, content + FILE_BYTES - 100, 100);
	assert_int_equal(read_one(io, &f, buf, sizeof(buf), FILE_BYTES, 0), 0);
	assert_int_equal(read_one(io, &f, buf, sizeof(buf), 1ull << 40, 0), 0);
	assert_int_equal(read_one(io, &f, buf, 0, 0, 0), 0);
	os_file_close(&f);
	assert_int_equal(read_one(io, &f, buf, sizeof(buf), 0, 0), -EBADF);
	os_io_read(io, NULL, 0);
	os_io_destroy(io);
	os_io_destroy(NULL);
}

static void test_empty_file(void **state)
{
	struct os_io *io = io_create(0);
	unsigned char buf[3][100];
	struct iovec iov[3];
	struct os_read r[3];
	struct os_file f;
	char name[300];

	(void)state;
	in_dir(name, sizeof(name), "empty");
	write_file(name, "", 0);
	assert_int_equal(os_file_open(name, OS_OPEN_BUFFERED, &f), 0);
	assert_int_equal(f.bytes, 0);
	for (int i = 0; i < 3; i++) {
		iov[i] = (struct iovec){ buf[i], sizeof(buf[i]) };
		r[i] = (struct os_read){ .fd = f.fd, .iov = &iov[i], .iovcnt = 1, .offset = i };
	}
	os_io_read(io, r, 1);
	assert_int_equal(r[0].result, 0);
	os_io_read(io, r, 3);
	for (int i = 0; i < 3; i++)
		assert_int_equal(r[i].result, 0);
	os_file_close(&f);
	assert_int_equal(unlink(name), 0);
	os_io_destroy(io);
}

/* ---- random batches against the copy in memory ---- */

#define BATCH_MAX 200
#define PIECES_MAX 5

struct batch {
	struct os_file f;
	bool direct;
	unsigned nr;
	struct os_read read[BATCH_MAX];
	struct iovec iov[BATCH_MAX][PIECES_MAX];
	unsigned char *buf; /* BATCH_MAX * 16 KiB */
};

#define READ_MAX (16ul << 10)

static struct batch *batch_create(enum os_open_mode mode)
{
	struct batch *b = calloc(1, sizeof(*b));

	assert_non_null(b);
	assert_int_equal(os_file_open(path, mode, &b->f), 0);
	b->direct = mode == OS_OPEN_DIRECT;
	b->buf = aligned_alloc(PAGE_SIZE, BATCH_MAX * READ_MAX);
	assert_non_null(b->buf);
	return b;
}

static void batch_destroy(struct batch *b)
{
	os_file_close(&b->f);
	free(b->buf);
	free(b);
}

/* Offsets, lengths and the pieces of the vectors in multiples of `unit`. */
static void batch_fill(struct batch *b, uint64_t *rng, unsigned nr, size_t unit, unsigned flags)
{
	memset(b->buf, 0xee, BATCH_MAX * READ_MAX);
	b->nr = nr;
	for (unsigned i = 0; i < nr; i++) {
		unsigned char *p = b->buf + i * READ_MAX;
		struct os_read *r = &b->read[i];
		size_t left = READ_MAX / unit;

		*rng = *rng * 6364136223846793005u + 1442695040888963407u;
		*r = (struct os_read){ .fd = b->f.fd, .flags = flags, .iov = b->iov[i] };
		r->offset = (*rng >> 33) % (FILE_BYTES / unit + 3) * unit;
		for (int k = 0; k < PIECES_MAX && left; k++) {
			size_t piece = 1 + (*rng >> (k * 7)) % left;

			b->iov[i][k] = (struct iovec){ p, piece * unit };
			p += piece * unit;
			left -= piece;
			r->iovcnt++;
			if ((*rng >> (40 + k)) & 1)
				break;
		}
	}
}

/* How many reads are not what the file says. */
static unsigned batch_wrong(const struct batch *b)
{
	unsigned wrong = 0;

	for (unsigned i = 0; i < b->nr; i++) {
		const struct os_read *r = &b->read[i];
		const unsigned char *p = b->buf + i * READ_MAX;
		size_t asked = 0, want;

		for (int k = 0; k < r->iovcnt; k++)
			asked += r->iov[k].iov_len;
		want = min_u64(asked, FILE_BYTES - min_u64(FILE_BYTES, r->offset));
		wrong += r->result != (ssize_t)want || memcmp(p, content + r->offset, want) != 0;
		/* Not a byte more than that. (Direct I/O may fill the file's last sector.) */
		if (want < READ_MAX && (want == asked || !b->direct))
			wrong += p[want] != 0xee;
	}
	return wrong;
}

static void check_batches(struct os_io *io, enum os_open_mode mode, size_t unit, unsigned flags,
			  int rounds)
{
	struct batch *b = batch_create(mode);
	uint64_t rng = 7;

	for (int i = 0; i < rounds; i++) {
		batch_fill(b, &rng, 1 + (unsigned)rnd(BATCH_MAX), unit, flags);
		os_io_read(io, b->read, b->nr);
		assert_int_equal(batch_wrong(b), 0);
	}
	batch_destroy(b);
}

static void test_batches(void **state)
{
	struct os_io *ring = io_create(0), *plain = io_create(OS_IO_NO_URING);

	(void)state;
	assert_string_equal(os_io_name(plain), "preadv");
	print_message("reading with %s\n", os_io_name(ring));
	check_batches(ring, OS_OPEN_BUFFERED, 1, 0, 60);
	check_batches(plain, OS_OPEN_BUFFERED, 1, 0, 60);
	check_batches(ring, OS_OPEN_BUFFERED, 1, OS_READ_DONTCACHE, 30);
	check_batches(plain, OS_OPEN_BUFFERED, 1, OS_READ_DONTCACHE, 30);
	os_io_destroy(ring);
	os_io_destroy(plain);
}

static void test_direct(void **state)
{
	struct os_io *ring = io_create(0), *plain = io_create(OS_IO_NO_URING);
	struct os_file f;
	int err = os_file_open(path, OS_OPEN_DIRECT, &f);

	(void)state;
	if (err == 0) {
		assert_true(fcntl(f.fd, F_GETFL) & O_DIRECT);
		os_file_close(&f);
		check_batches(ring, OS_OPEN_DIRECT, PAGE_SIZE, 0, 30);
		check_batches(plain, OS_OPEN_DIRECT, PAGE_SIZE, 0, 30);
	}
	os_io_destroy(ring);
	os_io_destroy(plain);
	assert_true(err == 0 || err == -EINVAL);
	if (err)
		skip();
}

/* How many reads were not refused because of the kernel's flag. */
static unsigned batch_not_refused(const struct batch *b)
{
	unsigned nr = 0;

	for (unsigned i = 0; i < b->nr; i++)
		nr += b->read[i].result != -EOPNOTSUPP;
	return nr;
}

/* tmpfs does not know the kernel's flag (yet): then the caller is told, by a ring as by preadv. */
static void check_flag_on_shm(struct os_io *io)
{
	struct batch *b = batch_create(OS_OPEN_BUFFERED);
	uint64_t rng = 11;

	for (int i = 0; i < 30; i++) {
		batch_fill(b, &rng, 1 + (unsigned)rnd(BATCH_MAX), 1, OS_READ_DONTCACHE);
		os_io_read(io, b->read, b->nr);
		/* A read of nothing, behind the end, may succeed all the same. */
		if (batch_wrong(b))
			assert_true(batch_not_refused(b) < b->nr);
	}
	batch_destroy(b);
}

static void test_shm(void **state)
{
	struct os_io *io = io_create(0);
	char before[sizeof(path)];

	(void)state;
	if (access("/dev/shm", W_OK)) {
		os_io_destroy(io);
		skip();
	}
	memcpy(before, path, sizeof(path));
	(void)snprintf(path, sizeof(path), "/dev/shm/umm-test-%d", (int)getpid());
	write_file(path, content, FILE_BYTES);
	check_flag_on_shm(io);
	check_batches(io, OS_OPEN_BUFFERED, 1, 0, 10);
	assert_int_equal(unlink(path), 0);
	memcpy(path, before, sizeof(path));
	os_io_destroy(io);
}

static size_t cached_pages(struct os_file *f)
{
	static unsigned char map[FILE_BYTES / PAGE_SIZE + 1];
	void *p = mmap(NULL, FILE_BYTES, PROT_READ, MAP_SHARED, f->fd, 0);
	size_t nr = 0;

	assert_true(p != MAP_FAILED);
	assert_int_equal(mincore(p, FILE_BYTES, map), 0);
	for (size_t i = 0; i < sizeof(map); i++)
		nr += map[i] & 1;
	munmap(p, FILE_BYTES);
	return nr;
}

/* Read the file once, in order, a page a read. */
static void read_all(struct os_io *io, struct os_file *f, unsigned flags)
{
	static unsigned char buf[FILE_BYTES / PAGE_SIZE][PAGE_SIZE];
	struct iovec iov[ARRAY_SIZE(buf)];
	struct os_read r[ARRAY_SIZE(buf)];

	for (size_t i = 0; i < ARRAY_SIZE(r); i++) {
		iov[i] = (struct iovec){ buf[i], PAGE_SIZE };
		r[i] = (struct os_read){ .fd = f->fd,
					 .flags = flags,
					 .iov = &iov[i],
					 .iovcnt = 1,
					 .offset = i * PAGE_SIZE };
	}
	os_io_read(io, r, ARRAY_SIZE(r));
	for (size_t i = 0; i < ARRAY_SIZE(r); i++)
		assert_int_equal(r[i].result, PAGE_SIZE);
	assert_memory_equal(buf, content, sizeof(buf));
}

static void test_cache_is_left_empty(void **state)
{
	struct os_io *io[] = { io_create(0), io_create(OS_IO_NO_URING) };
	struct statfs fs;
	struct os_file f;

	(void)state;
	assert_int_equal(statfs(path, &fs), 0);
	assert_int_equal(os_file_open(path, OS_OPEN_BUFFERED, &f), 0);
	for (int i = 0; i < 2; i++) {
		size_t plain, uncached;

		os_file_drop_cache(&f, 0, FILE_BYTES);
		read_all(io[i], &f, 0);
		plain = cached_pages(&f);
		os_file_drop_cache(&f, 0, FILE_BYTES);
		read_all(io[i], &f, OS_READ_DONTCACHE);
		uncached = cached_pages(&f);
		/* Elsewhere it is a wish. Here too: what is read ahead beyond the end may stay. */
		if (fs.f_type == EXT_MAGIC || fs.f_type == XFS_MAGIC) {
			print_message("cached: %zu pages, with DONTCACHE %zu\n", plain, uncached);
			assert_true(plain >= FILE_BYTES / PAGE_SIZE);
			assert_true(uncached <= FILE_BYTES / PAGE_SIZE / 8);
		}
		os_io_destroy(io[i]);
	}
	os_file_close(&f);
}

/* ---- short and failing reads in the middle ---- */

/* A vector whose second half cannot be written: the first half is read, then the rest fails. */
static void test_fault_in_the_middle(void **state)
{
	unsigned char *buf = mmap(NULL, 2 * PAGE_SIZE, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct os_io *io = io_create(0);
	struct iovec iov[2], good;
	struct os_read r[3];
	struct os_file f;
	unsigned char other[100];

	(void)state;
	assert_true(buf != MAP_FAILED);
	assert_int_equal(mprotect(buf + PAGE_SIZE, PAGE_SIZE, PROT_NONE), 0);
	assert_int_equal(os_file_open(path, OS_OPEN_BUFFERED, &f), 0);
	iov[0] = (struct iovec){ buf, PAGE_SIZE };
	iov[1] = (struct iovec){ buf + PAGE_SIZE, PAGE_SIZE };
	good = (struct iovec){ other, sizeof(other) };
	r[0] = (struct os_read){ .fd = f.fd, .iov = iov, .iovcnt = 2 };
	r[1] = (struct os_read){ .fd = f.fd, .iov = &good, .iovcnt = 1, .offset = 5 };
	r[2] = (struct os_read){ .fd = -1, .iov = &good, .iovcnt = 1, .offset = 5 };
	for (unsigned nr = 1; nr <= 3; nr++) {
		os_io_read(io, r, nr);
		assert_int_equal(r[0].result, -EFAULT);
		assert_true(nr < 2 || r[1].result == sizeof(other));
		assert_true(nr < 3 || r[2].result == -EBADF);
	}
	assert_memory_equal(other, content + 5, sizeof(other));
	os_file_close(&f);
	os_io_destroy(io);
	munmap(buf, 2 * PAGE_SIZE);
}

/*
 * The kernel reads at most 2 GiB - 4 KiB at once, and ends in the middle of a piece: a real short read
 * that is not the end of the file. The pieces share one buffer; what stays is the last one.
 */
#define HUGE_PIECE (64ul << 20)
#define HUGE_PIECES 33
#define HUGE_END (HUGE_PIECES * HUGE_PIECE)

static void test_short_in_the_middle(void **state)
{
	unsigned char *buf = os_reserve(HUGE_PIECE), one[16];
	struct iovec iov[HUGE_PIECES], small = { one, sizeof(one) };
	char name[100];
	int fd;

	(void)state;
	(void)snprintf(name, sizeof(name), "/dev/shm/umm-test-huge-%d", (int)getpid());
	fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	assert_non_null(buf);
	if (fd < 0)
		skip();
	assert_int_equal(unlink(name), 0);
	assert_int_equal(pwrite(fd, content, PAGE_SIZE, HUGE_END - PAGE_SIZE), PAGE_SIZE);
	for (int i = 0; i < HUGE_PIECES; i++)
		iov[i] = (struct iovec){ buf, HUGE_PIECE };
	for (unsigned nr = 1; nr <= 2; nr++) {
		struct os_io *io = io_create(0);
		struct os_read r[2] = { { .fd = fd, .iov = iov, .iovcnt = HUGE_PIECES },
					{ .fd = fd, .iov = &small, .iovcnt = 1 } };

		memset(buf + HUGE_PIECE - PAGE_SIZE, 0, PAGE_SIZE);
		os_io_read(io, r, nr);
		assert_int_equal(r[0].result, HUGE_END);
		assert_memory_equal(buf + HUGE_PIECE - PAGE_SIZE, content, PAGE_SIZE);
		os_io_destroy(io);
	}
	close(fd);
	os_unreserve(buf, HUGE_PIECE);
}

/* More pieces than one system call takes. */
static void test_long_vector(void **state)
{
	enum { PIECES = 3000, PIECE = 20 };
	static struct iovec iov[PIECES];
	static unsigned char buf[PIECES * PIECE], one[16];
	struct iovec small = { one, sizeof(one) };
	struct os_file f;

	(void)state;
	assert_int_equal(os_file_open(path, OS_OPEN_BUFFERED, &f), 0);
	for (int i = 0; i < PIECES; i++)
		iov[i] = (struct iovec){ buf + i * PIECE, PIECE };
	for (unsigned nr = 1; nr <= 2; nr++) {
		struct os_io *io = io_create(0);
		struct os_read r[2] = {
			{ .fd = f.fd, .iov = iov, .iovcnt = PIECES, .offset = 77 },
			{ .fd = f.fd, .iov = &small, .iovcnt = 1 },
		};

		memset(buf, 0, sizeof(buf));
		os_io_read(io, r, nr);
		assert_int_equal(r[0].result, sizeof(buf));
		assert_memory_equal(buf, content + 77, sizeof(buf));
		os_io_destroy(io);
	}
	os_file_close(&f);
}

/* ---- many threads, signals, faults ---- */

struct reader {
	struct os_io *io;
	struct batch *batch;
	uint64_t rng;
	unsigned wrong;
};

static void read_batches(void *arg)
{
	struct reader *r = arg;

	for (int i = 0; i < 30; i++) {
		batch_fill(r->batch, &r->rng, 2 + (unsigned)(r->rng >> 40) % 70, 1, 0);
		os_io_read(r->io, r->batch->read, r->batch->nr);
		r->wrong += batch_wrong(r->batch);
	}
}

static void test_many_threads(void **state)
{
	struct os_io *io = io_create(0);
	struct reader r[8];
	struct os_thread t[8];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		r[i] = (struct reader){ .io = io,
					.batch = batch_create(OS_OPEN_BUFFERED),
					.rng = i };
		assert_int_equal(os_thread_create(&t[i], read_batches, &r[i], "reader"), 0);
	}
	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		os_thread_join(&t[i]);
		assert_int_equal(r[i].wrong, 0);
		batch_destroy(r[i].batch);
	}
	os_io_destroy(io);
}

static void on_signal(int sig)
{
	(void)sig;
}

static void test_signals(void **state)
{
	const struct sigaction sa = { .sa_handler = on_signal };
	const struct itimerval often = { { 0, 500 }, { 0, 500 } }, never = { { 0, 0 }, { 0, 0 } };
	struct os_io *io = io_create(0);
	struct sigaction before;
	struct os_file f;
	int err = os_file_open(path, OS_OPEN_DIRECT, &f);

	(void)state;
	if (!err)
		os_file_close(&f);
	assert_int_equal(sigaction(SIGALRM, &sa, &before), 0);
	assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
	if (err)
		check_batches(io, OS_OPEN_BUFFERED, 1, 0, 50);
	else
		check_batches(io, OS_OPEN_DIRECT, PAGE_SIZE, 0, 50);
	assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
	assert_int_equal(sigaction(SIGALRM, &before, NULL), 0);
	os_io_destroy(io);
}

static void test_injected_faults(void **state)
{
#if UMM_FAULT_POINTS
	struct os_io *io = io_create(0);
	struct batch *b = batch_create(OS_OPEN_BUFFERED);
	uint64_t rng = 3;

	(void)state;
	for (unsigned n = 1; n <= 5; n++) {
		batch_fill(b, &rng, 5, 1, 0);
		fault_arm(FAULT_IO, n);
		os_io_read(io, b->read, 5);
		assert_true(fault_disarm());
		assert_int_equal(b->read[n - 1].result, -EIO);
		assert_int_equal(batch_wrong(b), 1);
	}
	fault_arm(FAULT_IO, 1);
	os_io_read(io, b->read, 1);
	assert_int_equal(b->read[0].result, -EIO);
	assert_true(fault_disarm());
	batch_destroy(b);
	os_io_destroy(io);
#else
	(void)state;
	skip();
#endif
}

/* ---- rings that cannot be had, or are taken away ---- */

static unsigned close_all_rings(void)
{
	DIR *d = opendir("/proc/self/fd");
	const struct dirent *e;
	unsigned nr = 0;

	assert_non_null(d);
	while ((e = readdir(d))) {
		char link[64];
		ssize_t n = readlinkat(dirfd(d), e->d_name, link, sizeof(link) - 1);

		link[n > 0 ? n : 0] = '\0';
		if (strstr(link, "io_uring")) {
			close(atoi(e->d_name));
			nr++;
		}
	}
	closedir(d);
	return nr;
}

/* A program that makes itself a daemon closes all file descriptors, ours as well. */
static void test_rings_closed_by_the_program(void **state)
{
	struct os_io *io = io_create(0);

	(void)state;
	if (strcmp(os_io_name(io), "io_uring") != 0) {
		os_io_destroy(io);
		skip();
	}
	for (int i = 0; i < 3; i++) {
		assert_true(close_all_rings() > 0);
		check_batches(io, OS_OPEN_BUFFERED, 1, 0, 3);
	}
	assert_string_equal(os_io_name(io), "io_uring");
	os_io_destroy(io);
	assert_int_equal(close_all_rings(), 0);
}

struct closer {
	_Atomic bool stop;
	unsigned closed;
};

static void close_rings_often(void *arg)
{
	struct closer *c = arg;

	while (!atomic_load(&c->stop)) {
		c->closed += close_all_rings();
		os_sleep_ns(100000);
	}
}

/* The same at any moment, with reads in flight and signals that interrupt the wait for them. */
static void test_rings_closed_in_flight(void **state)
{
	const struct sigaction sa = { .sa_handler = on_signal };
	const struct itimerval often = { { 0, 200 }, { 0, 200 } }, never = { { 0, 0 }, { 0, 0 } };
	struct os_io *io = io_create(0);
	struct closer c = { 0 };
	struct sigaction before;
	struct os_thread t;
	struct os_file f;
	int err = os_file_open(path, OS_OPEN_DIRECT, &f);

	(void)state;
	if (!err)
		os_file_close(&f);
	assert_int_equal(sigaction(SIGALRM, &sa, &before), 0);
	assert_int_equal(os_thread_create(&t, close_rings_often, &c, "closer"), 0);
	assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
	if (err)
		check_batches(io, OS_OPEN_BUFFERED, 1, 0, 50);
	else
		check_batches(io, OS_OPEN_DIRECT, PAGE_SIZE, 0, 50);
	assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
	atomic_store(&c.stop, true);
	os_thread_join(&t);
	assert_int_equal(sigaction(SIGALRM, &before, NULL), 0);
	assert_true(c.closed > 0 || strcmp(os_io_name(io), "io_uring") != 0);
	os_io_destroy(io);
}

static void test_no_file_descriptors(void **state)
{
	struct batch *b = batch_create(OS_OPEN_BUFFERED);
	struct rlimit before, none;
	struct os_io *io;
	uint64_t rng = 9;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = (struct rlimit){ 3, before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	io = io_create(0);
	batch_fill(b, &rng, 50, 1, 0);
	os_io_read(io, b->read, b->nr);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(batch_wrong(b), 0);
	assert_int_equal(close_all_rings(), 0);
	/* When there are some again, there is a ring again. */
	if (!strcmp(os_io_name(io), "io_uring")) {
		os_sleep_ns(150000000);
		batch_fill(b, &rng, 50, 1, 0);
		os_io_read(io, b->read, b->nr);
		assert_int_equal(batch_wrong(b), 0);
		assert_int_equal(close_all_rings(), 1);
	}
	os_io_destroy(io);
	batch_destroy(b);
}

/* From now on this process gets EPERM from one system call. */
static bool forbid(unsigned nr)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { ARRAY_SIZE(filter), filter };

	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog);
}

/* In a child: no assertions here. 0: as it should be; 77: filters do not work here. */
static int sandboxed(unsigned forbidden, bool before_create)
{
	struct batch *b = batch_create(OS_OPEN_BUFFERED);
	struct os_io *io;
	uint64_t rng = 11;
	unsigned wrong = 0;

	if (before_create && !forbid(forbidden))
		return 77;
	if (os_io_create(0, &io))
		return 1;
	if (!before_create && !forbid(forbidden))
		return 77;
	for (int i = 0; i < 5; i++) {
		batch_fill(b, &rng, 100, 1, 0);
		os_io_read(io, b->read, b->nr);
		wrong += batch_wrong(b);
	}
	if (wrong || strcmp(os_io_name(io), "preadv") != 0)
		return 2;
	os_io_destroy(io);
	batch_destroy(b);
	return 0;
}

static void run_sandboxed(unsigned forbidden, bool before_create)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0)
		_exit(sandboxed(forbidden, before_create));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) != 77)
		assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_sandbox(void **state)
{
	(void)state;
	run_sandboxed(SYS_io_uring_setup, true);
	/* Entered when there is a ring already: what was queued on it is read in another way. */
	run_sandboxed(SYS_io_uring_enter, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sandbox), /* forks, so before the first thread */
		cmocka_unit_test(test_open_refusals),
		cmocka_unit_test(test_open),
		cmocka_unit_test(test_direct_refused),
		cmocka_unit_test(test_one_read),
		cmocka_unit_test(test_empty_file),
		cmocka_unit_test(test_batches),
		cmocka_unit_test(test_direct),
		cmocka_unit_test(test_shm),
		cmocka_unit_test(test_cache_is_left_empty),
		cmocka_unit_test(test_fault_in_the_middle),
		cmocka_unit_test(test_short_in_the_middle),
		cmocka_unit_test(test_long_vector),
		cmocka_unit_test(test_many_threads),
		cmocka_unit_test(test_signals),
		cmocka_unit_test(test_injected_faults),
		cmocka_unit_test(test_rings_closed_by_the_program),
		cmocka_unit_test(test_rings_closed_in_flight),
		cmocka_unit_test(test_no_file_descriptors),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
