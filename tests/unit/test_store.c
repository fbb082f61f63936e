/* SPDX-License-Identifier: MIT */
/*
 * The stores: real files of awkward sizes in each way of reading them, things that are no files, files
 * that change behind our back, and callers' stores that misbehave.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "cache/mapping.h"

struct fixture {
	struct mm *mm;
	char dir[64]; /* on a disk, or whatever $TMPDIR is */
	char shm[64]; /* on tmpfs; empty if there is none */
	_Atomic unsigned nr_info;
	_Atomic unsigned nr_error;
};

static void log_count(void *ctx, enum umm_log_level level, const char *message)
{
	struct fixture *fx = ctx;

	if (level == UMM_LOG_INFO)
		atomic_fetch_add(&fx->nr_info, 1);
	if (level == UMM_LOG_ERROR)
		atomic_fetch_add(&fx->nr_error, 1);
	if (getenv("UMM_TEST_LOG"))
		fprintf(stderr, "log: %s\n", message);
}

static struct mm *mm_create(struct fixture *fx, unsigned io_flags)
{
	struct mm *mm = calloc(1, sizeof(*mm));

	assert_non_null(mm);
	assert_int_equal(threads_init(&mm->threads), 0);
	assert_int_equal(threads_enter(&mm->threads), 0);
	assert_int_equal(os_io_create(io_flags, &mm->io), 0);
	mm->opt.log = log_count;
	mm->opt.log_ctx = fx;
	return mm;
}

static void mm_destroy(struct mm *mm)
{
	os_io_destroy(mm->io);
	threads_fini(&mm->threads);
	free(mm);
}

static void dir_create(char *dir, size_t size, const char *parent)
{
	snprintf(dir, size, "%s/umm-test-store-XXXXXX", parent);
	if (!mkdtemp(dir))
		dir[0] = '\0';
}

static int setup(void **state)
{
	struct fixture *fx = calloc(1, sizeof(*fx));
	const char *tmp = getenv("TMPDIR");

	if (!fx)
		return -1;
	fx->mm = mm_create(fx, 0);
	if (!tmp || strlen(tmp) > 32)
		tmp = "/tmp";
	dir_create(fx->dir, sizeof(fx->dir), tmp);
	dir_create(fx->shm, sizeof(fx->shm), "/dev/shm");
	/* For the test of permissions. */
	if (fx->dir[0] && chmod(fx->dir, 0755))
		return -1;
	*state = fx;
	return fx->dir[0] ? 0 : -1;
}

static int teardown(void **state)
{
	struct fixture *fx = *state;

	mm_destroy(fx->mm);
	if (rmdir(fx->dir) || (fx->shm[0] && rmdir(fx->shm)))
		return -1;
	free(fx);
	return 0;
}

/* ---- files and what must be read from them ---- */

#define BUF_PAGES 300ul /* more than the largest file has */

static uint8_t byte_at(uint64_t offset)
{
	return (uint8_t)(offset * 31 + (offset >> 12) * 7 + 1);
}

static void path_of(char *path, size_t size, const char *dir)
{
	snprintf(path, size, "%s/file", dir);
}

/* Write a file and make the kernel forget its pages. */
static void file_write(const char *path, uint64_t bytes)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	uint8_t *data = malloc(bytes + 1);

	assert_true(fd >= 0);
	assert_non_null(data);
	for (uint64_t i = 0; i < bytes; i++)
		data[i] = byte_at(i);
	assert_int_equal(write(fd, data, bytes), bytes);
	assert_int_equal(fsync(fd), 0);
	assert_int_equal(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
	assert_int_equal(close(fd), 0);
	free(data);
}

/* Pages of the file that the kernel has cached. */
static unsigned file_pages_cached(const char *path, uint64_t bytes)
{
	unsigned char resident[BUF_PAGES];
	unsigned nr = 0;
	int fd = open(path, O_RDONLY);
	void *p;

	assert_true(fd >= 0);
	p = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	assert_int_equal(mincore(p, bytes, resident), 0);
	for (uint64_t i = 0; i < (bytes + PAGE_SIZE - 1) / PAGE_SIZE; i++)
		nr += resident[i] & 1;
	munmap(p, bytes);
	close(fd);
	return nr;
}

static uint8_t *buf_create(void)
{
	void *p = NULL;

	assert_int_equal(posix_memalign(&p, PAGE_SIZE, BUF_PAGES * PAGE_SIZE), 0);
	return p;
}

