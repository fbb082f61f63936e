/* SPDX-License-Identifier: MIT */
/*
 * What the library itself costs, and what it never shows. Metadata (struct page and index) is at
 * most 2 % of the memory when all of it is cached; an empty memcg at most 1 KiB, its name, and a
 * part for each node; and no byte that another memcg left in a frame is ever seen: not in fresh
 * memory, not behind the end of a short page, not after a load that failed.
 */
#include <malloc.h>

#include "harness.h"

#include "memcg/memcontrol.h"

#define PAGES 16384
#define NR_MEMCGS 1000
#define NAME_BYTES 16
#define PER_NODE (sizeof(struct lruvec) + sizeof(struct memcg_slot))

static void test_metadata(void **state)
{
	struct umm_options o = fixture_options(PAGES);
	struct mem_store store = { .id = 1, .pages = PAGES };
	uint64_t meta, cached, pages = (uint64_t)PAGES * UMM_PAGE_SIZE;
	struct fixture f;
	umm_memcg_t *cg;
	umm_obj_t *obj;

	(void)state;
	o.flags |= UMM_NO_KSWAPD; /* nobody takes back what was just filled */
	f = fixture_create_with(&o);
	cg = memcg_with_max(&f, NULL, "dense", 0);
	obj = mem_store_open(cg, &store);
	for (uint64_t i = 0; i < PAGES; i++)
		assert_int_equal(read_page_checked(obj, store.id, i), 0);
	cached = vmstat(f.mm, "nr_file_pages");
	assert_true(cached >= PAGES - PAGES / 16);
	meta = vmstat(f.mm, "page_struct_bytes") + vmstat(f.mm, "index_bytes");
	print_message("  %llu pages cached: metadata %.3f %%\n", (unsigned long long)cached,
		      100.0 * (double)meta / (double)pages);
	assert_int_equal(vmstat(f.mm, "page_struct_bytes"), PAGES * 64);
	assert_true(vmstat(f.mm, "index_bytes") >= cached * sizeof(void *));
	/* At most 2 %, and no more when the index is as full as the memory. */
	assert_true(meta * 100 <= pages * 2);
	assert_true((vmstat(f.mm, "index_bytes") * PAGES / cached + PAGES * 64) * 100 <= pages * 2);
	/* The index goes with its pages. */
	assert_int_equal(umm_close(obj), 0);
	assert_int_equal(umm_drain(f.mm), 0);
	assert_int_equal(vmstat(f.mm, "index_bytes"), 0);
	assert_int_equal(umm_memcg_destroy(cg), 0);
	fixture_destroy(&f);
}

static void empty_memcgs(unsigned nr_nodes)
{
	struct umm_options o = fixture_options(4096);
	umm_memcg_t *cg[NR_MEMCGS];
	struct fixture f;
	uint64_t heap, each;

	o.nr_nodes = nr_nodes;
	f = fixture_create_with(&o);
	heap = mallinfo2().uordblks;
	for (unsigned i = 0; i < NR_MEMCGS; i++) {
		char name[NAME_BYTES];

		snprintf(name, sizeof(name), "memcg %09u", i);
		cg[i] = memcg_with_max(&f, NULL, name, 100);
	}
	each = (mallinfo2().uordblks - heap + NR_MEMCGS - 1) / NR_MEMCGS;
	/* The sanitizers' allocators do not say. */
	if (!UNDER_ASAN && !UNDER_TSAN) {
		print_message("  empty memcg, %u nodes: %llu bytes of heap each\n", nr_nodes,
			      (unsigned long long)each);
		assert_true(each >= sizeof(struct mem_cgroup)); /* it was measured */
		assert_true(each <= 1024 + NAME_BYTES + nr_nodes * PER_NODE);
	}
	for (unsigned i = 0; i < NR_MEMCGS; i++)
		assert_int_equal(umm_memcg_destroy(cg[i]), 0);
	fixture_destroy(&f);
}

static void test_empty_memcg(void **state)
{
	(void)state;
	print_message("  struct mem_cgroup %zu bytes, struct lruvec %zu, a slot %zu\n",
		      sizeof(struct mem_cgroup), sizeof(struct lruvec), sizeof(struct memcg_slot));
	assert_true(sizeof(struct mem_cgroup) <= 1024);
	empty_memcgs(1);
	empty_memcgs(4);
}

/* ---- bytes of others ---- */

#define SMALL 64 /* pages: every frame is used again at once */
#define MARK 0x5a

static ssize_t marked_read(void *ctx, const struct iovec *iov, int iovcnt, uint64_t offset)
{
	ssize_t done = 0;

	(void)ctx;
	(void)offset;
	for (int i = 0; i < iovcnt; i++) {
		memset(iov[i].iov_base, MARK, iov[i].iov_len);
		done += (ssize_t)iov[i].iov_len;
	}
	return done;
}

static const struct umm_store_ops marked_ops = { .size = sizeof(marked_ops), .read = marked_read };

