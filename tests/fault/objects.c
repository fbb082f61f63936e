/* SPDX-License-Identifier: MIT */
/* Handles with faults: open a file, for the first time and again; a store; another handle;
 * close. */
#include "fault.h"

static const int open_errors[] = { -ENOMEM, 0 };

static unsigned fds;
static umm_obj_t *obj;
static struct mem_store own;
static char other_path[128];

static void fds_before(void)
{
	fds = count_entries("/proc/self/fd");
}

static void fds_after(void)
{
	must(count_entries("/proc/self/fd") == fds);
}

static long file_call(void)
{
	int err;

	obj = UNTOUCHED;
	err = umm_file_open(fx.cg, fx.path, 0, &obj);
	if (err)
		must(obj == UNTOUCHED);
	return err;
}

/* fx.path is open already, other_path is not. */
static long other_file_call(void)
{
	int err;

	obj = UNTOUCHED;
	err = umm_file_open(fx.cg, other_path, 0, &obj);
	if (err)
		must(obj == UNTOUCHED);
	return err;
}

static void file_succeeded(long ret, bool faulted)
{
	(void)ret, (void)faulted;
	must(umm_obj_bytes(obj) == STORE_PAGES * UMM_PAGE_SIZE);
	must(read_page_checked(obj, 2, 11) == 0);
	must(umm_close(obj) == 0);
	fds_after();
}

static void store_prepare(void)
{
	memset(&own, 0, sizeof(own));
	own.id = 5;
	own.pages = 10;
}

static long store_call(void)
{
	int err;

	obj = UNTOUCHED;
	err = umm_store_open(fx.cg, &mem_store_ops, &own, own.pages * UMM_PAGE_SIZE, &obj);
	/* A store that was not opened is not closed either: it is still the caller's. */
	if (err)
		must(obj == UNTOUCHED && own.closed == 0);
	return err;
}

static void store_succeeded(long ret, bool faulted)
{
	(void)ret, (void)faulted;
	must(own.closed == 0);
	must(read_page_checked(obj, own.id, 9) == 0);
	must(umm_close(obj) == 0 && own.closed == 1);
}

static long reopen_call(void)
{
	int err;

	obj = UNTOUCHED;
	err = umm_obj_reopen(fx.stored, fx.f.root, &obj);
	if (err)
		must(obj == UNTOUCHED);
	return err;
}

static void reopen_succeeded(long ret, bool faulted)
{
	(void)ret, (void)faulted;
	must(read_page_checked(obj, fx.store.id, 3) == 0);
	must(umm_close(obj) == 0 && fx.store.closed == 0);
}

static void close_prepare(void)
{
	store_prepare();
	must(store_call() == 0);
	for (uint64_t i = 0; i < own.pages; i++)
		must(read_page_checked(obj, own.id, i) == 0);
}

static long close_call(void)
{
	return umm_close(obj);
}

static void close_succeeded(long ret, bool faulted)
{
	(void)ret, (void)faulted;
	must(own.closed == 1);
	must(umm_advise(fx.stored, 0, STORE_PAGES * UMM_PAGE_SIZE, UMM_ADVISE_DONTNEED) == 0);
	must(umm_advise(fx.file, 0, STORE_PAGES * UMM_PAGE_SIZE, UMM_ADVISE_DONTNEED) == 0);
	must(umm_drain(fx.f.mm) == 0);
	must(memcg_pages(fx.f.root, UMM_MEMORY_CURRENT) == 0);
}

int main(void)
{
	static const struct fault_call calls[] = {
		{ .name = "umm_file_open, shared",
		  .prepare = fds_before,
		  .call = file_call,
		  .succeeded = file_succeeded,
		  .failed = fds_after,
		  .errors = open_errors },
		{ .name = "umm_file_open, first",
		  .prepare = fds_before,
		  .call = other_file_call,
		  .succeeded = file_succeeded,
		  .failed = fds_after,
		  .errors = open_errors },
		{ .name = "umm_store_open",
		  .prepare = store_prepare,
		  .call = store_call,
		  .succeeded = store_succeeded,
		  .errors = open_errors },
		{ .name = "umm_obj_reopen",
		  .call = reopen_call,
		  .succeeded = reopen_succeeded,
		  .errors = open_errors },
		{ .name = "umm_close",
		  .prepare = close_prepare,
		  .call = close_call,
		  .succeeded = close_succeeded },
	};

	fx_create(512, 100, 0);
	memcpy(other_path, fx.path, sizeof(other_path));
	fx_file_create();
	/* fx.file is other_path's now; open the one that has just been made instead. */
	must(umm_close(fx.file) == 0);
	must(umm_file_open(fx.cg, fx.path, 0, &fx.file) == 0);
	must(read_page_checked(fx.file, 2, 0) == 0);
	for (unsigned i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		fault_run(fx.f.mm, &calls[i]);
	must(unlink(other_path) == 0);
	fx_destroy();
	return 0;
}
