/* SPDX-License-Identifier: MIT */
/*
 * The contract with the system (os.h) on virtual CPUs, all but the files. Each function says what it
 * costs before it does something, and is a point at which the scheduler may look at other CPUs.
 *
 * Outside of a world only the memory functions refuse (NULL); everything that waits or asks for the time
 * is a mistake there.
 */
#include "os_sim.h"

#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "mem.h"
#include "mutex.h"

static void charge(uint64_t ps)
{
	VM_BUG_ON(!sim_me);
	sim_me->clk_ps += ps;
	sim_point();
}

/* ---- memory ---- */

/* What calloc writes; beyond a page it would take fresh, zeroed pages of the system instead. */
#define ZEROED_MAX PAGE_SIZE

static void *alloc(size_t align, size_t bytes)
{
	void *p;

	if (fault_point(FAULT_ALLOC) || !sim_me)
		return NULL;
	p = mem_alloc(sim_me->id, align, bytes);
	if (p)
		sim_touch(p, min_u64(bytes, ZEROED_MAX), true);
	charge(sim_ps.alloc);
	return p;
}

void *os_alloc(size_t bytes)
{
	return alloc(16, bytes);
}

void *os_alloc_aligned(size_t align, size_t bytes)
{
	VM_BUG_ON(align < 16 || (align & (align - 1)));
	return alloc(align, bytes);
}

void os_free(void *p)
{
	if (!p)
		return;
	sim_touch(p, 1, true);
	mem_free(sim_me->id, p);
	charge(sim_ps.alloc);
}

void *os_reserve(size_t bytes)
{
	if (fault_point(FAULT_ALLOC) || !sim_me)
		return NULL;
	charge(sim_ps.syscall);
	return mem_reserve(bytes);
}

void os_unreserve(void *p, size_t bytes)
{
	charge(sim_ps.syscall);
	mem_unreserve(p, bytes);
}

int os_arena_map(size_t bytes, size_t align, void **ret_base)
{
	void *base;

	if (bytes == 0 || bytes > SIZE_MAX - PAGE_SIZE || (align & (align - 1)))
		return -EINVAL;
	if (fault_point(FAULT_ALLOC))
		return -ENOMEM;
	charge(sim_ps.syscall);
	base = mem_frames_map(bytes, align);
	if (!base)
		return -ENOMEM;
	*ret_base = base;
	return 0;
}

/* Virtual machines have the memory that they are asked for. */
int os_arena_populate(void *base, size_t bytes, unsigned flags, int numa_node)
{
	(void)bytes, (void)flags, (void)numa_node;
	VM_BUG_ON((uintptr_t)base % PAGE_SIZE);
	if (fault_point(FAULT_ALLOC))
		return -ENOMEM;
	charge(sim_ps.syscall);
	return 0;
}

void os_arena_unmap(void *base, size_t bytes)
{
	charge(sim_ps.syscall);
	mem_frames_unmap(base, bytes);
}

/* ---- threads ---- */

int os_sim_thread_create_on(uint32_t cpu, struct os_thread *t, void (*fn)(void *), void *arg,
			    const char *name)
{
	if (fault_point(FAULT_ALLOC))
		return -ENOMEM;
	charge(sim_ps.syscall);
	t->impl = sim_spawn(fn, arg, name, cpu);
	return t->impl ? 0 : -EAGAIN;
}

int os_thread_create(struct os_thread *t, void (*fn)(void *), void *arg, const char *name)
{
	return os_sim_thread_create_on(SIM_ANY_CPU, t, fn, arg, name);
}

void os_thread_join(struct os_thread *t)
{
	struct sim_fiber *f = t->impl;

	while (!atomic_load_explicit(&f->done, memory_order_acquire))
		(void)os_wait(&f->done, 0, OS_FOREVER);
	sim_fiber_free(f);
	t->impl = NULL;
}

/* Numbers of threads: lowest free first, as on the real system. */
_Thread_local uint32_t os_thread_slot_cache __attribute__((tls_model("initial-exec")));
static uint64_t slot_used[OS_MAX_THREADS / 64];

