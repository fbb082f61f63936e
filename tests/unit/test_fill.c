/* SPDX-License-Identifier: MIT */
/*
 * Loads, the index while they are in flight, readahead windows, dropping pages. Memory comes from
 * the fixture, which can refuse it; the store notes what it is asked for, and can fail, end early,
 * or wait.
 */
#include "lru_fixture.h"

#include <pthread.h>

#include "cache/filemap.h"

#define STORE_PAGES 1000

struct fill_test {
	struct mm *mm;
	struct mem_cgroup *a;
	struct umm_object *obj;
	struct mapping *mapping;
	/* The store: what it was asked for last, and what it shall do. */
	uint64_t calls, asked_index, asked_pages;
	uint64_t end;       /* bytes that it really has */
	uint64_t bad_index; /* reads that touch this page fail ... */
	int bad_error;      /* ... with this; 0: none do */
	_Atomic bool hold;  /* reads wait */
	_Atomic unsigned waiting;
	unsigned closed;
};

static unsigned char page_byte(uint64_t index)
{
	return (unsigned char)(index * 7 + 3);
}

static ssize_t store_read(void *ctx, const struct iovec *iov, int iovcnt, uint64_t offset)
{
	struct fill_test *t = ctx;
	uint64_t index = offset / PAGE_SIZE;
	ssize_t done = 0;

	t->calls++;
	t->asked_index = index;
	t->asked_pages = (uint64_t)iovcnt;
	atomic_fetch_add(&t->waiting, 1);
	while (atomic_load(&t->hold))
		os_sleep_ns(100000);
	if (t->bad_error && t->bad_index >= index && t->bad_index < index + (uint64_t)iovcnt)
		return t->bad_error;
	for (int i = 0; i < iovcnt && offset < t->end; i++, index++) {
		size_t nr = min_u64(PAGE_SIZE, t->end - offset);

		memset(iov[i].iov_base, page_byte(index), nr);
		offset += nr;
		done += (ssize_t)nr;
	}
	return done;
}

static void store_close(void *ctx)
{
	((struct fill_test *)ctx)->closed++;
}

static const struct umm_store_ops ops = { sizeof(ops), store_read, store_close };

static int setup(void **state)
{
	struct fill_test *t = calloc(1, sizeof(*t));
	struct store *store;

	assert_non_null(t);
	stay_on_this_cpu();
	t->mm = lru_mm_new(4096, 1, UMM_LRU_LOCK_MEMCG);
	t->mm->opt.readahead_pages = 64;
	assert_int_equal(mapping_table_init(t->mm), 0);
	t->a = lru_memcg(t->mm, NULL, "a");
	t->end = STORE_PAGES * PAGE_SIZE;
	assert_int_equal(store_user_open(t->mm, &ops, t, t->end, &store), 0);
	assert_int_equal(object_open(t->a, store, &t->obj), 0);
	t->mapping = t->obj->mapping;
	*state = t;
	return 0;
}

static int teardown(void **state)
{
	struct fill_test *t = *state;

	if (t->obj)
		object_close(t->obj);
	assert_int_equal(t->closed, 1);
	lru_memcg_destroy(t->a);
	assert_int_equal(mapping_nr_handles(t->mm), 0);
	rcu_flush(&t->mm->rcu, true);
	assert_int_equal(atomic_load(&t->mm->nr_index_nodes), 0);
	mapping_table_fini(t->mm);
	lru_mm_delete(t->mm);
	free(t);
	return 0;
}

static void *entry_at(struct fill_test *t, uint64_t index)
{
	return xa_load(&t->mapping->pages, index);
}

static bool cached(struct fill_test *t, uint64_t index)
{
	return entry_is_folio(entry_at(t, index));
}

static unsigned nr_cached(struct fill_test *t, uint64_t start, uint64_t end)
{
	unsigned nr = 0;

	for (uint64_t i = start; i < end; i++)
		nr += cached(t, i);
	return nr;
}

