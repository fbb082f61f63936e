/* SPDX-License-Identifier: MIT */
/*
 * What one reader thread does. It opens its files, waits at the gate with all the others, and reads
 * each file twice. Handles stay open to the end of the round, because a file's pages leave the cache
 * with its last handle; only where there are more files than the system lets a process open, the
 * oldest one is closed for the next.
 */
#define _GNU_SOURCE
#include "readtwice.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "interrupt.h"
#include "posix.h"

int reader_init(struct reader *reader, const struct plan *plan, const struct share *share,
		struct gate *gate, umm_memcg_t *cg)
{
	*reader = (struct reader){
		.plan = plan,
		.share = share,
		.gate = gate,
		.cg = cg,
		.fd = -1,
	};
	reader->objs = calloc(share->nr + 1, sizeof(*reader->objs));
	reader->page = aligned_alloc(UMM_PAGE_SIZE, UMM_PAGE_SIZE);
	reader->expected = aligned_alloc(UMM_PAGE_SIZE, UMM_PAGE_SIZE);
	if (reader->objs && reader->page && reader->expected)
		return 0;
	reader_fini(reader);
	return -ENOMEM;
}

void reader_fini(struct reader *reader)
{
	for (size_t i = 0; reader->objs && i < reader->share->nr; i++)
		umm_close(reader->objs[i]);
	free(reader->objs);
	free(reader->page);
	free(reader->expected);
	reader->objs = NULL;
	reader->page = reader->expected = NULL;
}

static struct file *reader_file(const struct reader *reader, size_t nth)
{
	return &reader->plan->set->files[reader->share->files[nth]];
}

/* A file that somebody changed meanwhile explains whatever went wrong with it: not an error. */
static bool excused(const struct reader *reader, struct file *file)
{
	return !reader->plan->set->own && file_changed(file);
}

static void reader_failed(struct reader *reader, struct file *file, const char *what,
			  uint64_t offset, const char *why)
{
	if (excused(reader, file))
		return;
	reader->errors++;
	trouble_add(reader->plan->trouble, TROUBLE_IO, "'%s': %s at offset %llu: %s", file->path,
		    what, (unsigned long long)offset, why);
}

static void reader_open(struct reader *reader, size_t nth)
{
	struct file *file = reader_file(reader, nth);
	uint32_t flags = reader->plan->options->io == CHOOSE_BUFFERED ? UMM_FILE_BUFFERED : 0;
	int err = umm_file_open(reader->cg, file->path, flags, &reader->objs[nth]);

	if (err) {
		reader->objs[nth] = NULL;
		reader_failed(reader, file, "opening", 0, strerror(-err));
		return;
	}
	reader->io_modes |= 1u << umm_obj_io_mode(reader->objs[nth]);
}

/* What a plain read gives, into `expected`. 0, or -1 if it gives less, with errno or 0. */
static int read_plainly(struct reader *reader, size_t length, uint64_t offset)
{
	size_t got = 0;

	while (got < length) {
		ssize_t n = pread(reader->fd, reader->expected + got, length - got,
				  (off_t)(offset + got));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			errno = n ? errno : 0;
			return -1;
		}
		got += (size_t)n;
	}
	return 0;
}

/* Compare what was read. False: the file is not worth reading on. */
static bool reader_verify(struct reader *reader, struct file *file, size_t nth, size_t length,
			  uint64_t offset)
{
	const struct file_set *set = reader->plan->set;
	unsigned long long at = 0;

	if (set->own) {
		own_page(set->seed, reader->share->files[nth], offset / READ_BYTES,
			 reader->expected);
	} else if (read_plainly(reader, length, offset)) {
		reader_failed(reader, file, "reading it plainly", offset,
			      errno ? strerror(errno) : "it ends there");
		return false;
	}
	if (!memcmp(reader->page, reader->expected, length)) {
		reader->verified_bytes += length;
		return true;
	}
	if (excused(reader, file))
		return false;
	while (reader->page[at] == reader->expected[at])
		at++;
	trouble_add(reader->plan->trouble, TROUBLE_WRONG,
		    "'%s': wrong byte at offset %llu: is 0x%02x, must be 0x%02x", file->path,
		    offset + at, reader->page[at], reader->expected[at]);
	return false;
}

/* One read. False: the file is not worth reading on. */
static bool reader_page(struct reader *reader, size_t nth, uint64_t offset, uint64_t bytes)
{
	struct file *file = reader_file(reader, nth);
	size_t want = bytes - offset < READ_BYTES ? (size_t)(bytes - offset) : READ_BYTES;
	ssize_t got = umm_pread(reader->objs[nth], reader->page, want, offset);

	if (got < 0) {
		reader_failed(reader, file, "reading", offset, strerror((int)-got));
		return false;
	}
	if ((size_t)got != want) {
		reader_failed(reader, file, "reading", offset, "fewer bytes than it has");
		return false;
	}
	/* Only this thread writes it: no need for a locked addition. */
	atomic_store_explicit(&reader->pages,
			      atomic_load_explicit(&reader->pages, memory_order_relaxed) + 1,
			      memory_order_relaxed);
	reader->bytes += want;
	return !reader->plan->options->verify || reader_verify(reader, file, nth, want, offset);
}

static void reader_twice(struct reader *reader, size_t nth)
{
	uint64_t bytes = umm_obj_bytes(reader->objs[nth]);

	for (int pass = 0; pass < PASSES; pass++) {
		for (uint64_t at = 0; at < bytes; at += READ_BYTES) {
			if (interrupted() || !reader_page(reader, nth, at, bytes))
				return;
		}
	}
}

/* Read one file, with a plain descriptor beside the handle if it is to be compared. */
static void reader_compare_twice(struct reader *reader, size_t nth)
{
	struct file *file = reader_file(reader, nth);

	if (reader->plan->options->verify && !reader->plan->set->own) {
		reader->fd = open(file->path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
		if (reader->fd < 0) {
			reader_failed(reader, file, "opening it plainly", 0, strerror(errno));
			return;
		}
	}
	reader_twice(reader, nth);
	if (reader->fd >= 0)
		close(reader->fd);
	reader->fd = -1;
}

/* False: nothing is to be read. */
static bool gate_pass(struct gate *gate)
{
	bool cancelled;

	pthread_mutex_lock(&gate->lock);
	gate->ready++;
	pthread_cond_signal(&gate->moved);
	while (!gate->open)
		pthread_cond_wait(&gate->opened, &gate->lock);
	cancelled = gate->cancelled;
	pthread_mutex_unlock(&gate->lock);
	return !cancelled;
}

static void gate_leave(struct gate *gate)
{
	pthread_mutex_lock(&gate->lock);
	gate->done++;
	pthread_cond_signal(&gate->moved);
	pthread_mutex_unlock(&gate->lock);
}

void *reader_main(void *arg)
{
	struct reader *reader = arg;
	size_t window = reader->plan->window;
	size_t nr = reader->share->nr;

	for (size_t i = 0; i < nr && i < window && !interrupted(); i++)
		reader_open(reader, i);
	if (!gate_pass(reader->gate))
		nr = 0;
	for (size_t i = 0; i < nr && !interrupted(); i++) {
		if (i >= window) {
			umm_close(reader->objs[i - window]);
			reader->objs[i - window] = NULL;
			reader_open(reader, i);
		}
		if (reader->objs[i])
			reader_compare_twice(reader, i);
	}
	reader->end_ns = now_ns();
	gate_leave(reader->gate);
	return NULL;
}