/* Read `nr` pages into single-page buffers, in reverse order in memory. */
static ssize_t store_read(struct store *store, uint8_t *buf, uint64_t index, unsigned nr)
{
	struct iovec iov[256];

	for (unsigned i = 0; i < nr; i++)
		iov[i] = (struct iovec){ buf + (BUF_PAGES - 1 - i) * PAGE_SIZE, PAGE_SIZE };
	return store->ops->read(store, iov, (int)nr, index << PAGE_SHIFT);
}

static bool bytes_right(const uint8_t *buf, uint64_t index, uint64_t nr_bytes)
{
	for (uint64_t i = 0; i < nr_bytes; i++)
		if (buf[(BUF_PAGES - 1 - i / PAGE_SIZE) * PAGE_SIZE + i % PAGE_SIZE] !=
		    byte_at((index << PAGE_SHIFT) + i))
			return false;
	return true;
}

/* Read [index, index + nr) and compare with what a file of `bytes` must give. */
static void read_check(struct store *store, uint8_t *buf, uint64_t bytes, uint64_t index,
		       unsigned nr)
{
	uint64_t start = index << PAGE_SHIFT;
	uint64_t want = start < bytes ? min_u64(bytes - start, nr * PAGE_SIZE) : 0;

	memset(buf, 0xee, BUF_PAGES * PAGE_SIZE);
	assert_int_equal(store_read(store, buf, index, nr), want);
	assert_true(bytes_right(buf, index, want));
}

static struct store *file_open(struct mm *mm, const char *path, uint32_t flags, uint64_t bytes)
{
	struct store *store = NULL;

	assert_int_equal(store_file_open(mm, path, flags, &store), 0);
	assert_ptr_equal(store->mm, mm);
	assert_int_equal(store->bytes, bytes);
	return store;
}

static void read_all_check(struct store *store, uint8_t *buf, uint64_t bytes)
{
	unsigned nr = (unsigned)((bytes + PAGE_SIZE - 1) / PAGE_SIZE);

	for (unsigned i = 0; i <= nr; i += i < 3 ? 1 : 41)
		read_check(store, buf, bytes, i, 1);
	for (unsigned i = 0; i <= nr; i += 256)
		read_check(store, buf, bytes, i, 256);
	if (nr > 2)
		read_check(store, buf, bytes, nr - 2, 2);
}

static const uint64_t sizes[] = { 0, 1, 4095, 4096, 4097, (1u << 20) + 7 };

static void sizes_check(struct mm *mm, const char *dir, uint32_t flags)
{
	char path[128];
	uint8_t *buf = buf_create();

	path_of(path, sizeof(path), dir);
	for (unsigned i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct store *store;
		struct stat st;
		bool on_disk;

		file_write(path, sizes[i]);
		/* On tmpfs the kernel's cache is the file. */
		on_disk = sizes[i] && file_pages_cached(path, sizes[i]) == 0;
		assert_int_equal(stat(path, &st), 0);
		store = file_open(mm, path, flags, sizes[i]);
		assert_int_equal(store->dev, st.st_dev);
		assert_int_equal(store->ino, st.st_ino);
		if (flags & UMM_FILE_BUFFERED)
			assert_int_equal(store->ops->io_mode(store), UMM_IO_BUFFERED);
		read_all_check(store, buf, sizes[i]);
		assert_int_not_equal(store->ops->io_mode(store), UMM_IO_STORE);
		/* Past the kernel's page cache means that it keeps nothing. */
		if (on_disk && store->ops->io_mode(store) == UMM_IO_DIRECT)
			assert_int_equal(file_pages_cached(path, sizes[i]), 0);
		store->ops->close(store);
	}
	assert_int_equal(unlink(path), 0);
	free(buf);
}

static void test_file_sizes(void **state)
{
	struct fixture *fx = *state;
	struct mm *mm = mm_create(fx, OS_IO_NO_URING);

	sizes_check(fx->mm, fx->dir, 0);
	sizes_check(fx->mm, fx->dir, UMM_FILE_BUFFERED);
	sizes_check(mm, fx->dir, 0);
	mm_destroy(mm);
}

static void test_file_tmpfs(void **state)
{
	struct fixture *fx = *state;

	if (!fx->shm[0])
		skip();
	sizes_check(fx->mm, fx->shm, 0);
	sizes_check(fx->mm, fx->shm, UMM_FILE_BUFFERED);
}

