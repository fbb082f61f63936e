/* SPDX-License-Identifier: MIT */
/*
 * Lists, batches, isolating and putting back, pinned folios, last references, the end of a memcg.
 * What threads do to each other here is in tests/races.
 */
#include "lru_fixture.h"

#include <pthread.h>

struct lru_test {
	struct mm *mm;
	struct mem_cgroup *a, *b;
	struct lruvec *va, *vb;
};

static int setup_with(void **state, enum umm_lru_lock lru_lock)
{
	struct lru_test *t = calloc(1, sizeof(*t));

	assert_non_null(t);
	stay_on_this_cpu();
	t->mm = lru_mm_new(1024, 1, lru_lock);
	t->a = lru_memcg(t->mm, NULL, "a");
	t->b = lru_memcg(t->mm, NULL, "b");
	t->va = &t->a->lruvec[0];
	t->vb = &t->b->lruvec[0];
	*state = t;
	return 0;
}

static int setup(void **state)
{
	return setup_with(state, UMM_LRU_LOCK_MEMCG);
}

static int setup_node(void **state)
{
	return setup_with(state, UMM_LRU_LOCK_NODE);
}

static int teardown(void **state)
{
	struct lru_test *t = *state;

	if (t->a)
		lru_memcg_destroy(t->a);
	if (t->b)
		lru_memcg_destroy(t->b);
	lru_mm_delete(t->mm);
	free(t);
	return 0;
}

static void drop_all(struct folio **folio, unsigned nr)
{
	for (unsigned i = 0; i < nr; i++)
		folio_drop(folio[i]);
}

static void assert_sizes(struct lruvec *v, uint64_t inactive, uint64_t active, uint64_t unevictable)
{
	assert_int_equal(lruvec_size(v, LRU_INACTIVE_FILE), inactive);
	assert_int_equal(lruvec_size(v, LRU_ACTIVE_FILE), active);
	assert_int_equal(lruvec_size(v, LRU_UNEVICTABLE), unevictable);
	assert_int_equal(lruvec_size(v, LRU_INACTIVE_ANON) + lruvec_size(v, LRU_ACTIVE_ANON), 0);
}

/* ---- adding ---- */

static void new_folios_go_to_the_inactive_head(void **state)
{
	struct lru_test *t = *state;
	struct folio *folio[3];

	for (unsigned i = 0; i < 3; i++)
		folio[i] = folio_cached(t->a, i);
	assert_sizes(t->va, 1 + 2 + 4, 0, 0);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(lru_place(t->va, LRU_INACTIVE_FILE, folio[i]), 2 - (int)i);
	drop_all(folio, 3);
	assert_sizes(t->va, 0, 0, 0);
}

static void flags_say_the_list(void **state)
{
	struct lru_test *t = *state;
	struct folio *anon = folio_new(t->a, 0), *active = folio_new(t->a, 0);

	folio_set(anon, PG_swapbacked);
	folio_set(active, PG_active);
	assert_int_equal(folio_lru_list(anon), LRU_INACTIVE_ANON);
	assert_int_equal(folio_lru_list(active), LRU_ACTIVE_FILE);
	folio_add_lru(t->mm, anon);
	folio_add_lru(t->mm, active);
	assert_int_equal(lru_place(t->va, LRU_INACTIVE_ANON, anon), -1);
	lru_add_drain(t->mm);
	assert_int_equal(lru_place(t->va, LRU_INACTIVE_ANON, anon), 0);
	assert_int_equal(lru_place(t->va, LRU_ACTIVE_FILE, active), 0);
	assert_int_equal(lruvec_size(t->va, LRU_INACTIVE_ANON), 1);
	folio_put(anon);
	folio_put(active);
}

