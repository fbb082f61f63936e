/* SPDX-License-Identifier: MIT */
/*
 * Per-CPU batches: LRU work on single folios is queued and done for up to FOLIO_BATCH_SIZE at a time, so
 * that lru_lock is taken once for many. A batch belongs to a CPU, not to a thread, and has a lock of
 * its own, so that anybody can drain it.
 *
 * Draining happens under the batch's lock: who gets that lock afterwards knows that all that was queued
 * is on its list. The references of the batch are dropped after it (R40).
 */
#include <string.h>

#include "lru/lru.h"

int lru_init(struct mm *mm)
{
	mm->lru_drain = os_alloc(sizeof(*mm->lru_drain));
	mm->lru_cpu = os_alloc_aligned(CACHE_LINE, mm->nr_cpus * sizeof(*mm->lru_cpu));
	if (!mm->lru_drain || !mm->lru_cpu) {
		lru_fini(mm);
		return -ENOMEM;
	}
	lock_init(&mm->lru_drain->lock, LOCK_DRAIN_ALL);
	for (unsigned cpu = 0; cpu < mm->nr_cpus; cpu++)
		lock_init(&mm->lru_cpu[cpu].lock, LOCK_BATCH);
	return 0;
}

void lru_fini(struct mm *mm)
{
	os_free(mm->lru_cpu);
	os_free(mm->lru_drain);
	mm->lru_cpu = NULL;
	mm->lru_drain = NULL;
}

static struct lru_cpu *this_lru_cpu(struct mm *mm)
{
	return &mm->lru_cpu[os_cpu() % mm->nr_cpus];
}

/* ---- what is done to one folio, under its lru_lock and with PG_lru owned. None of these may test
 * PG_lru: it is clear (R6). ---- */

/* References of a folio that is cached and in the batch, and used by nobody. */
#define REFS_CACHED_AND_QUEUED 2

static void lru_add_one(struct lruvec *lruvec, struct folio *folio)
{
	/* Pinned already: straight out of reclaim's way (LRU-7). */
	if (folio_ref_count(folio) > REFS_CACHED_AND_QUEUED &&
	    atomic_load_explicit(&folio->mapping, memory_order_relaxed))
		folio_cull_pinned(folio);
	lruvec_add_folio(lruvec, folio);
}

static void lru_activate_one(struct lruvec *lruvec, struct folio *folio)
{
	uint64_t nr = folio_nr_pages(folio);

	if (folio_test(folio, PG_active) || folio_test(folio, PG_unevictable))
		return;
	lruvec_del_folio(lruvec, folio);
	folio_set(folio, PG_active);
	lruvec_add_folio(lruvec, folio);
	count_vm_events(lruvec->pgdat->mm, PGACTIVATE, nr);
	memcg_count(lruvec->memcg, MEMCG_PGACTIVATE, (int64_t)nr);
}

static void lru_deactivate_one(struct lruvec *lruvec, struct folio *folio)
{
	uint64_t nr = folio_nr_pages(folio);

	if (!folio_test(folio, PG_active) || folio_test(folio, PG_unevictable))
		return;
	lruvec_del_folio(lruvec, folio);
	folio_clear(folio, PG_active);
	folio_clear(folio, PG_referenced);
	lruvec_add_folio(lruvec, folio);
	count_vm_events(lruvec->pgdat->mm, PGDEACTIVATE, nr);
	memcg_count(lruvec->memcg, MEMCG_PGDEACTIVATE, (int64_t)nr);
}

static void lru_move_tail_one(struct lruvec *lruvec, struct folio *folio)
{
	if (folio_test(folio, PG_unevictable))
		return;
	lruvec_del_folio(lruvec, folio);
	folio_clear(folio, PG_active);
	lruvec_add_folio_tail(lruvec, folio);
	count_vm_events(lruvec->pgdat->mm, PGROTATED, folio_nr_pages(folio));
}

static void lru_cull_one(struct lruvec *lruvec, struct folio *folio)
{
	if (folio_test(folio, PG_unevictable) || folio_ref_count(folio) <= REFS_CACHED_AND_QUEUED ||
	    !atomic_load_explicit(&folio->mapping, memory_order_relaxed))
		return;
	lruvec_del_folio(lruvec, folio);
	folio_cull_pinned(folio);
	lruvec_add_folio(lruvec, folio);
}