/* The caller wants the kernel to keep the pages, too. */
static void test_file_buffered_keeps(void **state)
{
	struct fixture *fx = *state;
	const uint64_t bytes = 64 * PAGE_SIZE;
	uint8_t *buf = buf_create();
	struct store *store;
	char path[128];

	path_of(path, sizeof(path), fx->dir);
	file_write(path, bytes);
	store = file_open(fx->mm, path, UMM_FILE_BUFFERED, bytes);
	read_all_check(store, buf, bytes);
	assert_int_equal(file_pages_cached(path, bytes), 64);
	store->ops->close(store);
	assert_int_equal(unlink(path), 0);
	free(buf);
}

/* ---- direct reads refused ---- */

/* A buffer at an odd address: file systems on disks refuse that for direct reads. */
static ssize_t read_misaligned(struct store *store, uint8_t *buf)
{
	struct iovec iov = { buf + 1, PAGE_SIZE };

	return store->ops->read(store, &iov, 1, 0);
}

static void test_file_direct_refused(void **state)
{
	struct fixture *fx = *state;
	const uint64_t bytes = 40 * PAGE_SIZE + 17;
	unsigned nr_info = atomic_load(&fx->nr_info);
	uint8_t *buf = buf_create();
	enum umm_io_mode mode;
	struct store *store;
	char path[128];

	path_of(path, sizeof(path), fx->dir);
	file_write(path, bytes);
	store = file_open(fx->mm, path, 0, bytes);
	/* The way out must not depend on the path. */
	assert_int_equal(unlink(path), 0);
	mode = store->ops->io_mode(store);
	assert_int_equal(read_misaligned(store, buf), PAGE_SIZE);
	for (unsigned i = 0; i < PAGE_SIZE; i++)
		assert_int_equal(buf[1 + i], byte_at(i));
	if (mode == UMM_IO_DIRECT && store->ops->io_mode(store) != UMM_IO_DIRECT)
		assert_true(atomic_load(&fx->nr_info) > nr_info);
	read_all_check(store, buf, bytes);
	store->ops->close(store);

	/* Once direct reads have worked, a refusal is the caller's error. */
	file_write(path, bytes);
	store = file_open(fx->mm, path, 0, bytes);
	read_check(store, buf, bytes, 0, 1);
	if (store->ops->io_mode(store) == UMM_IO_DIRECT) {
		ssize_t r = read_misaligned(store, buf);

		assert_true(r == -EINVAL || r == (ssize_t)PAGE_SIZE);
		assert_int_equal(store->ops->io_mode(store), UMM_IO_DIRECT);
	}
	read_all_check(store, buf, bytes);
	store->ops->close(store);
	assert_int_equal(unlink(path), 0);
	free(buf);
}

/* What is read with RWF_DONTCACHE, or dropped by advice, does not stay either. */
static void test_file_fallback_keeps_nothing(void **state)
{
	struct fixture *fx = *state;
	const uint64_t bytes = 32 * PAGE_SIZE + 5;
	uint8_t *buf = buf_create();
	struct store *store;
	char path[128];

	path_of(path, sizeof(path), fx->dir);
	file_write(path, bytes);
	if (file_pages_cached(path, bytes)) {
		/* On tmpfs they are the file. */
		unlink(path);
		free(buf);
		skip();
	}
	store = file_open(fx->mm, path, 0, bytes);
	assert_int_equal(read_misaligned(store, buf), PAGE_SIZE);
	read_check(store, buf, bytes, 0, 33);
	assert_true(file_pages_cached(path, bytes) <= 1);
	store->ops->close(store);
	assert_int_equal(unlink(path), 0);
	free(buf);
}

/* A file that neither opens for direct reads nor knows RWF_DONTCACHE, and whose size is said to be 0. */
static void test_file_proc(void **state)
{
	struct fixture *fx = *state;
	static const char path[] = "/proc/version";
	struct store *store = NULL;
	uint8_t *buf, want[256];
	int fd = open(path, O_RDONLY);
	ssize_t nr;

	if (fd < 0 || store_file_open(fx->mm, path, 0, &store)) {
		if (fd >= 0)
			close(fd);
		skip();
	}
	nr = read(fd, want, sizeof(want));
	close(fd);
	buf = buf_create();
	assert_int_not_equal(store->ops->io_mode(store), UMM_IO_DIRECT);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(store_read(store, buf, 0, 1), nr);
		assert_memory_equal(buf + (BUF_PAGES - 1) * PAGE_SIZE, want, nr);
		assert_int_not_equal(store->ops->io_mode(store), UMM_IO_DIRECT);
	}
	store->ops->close(store);
	free(buf);
}

