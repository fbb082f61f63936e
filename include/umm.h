/* SPDX-License-Identifier: MIT */
/*
 * umm: memory cgroups for the tenants inside one process.
 *
 * One instance (umm_t) owns one budget of memory, cut into pages of UMM_PAGE_SIZE bytes. Every
 * page in use is charged to a memcg, which one may read as "a tenant". Objects are files or the
 * caller's own stores, read through the budget: a page read once stays cached until its memcg's
 * limit, or the budget, makes reclaim take it back.
 *
 * Conventions, for every call unless it says otherwise:
 *   Return    0 (or a count) on success, -errno on failure; outputs are untouched on failure.
 *   Threads   any thread may call at any time; a handle may be used by several threads at once.
 *             Only closing or destroying a handle needs that nobody uses it any more.
 *   Blocking  may sleep for reclaim and store I/O. No call waits without a deadline or a waker.
 *   Units     sizes and offsets are bytes, indexes are pages, times are nanoseconds.
 *
 * Refusals are distinct: -ENOMEM the limit (or the budget) is reached and nothing can be reclaimed;
 * -EBUSY the same, because what could be reclaimed is pinned; -ETIMEDOUT a deadline passed;
 * -EAGAIN it would have to block, or there are too many threads; -ESTALE the memcg of the handle
 * was destroyed; a store's own error is passed on as it is.
 */
#ifndef UMM_H
#define UMM_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

#define UMM_API __attribute__((visibility("default")))

#define UMM_VERSION_MAJOR 0
#define UMM_VERSION_MINOR 1
#define UMM_VERSION_PATCH 0

#define UMM_PAGE_SIZE 4096u
#define UMM_MAX_ORDER 10u /* the largest contiguous piece is 2^10 pages, 4 MiB */
#define UMM_MAX_NODES 8u
#define UMM_MAX_THREADS 8192u /* threads alive at once that may have called an instance */
#define UMM_MAX_DEPTH 16u     /* levels of memcgs below the root */
#define UMM_NAME_MAX 255u     /* bytes in a memcg's name */
#define UMM_NO_LIMIT UINT64_MAX

typedef struct umm umm_t;
typedef struct mem_cgroup umm_memcg_t;
typedef struct umm_object umm_obj_t;
typedef struct folio umm_folio_t;

/* "0.1.0"; never NULL, valid for ever. */
UMM_API const char *umm_version(void);

/* ---- the instance ------------------------------------------------------------------------ */

/* Who shares an LRU lock: every memcg of a node one lock (as Linux up to 5.10), or each its own. */
enum umm_lru_lock { UMM_LRU_LOCK_MEMCG = 0, UMM_LRU_LOCK_NODE = 1 };

enum {
	UMM_NO_KSWAPD = 1u << 0,    /* no background reclaim thread: reclaim only in callers */
	UMM_NO_PREFAULT = 1u << 1,  /* leave the arena untouched until first use */
	UMM_NO_HUGEPAGES = 1u << 2, /* do not ask the system for huge pages */
	UMM_NO_URING = 1u << 3,     /* plain preadv instead of io_uring */
};

enum umm_log_level { UMM_LOG_ERROR = 0, UMM_LOG_WARN = 1, UMM_LOG_INFO = 2 };

struct umm_options {
	uint32_t size;         /* sizeof(struct umm_options), set by umm_options_init */
	uint32_t flags;        /* UMM_NO_* */
	uint64_t memory_bytes; /* the budget; at least 16 pages, rounded down to pages */
	uint32_t nr_nodes;     /* 1..UMM_MAX_NODES parts with LRU lists and free lists of their own;
				      placed on real NUMA nodes where the machine has as many */
	enum umm_lru_lock lru_lock;
	uint32_t readahead_pages; /* largest readahead window, 0 (off) .. 256 */
	/* Called with one line without newline; may be NULL. It may be called with locks held: it must
	 * not call back into umm and should return soon. */
	void (*log)(void *ctx, enum umm_log_level level, const char *message);
	void *log_ctx;
};

/* Fill in the defaults: 256 MiB, one node, a lock for each memcg, 64 pages of readahead. */
UMM_API void umm_options_init(struct umm_options *options);

/* Create an instance. -EINVAL: an option is out of range. -ENOMEM: the system has not that much. */
UMM_API int umm_create(const struct umm_options *options, umm_t **ret_mm);

/*
 * Destroy an instance and everything in it. NULL is allowed. -EBUSY, and nothing is destroyed, while
 * an object is open, a page pinned or allocated by umm_alloc, or a memcg but the root exists.
 */
UMM_API int umm_destroy(umm_t *mm);

