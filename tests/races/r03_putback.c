/* SPDX-License-Identifier: MIT */
/*
 * R3: what was isolated is put back wrongly: PG_lru stays clear and the page is lost to reclaim for
 * ever; or a reference is dropped under lru_lock, turns out to be the last, and frees under that
 * lock.
 *
 *   reclaim                                closer
 *   isolates four folios, one reference each
 *                                          closes the object: the cache's references go
 *   puts them back: links, sets PG_lru,
 *   drops its references, the last ones:
 *   the release takes the same lru_lock
 *
 * Rule (LRU-4, LRU-5): set PG_lru under the lock, unlock, then put.
 */
#include "race.h"

#define NR 4

static void isolate(struct race *r, struct list_head *taken)
{
	struct lruvec *a = race_lruvec(r->a);
	uint64_t scanned;

	list_init(taken);
	lruvec_lock(a);
	must(lruvec_isolate_folios(a, LRU_INACTIVE_FILE, SWAP_CLUSTER_MAX, taken, &scanned) == NR);
	lruvec_unlock(a);
	must(scanned == NR);
}

static void closer(void *arg)
{
	must(umm_close(arg) == 0);
}

int main(void)
{
	static struct race r;
	static struct mem_store store = { .id = 5, .pages = NR };
	struct folio *folio[NR];
	struct list_head taken;
	struct race_thread t;
	umm_obj_t *obj;
	uint64_t got;

	race_setup(&r, 256);
	obj = mem_store_open(r.a, &store);
	for (unsigned i = 0; i < NR; i++)
		folio[i] = race_read(obj, store.id, i);

	/* Given up for no reason: all as before. */
	isolate(&r, &taken);
	folios_putback_lru(r.mm, &taken);
	must(list_empty(&taken));
	for (unsigned i = 0; i < NR; i++)
		must(folio_test(folio[i], PG_lru) && folio_ref_count(folio[i]) == 1);
	must(umm_memcg_reclaim(r.a, NR * UMM_PAGE_SIZE, &got) == 0 && got == NR * UMM_PAGE_SIZE);

	/* The last reference. */
	for (unsigned i = 0; i < NR; i++)
		folio[i] = race_read(obj, store.id, i);
	isolate(&r, &taken);
	race_start(&t, r.mm, closer, obj);
	race_join(&t);
	must(store.closed == 1);
	for (unsigned i = 0; i < NR; i++)
		must(folio_ref_count(folio[i]) == 1);
	folios_putback_lru(r.mm, &taken);
	must(memcg_pages(r.a, UMM_MEMORY_CURRENT) == 0);
	for (unsigned i = 0; i < NR; i++)
		must(folio_ref_count(folio[i]) == 0);
	race_finish(&r);
	return 0;
}
