/* SPDX-License-Identifier: MIT */
/* Names and sums of the event counters. The counting itself is inline: one store to the own slot. */
#include "page/vmstat.h"

static const char *const event_name[NR_VM_EVENTS] = {
#define X(id, name) [id] = name,
	VM_EVENTS(X)
#undef X
};

const char *vm_event_name(enum vm_event e)
{
	VM_BUG_ON(e >= NR_VM_EVENTS);
	return event_name[e];
}

uint64_t vm_event_sum(struct mm *mm, enum vm_event e)
{
	uint32_t nr = atomic_load_explicit(&mm->threads.nr_slots, memory_order_acquire);
	uint64_t sum = 0;

	VM_BUG_ON(e >= NR_VM_EVENTS);
	for (uint32_t i = 0; i < nr; i++)
		sum += atomic_load_explicit(&mm->threads.slot[i].event[e], memory_order_relaxed);
	return sum;
}
