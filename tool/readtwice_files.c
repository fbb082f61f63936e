/* SPDX-License-Identifier: MIT */
/* Owns which files are read, and by whom. */
#define _GNU_SOURCE
#include "readtwice.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "complain.h"
#include "interrupt.h"
#include "progress.h"
#include "report.h"

int files_add(struct file_set *set, char *path, const struct stat *st)
{
	struct file *file;

	if (!path)
		return -ENOMEM;
	if (set->nr == set->room) {
		size_t room = set->room ? set->room * 2 : 256;
		struct file *files = realloc(set->files, room * sizeof(*files));

		if (!files) {
			free(path);
			return -ENOMEM;
		}
		set->files = files;
		set->room = room;
	}
	file = &set->files[set->nr++];
	file->path = path;
	file->st = *st;
	atomic_init(&file->changed, false);
	set->bytes += (uint64_t)st->st_size;
	return 0;
}

/* Only opening tells whether a file can be opened; not blocking, should it have become a FIFO. */
static int files_try(struct file_set *set, const char *path, const struct stat *st)
{
	int fd;

	if (!S_ISREG(st->st_mode)) {
		set->skipped_special++;
		return 0;
	}
	if (st->st_size == 0) {
		set->skipped_empty++;
		return 0;
	}
	fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0) {
		set->skipped_unreadable++;
		return 0;
	}
	close(fd);
	return files_add(set, strdup(path), st);
}

static int files_visit(struct file_set *set, const FTSENT *entry)
{
	switch (entry->fts_info) {
	case FTS_F:
	case FTS_SL:
	case FTS_SLNONE:
	case FTS_DEFAULT: return files_try(set, entry->fts_accpath, entry->fts_statp);
	case FTS_DNR:
	case FTS_ERR:
	case FTS_NS: set->skipped_unreadable++; return 0;
	default: /* directories, before and after */ return 0;
	}
}

static int compare_names(const FTSENT **left, const FTSENT **right)
{
	return strcmp((*left)->fts_name, (*right)->fts_name);
}

/* Only a link that was named on the command line is followed, as by find -H. */
static int files_walk(struct file_set *set, char **paths)
{
	FTS *walk = fts_open(paths, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, compare_names);
	FTSENT *entry;
	int err = 0;

	if (!walk)
		return -errno;
	while (!err && !interrupted()) {
		errno = 0;
		entry = fts_read(walk);
		if (!entry) {
			err = -errno;
			break;
		}
		err = files_visit(set, entry);
		progress_show("looking for files", 0, 0);
	}
	fts_close(walk);
	return err;
}

int files_find(struct file_set *set, char **paths, int nr_paths)
{
	struct stat st;
	int err;

	/* A name that does not exist was mistyped: skipping it would measure something else. */
	for (int i = 0; i < nr_paths; i++) {
		if (!*paths[i] || (stat(paths[i], &st) && (errno == ENOENT || errno == ENOTDIR))) {
			complain(READTWICE, "'%s': no such file or directory", paths[i]);
			return EXIT_USAGE;
		}
	}
	err = files_walk(set, paths);
	if (err) {
		complain(READTWICE, "looking for files: %s", strerror(-err));
		return EXIT_FAILED;
	}
	if (!set->nr && !interrupted()) {
		complain(READTWICE,
			 "'%s'%s: no file to read (%llu empty, %llu unreadable, %llu not regular)",
			 paths[0], nr_paths > 1 ? " and the others" : "",
			 (unsigned long long)set->skipped_empty,
			 (unsigned long long)set->skipped_unreadable,
			 (unsigned long long)set->skipped_special);
		return EXIT_USAGE;
	}
	return 0;
}

static bool same_time(const struct timespec *left, const struct timespec *right)
{
	return left->tv_sec == right->tv_sec && left->tv_nsec == right->tv_nsec;
}

/*
 * Was it changed since it was found? Compared with the very first look, before any handle existed: so
 * whatever the cache holds was read later than that. The change time as well, since the modification
 * time can be set back.
 */
bool file_changed(struct file *file)
{
	const struct stat *old = &file->st;
	struct stat now;
	bool same;

	same = stat(file->path, &now) == 0 && now.st_dev == old->st_dev &&
	       now.st_ino == old->st_ino && now.st_size == old->st_size &&
	       same_time(&now.st_mtim, &old->st_mtim) && same_time(&now.st_ctim, &old->st_ctim);
	if (!same)
		atomic_store(&file->changed, true);
	return !same;
}

uint64_t files_skipped(const struct file_set *set)
{
	return set->skipped_empty + set->skipped_unreadable + set->skipped_special;
}

