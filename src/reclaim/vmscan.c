/* SPDX-License-Identifier: MIT */
/*
 * Where to look for memory, and how hard: passes of rising pressure over memcgs, lists and batches.
 * Every loop here is bounded by a number of passes, of memcgs, or of folios on a list at its start.
 */
#include "reclaim/reclaim.h"

/* At the starting priority a whole walk would look at this many times what is wanted: enough to find
 * it after visiting a part of the memcgs, little enough to stay fair. */
#define WALK_SLACK 4

/* A walk passes a memcg by until it owes so much: several batches, so that what was loaded together is
 * freed together, and frames come back in runs. */
#define VISIT_MIN_PAGES (4 * SWAP_CLUSTER_MAX)

uint64_t memcg_evictable(const struct mem_cgroup *memcg)
{
	uint64_t nr = 0;

	for (unsigned node = 0; node < memcg->mm->nr_nodes; node++)
		for (unsigned lru = 0; lru < LRU_UNEVICTABLE; lru++)
			nr += lruvec_size(&memcg->lruvec[node], lru);
	return nr;
}

static void count_scan(struct scan_control *sc, struct mem_cgroup *memcg, uint64_t scanned,
		       uint64_t reclaimed)
{
	static const enum vm_event vm_scan[] = { PGSCAN_KSWAPD, PGSCAN_DIRECT, PGSCAN_PROACTIVE };
	static const enum vm_event vm_steal[] = { PGSTEAL_KSWAPD, PGSTEAL_DIRECT,
						  PGSTEAL_PROACTIVE };
	static const enum memcg_stat_item cg_scan[] = { MEMCG_PGSCAN_KSWAPD, MEMCG_PGSCAN_DIRECT,
							MEMCG_PGSCAN_PROACTIVE };
	static const enum memcg_stat_item cg_steal[] = { MEMCG_PGSTEAL_KSWAPD, MEMCG_PGSTEAL_DIRECT,
							 MEMCG_PGSTEAL_PROACTIVE };

	sc->nr_scanned += scanned;
	sc->nr_reclaimed += reclaimed;
	count_vm_events(sc->mm, vm_scan[sc->reason], scanned);
	count_vm_events(sc->mm, vm_steal[sc->reason], reclaimed);
	memcg_count(memcg, MEMCG_PGSCAN, (int64_t)scanned);
	memcg_count(memcg, cg_scan[sc->reason], (int64_t)scanned);
	memcg_count(memcg, MEMCG_PGSTEAL, (int64_t)reclaimed);
	memcg_count(memcg, cg_steal[sc->reason], (int64_t)reclaimed);
}

/* Isolate a batch from a list's tail. lruvec->nr_isolated tells others that memory may be on its way. */
static uint64_t isolate_batch(struct lruvec *lruvec, enum lru_list lru, uint64_t nr,
			      struct list_head *taken, uint64_t *nr_scanned)
{
	uint64_t nr_taken;

	list_init(taken);
	lruvec_lock(lruvec);
	nr_taken = lruvec_isolate_folios(lruvec, lru, nr, taken, nr_scanned);
	if (nr_taken)
		atomic_fetch_add_explicit(&lruvec->nr_isolated, (uint32_t)nr_taken,
					  memory_order_relaxed);
	lruvec_unlock(lruvec);
	return nr_taken;
}

static void isolated_done(struct lruvec *lruvec, uint64_t nr_taken)
{
	if (nr_taken)
		atomic_fetch_sub_explicit(&lruvec->nr_isolated, (uint32_t)nr_taken,
					  memory_order_release);
}

static void shrink_inactive_list(struct scan_control *sc, struct lruvec *lruvec, enum lru_list lru,
				 uint64_t nr)
{
	struct list_head taken;
	uint64_t scanned = 0, reclaimed = 0;
	uint64_t nr_taken = isolate_batch(lruvec, lru, nr, &taken, &scanned);

	if (nr_taken) {
		reclaimed = shrink_folio_list(sc->mm, &taken);
		folios_putback_lru(sc->mm, &taken);
	}
	isolated_done(lruvec, nr_taken);
	count_scan(sc, lruvec->memcg, scanned, reclaimed);
}

/*
 * Move a batch from the active tail to the inactive head. PG_referenced stays: one more access, where a
 * new folio needs two, brings the folio back (its second chance).
 */
