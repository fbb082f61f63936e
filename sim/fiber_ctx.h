/* SPDX-License-Identifier: MIT */
/* Between fiber.c and the switches: the first stack pointer of a new fiber. */
#ifndef UMM_SIM_FIBER_CTX_H
#define UMM_SIM_FIBER_CTX_H

#include <stddef.h>

/* `top` is 64-byte aligned, `bytes` is what lies below it. */
void *sim_ctx_make(char *top, size_t bytes, void (*entry)(void));

#endif
