/* SPDX-License-Identifier: MIT */
/*
 * An allocation under pressure: charge first, then frames, reclaiming for either. The only place that
 * decides between trying again and refusing, and with which error.
 *
 *   charge refused -> reclaim the memcg whose limit stands in the way -> drain batches -> refuse
 *   no free frame  -> wake kswapd -> reclaim anybody -> drain batches -> the last frames -> refuse
 */
#include "core/core.h"

/* Rounds of reclaim without any progress before a refusal, and rounds in all: others may take what we
 * reclaimed, but not for ever. */
#define MAX_RECLAIM_RETRIES 16
#define MAX_RECLAIM_ROUNDS 256
/* Reclaim frees pages here and there: for a contiguous piece it helps only so much. */
#define MAX_HIGH_ORDER_ROUNDS 16

/* Pages a shrink asks of reclaim at a time. */
#define MAX_SHRINK_PAGES 1024

/* Reclaim in batches where the limit is large; a small memcg must not lose half its cache to one miss. */
static uint64_t reclaim_batch(struct mem_cgroup *over, uint64_t nr)
{
	uint64_t max = atomic_load_explicit(&over->memory.max, memory_order_relaxed);

	return max_u64(nr, min_u64(SWAP_CLUSTER_MAX, max / 16));
}

/* Has somebody isolated pages of the memcg or a descendant at this moment? */
static bool memcg_reclaim_in_flight(struct mem_cgroup *memcg)
{
	struct mem_cgroup *pos = memcg_iter(memcg, NULL);

	for (; pos; pos = memcg_iter(memcg, pos)) {
		for (unsigned node = 0; node < memcg->mm->nr_nodes; node++) {
			if (atomic_load_explicit(&pos->lruvec[node].nr_isolated,
						 memory_order_acquire)) {
				memcg_iter_break(pos);
				return true;
			}
		}
	}
	return false;
}

/*
 * Nothing could be reclaimed for `nr` pages below `max`. If there is a cache, or one being loaded, and
 * dropping it would make room, then it is in use at this moment: -EBUSY. What others have charged and not
 * bound yet says nothing.
 */
static int refusal(struct mem_cgroup *over, uint64_t max, uint64_t nr)
{
	uint64_t cache = memcg_stat_sum(over, MEMCG_FILE) + memcg_stat_sum(over, MEMCG_LOADING);

	return cache && memcg_stat_sum(over, MEMCG_KERNEL) + nr <= max ? -EBUSY : -ENOMEM;
}

/* The same for a charge or an allocation, which is an event unless nobody has to hear of it. */
static int refuse(const struct folio_request *req, struct mem_cgroup *over, uint64_t max,
		  uint64_t nr)
{
	int err = refusal(over, max, nr);

	if (!req->optional)
		memcg_count_event(over, err == -EBUSY ? MEMCG_EV_PINNED : MEMCG_EV_OOM, 1);
	return err;
}

/* A caller had success: no node is hopeless any more. */
static void kswapd_hope(struct mm *mm)
{
	for (unsigned node = 0; node < mm->nr_nodes; node++)
		atomic_store_explicit(&mm->node[node].kswapd.failures, 0, memory_order_relaxed);
}

/*
 * One round for a memcg at its limit. True: worth another try. `dry` counts rounds without progress:
 * the first brings in what waits in batches, the others give way to whoever is reclaiming.
 */
static bool reclaim_round(struct mem_cgroup *over, uint64_t nr, unsigned *dry)
{
	if (reclaim_memcg(over, reclaim_batch(over, nr), RECLAIM_DIRECT)) {
		*dry = 0;
		kswapd_hope(over->mm);
		return true;
	}
	if ((*dry)++ == 0) {
		lru_add_drain_all(over->mm);
		return true;
	}
	if (*dry > MAX_RECLAIM_RETRIES || !memcg_reclaim_in_flight(over))
		return false;
	os_yield();
	return true;
}

/* What is left when reclaim has nothing more to give: another look, since somebody else's may have ended
 * meanwhile, then a refusal. */
static int charge_or_refuse(const struct folio_request *req, uint64_t nr)
{
	struct mem_cgroup *over;
	int err = memcg_try_charge(req->memcg, nr, &over);

	if (err != -ENOMEM)
		return err;
	return refuse(req, over, atomic_load_explicit(&over->memory.max, memory_order_relaxed), nr);
}

static int charge_pages(const struct folio_request *req, uint64_t nr)
{
	struct mem_cgroup *memcg = req->memcg, *over = NULL;
	unsigned dry = 0;
	int err;

	for (unsigned round = 0;; round++) {
		err = memcg_try_charge(memcg, nr, &over);
		if (err != -ENOMEM)
			return err;
		if (req->nowait)
			return -EAGAIN;
		if (round == 0 && !req->optional)
			memcg_count_event(over, MEMCG_EV_MAX, 1);
		if (nr > atomic_load_explicit(&over->memory.max, memory_order_relaxed) ||
		    round == MAX_RECLAIM_ROUNDS || !reclaim_round(over, nr, &dry))
			return charge_or_refuse(req, nr);
	}
}