/* A batch drains when one more comes than it holds; then the lock is taken once for all of it. */
static void a_full_batch_takes_the_lock_once(void **state)
{
	struct lru_test *t = *state;
	struct folio *folio[FOLIO_BATCH_SIZE + 1];
	uint64_t locked, drains = vm_event_sum(t->mm, LRU_DRAIN);

	for (unsigned i = 0; i < FOLIO_BATCH_SIZE; i++) {
		folio[i] = folio_new(i % 2 ? t->a : t->b, 0);
		folio_add_lru(t->mm, folio[i]);
		assert_int_equal(folio_ref_count(folio[i]), 2);
	}
	assert_sizes(t->va, 0, 0, 0);
	folio[FOLIO_BATCH_SIZE] = folio_new(t->a, 0);
	locked = lock_acquisitions(t->mm, LOCK_LRUVEC);
	folio_add_lru(t->mm, folio[FOLIO_BATCH_SIZE]);
	/* Folios of one lruvec are brought together: one acquisition each, or one for the node's
	 * lock. */
	assert_int_equal(lock_acquisitions(t->mm, LOCK_LRUVEC) - locked,
			 t->mm->opt.lru_lock == UMM_LRU_LOCK_NODE ? 1 : 2);
	assert_int_equal(vm_event_sum(t->mm, LRU_DRAIN), drains + 1);
	assert_sizes(t->va, 15, 0, 0);
	assert_sizes(t->vb, 16, 0, 0);
	/* In the order in which they came. */
	assert_int_equal(lru_place(t->va, LRU_INACTIVE_FILE, folio[1]), 14);
	assert_int_equal(lru_place(t->va, LRU_INACTIVE_FILE, folio[29]), 0);
	assert_int_equal(lru_place(t->vb, LRU_INACTIVE_FILE, folio[0]), 15);
	assert_int_equal(folio_ref_count(folio[0]), 1);
	assert_int_equal(folio_ref_count(folio[FOLIO_BATCH_SIZE]), 2);
	folios_put(t->mm, folio, FOLIO_BATCH_SIZE + 1);
	lru_add_drain(t->mm);
}

static void a_run_is_added_under_one_lock(void **state)
{
	struct lru_test *t = *state;
	struct folio *folio[40];
	uint64_t locked;

	for (unsigned i = 0; i < 40; i++) {
		folio[i] = folio_new(t->a, 0);
		atomic_store(&folio[i]->mapping, SOME_MAPPING);
		folio_get(folio[i]);
	}
	folio_get(folio[7]); /* somebody has it pinned already */
	locked = lock_acquisitions(t->mm, LOCK_LRUVEC);
	folios_add_lru(folio, 40);
	assert_int_equal(lock_acquisitions(t->mm, LOCK_LRUVEC) - locked, 1);
	assert_sizes(t->va, 39, 0, 1);
	assert_int_equal(lru_place(t->va, LRU_UNEVICTABLE, folio[7]), 0);
	folios_put(t->mm, folio, 40);
	folio_put(folio[7]);
	assert_sizes(t->va, 40, 0, 0);
	drop_all(folio, 40);
}

/* ---- use ---- */

static void the_second_use_activates(void **state)
{
	struct lru_test *t = *state;
	struct folio *folio = folio_cached(t->a, 1);

	folio_mark_accessed(t->mm, folio);
	assert_true(folio_test(folio, PG_referenced));
	assert_int_equal(folio_ref_count(folio), 1);
	folio_mark_accessed(t->mm, folio);
	assert_false(folio_test(folio, PG_referenced));
	assert_int_equal(folio_ref_count(folio), 2); /* queued */
	assert_sizes(t->va, 2, 0, 0);
	lru_add_drain(t->mm);
	assert_sizes(t->va, 0, 2, 0);
	assert_int_equal(folio_ref_count(folio), 1);
	assert_int_equal(vm_event_sum(t->mm, PGACTIVATE), 2);
	assert_int_equal(memcg_stat_sum(t->a, MEMCG_PGACTIVATE), 2);

	/* Of an active one the use is noted, and nothing queued. */
	folio_mark_accessed(t->mm, folio);
	folio_mark_accessed(t->mm, folio);
	assert_true(folio_test(folio, PG_referenced) && folio_test(folio, PG_active));
	assert_int_equal(folio_ref_count(folio), 1);
	folio_drop(folio);
}

/* Used twice before it is on a list: it goes to the active one at once. */
static void a_use_in_the_own_batch_activates(void **state)
{
	struct lru_test *t = *state;
	struct folio *folio = folio_new(t->a, 0);

	folio_add_lru(t->mm, folio);
	folio_mark_accessed(t->mm, folio);
	assert_false(folio_test(folio, PG_active));
	folio_mark_accessed(t->mm, folio);
	assert_true(folio_test(folio, PG_active) && !folio_test(folio, PG_referenced));
	lru_add_drain(t->mm);
	assert_sizes(t->va, 0, 1, 0);
	folio_put(folio);

	/* On no list and in no batch of ours: the mark stays for the next time. */
	folio = folio_new(t->a, 0);
	folio_mark_accessed(t->mm, folio);
	folio_mark_accessed(t->mm, folio);
	assert_true(folio_test(folio, PG_referenced) && !folio_test(folio, PG_active));
	folio_put(folio);
}

