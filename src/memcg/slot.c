/* SPDX-License-Identifier: MIT */
/*
 * Slots: the table that ties a folio to the lruvec it belongs on, and the recycling of its entries.
 * Owns struct memcg_slot but for nr_pages, which charge.c counts.
 *
 * A slot's life, all steps under the memcg tree lock:
 *
 *   free       lruvec NULL, in free_slots. Nobody is bound to it.
 *   owned      a memcg's own, of one node. Folios are bound to it by folio_commit_charge.
 *   inherited  its memcg was destroyed: in the ring of the nearest living ancestor's lruvec, to which
 *              it points. Folios bound to it leave; new ones come only from threads that charged
 *              before the memcg was marked dying, and these hold a reference on its block.
 *   limbo      its memcg's block is gone and nr_pages is 0, so that nothing will ever be bound to it
 *              again. It points at the root's lruvec. After a grace period it is free.
 *
 * Why limbo. A reader may have taken the slot's number from a folio, without a reference on the
 * folio, just before the folio was uncharged; it is in a read section. Unbinding writes
 * MEMCG_SLOT_NONE into the folio before it lowers nr_pages, so all such readers have read the
 * number before nr_pages was found to be 0, and are gone one grace period later. Until then they
 * get the root's lruvec, which is what they would have got for the folio had they read its slot a
 * moment later, and which lives as long as the instance. So folio_lruvec never answers NULL in a
 * read section.
 *
 * Who kept a slot's number for longer (a shadow) may find it free or somebody else's: a hint.
 *
 * Rings are singly linked through `next` and named by their last entry: appending an entry, joining
 * two rings and moving the first entry to the end take one step each.
 */
#include "memcg/memcontrol.h"

_Static_assert(MEMCG_SLOT_NONE == 0, "ring names are zero-initialized");

static struct memcg_domain *lruvec_domain(const struct lruvec *lruvec)
{
	return lruvec->memcg->mm->memcgs;
}

static void assert_tree_locked(const struct lruvec *lruvec)
{
	lock_assert_held(&lruvec->memcg->mm->threads, &lruvec_domain(lruvec)->tree_lock);
}

/* ---- rings ---- */

static void ring_add(struct memcg_domain *dom, memcg_slot_t *ring, memcg_slot_t slot)
{
	VM_DEBUG_ON(slot == MEMCG_SLOT_NONE || slot >= dom->nr_slots);
	if (*ring == MEMCG_SLOT_NONE) {
		dom->slots[slot].next = slot;
	} else {
		dom->slots[slot].next = dom->slots[*ring].next;
		dom->slots[*ring].next = slot;
	}
	*ring = slot;
}

/* Take the first entry out. The ring is not empty. */
static memcg_slot_t ring_pop(struct memcg_domain *dom, memcg_slot_t *ring)
{
	memcg_slot_t first = dom->slots[*ring].next;

	if (first == *ring)
		*ring = MEMCG_SLOT_NONE;
	else
		dom->slots[*ring].next = dom->slots[first].next;
	dom->slots[first].next = MEMCG_SLOT_NONE;
	return first;
}

static void ring_join(struct memcg_domain *dom, memcg_slot_t *ring, memcg_slot_t other)
{
	if (other == MEMCG_SLOT_NONE)
		return;
	if (*ring != MEMCG_SLOT_NONE) {
		memcg_slot_t first = dom->slots[*ring].next;

		dom->slots[*ring].next = dom->slots[other].next;
		dom->slots[other].next = first;
	}
	*ring = other;
}

/* ---- table ---- */

int memcg_slots_init(struct memcg_domain *dom)
{
	dom->slots = os_reserve(sizeof(struct memcg_slot) * MEMCG_MAX_SLOTS);
	if (!dom->slots)
		return -ENOMEM;
	dom->nr_slots = MEMCG_SLOT_NONE + 1;
	return 0;
}

void memcg_slots_fini(struct memcg_domain *dom)
{
	os_unreserve(dom->slots, sizeof(struct memcg_slot) * MEMCG_MAX_SLOTS);
	dom->slots = NULL;
}

static bool slots_available(const struct memcg_domain *dom, unsigned nr)
{
	return dom->nr_free_slots + (MEMCG_MAX_SLOTS - dom->nr_slots) >= nr;
}

/* The table is full: look at every inherited slot, and wait for the grace period at once. */
static __cold void slots_reap_all(struct mm *mm)
{
	struct memcg_domain *dom = mm->memcgs;
	struct mem_cgroup *pos;

	for (pos = dom->root; pos; pos = memcg_next(dom->root, pos))
		for (unsigned node = 0; node < mm->nr_nodes; node++)
			memcg_slots_reap(&pos->lruvec[node], MEMCG_MAX_SLOTS);
	if (dom->limbo_slots != MEMCG_SLOT_NONE) {
		rcu_synchronize(&mm->rcu);
		memcg_slots_free(mm, memcg_slots_take_limbo(mm));
	}
}

static memcg_slot_t slot_take(struct memcg_domain *dom)
{
	if (dom->free_slots == MEMCG_SLOT_NONE) {
		VM_BUG_ON(dom->nr_slots >= MEMCG_MAX_SLOTS);
		return dom->nr_slots++;
	}
	VM_BUG_ON(dom->nr_free_slots == 0);
	dom->nr_free_slots--;
	return ring_pop(dom, &dom->free_slots);
}

