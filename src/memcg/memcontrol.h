/* SPDX-License-Identifier: MIT */
/*
 * Who pays. A tree of memcgs with hierarchical limits; the charge of pages; the slots that tie a
 * folio to its memcg; counters; who waits for an unpin. LRU lists are held here (each memcg has a
 * lruvec per node) but changed by lru/ only.
 *
 * Slots. A folio names its memcg by a slot number, not a pointer. Each memcg owns one slot per
 * node; a slot says which lruvec its folios are on. When a memcg is destroyed its lists are spliced
 * to the parent's and its slots pointed at the parent's lruvec, both under the two lru_locks
 * (lru/reparent.c): so destroying costs O(lists), not O(pages), and the memcg's memory does not
 * wait for its last page. A slot outlives its memcg until the last page charged through it is gone.
 * Slot memory is type-stable: any thread may look at any slot at any time.
 */
#ifndef UMM_MEMCG_MEMCONTROL_H
#define UMM_MEMCG_MEMCONTROL_H

#include "page/mmzone.h"
#include "page/vmstat.h"

#define PAGE_COUNTER_MAX (UINT64_MAX >> 1) /* no limit */
#define MEMCG_CHARGE_BATCH 64

/*
 * Usage against a limit; hierarchical by the memcg tree. Never above max, not even for a moment:
 * the peak proves it. `state` has the pages in its low bits, with those of descendants and those in
 * CPU stocks, and above them a count of limit changes: a charge that looked at the old limit cannot
 * go through once the new one is in force (page_counter.c).
 */
struct page_counter {
	_Atomic uint64_t state; /* read it with page_counter_usage */
	_Atomic uint64_t max;
	_Atomic uint64_t peak; /* the most that was ever charged at once */
};

#define PAGE_COUNTER_BITS 40
#define PAGE_COUNTER_MASK ((1ull << PAGE_COUNTER_BITS) - 1)

static inline uint64_t page_counter_usage(const struct page_counter *counter)
{
	return atomic_load_explicit(&counter->state, memory_order_seq_cst) & PAGE_COUNTER_MASK;
}

/* Counters that a memcg keeps for itself: gauges (pages) first, then events. Names: memory.stat's. */
/* clang-format off */
#define MEMCG_STATS(X)                                                                        \
	X(MEMCG_FILE, "file")          /* pages in an object's cache */                       \
	X(MEMCG_KERNEL, "kernel")      /* umm_alloc */                                        \
	X(MEMCG_LOADING, "file_loading") /* charged for loads in flight, in no cache yet */   \
	X(MEMCG_PGMAJFAULT, "pgmajfault")                                                     \
	X(MEMCG_PGSCAN, "pgscan") X(MEMCG_PGSTEAL, "pgsteal")                                 \
	X(MEMCG_PGSCAN_KSWAPD, "pgscan_kswapd") X(MEMCG_PGSCAN_DIRECT, "pgscan_direct")       \
	X(MEMCG_PGSCAN_PROACTIVE, "pgscan_proactive")                                         \
	X(MEMCG_PGSTEAL_KSWAPD, "pgsteal_kswapd") X(MEMCG_PGSTEAL_DIRECT, "pgsteal_direct")   \
	X(MEMCG_PGSTEAL_PROACTIVE, "pgsteal_proactive")                                       \
	X(MEMCG_PGREFILL, "pgrefill")                                                         \
	X(MEMCG_PGACTIVATE, "pgactivate") X(MEMCG_PGDEACTIVATE, "pgdeactivate")
/* clang-format on */

enum memcg_stat_item {
#define X(id, name) id,
	MEMCG_STATS(X)
#undef X
		NR_MEMCG_STATS,
};
#define NR_MEMCG_GAUGES 3 /* up to MEMCG_LOADING */

/* memory.events */
/* clang-format off */
#define MEMCG_EVENTS(X)                                                                       \
	X(MEMCG_EV_MAX, "max")       /* a charge hit the limit and had to reclaim */          \
	X(MEMCG_EV_OOM, "oom")       /* ... and was refused: -ENOMEM */                       \
	X(MEMCG_EV_PINNED, "pinned") /* ... and was refused: -EBUSY */                        \
	X(MEMCG_EV_BYPASS, "bypass") /* a read went past the cache instead */
