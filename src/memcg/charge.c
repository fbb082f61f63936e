/* SPDX-License-Identifier: MIT */
/*
 * Charging pages: the CPUs' stocks before the counters, binding folios to memcgs and unbinding
 * them.
 *
 * Why an ancestor's usage stays exact while memcgs below it are destroyed. A charge made by a
 * pointer to memcg M adds to M and to every ancestor of M. It is taken back once: through M
 * (memcg_cancel_charge, a stock, a folio whose slot still points at M's lruvec) or through the
 * memcg to which lru_reparent has pointed M's slots since. Call it P: an ancestor of M, and every
 * memcg below P on the way to M has been destroyed. Taking back subtracts from P and every ancestor
 * of P. Let A be any memcg above M that has not been reparented. It cannot lie strictly below P, so
 * it is P or above P: it was added to once and is subtracted from once. The same holds for a charge
 * made after M was destroyed, by a thread that had found M alive: it went up by the same parent
 * pointers, which never change. What a destroyed memcg's own counter says from then on nobody asks;
 * it was added to no less often than it is subtracted from, so it does not wrap either. Its block
 * is there whenever it is touched: by a reference, or by a read section that began before the slots
 * were pointed away (memcontrol.c).
 */
#include "base/fault.h"
#include "memcg/memcontrol.h"

#define STOCK_SLOTS 7
#define STOCK_MAX_NR 32 /* larger charges gain nothing from a stock */

/* Charged to the memcg and its ancestors already, but not used yet. nr may be 0. */
struct stock_slot {
	struct mem_cgroup *memcg; /* with a reference; NULL: slot not in use */
	uint64_t nr;
};

/* One CPU's. Any thread may take the lock; the CPU's own gives up at once if somebody has it. */
struct memcg_stock {
	struct lock lock;
	struct stock_slot slot[STOCK_SLOTS]; /* lock */
	unsigned victim;                     /* lock: slot to give up next */
} __aligned(CACHE_LINE);

int memcg_stock_init(struct mm *mm)
{
	struct memcg_stock *stock = os_alloc_aligned(CACHE_LINE, mm->nr_cpus * sizeof(*stock));

	if (!stock)
		return -ENOMEM;
	for (unsigned cpu = 0; cpu < mm->nr_cpus; cpu++)
		lock_init(&stock[cpu].lock, LOCK_STOCK);
	mm->memcgs->stock = stock;
	return 0;
}

void memcg_stock_fini(struct mm *mm)
{
	os_free(mm->memcgs->stock);
	mm->memcgs->stock = NULL;
}

/* ---- stocks: caller holds the stock's lock ---- */

static struct stock_slot *stock_find(struct memcg_stock *stock, const struct mem_cgroup *memcg)
{
	for (unsigned i = 0; i < STOCK_SLOTS; i++)
		if (stock->slot[i].memcg == memcg)
			return &stock->slot[i];
	return NULL;
}

/* Give the slot's pages back and the slot up. Return the memcg: the caller drops its reference once
 * the lock is released, since it may be the last. */
static struct mem_cgroup *stock_slot_clear(struct stock_slot *slot)
{
	struct mem_cgroup *memcg = slot->memcg;

	VM_DEBUG_ON(!memcg);
	if (slot->nr)
		page_counter_uncharge(memcg, slot->nr);
	for (struct mem_cgroup *pos = memcg; pos; pos = pos->parent)
		atomic_fetch_sub_explicit(&pos->nr_stocks, 1, memory_order_relaxed);
	slot->memcg = NULL;
	slot->nr = 0;
	return memcg;
}

/* A slot for the memcg, free or taken from another, which is returned in *ret_put. */
static struct stock_slot *stock_slot_claim(struct memcg_stock *stock, struct mem_cgroup *memcg,
					   struct mem_cgroup **ret_put)
{
	struct stock_slot *slot = stock_find(stock, NULL);

	if (!slot) {
		slot = &stock->slot[stock->victim++ % STOCK_SLOTS];
		*ret_put = stock_slot_clear(slot);
	}
	VM_DEBUG_ON(atomic_load_explicit(&memcg->dead, memory_order_relaxed));
	memcg_get(memcg);
	slot->memcg = memcg;
	for (struct mem_cgroup *pos = memcg; pos; pos = pos->parent)
		atomic_fetch_add_explicit(&pos->nr_stocks, 1, memory_order_relaxed);
	return slot;
}

/*
 * Charge nr from the counters and fill the slot up, only where limits are so far away that what all
 * CPUs together may have in stock does not make one look reached. `dying` is set before the stocks
 * are drained for the last time and is looked at under the lock: so a drain that comes later than
 * the mark finds what this adds, or this sees the mark.
 */
