/* SPDX-License-Identifier: MIT */
/*
 * An instance up to lru/ and, for tests of the floors above, their part: real pages, real memcgs,
 * no core. What the engine gets from core/slowpath.c comes from lru_get_folios here: it never
 * reclaims, and the test can make it refuse.
 */
#ifndef TESTS_UNIT_LRU_FIXTURE_H
#define TESTS_UNIT_LRU_FIXTURE_H

#include "mm_fixture.h"

#include "lru/lru.h"

/* get_folios refuses with this once `refuse_after` more requests for at least `refuse_from` were
 * granted. */
static struct {
	int error;
	unsigned refuse_after;
	unsigned refuse_from;
	unsigned requests;
} upcall;

static inline int lru_get_folios(struct mm *mm, const struct folio_request *req, struct folio **out)
{
	struct mem_cgroup *over;
	int err;

	upcall.requests++;
	if (upcall.error && req->nr >= upcall.refuse_from && upcall.refuse_after-- == 0) {
		upcall.refuse_after = 0;
		return upcall.error;
	}
	err = memcg_try_charge(req->memcg, req->nr, &over);
	if (err)
		return err;
	for (unsigned i = 0; i < req->nr; i++) {
		out[i] = alloc_folio(mm, req->order, req->type, ALLOC_NO_WATERMARKS);
		assert_non_null(out[i]);
	}
	return 0;
}

static const struct mm_upcalls lru_upcalls = { .get_folios = lru_get_folios };

static inline struct mm *lru_mm_new(uint64_t pages, unsigned nodes, enum umm_lru_lock lru_lock)
{
	struct fixture *f = fixture_new(pages, nodes);
	struct mm *mm = &f->mm;

	memset(&upcall, 0, sizeof(upcall));
	mm->opt.lru_lock = lru_lock;
	mm->up = &lru_upcalls;
	assert_int_equal(mm_arena_init(mm), 0);
	assert_int_equal(page_alloc_init(mm), 0);
	assert_int_equal(memcg_domain_init(mm), 0);
	assert_int_equal(lru_init(mm), 0);
	return mm;
}

/* Nothing may be left: no folio, no memcg but the root, no warning. */
static inline void lru_mm_delete(struct mm *mm)
{
	struct fixture *f = container_of(mm, struct fixture, mm);

	lru_add_drain_all(mm);
	memcg_drain_stock(mm, NULL);
	rcu_flush(&mm->rcu, true);
	if (atomic_load(&mm->nr_warnings))
		print_error("%s\n", f->last_line);
	assert_int_equal(atomic_load(&mm->nr_warnings), 0);
	assert_int_equal(memcg_usage(root_memcg(mm)), 0);
	assert_int_equal(memcg_nr_blocks(mm), 1);
	lru_fini(mm);
	memcg_domain_fini(mm);
	mm_delete(mm);
}

static inline struct mem_cgroup *lru_memcg(struct mm *mm, struct mem_cgroup *parent,
					   const char *name)
{
	struct mem_cgroup *memcg;

	assert_int_equal(memcg_create(mm, parent ? parent : root_memcg(mm), name, &memcg), 0);
	return memcg;
}

static inline void lru_memcg_destroy(struct mem_cgroup *memcg)
{
	assert_int_equal(memcg_mark_dying(memcg), 0);
	lru_reparent(memcg);
	memcg_unlink(memcg);
}

/* ---- folios ---- */

/* Nobody below cache/ looks into a mapping. */
#define SOME_MAPPING ((struct mapping *)(uintptr_t)0x1000)

/* A charged folio with one reference, in no cache and on no list. */
static inline struct folio *folio_new(struct mem_cgroup *memcg, unsigned order)
{
	struct mm *mm = memcg->mm;
	struct mem_cgroup *over;
	struct folio *folio = alloc_folio(mm, order, MIGRATE_MOVABLE, ALLOC_NO_WATERMARKS);

	assert_non_null(folio);
	assert_int_equal(memcg_try_charge(memcg, 1ul << order, &over), 0);
	folio_commit_charge(folio, memcg, MEMCG_FILE);
	return folio;
}

/* As if cached: its one reference is the cache's. On its list. */
static inline struct folio *folio_cached(struct mem_cgroup *memcg, unsigned order)
{
	struct folio *folio = folio_new(memcg, order);

	atomic_store(&folio->mapping, SOME_MAPPING);
	folio_add_lru(memcg->mm, folio);
	lru_add_drain_all(memcg->mm);
	assert_true(folio_test(folio, PG_lru));
	assert_int_equal(folio_ref_count(folio), 1);
	return folio;
}

/* Out of the cache, with its reference. */
static inline void folio_drop(struct folio *folio)
{
	atomic_store(&folio->mapping, NULL);
	folio_put(folio);
}

/* Place on the list, from the head; -1: not there. */
static inline int lru_place(struct lruvec *lruvec, enum lru_list lru, struct folio *wanted)
{
	struct folio *f;
	int at = 0, found = -1;

	lruvec_lock(lruvec);
	list_for_each_entry (f, &lruvec->lists[lru], struct folio, lru) {
		if (f == wanted)
			found = at;
		at++;
	}
	lruvec_unlock(lruvec);
	return found;
}

static inline uint64_t lock_acquisitions(struct mm *mm, enum lock_class class)
{
	struct lock_counts sum;

	lock_class_sum(&mm->threads, class, &sum);
	return atomic_load(&sum.acquisitions);
}

#endif
