/* SPDX-License-Identifier: MIT */
/* An instance as the top floor sees it, and what its files offer each other. */
#ifndef UMM_CORE_CORE_H
#define UMM_CORE_CORE_H

#include "cache/filemap.h"
#include "reclaim/reclaim.h"

struct umm {
	struct mm mm;
};

static inline struct umm *mm_umm(struct mm *mm)
{
	return container_of(mm, struct umm, mm);
}

/* slowpath.c: the upcall that turns a request into charged folios, reclaiming as needed. */
int slowpath_get_folios(struct mm *mm, const struct folio_request *req, struct folio **out);
/* Make usage of the memcg (which may be the root) fit into `max` pages. 0, -EBUSY or -ENOMEM. */
int slowpath_shrink_to(struct mem_cgroup *memcg, uint64_t max);

/* daemons.c: kswapd, one thread a node. */
int daemons_start(struct mm *mm);
void daemons_stop(struct mm *mm);
void wakeup_kswapd(struct pgdat *pgdat);
/* Wait for rounds under way, and take back wakeups. */
void daemons_quiesce(struct mm *mm);

/* check.c */
int check_mm(struct mm *mm);

#endif
