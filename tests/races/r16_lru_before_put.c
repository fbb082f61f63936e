/* SPDX-License-Identifier: MIT */
/*
 * R16: an isolated folio's reference is dropped before PG_lru is set.
 *
 *   putback                                dropper (UMM_ADVISE_DONTNEED)
 *   drops the isolation reference: not
 *   the last. Waits for lru_lock
 *                                          freezes the cache's reference, sees no PG_lru, frees the
 *                                          page without taking lru_lock
 *   links a free page, sets PG_lru
 *
 * Rule (LRU-4): PG_lru is set before the isolation reference goes. The dropper finds the page in
 * use.
 */
#include "race.h"

#define INDEX 3

static struct race r;
static struct list_head taken;

static void dropper(void *arg)
{
	(void)arg;
	must(umm_advise(r.obj, INDEX * UMM_PAGE_SIZE, UMM_PAGE_SIZE, UMM_ADVISE_DONTNEED) == 0);
}

static void putback_many(void *arg)
{
	(void)arg;
	folios_putback_lru(r.mm, &taken);
}

static void putback_one(void *arg)
{
	folio_putback_lru(arg);
}

static void one_way(void (*putback)(void *))
{
	struct lruvec *a = race_lruvec(r.a);
	struct folio *folio = race_read(r.obj, RACE_STORE_ID, INDEX);
	struct race_thread put, drop;
	uint64_t scanned;

	list_init(&taken);
	lruvec_lock(a);
	must(lruvec_isolate_folios(a, LRU_INACTIVE_FILE, 1, &taken, &scanned) == 1);
	must(folio_ref_count(folio) == 2);
	race_start(&put, r.mm, putback, folio);
	race_wait_for_lock(a->lru_lock);
	race_start(&drop, r.mm, dropper, NULL);
	must(race_done_within(&drop, RACE_TIMEOUT_NS));
	lruvec_unlock(a);
	race_join(&put);
	race_join(&drop);

	must(race_cached(r.obj, INDEX) && folio_test(folio, PG_lru));
	must(folio_ref_count(folio) == 1 && race_on_list(a, LRU_INACTIVE_FILE, folio));
	must(umm_check(r.f.mm) == 0);
	dropper(NULL);
	must(!race_cached(r.obj, INDEX) && folio_ref_count(folio) == 0);
	must(umm_check(r.f.mm) == 0);
}

int main(void)
{
	race_setup(&r, 256);
	one_way(putback_many);
	one_way(putback_one);
	race_finish(&r);
	return 0;
}
