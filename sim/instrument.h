/* SPDX-License-Identifier: MIT */
/*
 * Included before the first line of each source of the engine when it is compiled for virtual CPUs
 * (-include; see meson.build), so that the sources need no marks: what the compiler's instrumentation
 * does not show, or shows in too much detail, is caught here by name.
 */
#ifndef UMM_SIM_INSTRUMENT_H
#define UMM_SIM_INSTRUMENT_H

#include <string.h>

/* Copies of the engine: pages cost what the table says, small ones their lines. */
void *sim_memcpy(void *to, const void *from, size_t bytes);
void *sim_memmove(void *to, const void *from, size_t bytes);
void *sim_memset(void *to, int c, size_t bytes);
#define memcpy(to, from, bytes) sim_memcpy(to, from, bytes)
#define memmove(to, from, bytes) sim_memmove(to, from, bytes)
#define memset(to, c, bytes) sim_memset(to, c, bytes)

/* The lists of lru/: what an operation costs beyond its accesses, above all the statistics that a
 * kernel keeps with it. A function's name in parentheses is the function itself. */
#ifdef UMM_SIM_LRU_LISTS
#include "base/list.h"
void sim_lru_list_op(void);
#define list_add(n, h) (sim_lru_list_op(), (list_add)(n, h))
#define list_add_tail(n, h) (sim_lru_list_op(), (list_add_tail)(n, h))
#define list_del(n) (sim_lru_list_op(), (list_del)(n))
#define list_move(n, h) (sim_lru_list_op(), (list_move)(n, h))
#endif

#endif