static void use_of_a_pinned_one_changes_nothing(void **state)
{
	struct lru_test *t = *state;
	struct folio *folio = folio_cached(t->a, 0);

	folio_get(folio);
	assert_true(folio_isolate_lru(folio));
	folio_cull_pinned(folio);
	folio_putback_lru(folio);
	for (unsigned i = 0; i < 3; i++)
		folio_mark_accessed(t->mm, folio);
	folio_deactivate(t->mm, folio);
	folio_rotate_reclaimable(t->mm, folio);
	assert_int_equal(folio_ref_count(folio), 2);
	assert_sizes(t->va, 0, 0, 1);
	folio_put(folio);
	folio_drop(folio);
}

static void deactivation_and_rotation(void **state)
{
	struct lru_test *t = *state;
	struct folio *folio[3];

	for (unsigned i = 0; i < 3; i++)
		folio[i] = folio_cached(t->a, 0);
	folio_mark_accessed(t->mm, folio[0]);
	folio_mark_accessed(t->mm, folio[0]);
	lru_add_drain(t->mm);
	folio_mark_accessed(t->mm, folio[0]);
	assert_sizes(t->va, 2, 1, 0);

	folio_deactivate(t->mm, folio[0]);
	folio_deactivate(t->mm, folio[1]); /* is not active */
	lru_add_drain(t->mm);
	assert_int_equal(lru_place(t->va, LRU_INACTIVE_FILE, folio[0]), 0);
	assert_false(folio_test(folio[0], PG_referenced));
	assert_int_equal(vm_event_sum(t->mm, PGDEACTIVATE), 1);
	assert_int_equal(memcg_stat_sum(t->a, MEMCG_PGDEACTIVATE), 1);

	folio_rotate_reclaimable(t->mm, folio[0]);
	lru_add_drain(t->mm);
	assert_int_equal(lru_place(t->va, LRU_INACTIVE_FILE, folio[0]), 2);
	assert_int_equal(vm_event_sum(t->mm, PGROTATED), 1);

	/* An active one loses that by rotation. */
	folio_mark_accessed(t->mm, folio[2]);
	folio_mark_accessed(t->mm, folio[2]);
	lru_add_drain(t->mm);
	folio_rotate_reclaimable(t->mm, folio[2]);
	lru_add_drain(t->mm);
	assert_int_equal(lru_place(t->va, LRU_INACTIVE_FILE, folio[2]), 2);
	assert_sizes(t->va, 3, 0, 0);
	drop_all(folio, 3);
}

/* Queued for both: the add batch's order does not matter, the ops run one after the other. */
static void queued_twice(void **state)
{
	struct lru_test *t = *state;
	struct folio *folio = folio_cached(t->a, 0);

	folio_mark_accessed(t->mm, folio);
	folio_mark_accessed(t->mm, folio);
	folio_rotate_reclaimable(t->mm, folio);
	assert_int_equal(folio_ref_count(folio), 3);
	lru_add_drain(t->mm);
	assert_int_equal(folio_ref_count(folio), 1);
	assert_sizes(t->va, 1, 0, 0);
	folio_drop(folio);
}

/* ---- isolating ---- */

static void isolate_and_put_back(void **state)
{
	struct lru_test *t = *state;
	struct folio *folio = folio_cached(t->a, 2), *unlisted = folio_new(t->a, 0);

	folio_get(folio);
	assert_true(folio_isolate_lru(folio));
	assert_int_equal(folio_ref_count(folio), 3);
	assert_false(folio_test(folio, PG_lru));
	assert_sizes(t->va, 0, 0, 0);
	assert_false(folio_isolate_lru(folio));
	assert_int_equal(folio_ref_count(folio), 3);
	folio_set(folio, PG_active); /* the owner may */
	folio_putback_lru(folio);
	assert_int_equal(folio_ref_count(folio), 2);
	assert_sizes(t->va, 0, 4, 0);
	folio_put(folio);
	folio_drop(folio);

	assert_false(folio_isolate_lru(unlisted));
	assert_int_equal(folio_ref_count(unlisted), 1);
	folio_put(unlisted);
}

/* An isolated folio whose other references go is freed by the putback. */
static void putback_of_the_last_reference_frees(void **state)
{
	struct lru_test *t = *state;
	struct folio *folio = folio_cached(t->a, 0);

	folio_get(folio);
	assert_true(folio_isolate_lru(folio));
	folio_put(folio);
	folio_drop(folio);
	assert_int_equal(folio_ref_count(folio), 1);
	folio_putback_lru(folio);
	assert_int_equal(folio_ref_count(folio), 0);
	assert_int_equal(memcg_usage(t->a), 0);
}

