/* SPDX-License-Identifier: MIT */
/* The countdown behind the fault points: one per thread, so that no other thread is disturbed. */
#include "base/fault.h"

#if UMM_FAULT_POINTS

static _Thread_local struct {
	unsigned kinds;
	unsigned left; /* the fault is delivered when this goes from 1 to 0; 0: disarmed */
	bool delivered;
} fault;

bool fault_point(enum fault_kind kind)
{
	if (likely(fault.left == 0) || !(fault.kinds & kind))
		return false;
	if (--fault.left)
		return false;
	fault.delivered = true;
	return true;
}

void fault_arm(unsigned kinds, unsigned n)
{
	VM_DEBUG_ON(kinds & ~(unsigned)FAULT_ANY);
	fault.kinds = kinds;
	fault.left = n;
	fault.delivered = false;
}

bool fault_disarm(void)
{
	bool delivered = fault.delivered;

	fault.left = 0;
	fault.delivered = false;
	return delivered;
}

#endif
