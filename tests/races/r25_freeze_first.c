/* SPDX-License-Identifier: MIT */
/*
 * R25: a page is found unused and taken out, and somebody begins to use it in between.
 *
 *   dropper, holding i_pages               reader, without a lock
 *   counts references: the cache's and
 *   its own, nobody else's
 *                                          finds the page, takes a reference
 *   takes it out of the index, frees it
 *                                          reads a free page
 *
 * Rule: the references are frozen in one step with the look at them; nobody gets one after that.
 * What can be lost in Linux is a write; pages here are read only, so it would be the reader's page.
 */
#include "race.h"

#define NR 2

static struct race r;
static _Atomic bool stop;
static _Atomic uint64_t pins, drops;

static void reader(void *arg)
{
	umm_folio_t *folio;

	(void)arg;
	for (uint64_t i = 0; !stop; i = (i + 1) % NR) {
		if (umm_pin(r.obj, i, UMM_NOWAIT, &folio) != 0)
			continue;
		must(page_is(umm_folio_data(folio), RACE_STORE_ID, i));
		umm_unpin(folio);
		pins++;
	}
}

static void dropper(void *arg)
{
	(void)arg;
	for (; !stop; drops++) {
		must(umm_advise(r.obj, 0, NR * UMM_PAGE_SIZE, UMM_ADVISE_DONTNEED) == 0);
		for (uint64_t i = 0; i < NR; i++)
			must(read_page_checked(r.obj, RACE_STORE_ID, i) == 0);
		lru_add_drain(r.mm);
	}
}

int main(void)
{
	static void (*const fn[])(void *) = { reader, reader, dropper };
	static void *const arg[3];
	struct folio *folio;

	race_setup(&r, 256);
	/* One reference too many, whoever's it is, and it stays. */
	folio = race_read(r.obj, RACE_STORE_ID, 1);
	folio_get(folio);
	folio_get(folio);
	must(mapping_remove_unused(r.mm, &folio, 1) == 0);
	folio_put(folio);
	must(mapping_remove_unused(r.mm, &folio, 1) == 1 && folio_ref_count(folio) == 0);
	must(!race_cached(r.obj, 1) && !folio_try_get(folio));
	folio_release(folio);

	race_stress(r.mm, 2.5, &stop, 3, fn, arg);
	must(pins > 0 && drops > 0);
	race_finish(&r);
	return 0;
}
