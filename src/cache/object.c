/* SPDX-License-Identifier: MIT */
/* Handles, and the table that finds the mapping of a file that is open already. */
#include "cache/object.h"

int mapping_table_init(struct mm *mm)
{
	struct mapping_table *table = os_alloc(sizeof(*table));

	if (!table)
		return -ENOMEM;
	lock_init(&table->lock, LOCK_MAPPINGS);
	for (unsigned i = 0; i < ARRAY_SIZE(table->bucket); i++)
		list_init(&table->bucket[i]);
	mm->mappings = table;
	return 0;
}

void mapping_table_fini(struct mm *mm)
{
	VM_BUG_ON(mm->mappings && mm->mappings->nr_handles);
	os_free(mm->mappings);
	mm->mappings = NULL;
}

uint64_t mapping_nr_handles(struct mm *mm)
{
	uint64_t nr;

	lock_acquire(&mm->threads, &mm->mappings->lock);
	nr = mm->mappings->nr_handles;
	lock_release(&mm->threads, &mm->mappings->lock);
	return nr;
}

static bool store_has_identity(const struct store *store)
{
	return store->dev || store->ino;
}

static struct list_head *mapping_bucket(struct mapping_table *table, const struct store *store)
{
	uint64_t hash = (store->ino ^ (store->dev << 32)) * 0x9e3779b97f4a7c15ull;

	return &table->bucket[hash >> (64 - MAPPING_HASH_BITS)];
}

static struct mapping *mapping_find(struct mapping_table *table, const struct store *store)
{
	struct list_head *bucket = mapping_bucket(table, store);
	struct mapping *mapping;

	list_for_each_entry (mapping, bucket, struct mapping, list)
		if (store_has_identity(store) && mapping->store->dev == store->dev &&
		    mapping->store->ino == store->ino && mapping->store->ops == store->ops)
			return mapping;
	return NULL;
}

static struct mapping *mapping_alloc(struct mm *mm, struct store *store)
{
	struct mapping *mapping = os_alloc_aligned(CACHE_LINE, sizeof(*mapping));

	if (!mapping)
		return NULL;
	mapping->mm = mm;
	mapping->store = store;
	xa_init(&mapping->pages);
	lock_init(&mapping->i_pages, LOCK_I_PAGES);
	atomic_init(&mapping->bytes, store->bytes);
	return mapping;
}

static void mapping_free_rcu(struct rcu_head *head)
{
	os_free(container_of(head, struct mapping, rcu));
}

/* Take every folio out, used or not; a pinned one goes when its last pin does. */
static void mapping_drop_all(struct mapping *mapping)
{
	struct mm *mm = mapping->mm;
	struct folio *batch[SWAP_CLUSTER_MAX];
	uint64_t index = 0;
	unsigned nr;

	do {
		lock_acquire(&mm->threads, &mapping->i_pages);
		for (nr = 0; nr < SWAP_CLUSTER_MAX; nr++) {
			struct folio *folio = xa_find(&mapping->pages, &index, UINT64_MAX);

			if (!folio)
				break;
			/* Handles are gone, so no load can be in flight. */
			VM_BUG_ON(!entry_is_folio(folio));
			xa_store(mm, &mapping->pages, index, NULL, NULL);
			atomic_store_explicit(&folio->mapping, NULL, memory_order_relaxed);
			mapping->nr_pages--;
			batch[nr] = folio;
		}
		lock_release(&mm->threads, &mapping->i_pages);
		folios_put(mm, batch, nr);
	} while (nr);
	VM_BUG_ON(mapping->nr_pages);
}

static struct umm_object *object_alloc(struct mem_cgroup *memcg)
{
	struct umm_object *obj;

	if (memcg_reads_alloc(memcg))
		return NULL;
	obj = os_alloc_aligned(CACHE_LINE, sizeof(*obj));
	if (obj) {
		memcg_get(memcg);
		obj->mm = memcg->mm;
		obj->memcg = memcg;
	}
	return obj;
}

static void object_free(struct umm_object *obj)
{
	memcg_put(obj->memcg);
	os_free(obj);
}

int object_open(struct mem_cgroup *memcg, struct store *store, struct umm_object **ret)
{
	struct mm *mm = memcg->mm;
	struct mapping_table *table = mm->mappings;
	struct umm_object *obj = object_alloc(memcg);
	struct mapping *fresh = obj ? mapping_alloc(mm, store) : NULL;
	struct mapping *mapping;

	if (!fresh) {
		if (obj)
			object_free(obj);
		store->ops->discard(store);
		return -ENOMEM;
	}
	lock_acquire(&mm->threads, &table->lock);
	mapping = mapping_find(table, store);
	if (!mapping) {
		mapping = fresh;
		list_add(&mapping->list, mapping_bucket(table, store));
	}
	mapping->nr_handles++;
	table->nr_handles++;
	obj->mapping = mapping;
	lock_release(&mm->threads, &table->lock);
	if (mapping != fresh) {
		os_free(fresh);
		store->ops->discard(store);
	}
	*ret = obj;
	return 0;
}

int object_reopen(struct umm_object *obj, struct mem_cgroup *memcg, struct umm_object **ret)
{
	struct mm *mm = obj->mm;
	struct umm_object *again = object_alloc(memcg);

	if (!again)
		return -ENOMEM;
	lock_acquire(&mm->threads, &mm->mappings->lock);
	again->mapping = obj->mapping;
	again->mapping->nr_handles++;
	mm->mappings->nr_handles++;
	lock_release(&mm->threads, &mm->mappings->lock);
	*ret = again;
	return 0;
}

void object_close(struct umm_object *obj)
{
	struct mm *mm = obj->mm;
	struct mapping *mapping = obj->mapping;
	bool last;

	lock_acquire(&mm->threads, &mm->mappings->lock);
	mm->mappings->nr_handles--;
	last = --mapping->nr_handles == 0;
	if (last)
		list_del(&mapping->list);
	lock_release(&mm->threads, &mm->mappings->lock);
	if (last) {
		mapping_drop_all(mapping);
		mapping->store->ops->close(mapping->store);
		rcu_defer(&mm->rcu, &mapping->rcu, mapping_free_rcu);
		rcu_flush_if_due(&mm->rcu);
	}
	object_free(obj);
}
