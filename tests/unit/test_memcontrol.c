/* SPDX-License-Identifier: MIT */
/* The tree, its walks, and slots: create, destroy, reparent, recycle. */
#include "memcg_fixture.h"

/* ---- create, destroy ---- */

static void root_is_there(void **state)
{
	struct mm *mm = state_mm(state);
	struct mem_cgroup *root = root_memcg(mm);

	assert_string_equal(root->name, "root");
	assert_null(root->parent);
	assert_int_equal(root->depth, 0);
	assert_int_equal(memcg_effective_max(root), mm->nr_pages); /* the budget */
	assert_int_equal(memcg_mark_dying(root), -EBUSY);
	for (unsigned i = 0; i < NR_NODES; i++) {
		assert_ptr_equal(root->lruvec[i].pgdat, &mm->node[i]);
		assert_ptr_equal(root->lruvec[i].lru_lock, &root->lruvec[i].own_lock);
		assert_int_not_equal(root->lruvec[i].slot, MEMCG_SLOT_NONE);
		for (unsigned lru = 0; lru < NR_LRU_LISTS; lru++)
			assert_true(list_empty(&root->lruvec[i].lists[lru]));
	}
}

static void node_mode_shares_the_lock(void **state)
{
	struct fixture *f = malloc(sizeof(*f));
	struct mm *mm = fixture_begin(f, UMM_LRU_LOCK_NODE);
	struct mem_cgroup *a, *b;

	(void)state;
	assert_int_equal(memcg_domain_init(mm), 0);
	a = new_memcg(root_memcg(mm), "a");
	b = new_memcg(a, "b");
	for (unsigned i = 0; i < NR_NODES; i++)
		assert_ptr_equal(b->lruvec[i].lru_lock, &f->node[i].lru_lock);
	destroy(b);
	destroy(a);
	memcg_domain_fini(mm);
	fixture_end(f);
}

static void create_and_destroy(void **state)
{
	struct mm *mm = state_mm(state);
	struct mem_cgroup *a = new_memcg(root_memcg(mm), "a"), *b, *none = NULL;
	char name[UMM_NAME_MAX + 1];

	memset(name, 'x', UMM_NAME_MAX);
	name[UMM_NAME_MAX] = '\0';
	b = new_memcg(a, name);
	assert_string_equal(b->name, name);
	assert_true(b->id > a->id);
	assert_int_equal(b->depth, 2);
	assert_int_equal(memcg_nr_live(mm), 3);
	assert_true(memcg_is_descendant(b, a));
	assert_true(memcg_is_descendant(a, a));
	assert_true(memcg_is_descendant(b, root_memcg(mm)));
	assert_false(memcg_is_descendant(a, b));

	assert_int_equal(memcg_mark_dying(a), -EBUSY);
	assert_int_equal(memcg_mark_dying(b), 0);
	assert_int_equal(memcg_mark_dying(b), -ESTALE);
	assert_int_equal(memcg_create(mm, b, "late", &none), -ESTALE);
	assert_null(none);
	assert_int_equal(memcg_mark_dying(a), -EBUSY); /* dying, but there */
	reparent(b);
	assert_true(memcg_try_get(b));
	memcg_unlink(b);
	assert_int_equal(memcg_nr_live(mm), 2);
	assert_int_equal(memcg_nr_blocks(mm), 3);
	destroy(a); /* b's block holds a's */
	assert_int_equal(memcg_nr_blocks(mm), 3);
	memcg_put(b);
	assert_int_equal(memcg_nr_blocks(mm), 1);
}

static void depth_is_limited(void **state)
{
	struct mem_cgroup *path[UMM_MAX_DEPTH + 1] = { root_memcg(state_mm(state)) };
	struct mem_cgroup *none = NULL;

	for (unsigned i = 1; i <= UMM_MAX_DEPTH; i++)
		path[i] = new_memcg(path[i - 1], "deeper");
	assert_int_equal(memcg_create(state_mm(state), path[UMM_MAX_DEPTH], "x", &none), -ENOSPC);
	assert_null(none);
	for (unsigned i = UMM_MAX_DEPTH; i > 0; i--)
		destroy(path[i]);
}

