/* SPDX-License-Identifier: MIT */
/* The first frame of a new fiber, as the switch in ctx_*.S expects to find it. */
#include <string.h>

#include "fiber.h"
#include "fiber_ctx.h"

#if defined(__x86_64__)

const char *fiber_switch_name(void)
{
	return "x86-64";
}

/* Six saved registers, then the address that `ret` takes: entry finds the stack as after a call. */
void *sim_ctx_make(char *top, size_t bytes, void (*entry)(void))
{
	void **sp = (void **)top;

	(void)bytes;
	*--sp = NULL; /* entry's return address: there is none */
	memcpy(--sp, &entry, sizeof(entry));
	for (int i = 0; i < 6; i++)
		*--sp = NULL;
	return sp;
}

#else /* aarch64: meson.build takes this file on these two only */

const char *fiber_switch_name(void)
{
	return "aarch64";
}

/* 160 bytes of saved registers; x30, at 88, is where `ret` goes. */
void *sim_ctx_make(char *top, size_t bytes, void (*entry)(void))
{
	char *sp = top - 160;

	(void)bytes;
	memset(sp, 0, 160);
	memcpy(sp + 88, &entry, sizeof(entry));
	return sp;
}

#endif
