/* SPDX-License-Identifier: MIT */
/*
 * R42: a scanner of page frames finds one that is allocated and not yet charged to anybody.
 *
 *   scanner                                reader (load in flight)
 *   gets a reference on the frame; it names
 *   no memcg: takes the root's lru_lock
 *                                          the data is there: charges a, puts it on a's list
 *   sees PG_lru, unlinks from a's list
 *   under the root's lock
 *
 * Rule (LRU-3): take PG_lru before the lookup. The frame on its way to the cache has none: busy.
 */
#include "race.h"

static struct race r;
static void *_Atomic loading;
static _Atomic bool go, isolated;

/* Shows the frame that it is to fill, and waits. */
static ssize_t slow_read(void *ctx, const struct iovec *iov, int iovcnt, uint64_t offset)
{
	loading = iov[0].iov_base;
	while (!go)
		sleep_ns(100000);
	return mem_store_read(ctx, iov, iovcnt, offset);
}

static void reader(void *arg)
{
	must(read_page_checked(arg, RACE_STORE_ID, 0) == 0);
}

static void scanner(void *arg)
{
	isolated = folio_isolate_lru(arg);
}

static void drainer(void *arg)
{
	(void)arg;
	lru_add_drain_all(r.mm);
}

static struct folio *frame_of(const void *addr)
{
	uint64_t offset = (uint64_t)((const char *)addr - (const char *)r.mm->arena);

	return page_folio(pfn_page(r.mm, offset >> PAGE_SHIFT));
}

int main(void)
{
	static struct mem_store store = { .id = RACE_STORE_ID, .pages = 1 };
	static const struct umm_store_ops ops = { .size = sizeof(ops), .read = slow_read };
	struct race_thread read, scan, drain;
	struct lruvec *root;
	struct folio *folio;
	umm_obj_t *obj;

	race_setup(&r, 256);
	root = race_lruvec(r.f.root);
	must(umm_store_open(r.a, &ops, &store, UMM_PAGE_SIZE, &obj) == 0);
	race_start(&read, r.mm, reader, obj);
	while (!loading)
		sleep_ns(100000);
	folio = frame_of(loading);
	must(folio_lruvec(folio) == root && !folio_test(folio, PG_lru));

	must(folio_try_get(folio));
	lruvec_lock(root);
	race_start(&scan, r.mm, scanner, folio);
	race_done_within(&scan, 500000000);
	go = true;
	race_join(&read);
	race_start(&drain, r.mm, drainer, NULL);
	race_join(&drain);
	must(folio_test(folio, PG_lru) && folio_lruvec(folio) == race_lruvec(r.a));
	lruvec_unlock(root);
	race_join(&scan);

	must(!isolated);
	/* We had it pinned when it was listed; that ends now. */
	must(race_on_list(race_lruvec(r.a), LRU_UNEVICTABLE, folio));
	folio_put(folio);
	must(race_on_list(race_lruvec(r.a), LRU_INACTIVE_FILE, folio));
	must(folio_ref_count(folio) == 1 && race_folio(obj, 0) == folio);
	must(memcg_pages(r.a, UMM_MEMORY_CURRENT) == 1);
	must(umm_check(r.f.mm) == 0);
	must(umm_close(obj) == 0);
	race_finish(&r);
	return 0;
}