/* clang-format on */

enum memcg_event {
#define X(id, name) id,
	MEMCG_EVENTS(X)
#undef X
		NR_MEMCG_EVENTS,
};

/*
 * Reads, hits included: the one count on the hit path. Threads are spread over a few lines by their
 * number. The first thread that comes to a line owns it and counts there without an atomic addition,
 * as the only writer of `own`; those that share the line add to `others`.
 */
struct memcg_reads {
	_Atomic uint32_t owner;  /* thread slot + 1; 0: nobody yet. Set once */
	_Atomic uint64_t own;    /* (owner) */
	_Atomic uint64_t others; /* (A) */
} __aligned(CACHE_LINE);

/* Callers that wait for an unpin, first come first served. */
struct pin_queue {
	struct lock lock;
	struct list_head waiters; /* (lock) struct pin_waiter */
	_Atomic uint32_t nr_waiters;
};

struct pin_waiter {
	struct list_head list;
	_Atomic uint32_t woken; /* futex word */
};

struct mem_cgroup {
	/* First line: read on every hit, written hardly ever. */
	struct mm *mm;                       /* (C) */
	struct mem_cgroup *parent;           /* (C) NULL: root. Holds a reference on it */
	_Atomic(struct memcg_reads *) reads; /* NULL until the first handle */
	char *name;                          /* (C) in the same block, behind the lruvecs */
	uint32_t id;                         /* (C) number for people and lock tags, never reused;
					      grows, so each children list is in order of id */
	uint32_t depth;                      /* (C) root 0 */
	_Atomic bool dying;                  /* no new charges, handles or children */
	_Atomic bool dead; /* counters (to be) folded: count at the parent from now on */

	struct page_counter memory __aligned(CACHE_LINE);
	_Atomic uint32_t refcount;  /* tree, children, handles, sleepers, iterators, stocks */
	_Atomic uint32_t nr_stocks; /* slots of CPU stocks in use for it and its descendants */
	_Atomic uint64_t stat[NR_MEMCG_STATS]; /* own, without live descendants; with folded ones */
	_Atomic uint64_t event[NR_MEMCG_EVENTS];
	_Atomic uint64_t folded_pgfault;    /* reads of destroyed children */
	struct list_head children, sibling; /* memcg tree lock; sibling.next NULL: unlinked */
	_Atomic uint32_t nr_children;       /* memcg tree lock to write: those on the list */
	struct pin_queue pin_queue;
	struct lock limit_lock; /* one umm_memcg_set at a time */
	uint64_t check_pages;   /* scratch of the whole-state check (core/check.c) */
	struct lruvec lruvec[]; /* (C) nr_nodes of them */
};

struct memcg_domain {
	struct lock tree_lock;
	struct mem_cgroup *root;
	struct memcg_slot *slots; /* reserved; type-stable */
	/* Tree lock. Slots below nr_slots were in use once; free_slots and limbo_slots are rings:
	 * those to hand out, and those that wait for a grace period before that (slot.c). */
	memcg_slot_t nr_slots, free_slots, limbo_slots;
	uint32_t nr_free_slots;
	_Atomic uint32_t next_id;
	_Atomic uint64_t nr_blocks, nr_live;
	uint32_t reads_mask;       /* (C) lines of a struct memcg_reads array - 1 */
	struct memcg_stock *stock; /* nr_cpus of them (charge.c) */
};

#define MEMCG_MAX_SLOTS (1u << 20)

/* ---- instance ---- */

int memcg_domain_init(struct mm *mm);  /* creates the root */
void memcg_domain_fini(struct mm *mm); /* root only may be left */
struct mem_cgroup *root_memcg(struct mm *mm);
/* Control blocks in existence, dead ones too; live ones. */
uint64_t memcg_nr_blocks(struct mm *mm);
uint64_t memcg_nr_live(struct mm *mm);

/* ---- life (memcontrol.c) ---- */

/* Create under parent. -ESTALE if the parent is dying, -ENOSPC too deep or no slots, -ENOMEM. */
int memcg_create(struct mm *mm, struct mem_cgroup *parent, const char *name,
		 struct mem_cgroup **ret);
