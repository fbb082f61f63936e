/* SPDX-License-Identifier: MIT */
/*
 * R20: a scan that loses PG_lru keeps the reference that it took.
 *
 *   scanner, holding the lru_lock          isolator
 *   sees PG_lru, takes a reference
 *                                          takes PG_lru, waits for the lock
 *   fails to take PG_lru; must drop its
 *   reference: it is not the last, the
 *   isolator has one and waits for us
 *
 * Rule: isolate_one puts what it got. Without it the page can never be freed.
 */
#include "race.h"

#define NR 3

static struct race r;
static struct folio *folio[NR];
static _Atomic bool stop;
static _Atomic uint64_t scans;

static void scanner(void *arg)
{
	struct lruvec *a = race_lruvec(r.a);
	struct list_head taken;
	uint64_t scanned;

	(void)arg;
	for (; !stop; scans++) {
		list_init(&taken);
		lruvec_lock(a);
		lruvec_isolate_folios(a, LRU_INACTIVE_FILE, NR, &taken, &scanned);
		lruvec_unlock(a);
		folios_putback_lru(r.mm, &taken);
	}
}

static void isolator(void *arg)
{
	(void)arg;
	for (unsigned i = 0; !stop; i = (i + 1) % NR)
		if (folio_isolate_lru(folio[i]))
			folio_putback_lru(folio[i]);
}

int main(void)
{
	static void (*const fn[])(void *) = { scanner, isolator, isolator };
	static void *const arg[3];
	uint64_t got;

	race_setup(&r, 256);
	for (unsigned i = 0; i < NR; i++) {
		folio[i] = race_read(r.obj, RACE_STORE_ID, i);
		folio_get(folio[i]);
	}
	race_stress(r.mm, 2.5, &stop, 3, fn, arg);
	must(scans > 0);
	for (unsigned i = 0; i < NR; i++) {
		must(folio_ref_count(folio[i]) == 2);
		folio_put(folio[i]);
	}
	must(umm_memcg_reclaim(r.a, NR * UMM_PAGE_SIZE, &got) == 0 && got == NR * UMM_PAGE_SIZE);
	race_finish(&r);
	return 0;
}