/* No descriptor left for the spare: the file is read all the same. */
static void test_file_few_descriptors(void **state)
{
	struct fixture *fx = *state;
	const uint64_t bytes = 3 * PAGE_SIZE;
	uint8_t *buf = buf_create();
	struct rlimit old, tight;
	struct store *store = NULL;
	char path[128];
	int fd, r;

	path_of(path, sizeof(path), fx->dir);
	file_write(path, bytes);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	tight = old;
	fd = dup(0);
	if (fd < 0)
		fd = open("/dev/null", O_RDONLY);
	assert_true(fd >= 0);
	close(fd);
	tight.rlim_cur = (rlim_t)fd + 1;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
	r = store_file_open(fx->mm, path, 0, &store);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_int_equal(r, 0);
	read_all_check(store, buf, bytes);
	store->ops->close(store);

	tight.rlim_cur = (rlim_t)fd;
	store = NULL;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
	r = store_file_open(fx->mm, path, 0, &store);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_int_equal(r, -EMFILE);
	assert_null(store);
	assert_int_equal(unlink(path), 0);
	free(buf);
}

/* ---- files that change, and what is no file ---- */

static void test_file_shrinks(void **state)
{
	struct fixture *fx = *state;
	const uint64_t bytes = 20 * PAGE_SIZE, cut[] = { 9 * PAGE_SIZE + 100, 9 * PAGE_SIZE, 1, 0 };
	uint8_t *buf = buf_create();
	char path[128];

	path_of(path, sizeof(path), fx->dir);
	for (uint32_t flags = 0; flags <= UMM_FILE_BUFFERED; flags++)
		for (unsigned i = 0; i < ARRAY_SIZE(cut); i++) {
			struct store *store;

			file_write(path, bytes);
			store = file_open(fx->mm, path, flags, bytes);
			read_check(store, buf, bytes, 2, 16);
			assert_int_equal(truncate(path, (off_t)cut[i]), 0);
			read_check(store, buf, cut[i], 0, 20);
			read_check(store, buf, cut[i], 9, 1);
			read_check(store, buf, cut[i], 15, 4);
			/* And grows: but what it was opened with is its size. */
			file_write(path, bytes + 1);
			assert_int_equal(store->bytes, bytes);
			read_check(store, buf, bytes + 1, 0, 20);
			store->ops->close(store);
		}
	assert_int_equal(unlink(path), 0);
	free(buf);
}

static void open_fails(struct mm *mm, const char *path, int error)
{
	for (uint32_t flags = 0; flags <= UMM_FILE_BUFFERED; flags++) {
		struct store *store = NULL;

		assert_int_equal(store_file_open(mm, path, flags, &store), error);
		assert_null(store);
	}
}

static void test_file_refused(void **state)
{
	struct fixture *fx = *state;
	struct store *store = NULL;
	char path[128], loop[160];

	path_of(path, sizeof(path), fx->dir);
	snprintf(loop, sizeof(loop), "%s/file2", fx->dir);
	open_fails(fx->mm, path, -ENOENT);
	open_fails(fx->mm, "", -ENOENT);
	open_fails(fx->mm, fx->dir, -EISDIR);
	open_fails(fx->mm, "/dev/null", -EINVAL);
	assert_int_equal(mkfifo(path, 0644), 0);
	open_fails(fx->mm, path, -EINVAL);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(symlink(loop, path), 0);
	open_fails(fx->mm, path, -ENOENT);
	assert_int_equal(symlink(path, loop), 0);
	open_fails(fx->mm, path, -ELOOP);
	assert_int_equal(unlink(loop), 0);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(store_file_open(fx->mm, path, 0x80, &store), -EINVAL);
	assert_null(store);
}

static void test_file_unreadable(void **state)
{
	struct fixture *fx = *state;
	char path[128];

	path_of(path, sizeof(path), fx->dir);
	file_write(path, 10);
	assert_int_equal(chmod(path, 0), 0);
	/* For the file system this thread is then somebody else, without a superuser's rights. */
	if (geteuid() == 0)
		setfsuid(65534);
	open_fails(fx->mm, path, -EACCES);
	if (geteuid() == 0)
		setfsuid(0);
	assert_int_equal(unlink(path), 0);
}

