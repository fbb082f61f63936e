/* SPDX-License-Identifier: MIT */
/*
 * Virtual CPUs and virtual time. A world has N CPUs, each with a clock of its own in picoseconds, and
 * fibers as threads. One host thread executes all of it: the CPU whose clock is furthest behind runs,
 * until it is more than a little (the slack) ahead of the next one. What runs in between is sequentially
 * consistent, and every decision depends on clocks, ids and the seed only: the same binary and seed
 * give the same run to the bit, whatever the host does.
 *
 * A thread of a world may be switched at a point (sim_point): each atomic access of the engine is one,
 * and every call of os.h. Nothing else is.
 */
#ifndef UMM_SIM_SCHED_H
#define UMM_SIM_SCHED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/os.h"
#include "fiber.h"

#define SIM_CPUS_MAX 240u /* ids + 1 fit into a byte of the line model */
#define SIM_NODES_MAX 8u
#define SIM_NEVER UINT64_MAX

/* Something that happens at a time: a CPU goes on, or a sleeper's deadline passes. */
struct sim_event {
	uint64_t at_ps;
	uint32_t order; /* who comes first at the same time: unique */
	uint32_t pos;   /* in the heap, 0: not in it */
	bool is_timer;
};

enum sim_fiber_state { FIBER_READY, FIBER_RUNNING, FIBER_WAITING, FIBER_DONE };

struct sim_fiber {
	struct fiber ctx;
	uint32_t id;
	uint32_t slot_cache; /* os_thread_slot_cache while it is not running */
	enum sim_fiber_state state;
	struct sim_vcpu *cpu; /* where it runs, or ran last */
	bool pinned;
	unsigned held; /* mutexes: no time slice ends under one */
	/* The queue it is in, if any: of those ready on a CPU, of a word, or of a mutex. */
	struct sim_queue *in;
	struct sim_fiber *next, **pprev;
	struct sim_event timer;
	const _Atomic uint32_t *word; /* os_wait: what it sleeps on */
	bool timed_out;
	const struct os_mutex *wants; /* the mutex it waits for */
	_Atomic uint32_t done;
	void (*fn)(void *);
	void *arg;
	char name[16];
};

/* A queue of fibers, first come first served. */
struct sim_queue {
	struct sim_fiber *head, **tail;
};

struct sim_vcpu {
	uint64_t clk_ps;
	unsigned id, node, core;
	struct sim_vcpu *sibling; /* the other hyperthread of the core, or NULL */
	struct sim_fiber *cur;    /* NULL: idle */
	bool spinning;            /* cur waits for a mutex without giving the CPU away */
	struct sim_queue ready;
	unsigned nr_ready;
	uint64_t slice_start_ps, slice_end_ps;
	struct sim_event event;
	uint64_t idle_since_ps;
	uint64_t idle_ps, spin_ps;
};

struct sim_counts {
	uint64_t points, switches, plain, hash;
};

/* The CPU that runs; NULL outside of a world. */
extern struct sim_vcpu *sim_me;
/* Its clock must not go beyond this without a look at the others. */
extern uint64_t sim_horizon_ps;
extern struct sim_counts sim_counts;

struct sim_vcpu *sim_vcpu(unsigned id);
unsigned sim_nr_cpus(void);
unsigned sim_nr_nodes(void);

/* ---- a world ---- */

struct sim_shape {
	unsigned nr_cpus, nr_nodes;
	bool smt; /* two hyperthreads a core; of an odd number one has none */
	uint64_t seed;
};

/* Run main(arg) as the first thread of a new world, to its end. 0 or -errno. Other threads must have
 * ended by then. Not reentrant. */
int sched_run(const struct sim_shape *shape, void (*main)(void *), void *arg);

/* ---- for os_sim and the runtime ---- */

void sim_reschedule(void);
/* os_sim.c: the calling thread ends; its number can go to another. */
void os_sim_thread_end(void);
/* mutex.c: may a spinner go on? No longer if the holder, or whom that waits for, has lost its CPU. */
bool sim_mutex_holder_runs(const struct sim_fiber *spinner);
/* os_sim.c: os_wake without its costs. */
void sim_wake_word(const _Atomic uint32_t *word, int n);

static inline void sim_point(void)
{
	sim_counts.points++;
	if (unlikely(sim_me->clk_ps >= sim_horizon_ps))
		sim_reschedule();
}

/* Start a thread, on a CPU of its own choice or, `cpu` being one, on that for ever. NULL: no stack. */
#define SIM_ANY_CPU UINT32_MAX
struct sim_fiber *sim_spawn(void (*fn)(void *), void *arg, const char *name, uint32_t cpu);
void sim_fiber_free(struct sim_fiber *f);

/* The calling thread, already in a queue of its waker, sleeps until sim_wake or the deadline. */
void sim_block(uint64_t deadline_ps);
void sim_wake(struct sim_fiber *f, uint64_t at_ps);
/* The calling thread waits but keeps its CPU, until sim_grant. */
void sim_spin(void);
/* End the spinning of a fiber; it goes on at `at_ps`. */
void sim_grant(struct sim_fiber *f, uint64_t at_ps);
/* Let others on this CPU run. */
void sim_yield(void);
/* The calling thread took (+1) or released (-1) a mutex. */
void sim_held(int by);

uint64_t sim_random(void);
/* Mix something that was decided into the hash of the run. */
void sim_hash(uint64_t what);

void queue_init(struct sim_queue *q);
void queue_add(struct sim_queue *q, struct sim_fiber *f);
void queue_add_first(struct sim_queue *q, struct sim_fiber *f);
struct sim_fiber *queue_pop(struct sim_queue *q);
void queue_del(struct sim_fiber *f);
/* The queue itself has been copied to another place. */
void queue_moved(struct sim_queue *q);

#endif