static bool page_is(const void *data, uint64_t index)
{
	const unsigned char *p = data;

	return p[0] == page_byte(index) && memcmp(p, p + 1, PAGE_SIZE - 1) == 0;
}

/* Read one page; the number of pages that the store was asked for, 0: it was not. */
static uint64_t read_page(struct fill_test *t, uint64_t index)
{
	unsigned char buf[PAGE_SIZE];
	uint64_t calls = t->calls;

	assert_int_equal(filemap_read(t->obj, buf, PAGE_SIZE, index * PAGE_SIZE), PAGE_SIZE);
	assert_true(page_is(buf, index));
	return t->calls == calls ? 0 : t->asked_pages;
}

static struct fill *claim(struct fill_test *t, uint64_t index, unsigned nr, int want)
{
	struct fill *fill = NULL;

	assert_int_equal(fill_claim(t->mapping, index, nr, &fill), want);
	return fill;
}

/* ---- claims ---- */

static void a_claim_stops_at_what_is_there(void **state)
{
	struct fill_test *t = *state;
	struct folio *folio = NULL;
	struct fill *fill, *theirs;

	read_page(t, 20);
	fill = claim(t, 10, 32, FILL_OURS);
	assert_int_equal(fill->index, 10);
	assert_int_equal(fill->nr, 10);
	assert_true(entry_at(t, 19) && !entry_is_folio(entry_at(t, 19)));
	assert_int_equal(claim(t, 20, 1, FILL_PRESENT) != NULL, true);
	theirs = claim(t, 15, 4, FILL_THEIRS);
	assert_ptr_equal(theirs, fill);
	/* Somebody else's window stops at ours. */
	theirs = claim(t, 5, 32, FILL_OURS);
	assert_int_equal(theirs->nr, 5);

	assert_int_equal(fill_run(t->obj, &theirs, 1, &folio), 0);
	folio_put(folio);
	assert_int_equal(fill_run(t->obj, &fill, 1, &folio), 0);
	assert_int_equal(atomic_load(&folio->index), 10);
	folio_put(folio);
	fill_put(fill); /* the reference of the claim that found it */
	assert_int_equal(nr_cached(t, 5, 21), 16);
}

static void no_node_no_claim(void **state)
{
	struct fill_test *t = *state;
	struct fill *fill;
	struct folio *folio = NULL;

	fault_arm(FAULT_INDEX, 1);
	assert_int_equal(fill_claim(t->mapping, 100, 8, &fill), -ENOMEM);
	assert_true(fault_disarm());
	assert_null(entry_at(t, 100));

	/* The window crosses into a node that cannot be had: it is shorter. */
	read_page(t, 0);
	fault_arm(FAULT_INDEX, 2);
	fill = claim(t, 60, 8, FILL_OURS);
	(void)fault_disarm();
	assert_true(fill->nr >= 4 && fill->nr <= 8);
	assert_int_equal(fill_run(t->obj, &fill, 1, &folio), 0);
	folio_put(folio);

	fault_arm(FAULT_ALLOC, 1);
	assert_int_equal(fill_claim(t->mapping, 200, 8, &fill), -ENOMEM);
	assert_true(fault_disarm());
}

/* ---- loads ---- */

