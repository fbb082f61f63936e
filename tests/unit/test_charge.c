/* SPDX-License-Identifier: MIT */
/* Limits, stocks, folios bound and unbound: exact under threads, and while memcgs are destroyed. */
#include "memcg_fixture.h"

/* ---- limits ---- */

static void limit_of_each_level_holds(void **state)
{
	struct mm *mm = state_mm(state);
	struct mem_cgroup *a = new_memcg(root_memcg(mm), "a"), *b = new_memcg(a, "b"), *over = NULL;

	set_max(a, 100);
	set_max(b, 60);
	assert_int_equal(memcg_margin(b), 60);
	assert_int_equal(memcg_effective_max(b), 60);
	assert_int_equal(memcg_effective_max(root_memcg(mm)), mm->nr_pages);
	assert_int_equal(memcg_try_charge(b, 60, &over), 0);
	assert_null(over);
	assert_int_equal(memcg_try_charge(b, 1, &over), -ENOMEM);
	assert_ptr_equal(over, b);
	assert_int_equal(memcg_try_charge(a, 41, &over), -ENOMEM);
	assert_ptr_equal(over, a);
	assert_int_equal(memcg_try_charge(a, 40, &over), 0);

	/* Refused by a: b's usage, and what it shows as its peak, are as before. */
	memcg_cancel_charge(b, 10);
	set_max(b, PAGE_COUNTER_MAX);
	assert_int_equal(memcg_try_charge(b, 11, &over), -ENOMEM);
	assert_ptr_equal(over, a);
	assert_int_equal(memcg_usage(b), 50);
	assert_int_equal(counter_peak(b), 60);
	assert_int_equal(memcg_margin(b), 10);
	assert_int_equal(memcg_effective_max(b), 100);

	memcg_cancel_charge(b, 50);
	memcg_cancel_charge(a, 40);
	assert_int_equal(memcg_usage(root_memcg(mm)), 0);
	assert_int_equal(counter_peak(a), 100);
	assert_int_equal(counter_peak(root_memcg(mm)), 100);
	destroy(b);
	destroy(a);
}

static int try_set_max(struct mem_cgroup *memcg, uint64_t pages)
{
	struct umm_threads *threads = &memcg->mm->threads;
	int err;

	lock_acquire(threads, &memcg->limit_lock);
	err = memcg_set_max(memcg, pages);
	lock_release(threads, &memcg->limit_lock);
	return err;
}

static void limit_below_usage_is_refused(void **state)
{
	struct mem_cgroup *a = new_memcg(root_memcg(state_mm(state)), "a"), *over;

	set_max(a, 20);
	assert_int_equal(memcg_try_charge(a, 15, &over), 0);
	assert_int_equal(try_set_max(a, 14), -EBUSY);
	assert_int_equal(memcg_effective_max(a), 20);
	assert_int_equal(try_set_max(a, 15), 0);
	assert_int_equal(memcg_try_charge(a, 1, &over), -ENOMEM);
	memcg_cancel_charge(a, 15);
	assert_int_equal(try_set_max(a, 0), 0);
	assert_int_equal(memcg_try_charge(a, 1, &over), -ENOMEM);
	assert_int_equal(try_set_max(a, UINT64_MAX), 0);
	assert_int_equal(memcg_effective_max(a), a->mm->nr_pages);
	destroy(a);
}

/* What a stock holds is no reason to refuse a limit. */
static void limit_drains_stocks(void **state)
{
	struct mm *mm = state_mm(state);
	struct mem_cgroup *a = new_memcg(root_memcg(mm), "a"), *b = new_memcg(a, "b"), *over;

	assert_int_equal(memcg_try_charge(b, 1, &over), 0);
	assert_true(counter_usage(a) > 1);
	assert_int_equal(try_set_max(a, 1), 0);
	assert_int_equal(counter_usage(a), 1);
	memcg_cancel_charge(b, 1);
	destroy(b);
	destroy(a);
}

/* ---- exactness under threads ---- */

#define TREE_MIDS 2
#define TREE_LEAVES 4

/*
 * The probe is independent of the counters: it adds what a charge gave after it was given, and takes it
 * off before it is given back, so it is never above what is charged.
 */
struct probe {
	struct mem_cgroup *memcg;
	uint64_t max;
	_Atomic uint64_t held;
};

struct tree {
	struct probe top, mid[TREE_MIDS], leaf[TREE_LEAVES];
	unsigned rounds;
};