/* ---- several readers ---- */

struct reader {
	struct mm *mm;
	struct store *store;
	uint64_t bytes;
	unsigned number;
	bool misalign; /* the first read is one that direct reads refuse */
	unsigned nr_bad;
};

static void *reader_main(void *arg)
{
	struct reader *r = arg;
	uint8_t *buf;
	void *p;

	if (threads_enter(&r->mm->threads) || posix_memalign(&p, PAGE_SIZE, BUF_PAGES * PAGE_SIZE))
		abort();
	buf = p;
	if (r->misalign)
		r->nr_bad += read_misaligned(r->store, buf) != (ssize_t)PAGE_SIZE;
	for (unsigned n = 0; n < 60; n++) {
		uint64_t index = (n * 7 + r->number * 13) % (r->bytes / PAGE_SIZE);
		unsigned nr = 1 + n % 8;
		uint64_t want = min_u64(r->bytes - index * PAGE_SIZE, nr * PAGE_SIZE);

		r->nr_bad += store_read(r->store, buf, index, nr) != (ssize_t)want ||
			     !bytes_right(buf, index, want);
	}
	free(buf);
	return NULL;
}

static void test_file_readers(void **state)
{
	struct fixture *fx = *state;
	const uint64_t bytes = 100 * PAGE_SIZE + 321;
	char path[128];

	path_of(path, sizeof(path), fx->dir);
	file_write(path, bytes);
	for (unsigned round = 0; round < 20; round++) {
		struct store *store = file_open(fx->mm, path, 0, bytes);
		struct reader reader[4];
		pthread_t thread[4];

		for (unsigned i = 0; i < 4; i++) {
			reader[i] = (struct reader){ .mm = fx->mm,
						     .store = store,
						     .bytes = bytes,
						     .number = i,
						     .misalign = round % 2 };
			assert_int_equal(pthread_create(&thread[i], NULL, reader_main, &reader[i]),
					 0);
		}
		for (unsigned i = 0; i < 4; i++)
			pthread_join(thread[i], NULL);
		for (unsigned i = 0; i < 4; i++) {
			/* All switch over together unless one of them has got a direct read through,
			 * in which case the misaligned reads of the others are refused. */
			if (store->ops->io_mode(store) != UMM_IO_DIRECT || !reader[i].misalign)
				assert_int_equal(reader[i].nr_bad, 0);
			else
				assert_true(reader[i].nr_bad <= 1);
		}
		store->ops->close(store);
	}
	assert_int_equal(unlink(path), 0);
}

/* ---- callers' stores ---- */

struct user {
	ssize_t result; /* what read returns; 1: all that was asked */
	unsigned nr_reads, nr_closes;
};

static ssize_t user_read(void *ctx, const struct iovec *iov, int iovcnt, uint64_t offset)
{
	struct user *u = ctx;
	ssize_t bytes = 0;

	u->nr_reads++;
	if (u->result != 1)
		return u->result;
	for (int i = 0; i < iovcnt; i++) {
		uint8_t *p = iov[i].iov_base;

		for (size_t j = 0; j < iov[i].iov_len; j++)
			p[j] = byte_at(offset + (uint64_t)bytes++);
	}
	return bytes;
}

static void user_close(void *ctx)
{
	struct user *u = ctx;

	u->nr_closes++;
}

static void test_user_store(void **state)
{
	struct fixture *fx = *state;
	struct umm_store_ops ops = { sizeof(ops), user_read, user_close };
	struct user u = { .result = 1 };
	struct store *store = NULL;
	uint8_t *buf = buf_create();

	assert_int_equal(store_user_open(fx->mm, &ops, &u, 1000 * PAGE_SIZE + 3, &store), 0);
	memset(&ops, 0, sizeof(ops));
	assert_int_equal(store->bytes, 1000 * PAGE_SIZE + 3);
	assert_int_equal(store->dev, 0);
	assert_int_equal(store->ino, 0);
	assert_int_equal(store->ops->io_mode(store), UMM_IO_STORE);
	read_check(store, buf, UINT64_MAX, 0, 1);
	read_check(store, buf, UINT64_MAX, 77, 256);
	assert_int_equal(u.nr_reads, 2);
#if UMM_FAULT_POINTS
	fault_arm(FAULT_IO, 1);
	assert_int_equal(store_read(store, buf, 0, 1), -EIO);
	assert_true(fault_disarm());
	assert_int_equal(u.nr_reads, 2);
#endif
	assert_int_equal(u.nr_closes, 0);
	store->ops->close(store);
	assert_int_equal(u.nr_closes, 1);
	free(buf);
}

