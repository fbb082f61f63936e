/* SPDX-License-Identifier: MIT */
/* The data path; see filemap.h. A hit takes no lock and makes no system call. */
#include <string.h>

#include "cache/filemap.h"

/* Turns of "it was there, and gone again before we had it" before a caller is told to try again. */
#define FILEMAP_RETRIES 64

/* Smallest window once reading in order was noticed. */
#define READAHEAD_MIN_PAGES 4u

/*
 * The window for a page that is asked for in order: twice the last one. But if the page lies within the
 * last one it was read ahead already, and reclaimed before it was used: then half of it, since there is
 * less room than the limits say, and reading ahead only pushes out what others, or we, have read ahead.
 */
static uint64_t readahead_in_order(struct umm_object *obj, uint64_t index)
{
	uint64_t window = atomic_load_explicit(&obj->ra_window, memory_order_relaxed);
	uint64_t end = atomic_load_explicit(&obj->ra_end, memory_order_relaxed);

	if (index == 0)
		return READAHEAD_MIN_PAGES;
	if (index < end && index >= end - window)
		return window / 2;
	return max_u64(2 * window, READAHEAD_MIN_PAGES);
}

/*
 * How many pages to load with the one that is missing. In order: up to the option and an eighth of the
 * memcg's limit, so that a small memcg does not push out what it reads ahead before it is used.
 * Otherwise: what was asked for.
 */
static unsigned readahead_window(struct umm_object *obj, uint64_t index, uint64_t want)
{
	uint64_t max = min_u64(obj->mm->opt.readahead_pages, FILL_MAX_PAGES);
	uint64_t next = atomic_load_explicit(&obj->next_index, memory_order_relaxed);
	uint64_t window = 0;

	max = min_u64(max, memcg_effective_max(obj->memcg) / 8);
	max = min_u64(max, obj->mm->nr_pages / 16);
	if (index == next || index == 0)
		window = readahead_in_order(obj, index);
	window = min_u64(max_u64(window, want), max);
	window = min_u64(window, mapping_end_index(obj->mapping) - index);
	window = max_u64(window, 1);
	atomic_store_explicit(&obj->ra_window, (uint32_t)window, memory_order_relaxed);
	atomic_store_explicit(&obj->ra_end, index + window, memory_order_relaxed);
	return (unsigned)window;
}

/* Loads behind the first that a caller who wants more may have in flight together, in pages: half of what
 * its memcg may hold, and never so much that a large request fills the arena. */
static uint64_t batch_pages(struct umm_object *obj, uint64_t want)
{
	uint64_t max = min_u64(memcg_effective_max(obj->memcg) / 2, obj->mm->nr_pages / 16);

	return min_u64(want, max);
}

/* More claims for the rest of [index, end): each a run of missing pages. Returns how many there are now.
 * What cannot be claimed, because it is there, or being loaded, or for lack of memory, is left out. */
static unsigned claim_more(struct umm_object *obj, struct fill **fills, uint64_t end)
{
	uint64_t index = fills[0]->index + fills[0]->nr;
	unsigned nr = 1, max = fills[0]->nr;

	while (nr < STORE_BATCH && index < end) {
		struct folio *folio = mapping_get_folio(obj->mapping, index, NULL);
		unsigned pages = (unsigned)min_u64(end - index, max_u64(max, READAHEAD_MIN_PAGES));
		int claim;

		if (folio) {
			folio_put(folio);
			index++;
			continue;
		}
		claim = fill_claim(obj->mapping, index, pages, &fills[nr]);
		if (claim == FILL_THEIRS)
			fill_put(fills[nr]);
		if (claim == FILL_OURS)
			index += fills[nr++]->nr;
		else
			index++;
	}
	return nr;
}

/* The page is not there: load it, or wait for who does. 0 without a folio: look again. */
static int filemap_miss(struct umm_object *obj, uint64_t index, uint64_t want,
			struct folio **ret_folio)
{
	struct fill *fills[STORE_BATCH];
	uint64_t end = min_u64(index + batch_pages(obj, want), mapping_end_index(obj->mapping));
	int claim = fill_claim(obj->mapping, index, readahead_window(obj, index, want), &fills[0]);

	if (claim == FILL_OURS)
		return fill_run(obj, fills, claim_more(obj, fills, end), ret_folio);
	if (claim == FILL_THEIRS)
		return fill_wait(fills[0], index);
	return claim < 0 ? claim : 0;
}

int filemap_get_missing(struct umm_object *obj, uint64_t index, uint64_t want, bool nowait,
			struct folio **ret_folio)
{
	struct folio *folio = NULL;
	int err;

