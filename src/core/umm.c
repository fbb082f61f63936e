/* SPDX-License-Identifier: MIT */
/* The public API of an instance as a whole: options, creation and teardown in order, drain. */
#include <string.h>

#include "core/core.h"

#define MIN_PAGES 16
#define MAX_PAGES (1ull << 36) /* 256 TiB: more than the address space holds, less than overflows */

#define STR_(x) #x
#define STR(x) STR_(x)

const char *umm_version(void)
{
	return STR(UMM_VERSION_MAJOR) "." STR(UMM_VERSION_MINOR) "." STR(UMM_VERSION_PATCH);
}

void umm_options_init(struct umm_options *options)
{
	if (!options)
		return;
	*options = (struct umm_options){
		.size = sizeof(*options),
		.memory_bytes = 256ull << 20,
		.nr_nodes = 1,
		.lru_lock = UMM_LRU_LOCK_MEMCG,
		.readahead_pages = 64,
	};
}

static bool options_ok(const struct umm_options *o)
{
	const uint32_t known = UMM_NO_KSWAPD | UMM_NO_PREFAULT | UMM_NO_HUGEPAGES | UMM_NO_URING;
	uint64_t pages;

	if (!o || o->size != sizeof(*o) || (o->flags & ~known))
		return false;
	pages = o->memory_bytes >> PAGE_SHIFT;
	return pages >= MIN_PAGES && pages <= MAX_PAGES && o->nr_nodes >= 1 &&
	       o->nr_nodes <= UMM_MAX_NODES && pages / o->nr_nodes >= MIN_PAGES &&
	       (o->lru_lock == UMM_LRU_LOCK_MEMCG || o->lru_lock == UMM_LRU_LOCK_NODE) &&
	       o->readahead_pages <= FILL_MAX_PAGES;
}

/* Floors from the ground up; each undoes itself on failure. */
static int floors_init(struct mm *mm)
{
	static int (*const init[])(struct mm *) = {
		mm_arena_init, page_alloc_init,    memcg_domain_init,
		lru_init,      mapping_table_init, daemons_start,
	};
	static void (*const fini[])(struct mm *) = {
		mm_arena_fini, page_alloc_fini,    memcg_domain_fini,
		lru_fini,      mapping_table_fini, daemons_stop,
	};
	unsigned done;
	int err = 0;

	for (done = 0; done < ARRAY_SIZE(init) && !err; done++)
		err = init[done](mm);
	if (!err)
		return 0;
	done--; /* the one that failed has undone itself */
	while (done-- > 0)
		fini[done](mm);
	return err;
}

static const struct mm_upcalls core_upcalls = {
	.get_folios = slowpath_get_folios,
};

/* What every floor needs: threads, RCU, I/O. */
static int ground_init(struct mm *mm)
{
	int err = threads_init(&mm->threads);

	if (err)
		return err;
	err = threads_enter(&mm->threads);
	if (!err)
		err = rcu_init(&mm->rcu, &mm->threads);
	if (err) {
		threads_fini(&mm->threads);
		return err;
	}
	err = os_io_create(mm->opt.flags & UMM_NO_URING ? OS_IO_NO_URING : 0, &mm->io);
	if (err) {
		rcu_fini(&mm->rcu);
		threads_fini(&mm->threads);
	}
	return err;
}

static void ground_fini(struct mm *mm)
{
	os_io_destroy(mm->io);
	rcu_fini(&mm->rcu);
	threads_fini(&mm->threads);
}

int umm_create(const struct umm_options *options, umm_t **ret_mm)
{
	struct umm *umm;
	struct mm *mm;
	int err;

	if (!options_ok(options) || !ret_mm)
		return -EINVAL;
	umm = os_alloc_aligned(CACHE_LINE, sizeof(*umm));
	if (!umm)
		return -ENOMEM;
	mm = &umm->mm;
	mm->opt = *options;
	mm->nr_pages = options->memory_bytes >> PAGE_SHIFT;
	mm->nr_nodes = options->nr_nodes;
	mm->nr_cpus = os_nr_cpus();
	mm->up = &core_upcalls;
	err = ground_init(mm);
	if (!err) {
		err = floors_init(mm);
		if (err)
			ground_fini(mm);
	}
	if (err) {
		os_free(umm);
		return err;
	}
	*ret_mm = umm;
	return 0;
}

static void drain(struct mm *mm)
{
	daemons_quiesce(mm);
	lru_add_drain_all(mm);
	memcg_drain_stock(mm, NULL);
	rcu_flush(&mm->rcu, true);
	drain_all_pages(mm);
}

int umm_drain(umm_t *umm)
{
	if (!umm)
		return -EINVAL;
	if (threads_enter(&umm->mm.threads))
		return -EAGAIN;
	drain(&umm->mm);
	return 0;
}

int umm_check(umm_t *umm)
{
	if (!umm)
		return -EINVAL;
	if (threads_enter(&umm->mm.threads))
		return -EAGAIN;
	drain(&umm->mm);
	return check_mm(&umm->mm);
}

int umm_destroy(umm_t *umm)
{
	struct mm *mm;

	if (!umm)
		return 0;
	mm = &umm->mm;
	if (threads_enter(&mm->threads))
		return -EAGAIN;
	drain(mm);
	if (mapping_nr_handles(mm) || memcg_nr_live(mm) != 1 || memcg_usage(root_memcg(mm)))
		return -EBUSY;
	daemons_stop(mm);
	drain(mm);
	mapping_table_fini(mm);
	lru_fini(mm);
	memcg_domain_fini(mm);
	page_alloc_fini(mm);
	mm_arena_fini(mm);
	ground_fini(mm);
	os_free(umm);
	return 0;
}
