/* SPDX-License-Identifier: MIT */
/* Folios leaving a mapping's index: one by one because nobody uses them, or all because the object goes. */
#include "cache/mapping.h"

/* The references that a cached folio has when nobody but the caller is at it: the cache's, the caller's. */
#define REFS_UNUSED 2

/*
 * Take one folio out if it is unused. i_pages held. Freezing comes first: once it has succeeded nobody
 * can find the folio and get a reference, so nobody can start to use it behind our back (R25).
 */
static bool remove_locked(struct mapping *mapping, struct folio *folio)
{
	if (atomic_load_explicit(&folio->mapping, memory_order_relaxed) != mapping ||
	    !folio_ref_freeze(folio, REFS_UNUSED))
		return false;
	xa_store(mapping->mm, &mapping->pages,
		 atomic_load_explicit(&folio->index, memory_order_relaxed), NULL, NULL);
	atomic_store_explicit(&folio->mapping, NULL, memory_order_relaxed);
	mapping->nr_pages--;
	return true;
}

/*
 * folio->mapping is read without a lock. RCU keeps the mapping's memory until its lock is held; if the
 * folio still belongs to it then, the mapping is alive, since its end takes every folio out under that
 * lock.
 */
unsigned mapping_remove_unused(struct mm *mm, struct folio **folios, unsigned nr)
{
	struct mapping *locked = NULL;
	unsigned removed = 0;

	rcu_read_lock(&mm->rcu);
	for (unsigned i = 0; i < nr; i++) {
		struct folio *folio = folios[i];
		struct mapping *mapping =
			atomic_load_explicit(&folio->mapping, memory_order_acquire);

		if (locked && locked != mapping) {
			lock_release(&mm->threads, &locked->i_pages);
			locked = NULL;
		}
		if (!mapping)
			continue;
		if (!locked)
			lock_acquire(&mm->threads, &mapping->i_pages);
		locked = mapping;
		if (remove_locked(mapping, folio)) {
			folios[i] = folios[removed];
			folios[removed++] = folio;
		}
	}
	if (locked)
		lock_release(&mm->threads, &locked->i_pages);
	rcu_read_unlock(&mm->rcu);
	return removed;
}

/* Up to a batch of the mapping's folios from *index on, with references. */
static unsigned mapping_get_batch(struct mapping *mapping, uint64_t *index, uint64_t last,
				  struct folio **batch)
{
	struct mm *mm = mapping->mm;
	unsigned nr = 0;

	rcu_read_lock(&mm->rcu);
	while (nr < SWAP_CLUSTER_MAX && *index <= last) {
		void *entry = xa_find(&mapping->pages, index, last);

		if (!entry)
			*index = last;
		else if (entry_is_folio(entry) && folio_try_get(entry))
			batch[nr++] = entry;
		if ((*index)++ == UINT64_MAX)
			break;
	}
	rcu_read_unlock(&mm->rcu);
	return nr;
}

/* One pass; *ret_busy counts the folios that were in use. */
static uint64_t invalidate_pass(struct mapping *mapping, uint64_t start, uint64_t last,
				bool deactivate, uint64_t *ret_busy)
{
	struct folio *batch[SWAP_CLUSTER_MAX];
	struct mm *mm = mapping->mm;
	uint64_t index = start, dropped = 0;
	unsigned nr;

	*ret_busy = 0;
	while (index <= last && (nr = mapping_get_batch(mapping, &index, last, batch)) != 0) {
		unsigned removed = mapping_remove_unused(mm, batch, nr);

		for (unsigned i = 0; i < removed; i++)
			folio_release(batch[i]);
		for (unsigned i = removed; deactivate && i < nr; i++) {
			folio_deactivate(mm, batch[i]);
			folio_rotate_reclaimable(mm, batch[i]);
		}
		folios_put(mm, batch + removed, nr - removed);
		dropped += removed;
		*ret_busy += nr - removed;
	}
	return dropped;
}

/* A folio may only seem in use because it waits in a CPU's batch: then drain, and look again (R29). */
uint64_t mapping_invalidate(struct mapping *mapping, uint64_t start, uint64_t end)
{
	uint64_t busy, dropped;

	if (start >= end)
		return 0;
	dropped = invalidate_pass(mapping, start, end - 1, false, &busy);
	if (busy) {
		lru_add_drain_all(mapping->mm);
		dropped += invalidate_pass(mapping, start, end - 1, true, &busy);
	}
	rcu_flush_if_due(&mapping->mm->rcu);
	return dropped;
}
