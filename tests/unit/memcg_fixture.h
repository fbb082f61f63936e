/* SPDX-License-Identifier: MIT */
/*
 * What the tests of memcg/ stand on: an instance of base/ and memcg/ only, built by hand, with fake
 * folios (nothing on this floor looks at the page behind one).
 */
#ifndef UMM_TESTS_MEMCG_FIXTURE_H
#define UMM_TESTS_MEMCG_FIXTURE_H

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>
#include <pthread.h>

#include "base/fault.h"
#include "memcg/memcontrol.h"

#define NR_NODES 2

/* For threads other than the test's own, where cmocka's asserts must not be used. */
#define CHECK(cond) VM_BUG_ON(!(cond))

struct fixture {
	struct mm mm;
	struct pgdat node[NR_NODES];
};

static inline struct mm *fixture_begin(struct fixture *f, enum umm_lru_lock lru_lock)
{
	struct mm *mm = &f->mm;

	memset(f, 0, sizeof(*f));
	CHECK(!threads_init(&mm->threads));
	CHECK(!threads_enter(&mm->threads));
	CHECK(!rcu_init(&mm->rcu, &mm->threads));
	mm->opt.lru_lock = lru_lock;
	mm->nr_cpus = os_nr_cpus();
	mm->nr_nodes = NR_NODES;
	mm->nr_pages = 1ull << 32; /* the root's limit: out of the way */
	mm->node = f->node;
	for (unsigned i = 0; i < NR_NODES; i++) {
		f->node[i].mm = mm;
		f->node[i].id = i;
		lock_init(&f->node[i].lru_lock, LOCK_LRUVEC);
	}
	return mm;
}

static inline void fixture_end(struct fixture *f)
{
	rcu_fini(&f->mm.rcu);
	threads_fini(&f->mm.threads);
	free(f);
}

static inline int setup_mm(void **state)
{
	struct fixture *f = malloc(sizeof(*f));

	CHECK(f);
	CHECK(!memcg_domain_init(fixture_begin(f, UMM_LRU_LOCK_MEMCG)));
	*state = f;
	return 0;
}

/* Every test ends with nothing but the root left, and nothing charged to it. */
static inline int teardown_mm(void **state)
{
	struct fixture *f = *state;
	struct mm *mm = &f->mm;

	memcg_drain_stock(mm, NULL);
	CHECK(memcg_nr_live(mm) == 1);
	CHECK(memcg_nr_blocks(mm) == 1);
	CHECK(page_counter_usage(&root_memcg(mm)->memory) == 0);
	memcg_domain_fini(mm);
	CHECK(!mm->memcgs);
	fixture_end(f);
	return 0;
}

#define mm_test(fn) cmocka_unit_test_setup_teardown(fn, setup_mm, teardown_mm)

static inline struct mm *state_mm(void **state)
{
	return &((struct fixture *)*state)->mm;
}

static inline struct mem_cgroup *new_memcg(struct mem_cgroup *parent, const char *name)
{
	struct mem_cgroup *memcg = NULL;

	CHECK(!memcg_create(parent->mm, parent, name, &memcg));
	return memcg;
}

static inline void set_max(struct mem_cgroup *memcg, uint64_t pages)
{
	struct umm_threads *threads = &memcg->mm->threads;

	lock_acquire(threads, &memcg->limit_lock);
	CHECK(!memcg_set_max(memcg, pages));
	lock_release(threads, &memcg->limit_lock);
}

/* What lru_reparent does, for lists that are empty. */
static inline void reparent(struct mem_cgroup *memcg)
{
	struct umm_threads *threads = &memcg->mm->threads;
	struct lock *tree = &memcg->mm->memcgs->tree_lock;

	lock_acquire(threads, tree);
	for (unsigned i = 0; i < memcg->mm->nr_nodes; i++) {
		struct lruvec *child = &memcg->lruvec[i];
		struct lruvec *parent = &memcg->parent->lruvec[i];

		lock_acquire(threads, child->lru_lock);
		if (parent->lru_lock != child->lru_lock)
			lock_acquire_nested(threads, parent->lru_lock, LOCK_NO_TAG);
		memcg_slots_point(child, parent);
		if (parent->lru_lock != child->lru_lock)
			lock_release(threads, parent->lru_lock);
		lock_release(threads, child->lru_lock);
		memcg_slots_inherit(child, parent);
	}
	lock_release(threads, tree);
}

static inline void destroy(struct mem_cgroup *memcg)
{
	CHECK(!memcg_mark_dying(memcg));
	reparent(memcg);
	memcg_unlink(memcg);
}

