/* SPDX-License-Identifier: MIT */
/*
 * kswapd gives up a node on which everything is pinned, and has to come back: once a caller has
 * reclaimed something for itself, background reclaim works again.
 */
#include "stress.h"

#include "core/core.h"

#define BUDGET_PAGES 256
#define OBJ_PAGES 1000

static struct fixture f;
static struct mem_store store = { .id = 8, .pages = OBJ_PAGES };
static umm_obj_t *obj;

static uint32_t kswapd_failures(void)
{
	return atomic_load(&f.mm->mm.node[0].kswapd.failures);
}

/* Pin all there is, and wake kswapd for it until it gives up. */
static unsigned pin_everything(umm_folio_t **pinned, uint64_t end)
{
	unsigned nr = 0;

	for (uint64_t i = 0; i < BUDGET_PAGES; i++) {
		int err = pin_checked(obj, store.id, i, &pinned[nr]);

		must(err == 0 || err == -EBUSY);
		nr += err == 0;
	}
	while (kswapd_failures() < 16) {
		wakeup_kswapd(&f.mm->mm.node[0]);
		must(now_ns() < end);
		sleep_ns(200000);
	}
	return nr;
}

static void round_of_despair(void)
{
	static umm_folio_t *pinned[BUDGET_PAGES];
	uint64_t end = now_ns() + 20000000000u, before;
	unsigned nr = pin_everything(pinned, end);

	must(nr > BUDGET_PAGES / 2);
	must(umm_check(f.mm) == 0);
	/* Nothing can be had; reading goes on, past the cache. */
	must(read_page_checked(obj, store.id, OBJ_PAGES / 2) == 0);
	for (unsigned i = 0; i < nr; i++)
		umm_unpin(pinned[i]);
	before = vmstat(f.mm, "pgsteal_kswapd");
	for (uint64_t i = 0; vmstat(f.mm, "pgsteal_kswapd") == before; i++) {
		must(read_page_checked(obj, store.id, i % OBJ_PAGES) == 0);
		must(now_ns() < end);
	}
	must(kswapd_failures() < 16);
}

int main(void)
{
	f = fixture_create(BUDGET_PAGES);
	obj = mem_store_open(f.root, &store);
	for (unsigned round = 0; round < 3; round++)
		round_of_despair();
	must(umm_close(obj) == 0);
	must(log_warnings == 0);
	fixture_destroy(&f);
	return 0;
}
