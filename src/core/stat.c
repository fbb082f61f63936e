/* SPDX-License-Identifier: MIT */
/* The public API of figures: memory.stat, memory.events, vmstat, locks. Only built counters are shown. */
#include "core/core.h"

/* Rows are counted even when there is no room for them. */
struct stat_rows {
	struct umm_stat *out;
	size_t cap;
	size_t nr;
};

static void stat_row(struct stat_rows *rows, const char *name, uint64_t value)
{
	if (rows->nr < rows->cap)
		rows->out[rows->nr] = (struct umm_stat){ .name = name, .value = value };
	rows->nr++;
}

static void lru_rows(struct stat_rows *rows, struct mem_cgroup *cg, const char *const names[3],
		     unsigned shift)
{
	static const enum lru_list lists[3] = { LRU_INACTIVE_FILE, LRU_ACTIVE_FILE,
						LRU_UNEVICTABLE };

	for (unsigned i = 0; i < ARRAY_SIZE(lists); i++)
		stat_row(rows, names[i], memcg_lru_sum(cg, lists[i]) << shift);
}

ssize_t umm_memcg_stat(umm_memcg_t *cg, struct umm_stat *out, size_t cap)
{
	static const char *const lru_names[] = { "inactive_file", "active_file", "unevictable" };
	struct stat_rows rows = { .out = out, .cap = cap };

	if (!cg || (!out && cap))
		return -EINVAL;
	if (threads_enter(&cg->mm->threads))
		return -EAGAIN;
	for (unsigned i = 0; i < NR_MEMCG_STATS; i++)
		stat_row(&rows, memcg_stat_name(i),
			 memcg_stat_sum(cg, i) << (i < NR_MEMCG_GAUGES ? PAGE_SHIFT : 0));
	stat_row(&rows, "pgfault", memcg_pgfault_sum(cg));
	lru_rows(&rows, cg, lru_names, PAGE_SHIFT);
	return (ssize_t)rows.nr;
}

ssize_t umm_memcg_events(umm_memcg_t *cg, struct umm_stat *out, size_t cap)
{
	struct stat_rows rows = { .out = out, .cap = cap };

	if (!cg || (!out && cap))
		return -EINVAL;
	if (threads_enter(&cg->mm->threads))
		return -EAGAIN;
	for (unsigned i = 0; i < NR_MEMCG_EVENTS; i++)
		stat_row(&rows, memcg_event_name(i), memcg_event_sum(cg, i));
	return (ssize_t)rows.nr;
}

ssize_t umm_vmstat(umm_t *umm, struct umm_stat *out, size_t cap)
{
	static const char *const lru_names[] = { "nr_inactive_file", "nr_active_file",
						 "nr_unevictable" };
	struct stat_rows rows = { .out = out, .cap = cap };
	struct mm *mm;

	if (!umm || (!out && cap))
		return -EINVAL;
	mm = &umm->mm;
	if (threads_enter(&mm->threads))
		return -EAGAIN;
	stat_row(&rows, "nr_pages", mm->nr_pages);
	stat_row(&rows, "nr_free_pages", mm_nr_free(mm));
	lru_rows(&rows, root_memcg(mm), lru_names, 0);
	stat_row(&rows, "nr_file_pages", memcg_stat_sum(root_memcg(mm), MEMCG_FILE));
	stat_row(&rows, "nr_memcgs", memcg_nr_live(mm));
	stat_row(&rows, "nr_memcg_blocks", memcg_nr_blocks(mm));
	stat_row(&rows, "page_struct_bytes", mm->nr_pages * sizeof(struct page));
	stat_row(&rows, "index_bytes",
		 atomic_load_explicit(&mm->nr_index_nodes, memory_order_relaxed) *
			 sizeof(struct xa_node));
	/* Reads and pins, hits and misses; counted by memcg alone, since it is on every hit's path. */
	stat_row(&rows, "pgfault", memcg_pgfault_sum(root_memcg(mm)));
	stat_row(&rows, "warnings", atomic_load_explicit(&mm->nr_warnings, memory_order_relaxed));
	for (unsigned i = 0; i < NR_VM_EVENTS; i++)
		stat_row(&rows, vm_event_name(i), vm_event_sum(mm, i));
	return (ssize_t)rows.nr;
}

ssize_t umm_lock_stats(umm_t *umm, struct umm_lock_stat *out, size_t cap)
{
	if (!umm || (!out && cap))
		return -EINVAL;
	if (threads_enter(&umm->mm.threads))
		return -EAGAIN;
	for (unsigned i = 0; i < NR_LOCK_CLASSES && i < cap; i++) {
		struct lock_counts sum;

		lock_class_sum(&umm->mm.threads, i, &sum);
		out[i] = (struct umm_lock_stat){
			.name = lock_class_name(i),
			.acquisitions = sum.acquisitions,
			.contended_same_memcg = sum.contended_same,
			.contended_other_memcg = sum.contended_other,
			.wait_ns = sum.wait_ns,
			.hold_ns = sum.hold_ns,
		};
	}
	return NR_LOCK_CLASSES;
}
