/* SPDX-License-Identifier: MIT */
/*
 * R5: a batch chooses the lock before it owns the folio.
 *
 *   drain (activate, deactivate, rotate)   mover
 *   looks up a's lruvec, waits for it
 *                                          takes PG_lru, unlinks, charges b, puts it on b's list
 *   gets the lock: moves the folio
 *   between a's lists
 *
 * Rule (LRU-3, LRU-6): batch_move takes PG_lru before it looks up the lruvec. Who loses skips the
 * folio.
 */
#include "race.h"

static struct race r;
static struct folio *folio;
static _Atomic bool stop;

static void drainer(void *arg)
{
	(void)arg;
	lru_add_drain_all(r.mm);
}

static void queue(enum lru_op op)
{
	switch (op) {
	case LRU_OP_ACTIVATE:
		folio_mark_accessed(r.mm, folio);
		folio_mark_accessed(r.mm, folio);
		break;
	case LRU_OP_DEACTIVATE: folio_deactivate(r.mm, folio); break;
	default: folio_rotate_reclaimable(r.mm, folio); break;
	}
}

/* The drain stands before a's lock: it must own the folio already. */
static void one_op(enum lru_op op, enum lru_list then)
{
	struct lruvec *a = race_lruvec(r.a), *b = race_lruvec(r.b);
	struct race_thread t;
	bool moved;

	queue(op);
	must(folio_ref_count(folio) == 2);
	lruvec_lock(a);
	race_start(&t, r.mm, drainer, NULL);
	race_wait_for_lock(a->lru_lock);
	moved = race_try_move(folio, a, b);
	lruvec_unlock(a);
	race_join(&t);
	must(!moved);
	must(folio_test(folio, PG_lru) && folio_ref_count(folio) == 1);
	must(race_on_list(a, then, folio));
}

static void batcher(void *arg)
{
	static const enum lru_op ops[] = { LRU_OP_ACTIVATE, LRU_OP_DEACTIVATE, LRU_OP_MOVE_TAIL };

	(void)arg;
	for (unsigned i = 0; !stop; i++) {
		queue(ops[i % 3]);
		lru_add_drain(r.mm);
	}
}

static void mover(void *arg)
{
	(void)arg;
	for (unsigned i = 0; !stop; i++) {
		if (!folio_isolate_lru(folio))
			continue;
		race_recharge(folio, i % 2 ? r.a : r.b);
		folio_putback_lru(folio);
	}
}

int main(void)
{
	static void (*const fn[])(void *) = { batcher, mover, batcher };
	static void *const arg[3];

	race_setup(&r, 256);
	folio = race_read(r.obj, RACE_STORE_ID, 3);
	one_op(LRU_OP_ACTIVATE, LRU_ACTIVE_FILE);
	one_op(LRU_OP_DEACTIVATE, LRU_INACTIVE_FILE);
	one_op(LRU_OP_MOVE_TAIL, LRU_INACTIVE_FILE);

	folio_get(folio);
	race_stress(r.mm, 2, &stop, 3, fn, arg);
	lru_add_drain_all(r.mm);
	must(folio_ref_count(folio) == 2 && folio_test(folio, PG_lru));
	must(vmstat(r.f.mm, "pgactivate") > 1 && vmstat(r.f.mm, "pgdeactivate") > 1);
	must(vmstat(r.f.mm, "pgrotated") > 1);
	folio_put(folio);
	must(memcg_pages(r.a, UMM_MEMORY_CURRENT) + memcg_pages(r.b, UMM_MEMORY_CURRENT) == 1);
	race_finish(&r);
	return 0;
}