static void shrink_active_list(struct scan_control *sc, struct lruvec *lruvec, enum lru_list lru,
			       uint64_t nr)
{
	struct list_head taken;
	struct folio *folio;
	uint64_t scanned = 0;
	uint64_t nr_taken = isolate_batch(lruvec, lru, nr, &taken, &scanned);

	list_for_each_entry (folio, &taken, struct folio, lru) {
		folio_clear(folio, PG_active);
		folio_set(folio, PG_workingset);
	}
	folios_putback_lru(sc->mm, &taken);
	isolated_done(lruvec, nr_taken);
	count_vm_events(sc->mm, PGREFILL, scanned);
	count_vm_events(sc->mm, PGDEACTIVATE, nr_taken);
	memcg_count(lruvec->memcg, MEMCG_PGREFILL, (int64_t)scanned);
	memcg_count(lruvec->memcg, MEMCG_PGDEACTIVATE, (int64_t)nr_taken);
}

/* May the active list be shrunk? It may be sqrt(10 * GiB of both) times as long as the inactive one. */
static bool inactive_is_low(const struct lruvec *lruvec, enum lru_list inactive)
{
	uint64_t nr_inactive = lruvec_size(lruvec, inactive);
	uint64_t nr_active = lruvec_size(lruvec, inactive + LRU_ACTIVE);
	uint64_t gib = (nr_inactive + nr_active) >> (30 - PAGE_SHIFT);

	return nr_inactive * (gib ? isqrt(10 * gib) : 1) < nr_active;
}

/*
 * How much of this lruvec to look at. A memcg at its own limit pays at least a batch. In a walk over
 * many, each pays by its size: what a small one's share falls short of VISIT_MIN_PAGES is remembered until
 * it makes that, so that shares are fair and the lock is still taken for whole batches.
 */
static uint64_t lruvec_scan_target(struct scan_control *sc, struct lruvec *lruvec)
{
	uint64_t size = 0, debt, target;

	for (unsigned lru = 0; lru < LRU_UNEVICTABLE; lru++)
		size += lruvec_size(lruvec, lru);
	if (lruvec->memcg == sc->target || sc->priority == 0)
		return max_u64(size >> sc->priority, min_u64(size, SWAP_CLUSTER_MAX));
	debt = atomic_fetch_add_explicit(&lruvec->scan_debt, size, memory_order_relaxed) + size;
	target = debt >> sc->priority;
	if (target < VISIT_MIN_PAGES)
		return 0;
	atomic_store_explicit(&lruvec->scan_debt, 0, memory_order_relaxed);
	return min_u64(target, size);
}

static uint64_t still_to_reclaim(const struct scan_control *sc)
{
	return sc->nr_to_reclaim - min_u64(sc->nr_to_reclaim, sc->nr_reclaimed);
}

/* The lists of one memcg on one node: active ones feed inactive ones, inactive ones are eaten. Never takes
 * more than is still wanted. */
static void shrink_lruvec(struct scan_control *sc, struct lruvec *lruvec)
{
	uint64_t target = lruvec_scan_target(sc, lruvec);

	for (unsigned type = 0; type <= LRU_FILE; type += LRU_FILE) {
		enum lru_list inactive = type, active = type + LRU_ACTIVE;
		uint64_t left = target;

		while (left && lruvec_size(lruvec, inactive) + lruvec_size(lruvec, active)) {
			uint64_t batch = min_u64(left, SWAP_CLUSTER_MAX);

			batch = min_u64(batch, still_to_reclaim(sc));
			if (batch == 0)
				return;
			if (lruvec_size(lruvec, active) && inactive_is_low(lruvec, inactive))
				shrink_active_list(sc, lruvec, active, batch);
			shrink_inactive_list(sc, lruvec, inactive, batch);
			left -= batch;
		}
	}
}

/* A whole walk, in private: kswapd, and callers at their wits' end. */
static void shrink_node_full(struct scan_control *sc, unsigned node)
{
	struct mem_cgroup *memcg = memcg_iter(sc->target, NULL);

	while (memcg) {
		shrink_lruvec(sc, &memcg->lruvec[node]);
		if (!still_to_reclaim(sc)) {
			memcg_iter_break(memcg);
			return;
		}
		memcg = memcg_iter(sc->target, memcg);
	}
}

/* Part of a walk that all callers share: each goes on where the last one stopped, once round at most. */
static void shrink_node_shared(struct scan_control *sc, unsigned node)
{
	uint32_t generation;
	struct mem_cgroup *memcg = memcg_iter_shared(sc->target, node, NULL, &generation);

	while (memcg) {
		shrink_lruvec(sc, &memcg->lruvec[node]);
		if (!still_to_reclaim(sc)) {
			memcg_iter_break(memcg);
			return;
		}
		memcg = memcg_iter_shared(sc->target, node, memcg, &generation);
	}
}

