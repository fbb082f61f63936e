/* SPDX-License-Identifier: MIT */
/* Owns the stacks of fibers. */
#define _GNU_SOURCE
#include "fiber.h"

#include <errno.h>
#include <sys/mman.h>

#include "base/base.h"
#include "fiber_ctx.h"

/* Where the stacks go if the system lets us choose: far from what it chooses itself. */
#define STACKS_BASE ((char *)0x3e0000000000)
#define STRIDE (FIBER_STACK_BYTES + PAGE_SIZE)
#define STACKS_BYTES (FIBERS_MAX * STRIDE + FIBER_MAIN_STACK_BYTES + PAGE_SIZE)
#define LARGE UINT32_MAX
/* Tops of stacks differ by some lines, or all fibers' hottest frames would share a few cache sets. */
#define COLOURS 61

static struct {
	char *base;
	uint32_t used; /* stacks below this were handed out at least once */
	uint32_t nr_free;
	uint32_t free[FIBERS_MAX]; /* the last one given back is the first to go out again */
} stacks;

int fibers_init(void)
{
	void *p;

	if (stacks.base)
		return -EBUSY;
	p = mmap(STACKS_BASE, STACKS_BYTES, PROT_NONE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
	if (p == MAP_FAILED)
		p = mmap(NULL, STACKS_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
			 -1, 0);
	if (p == MAP_FAILED)
		return -ENOMEM;
	stacks.base = p;
	stacks.used = 0;
	stacks.nr_free = 0;
	return 0;
}

void fibers_fini(void)
{
	if (stacks.base && munmap(stacks.base, STACKS_BYTES))
		VM_BUG_ON(true);
	stacks.base = NULL;
}

/* The first page of each stack stays forbidden: an overflow faults at once. */
static char *stack_of(uint32_t nr, size_t *ret_bytes)
{
	*ret_bytes = nr == LARGE ? FIBER_MAIN_STACK_BYTES : FIBER_STACK_BYTES;
	return stacks.base + (nr == LARGE ? FIBERS_MAX * STRIDE : nr * STRIDE) + PAGE_SIZE;
}

int fiber_create(struct fiber *f, void (*entry)(void), int large)
{
	size_t bytes, colour;
	char *base;

	if (large)
		f->stack = LARGE;
	else if (stacks.nr_free)
		f->stack = stacks.free[--stacks.nr_free];
	else if (stacks.used < FIBERS_MAX)
		f->stack = stacks.used++;
	else
		return -EAGAIN;
	base = stack_of(f->stack, &bytes);
	if (mprotect(base, bytes, PROT_READ | PROT_WRITE)) {
		if (!large)
			stacks.free[stacks.nr_free++] = f->stack;
		return -EAGAIN;
	}
	colour = large ? 0 : 64ul * (f->stack % COLOURS);
	f->sp = sim_ctx_make(base + bytes - colour, bytes - colour, entry);
	return 0;
}

void fiber_destroy(struct fiber *f)
{
	if (f->stack != LARGE)
		stacks.free[stacks.nr_free++] = f->stack;
	f->sp = NULL;
}
