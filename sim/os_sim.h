/* SPDX-License-Identifier: MIT */
/* What a world sets up around os.h, and workloads need beyond it. */
#ifndef UMM_SIM_OS_SIM_H
#define UMM_SIM_OS_SIM_H

#include "cost.h"
#include "sched.h"

/*
 * Run main(arg) as the first thread of a world, with everything of os.h working in it: memory, threads,
 * clock, mutexes, files. 0 or -errno.
 */
int os_sim_run(const struct sim_shape *shape, const struct sim_costs *costs, void (*main)(void *),
	       void *arg);

/* As os_thread_create, on the given CPU for good. */
int os_sim_thread_create_on(uint32_t cpu, struct os_thread *t, void (*fn)(void *), void *arg,
			    const char *name);

/* ---- os_sim_io.c ---- */

/*
 * Make a file that os_file_open finds by its path. Its bytes follow from the seed, if worlds keep
 * contents at all; without them reads cost what they cost, and frames are never touched.
 */
int os_sim_file_create(const char *path, uint64_t bytes, uint64_t seed);
/* The byte that such a file holds. */
unsigned char os_sim_file_byte(uint64_t seed, uint64_t offset);
/* Off (the default) or on; for the world to come. */
void os_sim_keep_contents(bool keep);
bool os_sim_keeps_contents(void);
void os_sim_io_init(void);
void os_sim_io_fini(void);

#endif
