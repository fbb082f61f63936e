/* SPDX-License-Identifier: MIT */
/*
 * Where reclaim looks, how hard, and what it leaves alone. Memory comes from the fixture, so
 * nothing is reclaimed but what a test asks for.
 */
#include "lru_fixture.h"

#include "cache/filemap.h"
#include "reclaim/reclaim.h"

#define STORE_PAGES 3000
#define NR_MEMCGS 8

struct tenant {
	struct mem_cgroup *memcg;
	struct umm_object *obj;
};

struct scan_test {
	struct mm *mm;
	struct tenant tenant[NR_MEMCGS];
	unsigned nr_tenants;
};

static ssize_t store_read(void *ctx, const struct iovec *iov, int iovcnt, uint64_t offset)
{
	(void)ctx, (void)offset;
	for (int i = 0; i < iovcnt; i++)
		memset(iov[i].iov_base, 1, iov[i].iov_len);
	return (ssize_t)iovcnt * (ssize_t)PAGE_SIZE;
}

static const struct umm_store_ops ops = { sizeof(ops), store_read, NULL };

static int setup_with(void **state, unsigned nodes, enum umm_lru_lock lru_lock)
{
	struct scan_test *t = calloc(1, sizeof(*t));

	assert_non_null(t);
	stay_on_this_cpu();
	t->mm = lru_mm_new(4096, nodes, lru_lock);
	assert_int_equal(mapping_table_init(t->mm), 0);
	*state = t;
	return 0;
}

static int setup(void **state)
{
	return setup_with(state, 1, UMM_LRU_LOCK_MEMCG);
}

static int setup_node(void **state)
{
	return setup_with(state, 1, UMM_LRU_LOCK_NODE);
}

static int setup_three(void **state)
{
	return setup_with(state, 3, UMM_LRU_LOCK_MEMCG);
}

/* Children were made after their parents. */
static int teardown(void **state)
{
	struct scan_test *t = *state;

	while (t->nr_tenants) {
		struct tenant *tenant = &t->tenant[--t->nr_tenants];

		object_close(tenant->obj);
		lru_memcg_destroy(tenant->memcg);
	}
	mapping_table_fini(t->mm);
	lru_mm_delete(t->mm);
	free(t);
	return 0;
}

static struct tenant *tenant_new(struct scan_test *t, struct mem_cgroup *parent)
{
	struct tenant *tenant = &t->tenant[t->nr_tenants++];
	struct store *store;

	assert_true(t->nr_tenants <= NR_MEMCGS);
	tenant->memcg = lru_memcg(t->mm, parent, "tenant");
	assert_int_equal(store_user_open(t->mm, &ops, NULL, STORE_PAGES * PAGE_SIZE, &store), 0);
	assert_int_equal(object_open(tenant->memcg, store, &tenant->obj), 0);
	return tenant;
}

/* Use of a page, which may load it. */
static void touch(struct tenant *tenant, uint64_t index)
{
	struct folio *folio = NULL;

	assert_int_equal(filemap_pin(tenant->obj, index, false, &folio), 0);
	folio_put(folio);
}

static void touch_all(struct tenant *tenant, uint64_t start, uint64_t end)
{
	for (uint64_t i = start; i < end; i++)
		touch(tenant, i);
	lru_add_drain_all(tenant->obj->mm);
}

static bool cached(struct tenant *tenant, uint64_t index)
{
	return entry_is_folio(xa_load(&tenant->obj->mapping->pages, index));
}

static unsigned nr_cached(struct tenant *tenant, uint64_t start, uint64_t end)
{
	unsigned nr = 0;

	for (uint64_t i = start; i < end; i++)
		nr += cached(tenant, i);
	return nr;
}

static struct folio *folio_at(struct tenant *tenant, uint64_t index)
{
	assert_true(cached(tenant, index));
	return xa_load(&tenant->obj->mapping->pages, index);
}

static uint64_t size(struct tenant *tenant, enum lru_list lru)
{
	return memcg_lru_sum(tenant->memcg, lru);
}

static uint64_t proactive(struct tenant *tenant, uint64_t nr)
{
	return reclaim_memcg(tenant->memcg, nr, RECLAIM_PROACTIVE);
}

/* ---- one memcg ---- */

