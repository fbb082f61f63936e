/* SPDX-License-Identifier: MIT */
/*
 * A regular file as a store. What it reads is kept in the instance's own pages, so the kernel shall
 * not keep a second copy: the file is read past the kernel's page cache where the file system can do
 * that, and otherwise what was read is dropped from it.
 *
 * Some file systems open a file for direct reads and then refuse the reads. So until the first direct
 * read has succeeded a second, buffered descriptor is held ready. Opening it only when it is needed
 * would not do: by then the path may name another file, or none.
 */
#include "cache/mapping.h"

/* How the file is read. It changes only to a later one in this list, so a read is tried again at most
 * as often as there are ways. */
enum way {
	WAY_DIRECT_UNTRIED, /* direct; `plain` is open until the first read has succeeded */
	WAY_DIRECT,         /* direct; if that is refused it is an error like any other */
	WAY_DONTCACHE,      /* buffered, the kernel is told with each read not to keep it */
	WAY_DROP,           /* buffered, dropped by advice after each read */
	WAY_BUFFERED,       /* buffered and kept, as the caller asked for */
};

#define NO_FILE (-1)

struct store_file {
	struct store store;
	_Atomic uint32_t way;
	struct os_file direct; /* (C) NO_FILE if it was refused */
	struct os_file plain;  /* changed by who moves the way off WAY_DIRECT_UNTRIED */
};

static struct store_file *store_file_of(struct store *store)
{
	return container_of(store, struct store_file, store);
}

static enum umm_io_mode way_mode(enum way way)
{
	switch (way) {
	case WAY_DIRECT_UNTRIED:
	case WAY_DIRECT: return UMM_IO_DIRECT;
	case WAY_DONTCACHE: return UMM_IO_DONTCACHE;
	case WAY_DROP:
	case WAY_BUFFERED: break;
	}
	return UMM_IO_BUFFERED;
}

static void file_close(struct os_file *f)
{
	if (f->fd != NO_FILE)
		os_file_close(f);
	f->fd = NO_FILE;
}

/* ---- reading ---- */

static struct os_file *way_file(struct store_file *sf, enum way way)
{
	struct os_file *f = way <= WAY_DIRECT ? &sf->direct : &sf->plain;

	VM_DEBUG_ON(f->fd == NO_FILE);
	return f;
}

/* Up to STORE_BATCH reads in the given way, all at once. Their fault point is os_io_read's. */
static void file_read(struct store_file *sf, enum way way, struct store_read *reads, unsigned nr)
{
	struct os_file *f = way_file(sf, way);
	struct os_read io[STORE_BATCH];

	VM_BUG_ON(nr > STORE_BATCH);
	for (unsigned i = 0; i < nr; i++)
		io[i] = (struct os_read){
			.fd = f->fd,
			.flags = way == WAY_DONTCACHE ? OS_READ_DONTCACHE : 0,
			.iov = reads[i].iov,
			.iovcnt = reads[i].iovcnt,
			.offset = reads[i].offset,
		};
	os_io_read(sf->store.mm->io, io, nr);
	for (unsigned i = 0; i < nr; i++) {
		uint64_t bytes = 0;

		reads[i].result = io[i].result;
		/* What was asked, not what was read: the page in which the file ends shall go too. */
		for (int j = 0; way == WAY_DROP && j < reads[i].iovcnt; j++)
			bytes += reads[i].iov[j].iov_len;
		if (bytes)
			os_file_drop_cache(f, reads[i].offset, bytes);
	}
}

/* The way to go on in, after a read ended with `result`. */
static enum way way_after(enum way way, ssize_t result)
{
	if (way == WAY_DIRECT_UNTRIED && result > 0)
		return WAY_DIRECT;
	if (way == WAY_DIRECT_UNTRIED && result == -EINVAL)
		return WAY_DONTCACHE;
	if (way == WAY_DONTCACHE && result == -EOPNOTSUPP)
		return WAY_DROP;
	return way;
}

/* Of several readers that learn the same, one makes the change; the others find it made. */
static void way_change(struct store_file *sf, enum way from, enum way to)
{
	uint32_t expected = from;

	if (!atomic_compare_exchange_strong_explicit(&sf->way, &expected, to, memory_order_acq_rel,
						     memory_order_relaxed))
		return;
	if (to == WAY_DIRECT)
		file_close(&sf->plain);
	else
		mm_log(sf->store.mm, UMM_LOG_INFO, "file %llu:%llu: %s refused, reading %s",
		       (unsigned long long)sf->store.dev, (unsigned long long)sf->store.ino,
		       to == WAY_DONTCACHE ? "O_DIRECT" : "RWF_DONTCACHE",
		       to == WAY_DONTCACHE ? "with RWF_DONTCACHE" : "buffered");
}

