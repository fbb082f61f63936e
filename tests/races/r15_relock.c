/* SPDX-License-Identifier: MIT */
/*
 * R15: a run of folios is put back, or released, under the lock of one of them.
 *
 *   putback                                (nobody else is needed)
 *   folio of a: locks a's lruvec, links
 *   folio of b: still holds a's lock, and
 *   links it on a list of a, or of b
 *
 * Rule (LRU-3): each folio's own lruvec; the lock is kept only if the next folio's is the same. So
 * in every place that works through many: putback, drain, direct add, bulk put.
 */
#include "race.h"

#define NR 6

static struct race r;
static umm_obj_t *of_b;

/* Pages 0, 2, 4 are a's, 1, 3, 5 are b's. */
static struct folio *read_page(unsigned i)
{
	return race_read(i % 2 ? of_b : r.obj, RACE_STORE_ID, i);
}

static void lists_are(struct folio **folio, enum lru_list lru)
{
	for (unsigned i = 0; i < NR; i++)
		must(race_on_list(race_lruvec(i % 2 ? r.b : r.a), lru, folio[i]));
	must(lruvec_size(race_lruvec(r.a), lru) == NR / 2);
	must(lruvec_size(race_lruvec(r.b), lru) == NR / 2);
	must(umm_check(r.f.mm) == 0);
}

static void putback(struct folio **folio, bool pinned)
{
	struct list_head mixed;

	list_init(&mixed);
	for (unsigned i = 0; i < NR; i++) {
		folio_get(folio[i]);
		must(folio_isolate_lru(folio[i]));
		if (pinned)
			folio_cull_pinned(folio[i]);
		list_add_tail(&folio[i]->lru, &mixed);
	}
	folios_putback_lru(r.mm, &mixed);
	lists_are(folio, pinned ? LRU_UNEVICTABLE : LRU_INACTIVE_FILE);
	folios_put(r.mm, folio, NR);
	lists_are(folio, LRU_INACTIVE_FILE);
}

int main(void)
{
	struct folio *folio[NR];

	race_setup(&r, 256);
	must(umm_obj_reopen(r.obj, r.b, &of_b) == 0);
	for (unsigned i = 0; i < NR; i++)
		folio[i] = read_page(i);
	lists_are(folio, LRU_INACTIVE_FILE);
	putback(folio, false);
	putback(folio, true);

	/* One drain for both. */
	for (unsigned i = 0; i < NR; i++)
		folio_mark_accessed(r.mm, folio[i]);
	lru_add_drain_all(r.mm);
	lists_are(folio, LRU_ACTIVE_FILE);

	/* Added without a batch. */
	for (unsigned i = 0; i < NR; i++) {
		must(folio_isolate_lru(folio[i]));
		folio_clear(folio[i], PG_active);
	}
	folios_add_lru(folio, NR);
	folios_put(r.mm, folio, NR);
	lists_are(folio, LRU_INACTIVE_FILE);

	/* Released together: the cache's reference is the last. */
	for (unsigned i = 0; i < NR; i++)
		folio_get(folio[i]);
	must(umm_close(of_b) == 0);
	must(umm_close(r.obj) == 0);
	lists_are(folio, LRU_INACTIVE_FILE);
	folios_put(r.mm, folio, NR);
	must(memcg_pages(r.f.root, UMM_MEMORY_CURRENT) == 0);
	r.obj = NULL;
	race_finish(&r);
	return 0;
}
