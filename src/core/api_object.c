/* SPDX-License-Identifier: MIT */
/* The public API of objects: handles, reading, pinning. Arguments are checked here, work is cache/'s. */
#include "core/core.h"

/* The first in line looks again so often even if nobody wakes it: a page may have become free in a way
 * that wakes nobody, such as a load that ended. */
#define PIN_POLL_NS 2000000ull

static inline __attribute__((always_inline)) int memcg_enter(struct mem_cgroup *cg)
{
	if (unlikely(threads_enter(&cg->mm->threads)))
		return -EAGAIN;
	return unlikely(memcg_is_dying(cg)) ? -ESTALE : 0;
}

static inline __attribute__((always_inline)) int object_enter(struct umm_object *obj)
{
	if (unlikely(!obj))
		return -EINVAL;
	return memcg_enter(obj->memcg);
}

int umm_file_open(umm_memcg_t *cg, const char *path, uint32_t flags, umm_obj_t **ret_obj)
{
	struct store *store;
	int err;

	if (!cg || !path || !ret_obj || (flags & ~(uint32_t)UMM_FILE_BUFFERED))
		return -EINVAL;
	err = memcg_enter(cg);
	if (!err)
		err = store_file_open(cg->mm, path, flags, &store);
	return err ? err : object_open(cg, store, ret_obj);
}

int umm_store_open(umm_memcg_t *cg, const struct umm_store_ops *ops, void *ctx, uint64_t bytes,
		   umm_obj_t **ret_obj)
{
	struct store *store;
	int err;

	if (!cg || !ops || !ret_obj || bytes > INT64_MAX)
		return -EINVAL;
	err = memcg_enter(cg);
	if (!err)
		err = store_user_open(cg->mm, ops, ctx, bytes, &store);
	return err ? err : object_open(cg, store, ret_obj);
}

int umm_obj_reopen(umm_obj_t *obj, umm_memcg_t *cg, umm_obj_t **ret_obj)
{
	int err;

	if (!obj || !cg || !ret_obj || obj->mm != cg->mm)
		return -EINVAL;
	err = memcg_enter(cg);
	return err ? err : object_reopen(obj, cg, ret_obj);
}

int umm_close(umm_obj_t *obj)
{
	if (!obj)
		return 0;
	if (threads_enter(&obj->mm->threads))
		return -EAGAIN;
	object_close(obj);
	return 0;
}

uint64_t umm_obj_bytes(const umm_obj_t *obj)
{
	return obj ? atomic_load_explicit(&obj->mapping->bytes, memory_order_relaxed) : 0;
}

enum umm_io_mode umm_obj_io_mode(const umm_obj_t *obj)
{
	return obj ? obj->mapping->store->ops->io_mode(obj->mapping->store) : UMM_IO_STORE;
}

ssize_t umm_pread(umm_obj_t *obj, void *buf, size_t bytes, uint64_t offset)
{
	int err = object_enter(obj);

	if (unlikely(err))
		return err;
	if (unlikely((!buf && bytes) || bytes > PTRDIFF_MAX || offset > INT64_MAX))
		return -EINVAL;
	return filemap_read(obj, buf, bytes, offset);
}

int umm_pin(umm_obj_t *obj, uint64_t index, uint32_t flags, umm_folio_t **ret_folio)
{
	int err = object_enter(obj);

	if (unlikely(err))
		return err;
	if (unlikely(!ret_folio || (flags & ~(uint32_t)UMM_NOWAIT)))
		return -EINVAL;
	return store_error_pass(filemap_pin(obj, index, flags & UMM_NOWAIT, ret_folio));
}

/* The queue to stand in: that of the lowest memcg with a limit, else the root's. Who is at its limit at
 * this moment would say more, but changes from moment to moment, and with it who is in front of whom. */
static struct mem_cgroup *pin_queue_owner(struct mem_cgroup *memcg)
{
	while (memcg->parent &&
	       atomic_load_explicit(&memcg->memory.max, memory_order_relaxed) == PAGE_COUNTER_MAX)
		memcg = memcg->parent;
	return memcg;
}

