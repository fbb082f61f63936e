/* SPDX-License-Identifier: MIT */
/*
 * SIGINT, SIGTERM and SIGHUP as a flag that loops look at, so that a command ends in its own order:
 * threads first, then files. A thread of its own waits for them; all other threads have them blocked,
 * so no system call of the library's is ever interrupted.
 */
#ifndef UMM_TOOL_INTERRUPT_H
#define UMM_TOOL_INTERRUPT_H

#include <stdatomic.h>
#include <stdbool.h>

/* The first signal that came, or 0; negative once it is too late for one to change anything. */
extern atomic_int interrupt_signal;

/*
 * Call before any other thread exists. `last_resort` is called when the process ends out of turn: on
 * a second signal, and on abort(). It may only make system calls. Return 0 or -errno.
 */
int interrupt_start(void (*last_resort)(void));

static inline bool interrupted(void)
{
	return atomic_load_explicit(&interrupt_signal, memory_order_relaxed) > 0;
}

/*
 * The result stands: from now on one signal is let pass, so that it is not cut in half. Return false
 * if one came before.
 */
bool interrupt_settle(void);

#endif
