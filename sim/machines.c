/* SPDX-License-Identifier: MIT */
/*
 * The machines of which results of "lru file readtwice in containers" are public, with what was reported.
 * The reports are of Linux before and after the series that gave each memcg its own lru_lock. In all of
 * them the two dd of a container read one sparse file.
 */
#include <string.h>

#include "sim.h"

static const struct sim_machine machines[] = {
	{ .name = "A1",
	  .text = "2 sockets x 8 cores x 2, 32 containers; series v2, lkml 2019-11-12",
	  .cpus = 32,
	  .nodes = 2,
	  .smt = true,
	  .memcgs = 32,
	  .readers = 2,
	  .node_mb_per_s = 123,
	  .memcg_mb_per_s = 144,
	  .percent = 17 },
	{ .name = "A2",
	  .text = "2 sockets x 26 cores x 2, 104 containers; series v6, Dec 2019",
	  .cpus = 104,
	  .nodes = 2,
	  .smt = true,
	  .memcgs = 104,
	  .readers = 2,
	  .percent = 80 },
	{ .name = "A3",
	  .text = "2 sockets x 20 cores x 2, 80 containers; series v18, lkml 2020-08-26",
	  .cpus = 80,
	  .nodes = 2,
	  .smt = true,
	  .memcgs = 80,
	  .readers = 2,
	  .percent = 152 },
	{ .name = "D1",
	  .text = "2 sockets x 10 cores x 2 (Broadwell), 16 containers, 30 s; v18, D. Jordan, Aug 2020",
	  .cpus = 40,
	  .nodes = 2,
	  .smt = true,
	  .memcgs = 16,
	  .readers = 2,
	  .percent = 11,
	  .filling = 2.0 / 3 },
	{ .name = "D2",
	  .text = "as D1, 40 containers, 251 GB, 300 s; v18, D. Jordan, lkml 2020-09-15",
	  .cpus = 40,
	  .nodes = 2,
	  .smt = true,
	  .memcgs = 40,
	  .readers = 2,
	  .node_mb_per_s = 220.5,
	  .memcg_mb_per_s = 356.9,
	  .percent = 61.9 },
};

const struct sim_machine *sim_machine_nth(size_t nth)
{
	return nth < sizeof(machines) / sizeof(machines[0]) ? &machines[nth] : NULL;
}

const struct sim_machine *sim_machine_find(const char *name)
{
	const struct sim_machine *machine;

	for (size_t i = 0; (machine = sim_machine_nth(i)); i++)
		if (!strcmp(machine->name, name))
			return machine;
	return NULL;
}
