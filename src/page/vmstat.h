/* SPDX-License-Identifier: MIT */
/*
 * Event counters, named as in /proc/vmstat where Linux has them. Instance-wide ones are counted per
 * thread (base/thread.h) and summed when read. A memcg keeps those of its own that memory.stat shows
 * (memcg/memcontrol.h).
 */
#ifndef UMM_PAGE_VMSTAT_H
#define UMM_PAGE_VMSTAT_H

#include "page/mmzone.h"

/* clang-format off */
#define VM_EVENTS(X)                                                                          \
	X(PGALLOC, "pgalloc_normal") X(PGFREE, "pgfree")                                      \
	X(PGMAJFAULT, "pgmajfault")     /* reads and pins that had to load */                 \
	X(PGPGIN, "pgpgin_pages")       /* pages read from stores */                          \
	X(READAHEAD, "readahead_pages") /* ... ahead of being asked for */                    \
	X(BYPASS, "bypass_pages")       /* read past the cache: all was pinned */             \
	X(PGACTIVATE, "pgactivate") X(PGDEACTIVATE, "pgdeactivate") X(PGREFILL, "pgrefill")   \
	X(PGROTATED, "pgrotated")                                                             \
	X(PGSCAN_KSWAPD, "pgscan_kswapd") X(PGSCAN_DIRECT, "pgscan_direct")                   \
	X(PGSCAN_PROACTIVE, "pgscan_proactive")                                               \
	X(PGSTEAL_KSWAPD, "pgsteal_kswapd") X(PGSTEAL_DIRECT, "pgsteal_direct")               \
	X(PGSTEAL_PROACTIVE, "pgsteal_proactive")                                             \
	X(ALLOCSTALL, "allocstall_normal") X(PAGEOUTRUN, "pageoutrun")                        \
	X(UNEVICTABLE_PGCULLED, "unevictable_pgs_culled")                                     \
	X(UNEVICTABLE_PGRESCUED, "unevictable_pgs_rescued")                                   \
	X(LRU_DRAIN, "lru_add_drain")   /* batches drained */                                 \
	X(LRU_DRAIN_ALL, "lru_add_drain_all")                                                 \
	X(LRU_RETRY, "lruvec_lock_retry") /* lock dropped: the lists had moved to the parent */ \
	X(PIN_WAIT, "pin_wait")         /* slept until somebody unpinned */                   \
	X(PAGEBLOCK_STEAL, "pageblock_steal") X(PAGEBLOCK_CLAIM, "pageblock_claim")
/* clang-format on */

enum vm_event {
#define X(id, name) id,
	VM_EVENTS(X)
#undef X
		NR_VM_EVENTS,
};
_Static_assert(NR_VM_EVENTS <= NR_THREAD_EVENTS, "grow NR_THREAD_EVENTS");

const char *vm_event_name(enum vm_event e);

static inline void count_vm_events(struct mm *mm, enum vm_event e, uint64_t n)
{
	thread_count(&thread_self(&mm->threads)->event[e], n);
}

/* Sum over all threads. */
uint64_t vm_event_sum(struct mm *mm, enum vm_event e);

#endif
