/* SPDX-License-Identifier: MIT */
/*
 * R31: a scan goes on, with lru_lock held, until it has found what it wants: 156,946,361 pages in
 * one report from the field.
 *
 *   scanner, holding the lru_lock          (anybody)
 *   wants 32 folios
 *                                          owns all folios of the list, for a moment or for long
 *   visits one after the other, finds
 *   none, begins anew
 *
 * Rule: a number of visits is the bound, not a number of finds.
 */
#include "race.h"

#define NR 40

static struct race r;
static uint64_t wanted, taken, scanned;

static void scanner(void *arg)
{
	struct lruvec *a = race_lruvec(r.a);
	struct list_head list;

	(void)arg;
	list_init(&list);
	lruvec_lock(a);
	taken = lruvec_isolate_folios(a, LRU_INACTIVE_FILE, wanted, &list, &scanned);
	lruvec_unlock(a);
	must(list_empty(&list) == (taken == 0));
	folios_putback_lru(r.mm, &list);
}

static void scan(uint64_t nr)
{
	struct race_thread t;

	wanted = nr;
	race_start(&t, r.mm, scanner, NULL);
	must(race_done_within(&t, RACE_TIMEOUT_NS));
	race_join(&t);
}

int main(void)
{
	struct folio *folio[NR];
	struct lruvec *a;

	race_setup(&r, 256);
	a = race_lruvec(r.a);
	for (unsigned i = 0; i < NR; i++) {
		folio[i] = race_read(r.obj, RACE_STORE_ID, i);
		folio_get(folio[i]);
		must(folio_test_clear_lru(folio[i]));
	}
	scan(SWAP_CLUSTER_MAX);
	must(taken == 0 && scanned == SWAP_CLUSTER_MAX);
	scan(2 * NR);
	must(taken == 0 && scanned == NR);

	/* One that can be had, at the far end: the bound counts visits. */
	folio_set_lru(folio[NR - 1]);
	scan(SWAP_CLUSTER_MAX);
	must(scanned <= SWAP_CLUSTER_MAX);
	for (unsigned i = 0; i < NR - 1; i++)
		folio_set_lru(folio[i]);
	for (unsigned i = 0; i < NR; i++)
		folio_put(folio[i]);
	must(lruvec_size(a, LRU_INACTIVE_FILE) == NR);
	race_finish(&r);
	return 0;
}
