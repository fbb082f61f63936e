/* SPDX-License-Identifier: MIT */
/*
 * Files that the command makes itself, in a fresh directory that goes away with it. Their contents
 * are a function of seed, file and position, so that comparing needs no second read.
 *
 * Owns the directory: a state of the process, because it must also be found by whoever ends the
 * process out of turn.
 */
#define _GNU_SOURCE
#include "readtwice.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "complain.h"
#include "interrupt.h"
#include "posix.h"
#include "progress.h"
#include "report.h"

#define CHUNK_BYTES (UINT64_C(1) << 20)
#define NAME_CHARS 16

static struct {
	char path[PATH_MAX];
	int fd;              /* of the directory */
	_Atomic unsigned nr; /* files that may exist */
	atomic_bool exists;
} own;

/* Steele, Lea and Flood's SplitMix64: a step of the state, and its output. */
#define GOLDEN UINT64_C(0x9e3779b97f4a7c15)

static uint64_t scramble(uint64_t z)
{
	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

void own_page(uint64_t seed, uint32_t file, uint64_t index, void *page)
{
	uint64_t state = scramble(scramble(scramble(seed) + file) + index);
	uint64_t *words = page;

	for (size_t i = 0; i < UMM_PAGE_SIZE / sizeof(*words); i++) {
		state += GOLDEN;
		words[i] = scramble(state);
	}
}

/* "f0", "f1" and so on; by hand rather than by snprintf, since also called on abort(). */
static void own_name(char *out, unsigned file)
{
	unsigned power = 1;

	while (power <= file / 10)
		power *= 10;
	*out++ = 'f';
	for (; power; power /= 10)
		*out++ = (char)('0' + file / power % 10);
	*out = '\0';
}

void own_remove(void)
{
	unsigned nr = atomic_load(&own.nr);
	char name[NAME_CHARS];

	if (!atomic_load(&own.exists))
		return;
	for (unsigned i = 0; i < nr; i++) {
		own_name(name, i);
		unlinkat(own.fd, name, 0);
	}
	/* May fail on a second call, or if somebody put a file there: that one is not ours. */
	if (rmdir(own.path) == 0)
		atomic_store(&own.exists, false);
}

static int own_fail(const char *what, int err)
{
	complain(READTWICE, "'%s': %s: %s", own.path, what, strerror(err));
	return EXIT_FAILED;
}

static int own_directory(void)
{
	const char *tmp = getenv("TMPDIR");

	if (!tmp || !*tmp)
		tmp = "/var/tmp";
	if ((size_t)snprintf(own.path, sizeof(own.path), "%s/umm-readtwice-XXXXXX", tmp) >=
	    sizeof(own.path))
		return own_fail("making files", ENAMETOOLONG);
	if (!mkdtemp(own.path))
		return own_fail("making a directory", errno);
	own.fd = open(own.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (own.fd < 0) {
		int err = errno;

		rmdir(own.path);
		return own_fail("opening the directory", err);
	}
	atomic_store(&own.exists, true);
	return 0;
}

static int own_check_space(const struct readtwice_options *options)
{
	uint64_t nr = nr_readers(options);
	char want[SIZE_CHARS], have[SIZE_CHARS];
	struct statvfs fs;
	uint64_t total, room;

	if (__builtin_mul_overflow(nr, options->file_size, &total))
		total = UINT64_MAX;
	if (fstatvfs(own.fd, &fs))
		return own_fail("asking for free space", errno);
	if (__builtin_mul_overflow((uint64_t)fs.f_bavail, (uint64_t)fs.f_frsize, &room))
		room = UINT64_MAX;
	if (total <= room)
		return 0;
	complain(READTWICE, "--file-size: %llu files take %s, but only %s are free in '%s'",
		 (unsigned long long)nr, format_bytes(want, total), format_bytes(have, room),
		 own.path);
	return EXIT_USAGE;
}

/* 0 or -errno. */
static int own_fill(int fd, uint64_t seed, uint32_t file, uint64_t bytes, unsigned char *chunk)
{
	for (uint64_t at = 0; at < bytes && !interrupted(); at += CHUNK_BYTES) {
		uint64_t length = bytes - at < CHUNK_BYTES ? bytes - at : CHUNK_BYTES;
		int err;

		for (uint64_t i = 0; i < length; i += UMM_PAGE_SIZE)
			own_page(seed, file, (at + i) / UMM_PAGE_SIZE, chunk + i);
		err = write_whole(fd, chunk, (size_t)length);
		if (err)
			return err;
	}
	/* Reads past the kernel's cache see what is on the disk; and what the kernel has cached of
	 * it would only take memory away from the run. */
	if (fsync(fd))
		return -errno;
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	return 0;
}

/* 0 or -errno. */
static int own_file(struct file_set *set, const struct readtwice_options *options, uint32_t file,
		    unsigned char *chunk)
{
	char name[NAME_CHARS];
	char *path = NULL;
	struct stat st;
	int err;
	int fd;

	own_name(name, file);
	fd = openat(own.fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	err = own_fill(fd, options->seed, file, options->file_size, chunk);
	if (!err && fstat(fd, &st))
		err = -errno;
	if (close(fd) && !err)
		err = -errno;
	if (!err && asprintf(&path, "%s/%s", own.path, name) < 0)
		err = -ENOMEM;
	return err ? err : files_add(set, path, &st);
}

int own_create(struct file_set *set, const struct readtwice_options *options)
{
	uint32_t nr = (uint32_t)nr_readers(options);
	unsigned char *chunk = aligned_alloc(UMM_PAGE_SIZE, CHUNK_BYTES);
	int status = chunk ? own_directory() : own_fail("making files", ENOMEM);
	int err = 0;

	if (!status)
		status = own_check_space(options);
	set->own = true;
	set->seed = options->seed;
	for (uint32_t i = 0; !status && i < nr && !interrupted(); i++) {
		progress_show("making files", i, nr);
		atomic_store(&own.nr, i + 1);
		err = own_file(set, options, i, chunk);
		if (err)
			status = own_fail("making files", -err);
	}
	free(chunk);
	return status;
}