static void (*const lru_op_fn[NR_LRU_OPS])(struct lruvec *, struct folio *) = {
	[LRU_OP_ADD] = lru_add_one,
	[LRU_OP_ACTIVATE] = lru_activate_one,
	[LRU_OP_DEACTIVATE] = lru_deactivate_one,
	[LRU_OP_MOVE_TAIL] = lru_move_tail_one,
	[LRU_OP_CULL] = lru_cull_one,
};

/* Bring folios of one lruvec together, keeping their order, so that its lock is taken once. The lruvecs
 * read here are only hints. At most 31 entries, mostly of one memcg: insertion is enough. */
static void batch_group(struct folio_batch *batch)
{
	struct lruvec *key[FOLIO_BATCH_SIZE];

	for (unsigned i = 0; i < batch->nr; i++) {
		struct folio *folio = batch->folio[i];
		struct lruvec *lruvec = folio_lruvec(folio);
		unsigned at = i;

		for (unsigned j = i; j > 0; j--) {
			if (key[j - 1] == lruvec) {
				at = j;
				break;
			}
		}
		memmove(&key[at + 1], &key[at], (i - at) * sizeof(key[0]));
		memmove(&batch->folio[at + 1], &batch->folio[at], (i - at) * sizeof(folio));
		key[at] = lruvec;
		batch->folio[at] = folio;
	}
}

/*
 * Do a batch's work. Caller holds the batch's lock, and drops the references afterwards.
 *
 * Every op but add takes PG_lru here, before the lruvec is looked up: a folio whose memcg or list is
 * being changed by somebody else is theirs, and is skipped (R5).
 */
static void batch_move(struct folio_batch *batch, enum lru_op op)
{
	struct lruvec *lruvec = NULL;

	batch_group(batch);
	for (unsigned i = 0; i < batch->nr; i++) {
		struct folio *folio = batch->folio[i];

		if (op != LRU_OP_ADD && !folio_test_clear_lru(folio))
			continue;
		lruvec = folio_lruvec_relock(folio, lruvec);
		lru_op_fn[op](lruvec, folio);
		folio_set_lru(folio);
	}
	if (lruvec)
		lruvec_unlock(lruvec);
}

/* Drain into `done`, whose references the caller drops once it has unlocked the CPU. */
static void batch_drain_locked(struct mm *mm, struct lru_cpu *cpu, enum lru_op op,
			       struct folio_batch *done)
{
	lock_assert_held(&mm->threads, &cpu->lock);
	batch_move(&cpu->batch[op], op);
	*done = cpu->batch[op];
	cpu->batch[op].nr = 0;
	count_vm_events(mm, LRU_DRAIN, 1);
}

/* Queue a folio, with a reference for the batch. A full batch is drained first, so that what was just
 * queued, and is likely still used by its caller, is not taken for pinned. False: the lock was busy. */
static bool batch_queue(struct mm *mm, struct folio *folio, enum lru_op op, bool wait)
{
	struct lru_cpu *cpu = this_lru_cpu(mm);
	struct folio_batch done = { .nr = 0 };

	if (wait)
		lock_acquire(&mm->threads, &cpu->lock);
	else if (!lock_try(&mm->threads, &cpu->lock, LOCK_NO_TAG))
		return false;
	if (cpu->batch[op].nr == FOLIO_BATCH_SIZE)
		batch_drain_locked(mm, cpu, op, &done);
	folio_get(folio);
	cpu->batch[op].folio[cpu->batch[op].nr++] = folio;
	lock_release(&mm->threads, &cpu->lock);
	folios_put(mm, done.folio, done.nr);
	return true;
}

void folio_add_lru(struct mm *mm, struct folio *folio)
{
	VM_BUG_ON(folio_test(folio, PG_lru));
	batch_queue(mm, folio, LRU_OP_ADD, true);
}

void folios_add_lru(struct folio **folios, unsigned nr)
{
	struct lruvec *lruvec = NULL;

	for (unsigned i = 0; i < nr; i++) {
		VM_BUG_ON(folio_test(folios[i], PG_lru));
		lruvec = folio_lruvec_relock(folios[i], lruvec);
		lru_add_one(lruvec, folios[i]);
		folio_set_lru(folios[i]);
	}
	if (lruvec)
		lruvec_unlock(lruvec);
}

