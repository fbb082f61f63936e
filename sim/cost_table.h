/* SPDX-License-Identifier: MIT */
/*
 * THE cost table: everything that takes virtual time, with its unit and where the figure comes from. It
 * is printed with every simulated result. The lines marked FITTED were set by tools/fit-costs, which
 * fits two figures (read and fill are one) to the one public result with absolute numbers: machine D2.
 *
 * Names end in their unit. A figure of 0 switches the thing off where the text says so.
 */
#ifndef UMM_SIM_COST_TABLE_H
#define UMM_SIM_COST_TABLE_H

/* clang-format off */
#define SIM_COSTS(X)                                                                               \
	/* name, value, origin */                                                                  \
	X(line_hit_ns,            1.5,  "L1/L2 hit and the instructions around it; manuals")       \
	X(line_llc_ns,             25,  "clean line from the same socket's L3; Broadwell, MLC")    \
	X(line_dirty_ns,           41,  "dirty line of the same socket: 40-42, MLC, McCalpin")     \
	X(line_remote_ns,         130,  "line from the other socket; MLC, 110-150")                \
	X(dram_ns,                 90,  "local memory, idle; MLC")                                 \
	X(dram_remote_ns,         140,  "the other node's memory, idle; MLC")                      \
	X(line_life_us,           700,  "time until an unused line has left the caches; estimate") \
	X(rmw_ns,                   8,  "an atomic read-modify-write beyond its line; Agner Fog")  \
	X(handoff_transfers,        2,  "line transfers from unlock to the next holder")           \
	X(read_ns,               2934,  "a read outside the engine: system calls, copy; FITTED")   \
	X(fill_ns,               2934,  "to fill a page: clear, map, submit; as read_ns; FITTED")  \
	X(lru_list_op_ns,         132,  "an LRU list operation and its statistics; FITTED")        \
	X(copy_page_ns,             0,  "copy of 4 KiB by the engine; part of read_ns")            \
	X(alloc_ns,                40,  "malloc or free; glibc, thread cache")                     \
	X(syscall_ns,             250,  "a system call that does not sleep; mitigations on")       \
	X(wake_us,                  3,  "from a wake-up to the thread's start on an idle CPU")     \
	X(switch_ns,             1500,  "context switch between threads")                          \
	X(slice_us,              3000,  "time slice while others want the CPU; CFS")               \
	X(granularity_us,         750,  "least time until a woken thread may take the CPU; CFS")   \
	X(clock_ns,                20,  "clock_gettime, vDSO")                                     \
	X(relax_ns,                40,  "pause, or isb")                                           \
	X(membarrier_us,            5,  "membarrier, expedited; not charged to its targets")       \
	X(smt_share,             0.65,  "time of work while the sibling spins or idles; estimate") \
	X(jitter,                 0.1,  "work takes up to so much more or less, uniformly")        \
	X(node_gbytes_per_s,        0,  "page traffic a node's memory can take; 0: no bound")      \
	X(io_latency_us,            0,  "store: time to the first byte; 0: sparse files")          \
	X(io_mbytes_per_s,          0,  "store: bandwidth of all readers; 0: no bound")            \
	X(slack_ns,               200,  "how far a CPU may run ahead of the others")
/* clang-format on */

#endif