/*
 * Bring every per-CPU batch, page list and charge stock home, and wait for background work under way.
 * After it, with no other call in flight, all counters are exact. Blocks for a short, bounded time.
 */
UMM_API int umm_drain(umm_t *mm);

/*
 * Prove the whole-state invariants (docs/invariants.md): lists against sizes, charges against pages,
 * index against pages, free lists. Needs that no other call is in flight. Return the number of
 * violations, each of them logged; 0 is clean. Visits every page.
 */
UMM_API int umm_check(umm_t *mm);

/* ---- memcgs ------------------------------------------------------------------------------ */

/* The root memcg: parent of all, without a limit of its own but the budget. Never destroyed. */
UMM_API umm_memcg_t *umm_memcg_root(umm_t *mm);

/* Create a child of `parent` (NULL: the root). Names are for people; they need not be unique.
 * -ENAMETOOLONG, -EINVAL (empty name), -ENOSPC (too deep or too many), -ESTALE (parent destroyed). */
UMM_API int umm_memcg_create(umm_t *mm, umm_memcg_t *parent, const char *name,
			     umm_memcg_t **ret_cg);

/*
 * Destroy a memcg. What is still charged to it, pinned or not, moves to its parent, as do its
 * counters. Never waits for a pin. Objects opened for it answer -ESTALE from now on and still have to
 * be closed. -EBUSY: it has children, or is the root. The handle is gone after success.
 */
UMM_API int umm_memcg_destroy(umm_memcg_t *cg);

enum umm_memcg_param {
	UMM_MEMORY_MAX, /* hard limit: usage is never above it. Settable; UMM_NO_LIMIT for none */
	UMM_MEMORY_CURRENT, /* what is charged now, with all descendants */
	UMM_MEMORY_PEAK,    /* the most that was ever charged */
};

/*
 * Change a limit at run time, in bytes rounded down to pages. Lowering reclaims until usage fits: if
 * it cannot fit, -EBUSY (pinned) or -ENOMEM, and the old limit stays in force and is what
 * umm_memcg_get reports. -EINVAL: not settable. -EPERM: the root has no limit of its own.
 */
UMM_API int umm_memcg_set(umm_memcg_t *cg, enum umm_memcg_param param, uint64_t bytes);
UMM_API int umm_memcg_get(umm_memcg_t *cg, enum umm_memcg_param param, uint64_t *ret_bytes);

/*
 * Reclaim up to `bytes` from the memcg and its descendants. *ret_bytes, if not NULL, gets what was
 * reclaimed, on failure too. -EAGAIN: less than asked was reclaimable (asked 0: always 0).
 * Bounded: at most one pass over the lists for each of 13 priorities.
 */
UMM_API int umm_memcg_reclaim(umm_memcg_t *cg, uint64_t bytes, uint64_t *ret_bytes);

UMM_API const char *umm_memcg_name(const umm_memcg_t *cg);

struct umm_stat {
	const char *name; /* as in cgroup v2's memory.stat and memory.events, or /proc/vmstat */
	uint64_t value;
};

/*
 * Fill `out` with up to `cap` counters and return how many there are in all (so 0, NULL asks for the
 * number), or -errno. memcg figures include descendants and those already destroyed; event counts
 * never run backwards. Sizes in memory.stat are bytes, in vmstat pages.
 */
UMM_API ssize_t umm_memcg_stat(umm_memcg_t *cg, struct umm_stat *out, size_t cap);
UMM_API ssize_t umm_memcg_events(umm_memcg_t *cg, struct umm_stat *out, size_t cap);
UMM_API ssize_t umm_vmstat(umm_t *mm, struct umm_stat *out, size_t cap);

struct umm_lock_stat {
	const char *name;
	uint64_t acquisitions;
	uint64_t contended_same_memcg;  /* had to wait; the holder worked for the same memcg */
	uint64_t contended_other_memcg; /* had to wait; the holder worked for another one */
	uint64_t wait_ns;               /* measured at each contended acquisition */
	uint64_t hold_ns;               /* estimated: one acquisition in 64 is timed, times 64 */
};

/* One row a lock class, as above. The class of the LRU lists is named "lru_lock". */
UMM_API ssize_t umm_lock_stats(umm_t *mm, struct umm_lock_stat *out, size_t cap);

/* ---- objects ----------------------------------------------------------------------------- */

enum {
	UMM_FILE_BUFFERED = 1u << 0, /* read through the kernel's page cache as well */
};

/* How an object's pages are read. */
enum umm_io_mode {
	UMM_IO_DIRECT,    /* O_DIRECT: past the kernel's page cache */
	UMM_IO_DONTCACHE, /* through it, dropped at once (RWF_DONTCACHE) */
	UMM_IO_BUFFERED, /* through it, dropped by advice after the read, unless UMM_FILE_BUFFERED */
	UMM_IO_STORE,    /* the caller's callbacks */
};