/* DESIGN's budget for a tenant with no resident page, on one node: 1 KiB and its name. */
static void an_empty_memcg_is_small(void **state)
{
	size_t bytes =
		sizeof(struct mem_cgroup) + sizeof(struct lruvec) + sizeof(struct memcg_slot);

	(void)state;
	assert_true(round_up_u64(bytes, CACHE_LINE) + CACHE_LINE <= 1024);
	/* The line that every hit reads has nothing on it that is written often. */
	assert_true(offsetof(struct mem_cgroup, memory) >= CACHE_LINE);
	assert_true(offsetof(struct mem_cgroup, dead) < CACHE_LINE);
}

static void faults_in_creation(void **state)
{
	struct fixture *f = malloc(sizeof(*f));
	struct mm *mm = fixture_begin(f, UMM_LRU_LOCK_MEMCG);
	struct mem_cgroup *a = NULL;
	unsigned n = 1;

	(void)state;
	for (;; n++) {
		int err;

		fault_arm(FAULT_ALLOC, n);
		err = memcg_domain_init(mm);
		if (!fault_disarm()) {
			assert_int_equal(err, 0);
			break;
		}
		assert_int_equal(err, -ENOMEM);
		assert_null(mm->memcgs);
	}
	assert_true(n > 3);
	for (n = 1;; n++) {
		int err;

		fault_arm(FAULT_ALLOC, n);
		err = memcg_create(mm, root_memcg(mm), "a", &a);
		if (!fault_disarm()) {
			assert_int_equal(err, 0);
			break;
		}
		assert_int_equal(err, -ENOMEM);
		assert_null(a);
		assert_int_equal(memcg_nr_blocks(mm), 1);
	}
	assert_true(n > 1);
	fault_arm(FAULT_ALLOC, 1);
	assert_int_equal(memcg_reads_alloc(a), -ENOMEM);
	assert_true(fault_disarm());
	assert_int_equal(memcg_reads_alloc(a), 0);
	assert_int_equal(memcg_reads_alloc(a), 0);
	destroy(a);
	memcg_domain_fini(mm);
	memcg_domain_fini(mm); /* nothing left to do */
	fixture_end(f);
}

/* ---- slots ---- */

static void lock_tree(struct mm *mm)
{
	lock_acquire(&mm->threads, &mm->memcgs->tree_lock);
}

static void unlock_tree(struct mm *mm)
{
	lock_release(&mm->threads, &mm->memcgs->tree_lock);
}

static unsigned ring_length(struct mm *mm, memcg_slot_t ring)
{
	unsigned n = 0;
	memcg_slot_t slot = ring;

	lock_tree(mm);
	if (ring != MEMCG_SLOT_NONE)
		do {
			n++;
			slot = memcg_slot(mm, slot)->next;
		} while (slot != ring);
	unlock_tree(mm);
	return n;
}

/* Every slot is free, in limbo, owned by a living memcg or inherited by one: none is lost. */
static void assert_slots_add_up(struct mm *mm)
{
	struct memcg_domain *dom = mm->memcgs;
	unsigned n = ring_length(mm, dom->free_slots) + ring_length(mm, dom->limbo_slots);
	struct mem_cgroup *pos = NULL;

	assert_int_equal(ring_length(mm, dom->free_slots), dom->nr_free_slots);
	while ((pos = memcg_iter(root_memcg(mm), pos)))
		for (unsigned i = 0; i < NR_NODES; i++)
			n += 1 + ring_length(mm, pos->lruvec[i].inherited);
	assert_int_equal(n, dom->nr_slots - 1);
}

