/* SPDX-License-Identifier: MIT */
/* Memcgs with faults: create, destroy, limits, proactive reclaim, drain. */
#include "fault.h"

static const int create_errors[] = { -ENOMEM, 0 };

static umm_memcg_t *child;
static umm_obj_t *childs;
static umm_folio_t *pinned;
static uint64_t usage; /* the child's, with what was read ahead */

/* ---- create ---- */

static long create_call(void)
{
	int err;

	child = UNTOUCHED;
	err = umm_memcg_create(fx.f.mm, fx.cg, "child", &child);
	if (err)
		must(child == UNTOUCHED);
	return err;
}

static void create_succeeded(long ret, bool faulted)
{
	(void)ret, (void)faulted;
	must(!strcmp(umm_memcg_name(child), "child"));
	must(umm_memcg_destroy(child) == 0);
}

/* ---- a child with pages, one of them pinned ---- */

static void child_prepare(void)
{
	child = memcg_with_max(&fx.f, fx.cg, "child", 0);
	must(umm_obj_reopen(fx.stored, child, &childs) == 0);
	for (uint64_t i = 0; i < 20; i++)
		must(read_page_checked(childs, fx.store.id, i) == 0);
	must(pin_checked(childs, fx.store.id, 7, &pinned) == 0);
	must(umm_drain(fx.f.mm) == 0);
	usage = memcg_pages(child, UMM_MEMORY_CURRENT);
	must(usage >= 20);
}

static void child_gone(void)
{
	must(umm_close(childs) == 0);
	must(page_is(umm_folio_data(pinned), fx.store.id, 7));
	umm_unpin(pinned);
	must(umm_advise(fx.stored, 0, STORE_PAGES * UMM_PAGE_SIZE, UMM_ADVISE_DONTNEED) == 0);
	must(memcg_pages(fx.cg, UMM_MEMORY_CURRENT) == 0);
}

static long destroy_call(void)
{
	return umm_memcg_destroy(child);
}

static void destroy_succeeded(long ret, bool faulted)
{
	(void)ret, (void)faulted;
	must(umm_drain(fx.f.mm) == 0);
	must(memcg_pages(fx.cg, UMM_MEMORY_CURRENT) == usage);
	child_gone();
}

/* ---- limits ---- */

static uint64_t new_max;

static long set_call(void)
{
	return umm_memcg_set(child, UMM_MEMORY_MAX, new_max * UMM_PAGE_SIZE);
}

static void set_succeeded(long ret, bool faulted)
{
	(void)ret, (void)faulted;
	must(memcg_pages(child, UMM_MEMORY_MAX) == new_max);
	must(memcg_pages(child, UMM_MEMORY_CURRENT) <= new_max);
	must(umm_memcg_destroy(child) == 0);
	child_gone();
}

/* ---- reclaim, drain ---- */

static long reclaim_call(void)
{
	uint64_t got = 0;
	int err = umm_memcg_reclaim(child, 10 * UMM_PAGE_SIZE, &got);

	return err ? err : (long)(got / UMM_PAGE_SIZE);
}

static void reclaim_succeeded(long ret, bool faulted)
{
	(void)faulted;
	must(ret >= 10);
	must(memcg_pages(child, UMM_MEMORY_CURRENT) == usage - (uint64_t)ret);
	must(umm_memcg_destroy(child) == 0);
	child_gone();
}

static long drain_call(void)
{
	return umm_drain(fx.f.mm);
}

static void drain_succeeded(long ret, bool faulted)
{
	(void)ret, (void)faulted;
	must(memcg_pages(child, UMM_MEMORY_CURRENT) == usage);
	must(umm_memcg_destroy(child) == 0);
	child_gone();
}

int main(void)
{
	static const struct fault_call calls[] = {
		{ .name = "umm_memcg_create",
		  .call = create_call,
		  .succeeded = create_succeeded,
		  .errors = create_errors },
		{ .name = "umm_memcg_destroy",
		  .prepare = child_prepare,
		  .call = destroy_call,
		  .succeeded = destroy_succeeded },
		{ .name = "umm_memcg_set",
		  .prepare = child_prepare,
		  .call = set_call,
		  .succeeded = set_succeeded },
		{ .name = "umm_memcg_reclaim",
		  .prepare = child_prepare,
		  .call = reclaim_call,
		  .succeeded = reclaim_succeeded },
		{ .name = "umm_drain",
		  .prepare = child_prepare,
		  .call = drain_call,
		  .succeeded = drain_succeeded },
	};

	fx_create(512, 100, 0);
	must(umm_advise(fx.file, 0, STORE_PAGES * UMM_PAGE_SIZE, UMM_ADVISE_DONTNEED) == 0);
	for (new_max = 5; new_max <= 50; new_max += 45)
		for (unsigned i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
			fault_run(fx.f.mm, &calls[i]);
	fx_destroy();
	return 0;
}