static void a_scan_takes_the_tail(void **state)
{
	struct lru_test *t = *state;
	struct folio *folio[8];
	struct list_head taken;
	uint64_t scanned;

	for (unsigned i = 0; i < 8; i++)
		folio[i] = folio_cached(t->a, 0);
	folio_get(folio[1]);
	assert_true(folio_test_clear_lru(folio[1])); /* owned by somebody */
	list_init(&taken);
	lruvec_lock(t->va);
	assert_int_equal(lruvec_isolate_folios(t->va, LRU_INACTIVE_FILE, 3, &taken, &scanned), 2);
	assert_int_equal(scanned, 3);
	assert_int_equal(lruvec_isolate_folios(t->va, LRU_ACTIVE_FILE, 3, &taken, &scanned), 0);
	assert_int_equal(scanned, 0);
	lruvec_unlock(t->va);
	assert_sizes(t->va, 6, 0, 0);
	assert_int_equal(lru_place(t->va, LRU_INACTIVE_FILE, folio[1]), 0);
	assert_int_equal(lru_place(t->va, LRU_INACTIVE_FILE, folio[0]), -1);
	assert_int_equal(lru_place(t->va, LRU_INACTIVE_FILE, folio[2]), -1);
	assert_int_equal(lru_place(t->va, LRU_INACTIVE_FILE, folio[3]), 5);
	assert_int_equal(folio_ref_count(folio[0]), 2);
	assert_int_equal(folio_ref_count(folio[1]), 2);

	lruvec_lock(t->va);
	folio_set_lru(folio[1]);
	lruvec_unlock(t->va);
	folio_put(folio[1]);
	folios_putback_lru(t->mm, &taken);
	assert_true(list_empty(&taken));
	assert_sizes(t->va, 8, 0, 0);
	assert_int_equal(lru_place(t->va, LRU_INACTIVE_FILE, folio[3]), 7);
	drop_all(folio, 8);
}

/* More than the 32 that are put back under one lock. */
static void putback_of_many(void **state)
{
	struct lru_test *t = *state;
	struct folio *folio[80];
	struct list_head taken;
	uint64_t scanned;

	for (unsigned i = 0; i < 80; i++)
		folio[i] = folio_cached(i % 3 ? t->a : t->b, 0);
	list_init(&taken);
	lruvec_lock(t->va);
	assert_int_equal(lruvec_isolate_folios(t->va, LRU_INACTIVE_FILE, 999, &taken, &scanned),
			 53);
	lruvec_unlock(t->va);
	lruvec_lock(t->vb);
	assert_int_equal(lruvec_isolate_folios(t->vb, LRU_INACTIVE_FILE, 999, &taken, &scanned),
			 27);
	lruvec_unlock(t->vb);
	folios_putback_lru(t->mm, &taken);
	assert_sizes(t->va, 53, 0, 0);
	assert_sizes(t->vb, 27, 0, 0);
	for (unsigned i = 0; i < 80; i++)
		assert_int_equal(folio_ref_count(folio[i]), 1);
	drop_all(folio, 80);
}

/* ---- pinned ---- */

static void pinned_when_it_is_added(void **state)
{
	struct lru_test *t = *state;
	struct folio *folio = folio_new(t->a, 0), *uncached = folio_new(t->a, 0);

	atomic_store(&folio->mapping, SOME_MAPPING);
	folio_get(folio);
	folio_get(uncached); /* on its way out of the cache: not worth a mark */
	folio_add_lru(t->mm, folio);
	folio_add_lru(t->mm, uncached);
	lru_add_drain(t->mm);
	assert_sizes(t->va, 1, 0, 1);
	assert_true(folio_test(folio, PG_pinned) && folio_test(folio, PG_unevictable));
	assert_false(folio_test(uncached, PG_pinned));
	assert_int_equal(vm_event_sum(t->mm, UNEVICTABLE_PGCULLED), 1);
	folio_put(uncached);
	folio_put(uncached);

	folio_get(folio); /* two pins */
	folio_put(folio);
	assert_sizes(t->va, 0, 0, 1);
	folio_put(folio);
	assert_sizes(t->va, 1, 0, 0);
	assert_false(folio_test(folio, PG_pinned) || folio_test(folio, PG_unevictable));
	assert_int_equal(vm_event_sum(t->mm, UNEVICTABLE_PGRESCUED), 1);
	folio_drop(folio);
}