static void wake_all_kswapd(struct mm *mm)
{
	for (unsigned node = 0; node < mm->nr_nodes; node++)
		wakeup_kswapd(&mm->node[node]);
}

/* Allocate what is still missing, at one level of the watermarks. Returns folios had in all. */
static unsigned alloc_more(struct mm *mm, const struct folio_request *req, int alloc_flags,
			   unsigned have, struct folio **out)
{
	if (req->order == 0)
		return have +
		       alloc_folios_bulk(mm, req->type, alloc_flags, req->nr - have, out + have);
	while (have < req->nr) {
		out[have] = alloc_folio(mm, req->order, req->type, alloc_flags);
		if (!out[have])
			break;
		have++;
	}
	return have;
}

/* WMARK_MIN is where callers begin to reclaim, not a hard reserve: nothing below us needs pages to free
 * pages. So the last try may take the last frame. */
static int alloc_frames(struct mm *mm, const struct folio_request *req, struct folio **out)
{
	unsigned have = alloc_more(mm, req, ALLOC_WMARK_LOW, 0, out);
	unsigned rounds = req->order ? MAX_HIGH_ORDER_ROUNDS : MAX_RECLAIM_ROUNDS;
	uint64_t missing;
	unsigned dry = 0;

	if (have < req->nr) {
		wake_all_kswapd(mm);
		have = alloc_more(mm, req, ALLOC_WMARK_MIN, have, out);
	}
	for (unsigned round = 0; have < req->nr && !req->nowait && round < rounds; round++) {
		missing = (uint64_t)(req->nr - have) << req->order;
		if (reclaim_direct(mm, missing)) {
			dry = 0;
			kswapd_hope(mm);
		} else if (dry++ == 0) {
			lru_add_drain_all(mm);
		} else if (dry <= MAX_RECLAIM_RETRIES && memcg_reclaim_in_flight(root_memcg(mm))) {
			os_yield();
		} else {
			break;
		}
		have = alloc_more(mm, req, dry ? ALLOC_NO_WATERMARKS : ALLOC_WMARK_MIN, have, out);
	}
	if (have < req->nr)
		have = alloc_more(mm, req, ALLOC_NO_WATERMARKS, have, out);
	if (have == req->nr)
		return 0;
	/* A stale pointer's holder may have a reference too: the last to go frees the frame. */
	folios_put(mm, out, have);
	if (req->nowait)
		return -EAGAIN;
	if (req->order && mm_nr_free(mm) >= (uint64_t)req->nr << req->order) {
		memcg_count_event(root_memcg(mm), MEMCG_EV_OOM, 1);
		return -ENOMEM; /* enough is free, but not in one piece */
	}
	return refuse(req, root_memcg(mm), mm->nr_pages, (uint64_t)req->nr << req->order);
}

int slowpath_get_folios(struct mm *mm, const struct folio_request *req, struct folio **out)
{
	uint64_t nr = (uint64_t)req->nr << req->order;
	bool load = req->type == MIGRATE_MOVABLE;
	int err = charge_pages(req, nr);

	if (err)
		return err;
	if (load)
		memcg_count(req->memcg, MEMCG_LOADING, (int64_t)nr);
	err = alloc_frames(mm, req, out);
	if (err) {
		if (load)
			memcg_count(req->memcg, MEMCG_LOADING, -(int64_t)nr);
		memcg_cancel_charge(req->memcg, nr);
	}
	return err;
}

/* The bound on a shrink: readers may bring pages back while we work, but not without end. */
#define SHRINK_SLACK 4

int slowpath_shrink_to(struct mem_cgroup *memcg, uint64_t max)
{
	uint64_t usage = memcg_usage(memcg);
	uint64_t budget = SWAP_CLUSTER_MAX + SHRINK_SLACK * (usage > max ? usage - max : 0);
	unsigned dry = 0;

	for (uint64_t freed, spent = 0; usage > max; usage = memcg_usage(memcg)) {
		freed = reclaim_memcg(memcg, min_u64(usage - max, MAX_SHRINK_PAGES),
				      RECLAIM_DIRECT);
		spent += freed;
		if (freed)
			dry = 0;
		else if (dry++ == 0)
			lru_add_drain_all(memcg->mm);
		else if (dry > MAX_RECLAIM_RETRIES || !memcg_reclaim_in_flight(memcg))
			return refusal(memcg, max, 0);
		else
			os_yield();
		if (spent > budget)
			return -EBUSY;
	}
	return 0;
}
