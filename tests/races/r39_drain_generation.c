/* SPDX-License-Identifier: MIT */
/*
 * R39: a caller of lru_add_drain_all leaves early, because of a drain that had passed its page
 * already.
 *
 *   first drain        another thread      second drain
 *   has visited CPU 0, waits at the last
 *                      queues a folio
 *                      on CPU 0
 *                                          notes the generation, waits for the drain lock
 *   finishes
 *                                          the generation must be what it noted: only a drain that
 *                                          began after that would have seen the folio
 *
 * Rule: the generation is raised before the first CPU is visited.
 */
#include "race.h"

static struct race r;
static cpu_set_t early; /* a CPU that is not the last */

static void drainer(void *arg)
{
	(void)arg;
	lru_add_drain_all(r.mm);
}

static void reader(void *arg)
{
	(void)arg;
	must(sched_setaffinity(0, sizeof(early), &early) == 0);
	must(read_page_checked(r.obj, RACE_STORE_ID, 3) == 0);
}

static bool find_early_cpu(unsigned last)
{
	cpu_set_t allowed;

	must(sched_getaffinity(0, sizeof(allowed), &allowed) == 0);
	CPU_ZERO(&early);
	for (unsigned cpu = 0; cpu < last; cpu++) {
		if (!CPU_ISSET(cpu, &allowed))
			continue;
		CPU_SET(cpu, &early);
		return true;
	}
	return false;
}

int main(void)
{
	struct race_thread first, read, second;
	struct lock *last;

	race_setup(&r, 256);
	if (!find_early_cpu(r.mm->nr_cpus - 1))
		return 77; /* with one CPU there is nothing to pass */
	last = &r.mm->lru_cpu[r.mm->nr_cpus - 1].lock;
	lock_acquire(&r.mm->threads, last);
	race_start(&first, r.mm, drainer, NULL);
	race_wait_for_lock(last);
	race_start(&read, r.mm, reader, NULL);
	race_join(&read);
	must(!folio_test(race_folio(r.obj, 3), PG_lru));
	race_start(&second, r.mm, drainer, NULL);
	race_wait_for_lock(&r.mm->lru_drain->lock);
	lock_release(&r.mm->threads, last);
	race_join(&second);
	must(folio_test(race_folio(r.obj, 3), PG_lru));
	must(folio_ref_count(race_folio(r.obj, 3)) == 1);
	race_join(&first);
	must(vmstat(r.f.mm, "lru_add_drain_all") == 2);
	race_finish(&r);
	return 0;
}
