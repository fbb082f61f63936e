/* SPDX-License-Identifier: MIT */
/* The cost table at work; see cost.h for what the model knows and what it does not. */
#define _GNU_SOURCE
#include "cost.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "mem.h"

#define NODES_MAX SIM_NODES_MAX
#define SHARERS 4

struct sim_ps sim_ps;
uintptr_t sim_lines_base;
size_t sim_nr_lines;

/* The CPUs (id + 1) that had a line last, the latest first; older ones are forgotten. */
struct line {
	uint64_t used_ps;
	uint8_t sharer[SHARERS];
	uint8_t dirty; /* the first sharer wrote it, and nobody has read it since */
	uint8_t pad[3];
};

static struct {
	struct line *line;
	uint8_t *home; /* node + 1 that first touched a page of the engine's memory */
	uint64_t node_free_ps[NODES_MAX];
} model;

/* ---- the table ---- */

static const struct {
	const char *name;
	size_t offset;
	const char *origin;
} costs_table[] = {
#define X(cost, value, text) { #cost, offsetof(struct sim_costs, cost), text },
	SIM_COSTS(X)
#undef X
};

void sim_costs_default(struct sim_costs *costs)
{
	*costs = (struct sim_costs)
	{
#define X(cost, value, text) .cost = (value),
		SIM_COSTS(X)
#undef X
	};
}

bool sim_costs_set(struct sim_costs *costs, const char *name, double value)
{
	if (!(value >= 0 && value < 1e9))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(costs_table); i++) {
		if (strcmp(costs_table[i].name, name) != 0)
			continue;
		memcpy((char *)costs + costs_table[i].offset, &value, sizeof(value));
		return true;
	}
	return false;
}

bool sim_costs_get(const struct sim_costs *costs, size_t nth, const char **name, double *value,
		   const char **origin)
{
	if (nth >= ARRAY_SIZE(costs_table))
		return false;
	*name = costs_table[nth].name;
	*origin = costs_table[nth].origin;
	memcpy(value, (const char *)costs + costs_table[nth].offset, sizeof(*value));
	return true;
}

static uint64_t ps_of_ns(double ns)
{
	return (uint64_t)(ns * 1000 + 0.5);
}

static void convert(const struct sim_costs *c)
{
	sim_ps = (struct sim_ps){
		.hit = ps_of_ns(c->line_hit_ns),
		.llc = ps_of_ns(c->line_llc_ns),
		.dirty = ps_of_ns(c->line_dirty_ns),
		.remote = ps_of_ns(c->line_remote_ns),
		.dram = ps_of_ns(c->dram_ns),
		.dram_remote = ps_of_ns(c->dram_remote_ns),
		.life = ps_of_ns(c->line_life_us * 1000),
		.rmw = ps_of_ns(c->rmw_ns),
		.read = ps_of_ns(c->read_ns),
		.fill = ps_of_ns(c->fill_ns),
		.list_op = ps_of_ns(c->lru_list_op_ns),
		.copy_page = ps_of_ns(c->copy_page_ns),
		.alloc = ps_of_ns(c->alloc_ns),
		.syscall = ps_of_ns(c->syscall_ns),
		.wake = ps_of_ns(c->wake_us * 1000),
		.swap = ps_of_ns(c->switch_ns),
		.slice = ps_of_ns(c->slice_us * 1000),
		.granularity = ps_of_ns(c->granularity_us * 1000),
		.clock = ps_of_ns(c->clock_ns),
		/* A spin that takes no time would never let its virtual world go on. */
		.relax = ps_of_ns(c->relax_ns) + 1,
		.membarrier = ps_of_ns(c->membarrier_us * 1000),
		.io_latency = ps_of_ns(c->io_latency_us * 1000),
		.slack = ps_of_ns(c->slack_ns),
		.handoff = c->handoff_transfers,
		.smt_share = c->smt_share,
		.jitter = c->jitter < 1 ? c->jitter : 1,
		/* GB/s are bytes a nanosecond, MB/s a thousandth of it. */
		.node_ps_per_byte = c->node_gbytes_per_s > 0 ? 1000 / c->node_gbytes_per_s : 0,
		.io_ps_per_byte = c->io_mbytes_per_s > 0 ? 1e6 / c->io_mbytes_per_s : 0,
	};
}

