/* SPDX-License-Identifier: MIT */
/*
 * What the race tests share. A test holds one side of an interleaving at its critical point by a
 * lock that the test's own thread has taken: race_wait_for_lock() says that the other side stands
 * before it. What has no lock at its critical point is run many times, with threads that are
 * jolted: made to sleep for some microseconds at random instructions, so that each window of a few
 * instructions is hit.
 *
 * Numbers such as R16 are those of docs/races.md.
 */
#ifndef UMM_TESTS_RACE_H
#define UMM_TESTS_RACE_H

#include "harness.h"

#include <sched.h>
#include <signal.h>

#include "core/core.h"

#define RACE_TIMEOUT_NS 20000000000ull

/* Under the thread sanitizer? rcu.h has found out. */
#define RACE_TSAN RCU_SEQ_CST

/* The test's own thread: known to the instance, and not for ever. */
KEEP struct mm *race_begin(struct fixture *f)
{
	struct mm *mm = &f->mm->mm;

	alarm(240); /* nothing here takes more than seconds, but a hang must end */
	must(threads_enter(&mm->threads) == 0);
	return mm;
}

/* ---- threads ---- */

struct race_thread {
	pthread_t thread;
	struct mm *mm;
	void (*fn)(void *arg);
	void *arg;
	_Atomic bool done;
};

KEEP void *race_thread_main(void *arg)
{
	struct race_thread *t = arg;

	must(threads_enter(&t->mm->threads) == 0);
	t->fn(t->arg);
	t->done = true;
	return NULL;
}

KEEP void race_start(struct race_thread *t, struct mm *mm, void (*fn)(void *arg), void *arg)
{
	t->mm = mm;
	t->fn = fn;
	t->arg = arg;
	t->done = false;
	must(pthread_create(&t->thread, NULL, race_thread_main, t) == 0);
}

KEEP bool race_done_within(struct race_thread *t, uint64_t ns)
{
	uint64_t end = now_ns() + ns;

	while (!t->done && now_ns() < end)
		sleep_ns(100000);
	return t->done;
}

KEEP void race_join(struct race_thread *t)
{
	must(pthread_join(t->thread, NULL) == 0);
}

/* Until somebody sleeps, or is about to, before a lock that was free of waiters when it was
 * taken. */
KEEP void race_wait_for_lock(struct lock *l)
{
	uint64_t end = now_ns() + RACE_TIMEOUT_NS;

	while (atomic_load(&l->m.state) != 2) {
		must(now_ns() < end);
		sleep_ns(20000);
	}
}

/* ---- jolts ---- */

struct jolt {
	pthread_t thread;
	pthread_t victim[4];
	unsigned nr;
	uint64_t rng;
	_Atomic bool stop;
};

/* Up to 64 us, so that others get as far as they like; what the stack looks like is random enough. */
KEEP void jolt_handler(int sig)
{
	static _Thread_local uint64_t rng;
	int saved = errno;

	(void)sig;
	rng = rng * 6364136223846793005u + 1442695040888963407u + (uintptr_t)&saved;
	sleep_ns(rng >> 48);
	errno = saved;
}

KEEP void *jolt_main(void *arg)
{
	struct jolt *j = arg;

	while (!j->stop) {
		pthread_kill(j->victim[rng_next(&j->rng) % j->nr], SIGUSR1);
		sleep_ns(rng_next(&j->rng) % 50000);
	}
	return NULL;
}

/* Jolt these threads, which run until after jolt_end. */
KEEP void jolt_begin(struct jolt *j, struct race_thread *threads, unsigned nr)
{
	struct sigaction sa = { .sa_handler = jolt_handler, .sa_flags = SA_RESTART };

	must(nr <= 4 && sigaction(SIGUSR1, &sa, NULL) == 0);
	j->nr = nr;
	j->rng = now_ns();
	j->stop = false;
	for (unsigned i = 0; i < nr; i++)
		j->victim[i] = threads[i].thread;
	must(pthread_create(&j->thread, NULL, jolt_main, j) == 0);
}

KEEP void jolt_end(struct jolt *j)
{
	j->stop = true;
	must(pthread_join(j->thread, NULL) == 0);
}

/* Run two or more functions against each other, jolted, for so long. They end when *stop is set. */
KEEP void race_stress(struct mm *mm, double seconds, _Atomic bool *stop, unsigned nr,
		      void (*const fn[])(void *), void *const arg[])
{
	struct race_thread t[4];
	struct jolt jolt;

	must(nr <= 4);
	*stop = false;
	for (unsigned i = 0; i < nr; i++)
		race_start(&t[i], mm, fn[i], arg[i]);
	jolt_begin(&jolt, t, nr);
	sleep_ns((uint64_t)(seconds * 1e9));
	jolt_end(&jolt);
	*stop = true;
	for (unsigned i = 0; i < nr; i++)
		race_join(&t[i]);
}

/* ---- looking inside ---- */

KEEP struct lruvec *race_lruvec(umm_memcg_t *cg)
{
	return &cg->lruvec[0];
}

