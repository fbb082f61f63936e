/* SPDX-License-Identifier: MIT */
/* Loading pages; see fill.h. Everything before the data path's miss ends up here. */
#include <string.h>

#include "cache/fill.h"

static void *fill_entry(struct fill *fill)
{
	return (void *)((uintptr_t)fill | XA_TAG_FILL);
}

static void fill_put(struct fill *fill)
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
	struct fill *fill = os_alloc(sizeof(*fill));
	int ret;

	if (!fill)
		return -ENOMEM;
	VM_BUG_ON(nr == 0 || nr > FILL_MAX_PAGES);
	fill->index = index;
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

/* Frames for the claim, charged. Where the whole window cannot be had, the page that was asked for. */
static int fill_get_folios(struct umm_object *obj, struct fill *fill, struct folio **folios)
{
	struct folio_request req = {
		.order = 0,
		.type = MIGRATE_MOVABLE,
		.nr = fill->nr,
		.memcg = obj->memcg,
	};
	int err = obj->mm->up->get_folios(obj->mm, &req, folios);

	if (err && err != -ESTALE && fill->nr > 1) {
		fill_trim(obj->mapping, fill, 1);
		req.nr = 1;
		err = obj->mm->up->get_folios(obj->mm, &req, folios);
	}
	return err;
}

static ssize_t fill_read(struct mapping *mapping, uint64_t index, struct folio **folios,
			 unsigned nr)
{
	struct iovec iov[FILL_MAX_PAGES];

	for (unsigned i = 0; i < nr; i++) {
		iov[i].iov_base = folio_address(folios[i]);
		iov[i].iov_len = PAGE_SIZE;
	}
	return mapping->store->ops->read(mapping->store, iov, (int)nr, index << PAGE_SHIFT);
}

/*
 * Read into the frames. Returns pages with data, at least 1, or -errno. What the store did not fill is
 * zeroed: a frame's old bytes belong to somebody else. A store that ends early shortens the mapping.
 */
static int fill_load(struct mapping *mapping, struct fill *fill, struct folio **folios)
{
	uint64_t start = fill->index << PAGE_SHIFT;
	uint64_t size = atomic_load_explicit(&mapping->bytes, memory_order_relaxed);
	ssize_t got = fill_read(mapping, fill->index, folios, fill->nr);
	unsigned nr;

	/* A bad spot in what was only read ahead must not cost the page that is wanted. */
	if (got < 0 && fill->nr > 1)
		got = fill_read(mapping, fill->index, folios, 1);
	if (got < 0)
		return (int)got;
	if (start + (uint64_t)got < min_u64(size, start + ((uint64_t)fill->nr << PAGE_SHIFT)) &&
	    got % (ssize_t)PAGE_SIZE)
		size = start + (uint64_t)got;
	if (got == 0)
		size = start;
	for (uint64_t old = atomic_load_explicit(&mapping->bytes, memory_order_relaxed);
	     size < old;)
		if (atomic_compare_exchange_weak_explicit(&mapping->bytes, &old, size,
							  memory_order_relaxed,
							  memory_order_relaxed))
			break;
	if (got == 0)
		return -ERANGE;
	nr = (unsigned)(((uint64_t)got + PAGE_SIZE - 1) >> PAGE_SHIFT);
	if ((size_t)got < (size_t)nr << PAGE_SHIFT)
		memset((char *)folio_address(folios[nr - 1]) + got % (ssize_t)PAGE_SIZE, 0,
		       PAGE_SIZE - (size_t)got % PAGE_SIZE);
	return (int)nr;
}

/* Replace the tickets by folios. From here on they can be found, with two references: the cache's and
 * ours. Replacing an entry needs no memory. */
static void fill_publish(struct umm_object *obj, struct fill *fill, struct folio **folios)
{
	struct mapping *mapping = obj->mapping;
	struct mm *mm = obj->mm;

	for (unsigned i = 0; i < fill->nr; i++) {
		folio_commit_charge(folios[i], obj->memcg, MEMCG_FILE);
		atomic_store_explicit(&folios[i]->index, fill->index + i, memory_order_relaxed);
		atomic_store_explicit(&folios[i]->mapping, mapping, memory_order_relaxed);
		folio_get(folios[i]);
	}
	lock_acquire(&mm->threads, &mapping->i_pages);
	for (unsigned i = 0; i < fill->nr; i++) {
		int err = xa_store(mm, &mapping->pages, fill->index + i, folios[i], NULL);

		VM_BUG_ON(err);
	}
	mapping->nr_pages += fill->nr;
	lock_release(&mm->threads, &mapping->i_pages);
}

/* Frames that were charged and not used. */
static void fill_free(struct umm_object *obj, struct folio **folios, unsigned nr)
{
	for (unsigned i = 0; i < nr; i++) {
		bool frozen = folio_ref_freeze(folios[i], 1);

		VM_BUG_ON(!frozen);
	}
	memcg_cancel_charge(obj->memcg, nr);
	free_folios_bulk(obj->mm, folios, nr);
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

static void fill_count(struct umm_object *obj, unsigned nr)
{
	count_vm_events(obj->mm, PGMAJFAULT, 1);
	count_vm_events(obj->mm, PGPGIN, nr);
	count_vm_events(obj->mm, READAHEAD, nr - 1);
	memcg_count(obj->memcg, MEMCG_PGMAJFAULT, 1);
}

int fill_run(struct umm_object *obj, struct fill *fill, struct folio **ret_folio)
{
	struct folio *folios[FILL_MAX_PAGES];
	struct mm *mm = obj->mm;
	unsigned nr_folios = 0, nr = 0;
	int ret = fill_get_folios(obj, fill, folios), store_error = 0;

	if (!ret) {
		nr_folios = fill->nr;
		ret = fill_load(obj->mapping, fill, folios);
		store_error = ret < 0 ? ret : 0;
	}
	if (ret > 0) {
		nr = (unsigned)ret;
		ret = 0;
	}
	fill_trim(obj->mapping, fill, nr);
	if (nr) {
		fill_publish(obj, fill, folios);
		fill_add_lru(mm, folios, nr);
		fill_count(obj, nr);
	}
	/* That our memcg is at its limit, or gone, is not the waiters' affair: they look again. */
	fill_finish(fill, store_error);
	if (nr_folios > nr)
		fill_free(obj, folios + nr, nr_folios - nr);
	if (nr > 1)
		folios_put(mm, folios + 1, nr - 1);
	rcu_flush_if_due(&mm->rcu);
	if (!ret)
		*ret_folio = folios[0];
	return ret;
}