/*
 * Destroying goes: memcg_mark_dying (-EBUSY: children or root; -ESTALE: somebody else destroys it),
 * which wakes all that wait for an unpin; lru_reparent (lru/); memcg_unlink, which drains the
 * stocks, waits for a grace period, folds the counters into the parent, unlinks from the tree and
 * drops the tree's reference. Context: may sleep; takes MEMCG_TREE.
 */
int memcg_mark_dying(struct mem_cgroup *memcg);
void memcg_unlink(struct mem_cgroup *memcg);

/* References keep the control block, not the memcg, alive. */
static inline void memcg_get(struct mem_cgroup *memcg)
{
	atomic_fetch_add_explicit(&memcg->refcount, 1, memory_order_relaxed);
}
/* Under RCU, on a pointer found through a slot: false if the block is already going away. */
bool memcg_try_get(struct mem_cgroup *memcg);
/* Context: no lock under which one may not free; a read section is fine. */
void memcg_put(struct mem_cgroup *memcg);

static inline bool memcg_is_dying(const struct mem_cgroup *memcg)
{
	return atomic_load_explicit(&memcg->dying, memory_order_acquire);
}

bool memcg_is_descendant(const struct mem_cgroup *memcg, const struct mem_cgroup *root);

/* Lock tag of what is done for this memcg. */
static inline uint32_t memcg_tag(const struct mem_cgroup *memcg)
{
	return memcg->id;
}

/* ---- walking ---- */

/*
 * Next memcg of root's subtree in pre-order after prev (NULL: root itself), NULL at the end.
 * Returns a reference, drops prev's. If prev was unlinked meanwhile the walk goes on with what came
 * behind it. Those that are dying but still linked are visited. Takes MEMCG_TREE.
 */
struct mem_cgroup *memcg_iter(struct mem_cgroup *root, struct mem_cgroup *prev);
/*
 * The shared walk of (root, node): each call moves the common position one step and returns the
 * memcg with a reference (prev's is dropped). *generation is set by the first call (prev NULL);
 * NULL once the walk has wrapped since, or if root is destroyed. In one generation each memcg is
 * visited once, by one of the callers. Unlinking a memcg moves positions that stand on it.
 */
struct mem_cgroup *memcg_iter_shared(struct mem_cgroup *root, unsigned node,
				     struct mem_cgroup *prev, uint32_t *generation);
/* End a walk early. */
static inline void memcg_iter_break(struct mem_cgroup *prev)
{
	if (prev)
		memcg_put(prev);
}

/* ---- charge (charge.c, page_counter.c) ---- */

/*
 * Charge `nr` pages to the memcg and all its ancestors, exactly or not at all. On failure *ret_over
 * is the lowest memcg whose limit stood in the way. No reclaim, no sleep. Small charges go through
 * the CPU's stock when the limits are far. -ENOMEM over a limit, -ESTALE dying. (fault point
 * FAULT_CHARGE: -ENOMEM with *ret_over = memcg)
 */
int memcg_try_charge(struct mem_cgroup *memcg, uint64_t nr, struct mem_cgroup **ret_over);
/* Take a charge back that no folio carries (yet). */
void memcg_cancel_charge(struct mem_cgroup *memcg, uint64_t nr);

/* Bind a charged folio to the memcg, before PG_lru is first set (rule 2 of DESIGN: memcg changes
 * only while PG_lru is owned). Counts `item` (MEMCG_FILE or MEMCG_KERNEL). */
void folio_commit_charge(struct folio *folio, struct mem_cgroup *memcg, enum memcg_stat_item item);
/* Unbind folios that left the LRU and uncharge them; consecutive ones of a memcg at one go. Folios
 * that are not charged are passed over. PG_kernel says which gauge goes down, so it has to be on
 * still. Never under lru_lock. Wakes pin waiters. */
void folios_uncharge(struct mm *mm, struct folio **folios, unsigned nr);