static void a_load_publishes_its_pages(void **state)
{
	struct fill_test *t = *state;
	struct fill *fill = claim(t, 7, 12, FILL_OURS);
	struct folio *folio = NULL, *other;

	assert_int_equal(fill_run(t->obj, &fill, 1, &folio), 0);
	assert_int_equal(t->calls, 1);
	assert_int_equal(t->asked_pages, 12);
	assert_int_equal(memcg_usage(t->a), 12);
	assert_int_equal(memcg_stat_sum(t->a, MEMCG_FILE), 12);
	assert_int_equal(t->mapping->nr_pages, 12);
	assert_int_equal(folio_ref_count(folio),
			 2); /* the cache's and ours: 12 are added at once */
	for (uint64_t i = 7; i < 19; i++) {
		other = mapping_get_folio(t->mapping, i, NULL);
		assert_non_null(other);
		assert_true(page_is(folio_address(other), i));
		assert_ptr_equal(atomic_load(&other->mapping), t->mapping);
		assert_int_equal(atomic_load(&other->index), i);
		folio_put(other);
	}
	assert_int_equal(vm_event_sum(t->mm, PGPGIN), 12);
	assert_int_equal(vm_event_sum(t->mm, READAHEAD), 11);
	assert_int_equal(vm_event_sum(t->mm, PGMAJFAULT), 1);
	assert_int_equal(memcg_stat_sum(t->a, MEMCG_PGMAJFAULT), 1);
	folio_put(folio);
	lru_add_drain_all(t->mm);
	assert_int_equal(lruvec_size(&t->a->lruvec[0], LRU_INACTIVE_FILE), 12);
}

static void where_a_window_cannot_be_had_one_page_is(void **state)
{
	struct fill_test *t = *state;
	struct fill *fill = claim(t, 30, 16, FILL_OURS);
	struct folio *folio = NULL;

	upcall.error = -EBUSY;
	upcall.refuse_from = 2;
	assert_int_equal(fill_run(t->obj, &fill, 1, &folio), 0);
	assert_int_equal(upcall.requests, 2);
	assert_int_equal(t->asked_pages, 1);
	folio_put(folio);
	assert_int_equal(nr_cached(t, 30, 46), 1);
	for (uint64_t i = 31; i < 46; i++)
		assert_null(entry_at(t, i));
	assert_int_equal(memcg_usage(t->a), 1);
}

static void a_refusal_leaves_no_ticket(void **state)
{
	static const int errors[] = { -EBUSY, -ENOMEM, -ESTALE };
	struct fill_test *t = *state;
	struct folio *folio = NULL;

	for (unsigned i = 0; i < ARRAY_SIZE(errors); i++) {
		struct fill *fill = claim(t, 30, 16, FILL_OURS);
		struct fill *waits = claim(t, 30, 1, FILL_THEIRS);

		upcall.error = errors[i];
		upcall.refuse_after = 0;
		upcall.refuse_from = 1;
		assert_int_equal(fill_run(t->obj, &fill, 1, &folio), errors[i]);
		assert_null(folio);
		/* Our memcg's trouble is not the waiter's. */
		assert_int_equal(fill_wait(waits, 30), 0);
		for (uint64_t at = 30; at < 46; at++)
			assert_null(entry_at(t, at));
	}
	assert_int_equal(t->calls, 0);
	assert_int_equal(memcg_usage(t->a), 0);
	upcall.error = 0;
	assert_int_equal(read_page(t, 30) > 0, true);
}

static void a_bad_spot_ahead_costs_only_itself(void **state)
{
	struct fill_test *t = *state;
	struct fill *fill = claim(t, 30, 16, FILL_OURS), *waits[2];
	struct folio *folio = NULL;

	t->bad_index = 40;
	t->bad_error = -EIO;
	assert_int_equal(fill_run(t->obj, &fill, 1, &folio), 0);
	assert_int_equal(t->calls, 2);
	folio_put(folio);
	assert_int_equal(nr_cached(t, 30, 46), 1);

	/* The bad page itself: the error, for who waits for it; who waits for another page of
	 * the load looks again. Nothing is remembered. */
	fill = claim(t, 40, 4, FILL_OURS);
	waits[0] = claim(t, 40, 1, FILL_THEIRS);
	waits[1] = claim(t, 42, 1, FILL_THEIRS);
	folio = NULL;
	assert_int_equal(fill_run(t->obj, &fill, 1, &folio), STORE_ERROR(-EIO));
	assert_null(folio);
	assert_int_equal(fill_wait(waits[0], 40), STORE_ERROR(-EIO));
	assert_int_equal(fill_wait(waits[1], 42), 0);
	assert_int_equal(nr_cached(t, 40, 44), 0);
	assert_int_equal(memcg_usage(t->a), 1);
	t->bad_error = 0;
	assert_true(read_page(t, 40) > 0);
}

