/* SPDX-License-Identifier: MIT */
/*
 * A mapping is what is cached of one object: its index, its size and the store behind it. All handles of
 * one file share one mapping, found by the file's identity.
 *
 * A folio in the index carries one reference for it (the cache's). Removal takes that reference, and is
 * only done by someone who either froze all references (reclaim, invalidation) or drops the object.
 */
#ifndef UMM_CACHE_MAPPING_H
#define UMM_CACHE_MAPPING_H

#include "cache/xarray.h"
#include "lru/lru.h"

/* One read of a batch. */
struct store_read {
	const struct iovec *iov;
	int iovcnt;
	uint64_t offset;
	ssize_t result; /* out: as of store_ops.read */
};

/* As many reads as are in flight for one caller. */
#define STORE_BATCH 8

/* Where a mapping's pages come from. */
struct store;
struct store_ops {
	/* Fill the buffers from `offset`; bytes read (short only at the end) or -errno. May sleep. */
	ssize_t (*read)(struct store *store, const struct iovec *iov, int iovcnt, uint64_t offset);
	/* The same for up to STORE_BATCH reads, side by side where that can be. */
	void (*read_batch)(struct store *store, struct store_read *reads, unsigned nr);
	void (*close)(struct store *store);
	/* The same for a store that never came into use: its owner is not told. */
	void (*discard)(struct store *store);
	enum umm_io_mode (*io_mode)(struct store *store);
};

struct store {
	const struct store_ops *ops; /* (C) */
	struct mm *mm;               /* (C) */
	uint64_t bytes;              /* (C) size when opened */
	uint64_t dev, ino;           /* (C) identity; both 0: none, never shared */
};

/* store_file.c. `flags`: UMM_FILE_*. */
int store_file_open(struct mm *mm, const char *path, uint32_t flags, struct store **ret);
/* store_user.c */
int store_user_open(struct mm *mm, const struct umm_store_ops *ops, void *ctx, uint64_t bytes,
		    struct store **ret);

struct mapping {
	struct mm *mm;       /* (C) */
	struct store *store; /* (C) */
	struct xarray pages;
	_Atomic uint64_t bytes; /* size; falls if the store turns out to be shorter */
	struct lock i_pages __aligned(CACHE_LINE);
	uint64_t nr_pages;     /* (X) pages in the index */
	uint32_t nr_handles;   /* mappings lock */
	struct list_head list; /* mappings lock: bucket of its identity */
	struct rcu_head rcu;
};

#define MAPPING_HASH_BITS 10

/* All mappings of an instance, by identity. */
struct mapping_table {
	struct lock lock;
	uint64_t nr_handles;
	struct list_head bucket[1 << MAPPING_HASH_BITS];
};

/* An index entry that is a folio, not a load in flight or a value. */
static inline bool entry_is_folio(const void *entry)
{
	return entry && !((uintptr_t)entry & (XA_TAG_FILL | XA_TAG_VALUE));
}

/* Cache lines of a page that a copy wants at once; what follows the processor fetches by itself. */
#define PREFETCH_LINES 8

static inline void folio_prefetch_data(const struct mm *mm, const struct folio *folio)
{
	const char *data = folio_address_in(mm, folio);

	for (unsigned i = 0; i < PREFETCH_LINES; i++)
		__builtin_prefetch(data + i * CACHE_LINE);
}

/*
 * The cached folio at index, with a reference; NULL if there is none that can be had just now. Takes no
 * lock. A stale pointer out of the index is harmless: struct pages are type-stable, and once we hold a
 * reference the folio says itself whether it is still this page of this mapping.
 *
 * `reader`, if not NULL, is the memcg whose read this is: a hit is counted in the same read section.
 * `prefetch`: the data are going to be read, so their cache misses may overlap with those of the record.
 */
static inline __attribute__((always_inline)) struct folio *
mapping_lookup(struct mapping *mapping, uint64_t index, struct mem_cgroup *reader, bool prefetch)
{
	struct mm *mm = mapping->mm;
	struct folio *folio, *stale = NULL;

	rcu_read_lock(&mm->rcu);
	folio = xa_load(&mapping->pages, index);
	if (prefetch && entry_is_folio(folio))
		folio_prefetch_data(mm, folio);
	if (!entry_is_folio(folio) || unlikely(!folio_try_get(folio))) {
		folio = NULL;
	} else if (unlikely(atomic_load_explicit(&folio->mapping, memory_order_acquire) !=
				    mapping ||
			    atomic_load_explicit(&folio->index, memory_order_relaxed) != index)) {
		stale = folio;
		folio = NULL;
	} else if (reader) {
		memcg_count_hit(reader);
	}
	rcu_read_unlock(&mm->rcu);
	if (unlikely(stale))
		folio_put(stale);
	return folio;
}

static inline struct folio *mapping_get_folio(struct mapping *mapping, uint64_t index,
					      struct mem_cgroup *reader)
{
	return mapping_lookup(mapping, index, reader, false);
}

/*
 * Take out of their mappings those of `folios` that nobody else uses: the cache's and the caller's
 * reference are the only ones. Those are frozen (refcount 0) and come first in the array afterwards;
 * their number is returned. The others keep the caller's reference. Caller owns their PG_lru, or they
 * were never listed, or it does not care (invalidation).
 */
unsigned mapping_remove_unused(struct mm *mm, struct folio **folios, unsigned nr);

/* Drop the pages [start, end) that nobody uses; the others are deactivated. Returns pages dropped. */
uint64_t mapping_invalidate(struct mapping *mapping, uint64_t start, uint64_t end);

#endif