static bool stock_refill(struct memcg_stock *stock, struct stock_slot *slot,
			 struct mem_cgroup *memcg, uint64_t nr, struct mem_cgroup **ret_put)
{
	uint64_t batch = nr + MEMCG_CHARGE_BATCH - (slot ? slot->nr : 0);
	uint64_t keep = (uint64_t)memcg->mm->nr_cpus * MEMCG_CHARGE_BATCH * 4;
	struct mem_cgroup *over;

	if (memcg_is_dying(memcg) || memcg_margin(memcg) <= keep + batch)
		return false;
	if (page_counter_try_charge(memcg, batch, &over))
		return false;
	if (!slot)
		slot = stock_slot_claim(stock, memcg, ret_put);
	slot->nr += batch - nr;
	VM_DEBUG_ON(slot->nr > MEMCG_CHARGE_BATCH);
	return true;
}

/* Charge through the stock of the CPU. False: go to the counters. */
static bool stock_charge(struct mem_cgroup *memcg, uint64_t nr)
{
	struct mm *mm = memcg->mm;
	struct memcg_stock *stock = &mm->memcgs->stock[os_cpu()];
	struct mem_cgroup *put = NULL;
	struct stock_slot *slot;
	bool charged = true;

	if (!lock_try(&mm->threads, &stock->lock, memcg_tag(memcg)))
		return false;
	slot = stock_find(stock, memcg);
	if (slot && slot->nr >= nr)
		slot->nr -= nr;
	else
		charged = stock_refill(stock, slot, memcg, nr, &put);
	lock_release(&mm->threads, &stock->lock);
	if (put)
		memcg_put(put);
	return charged;
}

static void stock_drain_cpu(struct mm *mm, struct memcg_stock *stock, struct mem_cgroup *root)
{
	struct mem_cgroup *put[STOCK_SLOTS];
	unsigned nr_put = 0;

	lock_acquire(&mm->threads, &stock->lock);
	for (unsigned i = 0; i < STOCK_SLOTS; i++) {
		struct stock_slot *slot = &stock->slot[i];

		if (slot->memcg && (!root || memcg_is_descendant(slot->memcg, root)))
			put[nr_put++] = stock_slot_clear(slot);
	}
	lock_release(&mm->threads, &stock->lock);
	while (nr_put > 0)
		memcg_put(put[--nr_put]);
}

void memcg_drain_stock(struct mm *mm, struct mem_cgroup *memcg)
{
	for (unsigned cpu = 0; cpu < mm->nr_cpus; cpu++)
		stock_drain_cpu(mm, &mm->memcgs->stock[cpu], memcg);
}

/* Pages in stocks of the memcg, and of its descendants if `subtree`. */
static uint64_t stock_sum(struct mem_cgroup *memcg, bool subtree)
{
	struct mm *mm = memcg->mm;
	uint64_t sum = 0;

	for (unsigned cpu = 0; cpu < mm->nr_cpus; cpu++) {
		struct memcg_stock *stock = &mm->memcgs->stock[cpu];

		lock_acquire(&mm->threads, &stock->lock);
		for (unsigned i = 0; i < STOCK_SLOTS; i++) {
			const struct stock_slot *slot = &stock->slot[i];

			if (slot->memcg == memcg ||
			    (subtree && slot->memcg && memcg_is_descendant(slot->memcg, memcg)))
				sum += slot->nr;
		}
		lock_release(&mm->threads, &stock->lock);
	}
	return sum;
}

uint64_t memcg_stocked(struct mem_cgroup *memcg)
{
	return stock_sum(memcg, false);
}

uint64_t memcg_usage(struct mem_cgroup *memcg)
{
	uint64_t usage = page_counter_usage(&memcg->memory);
	uint64_t stocked;

	if (!atomic_load_explicit(&memcg->nr_stocks, memory_order_relaxed))
		return usage;
	/* The two are not read at one moment: exact at rest, else within what moves meanwhile. */
	stocked = stock_sum(memcg, true);
	return usage > stocked ? usage - stocked : 0;
}

/* ---- charge ---- */

