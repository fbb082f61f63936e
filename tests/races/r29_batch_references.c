/* SPDX-License-Identifier: MIT */
/*
 * R29: pages seem to be in use because they wait in some CPU's batch.
 *
 *   reader                                 dropper, or reclaim at the limit
 *   reads pages: each waits in the add
 *   batch, with a reference for it
 *                                          expects the cache's reference alone: "in use", refuses,
 *                                          though nobody uses them
 *
 * Rule: who finds a page in use drains the batches once, and looks again.
 */
#include "race.h"

#define NR 5

static struct race r;

static void read_all(umm_obj_t *obj, uint64_t id, uint64_t nr)
{
	for (uint64_t i = 0; i < nr; i++)
		must(read_page_checked(obj, id, i) == 0);
}

int main(void)
{
	struct mem_store store = { .id = 6, .pages = 64 };
	umm_memcg_t *small;
	umm_obj_t *obj;
	uint64_t got;

	race_setup(&r, 256);
	read_all(r.obj, RACE_STORE_ID, NR);
	must(folio_ref_count(race_folio(r.obj, 0)) == 2);
	must(umm_advise(r.obj, 0, NR * UMM_PAGE_SIZE, UMM_ADVISE_DONTNEED) == 0);
	for (uint64_t i = 0; i < NR; i++)
		must(!race_cached(r.obj, i));

	/* All that the memcg may have waits in batches. */
	small = memcg_with_max(&r.f, NULL, "small", NR);
	obj = mem_store_open(small, &store);
	read_all(obj, store.id, 3 * NR);
	must(memcg_event(small, "pinned") == 0 && memcg_event(small, "bypass") == 0);
	must(memcg_event(small, "max") > 0);

	/* Likewise for a lower limit, and for proactive reclaim. */
	must(umm_memcg_set(small, UMM_MEMORY_MAX, 2 * UMM_PAGE_SIZE) == 0);
	must(memcg_pages(small, UMM_MEMORY_CURRENT) <= 2);
	must(umm_memcg_set(small, UMM_MEMORY_MAX, NR * UMM_PAGE_SIZE) == 0);
	read_all(obj, store.id, NR);
	must(umm_memcg_reclaim(small, NR * UMM_PAGE_SIZE, &got) == 0 && got == NR * UMM_PAGE_SIZE);
	must(umm_close(obj) == 0);
	must(umm_memcg_destroy(small) == 0);
	race_finish(&r);
	return 0;
}