/* Culled while isolated; the last pin goes before the folio is put back, so nobody else can
 * rescue it. */
static void unpinned_while_it_is_isolated(void **state)
{
	struct lru_test *t = *state;
	struct folio *folio[2];
	struct list_head taken;

	for (unsigned many = 0; many < 2; many++) {
		folio[many] = folio_cached(t->a, 0);
		folio_get(folio[many]);
		assert_true(folio_isolate_lru(folio[many]));
		folio_set(folio[many], PG_active);
		folio_cull_pinned(folio[many]);
		assert_false(folio_test(folio[many], PG_active));
		folio_put(folio[many]);
		assert_true(folio_test(folio[many], PG_pinned));
		if (many) {
			list_init(&taken);
			list_add(&folio[many]->lru, &taken);
			folios_putback_lru(t->mm, &taken);
		} else {
			folio_putback_lru(folio[many]);
		}
		assert_int_equal(folio_ref_count(folio[many]), 1);
		assert_false(folio_test(folio[many], PG_pinned));
		assert_int_equal(lru_place(t->va, LRU_INACTIVE_FILE, folio[many]), 0);
	}
	assert_sizes(t->va, 2, 0, 0);
	assert_int_equal(vm_event_sum(t->mm, UNEVICTABLE_PGRESCUED), 2);
	drop_all(folio, 2);
}

/* Out of the cache first, then the last pin: freed off the unevictable list, with no mark left. */
static void a_pinned_folio_can_be_dropped(void **state)
{
	struct lru_test *t = *state;
	struct folio *folio = folio_cached(t->a, 0);

	folio_get(folio);
	folio_get(folio);
	assert_true(folio_isolate_lru(folio));
	folio_cull_pinned(folio);
	folio_putback_lru(folio);
	assert_sizes(t->va, 0, 0, 1);
	folio_drop(folio);
	assert_int_equal(folio_ref_count(folio), 2);
	folio_put(folio);
	folio_put(folio);
	assert_int_equal(folio_ref_count(folio), 0);
	assert_sizes(t->va, 0, 0, 0);
	assert_int_equal(memcg_usage(t->a), 0);
}

/* ---- last references ---- */

static void bulk_put_frees_what_is_last(void **state)
{
	struct lru_test *t = *state;
	struct folio *folio[100];
	uint64_t locked;

	for (unsigned i = 0; i < 100; i++) {
		folio[i] = folio_cached(i < 50 ? t->a : t->b, 0);
		atomic_store(&folio[i]->mapping, NULL);
		if (i % 10 == 0)
			folio_get(folio[i]);
	}
	locked = lock_acquisitions(t->mm, LOCK_LRUVEC);
	folios_put(t->mm, folio, 100);
	/* One acquisition for a run, but no more than 32 are freed at a time. */
	assert_true(lock_acquisitions(t->mm, LOCK_LRUVEC) - locked <= 5);
	assert_sizes(t->va, 5, 0, 0);
	assert_sizes(t->vb, 5, 0, 0);
	assert_int_equal(memcg_usage(t->a), 5);
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(folio_ref_count(folio[i]), i % 10 == 0);
	for (unsigned i = 0; i < 100; i += 10)
		folio_put(folio[i]);
	assert_int_equal(memcg_usage(root_memcg(t->mm)), 0);
}

/* ---- the end of a memcg ---- */

static void a_dead_memcgs_lists_go_to_the_parents_tails(void **state)
{
	struct lru_test *t = *state;
	struct mem_cgroup *child = lru_memcg(t->mm, t->a, "child");
	struct mem_cgroup *grandchild = lru_memcg(t->mm, child, "grandchild");
	struct folio *own = folio_cached(t->a, 0), *folio[3];

	folio[0] = folio_cached(grandchild, 1);
	folio[1] = folio_cached(grandchild, 0);
	folio_mark_accessed(t->mm, folio[1]);
	folio_mark_accessed(t->mm, folio[1]);
	lru_add_drain(t->mm);
	folio[2] = folio_cached(child, 0);
	folio_get(folio[2]);
	assert_true(folio_isolate_lru(folio[2]));
	folio_cull_pinned(folio[2]);
	folio_putback_lru(folio[2]);

	lru_memcg_destroy(grandchild);
	assert_sizes(&child->lruvec[0], 2, 1, 1);
	assert_ptr_equal(folio_lruvec(folio[0]), &child->lruvec[0]);
	lru_memcg_destroy(child);
	assert_sizes(t->va, 3, 1, 1);
	for (unsigned i = 0; i < 3; i++)
		assert_ptr_equal(folio_lruvec(folio[i]), t->va);
	assert_int_equal(lru_place(t->va, LRU_INACTIVE_FILE, own), 0);
	assert_int_equal(lru_place(t->va, LRU_INACTIVE_FILE, folio[0]), 1);

	/* They go on as the parent's: rescue, batches, release. */
	folio_put(folio[2]);
	assert_sizes(t->va, 4, 1, 0);
	folio_deactivate(t->mm, folio[1]);
	lru_add_drain(t->mm);
	assert_sizes(t->va, 5, 0, 0);
	assert_int_equal(memcg_usage(t->a), 5);
	drop_all(folio, 3);
	folio_drop(own);
	assert_int_equal(memcg_usage(t->a), 0);
}