static void probe_add(struct probe *p, uint64_t nr)
{
	CHECK(atomic_fetch_add(&p->held, nr) + nr <= p->max);
}

static void tree_charge_worker(struct worker *w, void *arg)
{
	struct tree *tree = arg;
	uint64_t mine[TREE_LEAVES] = { 0 };

	for (unsigned i = 0; i < tree->rounds; i++) {
		unsigned leaf = (unsigned)worker_random(w, TREE_LEAVES);
		struct probe *path[] = { &tree->leaf[leaf], &tree->mid[leaf % TREE_MIDS],
					 &tree->top };
		struct mem_cgroup *memcg = path[0]->memcg, *over = NULL;
		uint64_t nr = 1 + worker_random(w, 40);

		if (mine[leaf] >= nr && worker_random(w, 2)) {
			for (unsigned k = 0; k < 3; k++)
				atomic_fetch_sub(&path[k]->held, nr);
			memcg_cancel_charge(memcg, nr);
			mine[leaf] -= nr;
		} else if (!memcg_try_charge(memcg, nr, &over)) {
			for (unsigned k = 0; k < 3; k++)
				probe_add(path[k], nr);
			mine[leaf] += nr;
		} else {
			CHECK(over == path[0]->memcg || over == path[1]->memcg ||
			      over == path[2]->memcg);
		}
	}
	for (unsigned leaf = 0; leaf < TREE_LEAVES; leaf++) {
		atomic_fetch_sub(&tree->leaf[leaf].held, mine[leaf]);
		atomic_fetch_sub(&tree->mid[leaf % TREE_MIDS].held, mine[leaf]);
		atomic_fetch_sub(&tree->top.held, mine[leaf]);
		if (mine[leaf])
			memcg_cancel_charge(tree->leaf[leaf].memcg, mine[leaf]);
	}
}

static void probe_init(struct probe *p, struct mem_cgroup *parent, uint64_t max)
{
	p->memcg = new_memcg(parent, "probe");
	p->max = max;
	set_max(p->memcg, max);
}

static void probe_fini(struct probe *p)
{
	assert_int_equal(atomic_load(&p->held), 0);
	assert_int_equal(counter_usage(p->memcg), 0);
	assert_true(counter_peak(p->memcg) <= p->max);
	/* The limits were in reach, else nothing was shown. */
	assert_true(counter_peak(p->memcg) > p->max - 40);
	destroy(p->memcg);
}

static void never_above_a_limit_in_three_levels(void **state)
{
	struct mm *mm = state_mm(state);
	struct worker w[4];
	struct tree tree = { .rounds = 30000 };

	probe_init(&tree.top, root_memcg(mm), 300);
	for (unsigned i = 0; i < TREE_MIDS; i++)
		probe_init(&tree.mid[i], tree.top.memcg, 200);
	for (unsigned i = 0; i < TREE_LEAVES; i++)
		probe_init(&tree.leaf[i], tree.mid[i % TREE_MIDS].memcg, 120);
	workers_start(w, 4, mm, tree_charge_worker, &tree);
	workers_join(w, 4);
	for (unsigned i = 0; i < TREE_LEAVES; i++)
		probe_fini(&tree.leaf[i]);
	for (unsigned i = 0; i < TREE_MIDS; i++)
		probe_fini(&tree.mid[i]);
	probe_fini(&tree.top);
}

struct limit_race {
	struct mem_cgroup *memcg;
	_Atomic bool stop;
};

static void limit_race_charger(struct worker *w, void *arg)
{
	struct limit_race *race = arg;
	struct mem_cgroup *over;

	while (!atomic_load(&race->stop)) {
		uint64_t nr = 1 + worker_random(w, 8);

		if (!memcg_try_charge(race->memcg, nr, &over))
			memcg_cancel_charge(race->memcg, nr);
	}
}