/* One read, again in the next way for as long as the file system refuses the way it was tried in. */
static void read_one(struct store_file *sf, struct store_read *read)
{
	enum way way, next;

	do {
		way = atomic_load_explicit(&sf->way, memory_order_acquire);
		file_read(sf, way, read, 1);
		next = way_after(way, read->result);
		if (next != way)
			way_change(sf, way, next);
	} while (read->result < 0 && next != way);
}

static ssize_t store_file_read(struct store *store, const struct iovec *iov, int iovcnt,
			       uint64_t offset)
{
	struct store_read read = { .iov = iov, .iovcnt = iovcnt, .offset = offset };

	VM_DEBUG_ON(iovcnt <= 0 || offset % PAGE_SIZE);
	lock_assert_may_sleep(&store->mm->threads);
	read_one(store_file_of(store), &read);
	return read.result;
}

/* The first read finds out which way works; the others go side by side. One that is refused all the same
 * goes again by itself. */
static void store_file_read_batch(struct store *store, struct store_read *reads, unsigned nr)
{
	struct store_file *sf = store_file_of(store);
	enum way way = atomic_load_explicit(&sf->way, memory_order_acquire);

	lock_assert_may_sleep(&store->mm->threads);
	if (nr == 1 || way == WAY_DIRECT_UNTRIED) {
		for (unsigned i = 0; i < nr; i++)
			read_one(sf, &reads[i]);
		return;
	}
	file_read(sf, way, reads, nr);
	for (unsigned i = 0; i < nr; i++)
		if (way_after(way, reads[i].result) != way)
			read_one(sf, &reads[i]);
}

static enum umm_io_mode store_file_io_mode(struct store *store)
{
	return way_mode(atomic_load_explicit(&store_file_of(store)->way, memory_order_relaxed));
}

/* ---- opening and closing ---- */

static void store_file_close(struct store *store)
{
	struct store_file *sf = store_file_of(store);

	file_close(&sf->direct);
	file_close(&sf->plain);
	os_free(sf);
}

static const struct store_ops store_file_ops = {
	.read = store_file_read,
	.read_batch = store_file_read_batch,
	.close = store_file_close,
	.discard = store_file_close,
	.io_mode = store_file_io_mode,
};

/* Nobody else knows the store yet. */
static void store_way(struct store_file *sf, enum way way)
{
	atomic_store_explicit(&sf->way, way, memory_order_relaxed);
}

/* Open the file directly and, if the path still names it, buffered as well. */
static int open_direct(struct store_file *sf, const char *path)
{
	int r = os_file_open(path, OS_OPEN_DIRECT, &sf->direct);

	if (r < 0) {
		sf->direct.fd = NO_FILE;
		return r;
	}
	/* Without a second descriptor, as there may be no more to be had, it works or it does not. */
	store_way(sf, WAY_DIRECT);
	if (os_file_open(path, OS_OPEN_BUFFERED, &sf->plain) < 0) {
		sf->plain.fd = NO_FILE;
		return 0;
	}
	if (sf->plain.dev == sf->direct.dev && sf->plain.ino == sf->direct.ino)
		store_way(sf, WAY_DIRECT_UNTRIED);
	else
		file_close(&sf->plain);
	return 0;
}

static int open_plain(struct store_file *sf, const char *path, enum way way)
{
	int r = os_file_open(path, OS_OPEN_BUFFERED, &sf->plain);

	if (r < 0) {
		sf->plain.fd = NO_FILE;
		return r;
	}
	store_way(sf, way);
	return 0;
}

int store_file_open(struct mm *mm, const char *path, uint32_t flags, struct store **ret)
{
	struct store_file *sf;
	const struct os_file *f;
	int r;

	if (flags & ~(uint32_t)UMM_FILE_BUFFERED)
		return -EINVAL;
	sf = os_alloc(sizeof(*sf));
	if (!sf)
		return -ENOMEM;
	sf->direct.fd = NO_FILE;
	sf->plain.fd = NO_FILE;
	if (flags & UMM_FILE_BUFFERED) {
		r = open_plain(sf, path, WAY_BUFFERED);
	} else {
		r = open_direct(sf, path);
		/* Direct reads refused, or no regular file, which the second attempt will tell. */
		if (r == -EINVAL)
			r = open_plain(sf, path, WAY_DONTCACHE);
	}
	if (r < 0) {
		os_free(sf);
		return r;
	}
	f = sf->direct.fd != NO_FILE ? &sf->direct : &sf->plain;
	sf->store.ops = &store_file_ops;
	sf->store.mm = mm;
	sf->store.bytes = f->bytes;
	sf->store.dev = f->dev;
	sf->store.ino = f->ino;
	*ret = &sf->store;
	return 0;
}