static void several_loads_side_by_side(void **state)
{
	struct fill_test *t = *state;
	struct fill *fill[3];
	struct folio *folio = NULL;

	for (unsigned i = 0; i < 3; i++)
		fill[i] = claim(t, 100 + 20 * i, 10, FILL_OURS);
	t->bad_index = 125;
	t->bad_error = -ENXIO;
	assert_int_equal(fill_run(t->obj, fill, 3, &folio), 0);
	assert_int_equal(atomic_load(&folio->index), 100);
	folio_put(folio);
	assert_int_equal(nr_cached(t, 100, 110), 10);
	assert_int_equal(nr_cached(t, 120, 130), 0);
	assert_int_equal(nr_cached(t, 140, 150), 10);
	assert_null(entry_at(t, 125));

	/* Memory for the first only. */
	t->bad_error = 0;
	for (unsigned i = 0; i < 3; i++)
		fill[i] = claim(t, 200 + 20 * i, 10, FILL_OURS);
	upcall.error = -ENOMEM;
	upcall.refuse_after = 1;
	assert_int_equal(fill_run(t->obj, fill, 3, &folio), 0);
	folio_put(folio);
	assert_int_equal(nr_cached(t, 200, 250), 10);
	for (uint64_t i = 210; i < 250; i++)
		assert_null(entry_at(t, i));
	assert_int_equal(memcg_usage(t->a), 30);
}

/* ---- the store's end ---- */

static void a_store_may_end_early(void **state)
{
	struct fill_test *t = *state;
	unsigned char buf[2 * PAGE_SIZE];
	struct folio *folio = NULL;

	t->end = 50 * PAGE_SIZE + 100;
	assert_int_equal(filemap_read(t->obj, buf, sizeof(buf), 50 * PAGE_SIZE + 90), 10);
	assert_int_equal(atomic_load(&t->mapping->bytes), t->end);
	/* What a pin shows behind the end is zero, not what the frame's last owner left. */
	folio = mapping_get_folio(t->mapping, 50, NULL);
	assert_non_null(folio);
	for (unsigned i = 100; i < PAGE_SIZE; i++)
		assert_int_equal(((unsigned char *)folio_address(folio))[i], 0);
	folio_put(folio);
	assert_int_equal(nr_cached(t, 0, STORE_PAGES), 1);
	assert_int_equal(filemap_read(t->obj, buf, sizeof(buf), 50 * PAGE_SIZE + 100), 0);
	assert_int_equal(filemap_pin(t->obj, 51, false, &folio), -ERANGE);
	assert_int_equal(mapping_end_index(t->mapping), 51);

	/* And earlier still, at a page's edge: found by nothing being there. */
	t->end = 10 * PAGE_SIZE;
	assert_int_equal(filemap_read(t->obj, buf, sizeof(buf), 10 * PAGE_SIZE), 0);
	assert_int_equal(atomic_load(&t->mapping->bytes), 10 * PAGE_SIZE);
	assert_null(entry_at(t, 10));
	assert_int_equal(filemap_read(t->obj, buf, sizeof(buf), 9 * PAGE_SIZE), PAGE_SIZE);
}

/* ---- waiting ---- */

struct waiter {
	pthread_t thread;
	struct fill_test *t;
	uint64_t index;
	int err;
};

static void *waiter_main(void *arg)
{
	struct waiter *w = arg;
	struct folio *folio = NULL;

	VM_BUG_ON(threads_enter(&w->t->mm->threads));
	w->err = filemap_pin(w->t->obj, w->index, false, &folio);
	if (!w->err) {
		VM_BUG_ON(!page_is(folio_address(folio), w->index));
		folio_put(folio);
	}
	return NULL;
}

