/* SPDX-License-Identifier: MIT */
/*
 * What becomes of isolated folios: freed, or put back. We own their PG_lru and have a reference on each,
 * and hold no lock.
 *
 * An access leaves a trace before we get here: the second one moves a folio to the active list. So one
 * that reached the inactive tail goes, unless somebody uses it at this moment.
 */
#include "reclaim/reclaim.h"

/*
 * Not removed: somebody else holds a reference. It is pinned, and is kept out of the way until the last
 * pin goes (LRU-7). If it is out of the cache it goes with the last reference, perhaps with ours.
 */
static void keep_folio(struct folio *folio, struct list_head *kept)
{
	folio_cull_pinned(folio);
	list_add(&folio->lru, kept);
}

uint64_t shrink_folio_list(struct mm *mm, struct list_head *taken)
{
	struct folio *folios[SWAP_CLUSTER_MAX];
	unsigned nr = 0, removed;
	uint64_t nr_pages = 0;

	while (!list_empty(taken)) {
		VM_BUG_ON(nr == SWAP_CLUSTER_MAX);
		folios[nr] = list_first_entry(taken, struct folio, lru);
		VM_BUG_ON(folio_test(folios[nr], PG_lru));
		list_del(&folios[nr++]->lru);
	}
	removed = mapping_remove_unused(mm, folios, nr);
	for (unsigned i = removed; i < nr; i++)
		keep_folio(folios[i], taken);
	for (unsigned i = 0; i < removed; i++)
		nr_pages += folio_nr_pages(folios[i]);
	if (removed)
		folios_free_frozen(mm, folios, removed);
	return nr_pages;
}
