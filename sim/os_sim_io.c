/* SPDX-License-Identifier: MIT */
/*
 * The files of a world: named, read-only, with contents that follow from a seed. One device serves all of
 * them, with a latency and a bandwidth; both 0, reads take only the CPU time that filling takes, like
 * those of sparse files.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "mem.h"
#include "os_sim.h"

#define SIM_DEV 1u

struct sim_file {
	char *path;
	uint64_t hash, bytes, seed;
};

static struct {
	struct sim_file *file;
	size_t nr, room;
	bool keep_contents;
	uint64_t device_free_ps;
} store;

struct os_io {
	int unused;
};

void os_sim_keep_contents(bool keep)
{
	store.keep_contents = keep;
}

bool os_sim_keeps_contents(void)
{
	return store.keep_contents ||
	       UMM_DEBUG >= 2; /* which looks at the contents of free frames */
}

void os_sim_io_init(void)
{
	store.nr = 0;
	store.device_free_ps = 0;
}

void os_sim_io_fini(void)
{
	for (size_t i = 0; i < store.nr; i++)
		free(store.file[i].path);
	free(store.file);
	store.file = NULL;
	store.nr = store.room = 0;
}

static uint64_t path_hash(const char *path)
{
	uint64_t hash = 0xcbf29ce484222325u;

	while (*path)
		hash = (hash ^ (unsigned char)*path++) * 0x100000001b3u;
	return hash;
}

static const struct sim_file *file_find(const char *path)
{
	uint64_t hash = path_hash(path);

	for (size_t i = 0; i < store.nr; i++)
		if (store.file[i].hash == hash && !strcmp(store.file[i].path, path))
			return &store.file[i];
	return NULL;
}

int os_sim_file_create(const char *path, uint64_t bytes, uint64_t seed)
{
	if (file_find(path))
		return -EEXIST;
	if (store.nr == store.room) {
		size_t room = store.room ? 2 * store.room : 64;
		struct sim_file *file = realloc(store.file, room * sizeof(*file));

		if (!file)
			return -ENOMEM;
		store.file = file;
		store.room = room;
	}
	store.file[store.nr] = (struct sim_file){
		.path = strdup(path), .hash = path_hash(path), .bytes = bytes, .seed = seed
	};
	if (!store.file[store.nr].path)
		return -ENOMEM;
	store.nr++;
	return 0;
}

unsigned char os_sim_file_byte(uint64_t seed, uint64_t offset)
{
	uint64_t word = (seed + offset / 8 + 1) * 0x9e3779b97f4a7c15u;

	return (unsigned char)((word ^ word >> 29) >> 8 * (offset % 8));
}

/* ---- os.h ---- */

int os_file_open(const char *path, enum os_open_mode mode, struct os_file *ret)
{
	const struct sim_file *file = file_find(path);

	(void)mode;
	sim_work(4 * sim_ps.syscall); /* stat, open, fstat, fcntl */
	sim_point();
	if (!file)
		return -ENOENT;
	ret->fd = (int)(file - store.file);
	ret->bytes = file->bytes;
	ret->dev = SIM_DEV;
	ret->ino = (uint64_t)ret->fd + 1;
	return 0;
}

void os_file_close(struct os_file *f)
{
	sim_work(sim_ps.syscall);
	sim_point();
	f->fd = -1;
}

void os_file_drop_cache(struct os_file *f, uint64_t offset, uint64_t bytes)
{
	(void)f, (void)offset, (void)bytes;
	sim_work(sim_ps.syscall);
	sim_point();
}

int os_io_create(unsigned flags, struct os_io **ret)
{
	struct os_io *io = os_alloc(sizeof(*io));

	(void)flags;
	if (!io)
		return -ENOMEM;
	*ret = io;
	return 0;
}

void os_io_destroy(struct os_io *io)
{
	os_free(io);
}

const char *os_io_name(const struct os_io *io)
{
	(void)io;
	return "simulated";
}

static void read_contents(const struct sim_file *file, const struct os_read *r, uint64_t bytes)
{
	uint64_t at = r->offset;

	for (int i = 0; i < r->iovcnt && bytes; i++) {
		unsigned char *to = r->iov[i].iov_base;
		size_t n = min_u64(r->iov[i].iov_len, bytes);

		for (size_t j = 0; j < n; j++)
			to[j] = os_sim_file_byte(file->seed, at + j);
		at += n;
		bytes -= n;
	}
}

static uint64_t read_bytes(const struct sim_file *file, const struct os_read *r)
{
	uint64_t bytes = 0;

	for (int i = 0; i < r->iovcnt; i++)
		bytes += r->iov[i].iov_len;
	return r->offset < file->bytes ? min_u64(bytes, file->bytes - r->offset) : 0;
}

/* The device transfers one read at a time, at its bandwidth; latencies overlap. */
static uint64_t device_done_ps(uint64_t bytes)
{
	uint64_t start = max_u64(store.device_free_ps, sim_me->clk_ps);

	store.device_free_ps = start + (uint64_t)(sim_ps.io_ps_per_byte * (double)bytes);
	return store.device_free_ps + sim_ps.io_latency;
}

void os_io_read(struct os_io *io, struct os_read *reads, unsigned nr)
{
	uint64_t done_ps = 0;

	(void)io;
	sim_work(sim_ps.syscall);
	sim_point();
	for (unsigned i = 0; i < nr; i++) {
		struct os_read *r = &reads[i];
		const struct sim_file *file = &store.file[r->fd];
		uint64_t bytes = read_bytes(file, r);

		VM_BUG_ON(r->fd < 0 || (size_t)r->fd >= store.nr);
		if (fault_point(FAULT_IO)) {
			r->result = -EIO;
			continue;
		}
		if (os_sim_keeps_contents())
			read_contents(file, r, bytes);
		for (uint64_t page = 0; page < bytes; page += PAGE_SIZE) {
			sim_work(sim_ps.fill);
			sim_node_traffic(sim_me->node, 2 * PAGE_SIZE);
			sim_point();
		}
		r->result = (ssize_t)bytes;
		done_ps = max_u64(done_ps, device_done_ps(bytes));
	}
	if (done_ps > sim_me->clk_ps)
		sim_block(done_ps);
}
