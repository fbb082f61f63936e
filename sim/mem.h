/* SPDX-License-Identifier: MIT */
/*
 * The engine's memory in a world: one range at a fixed address, dealt out in the same order in each run,
 * so that no address depends on the host. It is also what the cache-line model covers. Page frames are
 * elsewhere: what is in them is copied, not computed with, and usually not even touched.
 */
#ifndef UMM_SIM_MEM_H
#define UMM_SIM_MEM_H

#include <stdbool.h>
#include <stddef.h>

#define SIM_MEM_BYTES (16ul << 30)

int mem_init(void);
void mem_fini(void);
char *sim_mem_base(void);

/* Zeroed memory; NULL if there is none. Blocks come from, and go to, a list of the CPU first. */
void *mem_alloc(unsigned cpu, size_t align, size_t bytes);
void mem_free(unsigned cpu, void *p);

/* Ranges of whole pages that are touched only where they are used. */
void *mem_reserve(size_t bytes);
void mem_unreserve(void *p, size_t bytes);

/* Page frames. */
void *mem_frames_map(size_t bytes, size_t align);
void mem_frames_unmap(void *p, size_t bytes);
bool mem_is_frames(const void *p);

#endif
