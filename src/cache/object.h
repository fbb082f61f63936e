/* SPDX-License-Identifier: MIT */
/*
 * A handle: an object as one memcg sees it. Several handles may share a mapping; what is read first
 * through a handle is charged to the handle's memcg.
 */
#ifndef UMM_CACHE_OBJECT_H
#define UMM_CACHE_OBJECT_H

#include "cache/mapping.h"

struct umm_object {
	struct mm *mm;            /* (C) */
	struct mem_cgroup *memcg; /* (C) holds a reference */
	struct mapping *mapping;  /* (C) counted in its nr_handles */
	_Atomic uint64_t
		next_index;      /* page behind the last one used: sequential if asked for next */
	_Atomic uint64_t ra_end; /* page behind the last window */
	_Atomic uint32_t ra_window; /* last readahead window, pages */
};

int mapping_table_init(struct mm *mm);
void mapping_table_fini(struct mm *mm);
/* Handles open in the instance. */
uint64_t mapping_nr_handles(struct mm *mm);

/* A handle on a store. The store is consumed: discarded on failure, or when its mapping is there already. */
int object_open(struct mem_cgroup *memcg, struct store *store, struct umm_object **ret);
int object_reopen(struct umm_object *obj, struct mem_cgroup *memcg, struct umm_object **ret);
void object_close(struct umm_object *obj);

#endif
