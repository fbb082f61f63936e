/* SPDX-License-Identifier: MIT */
/*
 * R44: a lruvec is freed while somebody waits for its lock.
 *
 *   isolator                               memcg is destroyed
 *                                          locks the child's lruvec, wants the parent's
 *   looks up the child's lruvec, waits;
 *   is stopped by the scheduler
 *                                          moves all, unlocks; unlinks the child and frees it
 *   goes on: takes a lock in free memory
 *
 * Rule: from the lookup to the lock is one RCU read section; the child's block is freed after a
 * grace period.
 */
#include "race.h"

static struct race r;
static struct folio *folio;
static umm_memcg_t *child;
static _Atomic bool stalled, go;

static void stall_handler(int sig)
{
	(void)sig;
	stalled = true;
	while (!go)
		sleep_ns(100000);
}

static void destroyer(void *arg)
{
	must(umm_memcg_destroy(arg) == 0);
}

static void isolator(void *arg)
{
	must(folio_isolate_lru(arg));
	folio_putback_lru(arg);
}

/* The waiter sleeps in the kernel; a signal handler keeps it from going on. The thread sanitizer
 * delivers signals late, so that there nobody is stopped. */
static void stall(struct race_thread *t)
{
	struct sigaction sa = { .sa_handler = stall_handler };
	uint64_t end = now_ns() + RACE_TIMEOUT_NS;

	if (RACE_TSAN)
		return;
	must(sigaction(SIGUSR2, &sa, NULL) == 0);
	must(pthread_kill(t->thread, SIGUSR2) == 0);
	while (!stalled) {
		must(now_ns() < end);
		sleep_ns(100000);
	}
}

int main(void)
{
	struct race_thread destroy, isolate;
	struct lruvec *a;
	umm_obj_t *obj;

	race_setup(&r, 256);
	a = race_lruvec(r.a);
	child = memcg_with_max(&r.f, r.a, "child", 0);
	must(umm_obj_reopen(r.obj, child, &obj) == 0);
	folio = race_read(obj, RACE_STORE_ID, 3);
	folio_get(folio);
	must(umm_close(obj) == 0);
	must(memcg_nr_blocks(r.mm) == 4);

	lruvec_lock(a);
	race_start(&destroy, r.mm, destroyer, child);
	race_wait_for_lock(a->lru_lock);
	race_start(&isolate, r.mm, isolator, folio);
	race_wait_for_lock(race_lruvec(child)->lru_lock);
	stall(&isolate);
	lruvec_unlock(a);
	if (stalled) {
		must(!race_done_within(&destroy, 200000000));
		must(memcg_nr_blocks(r.mm) == 4);
		must(race_lruvec(child)->memcg == child);
	}
	go = true;
	race_join(&isolate);
	race_join(&destroy);
	must(memcg_nr_blocks(r.mm) == 3);
	must(race_on_list(a, LRU_INACTIVE_FILE, folio) && folio_ref_count(folio) == 2);
	folio_put(folio);
	must(memcg_pages(r.a, UMM_MEMORY_CURRENT) == 1);
	race_finish(&r);
	return 0;
}