static void the_oldest_go_first(void **state)
{
	struct scan_test *t = *state;
	struct tenant *a = tenant_new(t, NULL);
	uint64_t got;

	touch_all(a, 0, 200);
	assert_int_equal(memcg_evictable(a->memcg), 200);
	assert_int_equal(proactive(a, 0), 0);
	got = proactive(a, 40);
	assert_true(got >= 40 && got < 40 + SWAP_CLUSTER_MAX);
	assert_int_equal(nr_cached(a, 0, got), 0);
	assert_int_equal(nr_cached(a, got, 200), 200 - got);
	assert_int_equal(memcg_usage(a->memcg), 200 - got);
	/* What cost what is told, here and for all. */
	assert_int_equal(memcg_stat_sum(a->memcg, MEMCG_PGSTEAL_PROACTIVE), got);
	assert_int_equal(memcg_stat_sum(a->memcg, MEMCG_PGSTEAL), got);
	assert_int_equal(vm_event_sum(t->mm, PGSTEAL_PROACTIVE), got);
	assert_int_equal(vm_event_sum(t->mm, PGSCAN_PROACTIVE), got);
	assert_int_equal(memcg_stat_sum(a->memcg, MEMCG_PGSCAN), got);
	assert_int_equal(vm_event_sum(t->mm, PGSCAN_DIRECT) + vm_event_sum(t->mm, PGSCAN_KSWAPD),
			 0);
	/* All of it, and no more than there is. */
	assert_int_equal(proactive(a, 500), 200 - got);
	assert_int_equal(memcg_usage(a->memcg), 0);
	assert_int_equal(proactive(a, 1), 0);
}

static void what_is_used_twice_stays_longer(void **state)
{
	struct scan_test *t = *state;
	struct tenant *a = tenant_new(t, NULL);

	touch_all(a, 0, 100);
	for (uint64_t i = 0; i < 20; i++)
		touch(a, i);
	lru_add_drain_all(t->mm);
	assert_int_equal(size(a, LRU_ACTIVE_FILE), 20);
	/* The 20 are the oldest, and all others go before them. */
	proactive(a, 60);
	assert_int_equal(nr_cached(a, 0, 20), 20);
	assert_int_equal(size(a, LRU_ACTIVE_FILE), 20);
}

/* Active folios are not looked at while there are as many inactive ones; then they feed them. */
static void the_lists_are_kept_in_balance(void **state)
{
	struct scan_test *t = *state;
	struct tenant *a = tenant_new(t, NULL);

	touch_all(a, 0, 100);
	for (uint64_t i = 0; i < 50; i++)
		touch(a, i);
	lru_add_drain_all(t->mm);
	assert_int_equal(size(a, LRU_ACTIVE_FILE), 50);
	assert_int_equal(size(a, LRU_INACTIVE_FILE), 50);
	assert_int_equal(proactive(a, 1) > 0, true);
	assert_int_equal(vm_event_sum(t->mm, PGREFILL), 0);

	assert_int_equal(proactive(a, 1) > 0, true);
	assert_true(vm_event_sum(t->mm, PGREFILL) > 0);
	assert_int_equal(vm_event_sum(t->mm, PGDEACTIVATE), vm_event_sum(t->mm, PGREFILL));
	assert_int_equal(memcg_stat_sum(a->memcg, MEMCG_PGREFILL), vm_event_sum(t->mm, PGREFILL));
	assert_int_equal(size(a, LRU_ACTIVE_FILE), 50 - vm_event_sum(t->mm, PGREFILL));
	/* A list that is all active can be reclaimed as well. */
	touch_all(a, 0, 100);
	touch_all(a, 0, 100);
	assert_int_equal(size(a, LRU_INACTIVE_FILE) < 50, true);
	assert_int_equal(proactive(a, 1000) + 0 >= 100, true);
	assert_int_equal(memcg_usage(a->memcg), 0);
}