/* Give all CPUs' stocks of this memcg and its descendants (NULL: of all) back to the counters. */
void memcg_drain_stock(struct mm *mm, struct mem_cgroup *memcg);
/* Pages that sit in stocks of memcg itself. */
uint64_t memcg_stocked(struct mem_cgroup *memcg);

/* Current usage without what sits in stocks of its subtree; pages. Takes STOCK. */
uint64_t memcg_usage(struct mem_cgroup *memcg);
/* Set memory.max if usage is not above it: -EBUSY otherwise, and the old limit stays. Drains
 * stocks, wakes pin waiters. `nr` in pages, PAGE_COUNTER_MAX: none. Locks: holds limit_lock; takes
 * STOCK. */
int memcg_set_max(struct mem_cgroup *memcg, uint64_t nr);
/* Smallest distance to a limit, over the memcg and its ancestors. */
uint64_t memcg_margin(const struct mem_cgroup *memcg);
/* Smallest limit over the memcg and its ancestors; PAGE_COUNTER_MAX if none. */
uint64_t memcg_effective_max(const struct mem_cgroup *memcg);

/* ---- slots ---- */

/* A line each: nr_pages is written for each page that comes or goes, and neighbours are strangers. */
struct memcg_slot {
	_Atomic(struct lruvec *) lruvec; /* changed under both lru_locks; NULL: slot is free */
	_Atomic uint64_t nr_pages;       /* charged through this slot */
	memcg_slot_t next;               /* memcg tree lock: ring of inherited or of free slots */
	_Atomic bool owned; /* its memcg's block exists: folios may still be bound to it */
} __aligned(CACHE_LINE);

static inline struct memcg_slot *memcg_slot(struct mm *mm, memcg_slot_t slot);

/* The lruvec that a charged folio belongs on right now. Stable while its lru_lock is held and this
 * still answers the same; otherwise only a hint. NULL slot: the root's. Caller is in an RCU read
 * section, or holds a reference on the memcg, or owns PG_lru and only compares. Never NULL in a
 * read section. */
static inline struct lruvec *folio_lruvec(const struct folio *folio);

/*
 * For lru_reparent, one node at a time, in this order. Both hold MEMCG_TREE.
 * Point all slots of the child, own and inherited, at `to`. Holds both lru_locks as well.
 */
void memcg_slots_point(struct lruvec *child, struct lruvec *to);
/* Hand all slots of the child over to the parent, which frees each after its last page. */
void memcg_slots_inherit(struct lruvec *child, struct lruvec *parent);
/* Look at up to `budget` inherited slots, in turn, and free those that nothing can use any more.
 * Holds MEMCG_TREE. */
void memcg_slots_reap(struct lruvec *parent, unsigned budget);

/* ---- counters (memcg_stat.c) ---- */

/* Add to a memcg's own counter (n may be negative for gauges); to the nearest living ancestor's if
 * it is dead. Caller holds a reference or is in an RCU read section. */
void memcg_count(struct mem_cgroup *memcg, enum memcg_stat_item item, int64_t n);
void memcg_count_event(struct mem_cgroup *memcg, enum memcg_event event, uint64_t n);
/* Count a read from anywhere. */
void memcg_count_read(struct mem_cgroup *memcg);
/* The same on the hit path. Caller is in an RCU read section. */
static inline void memcg_count_hit(struct mem_cgroup *memcg)
{
	struct memcg_reads *line = atomic_load_explicit(&memcg->reads, memory_order_acquire);
	uint32_t slot = os_thread_slot();

	if (likely(line && !atomic_load_explicit(&memcg->dead, memory_order_acquire))) {
		line += slot & memcg->mm->memcgs->reads_mask;
		if (likely(atomic_load_explicit(&line->owner, memory_order_relaxed) == slot + 1)) {
			thread_count(&line->own, 1);
			return;
		}
	}
	memcg_count_read(memcg);
}
/* Make memcg->reads; called when a handle is opened. -ENOMEM. */
int memcg_reads_alloc(struct mem_cgroup *memcg);