/*
 * A folio that is in no list yet may be waiting in this CPU's add batch: mark it active there. Only
 * this CPU's, under its lock: another CPU's batch may be mid-drain, and the list a folio goes to must
 * not change under it (R24).
 */
static bool mark_active_in_batch(struct mm *mm, struct folio *folio)
{
	struct lru_cpu *cpu = this_lru_cpu(mm);
	struct folio_batch *batch = &cpu->batch[LRU_OP_ADD];
	bool found = false;

	if (!lock_try(&mm->threads, &cpu->lock, LOCK_NO_TAG))
		return false;
	for (unsigned i = batch->nr; i-- > 0 && !found;)
		found = batch->folio[i] == folio;
	if (found)
		folio_set(folio, PG_active);
	lock_release(&mm->threads, &cpu->lock);
	return found;
}

void folio_mark_accessed_slow(struct mm *mm, struct folio *folio)
{
	uint32_t flags = atomic_load_explicit(&folio->flags, memory_order_relaxed);
	bool taken;

	if (!(flags & PG_BIT(PG_referenced))) {
		folio_set(folio, PG_referenced);
		return;
	}
	if (flags & (PG_BIT(PG_active) | PG_BIT(PG_unevictable)))
		return;
	if (flags & PG_BIT(PG_lru))
		taken = batch_queue(mm, folio, LRU_OP_ACTIVATE, false);
	else
		taken = mark_active_in_batch(mm, folio);
	/* Whoever could not queue leaves the mark: the next access tries again. */
	if (taken)
		folio_clear(folio, PG_referenced);
}

/* Only for a folio that is listed: the drain of the add batch looks by itself. */
void folio_queue_cull(struct mm *mm, struct folio *folio)
{
	if (folio_test(folio, PG_lru) && !folio_test(folio, PG_unevictable))
		batch_queue(mm, folio, LRU_OP_CULL, false);
}

void folio_deactivate(struct mm *mm, struct folio *folio)
{
	if (folio_test(folio, PG_active) && !folio_test(folio, PG_unevictable))
		batch_queue(mm, folio, LRU_OP_DEACTIVATE, true);
}

void folio_rotate_reclaimable(struct mm *mm, struct folio *folio)
{
	if (folio_test(folio, PG_lru) && !folio_test(folio, PG_unevictable))
		batch_queue(mm, folio, LRU_OP_MOVE_TAIL, true);
}

static void lru_add_drain_cpu(struct mm *mm, struct lru_cpu *cpu)
{
	for (unsigned op = 0; op < NR_LRU_OPS; op++) {
		struct folio_batch done = { .nr = 0 };

		lock_acquire(&mm->threads, &cpu->lock);
		if (cpu->batch[op].nr)
			batch_drain_locked(mm, cpu, op, &done);
		lock_release(&mm->threads, &cpu->lock);
		folios_put(mm, done.folio, done.nr);
	}
}

void lru_add_drain(struct mm *mm)
{
	lru_add_drain_cpu(mm, this_lru_cpu(mm));
}

/*
 * One drain serves all who asked before it began: callers note the generation, queue on the lock, and
 * leave if a whole drain started since. The generation is raised before the CPUs are visited: raised
 * after, a folio queued behind the visitor's back would be taken for drained (R39).
 */
void lru_add_drain_all(struct mm *mm)
{
	struct lru_drain *drain = mm->lru_drain;
	uint64_t seen;

	seen = atomic_load_explicit(&drain->generation, memory_order_seq_cst);
	lock_acquire(&mm->threads, &drain->lock);
	if (atomic_load_explicit(&drain->generation, memory_order_relaxed) != seen) {
		lock_release(&mm->threads, &drain->lock);
		return;
	}
	atomic_fetch_add_explicit(&drain->generation, 1, memory_order_seq_cst);
	for (unsigned cpu = 0; cpu < mm->nr_cpus; cpu++)
		lru_add_drain_cpu(mm, &mm->lru_cpu[cpu]);
	count_vm_events(mm, LRU_DRAIN_ALL, 1);
	lock_release(&mm->threads, &drain->lock);
}
