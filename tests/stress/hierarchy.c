/* SPDX-License-Identifier: MIT */
/*
 * A tree of memcgs, four levels deep, that loses and grows leaves and whole branches while all of
 * them read. What a destroyed memcg leaves behind, pages and counts, is found at its parent: the
 * top's figures are exact at the end and never run backwards on the way, and no peak is above a
 * limit.
 */
#include "stress.h"

#define LEVELS 4
#define NR_WORKERS 8
#define OBJ_PAGES 250
#define TOP_PAGES 200

/* A place in the tree; its number fixes the level: children of place p are 2p+1 and 2p+2. */
struct place {
	pthread_rwlock_t lock; /* read: cg and obj are in use; write: they come or go */
	umm_memcg_t *cg;       /* NULL: nothing there */
	umm_obj_t *obj;        /* may outlive cg by a while */
	uint64_t max;
};

#define NR_PLACES ((1u << LEVELS) - 1)

static struct {
	struct fixture f;
	umm_memcg_t *top;
	umm_obj_t *base;
	struct mem_store store;
	/* Who changes the tree's shape holds this: a parent must not go while a child is made. */
	pthread_mutex_t shape;
	struct place place[NR_PLACES];
	_Atomic uint64_t page_reads, made, destroyed, stale;
	_Atomic uint64_t seen_pgfault, seen_pgscan;
} world;

static unsigned place_level(unsigned p)
{
	unsigned level = 0;

	for (; p > 0; p = (p - 1) / 2)
		level++;
	return level;
}

static umm_memcg_t *place_parent(unsigned p)
{
	return p == 0 ? world.top : world.place[(p - 1) / 2].cg;
}

static bool place_has_children(unsigned p)
{
	for (unsigned c = 2 * p + 1; c <= 2 * p + 2 && c < NR_PLACES; c++)
		if (world.place[c].cg)
			return true;
	return false;
}

/* shape held. */
static void place_make(unsigned p)
{
	struct place *place = &world.place[p];
	umm_memcg_t *parent = place_parent(p);

	if (place->cg || place->obj || !parent)
		return;
	must(pthread_rwlock_wrlock(&place->lock) == 0);
	place->max = 120 - 25 * place_level(p);
	place->cg = memcg_with_max(&world.f, parent, "place", place->max);
	must(umm_obj_reopen(world.base, place->cg, &place->obj) == 0);
	must(pthread_rwlock_unlock(&place->lock) == 0);
	world.made++;
}

/* shape held. The handle may be used meanwhile and stays open for a while: it answers -ESTALE. */
static void place_destroy(unsigned p)
{
	struct place *place = &world.place[p];

	if (!place->cg)
		return;
	if (place_has_children(p)) {
		must(umm_memcg_destroy(place->cg) == -EBUSY);
		return;
	}
	must(memcg_pages(place->cg, UMM_MEMORY_PEAK) <= place->max);
	must(umm_memcg_destroy(place->cg) == 0);
	place->cg = NULL;
	world.destroyed++;
}

/* shape held. */
static void place_close(unsigned p)
{
	struct place *place = &world.place[p];

	if (place->cg || !place->obj)
		return;
	must(pthread_rwlock_wrlock(&place->lock) == 0);
	must(umm_close(place->obj) == 0);
	place->obj = NULL;
	must(pthread_rwlock_unlock(&place->lock) == 0);
}

static void branch_destroy(unsigned p)
{
	for (unsigned c = 2 * p + 1; c <= 2 * p + 2 && c < NR_PLACES; c++)
		branch_destroy(c);
	place_destroy(p);
	place_close(p);
}

static void op_shape(struct stress_worker *w)
{
	unsigned p = (unsigned)stress_below(w, NR_PLACES);

	must(pthread_mutex_lock(&world.shape) == 0);
	switch (stress_below(w, 8)) {
	case 0: branch_destroy(p); break;
	case 1:
	case 2: place_destroy(p); break;
	case 3: place_close(p); break;
	default:
		for (unsigned up = p; up > 0; up = (up - 1) / 2)
			place_make((up - 1) / 2);
		place_make(0);
		place_make(p);
		break;
	}
	must(pthread_mutex_unlock(&world.shape) == 0);
}

