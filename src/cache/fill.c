/* SPDX-License-Identifier: MIT */
/* Loading pages; see fill.h. Everything before the data path's miss ends up here. */
#include <string.h>

#include "cache/fill.h"

static void *fill_entry(struct fill *fill)
{
	return (void *)((uintptr_t)fill | XA_TAG_FILL);
}

void fill_put(struct fill *fill)
{
	if (atomic_fetch_sub_explicit(&fill->refs, 1, memory_order_acq_rel) == 1)
		os_free(fill);
}

/* Claim what is missing of [index, index + nr), as far as there are no gaps. i_pages held. */
static int claim_locked(struct mapping *mapping, uint64_t index, unsigned nr, struct fill *fill,
			struct fill **ret_theirs)
{
	void *entry = xa_load(&mapping->pages, index);
	int err;

	if (entry_is_folio(entry))
		return FILL_PRESENT;
	if (entry) {
		*ret_theirs = (struct fill *)((uintptr_t)entry & ~XA_TAG_FILL);
		atomic_fetch_add_explicit(&(*ret_theirs)->refs, 1, memory_order_relaxed);
		return FILL_THEIRS;
	}
	err = xa_store(mapping->mm, &mapping->pages, index, fill_entry(fill), NULL);
	if (err)
		return err;
	for (fill->nr = 1; fill->nr < nr; fill->nr++) {
		uint64_t next = index + fill->nr;

		/* A failure here only makes the window shorter. */
		if (xa_load(&mapping->pages, next) ||
		    xa_store(mapping->mm, &mapping->pages, next, fill_entry(fill), NULL))
			break;
	}
	return FILL_OURS;
}

int fill_claim(struct mapping *mapping, uint64_t index, unsigned nr, struct fill **ret_fill)
{
	struct mm *mm = mapping->mm;
	struct fill *fill =
		os_alloc(sizeof(*fill) + nr * (sizeof(fill->folio[0]) + sizeof(fill->iov[0])));
	int ret;

	if (!fill)
		return -ENOMEM;
	VM_BUG_ON(nr == 0 || nr > FILL_MAX_PAGES);
	fill->index = index;
	fill->iov = (struct iovec *)&fill->folio[nr];
	atomic_init(&fill->refs, 1);
	*ret_fill = fill;
	lock_acquire(&mm->threads, &mapping->i_pages);
	ret = claim_locked(mapping, index, nr, fill, ret_fill);
	lock_release(&mm->threads, &mapping->i_pages);
	if (ret != FILL_OURS)
		os_free(fill);
	return ret;
}

int fill_wait(struct fill *fill, uint64_t index)
{
	int err;

	/* The waker is the loader: it is in the store's read, or in a bounded reclaim. */
	while (!atomic_load_explicit(&fill->done, memory_order_acquire))
		os_wait(&fill->done, 0, OS_FOREVER);
	err = index == fill->index ? fill->error : 0;
	fill_put(fill);
	return err;
}

/* The tickets are out of the index: tell those who wait. */
static void fill_finish(struct fill *fill, int error)
{
	fill->error = error;
	atomic_store_explicit(&fill->done, 1, memory_order_release);
	/* Who waits has taken a reference under i_pages while the ticket was in the index, and it is not
	 * any more. Waking is a system call: not for nobody. */
	if (atomic_load_explicit(&fill->refs, memory_order_acquire) > 1)
		os_wake(&fill->done, INT32_MAX);
	fill_put(fill);
}

/* Give up the claim on all but the first `keep` pages. */
static void fill_trim(struct mapping *mapping, struct fill *fill, unsigned keep)
{
	struct mm *mm = mapping->mm;

	if (keep >= fill->nr)
		return;
	lock_acquire(&mm->threads, &mapping->i_pages);
	for (unsigned i = keep; i < fill->nr; i++)
		xa_store(mm, &mapping->pages, fill->index + i, NULL, NULL);
	lock_release(&mm->threads, &mapping->i_pages);
	fill->nr = keep;
}

