/* SPDX-License-Identifier: MIT */
/*
 * R14: on one CPU activation is thought to need no ownership, as nobody can run at the same time.
 * But threads are switched anywhere, also before a lock.
 *
 *   activation (drain)                     isolator, same CPU, holding the lru_lock
 *   waits for the lru_lock
 *                                          takes PG_lru, unlinks, keeps the folio
 *   gets the lock, unlinks once more
 *
 * Rule: there is one protocol, however many CPUs there are (R5's). All threads here run on one.
 */
#include "race.h"

static struct race r;
static struct folio *folio;
static _Atomic bool stop;

static void drainer(void *arg)
{
	(void)arg;
	lru_add_drain_all(r.mm);
}

static void activator(void *arg)
{
	(void)arg;
	while (!stop) {
		folio_mark_accessed(r.mm, folio);
		folio_mark_accessed(r.mm, folio);
		lru_add_drain(r.mm);
	}
}

static void isolator(void *arg)
{
	(void)arg;
	while (!stop) {
		if (!folio_isolate_lru(folio))
			continue;
		folio_clear(folio, PG_active);
		folio_putback_lru(folio);
	}
}

int main(void)
{
	static void (*const fn[])(void *) = { activator, isolator };
	static void *const arg[2];
	struct race_thread t;
	struct lruvec *a;
	cpu_set_t one;
	bool taken;

	CPU_ZERO(&one);
	CPU_SET((unsigned)sched_getcpu(), &one);
	must(sched_setaffinity(0, sizeof(one), &one) == 0);
	race_setup(&r, 256);
	a = race_lruvec(r.a);
	folio = race_read(r.obj, RACE_STORE_ID, 3);
	folio_get(folio);
	folio_mark_accessed(r.mm, folio);
	must(folio_ref_count(folio) == 3);

	lruvec_lock(a);
	race_start(&t, r.mm, drainer, NULL);
	race_wait_for_lock(a->lru_lock);
	taken = folio_test_clear_lru(folio);
	if (taken)
		lruvec_del_folio(a, folio);
	lruvec_unlock(a);
	race_join(&t);
	must(!taken && race_on_list(a, LRU_ACTIVE_FILE, folio));

	race_stress(r.mm, 1.5, &stop, 2, fn, arg);
	lru_add_drain_all(r.mm);
	must(folio_test(folio, PG_lru) && folio_ref_count(folio) == 2);
	must(vmstat(r.f.mm, "pgactivate") > 1);
	folio_put(folio);
	race_finish(&r);
	return 0;
}
