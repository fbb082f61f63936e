/* SPDX-License-Identifier: MIT */
/*
 * F-01 and F-02: cached memory can be given back without dropping all of it, and the figures tell
 * what can be had from what is needed. 1,000 pages, 200 of them used again and again, 50 pinned, 30
 * allocated.
 */
#include "harness.h"

#define PAGES 1000
#define HOT 200
#define PINNED 50
#define KERNEL 30

struct idle {
	struct fixture f;
	umm_memcg_t *cg;
	umm_obj_t *obj, *hot, *pinned;
	struct mem_store store[3];
	umm_folio_t *pin[PINNED], *kernel[KERNEL];
};

static void read_all(umm_obj_t *obj, uint64_t id, uint64_t pages)
{
	for (uint64_t i = 0; i < pages; i++)
		assert_int_equal(read_page_checked(obj, id, i), 0);
}

static void idle_open(struct idle *d)
{
	d->f = fixture_create(4096);
	d->cg = memcg_with_max(&d->f, NULL, "idle", 0);
	d->store[0] = (struct mem_store){ .id = 0, .pages = PAGES - HOT - PINNED };
	d->store[1] = (struct mem_store){ .id = 1, .pages = HOT };
	d->store[2] = (struct mem_store){ .id = 2, .pages = PINNED };
	d->obj = mem_store_open(d->cg, &d->store[0]);
	d->hot = mem_store_open(d->cg, &d->store[1]);
	d->pinned = mem_store_open(d->cg, &d->store[2]);
	read_all(d->hot, 1, HOT);
	/* What waits in another CPU's batch is not activated by its second use. */
	assert_int_equal(umm_drain(d->f.mm), 0);
	read_all(d->hot, 1, HOT);
	read_all(d->obj, 0, PAGES - HOT - PINNED);
	for (unsigned i = 0; i < PINNED; i++)
		assert_int_equal(pin_checked(d->pinned, 2, i, &d->pin[i]), 0);
	for (unsigned i = 0; i < KERNEL; i++)
		assert_int_equal(umm_alloc(d->cg, 0, 0, &d->kernel[i]), 0);
	assert_int_equal(umm_drain(d->f.mm), 0);
}

static void idle_close(struct idle *d)
{
	assert_int_equal(umm_close(d->obj), 0);
	assert_int_equal(umm_close(d->hot), 0);
	assert_int_equal(umm_close(d->pinned), 0);
	assert_int_equal(umm_memcg_destroy(d->cg), 0);
	assert_int_equal(log_warnings, 0);
	fixture_destroy(&d->f);
}

static uint64_t pages_of(struct idle *d, const char *name)
{
	return memcg_stat(d->cg, name) / UMM_PAGE_SIZE;
}

static void assert_figures(struct idle *d, uint64_t file)
{
	assert_int_equal(pages_of(d, "file"), file);
	assert_int_equal(pages_of(d, "kernel"), KERNEL);
	assert_int_equal(memcg_pages(d->cg, UMM_MEMORY_CURRENT), file + KERNEL);
	assert_int_equal(pages_of(d, "inactive_file") + pages_of(d, "active_file") +
				 pages_of(d, "unevictable"),
			 file);
}

static void test_give_back_in_steps(void **state)
{
	struct idle d = { .cg = NULL };
	uint64_t total = 0, got, reclaimable;

	(void)state;
	idle_open(&d);
	assert_figures(&d, PAGES);
	assert_int_equal(pages_of(&d, "active_file"), HOT);

	/* All that was used once can be asked for, in steps, and what is hot stays. */
	for (unsigned n = 0; n < 7; n++) {
		assert_int_equal(umm_memcg_reclaim(d.cg, 100 * UMM_PAGE_SIZE, &got), 0);
		assert_int_equal(got, 100 * UMM_PAGE_SIZE);
		total += got / UMM_PAGE_SIZE;
		assert_figures(&d, PAGES - total);
	}
	assert_int_equal(pages_cached(d.hot), HOT);
	assert_int_equal(pages_cached(d.pinned), PINNED);

	/* What the lists say is what one call can have, once reclaim has found the pinned ones. */
	assert_int_equal(umm_drain(d.f.mm), 0);
	reclaimable = pages_of(&d, "inactive_file") + pages_of(&d, "active_file");
	if (pages_of(&d, "unevictable") < PINNED)
		reclaimable -= PINNED - pages_of(&d, "unevictable");
	assert_int_equal(umm_memcg_reclaim(d.cg, PAGES * UMM_PAGE_SIZE, &got), -EAGAIN);
	assert_int_equal(got / UMM_PAGE_SIZE, reclaimable);
	assert_int_equal(pages_of(&d, "unevictable"), PINNED);
	assert_figures(&d, PINNED);
	assert_int_equal(vmstat(d.f.mm, "nr_free_pages"), 4096 - PINNED - KERNEL);

	for (unsigned i = 0; i < PINNED; i++)
		umm_unpin(d.pin[i]);
	assert_int_equal(pages_of(&d, "unevictable"), 0);
	for (unsigned i = 0; i < KERNEL; i++)
		umm_free(d.kernel[i]);
	assert_int_equal(memcg_pages(d.cg, UMM_MEMORY_CURRENT), PINNED);
	idle_close(&d);
}

/* -EAGAIN says that there was no more to be had: so there may be nothing left that a second call
 * gets, however the pages are spread over the two lists. */
static void take_all(struct fixture *f, uint64_t once, uint64_t twice)
{
	struct mem_store store = { .id = 3, .pages = once + twice };
	umm_memcg_t *cg = memcg_with_max(f, NULL, "spread", 0);
	umm_obj_t *obj = mem_store_open(cg, &store);
	umm_folio_t *kernel[4];
	uint64_t got;

	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(umm_alloc(cg, 0, 0, &kernel[i]), 0);
	read_all(obj, 3, twice);
	assert_int_equal(umm_drain(f->mm), 0);
	read_all(obj, 3, once + twice);
	assert_int_equal(umm_drain(f->mm), 0);
	assert_int_equal(memcg_stat(cg, "active_file"), twice * UMM_PAGE_SIZE);
	assert_int_equal(memcg_stat(cg, "inactive_file"), once * UMM_PAGE_SIZE);
	assert_int_equal(umm_memcg_reclaim(cg, PAGES * UMM_PAGE_SIZE, &got), -EAGAIN);
	if (got != (once + twice) * UMM_PAGE_SIZE)
		print_message("  %llu once, %llu twice: only %llu\n", (unsigned long long)once,
			      (unsigned long long)twice, (unsigned long long)got / UMM_PAGE_SIZE);
	assert_int_equal(got, (once + twice) * UMM_PAGE_SIZE);
	for (unsigned i = 0; i < 4; i++)
		umm_free(kernel[i]);
	assert_int_equal(umm_close(obj), 0);
	assert_int_equal(umm_memcg_destroy(cg), 0);
}

static void test_one_call_takes_all(void **state)
{
	const uint64_t len[] = { 0, 2, 31, 32, 33, 40, 60, 100, 300 };
	const unsigned nr = sizeof(len) / sizeof(len[0]);
	struct umm_options o = fixture_options(4096);
	struct fixture f;

	(void)state;
	o.readahead_pages = 0; /* nothing is on the lists but what was read */
	f = fixture_create_with(&o);
	for (unsigned i = 0; i < nr; i++)
		for (unsigned j = 0; j < nr; j++)
			if (len[i] + len[j])
				take_all(&f, len[i], len[j]);
	assert_int_equal(log_warnings, 0);
	fixture_destroy(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_give_back_in_steps),
		cmocka_unit_test(test_one_call_takes_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