/* Frames for the claim, charged. If the whole window cannot be had and the page at its start is wanted,
 * that one. */
static int fill_get_folios(struct umm_object *obj, struct fill *fill, bool wanted)
{
	struct folio_request req = {
		.order = 0,
		.type = MIGRATE_MOVABLE,
		.nr = fill->nr,
		.optional = !wanted || fill->nr > 1,
		.memcg = obj->memcg,
	};
	int err = obj->mm->up->get_folios(obj->mm, &req, fill->folio);

	if (err && err != -ESTALE && wanted && fill->nr > 1) {
		fill_trim(obj->mapping, fill, 1);
		req.nr = 1;
		req.optional = false;
		err = obj->mm->up->get_folios(obj->mm, &req, fill->folio);
	}
	if (err)
		return err;
	fill->nr_folios = fill->nr;
	for (unsigned i = 0; i < fill->nr; i++)
		fill->iov[i] = (struct iovec){ .iov_base = folio_address(fill->folio[i]),
					       .iov_len = PAGE_SIZE };
	return 0;
}

/* The store turned out to end at `size`. */
static void mapping_shorten(struct mapping *mapping, uint64_t size)
{
	uint64_t old = atomic_load_explicit(&mapping->bytes, memory_order_relaxed);

	while (size < old)
		if (atomic_compare_exchange_weak_explicit(&mapping->bytes, &old, size,
							  memory_order_relaxed,
							  memory_order_relaxed))
			return;
}

/*
 * What was read: `got` bytes or an error. Returns pages with data, at least 1, or -errno. What the store
 * did not fill is zeroed: a frame's old bytes belong to somebody else. Short in the middle of a page, or
 * nothing at all, is the store's end.
 */
static int fill_loaded(struct mapping *mapping, struct fill *fill, ssize_t got)
{
	uint64_t start = fill->index << PAGE_SHIFT;
	size_t tail = got > 0 ? (size_t)got % PAGE_SIZE : 0;
	unsigned nr;

	if (got < 0)
		return STORE_ERROR((int)got);
	if (got == 0 || tail)
		mapping_shorten(mapping, start + (uint64_t)got);
	if (got == 0)
		return -ERANGE;
	nr = (unsigned)(((uint64_t)got + PAGE_SIZE - 1) >> PAGE_SHIFT);
	if (tail)
		memset((char *)fill->iov[nr - 1].iov_base + tail, 0, PAGE_SIZE - tail);
	return (int)nr;
}

/* Replace the tickets by folios. From here on they can be found, with two references: the cache's and
 * ours. Replacing an entry needs no memory. */
static void fill_publish(struct umm_object *obj, struct fill *fill)
{
	struct mapping *mapping = obj->mapping;
	struct mm *mm = obj->mm;

	for (unsigned i = 0; i < fill->nr; i++) {
		struct folio *folio = fill->folio[i];

		folio_commit_charge(folio, obj->memcg, MEMCG_FILE);
		atomic_store_explicit(&folio->index, fill->index + i, memory_order_relaxed);
		/* Release: who has a stale pointer, and a reference early, finds index and data with it. */
		atomic_store_explicit(&folio->mapping, mapping, memory_order_release);
		folio_get(folio);
	}
	lock_acquire(&mm->threads, &mapping->i_pages);
	for (unsigned i = 0; i < fill->nr; i++) {
		int err = xa_store(mm, &mapping->pages, fill->index + i, fill->folio[i], NULL);

		VM_BUG_ON(err);
	}
	mapping->nr_pages += fill->nr;
	lock_release(&mm->threads, &mapping->i_pages);
}

/* Frames that were charged and not used. Somebody with a stale pointer may have a reference for a moment:
 * the last to go frees the frame. */
