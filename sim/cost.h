/* SPDX-License-Identifier: MIT */
/*
 * What takes how much virtual time. The table (cost_table.h) in its units, and the model of the memory
 * system: for each cache line of the engine's memory, which CPUs had it last, and whether it is dirty.
 *
 * Modelled: hits, transfers within and between sockets, memory near and far, atomics, contention for a
 * line as far as it shows in transfers. Not modelled: capacity and associativity of caches (a line
 * leaves them by age alone), prefetch, TLBs, store buffers, frequency.
 */
#ifndef UMM_SIM_COST_H
#define UMM_SIM_COST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cost_table.h"
#include "sched.h"
#include "sim.h"

struct sim_costs {
#define X(name, value, origin) double name;
	SIM_COSTS(X)
#undef X
};

/* The same in picoseconds, for adding up. Constant while a world runs. */
struct sim_ps {
	uint64_t hit, llc, dirty, remote, dram, dram_remote, life, rmw;
	uint64_t read, fill, list_op, copy_page, alloc, syscall, wake, swap, slice, granularity;
	uint64_t clock, relax, membarrier, io_latency, slack;
	double handoff, smt_share, jitter, node_ps_per_byte, io_ps_per_byte;
};
extern struct sim_ps sim_ps;

void sim_costs_default(struct sim_costs *costs);
/* For a world: take over the costs; forget all lines. */
int cost_init(const struct sim_costs *costs);
void cost_fini(void);

/* ---- lines ---- */

#define SIM_LINE_SHIFT 6

/* Lines of the engine's memory; 0 of them while no world runs, so that nothing is charged then. */
extern uintptr_t sim_lines_base;
extern size_t sim_nr_lines;

/* One access of CPU `v` to a line: what it costs, and how it leaves the line. */
uint64_t sim_line_access(struct sim_vcpu *v, size_t line, bool write);

static inline size_t sim_line_of(const volatile void *p)
{
	return ((uintptr_t)p - sim_lines_base) >> SIM_LINE_SHIFT;
}

/* The running CPU touches `bytes` at p. */
void sim_touch(const volatile void *p, size_t bytes, bool write);

/* What it takes to bring a dirty line from one CPU to another. */
uint64_t sim_transfer_ps(const struct sim_vcpu *from, const struct sim_vcpu *to);

/* ---- work ---- */

/* The running CPU computes for that long, give or take the jitter and what its sibling does. */
void sim_work(uint64_t ps);
/* `bytes` of page traffic to a node's memory: wait for its bandwidth. */
void sim_node_traffic(unsigned node, size_t bytes);

#endif
