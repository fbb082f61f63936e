/* SPDX-License-Identifier: MIT */
/*
 * R24: a new folio is marked active in another CPU's add batch, while that batch is drained.
 *
 *   reader                                 drain, another CPU
 *   second use of a page that is on no
 *   list yet: searches the batches
 *                                          computes the inactive list, links the folio there
 *   finds it, sets PG_active
 *                                          counts it, sets PG_lru
 *   (active, on the inactive list)
 *
 * Rule: only the own CPU's batch is searched, under its lock, which the drain holds.
 */
#include "race.h"

#define NR 12

static struct race r;
static _Atomic bool stop;
static _Atomic uint64_t rounds, touches;

static void adder(void *arg)
{
	(void)arg;
	for (; !stop; rounds++) {
		for (uint64_t i = 0; i < NR; i++)
			must(read_page_checked(r.obj, RACE_STORE_ID, i) == 0);
		lru_add_drain(r.mm);
		must(umm_advise(r.obj, 0, NR * UMM_PAGE_SIZE, UMM_ADVISE_DONTNEED) == 0);
	}
}

static void toucher(void *arg)
{
	struct folio *folio;

	(void)arg;
	for (uint64_t i = 0; !stop; i = (i + 1) % NR) {
		folio = mapping_get_folio(r.obj->mapping, i, NULL);
		if (!folio)
			continue;
		folio_mark_accessed(r.mm, folio);
		folio_mark_accessed(r.mm, folio);
		folio_put(folio);
		touches++;
	}
}

int main(void)
{
	static void (*const fn[])(void *) = { adder, toucher, toucher };
	static void *const arg[3];

	race_setup(&r, 256);
	race_stress(r.mm, 2.5, &stop, 3, fn, arg);
	must(rounds > 0 && touches > 0);
	must(log_warnings == 0);
	/* In the own batch it does work: the page was read once, and is used a second time. */
	must(umm_drain(r.f.mm) == 0);
	for (unsigned tries = 0; vmstat(r.f.mm, "nr_active_file") == 0; tries++) {
		must(tries < 100); /* unless the thread is moved to another CPU in between */
		must(umm_advise(r.obj, 0, NR * UMM_PAGE_SIZE, UMM_ADVISE_DONTNEED) == 0);
		must(read_page_checked(r.obj, RACE_STORE_ID, 1) == 0);
		folio_mark_accessed(r.mm, race_folio(r.obj, 1));
		lru_add_drain_all(r.mm);
	}
	must(race_on_list(race_lruvec(r.a), LRU_ACTIVE_FILE, race_folio(r.obj, 1)));
	race_finish(&r);
	return 0;
}
