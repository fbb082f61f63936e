/* SPDX-License-Identifier: MIT */
/*
 * Taking memory back. vmscan.c decides where to look and how hard, shrink_folio.c what becomes of one
 * isolated folio. Work is done in batches of SWAP_CLUSTER_MAX folios: lru_lock is taken to isolate a
 * batch and to put back what could not be had, never while a folio is looked at.
 */
#ifndef UMM_RECLAIM_RECLAIM_H
#define UMM_RECLAIM_RECLAIM_H

#include "cache/mapping.h"

/* A pass at priority p looks at 1/2^p of each list; it falls until enough was found. */
#define DEF_PRIORITY 12

enum reclaim_reason { RECLAIM_KSWAPD, RECLAIM_DIRECT, RECLAIM_PROACTIVE };

struct scan_control {
	struct mm *mm;
	struct mem_cgroup *target; /* its subtree is reclaimed */
	enum reclaim_reason reason;
	int priority;
	uint64_t nr_to_reclaim; /* pages; a walk of callers stops there */
	uint64_t nr_scanned;
	uint64_t nr_reclaimed;
};

/*
 * Reclaim at least `nr` pages, if they can be had, from a memcg's subtree on all nodes. Returns pages
 * reclaimed. Bounded by DEF_PRIORITY + 1 passes. Context: may sleep; no lock of rank MEMCG_TREE or
 * later held.
 */
uint64_t reclaim_memcg(struct mem_cgroup *target, uint64_t nr, enum reclaim_reason reason);

/* The same for all memcgs, for a caller who found no free page; the caller's node first. */
uint64_t reclaim_direct(struct mm *mm, uint64_t nr);

/* kswapd's round: reclaim on one node until free pages are above the high watermark. True: they are. */
bool reclaim_balance_node(struct pgdat *pgdat);

/* Pages on the evictable lists of a memcg itself. */
uint64_t memcg_evictable(const struct mem_cgroup *memcg);

/* ---- shrink_folio.c ---- */

/*
 * Free what can be freed of `taken` (isolated; at most SWAP_CLUSTER_MAX folios). What cannot is left on
 * the list, with its flags saying where it belongs, to be put back. Returns pages freed.
 */
uint64_t shrink_folio_list(struct mm *mm, struct list_head *taken);

#endif