static void fill_free(struct umm_object *obj, struct folio **folios, unsigned nr)
{
	folios_put(obj->mm, folios, nr);
	memcg_cancel_charge(obj->memcg, nr);
}

/* From so many folios on, one lock for the run is cheaper than the batch. */
#define FILL_ADD_DIRECT 8

static void fill_add_lru(struct mm *mm, struct folio **folios, unsigned nr)
{
	if (nr >= FILL_ADD_DIRECT) {
		folios_add_lru(folios, nr);
		return;
	}
	for (unsigned i = 0; i < nr; i++)
		folio_add_lru(mm, folios[i]);
}

/*
 * The end of one load, with the store's answer, if it came to that. The folios keep our reference only
 * if `keep_first`, and then the first one alone. Returns 0 or what kept the first page out.
 */
static int fill_complete(struct umm_object *obj, struct fill *fill, int err, ssize_t got,
			 bool keep_first)
{
	int ret = err ? err : fill_loaded(obj->mapping, fill, got);
	unsigned nr = ret > 0 ? (unsigned)ret : 0, spare = fill->nr_folios - nr;

	fill_trim(obj->mapping, fill, nr);
	if (nr) {
		fill_publish(obj, fill);
		fill_add_lru(obj->mm, fill->folio, nr);
		count_vm_events(obj->mm, PGPGIN, nr);
		count_vm_events(obj->mm, READAHEAD, nr - keep_first);
	}
	if (spare)
		fill_free(obj, fill->folio + nr, spare);
	if (fill->nr_folios)
		memcg_count(obj->memcg, MEMCG_LOADING, -(int64_t)fill->nr_folios);
	if (nr > keep_first)
		folios_put(obj->mm, fill->folio + keep_first, nr - keep_first);
	/* That our memcg is at its limit, or gone, is not the waiters' affair: they look again. */
	fill_finish(fill, !err && ret < 0 ? ret : 0);
	return ret < 0 ? ret : 0;
}

/* Read all loads that have frames, side by side. */
static void fill_read(struct mapping *mapping, struct fill **fills, unsigned nr, ssize_t *ret_got)
{
	struct store *store = mapping->store;
	struct store_read reads[STORE_BATCH];

	for (unsigned i = 0; i < nr; i++)
		reads[i] = (struct store_read){ .iov = fills[i]->iov,
						.iovcnt = (int)fills[i]->nr,
						.offset = fills[i]->index << PAGE_SHIFT };
	store->ops->read_batch(store, reads, nr);
	for (unsigned i = 0; i < nr; i++)
		ret_got[i] = reads[i].result;
	/* A bad spot in what was only read ahead must not cost the page that is wanted. */
	if (ret_got[0] < 0 && fills[0]->nr > 1)
		ret_got[0] = store->ops->read(store, fills[0]->iov, 1, reads[0].offset);
}

int fill_run(struct umm_object *obj, struct fill **fills, unsigned nr, struct folio **ret_folio)
{
	ssize_t got[STORE_BATCH] = { 0 };
	struct folio *first;
	unsigned ready = 0;
	int err = 0, ret;

	VM_BUG_ON(nr == 0 || nr > STORE_BATCH);
	while (ready < nr && !err) {
		err = fill_get_folios(obj, fills[ready], ready == 0);
		ready += !err;
	}
	if (ready) {
		fill_read(obj->mapping, fills, ready, got);
		count_vm_events(obj->mm, PGMAJFAULT, 1);
		memcg_count(obj->memcg, MEMCG_PGMAJFAULT, 1);
	}
	first = fills[0]->folio[0]; /* the ticket goes with its completion */
	ret = fill_complete(obj, fills[0], ready ? 0 : err, got[0], true);
	for (unsigned i = 1; i < nr; i++)
		(void)fill_complete(obj, fills[i], i < ready ? 0 : err, got[i], false);
	rcu_flush_if_due(&obj->mm->rcu);
	if (!ret)
		*ret_folio = first;
	return ret;
}
