/* SPDX-License-Identifier: MIT */
/* umm_alloc of each order with faults, with free memory, with memory that has to be reclaimed,
 * and nowait. */
#include "fault.h"

static const int errors[] = { -ENOMEM, -EBUSY, 0 };
static const int nowait_errors[] = { -EAGAIN, 0 };

static unsigned order;
static umm_folio_t *folio;

/* The cache has all there is. */
static void fill_cache(void)
{
	for (uint64_t i = 0; i < STORE_PAGES; i++) {
		must(read_page_checked(fx.stored, fx.store.id, i) == 0);
		must(read_page_checked(fx.file, 2, i) == 0);
	}
}

static long call_with(uint32_t flags)
{
	int err;

	folio = UNTOUCHED;
	err = umm_alloc(fx.cg, order, flags, &folio);
	if (err)
		must(folio == UNTOUCHED);
	return err;
}

static long alloc_call(void)
{
	return call_with(0);
}

static long nowait_call(void)
{
	return call_with(UMM_NOWAIT);
}

static void alloc_succeeded(long ret, bool faulted)
{
	char *data = umm_folio_data(folio);
	size_t bytes = umm_folio_bytes(folio);

	(void)ret, (void)faulted;
	must(bytes == UMM_PAGE_SIZE << order);
	must(data[0] == 0 && memcmp(data, data + 1, bytes - 1) == 0);
	memset(data, 0xff, bytes);
	umm_free(folio);
}

int main(void)
{
	char name[64];
	struct fault_call free_memory = {
		.name = name, .call = alloc_call, .succeeded = alloc_succeeded, .errors = errors
	};
	struct fault_call nowait = { .name = name,
				     .call = nowait_call,
				     .succeeded = alloc_succeeded,
				     .errors = nowait_errors };
	struct fault_call full = { .name = name,
				   .prepare = fill_cache,
				   .call = alloc_call,
				   .succeeded = alloc_succeeded,
				   .errors = errors };

	fx_create(2100, 0, 0);
	for (order = 0; order <= UMM_MAX_ORDER; order++) {
		snprintf(name, sizeof(name), "umm_alloc order %u", order);
		fault_run(fx.f.mm, &free_memory);
		snprintf(name, sizeof(name), "umm_alloc order %u nowait", order);
		fault_run(fx.f.mm, &nowait);
	}
	fx_destroy();

	/* A budget that the cache fills; of larger pieces there may be none whole. */
	fx_create(200, 0, 0);
	for (order = 0; order <= 2; order++) {
		snprintf(name, sizeof(name), "umm_alloc order %u, full", order);
		fault_run(fx.f.mm, &full);
	}
	fx_destroy();
	fx_create(512, 64, 0);
	for (order = 0; order <= 4; order++) {
		snprintf(name, sizeof(name), "umm_alloc order %u, at limit", order);
		fault_run(fx.f.mm, &full);
	}
	fx_destroy();
	return 0;
}