/* One load, however many want it, and each gets its page, or the error. */
static void one_load_for_all_who_want_it(void **state)
{
	struct fill_test *t = *state;
	struct waiter w[6];

	t->mm->opt.readahead_pages = 0;
	for (unsigned round = 0; round < 2; round++) {
		uint64_t calls = t->calls;

		t->bad_index = 5;
		t->bad_error = round ? -EIO : 0;
		atomic_store(&t->waiting, 0);
		atomic_store(&t->hold, true);
		mapping_invalidate(t->mapping, 0, STORE_PAGES);
		for (unsigned i = 0; i < 6; i++) {
			w[i] = (struct waiter){ .t = t, .index = 5 };
			assert_int_equal(pthread_create(&w[i].thread, NULL, waiter_main, &w[i]), 0);
		}
		while (!atomic_load(&t->waiting))
			os_sleep_ns(100000);
		os_sleep_ns(20000000); /* time for the others to come */
		atomic_store(&t->hold, false);
		for (unsigned i = 0; i < 6; i++)
			assert_int_equal(pthread_join(w[i].thread, NULL), 0);
		/* Who came too late for the load that failed made another. */
		assert_true(t->calls > calls && (round || t->calls == calls + 1));
		for (unsigned i = 0; i < 6; i++)
			assert_int_equal(w[i].err, round ? STORE_ERROR(-EIO) : 0);
	}
}

/* ---- readahead ---- */

static void windows_grow_in_order(void **state)
{
	static const uint64_t want[] = { 4, 8, 16, 32, 64, 64, 64 };
	struct fill_test *t = *state;
	unsigned nr = 0;

	for (uint64_t i = 0; i < 200 && nr < ARRAY_SIZE(want); i++) {
		uint64_t asked = read_page(t, i);

		if (asked)
			assert_int_equal(asked, want[nr++]);
	}
	assert_int_equal(nr, ARRAY_SIZE(want)); /* the last one begins at page 188 */
}

static void random_reads_load_what_was_asked_for(void **state)
{
	struct fill_test *t = *state;
	unsigned char buf[5 * PAGE_SIZE];

	assert_int_equal(read_page(t, 500), 1);
	assert_int_equal(read_page(t, 300), 1);
	assert_int_equal(read_page(t, 700), 1);
	assert_int_equal(filemap_read(t->obj, buf, sizeof(buf), 600 * PAGE_SIZE), 5 * PAGE_SIZE);
	assert_int_equal(t->asked_pages, 5);
	assert_int_equal(nr_cached(t, 0, STORE_PAGES), 8);
	/* The next page after the last one used is in order again. */
	assert_int_equal(read_page(t, 605), 10);
}

static void windows_have_limits(void **state)
{
	struct fill_test *t = *state;

	/* The object's end. */
	assert_int_equal(read_page(t, STORE_PAGES - 3), 1);
	assert_int_equal(read_page(t, STORE_PAGES - 2), 2);
	/* Off. */
	t->mm->opt.readahead_pages = 0;
	assert_int_equal(read_page(t, 0), 1);
	assert_int_equal(read_page(t, 1), 1);
	/* An eighth of the memcg's limit, whichever ancestor has it. */
	t->mm->opt.readahead_pages = 64;
	lock_acquire(&t->mm->threads, &t->a->limit_lock);
	assert_int_equal(memcg_set_max(t->a, 48), 0);
	lock_release(&t->mm->threads, &t->a->limit_lock);
	for (uint64_t i = 2; i < 30; i++)
		assert_true(read_page(t, i) <= 6);
	assert_int_equal(nr_cached(t, 0, STORE_PAGES) <= 48, true);
}

