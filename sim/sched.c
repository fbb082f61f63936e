/* SPDX-License-Identifier: MIT */
/*
 * Who runs next; see sched.h.
 *
 * All that is to happen stands in one heap by time: CPUs that have something to run, with their clocks,
 * and deadlines of sleepers. Not in it are: the CPU that runs, idle ones, and those that spin for a
 * mutex, unless others wait there for the time slice to end.
 */
#include "sched.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cost.h"
#include "mem.h"

#define HEAP_MAX (FIBERS_MAX + SIM_CPUS_MAX + 1)
#define CPU_ORDER 0x80000000u /* timers first, then CPUs by id */

struct sim_vcpu *sim_me;
uint64_t sim_horizon_ps;
struct sim_counts sim_counts;

static struct {
	struct sim_vcpu cpu[SIM_CPUS_MAX];
	unsigned nr_cpus, nr_nodes;
	struct sim_event *heap[HEAP_MAX];
	uint32_t nr_heap;
	struct sim_fiber *running;
	struct sim_fiber *ended; /* its stack can go once somebody else runs */
	uint32_t nr_fibers, next_id, next_cpu;
	void *host_sp; /* of the caller of sched_run */
	uint64_t random;
} world;

struct sim_vcpu *sim_vcpu(unsigned id)
{
	return &world.cpu[id];
}

unsigned sim_nr_cpus(void)
{
	return world.nr_cpus;
}

unsigned sim_nr_nodes(void)
{
	return world.nr_nodes;
}