/* A limit that was set is in force: no charge that looked at the old one comes in behind it. */
static void lowered_limit_holds_at_once(void **state)
{
	struct mm *mm = state_mm(state);
	struct limit_race race = { .memcg = new_memcg(root_memcg(mm), "a") };
	struct worker w[3];
	struct stutter stutter;
	unsigned lowered = 0, refused = 0;

	set_max(race.memcg, 24);
	workers_start(w, 3, mm, limit_race_charger, &race);
	stutter_start(&stutter, w, 3);
	for (unsigned i = 0; i < 1000000 && (lowered < 5000 || refused < 100); i++) {
		if (try_set_max(race.memcg, 3)) {
			refused++;
			continue;
		}
		lowered++;
		/* For longer than a charger is held up between its look at the limit and its swap. */
		for (uint64_t until = os_now_ns() + 200000; os_now_ns() < until;)
			assert_true(counter_usage(race.memcg) <= 3);
		set_max(race.memcg, 24);
	}
	stutter_stop(&stutter);
	atomic_store(&race.stop, true);
	workers_join(w, 3);
	assert_true(lowered > 0 && refused > 0);
	assert_true(counter_peak(race.memcg) <= 24);
	assert_int_equal(counter_usage(race.memcg), 0);
	destroy(race.memcg);
}

/* ---- field case K-04: batched counters do not drift ---- */

#define K04_MIDS 4
#define K04_LEAVES 64
#define K04_THREADS 8

struct k04 {
	struct mem_cgroup *leaf[K04_LEAVES];
	unsigned step; /* pages charged at a time */
};

static void k04_worker(struct worker *w, void *arg)
{
	struct k04 *k = arg;
	struct mem_cgroup *over;

	for (unsigned i = 0; i < K04_LEAVES; i++) {
		struct mem_cgroup *leaf = k->leaf[(i + w->nr * 8) % K04_LEAVES];

		for (unsigned done = 0; done < 31; done += k->step)
			CHECK(!memcg_try_charge(leaf, k->step, &over));
	}
}

static void k04_run(struct mm *mm, uint64_t max, unsigned step)
{
	uint64_t total = 31ul * K04_LEAVES * K04_THREADS; /* 15,872 */
	uint64_t bound = (uint64_t)mm->nr_cpus * 7 * MEMCG_CHARGE_BATCH;
	struct mem_cgroup *top = new_memcg(root_memcg(mm), "top"), *mid[K04_MIDS];
	struct k04 k = { .step = step };
	struct worker w[K04_THREADS];

	for (unsigned i = 0; i < K04_MIDS; i++)
		mid[i] = new_memcg(top, "mid");
	for (unsigned i = 0; i < K04_LEAVES; i++) {
		k.leaf[i] = new_memcg(mid[i % K04_MIDS], "leaf");
		set_max(k.leaf[i], max);
	}
	workers_start(w, K04_THREADS, mm, k04_worker, &k);
	workers_join(w, K04_THREADS);

	/* Before stocks are home the raw counter may be off by what they hold; usage is exact. */
	assert_true(counter_usage(top) >= total && counter_usage(top) <= total + bound);
	assert_int_equal(memcg_usage(top), total);
	for (unsigned i = 0; i < K04_LEAVES; i++) {
		assert_int_equal(memcg_usage(k.leaf[i]), 248);
		assert_true(counter_peak(k.leaf[i]) <= max);
		assert_int_equal(counter_usage(k.leaf[i]), 248 + memcg_stocked(k.leaf[i]));
	}
	memcg_drain_stock(mm, NULL);
	assert_int_equal(counter_usage(top), total);
	assert_int_equal(counter_usage(root_memcg(mm)), total);
	for (unsigned i = 0; i < K04_LEAVES; i++) {
		assert_int_equal(counter_usage(k.leaf[i]), 248);
		memcg_cancel_charge(k.leaf[i], 248);
		destroy(k.leaf[i]);
	}
	for (unsigned i = 0; i < K04_MIDS; i++)
		destroy(mid[i]);
	assert_int_equal(counter_usage(top), 0);
	destroy(top);
}

static void k04_no_drift_with_limits(void **state)
{
	k04_run(state_mm(state), 256, 31);
	k04_run(state_mm(state), 256, 1);
}

static void k04_no_drift_with_stocks(void **state)
{
	k04_run(state_mm(state), PAGE_COUNTER_MAX, 1);
}

/* ---- stocks ---- */

