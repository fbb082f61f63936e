/* SPDX-License-Identifier: MIT */
/*
 * The portable switch. The C library saves the signal mask with each, by a system call: some 200 times
 * slower than assembly, and otherwise the same.
 */
#include <stdlib.h>
#include <ucontext.h>

#include "fiber.h"
#include "fiber_ctx.h"

const char *fiber_switch_name(void)
{
	return "ucontext (slow)";
}

/* A context lives at the top of its own stack; "stack pointers" are pointers to contexts here. */
void *sim_ctx_make(char *top, size_t bytes, void (*entry)(void))
{
	size_t size = (sizeof(ucontext_t) + 63) & ~(size_t)63;
	ucontext_t *ctx = (ucontext_t *)(top - size);

	if (getcontext(ctx))
		abort();
	ctx->uc_stack.ss_sp = top - bytes;
	ctx->uc_stack.ss_size = bytes - size;
	ctx->uc_link = NULL;
	makecontext(ctx, entry, 0);
	return ctx;
}

void sim_ctx_switch(void **save_sp, void *load_sp)
{
	static ucontext_t root; /* of the one who is no fiber: the caller of the first switch */

	if (!*save_sp)
		*save_sp = &root;
	if (swapcontext(*save_sp, load_sp))
		abort();
}