uint64_t files_changed(const struct file_set *set)
{
	uint64_t nr = 0;

	for (size_t i = 0; i < set->nr; i++)
		nr += atomic_load(&set->files[i].changed);
	return nr;
}

void files_fini(struct file_set *set)
{
	for (size_t i = 0; i < set->nr; i++)
		free(set->files[i].path);
	free(set->files);
	*set = (struct file_set){ 0 };
}

/* ---- sharing out ------------------------------------------------------------------------- */

struct load {
	uint64_t bytes;
	uint32_t reader;
};

static bool load_less(const struct load *left, const struct load *right)
{
	if (left->bytes != right->bytes)
		return left->bytes < right->bytes;
	return left->reader < right->reader;
}

/* The least loaded reader stands at the top of a heap; it has just grown heavier. */
static void heap_sink_top(struct load *heap, size_t nr)
{
	size_t at = 0;

	for (;;) {
		size_t least = at;

		for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < nr; child++) {
			if (load_less(&heap[child], &heap[least]))
				least = child;
		}
		if (least == at)
			return;
		struct load swap = heap[at];

		heap[at] = heap[least];
		heap[least] = swap;
		at = least;
	}
}

static int compare_sizes(const void *left, const void *right, void *set)
{
	const struct file *files = ((const struct file_set *)set)->files;
	uint32_t l = *(const uint32_t *)left;
	uint32_t r = *(const uint32_t *)right;

	if (files[l].st.st_size != files[r].st.st_size)
		return files[l].st.st_size > files[r].st.st_size ? -1 : 1;
	return (l > r) - (l < r);
}

/* owner[f] = the reader of file f: the largest first, each to whoever has the least so far. */
static int deal_by_size(const struct file_set *set, size_t nr, uint32_t *owner)
{
	uint32_t *order = malloc(set->nr * sizeof(*order));
	struct load *heap = malloc(nr * sizeof(*heap));
	int err = order && heap ? 0 : -ENOMEM;

	if (!err) {
		for (size_t i = 0; i < set->nr; i++)
			order[i] = (uint32_t)i;
		for (size_t i = 0; i < nr; i++)
			heap[i] = (struct load){ 0, (uint32_t)i };
		qsort_r(order, set->nr, sizeof(*order), compare_sizes, (void *)(uintptr_t)set);
		for (size_t i = 0; i < set->nr; i++) {
			owner[order[i]] = heap[0].reader;
			heap[0].bytes += (uint64_t)set->files[order[i]].st.st_size;
			heap_sink_top(heap, nr);
		}
	}
	free(order);
	free(heap);
	return err;
}

/* Each reader's files in the order in which they were found. */
static int fill_shares(struct share *shares, size_t nr, const uint32_t *owner, size_t nr_files)
{
	for (size_t i = 0; i < nr_files; i++)
		shares[owner[i]].nr++;
	for (size_t i = 0; i < nr; i++) {
		shares[i].files = malloc((shares[i].nr + 1) * sizeof(uint32_t));
		if (!shares[i].files)
			return -ENOMEM;
		shares[i].nr = 0;
	}
	for (size_t i = 0; i < nr_files; i++) {
		struct share *share = &shares[owner[i]];

		share->files[share->nr++] = (uint32_t)i;
	}
	return 0;
}

/* A file for each reader; or fewer, and several readers read the same. */
static int fill_round_robin(struct share *shares, size_t nr, size_t nr_files)
{
	for (size_t i = 0; i < nr; i++) {
		shares[i].files = malloc(sizeof(uint32_t));
		if (!shares[i].files)
			return -ENOMEM;
		shares[i].files[0] = (uint32_t)(i % nr_files);
		shares[i].nr = 1;
	}
	return 0;
}

struct share *shares_create(const struct file_set *set, size_t nr)
{
	struct share *shares = calloc(nr, sizeof(*shares));
	uint32_t *owner = malloc(set->nr * sizeof(*owner));
	int err = shares && owner && set->nr <= UINT32_MAX ? 0 : -ENOMEM;

	if (!err && set->nr <= nr) {
		err = fill_round_robin(shares, nr, set->nr);
	} else if (!err) {
		err = deal_by_size(set, nr, owner);
		if (!err)
			err = fill_shares(shares, nr, owner, set->nr);
	}
	free(owner);
	if (err) {
		shares_destroy(shares, nr);
		return NULL;
	}
	return shares;
}

void shares_destroy(struct share *shares, size_t nr)
{
	if (!shares)
		return;
	for (size_t i = 0; i < nr; i++)
		free(shares[i].files);
	free(shares);
}