static void stock_serves_small_charges(void **state)
{
	struct mm *mm = state_mm(state);
	struct mem_cgroup *a = new_memcg(root_memcg(mm), "a"), *over;
	uint64_t before;

	assert_int_equal(memcg_try_charge(a, 1, &over), 0);
	assert_int_equal(memcg_stocked(a), MEMCG_CHARGE_BATCH);
	assert_int_equal(memcg_usage(a), 1);
	assert_int_equal(memcg_usage(root_memcg(mm)), 1);
	before = counter_usage(a);
	for (unsigned i = 0; i < 30; i++) /* the thread may change CPUs, but not that often */
		assert_int_equal(memcg_try_charge(a, 1, &over), 0);
	assert_true(counter_usage(a) <= before + (mm->nr_cpus - 1) * MEMCG_CHARGE_BATCH + 30);
	assert_int_equal(memcg_usage(a), 31);
	/* Large charges pass it by. */
	before = memcg_stocked(a);
	assert_int_equal(memcg_try_charge(a, 32, &over), 0);
	assert_int_equal(memcg_stocked(a), before);
	memcg_drain_stock(mm, a);
	assert_int_equal(memcg_stocked(a), 0);
	assert_int_equal(counter_usage(a), 63);
	assert_int_equal(atomic_load(&root_memcg(mm)->nr_stocks), 0);
	/* Limits in reach: each page counted at once. */
	set_max(a, 63 + (uint64_t)mm->nr_cpus * MEMCG_CHARGE_BATCH * 4);
	assert_int_equal(memcg_try_charge(a, 1, &over), 0);
	assert_int_equal(memcg_stocked(a), 0);
	assert_int_equal(counter_usage(a), 64);
	memcg_cancel_charge(a, 64);
	destroy(a);
}

static void stock_is_shared_by_many(void **state)
{
	enum { NR = 20 };
	struct mm *mm = state_mm(state);
	struct mem_cgroup *a[NR], *other = new_memcg(root_memcg(mm), "other"), *over;

	for (unsigned i = 0; i < NR; i++)
		a[i] = new_memcg(i ? a[i % 4 ? i / 4 * 4 : 0] : root_memcg(mm), "a");
	for (unsigned round = 0; round < 10; round++)
		for (unsigned i = 0; i < NR; i++)
			assert_int_equal(memcg_try_charge(a[i], 1 + round, &over), 0);
	assert_true(atomic_load(&root_memcg(mm)->nr_stocks) <= 7 * mm->nr_cpus);
	assert_int_equal(memcg_try_charge(other, 1, &over), 0);
	assert_int_equal(memcg_usage(root_memcg(mm)), 55 * NR + 1);
	/* The drain of a subtree leaves others alone. */
	memcg_drain_stock(mm, a[0]);
	assert_int_equal(counter_usage(a[0]), 55 * NR);
	assert_int_equal(memcg_stocked(other), MEMCG_CHARGE_BATCH);
	for (unsigned i = NR; i-- > 0;) {
		memcg_cancel_charge(a[i], 55);
		destroy(a[i]);
	}
	memcg_cancel_charge(other, 1);
	destroy(other);
}

struct fill {
	struct mem_cgroup *memcg[2];
	_Atomic uint64_t pages;
};

static void fill_worker(struct worker *w, void *arg)
{
	struct fill *fill = arg;
	struct mem_cgroup *over;

	while (!memcg_try_charge(fill->memcg[w->nr % 2], 1, &over))
		atomic_fetch_add(&fill->pages, 1);
}

/* However stocks fill up on the way, the last page below the limit can be had. */
static void stock_does_not_make_a_limit_look_reached(void **state)
{
	struct mm *mm = state_mm(state);
	uint64_t max = (uint64_t)mm->nr_cpus * MEMCG_CHARGE_BATCH * 4 + 777;
	struct mem_cgroup *top = new_memcg(root_memcg(mm), "top");
	struct fill fill = { .memcg = { new_memcg(top, "a"), new_memcg(top, "b") } };
	struct worker w[4];
	uint64_t a;

	set_max(top, max);
	workers_start(w, 4, mm, fill_worker, &fill);
	workers_join(w, 4);
	assert_int_equal(atomic_load(&fill.pages), max);
	assert_int_equal(counter_usage(top), max);
	assert_int_equal(counter_peak(top), max);
	assert_int_equal(atomic_load(&top->nr_stocks), 0);
	a = memcg_usage(fill.memcg[0]);
	memcg_cancel_charge(fill.memcg[0], a);
	memcg_cancel_charge(fill.memcg[1], max - a);
	destroy(fill.memcg[0]);
	destroy(fill.memcg[1]);
	destroy(top);
}