/*
 * Open a regular file for reading through the cache. Handles of one file share its pages, whichever
 * memcgs they belong to; a page is charged to the memcg that read it first. The size is taken at the
 * first open. Where O_DIRECT is refused the next mode is tried; umm_obj_io_mode says which it became.
 * errno of open(2); -EISDIR; -EINVAL for other special files.
 */
UMM_API int umm_file_open(umm_memcg_t *cg, const char *path, uint32_t flags, umm_obj_t **ret_obj);

/* A caller's own store. Called without any lock of umm's held, from several threads at once. */
struct umm_store_ops {
	uint32_t size; /* sizeof(struct umm_store_ops) */
	/* Read the bytes at `offset` into the buffers, in order. Return the number of bytes, which is
	 * less than asked only at the end of the store, or -errno. Buffers are whole pages. */
	ssize_t (*read)(void *ctx, const struct iovec *iov, int iovcnt, uint64_t offset);
	/* Called once, when the last handle is closed; not if umm_store_open fails. May be NULL. */
	void (*close)(void *ctx);
};

UMM_API int umm_store_open(umm_memcg_t *cg, const struct umm_store_ops *ops, void *ctx,
			   uint64_t bytes, umm_obj_t **ret_obj);

/* Another handle on the same object, for the same or another memcg. */
UMM_API int umm_obj_reopen(umm_obj_t *obj, umm_memcg_t *cg, umm_obj_t **ret_obj);

/* Close a handle; NULL is allowed. Pins taken through it stay valid. With the last handle of an object
 * its pages leave the cache, pinned ones when they are unpinned. */
UMM_API int umm_close(umm_obj_t *obj);

UMM_API uint64_t umm_obj_bytes(const umm_obj_t *obj);
UMM_API enum umm_io_mode umm_obj_io_mode(const umm_obj_t *obj);

/*
 * Copy up to `bytes` from `offset` into `buf`. Return the bytes copied: fewer than asked only at the
 * end of the object. Cached pages cost no lock and no system call. When the memcg has no page to spare,
 * because all are pinned or its limit is filled by umm_alloc, the data is read past the cache, and
 * nothing is charged. -EIO etc. only if nothing was copied.
 */
UMM_API ssize_t umm_pread(umm_obj_t *obj, void *buf, size_t bytes, uint64_t offset);

enum {
	UMM_NOWAIT = 1u << 0, /* umm_pin: only if cached, else -EAGAIN. umm_alloc: no reclaim */
};

/*
 * Pin the page at `index`: it stays in memory, at one address, until umm_unpin. Its bytes may be read
 * until then; past the object's end they are zero. -ERANGE: beyond the end. -EBUSY at once when all
 * pages of the memcg are pinned: the caller may hold them itself.
 */
UMM_API int umm_pin(umm_obj_t *obj, uint64_t index, uint32_t flags, umm_folio_t **ret_folio);

/* The same, but wait up to `timeout_ns` for others to unpin, first come first served among those whose
 * nearest limit is the same memcg's; -ETIMEDOUT. `flags` must be 0. */
UMM_API int umm_pin_timed(umm_obj_t *obj, uint64_t index, uint32_t flags, uint64_t timeout_ns,
			  umm_folio_t **ret_folio);
UMM_API void umm_unpin(umm_folio_t *folio);

/* Address of a pinned or allocated folio, and its size in bytes. */
UMM_API void *umm_folio_data(umm_folio_t *folio);
UMM_API size_t umm_folio_bytes(const umm_folio_t *folio);

enum umm_advice {
	UMM_ADVISE_WILLNEED, /* read the range now, as far as limits allow without waiting for pins */
	UMM_ADVISE_DONTNEED, /* drop the range's pages that nobody has pinned */
};

/* Advice for the pages that lie, even in part (WILLNEED) or wholly (DONTNEED), in the range, which ends at
 * the object's end at the latest. WILLNEED reads no more than half of what the limits allow. */
UMM_API int umm_advise(umm_obj_t *obj, uint64_t offset, uint64_t bytes, enum umm_advice advice);

/* ---- plain memory ------------------------------------------------------------------------ */

/*
 * Allocate 2^order contiguous pages, charged to `cg`. They read as zero, are aligned to their size
 * within the arena, do not move and are not reclaimed. -EINVAL: order > UMM_MAX_ORDER.
 */
UMM_API int umm_alloc(umm_memcg_t *cg, unsigned order, uint32_t flags, umm_folio_t **ret_folio);
UMM_API void umm_free(umm_folio_t *folio);

#ifdef __cplusplus
}
#endif
#endif
