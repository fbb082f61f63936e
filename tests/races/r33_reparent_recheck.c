/* SPDX-License-Identifier: MIT */
/*
 * R33: the lock of a dying memcg is taken after its folios have moved to the parent.
 *
 *   isolator, batch, release ...           memcg is destroyed
 *                                          locks the child's lruvec, wants the parent's
 *   looks up the child's lruvec, waits
 *                                          locks the parent's; points the slots at it, splices the
 *                                          lists; unlocks both
 *   gets the child's lock, which guards
 *   nothing any more
 *
 * Rule: look again under the lock whether the folio still names this lruvec; else try the new one.
 * Counted in lruvec_lock_retry.
 */
#include "race.h"

#define NR 4

static struct race r;
static umm_memcg_t *child;
static struct folio *folio[NR];
static uint64_t retries;

static void destroyer(void *arg)
{
	must(umm_memcg_destroy(arg) == 0);
}

static void isolator(void *arg)
{
	must(folio_isolate_lru(arg));
	folio_putback_lru(arg);
}

static void drainer(void *arg)
{
	(void)arg;
	lru_add_drain_all(r.mm);
}

static void releaser(void *arg)
{
	umm_obj_t *obj = arg;

	must(umm_advise(obj, 0, UMM_PAGE_SIZE, UMM_ADVISE_DONTNEED) == 0);
}

/* Let fn(arg) stand before the child's lock while all that it guards moves to the parent. */
static void while_reparenting(void (*fn)(void *), void *arg)
{
	struct lruvec *a = race_lruvec(r.a);
	struct race_thread destroy, t;

	lruvec_lock(a);
	race_start(&destroy, r.mm, destroyer, child);
	race_wait_for_lock(a->lru_lock);
	race_start(&t, r.mm, fn, arg);
	race_wait_for_lock(race_lruvec(child)->lru_lock);
	lruvec_unlock(a);
	race_join(&t);
	race_join(&destroy);
	must(vmstat(r.f.mm, "lruvec_lock_retry") == ++retries);
	must(memcg_pages(r.a, UMM_MEMORY_CURRENT) ==
	     lruvec_size(a, LRU_INACTIVE_FILE) + lruvec_size(a, LRU_ACTIVE_FILE));
	must(umm_check(r.f.mm) == 0);
}

/* A child of a with all of the pages, and a handle of a's to get at them. */
static void setup_child(void)
{
	umm_obj_t *obj;

	must(umm_advise(r.obj, 0, NR * UMM_PAGE_SIZE, UMM_ADVISE_DONTNEED) == 0);
	child = memcg_with_max(&r.f, r.a, "child", 0);
	must(umm_obj_reopen(r.obj, child, &obj) == 0);
	for (unsigned i = 0; i < NR; i++)
		folio[i] = race_read(obj, RACE_STORE_ID, i);
	must(umm_close(obj) == 0);
	must(memcg_pages(child, UMM_MEMORY_CURRENT) == NR);
}

int main(void)
{
	race_setup(&r, 256);

	setup_child();
	folio_get(folio[1]);
	while_reparenting(isolator, folio[1]);
	must(race_on_list(race_lruvec(r.a), LRU_INACTIVE_FILE, folio[1]));
	folio_put(folio[1]);

	setup_child();
	folio_mark_accessed(r.mm, folio[2]);
	while_reparenting(drainer, NULL);
	must(race_on_list(race_lruvec(r.a), LRU_ACTIVE_FILE, folio[2]));

	setup_child();
	while_reparenting(releaser, r.obj);
	must(!race_cached(r.obj, 0) && memcg_pages(r.a, UMM_MEMORY_CURRENT) == NR - 1);
	race_finish(&r);
	return 0;
}
