/* SPDX-License-Identifier: MIT */
/* Reading, pinning and advising with faults: of a store and of a file, through rings and
 * without, with room and at the limit. */
#include "fault.h"

/* Nothing of the object is cached. */
#define PAGE 40u
#define MANY 60u

static const int io_errors[] = { -EIO, 0 };
static const int pin_errors[] = { -EIO, -ENOMEM, -EBUSY, 0 };
static const int nowait_errors[] = { -EAGAIN, 0 };

static umm_obj_t *obj;
static uint64_t id;
static umm_folio_t *pinned;
static char buf[MANY * UMM_PAGE_SIZE];
static size_t bytes;
static uint64_t offset;

static void cold(void)
{
	must(umm_advise(obj, 0, STORE_PAGES * UMM_PAGE_SIZE, UMM_ADVISE_DONTNEED) == 0);
	memset(buf, 0x5a, sizeof(buf));
}

static void warm(void)
{
	for (uint64_t i = PAGE; i < PAGE + 4; i++)
		must(read_page_checked(obj, id, i) == 0);
	memset(buf, 0x5a, sizeof(buf));
}

/* ---- umm_pread ---- */

static void one_page(void)
{
	cold();
	offset = PAGE * UMM_PAGE_SIZE + 100;
	bytes = 1000;
}

static void many_pages(void)
{
	cold();
	offset = 3 * UMM_PAGE_SIZE + 8;
	bytes = sizeof(buf) - 16;
}

/* The pages before it have been read in order. */
static void next_in_order(void)
{
	cold();
	for (uint64_t i = 0; i < 3; i++)
		must(read_page_checked(obj, id, i) == 0);
	must(umm_advise(obj, 3 * UMM_PAGE_SIZE, 100 * UMM_PAGE_SIZE, UMM_ADVISE_DONTNEED) == 0);
	offset = 3 * UMM_PAGE_SIZE;
	bytes = UMM_PAGE_SIZE;
}

static void hit(void)
{
	warm();
	offset = PAGE * UMM_PAGE_SIZE;
	bytes = 3 * UMM_PAGE_SIZE;
}

static bool buf_is_untouched(void)
{
	return buf[0] == 0x5a && memcmp(buf, buf + 1, sizeof(buf) - 1) == 0;
}

static long pread_call(void)
{
	ssize_t got = umm_pread(obj, buf, bytes, offset);

	if (got < 0)
		must(buf_is_untouched());
	return got;
}

static void pread_succeeded(long ret, bool faulted)
{
	_Alignas(8) char page[UMM_PAGE_SIZE];
	size_t got = (size_t)ret;

	must(got == bytes || (faulted && got > 0 && got < bytes));
	for (size_t at = 0; at < got;) {
		size_t in_page = (offset + at) % UMM_PAGE_SIZE;
		size_t part =
			got - at < UMM_PAGE_SIZE - in_page ? got - at : UMM_PAGE_SIZE - in_page;

		page_fill(page, id, (offset + at) / UMM_PAGE_SIZE);
		must(memcmp(buf + at, page + in_page, part) == 0);
		at += part;
	}
}

/* ---- umm_pin, umm_pin_timed ---- */

static long pin_checked_out(int err)
{
	if (err)
		must(pinned == UNTOUCHED);
	return err;
}

static long pin_call(void)
{
	pinned = UNTOUCHED;
	return pin_checked_out(umm_pin(obj, PAGE, 0, &pinned));
}

static long pin_nowait_call(void)
{
	pinned = UNTOUCHED;
	return pin_checked_out(umm_pin(obj, PAGE, UMM_NOWAIT, &pinned));
}

static long pin_timed_call(void)
{
	pinned = UNTOUCHED;
	return pin_checked_out(umm_pin_timed(obj, PAGE, 0, 1000000000, &pinned));
}

static void pin_succeeded(long ret, bool faulted)
{
	(void)ret, (void)faulted;
	must(page_is(umm_folio_data(pinned), id, PAGE));
	umm_unpin(pinned);
}

/* ---- umm_advise ---- */

static long willneed_call(void)
{
	return umm_advise(obj, PAGE * UMM_PAGE_SIZE, MANY * UMM_PAGE_SIZE, UMM_ADVISE_WILLNEED);
}

static long dontneed_call(void)
{
	return umm_advise(obj, 0, STORE_PAGES * UMM_PAGE_SIZE, UMM_ADVISE_DONTNEED);
}

static void willneed_succeeded(long ret, bool faulted)
{
	(void)ret, (void)faulted;
	for (uint64_t i = PAGE; i < PAGE + 4; i++)
		must(read_page_checked(obj, id, i) == 0);
}

static void dontneed_succeeded(long ret, bool faulted)
{
	(void)ret, (void)faulted;
	must(umm_pin(obj, PAGE, UMM_NOWAIT, &pinned) == -EAGAIN);
}

static const struct fault_call calls[] = {
	{ "pread, one page", one_page, pread_call, pread_succeeded, cold, io_errors },
	{ "pread, many pages", many_pages, pread_call, pread_succeeded, cold, io_errors },
	{ "pread, in order", next_in_order, pread_call, pread_succeeded, cold, io_errors },
	{ "pread, cached", hit, pread_call, pread_succeeded, NULL, NULL },
	{ "pin", cold, pin_call, pin_succeeded, cold, pin_errors },
	{ "pin, cached", warm, pin_call, pin_succeeded, NULL, NULL },
	{ "pin, nowait, cached", warm, pin_nowait_call, pin_succeeded, cold, nowait_errors },
	{ "pin_timed", cold, pin_timed_call, pin_succeeded, cold, pin_errors },
	{ "pin_timed, cached", warm, pin_timed_call, pin_succeeded, NULL, NULL },
	{ "advise, willneed", cold, willneed_call, willneed_succeeded, cold, io_errors },
	{ "advise, dontneed", warm, dontneed_call, dontneed_succeeded, NULL, NULL },
};

static void run(uint64_t max, uint32_t flags)
{
	fx_create(256, max, flags);
	for (unsigned which = 0; which < 2; which++) {
		obj = which ? fx.file : fx.stored;
		id = which ? 2 : fx.store.id;
		fprintf(stderr, " %s, max %llu, flags %u\n", which ? "file" : "store",
			(unsigned long long)max, (unsigned)flags);
		for (unsigned i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
			fault_run(fx.f.mm, &calls[i]);
	}
	fx_destroy();
}

int main(void)
{
	run(0, 0);
	run(0, UMM_NO_URING);
	run(12, 0); /* less than a read wants, more than the pages that must stay for a while */
	run(12, UMM_NO_URING);
	return 0;
}