/* Queue up and try whenever first in line; others sleep until they are. */
static int pin_in_turn(struct umm_object *obj, uint64_t index, uint64_t deadline,
		       struct folio **ret_folio)
{
	struct mem_cgroup *owner = pin_queue_owner(obj->memcg);
	struct pin_waiter waiter = { .woken = 0 };
	int err = -EBUSY;

	pin_queue_join(owner, &waiter);
	for (;;) {
		bool first = pin_queue_is_first(owner, &waiter);
		uint64_t now;

		if (memcg_is_dying(obj->memcg))
			err = -ESTALE;
		else if (first)
			err = filemap_pin(obj, index, false, ret_folio);
		now = os_now_ns();
		if (err != -EBUSY || now >= deadline)
			break;
		count_vm_events(obj->mm, PIN_WAIT, 1);
		pin_queue_wait(owner, &waiter,
			       first ? min_u64(deadline, now + PIN_POLL_NS) : deadline);
	}
	pin_queue_leave(owner, &waiter);
	return err == -EBUSY ? -ETIMEDOUT : store_error_pass(err);
}

int umm_pin_timed(umm_obj_t *obj, uint64_t index, uint32_t flags, uint64_t timeout_ns,
		  umm_folio_t **ret_folio)
{
	uint64_t now, deadline;
	struct mem_cgroup *owner;
	int err = object_enter(obj);

	if (err)
		return err;
	if (!ret_folio || flags)
		return -EINVAL;
	/* Cached: no need to stand in line. */
	err = filemap_pin(obj, index, true, ret_folio);
	if (err != -EAGAIN)
		return err;
	now = os_now_ns();
	deadline = timeout_ns > UINT64_MAX - now ? OS_FOREVER : now + timeout_ns;
	owner = pin_queue_owner(obj->memcg);
	if (!atomic_load_explicit(&owner->pin_queue.nr_waiters, memory_order_relaxed)) {
		err = filemap_pin(obj, index, false, ret_folio);
		if (err != -EBUSY)
			return store_error_pass(err);
	}
	return pin_in_turn(obj, index, deadline, ret_folio);
}

/* The last reference, or the last pin of a folio that reclaim met. */
static __cold void unpin_finish(struct folio *folio, int32_t old)
{
	/* Only here does the thread need a slot. It has one unless the pin was handed to it. */
	int err = threads_enter(&folio->pgdat->mm->threads);

	VM_BUG_ON(err); /* more than UMM_MAX_THREADS threads call */
	folio_put_finish(folio, old);
}

void umm_unpin(umm_folio_t *folio)
{
	int32_t old;

	if (folio && folio_put_begin(folio, &old))
		unpin_finish(folio, old);
}

void *umm_folio_data(umm_folio_t *folio)
{
	return folio ? folio_address(folio) : NULL;
}

size_t umm_folio_bytes(const umm_folio_t *folio)
{
	return folio ? folio_nr_pages(folio) << PAGE_SHIFT : 0;
}

int umm_advise(umm_obj_t *obj, uint64_t offset, uint64_t bytes, enum umm_advice advice)
{
	uint64_t end, size;
	int err = object_enter(obj);

	if (err)
		return err;
	if ((advice != UMM_ADVISE_WILLNEED && advice != UMM_ADVISE_DONTNEED))
		return -EINVAL;
	size = umm_obj_bytes(obj);
	end = bytes > UINT64_MAX - offset ? size : min_u64(offset + bytes, size);
	if (offset >= end)
		return 0;
	if (advice == UMM_ADVISE_WILLNEED)
		return filemap_readahead(obj, offset >> PAGE_SHIFT, ((end - 1) >> PAGE_SHIFT) + 1);
	/* The last page is whole when the range reaches the end of the object. What may still be cached from
	 * before the object became shorter goes too. */
	mapping_invalidate(obj->mapping, (offset + PAGE_SIZE - 1) >> PAGE_SHIFT,
			   end == size ? UINT64_MAX : end >> PAGE_SHIFT);
	return 0;
}