/* Fills every frame with its own bytes, and leaves. */
static void mark_all_frames(struct fixture *f)
{
	umm_memcg_t *cg = memcg_with_max(f, NULL, "secretive", 0);
	uint64_t bytes = SMALL * UMM_PAGE_SIZE;
	umm_obj_t *obj;
	char *buf = malloc(bytes);

	assert_non_null(buf);
	assert_int_equal(umm_store_open(cg, &marked_ops, NULL, bytes, &obj), 0);
	assert_int_equal(umm_pread(obj, buf, bytes, 0), bytes);
	assert_int_equal(umm_close(obj), 0);
	assert_int_equal(umm_drain(f->mm), 0);
	assert_int_equal(umm_memcg_destroy(cg), 0);
	free(buf);
}

static bool all_zero(const char *p, size_t from, size_t to)
{
	for (size_t i = from; i < to; i++)
		if (p[i])
			return false;
	return true;
}

static void test_fresh_memory_is_zero(void **state)
{
	struct fixture f = fixture_create(SMALL);
	umm_memcg_t *cg = memcg_with_max(&f, NULL, "curious", 0);
	umm_folio_t *folio[SMALL];

	(void)state;
	for (unsigned order = 0; order <= 6; order++) {
		unsigned nr = SMALL >> order;

		mark_all_frames(&f);
		for (unsigned i = 0; i < nr; i++) {
			assert_int_equal(umm_alloc(cg, order, 0, &folio[i]), 0);
			assert_true(all_zero(umm_folio_data(folio[i]), 0, UMM_PAGE_SIZE << order));
			memset(umm_folio_data(folio[i]), MARK, UMM_PAGE_SIZE << order);
		}
		for (unsigned i = 0; i < nr; i++)
			umm_free(folio[i]);
	}
	assert_int_equal(umm_memcg_destroy(cg), 0);
	fixture_destroy(&f);
}

/* A store of 5 and a bit pages. Reads like one that ends there; `lie` ends earlier than it said. */
#define SHORT_PAGES 5
#define SHORT_TAIL 1234
#define SHORT_BYTES (SHORT_PAGES * UMM_PAGE_SIZE + SHORT_TAIL)

struct short_store {
	uint64_t bytes;
	int errors; /* so many reads write half a page and fail */
};

static ssize_t short_read(void *ctx, const struct iovec *iov, int iovcnt, uint64_t offset)
{
	struct short_store *s = ctx;
	ssize_t done = 0;

	if (s->errors > 0) {
		s->errors--;
		memset(iov[0].iov_base, 0x77, UMM_PAGE_SIZE / 2);
		return -EIO;
	}
	for (int i = 0; i < iovcnt && offset < s->bytes; i++) {
		size_t n = s->bytes - offset < UMM_PAGE_SIZE ? s->bytes - offset : UMM_PAGE_SIZE;

		memset(iov[i].iov_base, 0x11, n);
		offset += n;
		done += (ssize_t)n;
	}
	return done;
}

static const struct umm_store_ops short_ops = { .size = sizeof(short_ops), .read = short_read };

static void look_at_last_page(struct fixture *f, uint64_t said, uint64_t really, int errors)
{
	umm_memcg_t *cg = memcg_with_max(f, NULL, "curious", 0);
	struct short_store store = { .bytes = really, .errors = errors };
	uint64_t last = really / UMM_PAGE_SIZE;
	static char buf[8 * UMM_PAGE_SIZE];
	umm_folio_t *folio;
	umm_obj_t *obj;

	mark_all_frames(f);
	assert_int_equal(umm_store_open(cg, &short_ops, &store, said, &obj), 0);
	for (int i = 0; i < errors; i++)
		assert_int_equal(umm_pin(obj, last, 0, &folio), -EIO);
	assert_int_equal(umm_pin(obj, last, 0, &folio), 0);
	assert_true(all_zero(umm_folio_data(folio), really % UMM_PAGE_SIZE, UMM_PAGE_SIZE));
	assert_false(all_zero(umm_folio_data(folio), 0, really % UMM_PAGE_SIZE));
	umm_unpin(folio);
	assert_int_equal(umm_pin(obj, last + 1, 0, &folio), -ERANGE);

	memset(buf, 0, sizeof(buf));
	assert_int_equal(umm_pread(obj, buf, sizeof(buf), 0), really);
	for (uint64_t i = 0; i < really; i++)
		assert_int_equal(buf[i], 0x11);
	assert_true(all_zero(buf, really, sizeof(buf)));
	assert_int_equal(umm_close(obj), 0);
	assert_int_equal(umm_drain(f->mm), 0);
	assert_int_equal(umm_memcg_destroy(cg), 0);
}

static void test_tail_of_a_short_page(void **state)
{
	struct fixture f = fixture_create(SMALL);

	(void)state;
	for (unsigned n = 0; n < 20; n++) {
		look_at_last_page(&f, SHORT_BYTES, SHORT_BYTES, 0);
		look_at_last_page(&f, SHORT_BYTES + 2 * UMM_PAGE_SIZE, SHORT_BYTES, 0);
		look_at_last_page(&f, SHORT_BYTES, SHORT_BYTES, 2);
	}
	assert_int_equal(log_warnings, 0);
	fixture_destroy(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_metadata),
		cmocka_unit_test(test_empty_memcg),
		cmocka_unit_test(test_fresh_memory_is_zero),
		cmocka_unit_test(test_tail_of_a_short_page),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