static void destroying_drains_stocks(void **state)
{
	struct mm *mm = state_mm(state);
	struct mem_cgroup *a = new_memcg(root_memcg(mm), "a"), *over;

	assert_int_equal(memcg_try_charge(a, 1, &over), 0);
	assert_true(memcg_stocked(a) > 0);
	assert_int_equal(memcg_mark_dying(a), 0);
	assert_int_equal(memcg_try_charge(a, 1, &over), -ESTALE);
	reparent(a);
	memcg_get(a);
	memcg_unlink(a);
	assert_int_equal(memcg_stocked(a), 0);
	assert_int_equal(counter_usage(root_memcg(mm)), 1);
	memcg_cancel_charge(a, 1);
	assert_int_equal(memcg_nr_blocks(mm), 2);
	memcg_put(a);
}

static void fault_in_a_charge(void **state)
{
	struct mem_cgroup *a = new_memcg(root_memcg(state_mm(state)), "a"), *over = NULL;

	fault_arm(FAULT_CHARGE, 2);
	assert_int_equal(memcg_try_charge(a, 40, &over), 0);
	assert_int_equal(memcg_try_charge(a, 40, &over), -ENOMEM);
	assert_true(fault_disarm());
	assert_ptr_equal(over, a);
	assert_int_equal(counter_usage(a), 40);
	memcg_cancel_charge(a, 40);
	destroy(a);
}

/* ---- folios ---- */

static void folios_are_bound_and_unbound(void **state)
{
	struct mm *mm = state_mm(state);
	struct mem_cgroup *a = new_memcg(root_memcg(mm), "a"), *b = new_memcg(root_memcg(mm), "b");
	struct folio folio[9], *all[9];

	for (unsigned i = 0; i < 9; i++) {
		folio_make(mm, &folio[i], i % 2, i == 3 ? 4 : 0);
		all[i] = &folio[i];
		if (i == 3)
			folio_set(&folio[i], PG_kernel);
		if (i != 4) /* one is not charged */
			assert_true(folio_charge(i < 6 ? a : b, &folio[i]));
		assert_ptr_equal(folio_lruvec(&folio[i]), &(i == 4  ? root_memcg(mm)
							    : i < 6 ? a
								    : b)
								   ->lruvec[i % 2]);
	}
	assert_int_equal(memcg_usage(a), 20);
	assert_int_equal(memcg_usage(b), 3);
	assert_int_equal(memcg_stat_sum(a, MEMCG_FILE), 4);
	assert_int_equal(memcg_stat_sum(a, MEMCG_KERNEL), 16);
	assert_int_equal(memcg_stat_sum(root_memcg(mm), MEMCG_FILE), 7);
	assert_int_equal(slot_pages(a, 0), 2);
	assert_int_equal(slot_pages(a, 1), 18);

	folios_uncharge(mm, all, 0);
	folios_uncharge(mm, all, 9);
	for (unsigned i = 0; i < 9; i++)
		assert_int_equal(atomic_load(&folio[i].memcg_slot), MEMCG_SLOT_NONE);
	assert_int_equal(memcg_usage(a), 0);
	assert_int_equal(memcg_usage(b), 0);
	assert_int_equal(slot_pages(a, 0) + slot_pages(a, 1) + slot_pages(b, 0), 0);
	assert_int_equal(memcg_stat_sum(root_memcg(mm), MEMCG_FILE), 0);
	assert_int_equal(memcg_stat_sum(root_memcg(mm), MEMCG_KERNEL), 0);
	folios_uncharge(mm, all, 9); /* nothing is charged any more */
	destroy(a);
	destroy(b);
}

