/* SPDX-License-Identifier: MIT */
/*
 * Fibers: stacks, and the switch from one to another (5 ns in assembly; 1 us with ucontext, where the C
 * library saves the signal mask by a system call). Knows nothing of time or CPUs.
 *
 * Stacks lie at fixed addresses where the system allows it, so that not even a pointer to a local
 * variable differs between two runs.
 */
#ifndef UMM_SIM_FIBER_H
#define UMM_SIM_FIBER_H

#include <stddef.h>
#include <stdint.h>

#define FIBER_STACK_BYTES (64ul << 10)
#define FIBER_MAIN_STACK_BYTES (1ul << 20)
#define FIBERS_MAX 8192u

/* What a switch saves and loads: where a suspended fiber's registers are. */
struct fiber {
	void *sp;
	uint32_t stack; /* which one, UINT32_MAX: the large one */
};

/* Map the stacks. 0 or -errno. */
int fibers_init(void);
void fibers_fini(void);

/*
 * Give a fiber a stack on which `entry` runs at the first switch to it; entry must not return. `large`:
 * the one stack for code that is not the engine's. -EAGAIN: no stack left.
 */
int fiber_create(struct fiber *f, void (*entry)(void), int large);
/* Take the stack back; the fiber is not running and will not be switched to. */
void fiber_destroy(struct fiber *f);

/* Suspend the caller in *save_sp and go on where load_sp was saved. */
void sim_ctx_switch(void **save_sp, void *load_sp);

/* "x86-64", "aarch64" or "ucontext (slow)". */
const char *fiber_switch_name(void);

#endif
