/* SPDX-License-Identifier: MIT */
/*
 * Fault points: places where an allocation, a charge or an I/O can fail. A test arms its own thread
 * ("let the n-th one from now fail") and calls the API; other threads are not touched, so a run is
 * repeatable. Compiled in with -Dfault_points=true; otherwise fault_point() is constant false.
 */
#ifndef UMM_BASE_FAULT_H
#define UMM_BASE_FAULT_H

#include "base/base.h"

enum fault_kind {
	FAULT_ALLOC = 1u << 0,  /* metadata from the system: os_alloc, threads, rings */
	FAULT_PAGE = 1u << 1,   /* a page from the arena */
	FAULT_CHARGE = 1u << 2, /* a memcg charge */
	FAULT_INDEX = 1u << 3,  /* a node of a mapping's index */
	FAULT_IO = 1u << 4,     /* a read from a store */
	FAULT_ANY = (1u << 5) - 1,
};

#if UMM_FAULT_POINTS
/* True if this operation, the n-th since fault_arm, shall fail. */
bool fault_point(enum fault_kind kind);
/* Let the n-th (1, 2, ..) fault point of the given kinds fail, once, in the calling thread. 0 disarms. */
void fault_arm(unsigned kinds, unsigned n);
/* Disarm; return true if the armed fault was delivered. */
bool fault_disarm(void);
#else
static inline bool fault_point(enum fault_kind kind)
{
	(void)kind;
	return false;
}
#endif

#endif