/* Charged before the memcg was marked, bound at each later stage, unbound at the parent: exact. */
static void charge_outlives_its_memcg(void **state)
{
	struct mm *mm = state_mm(state);
	struct mem_cgroup *top = new_memcg(root_memcg(mm), "top"), *a = new_memcg(top, "a"), *over;
	struct folio folio[4], *all[4] = { &folio[0], &folio[1], &folio[2], &folio[3] };

	for (unsigned i = 0; i < 4; i++)
		folio_make(mm, &folio[i], 0, 0);
	memcg_get(a);
	assert_int_equal(memcg_try_charge(a, 40, &over), 0);
	folio_commit_charge(&folio[0], a, MEMCG_FILE);
	assert_int_equal(memcg_mark_dying(a), 0);
	assert_int_equal(memcg_try_charge(a, 1, &over), -ESTALE);
	folio_commit_charge(&folio[1], a, MEMCG_FILE);
	assert_ptr_equal(folio_lruvec(&folio[1]), &a->lruvec[0]);
	reparent(a);
	assert_ptr_equal(folio_lruvec(&folio[0]), &top->lruvec[0]);
	folio_commit_charge(&folio[2], a, MEMCG_FILE);
	folio_uncharge(&folio[0]);
	assert_int_equal(memcg_usage(top), 39);
	assert_int_equal(memcg_stat_sum(top, MEMCG_FILE), 2);
	memcg_unlink(a);
	folio_commit_charge(&folio[3], a, MEMCG_FILE);
	assert_ptr_equal(folio_lruvec(&folio[3]), &top->lruvec[0]);
	assert_int_equal(memcg_usage(top), 39);
	assert_int_equal(memcg_stat_sum(top, MEMCG_FILE), 3);
	memcg_cancel_charge(a, 36);
	assert_int_equal(memcg_usage(top), 3);
	memcg_put(a);
	assert_int_equal(memcg_nr_blocks(mm), 2);

	/* And once more, a level higher. */
	destroy(top);
	assert_ptr_equal(folio_lruvec(&folio[3]), &root_memcg(mm)->lruvec[0]);
	assert_int_equal(memcg_usage(root_memcg(mm)), 3);
	assert_int_equal(memcg_stat_sum(root_memcg(mm), MEMCG_FILE), 3);
	folios_uncharge(mm, all, 4);
	assert_int_equal(memcg_usage(root_memcg(mm)), 0);
	assert_int_equal(memcg_stat_sum(root_memcg(mm), MEMCG_FILE), 0);
}

/* ---- destroying under load ---- */

#define DYING_PAIRS 3
#define DYING_WORKERS 3
#define DYING_FOLIOS 32

struct dying_race {
	struct mem_cgroup *top;
	pthread_mutex_t lock;
	struct mem_cgroup *mid[DYING_PAIRS], *leaf[DYING_PAIRS]; /* lock */
	struct folio folio[DYING_WORKERS][DYING_FOLIOS];
	_Atomic uint64_t steps, stale;
	_Atomic bool stop;
};

static struct mem_cgroup *dying_pick(struct dying_race *race, unsigned i)
{
	struct mem_cgroup *memcg;

	pthread_mutex_lock(&race->lock);
	memcg = i % 4 ? race->leaf[i % DYING_PAIRS] : race->mid[i % DYING_PAIRS];
	memcg_get(memcg);
	pthread_mutex_unlock(&race->lock);
	return memcg;
}

static void dying_uncharge(struct worker *w, struct folio *folio, unsigned first, unsigned nr)
{
	struct folio *batch[DYING_FOLIOS];

	for (unsigned i = 0; i < nr; i++)
		batch[i] = &folio[(first + i) % DYING_FOLIOS];
	folios_uncharge(w->mm, batch, nr);
}

static void dying_worker(struct worker *w, void *arg)
{
	struct dying_race *race = arg;
	struct folio *folio = race->folio[w->nr];

	while (!atomic_load(&race->stop)) {
		unsigned i = (unsigned)worker_random(w, DYING_FOLIOS);
		struct mem_cgroup *memcg = dying_pick(race, (unsigned)worker_random(w, 12));
		struct mem_cgroup *over;
		int err;

		atomic_fetch_add(&race->steps, 1);
		if (atomic_load(&folio[i].memcg_slot) != MEMCG_SLOT_NONE) {
			dying_uncharge(w, folio, i, 1 + (unsigned)worker_random(w, 8));
		} else {
			err = memcg_try_charge(memcg, folio_nr_pages(&folio[i]), &over);
			CHECK(!err || err == -ESTALE || over == race->top);
			if (err == -ESTALE)
				atomic_fetch_add(&race->stale, 1);
			if (!err && worker_random(w, 8))
				folio_commit_charge(&folio[i], memcg, MEMCG_FILE);
			else if (!err)
				memcg_cancel_charge(memcg, folio_nr_pages(&folio[i]));
		}
		memcg_put(memcg);
	}
}

/* Replace a leaf, and every other time the memcg above it too. */
static void dying_replace(struct dying_race *race, unsigned i, bool both)
{
	struct mem_cgroup *old_leaf = race->leaf[i], *old_mid = race->mid[i];
	struct mem_cgroup *mid = both ? new_memcg(race->top, "mid") : old_mid;
	struct mem_cgroup *leaf = new_memcg(mid, "leaf");

	pthread_mutex_lock(&race->lock);
	race->mid[i] = mid;
	race->leaf[i] = leaf;
	pthread_mutex_unlock(&race->lock);
	destroy(old_leaf);
	if (both)
		destroy(old_mid);
}