static void slots_follow_the_folios(void **state)
{
	struct mm *mm = state_mm(state);
	struct mem_cgroup *top = new_memcg(root_memcg(mm), "top"), *mid = new_memcg(top, "mid");
	struct mem_cgroup *leaf[3];
	struct folio folio[3], *all[3] = { &folio[0], &folio[1], &folio[2] };

	for (unsigned i = 0; i < 3; i++) {
		leaf[i] = new_memcg(mid, "leaf");
		folio_make(mm, &folio[i], 1, 0);
		assert_true(folio_charge(leaf[i], &folio[i]));
	}
	destroy(leaf[0]);
	destroy(leaf[1]);
	assert_ptr_equal(folio_lruvec(&folio[0]), &mid->lruvec[1]);
	assert_ptr_equal(folio_lruvec(&folio[1]), &mid->lruvec[1]);
	assert_ptr_equal(folio_lruvec(&folio[2]), &leaf[2]->lruvec[1]);
	destroy(leaf[2]);
	destroy(mid);
	assert_slots_add_up(mm);
	for (unsigned i = 0; i < 3; i++)
		assert_ptr_equal(folio_lruvec(&folio[i]), &top->lruvec[1]);
	assert_int_equal(memcg_nr_blocks(mm), 2);
	folios_uncharge(mm, all, 3);
	destroy(top);
	assert_slots_add_up(mm);
}

/* A reader that has a slot's number from before gets a lruvec for as long as it may read. */
static void slot_waits_in_limbo(void **state)
{
	struct mm *mm = state_mm(state);
	struct mem_cgroup *a = new_memcg(root_memcg(mm), "a"), *b;
	struct memcg_slot *slot;
	struct folio folio;

	folio_make(mm, &folio, 0, 0);
	assert_true(folio_charge(a, &folio));
	slot = memcg_slot(mm, atomic_load(&folio.memcg_slot));
	memcg_get(a);
	destroy(a);
	folio_uncharge(&folio);
	assert_int_equal(atomic_load(&slot->nr_pages), 0);
	/* No page, but a thread that may have charged before: not to be recycled. */
	destroy(new_memcg(root_memcg(mm), "x"));
	destroy(new_memcg(root_memcg(mm), "x"));
	assert_ptr_equal(atomic_load(&slot->lruvec), &root_memcg(mm)->lruvec[0]);
	assert_true(atomic_load(&slot->owned));
	memcg_put(a);
	assert_false(atomic_load(&slot->owned));

	b = new_memcg(root_memcg(mm), "b"); /* reaps; no grace period yet */
	assert_ptr_equal(atomic_load(&slot->lruvec), &root_memcg(mm)->lruvec[0]);
	assert_true(ring_length(mm, mm->memcgs->limbo_slots) >= 1);
	destroy(b);
	assert_null(atomic_load(&slot->lruvec));
	assert_slots_add_up(mm);
}

static void full_table_is_refused_and_recovers(void **state)
{
	struct mm *mm = state_mm(state);
	struct memcg_domain *dom = mm->memcgs;
	struct mem_cgroup *a = new_memcg(root_memcg(mm), "a"), *b, *c, *none = NULL;
	memcg_slot_t skipped;
	struct folio folio;

	b = new_memcg(a, "b");
	folio_make(mm, &folio, 0, 0);
	assert_true(folio_charge(b, &folio));
	skipped = MEMCG_MAX_SLOTS - dom->nr_slots - 1; /* leaves one: not enough for two nodes */
	dom->nr_slots += skipped;
	assert_int_equal(memcg_create(mm, a, "c", &none), -ENOSPC);
	assert_null(none);
	destroy(b);
	/* One of b's two slots and the last new one. */
	c = new_memcg(a, "c");
	assert_int_equal(memcg_create(mm, root_memcg(mm), "d", &none), -ENOSPC);
	folio_uncharge(&folio);
	assert_int_equal(memcg_create(mm, root_memcg(mm), "d", &none), -ENOSPC);
	destroy(c);
	c = new_memcg(root_memcg(mm), "c");
	destroy(c);
	destroy(a);
	assert_int_equal(memcg_nr_live(mm), 1);
}

#define K02_ROUNDS 10000
#define K02_LEFT 64

/* Field case K-02, this floor's part: a page left charged by each of 10,000 memcgs keeps no block, and
 * slots in existence are bounded by the pages, not by the rounds. */
