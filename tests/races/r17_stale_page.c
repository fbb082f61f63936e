/* SPDX-License-Identifier: MIT */
/*
 * R17: a page found without a lock is freed and becomes another page before the finder has a
 * reference.
 *
 *   reader of object 1                     dropper, then reader of object 2
 *   looks up page 3: finds a folio
 *                                          drops page 3 of object 1; reads page 7 of object 2, into
 *                                          the same frame
 *   takes a reference: succeeds
 *
 * Rule: with the reference held, look again whether the folio is still this page of this mapping.
 */
#include "race.h"

#define NR_INDEXES 2

static struct race r;
static struct mem_store store2 = { .id = 31, .pages = NR_INDEXES };
static umm_obj_t *obj2;
static _Atomic bool stop;
static _Atomic uint64_t reads, drops;

/* One word says which page it is: to look at more would make the window a smaller part of the
 * loop. */
static void reader(void *arg)
{
	umm_obj_t *obj = arg;
	uint64_t word[NR_INDEXES];
	struct folio *folio;

	for (uint64_t i = 0; i < NR_INDEXES; i++)
		word[i] = page_word(obj == obj2 ? store2.id : RACE_STORE_ID, i, 0);
	for (uint64_t i = 0; !stop; i = (i + 1) % NR_INDEXES) {
		folio = mapping_get_folio(obj->mapping, i, NULL);
		if (!folio)
			continue;
		must(*(uint64_t *)folio_address(folio) == word[i]);
		folio_put(folio);
		reads++;
	}
}

/* A frame that was freed is the next to be allocated. */
static void dropper(void *arg)
{
	uint64_t all = NR_INDEXES * UMM_PAGE_SIZE;

	(void)arg;
	for (; !stop; drops++) {
		must(umm_advise(obj2, 0, all, UMM_ADVISE_DONTNEED) == 0);
		for (uint64_t i = 0; i < NR_INDEXES; i++)
			must(read_page_checked(r.obj, RACE_STORE_ID, i) == 0);
		must(umm_advise(r.obj, 0, all, UMM_ADVISE_DONTNEED) == 0);
		for (uint64_t i = 0; i < NR_INDEXES; i++)
			must(read_page_checked(obj2, store2.id, i) == 0);
	}
}

int main(void)
{
	static void (*const fn[])(void *) = { reader, reader, dropper };
	void *arg[3] = { NULL };

	race_setup(&r, 256);
	obj2 = mem_store_open(r.b, &store2);
	arg[0] = r.obj;
	arg[1] = obj2;
	race_stress(r.mm, 2.5, &stop, 3, fn, arg);
	must(reads > 0 && drops > 0);
	must(umm_close(obj2) == 0);
	race_finish(&r);
	return 0;
}
