/* SPDX-License-Identifier: MIT */
/*
 * R40: a batch's reference turns out to be the last, under the locks of the drain.
 *
 *   drain                                  closer
 *                                          closes the object: of its pages that wait in a batch
 *                                          the batch has the last reference now
 *   adds them to their list, under the
 *   batch's lock, and drops its references:
 *   each release wants the lru_lock, frees,
 *   wakes ...
 *
 * Rule (LRU-5): the references of a batch are dropped after its locks.
 */
#include "race.h"

#define NR 9

static struct race r;

static void closer(void *arg)
{
	must(umm_close(arg) == 0);
}

/* Pages in batches, with nobody else's reference. */
static void orphans(struct mem_store *store, enum lru_op op)
{
	umm_obj_t *obj = mem_store_open(r.a, store);
	struct race_thread t;

	for (uint64_t i = 0; i < NR; i++)
		must(read_page_checked(obj, store->id, i) == 0);
	if (op == LRU_OP_ACTIVATE) {
		lru_add_drain_all(r.mm);
		for (uint64_t i = 0; i < NR; i++)
			folio_mark_accessed(r.mm, race_folio(obj, i));
	}
	for (uint64_t i = 0; i < NR; i++)
		must(folio_ref_count(race_folio(obj, i)) == 2);
	race_start(&t, r.mm, closer, obj);
	race_join(&t);
	must(store->closed == 1);
	must(memcg_pages(r.a, UMM_MEMORY_CURRENT) == NR);
}

int main(void)
{
	static struct mem_store store[2] = { { .id = 1, .pages = NR }, { .id = 2, .pages = NR } };

	race_setup(&r, 256);
	orphans(&store[0], LRU_OP_ADD);
	lru_add_drain_all(r.mm);
	must(memcg_pages(r.a, UMM_MEMORY_CURRENT) == 0);

	orphans(&store[1], LRU_OP_ACTIVATE);
	lru_add_drain_all(r.mm);
	must(memcg_pages(r.a, UMM_MEMORY_CURRENT) == 0);
	race_finish(&r);
	return 0;
}