	for (unsigned turn = 0; !folio; turn++) {
		if (index >= mapping_end_index(obj->mapping))
			return -ERANGE;
		if (nowait)
			return -EAGAIN;
		if (turn == FILEMAP_RETRIES)
			return -EBUSY;
		err = filemap_miss(obj, index, want, &folio);
		if (err)
			return err;
		if (!folio)
			folio = mapping_get_folio(obj->mapping, index, NULL);
	}
	memcg_count_read(obj->memcg);
	*ret_folio = folio;
	return 0;
}

/* Read part of a page past the cache, into a buffer of our own since the store wants whole pages. */
static ssize_t read_bypass(struct umm_object *obj, void *buf, size_t bytes, uint64_t index,
			   size_t offset)
{
	struct store *store = obj->mapping->store;
	struct iovec iov = { .iov_base = os_alloc_aligned(PAGE_SIZE, PAGE_SIZE),
			     .iov_len = PAGE_SIZE };
	ssize_t got;

	if (!iov.iov_base)
		return -ENOMEM;
	got = store->ops->read(store, &iov, 1, index << PAGE_SHIFT);
	if (got >= 0) {
		got = (size_t)got > offset ? (ssize_t)min_u64((uint64_t)got - offset, bytes) : 0;
		memcpy(buf, (char *)iov.iov_base + offset, (size_t)got);
		count_vm_events(obj->mm, BYPASS, 1);
		memcg_count_read(obj->memcg);
		memcg_count_event(obj->memcg, MEMCG_EV_BYPASS, 1);
	}
	os_free(iov.iov_base);
	return got;
}

/* Up to `bytes` of one page; 0 at the end of the object. */
static ssize_t read_page(struct umm_object *obj, void *buf, size_t bytes, uint64_t offset,
			 uint64_t want)
{
	uint64_t index = offset >> PAGE_SHIFT;
	size_t in_page = offset & (PAGE_SIZE - 1);
	struct folio *folio;
	uint64_t size;
	int err;

	bytes = min_u64(bytes, PAGE_SIZE - in_page);
	folio = mapping_lookup(obj->mapping, index, obj->memcg, true);
	err = likely(folio) ? 0 : filemap_get_missing(obj, index, want, false, &folio);
	if (err == -ERANGE)
		return 0;
	if (err == -EBUSY || err == -ENOMEM || err == -EAGAIN)
		return read_bypass(obj, buf, bytes, index, in_page);
	if (err)
		return err;
	size = atomic_load_explicit(&obj->mapping->bytes, memory_order_relaxed);
	bytes = offset < size ? min_u64(bytes, size - offset) : 0;
	/* memmove: a memcpy of at most a page is inlined as a string instruction, which is slower. */
	memmove(buf, (char *)folio_address_in(obj->mm, folio) + in_page, bytes);
	/* Parts of one page, read one after the other, are one use of it. */
	if (object_at(obj, index))
		folio_mark_accessed(obj->mm, folio);
	folio_put(folio);
	return (ssize_t)bytes;
}

ssize_t filemap_read(struct umm_object *obj, void *buf, size_t bytes, uint64_t offset)
{
	uint64_t size = atomic_load_explicit(&obj->mapping->bytes, memory_order_relaxed);
	size_t done = 0;

	if (offset >= size)
		return 0;
	bytes = min_u64(bytes, size - offset);
	while (done < bytes) {
		uint64_t at = offset + done;
		uint64_t want = ((offset + bytes - 1) >> PAGE_SHIFT) - (at >> PAGE_SHIFT) + 1;
		ssize_t got = read_page(obj, (char *)buf + done, bytes - done, at, want);

		if (got < 0 && done == 0)
			return store_error_pass((int)got);
		if (got <= 0)
			break;
		done += (size_t)got;
	}
	return (ssize_t)done;
}

int filemap_readahead(struct umm_object *obj, uint64_t start, uint64_t end)
{
	uint64_t room = min_u64(memcg_effective_max(obj->memcg), obj->mm->nr_pages) / 2;

	/* What comes later must not push out what came first. */
	end = min_u64(end, mapping_end_index(obj->mapping));
	end = min_u64(end, start + min_u64(room, UINT64_MAX - start));
	for (uint64_t index = start; index < end; index++) {
		struct folio *folio = mapping_get_folio(obj->mapping, index, NULL);
		int err = 0;

		if (!folio)
			err = filemap_miss(obj, index, end - index, &folio);
		if (folio)
			folio_put(folio);
		if (err == -EBUSY || err == -ENOMEM || err == -ERANGE)
			return 0;
		if (err)
			return store_error_pass(err);
	}
	return 0;
}
