/* SPDX-License-Identifier: MIT */
/*
 * Each call of the API, again and again, with the first, second, third ... fault point of it
 * failing, until it comes through with no fault left to deliver: for each kind of fault by itself
 * and for all together.
 *
 * A failed call has to give a documented error, leave its outputs alone, leave the state whole, and
 * take nothing: what was in use before is all that is in use after. A call may also succeed in
 * spite of the fault, having found another way.
 */
#ifndef UMM_TESTS_FAULT_H
#define UMM_TESTS_FAULT_H

#include "harness.h"

#include <dirent.h>

#include "base/fault.h"

#if !UMM_FAULT_POINTS
#error "configure with -Dfault_points=true"
#endif

#define MAX_FAULTS 2000

/* An output that was not written. */
#define UNTOUCHED ((void *)(uintptr_t)0xdead1000)

struct fault_call {
	const char *name;
	/* Before each call, unarmed. May be NULL. */
	void (*prepare)(void);
	/* The call: its result, or -errno. Must check that outputs are UNTOUCHED if it fails. */
	long (*call)(void);
	/* After a success, unarmed: check what it did, and take it back. `faulted`: in spite of
	 * a fault. */
	void (*succeeded)(long ret, bool faulted);
	/* After a failure, unarmed: drop what it may have cached, check more. May be NULL. */
	void (*failed)(void);
	/* Errors that it may give (negative), ends with 0. NULL: it never fails. */
	const int *errors;
};

/* What a call may leak. */
struct fault_census {
	uint64_t usage, memcgs, blocks, index_bytes, free_pages;
};

KEEP struct fault_census fault_census(umm_t *mm)
{
	struct fault_census c;

	must(umm_check(mm) == 0); /* drains as well */
	must(umm_drain(mm) == 0);
	c.usage = memcg_pages(umm_memcg_root(mm), UMM_MEMORY_CURRENT);
	c.memcgs = vmstat(mm, "nr_memcgs");
	c.blocks = vmstat(mm, "nr_memcg_blocks");
	c.index_bytes = vmstat(mm, "index_bytes");
	c.free_pages = vmstat(mm, "nr_free_pages");
	return c;
}

/* A failed call may have reclaimed; it may not keep anything. */
KEEP void fault_census_compare(const struct fault_census *before, const struct fault_census *after)
{
	must(after->usage <= before->usage);
	must(after->free_pages - before->free_pages == before->usage - after->usage);
	must(after->memcgs == before->memcgs && after->blocks == before->blocks);
	must(after->index_bytes <= before->index_bytes);
}

/* Entries of a directory of /proc/self. */
KEEP unsigned count_entries(const char *path)
{
	DIR *dir = opendir(path);
	unsigned nr = 0;

	must(dir != NULL);
	while (readdir(dir))
		nr++;
	must(closedir(dir) == 0);
	return nr;
}

KEEP bool fault_documented(const struct fault_call *fc, long ret)
{
	for (const int *e = fc->errors; e && *e; e++)
		if (ret == *e)
			return true;
	fprintf(stderr, "%s: error %ld is not documented\n", fc->name, ret);
	return false;
}

static const unsigned fault_kinds[] = { FAULT_ALLOC, FAULT_PAGE, FAULT_CHARGE,
					FAULT_INDEX, FAULT_IO,   FAULT_ANY };

/* One call with its n-th fault; false once there was none to deliver. */
KEEP bool fault_once(umm_t *mm, const struct fault_call *fc, unsigned kinds, unsigned n,
		     unsigned *failures)
{
	struct fault_census before = { 0 }, after;
	bool delivered;
	long ret;

	if (fc->prepare)
		fc->prepare();
	if (mm)
		before = fault_census(mm);
	fault_arm(kinds, n);
	ret = fc->call();
	delivered = fault_disarm();
	if (ret >= 0) {
		fc->succeeded(ret, delivered);
		return delivered;
	}
	must(delivered);
	must(fault_documented(fc, ret));
	(*failures)++;
	if (mm)
		must(umm_check(mm) == 0);
	if (fc->failed)
		fc->failed();
	if (mm) {
		after = fault_census(mm);
		fault_census_compare(&before, &after);
	}
	return true;
}

/* `mm` NULL: the call makes the instance. */
KEEP void fault_run(umm_t *mm, const struct fault_call *fc)
{
	unsigned failures = 0, delivered = 0;

	for (unsigned k = 0; k < sizeof(fault_kinds) / sizeof(fault_kinds[0]); k++) {
		unsigned n = 1;

		while (fault_once(mm, fc, fault_kinds[k], n, &failures)) {
			delivered++;
			must(n++ < MAX_FAULTS);
		}
	}
	fprintf(stderr, "  %-28s %4u faults delivered, %4u failures\n", fc->name, delivered,
		failures);
	must(fc->errors || failures == 0);
}

/* ---- an instance to call ---- */

#define STORE_PAGES 300

static struct {
	struct fixture f;
	umm_memcg_t *cg;
	struct mem_store store;
	char path[128];
	umm_obj_t *stored; /* the store's */
	umm_obj_t *file;   /* page_fill()ed as STORE_PAGES pages of id 2 */
} fx;

KEEP void fx_file_create(void)
{
	_Alignas(8) char page[UMM_PAGE_SIZE];
	int fd;

	snprintf(fx.path, sizeof(fx.path), "%s/umm-test-XXXXXX",
		 getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	fd = mkstemp(fx.path);
	must(fd >= 0);
	for (uint64_t i = 0; i < STORE_PAGES; i++) {
		page_fill(page, 2, i);
		must(write(fd, page, sizeof(page)) == sizeof(page));
	}
	must(close(fd) == 0);
}

KEEP void fx_create(uint64_t pages, uint64_t max, uint32_t flags)
{
	struct umm_options o = fixture_options(pages);

	memset(&fx, 0, sizeof(fx));
	o.flags = flags | UMM_NO_KSWAPD;
	o.readahead_pages = 16;
	fx.f = fixture_create_with(&o);
	fx.cg = memcg_with_max(&fx.f, NULL, "tenant", max);
	fx.store.id = 1;
	fx.store.pages = STORE_PAGES;
	fx.stored = mem_store_open(fx.cg, &fx.store);
	fx_file_create();
	must(umm_file_open(fx.cg, fx.path, 0, &fx.file) == 0);
	/* The first read settles how the file is read, and may close a descriptor. */
	must(read_page_checked(fx.file, 2, 0) == 0);
}

KEEP void fx_destroy(void)
{
	must(umm_close(fx.stored) == 0 && fx.store.closed == 1);
	must(umm_close(fx.file) == 0);
	must(umm_memcg_destroy(fx.cg) == 0);
	must(unlink(fx.path) == 0);
	must(umm_drain(fx.f.mm) == 0);
	must(memcg_pages(fx.f.root, UMM_MEMORY_CURRENT) == 0);
	must(log_warnings == 0);
	fixture_destroy(&fx.f);
}

#endif
