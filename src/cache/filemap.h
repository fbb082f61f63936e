/* SPDX-License-Identifier: MIT */
/*
 * The data path: a page of an object, from the index if it is there, else through a load (fill.h).
 * Checks of arguments are done above; errors are as umm.h says.
 */
#ifndef UMM_CACHE_FILEMAP_H
#define UMM_CACHE_FILEMAP_H

#include "cache/fill.h"

static inline uint64_t mapping_end_index(const struct mapping *mapping)
{
	uint64_t bytes = atomic_load_explicit(&mapping->bytes, memory_order_relaxed);

	return bytes ? ((bytes - 1) >> PAGE_SHIFT) + 1 : 0;
}

/* The page at index is not cached, or could not be had: load it, or wait for who does. Returns it with a
 * reference for the caller; counted as a read, but not yet as a use of the page. `want`: pages that the
 * caller is going to read from there on, at least 1. -ERANGE behind the end; nowait: only what is cached,
 * -EAGAIN. */
int filemap_get_missing(struct umm_object *obj, uint64_t index, uint64_t want, bool nowait,
			struct folio **ret_folio);

/* Note where the handle is, for the detection of reading in order. False: at the same page as before. */
static inline bool object_at(struct umm_object *obj, uint64_t index)
{
	if (atomic_load_explicit(&obj->next_index, memory_order_relaxed) == index + 1)
		return false;
	atomic_store_explicit(&obj->next_index, index + 1, memory_order_relaxed);
	return true;
}

/* The page at index, with a reference that the caller keeps: a pin. A store's error is still marked. */
static inline int filemap_pin(struct umm_object *obj, uint64_t index, bool nowait,
			      struct folio **ret_folio)
{
	struct folio *folio = mapping_get_folio(obj->mapping, index, obj->memcg);

	if (unlikely(!folio)) {
		int err = filemap_get_missing(obj, index, 1, nowait, &folio);

		if (err)
			return err;
	}
	/* Cached, but the store turned out to be shorter since. */
	if (unlikely(index >= mapping_end_index(obj->mapping))) {
		folio_put(folio);
		return -ERANGE;
	}
	(void)object_at(obj, index);
	folio_mark_pinned(obj->mm, folio);
	*ret_folio = folio;
	return 0;
}

/* Copy from the object; see umm_pread. */
ssize_t filemap_read(struct umm_object *obj, void *buf, size_t bytes, uint64_t offset);

/* Load what is missing of [start, end), as far as the limits allow. */
int filemap_readahead(struct umm_object *obj, uint64_t start, uint64_t end);

#endif