/* What is in a batch, or isolated, when its memcg goes, finds the parent afterwards. */
static void a_memcg_dies_while_folios_are_elsewhere(void **state)
{
	struct lru_test *t = *state;
	struct mem_cgroup *child = lru_memcg(t->mm, t->a, "child");
	struct folio *batched = folio_new(child, 0), *isolated = folio_cached(child, 0);

	folio_add_lru(t->mm, batched);
	folio_get(isolated);
	assert_true(folio_isolate_lru(isolated));
	lru_memcg_destroy(child);
	lru_add_drain(t->mm);
	assert_int_equal(lru_place(t->va, LRU_INACTIVE_FILE, batched), 0);
	folio_putback_lru(isolated);
	assert_int_equal(lru_place(t->va, LRU_INACTIVE_FILE, isolated), 0);
	assert_sizes(t->va, 2, 0, 0);
	folio_put(isolated);
	folio_drop(isolated);
	folio_put(batched);
}

/* ---- draining all ---- */

#define NR_DRAINERS 8
#define NR_DRAINS 200

static void *drain_main(void *arg)
{
	struct mm *mm = arg;

	VM_BUG_ON(threads_enter(&mm->threads));
	for (unsigned i = 0; i < NR_DRAINS; i++)
		lru_add_drain_all(mm);
	return NULL;
}

/* One drain serves all who asked before it began: never more than were asked for, and never
 * none. */
static void drains_are_shared(void **state)
{
	struct lru_test *t = *state;
	pthread_t thread[NR_DRAINERS];
	uint64_t before = vm_event_sum(t->mm, LRU_DRAIN_ALL), drains;

	for (unsigned i = 0; i < NR_DRAINERS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, drain_main, t->mm), 0);
	for (unsigned i = 0; i < NR_DRAINERS; i++)
		assert_int_equal(pthread_join(thread[i], NULL), 0);
	drains = vm_event_sum(t->mm, LRU_DRAIN_ALL) - before;
	assert_true(drains >= NR_DRAINS && drains <= NR_DRAINERS * NR_DRAINS);
}

#define lru_test(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
#define node_test(fn)                                         \
	{                                                     \
#fn " (node)", fn, setup_node, teardown, NULL \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		lru_test(new_folios_go_to_the_inactive_head),
		lru_test(flags_say_the_list),
		lru_test(a_full_batch_takes_the_lock_once),
		node_test(a_full_batch_takes_the_lock_once),
		lru_test(a_run_is_added_under_one_lock),
		lru_test(the_second_use_activates),
		lru_test(a_use_in_the_own_batch_activates),
		lru_test(use_of_a_pinned_one_changes_nothing),
		lru_test(deactivation_and_rotation),
		lru_test(queued_twice),
		lru_test(isolate_and_put_back),
		lru_test(putback_of_the_last_reference_frees),
		lru_test(a_scan_takes_the_tail),
		lru_test(putback_of_many),
		node_test(putback_of_many),
		lru_test(pinned_when_it_is_added),
		lru_test(unpinned_while_it_is_isolated),
		lru_test(a_pinned_folio_can_be_dropped),
		lru_test(bulk_put_frees_what_is_last),
		node_test(bulk_put_frees_what_is_last),
		lru_test(a_dead_memcgs_lists_go_to_the_parents_tails),
		node_test(a_dead_memcgs_lists_go_to_the_parents_tails),
		lru_test(a_memcg_dies_while_folios_are_elsewhere),
		node_test(a_memcg_dies_while_folios_are_elsewhere),
		lru_test(drains_are_shared),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