static void willneed_reads_the_range_and_no_more(void **state)
{
	struct fill_test *t = *state;
	uint64_t calls;

	read_page(t, 120);
	assert_int_equal(filemap_readahead(t->obj, 100, 180), 0);
	assert_int_equal(nr_cached(t, 100, 180), 80);
	assert_int_equal(nr_cached(t, 0, STORE_PAGES), 80);
	calls = t->calls;
	assert_int_equal(filemap_readahead(t->obj, 100, 180), 0);
	assert_int_equal(t->calls, calls);
	/* As far as there is memory, and that is no error. */
	upcall.error = -EBUSY;
	upcall.refuse_from = 1;
	assert_int_equal(filemap_readahead(t->obj, 300, 400), 0);
	assert_int_equal(nr_cached(t, 300, 400), 0);
	upcall.error = 0;
	assert_int_equal(filemap_readahead(t->obj, STORE_PAGES - 2, STORE_PAGES + 50), 0);
	assert_int_equal(nr_cached(t, STORE_PAGES - 2, STORE_PAGES), 2);
}

/* ---- without the cache ---- */

static void reading_past_the_cache(void **state)
{
	struct fill_test *t = *state;
	unsigned char buf[3 * PAGE_SIZE];
	struct folio *folio = NULL;

	upcall.error = -EBUSY;
	upcall.refuse_from = 1;
	assert_int_equal(filemap_read(t->obj, buf, sizeof(buf), 3 * PAGE_SIZE + 5), sizeof(buf));
	assert_int_equal(buf[0], page_byte(3));
	assert_int_equal(buf[PAGE_SIZE - 5], page_byte(4));
	assert_int_equal(buf[sizeof(buf) - 1], page_byte(6));
	assert_int_equal(memcg_usage(t->a), 0);
	assert_int_equal(nr_cached(t, 0, STORE_PAGES), 0);
	assert_int_equal(vm_event_sum(t->mm, BYPASS), 4);
	assert_int_equal(memcg_event_sum(t->a, MEMCG_EV_BYPASS), 4);
	assert_int_equal(memcg_pgfault_sum(t->a), 4);
	/* A pin cannot do without. */
	assert_int_equal(filemap_pin(t->obj, 3, false, &folio), -EBUSY);
	assert_null(folio);
	upcall.error = 0;
	assert_int_equal(filemap_pin(t->obj, 3, true, &folio), -EAGAIN);
	assert_int_equal(filemap_pin(t->obj, 3, false, &folio), 0);
	assert_int_equal(memcg_pgfault_sum(t->a), 5);
	folio_put(folio);
}

/* ---- dropping ---- */

static void invalidate_drops_what_nobody_uses(void **state)
{
	struct fill_test *t = *state;
	struct lruvec *v = &t->a->lruvec[0];
	struct folio *pinned[2] = { NULL };

	assert_int_equal(filemap_readahead(t->obj, 0, 100), 0);
	/* In use, but not by umm_pin: that would take them off the lists at the next drain. */
	for (unsigned i = 0; i < 2; i++) {
		pinned[i] = mapping_get_folio(t->mapping, 40 + i, NULL);
		assert_non_null(pinned[i]);
	}
	/* One of them is active. */
	folio_set(pinned[0], PG_referenced);
	folio_mark_accessed(t->mm, pinned[0]);
	lru_add_drain_all(t->mm);
	assert_int_equal(lruvec_size(v, LRU_ACTIVE_FILE), 1);

	assert_int_equal(mapping_invalidate(t->mapping, 30, 30), 0);
	assert_int_equal(mapping_invalidate(t->mapping, 50, 40), 0);
	assert_int_equal(mapping_invalidate(t->mapping, 30, 60), 28);
	assert_int_equal(nr_cached(t, 0, 100), 72);
	assert_int_equal(nr_cached(t, 30, 60), 2);
	assert_true(cached(t, 40) && cached(t, 41) && cached(t, 29) && cached(t, 60));
	assert_int_equal(memcg_usage(t->a), 72);
	assert_int_equal(t->mapping->nr_pages, 72);

	/* Those in use are not wanted: first to go, once they can. */
	lru_add_drain_all(t->mm);
	assert_int_equal(lruvec_size(v, LRU_ACTIVE_FILE), 0);
	assert_true(lru_place(v, LRU_INACTIVE_FILE, pinned[0]) >= 70);
	assert_true(lru_place(v, LRU_INACTIVE_FILE, pinned[1]) >= 70);
	for (unsigned i = 0; i < 2; i++) {
		assert_true(page_is(folio_address(pinned[i]), 40 + i));
		folio_put(pinned[i]);
	}
	assert_int_equal(mapping_invalidate(t->mapping, 0, UINT64_MAX), 72);
	assert_int_equal(memcg_usage(t->a), 0);
}