/* splitmix64: any seed will do, also 0. */
uint64_t sim_random(void)
{
	uint64_t z = world.random += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

void sim_hash(uint64_t what)
{
	sim_counts.hash = (sim_counts.hash ^ what) * 0x100000001b3u;
}

/* ---- queues ---- */

void queue_init(struct sim_queue *q)
{
	q->head = NULL;
	q->tail = &q->head;
}

void queue_add(struct sim_queue *q, struct sim_fiber *f)
{
	f->in = q;
	f->next = NULL;
	f->pprev = q->tail;
	*q->tail = f;
	q->tail = &f->next;
}

void queue_add_first(struct sim_queue *q, struct sim_fiber *f)
{
	f->in = q;
	f->next = q->head;
	f->pprev = &q->head;
	if (f->next)
		f->next->pprev = &f->next;
	else
		q->tail = &f->next;
	q->head = f;
}

void queue_del(struct sim_fiber *f)
{
	*f->pprev = f->next;
	if (f->next)
		f->next->pprev = f->pprev;
	else
		f->in->tail = f->pprev;
	f->in = NULL;
	f->next = NULL;
	f->pprev = NULL;
}

void queue_moved(struct sim_queue *q)
{
	if (q->head)
		q->head->pprev = &q->head;
	else
		q->tail = &q->head;
	for (struct sim_fiber *f = q->head; f; f = f->next)
		f->in = q;
}

struct sim_fiber *queue_pop(struct sim_queue *q)
{
	struct sim_fiber *f = q->head;

	if (f)
		queue_del(f);
	return f;
}

/* ---- the heap of events ---- */

static bool before(const struct sim_event *a, const struct sim_event *b)
{
	return a->at_ps < b->at_ps || (a->at_ps == b->at_ps && a->order < b->order);
}

static void heap_place(struct sim_event *e, uint32_t pos)
{
	world.heap[pos] = e;
	e->pos = pos;
}

static void heap_up(struct sim_event *e, uint32_t pos)
{
	for (; pos > 1 && before(e, world.heap[pos / 2]); pos /= 2)
		heap_place(world.heap[pos / 2], pos);
	heap_place(e, pos);
}

static void heap_down(struct sim_event *e, uint32_t pos)
{
	for (;;) {
		uint32_t child = 2 * pos;

		if (child > world.nr_heap)
			break;
		if (child < world.nr_heap && before(world.heap[child + 1], world.heap[child]))
			child++;
		if (!before(world.heap[child], e))
			break;
		heap_place(world.heap[child], pos);
		pos = child;
	}
	heap_place(e, pos);
}

/* How far the running CPU may go: to the next event and the slack, and to the end of its time slice if
 * somebody is waiting for that and it may end now. */
static void set_horizon(void)
{
	const struct sim_vcpu *me = sim_me;
	uint64_t horizon = world.nr_heap ? world.heap[1]->at_ps + sim_ps.slack : SIM_NEVER;

	if (me && me->nr_ready && me->cur && !me->cur->held && me->slice_end_ps < horizon)
		horizon = me->slice_end_ps;
	sim_horizon_ps = horizon;
}

static void heap_push(struct sim_event *e, uint64_t at_ps)
{
	VM_BUG_ON(e->pos || world.nr_heap + 1 == HEAP_MAX);
	e->at_ps = at_ps;
	heap_up(e, ++world.nr_heap);
	if (e->pos == 1)
		set_horizon();
}

static void heap_remove(struct sim_event *e)
{
	uint32_t pos = e->pos;
	struct sim_event *last = world.heap[world.nr_heap--];

	if (last != e) {
		if (pos > 1 && before(last, world.heap[pos / 2]))
			heap_up(last, pos);
		else
			heap_down(last, pos);
	}
	e->pos = 0;
}

/* ---- CPUs ---- */

static void slice_begin(struct sim_vcpu *v)
{
	v->slice_start_ps = v->clk_ps;
	v->slice_end_ps = v->clk_ps + sim_ps.slice;
}

/* The CPU has nobody: take the next who is ready. Puts it into the heap; idle if there is none. */
static void vcpu_next(struct sim_vcpu *v)
{
	struct sim_fiber *f = queue_pop(&v->ready);

	v->cur = f;
	if (!f) {
		v->idle_since_ps = v->clk_ps;
		return;
	}
	v->nr_ready--;
	f->state = FIBER_RUNNING;
	v->clk_ps += sim_ps.swap;
	slice_begin(v);
	heap_push(&v->event, v->clk_ps);
}

/* Where a thread that is not pinned goes on: where it was if that is idle, else on an idle CPU, of the
 * same node if there is one, else where it was. */
static struct sim_vcpu *vcpu_choose(const struct sim_fiber *f)
{
	struct sim_vcpu *found = f->cpu;

	if (f->pinned || !f->cpu->cur)
		return f->cpu;
	for (unsigned i = 0; i < world.nr_cpus; i++) {
		struct sim_vcpu *v = &world.cpu[(f->cpu->id + i) % world.nr_cpus];

		if (v->cur)
			continue;
		if (v->node == f->cpu->node)
			return v;
		if (found == f->cpu)
			found = v;
	}
	return found;
}

/* A time slice is to end at `at_ps` at the latest: somebody became ready. */
static void slice_shorten(struct sim_vcpu *v, uint64_t at_ps)
{
	uint64_t end = max_u64(at_ps, v->slice_start_ps + sim_ps.granularity);

	v->slice_end_ps = min_u64(v->slice_end_ps, end);
	if (v == sim_me)
		set_horizon();
	else if (v->spinning && !v->event.pos)
		heap_push(&v->event, max_u64(v->slice_end_ps, v->clk_ps));
}

static void make_ready(struct sim_fiber *f, uint64_t at_ps, uint64_t latency_ps, bool first)
{
	struct sim_vcpu *v = vcpu_choose(f);

	f->state = FIBER_READY;
	f->cpu = v;
	if (!v->cur) {
		at_ps += latency_ps;
		if (at_ps > v->clk_ps) {
			v->idle_ps += at_ps - v->idle_since_ps;
			v->clk_ps = at_ps;
		}
		v->cur = f;
		f->state = FIBER_RUNNING;
		slice_begin(v);
		heap_push(&v->event, v->clk_ps);
		return;
	}
	if (first)
		queue_add_first(&v->ready, f);
	else
		queue_add(&v->ready, f);
	if (v->nr_ready++ == 0 && !first)
		v->slice_end_ps = max_u64(v->clk_ps, v->slice_start_ps + sim_ps.slice);
	slice_shorten(v, first ? at_ps : v->slice_end_ps);
}

void sim_wake(struct sim_fiber *f, uint64_t at_ps)
{
	if (f->timer.pos)
		heap_remove(&f->timer);
	make_ready(f, at_ps, sim_ps.wake, true);
}

/* A spinner's time slice is over. While the holder is at work it keeps its CPU, as who spins with
 * preemption off does; else it goes on waiting without. */
static void spinner_park(struct sim_vcpu *v, uint64_t at_ps)
{
	if (sim_mutex_holder_runs(v->cur)) {
		heap_push(&v->event, at_ps + sim_ps.slice + 1);
		return;
	}
	v->cur->state = FIBER_WAITING;
	v->spin_ps += at_ps - min_u64(at_ps, v->clk_ps);
	v->clk_ps = max_u64(v->clk_ps, at_ps);
	v->spinning = false;
	vcpu_next(v);
}

/* ---- the switch ---- */

static __cold void deadlock(void)
{
	fprintf(stderr, "umm sim: every thread waits and nothing will wake one (%u threads)\n",
		world.nr_fibers);
	abort();
}

static struct sim_vcpu *vcpu_pick(void)
{
	for (;;) {
		struct sim_event *e = world.nr_heap ? world.heap[1] : NULL;
		struct sim_vcpu *v;

		if (!e)
			deadlock();
		heap_remove(e);
		if (e->is_timer) {
			struct sim_fiber *f = container_of(e, struct sim_fiber, timer);

			f->timed_out = true;
			if (f->in)
				queue_del(f);
			sim_wake(f, e->at_ps);
			continue;
		}
		v = container_of(e, struct sim_vcpu, event);
		if (!v->spinning)
			return v;
		spinner_park(v, e->at_ps);
	}
}

static void reap(void)
{
	struct sim_fiber *f = world.ended;

	world.ended = NULL;
	if (f)
		fiber_destroy(&f->ctx);
}

static void switch_to(struct sim_vcpu *v)
{
	struct sim_fiber *from = world.running, *to = v->cur;

	sim_me = v;
	set_horizon();
	sim_hash(v->clk_ps + v->id);
	if (from == to)
		return;
	sim_counts.switches++;
	from->slot_cache = os_thread_slot_cache;
	os_thread_slot_cache = to->slot_cache;
	world.running = to;
	sim_ctx_switch(&from->ctx.sp, to->ctx.sp);
	reap();
}

static void slice_end(struct sim_vcpu *me)
{
	struct sim_fiber *f = me->cur;

	f->state = FIBER_READY;
	queue_add(&me->ready, f);
	f = queue_pop(&me->ready);
	f->state = FIBER_RUNNING;
	me->cur = f;
	me->clk_ps += sim_ps.swap;
	slice_begin(me);
}

void sim_reschedule(void)
{
	struct sim_vcpu *me = sim_me;

	if (me->nr_ready && !me->cur->held && me->clk_ps >= me->slice_end_ps)
		slice_end(me);
	if (world.nr_heap && world.heap[1]->at_ps + sim_ps.slack <= me->clk_ps) {
		heap_push(&me->event, me->clk_ps);
		me = vcpu_pick();
	}
	switch_to(me);
}

void sim_yield(void)
{
	struct sim_vcpu *me = sim_me;

	if (me->nr_ready && !me->cur->held)
		slice_end(me);
	heap_push(&me->event, me->clk_ps);
	switch_to(vcpu_pick());
}

void sim_block(uint64_t deadline_ps)
{
	struct sim_vcpu *me = sim_me;
	struct sim_fiber *f = me->cur;

	f->state = FIBER_WAITING;
	f->timed_out = false;
	if (deadline_ps != SIM_NEVER)
		heap_push(&f->timer, max_u64(deadline_ps, me->clk_ps));
	vcpu_next(me);
	switch_to(vcpu_pick());
}

void sim_spin(void)
{
	struct sim_vcpu *me = sim_me;

	me->spinning = true;
	if (me->nr_ready)
		heap_push(&me->event, max_u64(me->slice_end_ps, me->clk_ps));
	switch_to(vcpu_pick());
}

void sim_grant(struct sim_fiber *f, uint64_t at_ps)
{
	struct sim_vcpu *v = f->cpu;

	VM_BUG_ON(!v->spinning || v->cur != f);
	if (v->event.pos)
		heap_remove(&v->event);
	v->spinning = false;
	if (at_ps > v->clk_ps) {
		v->spin_ps += at_ps - v->clk_ps;
		v->clk_ps = at_ps;
	}
	heap_push(&v->event, v->clk_ps);
	set_horizon();
}

void sim_held(int by)
{
	struct sim_vcpu *me = sim_me;

	me->cur->held += (unsigned)by;
	/* A slice that could not end under the mutex may be over. */
	if (me->nr_ready)
		set_horizon();
}

/* ---- threads ---- */

static void fiber_end(struct sim_fiber *f)
{
	struct sim_vcpu *me = sim_me;

	VM_BUG_ON(f->held);
	f->state = FIBER_DONE;
	world.nr_fibers--;
	/* No point from here on: who reaps the stack must find us gone from it. */
	world.ended = f;
	atomic_store_explicit(&f->done, 1, memory_order_release);
	sim_wake_word(&f->done, INT32_MAX);
	vcpu_next(me);
	switch_to(vcpu_pick());
}

static void fiber_entry(void)
{
	struct sim_fiber *f = world.running;

	reap();
	f->fn(f->arg);
	os_sim_thread_end();
	if (f->id == 0)
		sim_ctx_switch(&f->ctx.sp, world.host_sp);
	else
		fiber_end(f);
	VM_BUG_ON(true);
}

/* Least loaded; of equals the one after the last choice, so that threads spread. */
static struct sim_vcpu *vcpu_for_new(void)
{
	struct sim_vcpu *best = &world.cpu[world.next_cpu % world.nr_cpus];

	for (unsigned i = 1; i < world.nr_cpus; i++) {
		struct sim_vcpu *v = &world.cpu[(world.next_cpu + i) % world.nr_cpus];

		if (v->nr_ready + !!v->cur < best->nr_ready + !!best->cur)
			best = v;
	}
	world.next_cpu = best->id + 1;
	return best;
}

struct sim_fiber *sim_spawn(void (*fn)(void *), void *arg, const char *name, uint32_t cpu)
{
	struct sim_fiber *f = calloc(1, sizeof(*f));

	if (!f || fiber_create(&f->ctx, fiber_entry, world.next_id == 0)) {
		free(f);
		return NULL;
	}
	f->id = world.next_id++;
	f->timer.order = f->id;
	f->timer.is_timer = true;
	f->fn = fn;
	f->arg = arg;
	f->pinned = cpu != SIM_ANY_CPU;
	f->cpu = f->pinned ? &world.cpu[cpu % world.nr_cpus] : vcpu_for_new();
	(void)snprintf(f->name, sizeof(f->name), "%s", name);
	atomic_init(&f->done, 0);
	world.nr_fibers++;
	make_ready(f, sim_me ? sim_me->clk_ps : 0, sim_me ? sim_ps.wake : 0, false);
	return f;
}

void sim_fiber_free(struct sim_fiber *f)
{
	VM_BUG_ON(f->state != FIBER_DONE);
	free(f);
}

/* ---- a world ---- */

static void world_init(const struct sim_shape *shape)
{
	unsigned cores = shape->smt ? (shape->nr_cpus + 1) / 2 : shape->nr_cpus;

	memset(&world, 0, sizeof(world));
	memset(&sim_counts, 0, sizeof(sim_counts));
	sim_counts.hash = 0xcbf29ce484222325u;
	world.nr_cpus = shape->nr_cpus;
	world.nr_nodes = shape->nr_nodes;
	world.random = shape->seed;
	/* As Linux numbers them: first one thread of each core, then the others; cores by socket. */
	for (unsigned i = 0; i < shape->nr_cpus; i++) {
		struct sim_vcpu *v = &world.cpu[i];

		v->id = i;
		v->core = i % cores;
		v->node = v->core * shape->nr_nodes / cores;
		if (i >= cores) {
			v->sibling = &world.cpu[i - cores];
			v->sibling->sibling = v;
		}
		v->event.order = CPU_ORDER + i;
		queue_init(&v->ready);
	}
}

int sched_run(const struct sim_shape *shape, void (*main)(void *), void *arg)
{
	uint32_t outer_slot = os_thread_slot_cache;
	struct sim_fiber *f;

	if (sim_me)
		return -EBUSY;
	if (!shape->nr_cpus || shape->nr_cpus > SIM_CPUS_MAX || !shape->nr_nodes ||
	    shape->nr_nodes > SIM_NODES_MAX)
		return -EINVAL;
	world_init(shape);
	if (fibers_init())
		return -ENOMEM;
	f = sim_spawn(main, arg, "main", SIM_ANY_CPU);
	if (!f) {
		fibers_fini();
		return -ENOMEM;
	}
	os_thread_slot_cache = 0;
	world.running = f;
	sim_me = vcpu_pick();
	set_horizon();
	sim_ctx_switch(&world.host_sp, f->ctx.sp);
	sim_me = NULL;
	os_thread_slot_cache = outer_slot;
	VM_BUG_ON(world.nr_fibers != 1); /* threads that outlive the world that they live in */
	free(f);
	fibers_fini();
	return 0;
}