int memcg_slots_alloc(struct mem_cgroup *memcg)
{
	struct mm *mm = memcg->mm;
	struct memcg_domain *dom = mm->memcgs;

	lock_assert_held(&mm->threads, &dom->tree_lock);
	if (unlikely(!slots_available(dom, mm->nr_nodes))) {
		/* There is no root yet while the root itself is made, but then the table is empty. */
		slots_reap_all(mm);
		if (!slots_available(dom, mm->nr_nodes))
			return -ENOSPC;
	}
	for (unsigned node = 0; node < mm->nr_nodes; node++)
		memcg->lruvec[node].slot = slot_take(dom);
	return 0;
}

void memcg_slots_publish(struct mem_cgroup *memcg)
{
	for (unsigned node = 0; node < memcg->mm->nr_nodes; node++) {
		struct lruvec *lruvec = &memcg->lruvec[node];
		struct memcg_slot *slot = memcg_slot(memcg->mm, lruvec->slot);

		VM_BUG_ON(atomic_load_explicit(&slot->nr_pages, memory_order_relaxed) != 0);
		VM_BUG_ON(atomic_load_explicit(&slot->lruvec, memory_order_relaxed) != NULL);
		atomic_store_explicit(&slot->owned, true, memory_order_relaxed);
		atomic_store_explicit(&slot->lruvec, lruvec, memory_order_release);
	}
}

void memcg_slots_disown(struct mem_cgroup *memcg)
{
	for (unsigned node = 0; node < memcg->mm->nr_nodes; node++) {
		memcg_slot_t slot = memcg->lruvec[node].slot;

		/* Release: whoever bound folios to it did so before dropping a reference. */
		if (slot != MEMCG_SLOT_NONE)
			atomic_store_explicit(&memcg_slot(memcg->mm, slot)->owned, false,
					      memory_order_release);
	}
}

/* ---- reparenting ---- */

static void slot_point(struct memcg_domain *dom, memcg_slot_t slot, struct lruvec *to)
{
	atomic_store_explicit(&dom->slots[slot].lruvec, to, memory_order_release);
}

void memcg_slots_point(struct lruvec *child, struct lruvec *to)
{
	struct memcg_domain *dom = lruvec_domain(child);
	memcg_slot_t slot = child->inherited;

	assert_tree_locked(child);
	lock_assert_held(&child->memcg->mm->threads, child->lru_lock);
	lock_assert_held(&child->memcg->mm->threads, to->lru_lock);
	VM_BUG_ON(to->pgdat != child->pgdat || to->memcg != child->memcg->parent);
	slot_point(dom, child->slot, to);
	if (slot == MEMCG_SLOT_NONE)
		return;
	do {
		slot = dom->slots[slot].next;
		slot_point(dom, slot, to);
	} while (slot != child->inherited);
}

void memcg_slots_inherit(struct lruvec *child, struct lruvec *parent)
{
	struct memcg_domain *dom = lruvec_domain(child);

	assert_tree_locked(child);
	VM_BUG_ON(!memcg_is_dying(child->memcg));
	ring_join(dom, &parent->inherited, child->inherited);
	child->inherited = MEMCG_SLOT_NONE;
	ring_add(dom, &parent->inherited, child->slot);
}

/* ---- recycling ---- */

/*
 * Can nothing be bound to the slot, now or later? Folios are bound by who holds a reference on the
 * block, and `owned` falls when there is none, so the order of the two looks matters: once it is
 * false nr_pages only falls, and 0 is final.
 */
static bool slot_is_unused(struct memcg_slot *slot)
{
	return !atomic_load_explicit(&slot->owned, memory_order_acquire) &&
	       atomic_load_explicit(&slot->nr_pages, memory_order_acquire) == 0;
}

void memcg_slots_reap(struct lruvec *parent, unsigned budget)
{
	struct memcg_domain *dom = lruvec_domain(parent);
	struct lruvec *refuge = &dom->root->lruvec[parent->pgdat->id];
	memcg_slot_t first_kept = MEMCG_SLOT_NONE;

	assert_tree_locked(parent);
	for (; budget > 0 && parent->inherited != MEMCG_SLOT_NONE; budget--) {
		memcg_slot_t slot = dom->slots[parent->inherited].next;

		if (slot == first_kept)
			return; /* once round */
		if (slot_is_unused(&dom->slots[slot])) {
			(void)ring_pop(dom, &parent->inherited);
			slot_point(dom, slot, refuge);
			ring_add(dom, &dom->limbo_slots, slot);
		} else {
			parent->inherited = slot; /* the first is the last now */
			if (first_kept == MEMCG_SLOT_NONE)
				first_kept = slot;
		}
	}
}

memcg_slot_t memcg_slots_take_limbo(struct mm *mm)
{
	struct memcg_domain *dom = mm->memcgs;
	memcg_slot_t ring = dom->limbo_slots;

	lock_assert_held(&mm->threads, &dom->tree_lock);
	dom->limbo_slots = MEMCG_SLOT_NONE;
	return ring;
}

void memcg_slots_free(struct mm *mm, memcg_slot_t ring)
{
	struct memcg_domain *dom = mm->memcgs;

	lock_assert_held(&mm->threads, &dom->tree_lock);
	while (ring != MEMCG_SLOT_NONE) {
		memcg_slot_t slot = ring_pop(dom, &ring);

		VM_BUG_ON(!slot_is_unused(&dom->slots[slot]));
		slot_point(dom, slot, NULL);
		ring_add(dom, &dom->free_slots, slot);
		dom->nr_free_slots++;
	}
}