/* A folio that was active needs one use to come back, a new one two. */
static void a_second_chance(void **state)
{
	struct scan_test *t = *state;
	struct tenant *a = tenant_new(t, NULL);
	uint64_t moved = 0;

	/* 60 active ones that were used since, and 50 that were used once. */
	touch_all(a, 0, 60);
	touch_all(a, 0, 60);
	touch_all(a, 0, 60);
	touch_all(a, 100, 150);
	assert_int_equal(size(a, LRU_ACTIVE_FILE), 60);
	assert_true(proactive(a, 8) >= 8);
	for (uint64_t i = 0; i < 60; i++) {
		assert_true(cached(a, i));
		if (folio_test(folio_at(a, i), PG_active))
			continue;
		moved++;
		assert_true(folio_test(folio_at(a, i), PG_workingset));
		touch(a, i);
	}
	assert_true(moved > 0);
	lru_add_drain_all(t->mm);
	assert_int_equal(size(a, LRU_ACTIVE_FILE), 60);
}

/* ---- pinned ---- */

static void pinned_pages_are_scanned_once(void **state)
{
	struct scan_test *t = *state;
	struct tenant *a = tenant_new(t, NULL);
	struct folio *pinned[50];
	uint64_t scanned;

	touch_all(a, 0, 50);
	for (unsigned i = 0; i < 50; i++)
		assert_int_equal(filemap_pin(a->obj, i, false, &pinned[i]), 0);
	lru_add_drain_all(t->mm);
	assert_int_equal(proactive(a, 50), 0);
	assert_int_equal(size(a, LRU_UNEVICTABLE), 50);
	assert_int_equal(memcg_evictable(a->memcg), 0);
	scanned = vm_event_sum(t->mm, PGSCAN_PROACTIVE);
	assert_true(scanned <= 100); /* some were active: moved, then looked at */
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(proactive(a, 1), 0);
	assert_int_equal(vm_event_sum(t->mm, PGSCAN_PROACTIVE), scanned);

	folio_put(pinned[7]);
	assert_int_equal(size(a, LRU_UNEVICTABLE), 49);
	assert_int_equal(proactive(a, 50), 1);
	assert_false(cached(a, 7));
	for (unsigned i = 0; i < 50; i++)
		if (i != 7)
			folio_put(pinned[i]);
	assert_int_equal(proactive(a, 50), 49);
}

/* Owned by somebody who does not give it back: not reclaimed, and no reason to go on for ever. */
static void busy_folios_end_the_search(void **state)
{
	struct scan_test *t = *state;
	struct tenant *a = tenant_new(t, NULL);

	touch_all(a, 0, 64);
	for (uint64_t i = 0; i < 64; i++) {
		folio_get(folio_at(a, i));
		assert_true(folio_test_clear_lru(folio_at(a, i)));
	}
	assert_int_equal(proactive(a, 10), 0);
	/* At most a pass over the lists for each priority. */
	assert_true(vm_event_sum(t->mm, PGSCAN_PROACTIVE) <= 64 * (DEF_PRIORITY + 1));
	lruvec_lock(&a->memcg->lruvec[0]);
	for (uint64_t i = 0; i < 64; i++)
		folio_set_lru(folio_at(a, i));
	lruvec_unlock(&a->memcg->lruvec[0]);
	for (uint64_t i = 0; i < 64; i++)
		folio_put(folio_at(a, i));
	assert_int_equal(proactive(a, 64), 64);
}

/* ---- many memcgs ---- */

static void only_the_targets_subtree(void **state)
{
	struct scan_test *t = *state;
	struct tenant *other = tenant_new(t, NULL), *parent = tenant_new(t, NULL);
	struct tenant *child = tenant_new(t, parent->memcg);
	struct tenant *grandchild = tenant_new(t, child->memcg);
	uint64_t got;

	touch_all(other, 0, 300);
	touch_all(parent, 0, 100);
	touch_all(child, 0, 100);
	touch_all(grandchild, 0, 100);
	got = proactive(child, 100);
	assert_true(got >= 100);
	assert_int_equal(nr_cached(other, 0, 300), 300);
	assert_int_equal(nr_cached(parent, 0, 100), 100);
	assert_int_equal(memcg_usage(child->memcg), 200 - got);
	assert_int_equal(proactive(parent, 1000), 300 - got);
	assert_int_equal(nr_cached(other, 0, 300), 300);
}

/* In the long run each pays in proportion to its size, also where a fair share is less than a
 * batch. */