/* The cached folio at index, without a reference: the test knows that it stays. */
KEEP struct folio *race_folio(umm_obj_t *obj, uint64_t index)
{
	struct mm *mm = obj->mm;
	void *entry;

	rcu_read_lock(&mm->rcu);
	entry = xa_load(&obj->mapping->pages, index);
	rcu_read_unlock(&mm->rcu);
	must(entry_is_folio(entry));
	return entry;
}

KEEP bool race_cached(umm_obj_t *obj, uint64_t index)
{
	struct mm *mm = obj->mm;
	void *entry;

	rcu_read_lock(&mm->rcu);
	entry = xa_load(&obj->mapping->pages, index);
	rcu_read_unlock(&mm->rcu);
	return entry_is_folio(entry);
}

/* The page, read and on its list; nothing waits in a batch. */
KEEP struct folio *race_read(umm_obj_t *obj, uint64_t id, uint64_t index)
{
	must(read_page_checked(obj, id, index) == 0);
	lru_add_drain_all(obj->mm);
	must(folio_test(race_folio(obj, index), PG_lru));
	must(folio_ref_count(race_folio(obj, index)) == 1);
	return race_folio(obj, index);
}

/* Is it on the list that its lruvec should have it on? Takes the lock. */
KEEP bool race_on_list(struct lruvec *lruvec, enum lru_list lru, struct folio *wanted)
{
	struct folio *f;
	bool found = false;

	lruvec_lock(lruvec);
	list_for_each_entry (f, &lruvec->lists[lru], struct folio, lru)
		found = found || f == wanted;
	lruvec_unlock(lruvec);
	return found;
}

/*
 * What a mover of charges does (Linux had one, and reparenting is another): give a folio to another
 * memcg. The caller owns PG_lru, the folio is on no list; both memcgs are alive.
 */
KEEP void race_recharge(struct folio *folio, struct mem_cgroup *to)
{
	struct mm *mm = to->mm;
	struct mem_cgroup *from = folio_lruvec(folio)->memcg, *over;
	memcg_slot_t new_slot = to->lruvec[folio->pgdat->id].slot;

	must(!folio_test(folio, PG_lru));
	must(memcg_try_charge(to, 1, &over) == 0);
	atomic_fetch_add(&memcg_slot(mm, new_slot)->nr_pages, 1);
	atomic_fetch_sub(&memcg_slot(mm, atomic_load(&folio->memcg_slot))->nr_pages, 1);
	atomic_store(&folio->memcg_slot, new_slot);
	memcg_count(to, MEMCG_FILE, 1);
	memcg_count(from, MEMCG_FILE, -1);
	memcg_cancel_charge(from, 1);
}

/*
 * The mover's whole work, by a caller that holds `from`'s lock and so keeps another side before it.
 * True: moved to `to`; false: somebody else owns the folio, as the protocol wants.
 */
KEEP bool race_try_move(struct folio *folio, struct lruvec *from, struct lruvec *to)
{
	struct mm *mm = to->memcg->mm;

	if (!folio_test_clear_lru(folio))
		return false;
	lruvec_del_folio(from, folio);
	race_recharge(folio, to->memcg);
	must(lock_try(&mm->threads, to->lru_lock, memcg_tag(to->memcg)));
	lruvec_add_folio(to, folio);
	folio_set_lru(folio);
	lruvec_unlock(to);
	return true;
}

/* ---- two memcgs and a store: what most races are about ---- */

#define RACE_STORE_ID 9
#define RACE_STORE_PAGES 512

struct race {
	struct fixture f;
	struct mm *mm;
	umm_memcg_t *a, *b;
	struct mem_store store;
	umm_obj_t *obj; /* a's handle */
};

KEEP void race_setup(struct race *r, uint64_t pages)
{
	struct umm_options o = fixture_options(pages);

	memset(r, 0, sizeof(*r));
	o.flags = UMM_NO_KSWAPD;
	o.readahead_pages = 0;
	r->f = fixture_create_with(&o);
	r->mm = race_begin(&r->f);
	r->a = memcg_with_max(&r->f, NULL, "a", 0);
	r->b = memcg_with_max(&r->f, NULL, "b", 0);
	r->store.id = RACE_STORE_ID;
	r->store.pages = RACE_STORE_PAGES;
	r->obj = mem_store_open(r->a, &r->store);
}

/* The state is whole with all pages in place, and after the last one is gone. */
KEEP void race_finish(struct race *r)
{
	must(umm_check(r->f.mm) == 0);
	must(umm_close(r->obj) == 0); /* NULL if the test has closed it */
	must(umm_drain(r->f.mm) == 0);
	must(memcg_pages(r->f.root, UMM_MEMORY_CURRENT) == 0);
	must(vmstat(r->f.mm, "nr_free_pages") == vmstat(r->f.mm, "nr_pages"));
	if (r->a)
		must(umm_memcg_destroy(r->a) == 0);
	if (r->b)
		must(umm_memcg_destroy(r->b) == 0);
	must(log_warnings == 0);
	fixture_destroy(&r->f);
}

#endif