static void op_read(struct stress_worker *w)
{
	struct place *place = &world.place[stress_below(w, NR_PLACES)];
	uint64_t index = stress_below(w, stress_below(w, 2) ? 30 : OBJ_PAGES);
	umm_folio_t *folio = NULL;
	int err;

	must(pthread_rwlock_rdlock(&place->lock) == 0);
	if (place->obj) {
		if (stress_below(w, 4))
			err = read_page_checked(place->obj, world.store.id, index);
		else
			err = umm_pin(place->obj, index, 0, &folio);
		must(err == 0 || err == -ESTALE || err == -EBUSY || err == -ENOMEM);
		if (err == 0)
			world.page_reads++;
		else
			world.stale++;
	}
	must(pthread_rwlock_unlock(&place->lock) == 0);
	if (folio) {
		if (stress_below(w, 4) == 0)
			sched_yield();
		must(page_is(umm_folio_data(folio), world.store.id, index));
		umm_unpin(folio);
	}
}

/* What was seen of a count once is never taken back. */
static void never_backwards(_Atomic uint64_t *seen, const char *name)
{
	uint64_t before = *seen, now = memcg_stat(world.top, name);

	must(now >= before);
	while (now > before && !atomic_compare_exchange_weak(seen, &before, now))
		;
}

static void op_watch(struct stress_worker *w)
{
	(void)w;
	never_backwards(&world.seen_pgfault, "pgfault");
	never_backwards(&world.seen_pgscan, "pgscan");
	must(memcg_pages(world.top, UMM_MEMORY_CURRENT) <= TOP_PAGES);
}

static void hierarchy_step(struct stress_worker *w)
{
	uint64_t roll = stress_below(w, 64);

	if (roll == 0)
		op_shape(w);
	else if (roll == 1)
		op_watch(w);
	else
		op_read(w);
}

static void exact_check(void)
{
	umm_t *mm = world.f.mm;

	must(umm_check(mm) == 0);
	must(memcg_stat(world.top, "file_loading") == 0);
	must(memcg_stat(world.top, "pgfault") == world.page_reads);
	must(vmstat(mm, "pgfault") == world.page_reads);
	must(memcg_stat(world.top, "pgscan") == pages_scanned(mm));
	must(memcg_stat(world.top, "pgsteal") == pages_reclaimed(mm));
	must(memcg_stat(world.top, "file") ==
	     memcg_pages(world.top, UMM_MEMORY_CURRENT) * UMM_PAGE_SIZE);
	must(memcg_pages(world.top, UMM_MEMORY_PEAK) <= TOP_PAGES);
}

static void run(uint64_t seed, double seconds, enum umm_lru_lock lru_lock)
{
	struct umm_options o = fixture_options(512);
	static struct stress s;

	memset(&world, 0, sizeof(world));
	o.nr_nodes = 2;
	o.lru_lock = lru_lock;
	o.readahead_pages = 4;
	world.f = fixture_create_with(&o);
	world.top = memcg_with_max(&world.f, NULL, "top", TOP_PAGES);
	world.store.id = 3;
	world.store.pages = OBJ_PAGES;
	world.base = mem_store_open(world.top, &world.store);
	must(pthread_mutex_init(&world.shape, NULL) == 0);
	for (unsigned p = 0; p < NR_PLACES; p++)
		must(pthread_rwlock_init(&world.place[p].lock, NULL) == 0);
	stress_init(&s, seed, NR_WORKERS, NULL, hierarchy_step);
	for (unsigned round = 0; round < 3; round++) {
		stress_round(&s, seconds / 3);
		exact_check();
	}
	branch_destroy(0);
	exact_check();
	must(vmstat(world.f.mm, "nr_memcgs") == 2 && vmstat(world.f.mm, "nr_memcg_blocks") == 2);
	fprintf(stderr, "  %llu page reads, %llu refused, %llu memcgs made, %llu destroyed\n",
		(unsigned long long)world.page_reads, (unsigned long long)world.stale,
		(unsigned long long)world.made, (unsigned long long)world.destroyed);
	must(world.destroyed > 0 && world.destroyed == world.made);
	must(umm_close(world.base) == 0);
	must(umm_drain(world.f.mm) == 0);
	must(memcg_pages(world.top, UMM_MEMORY_CURRENT) == 0);
	must(umm_memcg_destroy(world.top) == 0);
	must(log_warnings == 0);
	fixture_destroy(&world.f);
}

int main(void)
{
	uint64_t seed = stress_seed("hierarchy");
	double seconds = stress_seconds(8) / 2;

	run(seed, seconds, UMM_LRU_LOCK_MEMCG);
	run(seed + 1, seconds, UMM_LRU_LOCK_NODE);
	return 0;
}