static void k02_no_zombies(void **state)
{
	struct mm *mm = state_mm(state);
	struct mem_cgroup *p = new_memcg(root_memcg(mm), "p");
	struct folio shared, left[K02_LEFT];

	set_max(p, 4096);
	folio_make(mm, &shared, 0, 0);
	for (unsigned i = 0; i < K02_LEFT; i++)
		folio_make(mm, &left[i], i % NR_NODES, 0);
	for (unsigned round = 0; round < K02_ROUNDS; round++) {
		struct mem_cgroup *child = new_memcg(p, "child");
		struct folio *folio = &left[round % K02_LEFT];

		set_max(child, 64);
		if (atomic_load(&folio->memcg_slot) != MEMCG_SLOT_NONE)
			folio_uncharge(folio);
		assert_true(folio_charge(child, folio));
		if (round == 0)
			assert_true(folio_charge(child, &shared));
		destroy(child);
		assert_true(memcg_nr_blocks(mm) <= 2 + 16);
		assert_int_equal(memcg_usage(p), (round < K02_LEFT ? round + 1 : K02_LEFT) + 1);
	}
	assert_int_equal(memcg_nr_blocks(mm), 2);
	assert_int_equal(memcg_stat_sum(p, MEMCG_FILE), K02_LEFT + 1);
	/* In use K02_LEFT + 1, each child has one more that is never used, and a few wait. */
	assert_true(mm->memcgs->nr_slots <= 2 * K02_LEFT + 64);
	assert_slots_add_up(mm);
	for (unsigned i = 0; i < K02_LEFT; i++)
		folio_uncharge(&left[i]);
	assert_ptr_equal(folio_lruvec(&shared), &p->lruvec[0]);
	folio_uncharge(&shared);
	assert_int_equal(memcg_usage(p), 0);
	destroy(p);
}

/* ---- walks ---- */

static void assert_walk(struct mem_cgroup *root, const char *names)
{
	struct mem_cgroup *pos = NULL;

	while ((pos = memcg_iter(root, pos)))
		assert_int_equal(pos->name[0], *names++);
	assert_int_equal(*names, '\0');
}

static void private_walk(void **state)
{
	struct mm *mm = state_mm(state);
	struct mem_cgroup *a = new_memcg(root_memcg(mm), "a"), *b = new_memcg(a, "b");
	struct mem_cgroup *e = new_memcg(a, "e"), *c = new_memcg(b, "c"), *d = new_memcg(b, "d");
	struct mem_cgroup *f = new_memcg(root_memcg(mm), "f"), *pos;

	assert_walk(root_memcg(mm), "rabcdef");
	assert_walk(a, "abcde");
	assert_walk(d, "d");
	assert_int_equal(memcg_mark_dying(d), 0);
	assert_walk(a, "abcde"); /* dying ones are visited */
	reparent(d);
	memcg_unlink(d);
	assert_walk(a, "abce");

	/* What the walk stands on goes away, and the memcg above it as well. */
	pos = memcg_iter(a, memcg_iter(a, memcg_iter(a, NULL)));
	assert_ptr_equal(pos, c);
	destroy(c);
	destroy(b);
	assert_int_equal(memcg_nr_blocks(mm), 6);
	d = new_memcg(a, "d");
	pos = memcg_iter(a, pos);
	assert_ptr_equal(pos, e);
	assert_int_equal(memcg_nr_blocks(mm), 5);
	destroy(e);
	pos = memcg_iter(a, pos);
	assert_ptr_equal(pos, d);
	destroy(d);
	pos = memcg_iter(a, pos);
	assert_null(pos);

	pos = memcg_iter(a, NULL);
	destroy(a); /* the walk's own root */
	pos = memcg_iter(a, pos);
	assert_null(pos);
	pos = memcg_iter(root_memcg(mm), NULL);
	memcg_iter_break(pos);
	memcg_iter_break(NULL);
	destroy(f);
}