static void each_pays_by_its_size(void **state)
{
	static const uint64_t pages[] = { 1000, 500, 250, 100, 50 };
	struct scan_test *t = *state;
	uint64_t total = 0, lost = 0;

	for (unsigned i = 0; i < 5; i++) {
		touch_all(tenant_new(t, NULL), 0, pages[i]);
		total += pages[i];
	}
	for (unsigned round = 0; round < 200; round++) {
		lost += reclaim_direct(t->mm, SWAP_CLUSTER_MAX);
		for (unsigned i = 0; i < 5; i++)
			for (uint64_t at = 0; at < pages[i]; at++)
				if (!cached(&t->tenant[i], at))
					touch(&t->tenant[i], at);
		lru_add_drain_all(t->mm);
	}
	assert_true(lost >= 200 * SWAP_CLUSTER_MAX);
	for (unsigned i = 0; i < 5; i++) {
		uint64_t paid = memcg_stat_sum(t->tenant[i].memcg, MEMCG_PGSTEAL);
		uint64_t fair = lost * pages[i] / total;

		assert_true(paid <= 2 * fair && 2 * paid >= fair);
	}
	assert_int_equal(vm_event_sum(t->mm, PGSTEAL_DIRECT), lost);
	assert_true(vm_event_sum(t->mm, ALLOCSTALL) > 0);
}

static void a_dead_memcg_does_not_end_the_walk(void **state)
{
	struct scan_test *t = *state;
	struct tenant *a = tenant_new(t, NULL), *b;

	touch_all(a, 0, 200);
	for (unsigned i = 0; i < 20; i++) {
		b = tenant_new(t, NULL);
		touch_all(b, 0, 100);
		assert_true(reclaim_direct(t->mm, 32) >= 32);
		/* It dies with pages left; they are the root's now. */
		object_close(b->obj);
		lru_memcg_destroy(b->memcg);
		t->nr_tenants--;
		assert_true(reclaim_direct(t->mm, 1) >= 1);
		touch_all(a, 0, 200);
	}
}

/* ---- nodes ---- */

static void a_node_is_balanced_by_itself(void **state)
{
	struct scan_test *t = *state;
	struct tenant *a = tenant_new(t, NULL), *b = tenant_new(t, NULL);
	uint64_t before[3];

	/* All memory, on all nodes. */
	for (uint64_t i = 0; mm_nr_free(t->mm) > 0; i++)
		touch(i % 2 ? a : b, i / 2);
	lru_add_drain_all(t->mm);
	for (unsigned node = 0; node < 3; node++)
		before[node] = zone_nr_free(t->mm, &t->mm->node[node].zone);
	assert_true(reclaim_balance_node(&t->mm->node[1]));
	for (unsigned node = 0; node < 3; node++) {
		struct zone *zone = &t->mm->node[node].zone;
		uint64_t now = zone_nr_free(t->mm, zone);

		if (node != 1)
			assert_int_equal(now, before[node]);
		else
			assert_true(now > zone->watermark[WMARK_HIGH] &&
				    now <= zone->watermark[WMARK_HIGH] + 2 * SWAP_CLUSTER_MAX);
	}
	assert_true(vm_event_sum(t->mm, PGSTEAL_KSWAPD) > 0);
	assert_int_equal(vm_event_sum(t->mm, PAGEOUTRUN), 1);
	/* Balanced: nothing to do. */
	before[1] = zone_nr_free(t->mm, &t->mm->node[1].zone);
	assert_true(reclaim_balance_node(&t->mm->node[1]));
	assert_int_equal(zone_nr_free(t->mm, &t->mm->node[1].zone), before[1]);
}

#define scan_test(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
#define node_test(fn)                                         \
	{                                                     \
#fn " (node)", fn, setup_node, teardown, NULL \
	}
#define three_test(fn)                                            \
	{                                                         \
#fn " (3 nodes)", fn, setup_three, teardown, NULL \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		scan_test(the_oldest_go_first),
		node_test(the_oldest_go_first),
		scan_test(what_is_used_twice_stays_longer),
		scan_test(the_lists_are_kept_in_balance),
		scan_test(a_second_chance),
		scan_test(pinned_pages_are_scanned_once),
		scan_test(busy_folios_end_the_search),
		scan_test(only_the_targets_subtree),
		node_test(only_the_targets_subtree),
		scan_test(each_pays_by_its_size),
		scan_test(a_dead_memcg_does_not_end_the_walk),
		three_test(a_dead_memcg_does_not_end_the_walk),
		three_test(a_node_is_balanced_by_itself),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