static inline uint64_t counter_usage(struct mem_cgroup *memcg)
{
	return page_counter_usage(&memcg->memory);
}

static inline uint64_t counter_peak(struct mem_cgroup *memcg)
{
	return atomic_load(&memcg->memory.peak);
}

/* ---- fake folios ---- */

static inline void folio_make(struct mm *mm, struct folio *folio, unsigned node, unsigned order)
{
	memset(folio, 0, sizeof(*folio));
	folio->pgdat = &mm->node[node];
	folio->order = (uint8_t)order;
}

/* Charge a folio to the memcg; false if the limit does not let it. */
static inline bool folio_charge(struct mem_cgroup *memcg, struct folio *folio)
{
	struct mem_cgroup *over;

	if (memcg_try_charge(memcg, folio_nr_pages(folio), &over))
		return false;
	folio_commit_charge(folio, memcg, folio_test(folio, PG_kernel) ? MEMCG_KERNEL : MEMCG_FILE);
	return true;
}

static inline void folio_uncharge(struct folio *folio)
{
	folios_uncharge(folio->pgdat->mm, &folio, 1);
}

static inline uint64_t slot_pages(struct mem_cgroup *memcg, unsigned node)
{
	return atomic_load(&memcg_slot(memcg->mm, memcg->lruvec[node].slot)->nr_pages);
}

/* ---- threads ---- */

#define MAX_WORKERS 16

struct worker {
	struct os_thread thread;
	pthread_t self;
	_Atomic bool running;
	struct mm *mm;
	unsigned nr;
	uint64_t seed;
	void (*fn)(struct worker *w, void *arg);
	void *arg;
};

static inline void worker_main(void *arg)
{
	struct worker *w = arg;

	CHECK(!threads_enter(&w->mm->threads));
	w->self = pthread_self();
	atomic_store(&w->running, true);
	w->fn(w, w->arg);
}

static inline void workers_start(struct worker *w, unsigned nr, struct mm *mm,
				 void (*fn)(struct worker *w, void *arg), void *arg)
{
	CHECK(nr <= MAX_WORKERS);
	for (unsigned i = 0; i < nr; i++) {
		w[i].mm = mm;
		w[i].nr = i;
		w[i].seed = 0x9e3779b97f4a7c15ull * (i + 1);
		w[i].fn = fn;
		w[i].arg = arg;
		atomic_init(&w[i].running, false);
		CHECK(!os_thread_create(&w[i].thread, worker_main, &w[i], "worker"));
	}
}

static inline void workers_join(struct worker *w, unsigned nr)
{
	for (unsigned i = 0; i < nr; i++)
		os_thread_join(&w[i].thread);
}

/*
 * Windows of a few instructions are hit too seldom by chance: signals that sleep hold workers up in
 * the middle of whatever they do. Start it after the workers, stop it before they are joined.
 */
struct stutter {
	struct worker *w;
	unsigned nr;
	pthread_t thread;
	_Atomic bool stop;
};

static inline void stutter_handler(int sig)
{
	struct timespec nap = { .tv_nsec = 100000 };
	int saved = errno;

	(void)sig;
	(void)nanosleep(&nap, NULL);
	errno = saved;
}

static inline void *stutter_main(void *arg)
{
	struct stutter *s = arg;
	struct timespec nap = { .tv_nsec = 20000 };

	for (unsigned i = 0; !atomic_load(&s->stop); i++) {
		struct worker *w = &s->w[i % s->nr];

		if (atomic_load(&w->running))
			(void)pthread_kill(w->self, SIGUSR1);
		(void)nanosleep(&nap, NULL);
	}
	return NULL;
}

static inline void stutter_start(struct stutter *s, struct worker *w, unsigned nr)
{
	struct sigaction sa = { .sa_handler = stutter_handler, .sa_flags = SA_RESTART };

	s->w = w;
	s->nr = nr;
	atomic_init(&s->stop, false);
	CHECK(!sigaction(SIGUSR1, &sa, NULL));
	CHECK(!pthread_create(&s->thread, NULL, stutter_main, s));
}

static inline void stutter_stop(struct stutter *s)
{
	atomic_store(&s->stop, true);
	CHECK(!pthread_join(s->thread, NULL));
}

/* xorshift; below n. */
static inline uint64_t worker_random(struct worker *w, uint64_t n)
{
	w->seed ^= w->seed << 13;
	w->seed ^= w->seed >> 7;
	w->seed ^= w->seed << 17;
	return w->seed % n;
}

#endif
