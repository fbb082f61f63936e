/* SPDX-License-Identifier: MIT */
/*
 * R36: reparenting locks the lruvecs of all nodes together.
 *
 *   memcg is destroyed, 8 nodes            holder of the parent's lock on node 1
 *   moves node 0's lists, and unlocks
 *   locks the child's node 1, waits        all of node 0 is done and free, node 2 is not touched:
 *   for the parent's                       two locks at a time, however many nodes there are
 *
 * Rule: one node at a time. The lock checker of debug builds knows no more than two locks of this
 * class.
 */
#include "race.h"

#define NR_NODES 8

static struct race r;
static umm_memcg_t *child;

static void destroyer(void *arg)
{
	must(umm_memcg_destroy(arg) == 0);
}

static bool is_free(struct lock *l)
{
	if (!lock_try(&r.mm->threads, l, LOCK_NO_TAG))
		return false;
	lock_release(&r.mm->threads, l);
	return true;
}

static uint64_t pages_on(umm_memcg_t *cg, unsigned node)
{
	return lruvec_size(&cg->lruvec[node], LRU_INACTIVE_FILE);
}

static void setup(void)
{
	struct umm_options o = fixture_options(NR_NODES * 64);

	o.flags = UMM_NO_KSWAPD;
	o.nr_nodes = NR_NODES;
	o.readahead_pages = 0;
	r.f = fixture_create_with(&o);
	r.mm = race_begin(&r.f);
	r.a = memcg_with_max(&r.f, NULL, "a", 0);
	r.store.id = RACE_STORE_ID;
	r.store.pages = RACE_STORE_PAGES;
	r.obj = mem_store_open(r.a, &r.store);
	child = memcg_with_max(&r.f, r.a, "child", 0);
}

int main(void)
{
	uint64_t before[NR_NODES];
	struct race_thread t;
	umm_obj_t *obj;

	setup();
	must(umm_obj_reopen(r.obj, child, &obj) == 0);
	/* So many that every node has to give some. */
	for (uint64_t i = 0; i < NR_NODES * 64 - 40; i++)
		must(read_page_checked(obj, RACE_STORE_ID, i) == 0);
	lru_add_drain_all(r.mm);
	must(umm_close(obj) == 0);
	for (unsigned node = 0; node < NR_NODES; node++) {
		before[node] = pages_on(child, node);
		must(before[node] > 0);
	}

	lruvec_lock(&r.a->lruvec[1]);
	race_start(&t, r.mm, destroyer, child);
	race_wait_for_lock(r.a->lruvec[1].lru_lock);
	must(is_free(child->lruvec[0].lru_lock) && is_free(r.a->lruvec[0].lru_lock));
	must(pages_on(child, 0) == 0 && pages_on(r.a, 0) == before[0]);
	must(!is_free(child->lruvec[1].lru_lock));
	for (unsigned node = 2; node < NR_NODES; node++) {
		must(is_free(child->lruvec[node].lru_lock) && is_free(r.a->lruvec[node].lru_lock));
		must(pages_on(child, node) == before[node] && pages_on(r.a, node) == 0);
	}
	lruvec_unlock(&r.a->lruvec[1]);
	race_join(&t);
	for (unsigned node = 0; node < NR_NODES; node++)
		must(pages_on(r.a, node) == before[node]);
	race_finish(&r);
	return 0;
}