static uint64_t dying_pages_held(struct dying_race *race)
{
	uint64_t pages = 0;

	for (unsigned i = 0; i < DYING_WORKERS * DYING_FOLIOS; i++) {
		struct folio *folio = &race->folio[i / DYING_FOLIOS][i % DYING_FOLIOS];

		if (atomic_load(&folio->memcg_slot) != MEMCG_SLOT_NONE)
			pages += folio_nr_pages(folio);
	}
	return pages;
}

/* Have the two sides met often enough? */
static bool dying_goes_on(struct dying_race *race)
{
	return atomic_load(&race->steps) < 30000 || atomic_load(&race->stale) < 3;
}

static void dying_run(struct mm *mm, uint64_t max)
{
	struct dying_race race = { .top = new_memcg(root_memcg(mm), "top"),
				   .lock = PTHREAD_MUTEX_INITIALIZER };
	struct worker w[DYING_WORKERS];
	struct stutter stutter;

	set_max(race.top, max);
	for (unsigned i = 0; i < DYING_PAIRS; i++) {
		race.mid[i] = new_memcg(race.top, "mid");
		race.leaf[i] = new_memcg(race.mid[i], "leaf");
	}
	for (unsigned i = 0; i < DYING_WORKERS * DYING_FOLIOS; i++)
		folio_make(mm, &race.folio[i / DYING_FOLIOS][i % DYING_FOLIOS], i % NR_NODES,
			   i % 5 ? 0 : 2);
	workers_start(w, DYING_WORKERS, mm, dying_worker, &race);
	stutter_start(&stutter, w, DYING_WORKERS);
	for (unsigned round = 0; round < 3000 || (round < 1000000 && dying_goes_on(&race)); round++)
		dying_replace(&race, round % DYING_PAIRS, round & 1);
	stutter_stop(&stutter);
	atomic_store(&race.stop, true);
	workers_join(w, DYING_WORKERS);

	assert_int_equal(memcg_nr_blocks(mm), 2 + 2 * DYING_PAIRS);
	assert_int_equal(memcg_usage(race.top), dying_pages_held(&race));
	memcg_drain_stock(mm, NULL);
	assert_int_equal(counter_usage(race.top), dying_pages_held(&race));
	assert_int_equal(counter_usage(root_memcg(mm)), dying_pages_held(&race));
	assert_int_equal(memcg_stat_sum(race.top, MEMCG_FILE), dying_pages_held(&race));
	assert_true(counter_peak(race.top) <= max);
	for (unsigned i = 0; i < DYING_PAIRS; i++) {
		destroy(race.leaf[i]);
		destroy(race.mid[i]);
	}
	assert_int_equal(counter_usage(race.top), dying_pages_held(&race));
	for (unsigned i = 0; i < DYING_WORKERS; i++)
		dying_uncharge(&w[0], race.folio[i], 0, DYING_FOLIOS);
	assert_int_equal(counter_usage(race.top), 0);
	assert_int_equal(memcg_stat_sum(race.top, MEMCG_FILE), 0);
	assert_int_equal(memcg_stat_sum(root_memcg(mm), MEMCG_FILE), 0);
	destroy(race.top);
}

static void parent_stays_exact_while_children_die(void **state)
{
	dying_run(state_mm(state), 60);
}

static void parent_stays_exact_while_children_with_stocks_die(void **state)
{
	dying_run(state_mm(state), PAGE_COUNTER_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		mm_test(limit_of_each_level_holds),
		mm_test(limit_below_usage_is_refused),
		mm_test(limit_drains_stocks),
		mm_test(never_above_a_limit_in_three_levels),
		mm_test(lowered_limit_holds_at_once),
		mm_test(k04_no_drift_with_limits),
		mm_test(k04_no_drift_with_stocks),
		mm_test(stock_serves_small_charges),
		mm_test(stock_is_shared_by_many),
		mm_test(stock_does_not_make_a_limit_look_reached),
		mm_test(destroying_drains_stocks),
		mm_test(fault_in_a_charge),
		mm_test(folios_are_bound_and_unbound),
		mm_test(charge_outlives_its_memcg),
		mm_test(parent_stays_exact_while_children_die),
		mm_test(parent_stays_exact_while_children_with_stocks_die),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