uint32_t os_thread_slot_slow(void)
{
	for (uint32_t w = 0; w < OS_MAX_THREADS / 64; w++) {
		if (~slot_used[w]) {
			unsigned bit = (unsigned)__builtin_ctzll(~slot_used[w]);

			slot_used[w] |= 1ull << bit;
			os_thread_slot_cache = w * 64 + bit + 1;
			return w * 64 + bit;
		}
	}
	return OS_NO_SLOT;
}

void os_sim_thread_end(void)
{
	uint32_t slot = os_thread_slot_cache;

	if (slot--)
		slot_used[slot / 64] &= ~(1ull << slot % 64);
	os_thread_slot_cache = 0;
}

unsigned os_cpu(void)
{
	return sim_me ? sim_me->id : 0;
}

unsigned os_nr_cpus(void)
{
	return sim_me ? sim_nr_cpus() : 1;
}

unsigned os_nr_numa_nodes(void)
{
	return sim_me ? sim_nr_nodes() : 1;
}

unsigned os_cpu_numa_node(unsigned cpu)
{
	return sim_me ? sim_vcpu(cpu % sim_nr_cpus())->node : 0;
}

/* ---- waiting, clock, random ---- */

#define WORD_BUCKETS 1024
static struct sim_queue words[WORD_BUCKETS];

static struct sim_queue *word_queue(const _Atomic uint32_t *word)
{
	return &words[((uintptr_t)word >> 2) * 0x9e3779b97f4a7c15u >> 54];
}

uint64_t os_now_ns(void)
{
	charge(sim_ps.clock);
	return sim_me->clk_ps / 1000;
}

static uint64_t deadline_ps(uint64_t deadline_ns)
{
	return deadline_ns >= SIM_NEVER / 1000 ? SIM_NEVER : deadline_ns * 1000;
}

/* The comparison and the sleep are one step: there is no point between them. */
int os_wait(_Atomic uint32_t *word, uint32_t expected, uint64_t deadline_ns)
{
	uint64_t until = deadline_ps(deadline_ns);
	struct sim_queue *q = word_queue(word);
	struct sim_fiber *self;

	charge(sim_ps.syscall);
	if (atomic_load_explicit(word, memory_order_relaxed) == expected) {
		if (sim_me->clk_ps >= until)
			return -ETIMEDOUT;
		self = sim_me->cur;
		self->word = word;
		queue_add(q, self);
		sim_block(until);
	}
	return until != SIM_NEVER && sim_me->clk_ps >= until ? -ETIMEDOUT : 0;
}

void sim_wake_word(const _Atomic uint32_t *word, int n)
{
	struct sim_queue *q = word_queue(word);
	struct sim_fiber *next;

	for (struct sim_fiber *f = q->head; f && n > 0; f = next) {
		next = f->next;
		if (f->word != word)
			continue;
		queue_del(f);
		sim_wake(f, sim_me->clk_ps);
		n--;
	}
}

void os_wake(_Atomic uint32_t *word, int n)
{
	charge(sim_ps.syscall);
	sim_wake_word(word, n);
}

void os_sleep_ns(uint64_t ns)
{
	uint64_t now;

	charge(sim_ps.syscall);
	now = sim_me->clk_ps;
	sim_block(ns >= (SIM_NEVER - now) / 1000 ? SIM_NEVER : now + ns * 1000);
}

void os_yield(void)
{
	charge(sim_ps.syscall);
	sim_yield();
}

void os_relax(void)
{
	charge(sim_ps.relax);
}

uint64_t os_random(void)
{
	charge(sim_ps.syscall);
	return sim_random();
}

/* The others' instructions are in order here, whatever they are on a machine. */
int os_membarrier(void)
{
	charge(sim_ps.membarrier);
	return 0;
}

/* ---- a world ---- */

int os_sim_run(const struct sim_shape *shape, const struct sim_costs *costs, void (*main)(void *),
	       void *arg)
{
	int err;

	if (sim_me)
		return -EBUSY;
	for (unsigned i = 0; i < WORD_BUCKETS; i++)
		queue_init(&words[i]);
	memset(slot_used, 0, sizeof(slot_used));
	err = mem_init();
	if (err)
		return err;
	err = cost_init(costs);
	if (!err)
		err = sim_mutexes_init();
	if (!err) {
		os_sim_io_init();
		err = sched_run(shape, main, arg);
		os_sim_io_fini();
	}
	sim_mutexes_fini();
	cost_fini();
	mem_fini();
	return err;
}