static void test_user_errors(void **state)
{
	static const struct {
		ssize_t returned, result;
	} cases[] = {
		{ 0, 0 },
		{ 100, 100 },
		{ -EIO, -EIO },
		{ -EAGAIN, -EAGAIN },
		{ -ESTALE, -ESTALE },
		{ -4095, -4095 },
		{ -4096, -EIO },
		{ INT64_MIN, -EIO },
		{ 2 * PAGE_SIZE, 2 * PAGE_SIZE },
		{ 2 * PAGE_SIZE + 1, -EIO },
		{ INT64_MAX, -EIO },
	};
	struct fixture *fx = *state;
	struct umm_store_ops ops = { sizeof(ops), user_read, NULL };
	struct user u = { 0 };
	struct store *store = NULL;
	uint8_t *buf = buf_create();
	unsigned nr_error = atomic_load(&fx->nr_error);

	assert_int_equal(store_user_open(fx->mm, &ops, &u, UINT64_MAX, &store), 0);
	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		u.result = cases[i].returned;
		assert_int_equal(store_read(store, buf, i, 2), cases[i].result);
	}
	assert_int_equal(atomic_load(&fx->nr_error) - nr_error, 4);
	store->ops->close(store);

	store = NULL;
	assert_int_equal(store_user_open(fx->mm, NULL, &u, 1, &store), -EINVAL);
	ops.size--;
	assert_int_equal(store_user_open(fx->mm, &ops, &u, 1, &store), -EINVAL);
	ops.size = 0;
	assert_int_equal(store_user_open(fx->mm, &ops, &u, 1, &store), -EINVAL);
	ops.size = sizeof(ops);
	ops.read = NULL;
	assert_int_equal(store_user_open(fx->mm, &ops, &u, 1, &store), -EINVAL);
	assert_null(store);
	free(buf);
}

static void test_open_faults(void **state)
{
#if UMM_FAULT_POINTS
	struct fixture *fx = *state;
	struct umm_store_ops ops = { sizeof(ops), user_read, user_close };
	struct user u = { .result = 1 };
	struct store *store = NULL;
	uint8_t *buf = buf_create();
	char path[128];

	path_of(path, sizeof(path), fx->dir);
	file_write(path, PAGE_SIZE);
	fault_arm(FAULT_ALLOC, 1);
	assert_int_equal(store_file_open(fx->mm, path, 0, &store), -ENOMEM);
	assert_true(fault_disarm());
	fault_arm(FAULT_ALLOC, 1);
	assert_int_equal(store_user_open(fx->mm, &ops, &u, 1, &store), -ENOMEM);
	assert_true(fault_disarm());
	assert_null(store);
	assert_int_equal(u.nr_closes, 0);

	/* A failed read says nothing about the way of reading. */
	store = file_open(fx->mm, path, 0, PAGE_SIZE);
	fault_arm(FAULT_IO, 1);
	assert_int_equal(store_read(store, buf, 0, 1), -EIO);
	assert_true(fault_disarm());
	read_check(store, buf, PAGE_SIZE, 0, 1);
	store->ops->close(store);
	assert_int_equal(unlink(path), 0);
	free(buf);
#else
	(void)state;
	skip();
#endif
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_file_sizes),
		cmocka_unit_test(test_file_tmpfs),
		cmocka_unit_test(test_file_buffered_keeps),
		cmocka_unit_test(test_file_direct_refused),
		cmocka_unit_test(test_file_fallback_keeps_nothing),
		cmocka_unit_test(test_file_proc),
		cmocka_unit_test(test_file_few_descriptors),
		cmocka_unit_test(test_file_shrinks),
		cmocka_unit_test(test_file_refused),
		cmocka_unit_test(test_file_unreadable),
		cmocka_unit_test(test_file_readers),
		cmocka_unit_test(test_user_store),
		cmocka_unit_test(test_user_errors),
		cmocka_unit_test(test_open_faults),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