static void removal_sorts_the_frozen_first(void **state)
{
	struct fill_test *t = *state;
	struct folio *folio[6];

	assert_int_equal(filemap_readahead(t->obj, 0, 6), 0);
	lru_add_drain_all(t->mm);
	for (unsigned i = 0; i < 6; i++)
		folio[i] = mapping_get_folio(t->mapping, i, NULL);
	folio_get(folio[0]);
	folio_get(folio[3]);
	assert_int_equal(mapping_remove_unused(t->mm, folio, 6), 4);
	for (unsigned i = 0; i < 6; i++) {
		assert_int_equal(folio_ref_count(folio[i]), i < 4 ? 0 : 3);
		assert_int_equal(atomic_load(&folio[i]->mapping) != NULL, i >= 4);
	}
	for (unsigned i = 0; i < 4; i++)
		folio_release(folio[i]);
	for (unsigned i = 4; i < 6; i++) {
		folio_put(folio[i]);
		folio_put(folio[i]);
	}
	assert_int_equal(nr_cached(t, 0, 6), 2);
	assert_int_equal(memcg_usage(t->a), 2);
}

static void closing_leaves_pins_alone(void **state)
{
	struct fill_test *t = *state;
	struct umm_object *again;
	struct folio *pinned = NULL;

	assert_int_equal(object_reopen(t->obj, root_memcg(t->mm), &again), 0);
	assert_ptr_equal(again->mapping, t->mapping);
	assert_int_equal(filemap_readahead(t->obj, 0, 50), 0);
	assert_int_equal(filemap_pin(again, 33, false, &pinned), 0);
	object_close(t->obj);
	t->obj = NULL;
	assert_int_equal(t->closed, 0);
	assert_int_equal(memcg_usage(t->a), 50);
	object_close(again);
	assert_int_equal(t->closed, 1);
	lru_add_drain_all(t->mm);
	assert_int_equal(memcg_usage(t->a), 1);
	assert_true(page_is(folio_address(pinned), 33));
	folio_put(pinned);
	assert_int_equal(memcg_usage(t->a), 0);
}

#define fill_test(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		fill_test(a_claim_stops_at_what_is_there),
		fill_test(no_node_no_claim),
		fill_test(a_load_publishes_its_pages),
		fill_test(where_a_window_cannot_be_had_one_page_is),
		fill_test(a_refusal_leaves_no_ticket),
		fill_test(a_bad_spot_ahead_costs_only_itself),
		fill_test(several_loads_side_by_side),
		fill_test(a_store_may_end_early),
		fill_test(one_load_for_all_who_want_it),
		fill_test(windows_grow_in_order),
		fill_test(random_reads_load_what_was_asked_for),
		fill_test(windows_have_limits),
		fill_test(willneed_reads_the_range_and_no_more),
		fill_test(reading_past_the_cache),
		fill_test(invalidate_drops_what_nobody_uses),
		fill_test(removal_sorts_the_frozen_first),
		fill_test(closing_leaves_pins_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