int memcg_try_charge(struct mem_cgroup *memcg, uint64_t nr, struct mem_cgroup **ret_over)
{
	struct mem_cgroup *over;
	int err;

	VM_BUG_ON(nr == 0);
	if (fault_point(FAULT_CHARGE)) {
		*ret_over = memcg;
		return -ENOMEM;
	}
	if (memcg_is_dying(memcg))
		return -ESTALE;
	if (nr < STOCK_MAX_NR && stock_charge(memcg, nr))
		return 0;
	err = page_counter_try_charge(memcg, nr, &over);
	/* Tenants at their limit have no stock, and so do not disturb all CPUs each time. */
	if (err && atomic_load_explicit(&over->nr_stocks, memory_order_relaxed)) {
		memcg_drain_stock(memcg->mm, over);
		err = page_counter_try_charge(memcg, nr, &over);
	}
	if (err && memcg_is_dying(memcg))
		return -ESTALE; /* whatever limit that was, it is nobody's now */
	if (err)
		*ret_over = over;
	return err;
}

void memcg_cancel_charge(struct mem_cgroup *memcg, uint64_t nr)
{
	page_counter_uncharge(memcg, nr);
	memcg_wake_pin_waiters(memcg);
}

/* ---- folios ---- */

static enum memcg_stat_item folio_gauge(const struct folio *folio)
{
	return folio_test(folio, PG_kernel) ? MEMCG_KERNEL : MEMCG_FILE;
}

void folio_commit_charge(struct folio *folio, struct mem_cgroup *memcg, enum memcg_stat_item item)
{
	memcg_slot_t slot = memcg->lruvec[folio->pgdat->id].slot;

	VM_DEBUG_ON(item != folio_gauge(folio));
	VM_DEBUG_ON(folio_test(folio, PG_lru));
	VM_DEBUG_ON(atomic_load_explicit(&folio->memcg_slot, memory_order_relaxed) !=
		    MEMCG_SLOT_NONE);
	/* Whether the memcg is dying, reparented, or even unlinked by now does not matter: its slot
	 * says where the folio belongs, and is not recycled while the caller's reference lasts. */
	atomic_fetch_add_explicit(&memcg_slot(memcg->mm, slot)->nr_pages, folio_nr_pages(folio),
				  memory_order_relaxed);
	atomic_store_explicit(&folio->memcg_slot, slot, memory_order_relaxed);
	memcg_count(memcg, item, (int64_t)folio_nr_pages(folio));
}

/* The folio names nobody from here on. Release: a slot seen at 0 is seen named by nobody (slot.c). */
static void folio_unbind(struct mm *mm, struct folio *folio)
{
	memcg_slot_t slot = atomic_load_explicit(&folio->memcg_slot, memory_order_relaxed);
	uint64_t old;

	VM_DEBUG_ON(folio_test(folio, PG_lru));
	atomic_store_explicit(&folio->memcg_slot, MEMCG_SLOT_NONE, memory_order_relaxed);
	old = atomic_fetch_sub_explicit(&memcg_slot(mm, slot)->nr_pages, folio_nr_pages(folio),
					memory_order_release);
	VM_BUG_ON(old < folio_nr_pages(folio));
}

static bool folio_is_charged(const struct folio *folio)
{
	return atomic_load_explicit(&folio->memcg_slot, memory_order_relaxed) != MEMCG_SLOT_NONE;
}

/*
 * Unbind folios from the first on as long as they belong to one memcg; return how many. The memcg
 * is looked up again for each: should it be destroyed meanwhile, the group just ends. Locks: in a
 * read section, which keeps the memcg's block until its counters have been lowered.
 */
static unsigned uncharge_group(struct mm *mm, struct folio **folios, unsigned nr)
{
	struct mem_cgroup *memcg = folio_lruvec(folios[0])->memcg;
	uint64_t pages[NR_MEMCG_GAUGES] = { 0 };
	unsigned done = 0;

	do {
		pages[folio_gauge(folios[done])] += folio_nr_pages(folios[done]);
		folio_unbind(mm, folios[done]);
		done++;
	} while (done < nr && folio_is_charged(folios[done]) &&
		 folio_lruvec(folios[done])->memcg == memcg);

	for (unsigned item = 0; item < NR_MEMCG_GAUGES; item++)
		if (pages[item])
			memcg_count(memcg, item, -(int64_t)pages[item]);
	page_counter_uncharge(memcg, pages[MEMCG_FILE] + pages[MEMCG_KERNEL]);
	memcg_wake_pin_waiters(memcg);
	return done;
}

void folios_uncharge(struct mm *mm, struct folio **folios, unsigned nr)
{
	unsigned done = 0;

	lock_assert_may_sleep(&mm->threads);
	while (done < nr) {
		if (!folio_is_charged(folios[done])) {
			done++;
			continue;
		}
		rcu_read_lock(&mm->rcu);
		done += uncharge_group(mm, folios + done, nr - done);
		rcu_read_unlock(&mm->rcu);
	}
}
