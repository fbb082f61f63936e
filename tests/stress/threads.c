/* SPDX-License-Identifier: MIT */
/*
 * Threads that live for a few calls: each gets a slot that a dead thread has used, with its
 * counters, and leaves what it pinned or allocated to others. Nothing that is kept for each thread
 * may be lost or mixed up by that: the sum of all reads is exact at the end.
 */
#include "stress.h"

#define NR_SPAWNERS 8
#define NR_CHILDREN 8
#define OBJ_PAGES 300
#define BUDGET_PAGES 256
#define NR_HANDED 64

static struct {
	struct fixture f;
	umm_memcg_t *cg[2];
	umm_obj_t *obj[2];
	struct mem_store store;
	_Atomic(umm_folio_t *)
		pinned[NR_HANDED]; /* pins that one thread took and another gives back */
	_Atomic(umm_folio_t *) plain[NR_HANDED];
	_Atomic uint64_t threads, page_reads;
} world;

struct life {
	pthread_t thread;
	uint64_t rng;
};

static void life_read(uint64_t *rng)
{
	uint64_t index = rng_next(rng) % OBJ_PAGES;

	must(read_page_checked(world.obj[rng_next(rng) % 2], world.store.id, index) == 0);
	world.page_reads++;
}

static void unpin_other(umm_folio_t *folio)
{
	if (!folio)
		return;
	/* Which page it is stands in its bytes: they must be those of some page of the store. */
	bool known = false;

	for (uint64_t i = 0; i < OBJ_PAGES && !known; i++)
		known = *(uint64_t *)umm_folio_data(folio) == page_word(world.store.id, i, 0) &&
			page_is(umm_folio_data(folio), world.store.id, i);
	must(known);
	umm_unpin(folio);
}

static void life_pin(uint64_t *rng)
{
	umm_folio_t *folio = NULL;
	int err = umm_pin(world.obj[rng_next(rng) % 2], rng_next(rng) % OBJ_PAGES, 0, &folio);

	must(err == 0 || err == -EBUSY || err == -ENOMEM);
	if (!err)
		world.page_reads++;
	unpin_other(atomic_exchange(&world.pinned[rng_next(rng) % NR_HANDED], folio));
}

static void life_alloc(uint64_t *rng)
{
	umm_folio_t *folio = NULL;
	int err = umm_alloc(world.cg[rng_next(rng) % 2], (unsigned)(rng_next(rng) % 2), 0, &folio);

	must(err == 0 || err == -EBUSY || err == -ENOMEM);
	umm_free(atomic_exchange(&world.plain[rng_next(rng) % NR_HANDED], folio));
}

static void *life_main(void *arg)
{
	struct life *life = arg;

	world.threads++;
	for (unsigned i = 0; i < 1 + rng_next(&life->rng) % 6; i++) {
		switch (rng_next(&life->rng) % 4) {
		case 0: life_pin(&life->rng); break;
		case 1: life_alloc(&life->rng); break;
		default: life_read(&life->rng); break;
		}
	}
	return NULL;
}

static void spawner_step(struct stress_worker *w)
{
	struct life life[NR_CHILDREN];
	unsigned nr = 1 + (unsigned)stress_below(w, NR_CHILDREN);

	for (unsigned i = 0; i < nr; i++) {
		life[i].rng = rng_next(&w->rng);
		must(pthread_create(&life[i].thread, NULL, life_main, &life[i]) == 0);
	}
	for (unsigned i = 0; i < nr; i++)
		must(pthread_join(life[i].thread, NULL) == 0);
}

static void release_all(void)
{
	for (unsigned i = 0; i < NR_HANDED; i++) {
		unpin_other(atomic_exchange(&world.pinned[i], NULL));
		umm_free(atomic_exchange(&world.plain[i], NULL));
	}
}

int main(void)
{
	uint64_t seed = stress_seed("threads");
	double seconds = stress_seconds(6);
	struct umm_options o = fixture_options(BUDGET_PAGES);
	static struct stress s;

	o.nr_nodes = 2;
	world.f = fixture_create_with(&o);
	world.store.id = 1;
	world.store.pages = OBJ_PAGES;
	for (unsigned i = 0; i < 2; i++)
		world.cg[i] = memcg_with_max(&world.f, NULL, "tenant", 140);
	world.obj[0] = mem_store_open(world.cg[0], &world.store);
	must(umm_obj_reopen(world.obj[0], world.cg[1], &world.obj[1]) == 0);
	stress_init(&s, seed, NR_SPAWNERS, NULL, spawner_step);
	for (unsigned round = 0; round < 3; round++) {
		stress_round(&s, seconds / 3);
		must(umm_check(world.f.mm) == 0);
		must(vmstat(world.f.mm, "pgfault") == world.page_reads);
		must(memcg_stat(world.f.root, "pgfault") == world.page_reads);
	}
	fprintf(stderr, "  %llu threads, %llu page reads\n", (unsigned long long)world.threads,
		(unsigned long long)world.page_reads);
	release_all();
	for (unsigned i = 0; i < 2; i++) {
		must(umm_close(world.obj[i]) == 0);
		must(umm_memcg_destroy(world.cg[i]) == 0);
	}
	must(memcg_pages(world.f.root, UMM_MEMORY_CURRENT) == 0);
	must(log_warnings == 0);
	fixture_destroy(&world.f);
	return 0;
}