static void shared_walk(void **state)
{
	struct mm *mm = state_mm(state);
	struct mem_cgroup *root = root_memcg(mm), *a = new_memcg(root, "a");
	struct mem_cgroup *b = new_memcg(a, "b"), *c = new_memcg(root, "c"), *p, *q;
	uint32_t gen_p = 77, gen_q = 77, gen = 0;

	/* Two callers share the round, on one node; the other node's position is another one. */
	p = memcg_iter_shared(root, 0, NULL, &gen_p);
	assert_ptr_equal(p, root);
	q = memcg_iter_shared(root, 0, NULL, &gen_q);
	assert_ptr_equal(q, a);
	assert_int_equal(gen_p, gen_q);
	p = memcg_iter_shared(root, 0, p, &gen_p);
	assert_ptr_equal(p, b);
	memcg_iter_break(memcg_iter_shared(root, 1, NULL, &gen));
	q = memcg_iter_shared(root, 0, q, &gen_q);
	assert_ptr_equal(q, c);
	p = memcg_iter_shared(root, 0, p, &gen_p);
	assert_null(p); /* wrapped */
	p = memcg_iter_shared(root, 0, NULL, &gen_p);
	assert_ptr_equal(p, root);
	assert_int_equal(gen_p, gen_q + 1);
	q = memcg_iter_shared(root, 0, q, &gen_q);
	assert_null(q); /* a round too late */
	/* A walk that begins at the end of a round begins the next one. */
	for (unsigned i = 0; i < 3; i++)
		p = memcg_iter_shared(root, 0, p, &gen_p);
	assert_ptr_equal(p, c);
	q = memcg_iter_shared(root, 0, NULL, &gen_q);
	assert_ptr_equal(q, root);
	memcg_iter_break(p);
	memcg_iter_break(q);
	destroy(b);
	destroy(a);
	destroy(c);
}

static void unlinking_moves_shared_positions(void **state)
{
	struct mm *mm = state_mm(state);
	struct mem_cgroup *root = root_memcg(mm), *a = new_memcg(root, "a");
	struct mem_cgroup *b = new_memcg(a, "b"), *c = new_memcg(a, "c"), *d = new_memcg(root, "d");
	struct mem_cgroup *pos = NULL;
	uint32_t gen_root, gen_a, gen_c;

	/* Positions of root and of a stand on c, c's on itself. */
	for (unsigned i = 0; i < 4; i++)
		pos = memcg_iter_shared(root, 1, pos, &gen_root);
	assert_ptr_equal(pos, c);
	memcg_iter_break(pos);
	for (pos = NULL; pos != c;)
		pos = memcg_iter_shared(a, 1, pos, &gen_a);
	memcg_iter_break(pos);
	memcg_iter_break(memcg_iter_shared(c, 1, NULL, &gen_c));
	destroy(c);
	assert_int_equal(memcg_nr_blocks(mm), 4); /* no position keeps c's block */
	assert_ptr_equal(a->lruvec[1].iter.position, b);
	assert_ptr_equal(root->lruvec[1].iter.position, b);

	/* b goes too: a's position moves to a, and the walks go on behind. */
	memcg_get(a);
	destroy(b);
	pos = memcg_iter_shared(a, 1, a, &gen_a);
	assert_null(pos);
	memcg_get(root);
	pos = memcg_iter_shared(root, 1, root, &gen_root);
	assert_ptr_equal(pos, d);

	memcg_get(a);
	destroy(a);
	assert_null(memcg_iter_shared(a, 0, NULL, &gen_a)); /* nothing to walk, nothing to hold */
	memcg_put(a);
	memcg_iter_break(pos);
	destroy(d);
}

#define FAIR_MEMCGS 40
#define FAIR_ROUNDS 400

struct fair {
	struct mem_cgroup *root;
	struct mem_cgroup *fixed[FAIR_MEMCGS];
	_Atomic uint32_t visits[FAIR_ROUNDS][FAIR_MEMCGS];
	_Atomic uint32_t last_generation;
	_Atomic bool stop;
};

static void fair_walker(struct worker *w, void *arg)
{
	struct fair *fair = arg;

	(void)w;
	while (atomic_load(&fair->last_generation) < FAIR_ROUNDS) {
		struct mem_cgroup *pos = NULL;
		uint32_t gen = 0;

		while ((pos = memcg_iter_shared(fair->root, 0, pos, &gen))) {
			uint32_t i = (uint32_t)atoi(pos->name + 1);

			atomic_store(&fair->last_generation, gen);
			if (pos->name[0] == 'f' && gen < FAIR_ROUNDS)
				atomic_fetch_add(&fair->visits[gen][i], 1);
		}
	}
}