static void *map_zeroed(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

int cost_init(const struct sim_costs *costs)
{
	size_t nr = SIM_MEM_BYTES >> SIM_LINE_SHIFT;

	convert(costs);
	memset(&model, 0, sizeof(model));
	model.line = map_zeroed(nr * sizeof(*model.line));
	model.home = map_zeroed(SIM_MEM_BYTES >> PAGE_SHIFT);
	if (!model.line || !model.home) {
		cost_fini();
		return -ENOMEM;
	}
	sim_lines_base = (uintptr_t)sim_mem_base();
	sim_nr_lines = nr;
	return 0;
}

void cost_fini(void)
{
	sim_nr_lines = 0;
	if (model.line)
		(void)munmap(model.line, (SIM_MEM_BYTES >> SIM_LINE_SHIFT) * sizeof(*model.line));
	if (model.home)
		(void)munmap(model.home, SIM_MEM_BYTES >> PAGE_SHIFT);
	model.line = NULL;
	model.home = NULL;
}

/* ---- lines ---- */

static uint64_t from_memory(const struct sim_vcpu *v, size_t line, struct line *l)
{
	uint8_t *home = &model.home[line >> (PAGE_SHIFT - SIM_LINE_SHIFT)];

	memset(l->sharer, 0, sizeof(l->sharer));
	l->dirty = 0;
	if (!*home)
		*home = (uint8_t)(v->node + 1);
	return *home == v->node + 1 ? sim_ps.dram : sim_ps.dram_remote;
}

static uint64_t from_caches(const struct sim_vcpu *v, const struct line *l, bool write)
{
	bool have = false, near = false, far = false;

	for (int i = 0; i < SHARERS && l->sharer[i]; i++) {
		const struct sim_vcpu *other = sim_vcpu(l->sharer[i] - 1u);

		if (other == v)
			have = true;
		else if (other->node == v->node)
			near = true;
		else
			far = true;
	}
	if (write)
		return far ? sim_ps.remote : near ? sim_ps.dirty : sim_ps.hit;
	if (have)
		return sim_ps.hit;
	if (l->dirty)
		return near ? sim_ps.dirty : sim_ps.remote;
	return near ? sim_ps.llc : sim_ps.remote;
}

/* A reader joins the sharers, in front; a writer is the only one left. */
static void line_take(struct line *l, uint8_t id, bool write)
{
	int i = 0;

	if (write) {
		memset(l->sharer, 0, sizeof(l->sharer));
		l->sharer[0] = id;
		l->dirty = 1;
		return;
	}
	if (l->sharer[0] == id)
		return;
	while (i < SHARERS - 1 && l->sharer[i] && l->sharer[i] != id)
		i++;
	for (; i > 0; i--)
		l->sharer[i] = l->sharer[i - 1];
	l->sharer[0] = id;
	l->dirty = 0;
}

uint64_t sim_line_access(struct sim_vcpu *v, size_t line, bool write)
{
	struct line *l = &model.line[line];
	uint8_t id = (uint8_t)(v->id + 1);
	uint64_t now = v->clk_ps, cost;

	if (likely(l->sharer[0] == id && now <= l->used_ps + sim_ps.life &&
		   (!write || !l->sharer[1]))) {
		l->used_ps = now;
		l->dirty |= write;
		return sim_ps.hit;
	}
	if (!l->sharer[0] || now > l->used_ps + sim_ps.life)
		cost = from_memory(v, line, l);
	else
		cost = from_caches(v, l, write);
	line_take(l, id, write);
	/* A CPU that lags a little must not make the line look older than it is. */
	if (now > l->used_ps)
		l->used_ps = now;
	return cost;
}

void sim_touch(const volatile void *p, size_t bytes, bool write)
{
	size_t first = sim_line_of(p), last;

	if (!bytes)
		return;
	last = sim_line_of((const volatile char *)p + bytes - 1);
	for (size_t line = first; line <= last && line < sim_nr_lines; line++)
		sim_me->clk_ps += sim_line_access(sim_me, line, write);
}

uint64_t sim_transfer_ps(const struct sim_vcpu *from, const struct sim_vcpu *to)
{
	if (from == to)
		return sim_ps.hit;
	if (from->core == to->core)
		return sim_ps.llc / 2;
	return from->node == to->node ? sim_ps.dirty : sim_ps.remote;
}

/* ---- work ---- */

void sim_work(uint64_t ps)
{
	struct sim_vcpu *me = sim_me;
	double t = (double)ps;

	if (!me || !ps)
		return;
	if (sim_ps.jitter > 0)
		t *= 1 + sim_ps.jitter * ((double)(sim_random() >> 11) * 0x1p-52 - 1);
	if (me->sibling && (!me->sibling->cur || me->sibling->spinning))
		t *= sim_ps.smt_share;
	me->clk_ps += (uint64_t)t;
}

void sim_node_traffic(unsigned node, size_t bytes)
{
	uint64_t start, *free_ps = &model.node_free_ps[node % NODES_MAX];

	if (!(sim_ps.node_ps_per_byte > 0) || !sim_me)
		return;
	sim_point();
	start = max_u64(*free_ps, sim_me->clk_ps);
	*free_ps = start + (uint64_t)(sim_ps.node_ps_per_byte * (double)bytes);
	sim_me->clk_ps = start;
}