/* A hint: a child made or destroyed at this moment waits for the next call. */
static bool has_no_children(const struct mem_cgroup *memcg)
{
	return atomic_load_explicit(&memcg->nr_children, memory_order_relaxed) == 0;
}

/* Passes below this would look at less than is wanted. */
static int start_priority(uint64_t total, uint64_t nr)
{
	int priority = 0;

	while (priority < DEF_PRIORITY && total >> (priority + 1) >= nr * WALK_SLACK)
		priority++;
	return priority;
}

/* One pass at the current priority over all nodes. True: enough. */
static bool shrink_nodes(struct scan_control *sc, unsigned first, bool leaf)
{
	for (unsigned i = 0; i < sc->mm->nr_nodes; i++) {
		unsigned node = (first + i) % sc->mm->nr_nodes;

		if (leaf)
			shrink_lruvec(sc, &sc->target->lruvec[node]);
		else if (sc->priority)
			shrink_node_shared(sc, node);
		else
			shrink_node_full(sc, node);
		if (!still_to_reclaim(sc))
			return true;
	}
	return false;
}

/*
 * Passes of rising pressure. At priority 0 a pass looks at everything, but may still have moved folios
 * from active to inactive lists that the next one can have: so it goes on there while it has success.
 */
static uint64_t do_try_to_free_pages(struct scan_control *sc, uint64_t total)
{
	unsigned first = mm_local_node(sc->mm);
	bool leaf = has_no_children(sc->target);

	sc->priority = start_priority(total, sc->nr_to_reclaim);
	for (unsigned pass = 0; pass <= DEF_PRIORITY; pass++) {
		uint64_t scanned = sc->nr_scanned, reclaimed = sc->nr_reclaimed;

		if (shrink_nodes(sc, first, leaf))
			break;
		if (sc->priority == 0 && sc->nr_reclaimed == reclaimed)
			break;
		/* A leaf whose lists are empty will not fill while we look harder. */
		if (leaf && sc->nr_scanned == scanned && !memcg_evictable(sc->target))
			break;
		if (sc->priority > 0)
			sc->priority--;
	}
	return sc->nr_reclaimed;
}

uint64_t reclaim_memcg(struct mem_cgroup *target, uint64_t nr, enum reclaim_reason reason)
{
	struct scan_control sc = {
		.mm = target->mm,
		.target = target,
		.reason = reason,
		.nr_to_reclaim = nr,
	};

	if (nr == 0)
		return 0;
	lock_assert_may_sleep(&sc.mm->threads);
	return do_try_to_free_pages(&sc, page_counter_usage(&target->memory));
}

uint64_t reclaim_direct(struct mm *mm, uint64_t nr)
{
	struct scan_control sc = {
		.mm = mm,
		.target = root_memcg(mm),
		.reason = RECLAIM_DIRECT,
		.nr_to_reclaim = max_u64(nr, SWAP_CLUSTER_MAX),
	};

	count_vm_events(mm, ALLOCSTALL, 1);
	return do_try_to_free_pages(&sc, mm->nr_pages - mm_nr_free(mm));
}

static bool node_balanced(struct pgdat *pgdat)
{
	return zone_nr_free(pgdat->mm, &pgdat->zone) > pgdat->zone.watermark[WMARK_HIGH];
}

bool reclaim_balance_node(struct pgdat *pgdat)
{
	struct mm *mm = pgdat->mm;
	struct zone *zone = &pgdat->zone;
	struct scan_control sc = {
		.mm = mm,
		.target = root_memcg(mm),
		.reason = RECLAIM_KSWAPD,
		.nr_to_reclaim = UINT64_MAX,
	};
	uint64_t total = zone->end_pfn - zone->start_pfn;

	count_vm_events(mm, PAGEOUTRUN, 1);
	for (sc.priority = start_priority(total, SWAP_CLUSTER_MAX);
	     sc.priority >= 0 && !node_balanced(pgdat); sc.priority--) {
		uint64_t free = zone_nr_free(mm, zone);
		uint64_t high = zone->watermark[WMARK_HIGH] + 1;

		sc.nr_to_reclaim = sc.nr_reclaimed + (high > free ? high - free : 0);
		shrink_node_full(&sc, pgdat->id);
	}
	return node_balanced(pgdat);
}