static void fair_churn(struct worker *w, void *arg)
{
	struct fair *fair = arg;

	while (!atomic_load(&fair->stop)) {
		struct mem_cgroup *under = fair->fixed[worker_random(w, FAIR_MEMCGS)], *memcg;

		if (under->depth + 1 > UMM_MAX_DEPTH)
			continue;
		memcg = new_memcg(under, "x");
		destroy(new_memcg(memcg, "x"));
		destroy(memcg);
	}
}

/* Three walkers share the rounds: each memcg that is there all the time is visited once a round. */
static void shared_walks_are_fair(void **state)
{
	struct mm *mm = state_mm(state);
	struct fair *fair = calloc(1, sizeof(*fair));
	struct worker walker[3], churn[2];
	char name[16];

	fair->root = new_memcg(root_memcg(mm), "x");
	for (unsigned i = 0; i < FAIR_MEMCGS; i++) {
		(void)snprintf(name, sizeof(name), "f%u", i);
		fair->fixed[i] = new_memcg(i < 5 ? fair->root : fair->fixed[i / 3], name);
	}
	workers_start(churn, 2, mm, fair_churn, fair);
	workers_start(walker, 3, mm, fair_walker, fair);
	workers_join(walker, 3);
	atomic_store(&fair->stop, true);
	workers_join(churn, 2);
	for (unsigned round = 0; round < FAIR_ROUNDS; round++)
		for (unsigned i = 0; i < FAIR_MEMCGS; i++)
			assert_int_equal(fair->visits[round][i], 1);
	assert_int_equal(memcg_nr_blocks(mm), 2 + FAIR_MEMCGS);
	for (unsigned i = FAIR_MEMCGS; i-- > 0;)
		destroy(fair->fixed[i]);
	destroy(fair->root);
	free(fair);
}

/* ---- everything at once ---- */

static void storm_worker(struct worker *w, void *arg)
{
	struct mem_cgroup *top = arg;

	for (unsigned round = 0; round < 500; round++) {
		struct mem_cgroup *mid = new_memcg(top, "mid"), *leaf = new_memcg(mid, "leaf");
		struct mem_cgroup *pos = NULL, *over;
		struct folio folio;

		folio_make(w->mm, &folio, w->nr % NR_NODES, 0);
		CHECK(!memcg_try_charge(leaf, 1, &over));
		folio_commit_charge(&folio, leaf, MEMCG_FILE);
		if (round % 4 == 0) {
			while ((pos = memcg_iter(top, pos)))
				memcg_count_event(pos, MEMCG_EV_MAX, 1);
		} else {
			uint32_t gen = 0;

			for (unsigned i = 0; i < 5; i++) {
				pos = memcg_iter_shared(top, 0, pos, &gen);
				if (!pos)
					break;
			}
			memcg_iter_break(pos);
		}
		destroy(leaf);
		destroy(mid);
		CHECK(folio_lruvec(&folio)->memcg == top);
		folio_uncharge(&folio);
	}
}

static void storm(void **state)
{
	struct mm *mm = state_mm(state);
	struct mem_cgroup *top = new_memcg(root_memcg(mm), "top");
	struct worker w[4];

	workers_start(w, 4, mm, storm_worker, top);
	workers_join(w, 4);
	assert_int_equal(memcg_nr_live(mm), 2);
	assert_int_equal(memcg_nr_blocks(mm), 2);
	assert_int_equal(memcg_usage(top), 0);
	assert_int_equal(memcg_stat_sum(top, MEMCG_FILE), 0);
	assert_slots_add_up(mm);
	assert_true(mm->memcgs->nr_slots < 200);
	destroy(top);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		mm_test(root_is_there),
		cmocka_unit_test(node_mode_shares_the_lock),
		mm_test(create_and_destroy),
		mm_test(depth_is_limited),
		cmocka_unit_test(an_empty_memcg_is_small),
		cmocka_unit_test(faults_in_creation),
		mm_test(slots_follow_the_folios),
		mm_test(slot_waits_in_limbo),
		mm_test(full_table_is_refused_and_recovers),
		mm_test(k02_no_zombies),
		mm_test(private_walk),
		mm_test(shared_walk),
		mm_test(unlinking_moves_shared_positions),
		mm_test(shared_walks_are_fair),
		mm_test(storm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