/* Hierarchical figures. Take MEMCG_TREE. */
uint64_t memcg_stat_sum(struct mem_cgroup *memcg, enum memcg_stat_item item);
uint64_t memcg_pgfault_sum(struct mem_cgroup *memcg);
uint64_t memcg_event_sum(struct mem_cgroup *memcg, enum memcg_event event);
uint64_t memcg_lru_sum(struct mem_cgroup *memcg, enum lru_list lru); /* pages */
const char *memcg_stat_name(enum memcg_stat_item item);
const char *memcg_event_name(enum memcg_event event);

/* ---- waiting for an unpin (pin_queue.c) ---- */

/* Somebody may be able to reclaim a page of this memcg now: wake the first waiter of it and of each
 * ancestor. Cheap when nobody waits. Never sleeps. Call it after what made the difference (an
 * unpin, an uncharge), which has to be a sequentially consistent read-modify-write: see
 * pin_queue.c. */
void memcg_wake_pin_waiters(struct mem_cgroup *memcg);
/* Queue up; true if the caller is first in line. After joining, and before each pin_queue_wait, the
 * caller has to try again what it waits for. */
bool pin_queue_join(struct mem_cgroup *memcg, struct pin_waiter *w);
bool pin_queue_is_first(struct mem_cgroup *memcg, struct pin_waiter *w);
/* Sleep until woken or `deadline_ns`. */
void pin_queue_wait(struct mem_cgroup *memcg, struct pin_waiter *w, uint64_t deadline_ns);
/* Leave, and wake the one behind. */
void pin_queue_leave(struct mem_cgroup *memcg, struct pin_waiter *w);

/* ---- inside memcg/ ---- */

/* Pre-order successor; pos may have been unlinked. Locks: holds MEMCG_TREE. */
struct mem_cgroup *memcg_next(struct mem_cgroup *root, struct mem_cgroup *pos);
/* No iterator stands on the memcg after this. Locks: holds MEMCG_TREE. */
void memcg_iter_leave(struct mem_cgroup *memcg);

static inline bool memcg_is_linked(const struct mem_cgroup *memcg)
{
	return memcg->parent == NULL || memcg->sibling.next != NULL;
}

/* Reserve the table. */
int memcg_slots_init(struct memcg_domain *dom);
void memcg_slots_fini(struct memcg_domain *dom);
/* Give each lruvec of a new memcg a slot number, or -ENOSPC. Nobody sees them before
 * memcg_slots_publish. Both hold MEMCG_TREE. */
int memcg_slots_alloc(struct mem_cgroup *memcg);
void memcg_slots_publish(struct mem_cgroup *memcg);
/* The memcg's block goes away: nothing will be bound to its slots any more. */
void memcg_slots_disown(struct mem_cgroup *memcg);
/* Take what is in limbo, and free it after a grace period. Both hold MEMCG_TREE. */
memcg_slot_t memcg_slots_take_limbo(struct mm *mm);
void memcg_slots_free(struct mm *mm, memcg_slot_t ring);

/* Charge the memcg and all its ancestors, or nothing and say at which level: -ENOMEM. */
int page_counter_try_charge(struct mem_cgroup *memcg, uint64_t nr, struct mem_cgroup **ret_over);
void page_counter_uncharge(struct mem_cgroup *memcg, uint64_t nr);

int memcg_stock_init(struct mm *mm);
void memcg_stock_fini(struct mm *mm);

/* Add the memcg's counters to its parent's. Locks: holds MEMCG_TREE. */
void memcg_fold_counters(struct mem_cgroup *memcg);

void pin_queue_init(struct pin_queue *q);
/* The memcg is dying: let all waiters see that. */
void pin_queue_wake_all(struct mem_cgroup *memcg);

static inline struct memcg_slot *memcg_slot(struct mm *mm, memcg_slot_t slot)
{
	return &mm->memcgs->slots[slot];
}

static inline struct lruvec *folio_lruvec(const struct folio *folio)
{
	struct mm *mm = folio->pgdat->mm;
	memcg_slot_t slot = atomic_load_explicit(&folio->memcg_slot, memory_order_relaxed);

	if (unlikely(slot == MEMCG_SLOT_NONE))
		return &mm->memcgs->root->lruvec[folio->pgdat->id];
	return atomic_load_explicit(&mm->memcgs->slots[slot].lruvec, memory_order_acquire);
}

#endif
