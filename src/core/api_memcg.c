/* SPDX-License-Identifier: MIT */
/* The public API of memcgs: life, limits, proactive reclaim. Arguments are checked here. */
#include <string.h>

#include "core/core.h"

/* Tries at a limit that concurrent charges keep moving away from. */
#define SET_MAX_RETRIES 16

umm_memcg_t *umm_memcg_root(umm_t *umm)
{
	return umm ? root_memcg(&umm->mm) : NULL;
}

int umm_memcg_create(umm_t *umm, umm_memcg_t *parent, const char *name, umm_memcg_t **ret_cg)
{
	size_t len;

	if (!umm || !name || !ret_cg || (parent && parent->mm != &umm->mm))
		return -EINVAL;
	len = strnlen(name, UMM_NAME_MAX + 1);
	if (len == 0)
		return -EINVAL;
	if (len > UMM_NAME_MAX)
		return -ENAMETOOLONG;
	if (threads_enter(&umm->mm.threads))
		return -EAGAIN;
	return memcg_create(&umm->mm, parent ? parent : root_memcg(&umm->mm), name, ret_cg);
}

int umm_memcg_destroy(umm_memcg_t *cg)
{
	int err;

	if (!cg)
		return -EINVAL;
	if (threads_enter(&cg->mm->threads))
		return -EAGAIN;
	err = memcg_mark_dying(cg);
	if (err)
		return err;
	lru_reparent(cg);
	memcg_unlink(cg);
	return 0;
}

const char *umm_memcg_name(const umm_memcg_t *cg)
{
	return cg ? cg->name : NULL;
}

/* The old limit stays in force until usage fits under the new one: what is reported is what is enforced. */
static int set_max(struct mem_cgroup *cg, uint64_t nr)
{
	int err;

	lock_acquire(&cg->mm->threads, &cg->limit_lock);
	for (unsigned i = 0; (err = memcg_set_max(cg, nr)) == -EBUSY && i < SET_MAX_RETRIES; i++) {
		err = slowpath_shrink_to(cg, nr);
		if (err)
			break;
	}
	lock_release(&cg->mm->threads, &cg->limit_lock);
	return err;
}

int umm_memcg_set(umm_memcg_t *cg, enum umm_memcg_param param, uint64_t bytes)
{
	if (!cg || param != UMM_MEMORY_MAX)
		return -EINVAL;
	if (!cg->parent)
		return -EPERM;
	if (threads_enter(&cg->mm->threads))
		return -EAGAIN;
	if (memcg_is_dying(cg))
		return -ESTALE;
	return set_max(cg, bytes == UMM_NO_LIMIT ? PAGE_COUNTER_MAX : bytes >> PAGE_SHIFT);
}

int umm_memcg_get(umm_memcg_t *cg, enum umm_memcg_param param, uint64_t *ret_bytes)
{
	uint64_t nr;

	if (!cg || !ret_bytes)
		return -EINVAL;
	if (threads_enter(&cg->mm->threads))
		return -EAGAIN;
	switch (param) {
	case UMM_MEMORY_MAX:
		nr = atomic_load_explicit(&cg->memory.max, memory_order_relaxed);
		*ret_bytes = nr >= PAGE_COUNTER_MAX ? UMM_NO_LIMIT : nr << PAGE_SHIFT;
		return 0;
	case UMM_MEMORY_CURRENT: *ret_bytes = memcg_usage(cg) << PAGE_SHIFT; return 0;
	case UMM_MEMORY_PEAK:
		*ret_bytes = atomic_load_explicit(&cg->memory.peak, memory_order_relaxed)
			     << PAGE_SHIFT;
		return 0;
	}
	return -EINVAL;
}

int umm_memcg_reclaim(umm_memcg_t *cg, uint64_t bytes, uint64_t *ret_bytes)
{
	uint64_t want = bytes >> PAGE_SHIFT, got = 0;

	if (!cg)
		return -EINVAL;
	if (ret_bytes)
		*ret_bytes = 0;
	if (threads_enter(&cg->mm->threads))
		return -EAGAIN;
	/* What waits in batches is on no list yet. */
	if (want)
		lru_add_drain_all(cg->mm);
	/* No more than is charged can be had: a target beyond that must not keep us busy. */
	want = min_u64(want, memcg_usage(cg));
	if (want)
		got = reclaim_memcg(cg, want, RECLAIM_PROACTIVE);
	if (ret_bytes)
		*ret_bytes = got << PAGE_SHIFT;
	rcu_flush_if_due(&cg->mm->rcu);
	return got < bytes >> PAGE_SHIFT ? -EAGAIN : 0;
}
