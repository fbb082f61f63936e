/* SPDX-License-Identifier: MIT */
/*
 * Everything at once: memcgs with children come and go while their files are read, pinned, advised,
 * reclaimed and limited, on a budget so small that kswapd and callers reclaim all the time. Files
 * are shared between memcgs, and pages stay pinned after the memcg that paid for them is gone.
 *
 * Every byte read is checked. After each round the whole state is, with pins and allocations in
 * place.
 */
#include "stress.h"

#define NR_SLOTS 6
#define NR_SHARED 4 /* stores that every tenant has a handle on */
#define NR_FILES 2
#define NR_OBJS (NR_SHARED + NR_FILES + 1) /* the last one is the tenant's own */
#define OBJ_PAGES 400
#define BUDGET_PAGES 512
#define NR_WORKERS 10
#define MAX_PINS 6
#define MAX_ALLOCS 3
#define MAX_ORDER 4
#define NR_OPS 11
#define LARGE_PAGES 48

struct tenant {
	_Atomic int refs;
	_Atomic bool destroyed;   /* or about to be */
	pthread_rwlock_t cg_lock; /* read: the memcgs are in use; write: they are destroyed */
	pthread_mutex_t limit_lock;
	umm_memcg_t *cg, *child; /* NULL once destroyed */
	uint64_t max[2];         /* limit in force, of cg and child; 0: none */
	uint64_t highest[2];     /* highest limit there ever was; 0: none */
	umm_obj_t *obj[NR_OBJS];
	struct mem_store own;
};

struct slot {
	pthread_mutex_t lock;
	struct tenant *tenant;
};

struct pin {
	umm_folio_t *folio;
	uint64_t id, index;
};

/* What a worker keeps from round to round. */
struct keep {
	struct pin pin[MAX_PINS];
	struct {
		umm_folio_t *folio;
		uint64_t id;
	} alloc[MAX_ALLOCS];
	char large[LARGE_PAGES * UMM_PAGE_SIZE];
};

struct world {
	struct fixture f;
	struct mem_store store[NR_SHARED];
	umm_obj_t *base[NR_SHARED]; /* the root's handles: stores outlive tenants */
	char path[NR_FILES][128];
	struct slot slot[NR_SLOTS];
	struct keep keep[NR_WORKERS];
	unsigned weight[NR_OPS];
	_Atomic uint64_t next_id;
	_Atomic uint64_t reads, stale, refused, pins, allocs, limits, limits_refused, destroyed;
};

static uint64_t obj_id(const struct tenant *t, unsigned i)
{
	return i == NR_OBJS - 1 ? t->own.id : 1 + i;
}

/* ---- tenants ---- */

static struct tenant *tenant_create(struct world *world)
{
	struct tenant *t = calloc(1, sizeof(*t));

	must(t != NULL);
	t->refs = 1;
	must(pthread_rwlock_init(&t->cg_lock, NULL) == 0);
	must(pthread_mutex_init(&t->limit_lock, NULL) == 0);
	t->max[0] = t->highest[0] = 150;
	t->max[1] = t->highest[1] = 80;
	t->cg = memcg_with_max(&world->f, NULL, "tenant", t->max[0]);
	t->child = memcg_with_max(&world->f, t->cg, "child", t->max[1]);
	t->own.id = 1000 + world->next_id++;
	t->own.pages = OBJ_PAGES;
	for (unsigned i = 0; i < NR_SHARED; i++)
		must(umm_obj_reopen(world->base[i], i % 2 ? t->child : t->cg, &t->obj[i]) == 0);
	for (unsigned i = 0; i < NR_FILES; i++)
		must(umm_file_open(i % 2 ? t->cg : t->child, world->path[i], 0,
				   &t->obj[NR_SHARED + i]) == 0);
	t->obj[NR_OBJS - 1] = mem_store_open(t->child, &t->own);
	return t;
}

static void tenant_put(struct tenant *t)
{
	if (--t->refs > 0)
		return;
	must(t->destroyed);
	for (unsigned i = 0; i < NR_OBJS; i++)
		must(umm_close(t->obj[i]) == 0);
	must(t->own.closed == 1);
	must(pthread_rwlock_destroy(&t->cg_lock) == 0);
	must(pthread_mutex_destroy(&t->limit_lock) == 0);
	free(t);
}

static void peak_check(umm_memcg_t *cg, uint64_t highest)
{
	if (highest)
		must(memcg_pages(cg, UMM_MEMORY_PEAK) <= highest);
}

/* Destroy its memcgs, while its objects may be in use; drop the slot's reference. */
static void tenant_destroy(struct world *world, struct tenant *t)
{
	t->destroyed = true;
	must(pthread_rwlock_wrlock(&t->cg_lock) == 0);
	peak_check(t->cg, t->highest[0]);
	peak_check(t->child, t->highest[1]);
	must(umm_memcg_destroy(t->cg) == -EBUSY);
	must(umm_memcg_destroy(t->child) == 0);
	must(umm_memcg_destroy(t->cg) == 0);
	t->cg = t->child = NULL;
	must(pthread_rwlock_unlock(&t->cg_lock) == 0);
	world->destroyed++;
	tenant_put(t);
}

static struct tenant *slot_get(struct slot *slot)
{
	struct tenant *t;

	must(pthread_mutex_lock(&slot->lock) == 0);
	t = slot->tenant;
	if (t)
		t->refs++;
	must(pthread_mutex_unlock(&slot->lock) == 0);
	return t;
}

static struct tenant *slot_exchange(struct slot *slot, struct tenant *fresh)
{
	struct tenant *old;

	must(pthread_mutex_lock(&slot->lock) == 0);
	old = slot->tenant;
	slot->tenant = fresh;
	must(pthread_mutex_unlock(&slot->lock) == 0);
	return old;
}

/* The memcgs may be used until tenant_leave; false if they are destroyed. */
static bool tenant_enter(struct tenant *t)
{
	must(pthread_rwlock_rdlock(&t->cg_lock) == 0);
	if (t->cg)
		return true;
	must(pthread_rwlock_unlock(&t->cg_lock) == 0);
	return false;
}

static void tenant_leave(struct tenant *t)
{
	must(pthread_rwlock_unlock(&t->cg_lock) == 0);
}

/* ---- what a worker does ---- */

static void read_some(struct stress_worker *w, struct tenant *t, char *buf, size_t max)
{
	struct world *world = w->stress->world;
	unsigned i = (unsigned)stress_below(w, NR_OBJS);
	uint64_t offset = stress_below(w, OBJ_PAGES * UMM_PAGE_SIZE);
	size_t bytes = stress_below(w, max) + 1;
	uint64_t left = OBJ_PAGES * UMM_PAGE_SIZE - offset;
	ssize_t got = umm_pread(t->obj[i], buf, bytes, offset);

	if (bytes > left)
		bytes = left;
	if (got >= 0)
		must(bytes_are(buf, obj_id(t, i), offset, (size_t)got));
	if (got != (ssize_t)bytes) {
		must(got >= 0 || got == -ESTALE);
		must(t->destroyed);
		world->stale++;
	}
	world->reads++;
}

static void op_read(struct stress_worker *w, struct tenant *t)
{
	char buf[4 * UMM_PAGE_SIZE];

	read_some(w, t, buf, sizeof(buf));
}

/* So much that it takes several loads. */
static void op_read_large(struct stress_worker *w, struct tenant *t)
{
	struct keep *keep = &((struct world *)w->stress->world)->keep[w->number];

	read_some(w, t, keep->large, sizeof(keep->large));
}

/* In order from a random place on, for readahead. */
static void op_scan(struct stress_worker *w, struct tenant *t)
{
	unsigned i = (unsigned)stress_below(w, NR_OBJS);
	uint64_t index = stress_below(w, 2) ? 0 : stress_below(w, OBJ_PAGES);
	uint64_t end = index + 1 + stress_below(w, 60);

	for (; index < end && index < OBJ_PAGES; index++) {
		int err = read_page_checked(t->obj[i], obj_id(t, i), index);

		must(err == 0 || (err == -ESTALE && t->destroyed));
	}
}

static void unpin(struct pin *pin)
{
	must(page_is(umm_folio_data(pin->folio), pin->id, pin->index));
	umm_unpin(pin->folio);
	pin->folio = NULL;
}

static void op_pin(struct stress_worker *w, struct tenant *t)
{
	struct world *world = w->stress->world;
	struct pin *pin = &world->keep[w->number].pin[stress_below(w, MAX_PINS)];
	unsigned i = (unsigned)stress_below(w, NR_OBJS);
	int err;

	if (pin->folio) {
		unpin(pin);
		return;
	}
	pin->id = obj_id(t, i);
	pin->index = stress_below(w, 4) ? stress_below(w, 40) : stress_below(w, OBJ_PAGES);
	if (stress_below(w, 3) == 0)
		err = umm_pin_timed(t->obj[i], pin->index, 0, stress_below(w, 3000000),
				    &pin->folio);
	else
		err = umm_pin(t->obj[i], pin->index, stress_below(w, 4) ? 0 : UMM_NOWAIT,
			      &pin->folio);
	if (!err) {
		must(page_is(umm_folio_data(pin->folio), pin->id, pin->index));
		world->pins++;
		return;
	}
	must(pin->folio == NULL);
	must(err == -EBUSY || err == -ENOMEM || err == -EAGAIN || err == -ETIMEDOUT ||
	     (err == -ESTALE && t->destroyed));
	world->refused++;
}

static void op_advise(struct stress_worker *w, struct tenant *t)
{
	unsigned i = (unsigned)stress_below(w, NR_OBJS);
	uint64_t offset = stress_below(w, OBJ_PAGES) * UMM_PAGE_SIZE;
	uint64_t bytes = stress_below(w, 48) * UMM_PAGE_SIZE;
	bool need = stress_below(w, 2);
	int err = umm_advise(t->obj[i], offset, bytes,
			     need ? UMM_ADVISE_WILLNEED : UMM_ADVISE_DONTNEED);

	must(err == 0 || (err == -ESTALE && t->destroyed));
}

static void free_checked(umm_folio_t *folio, uint64_t id)
{
	must(bytes_are(umm_folio_data(folio), id, 0, umm_folio_bytes(folio)));
	umm_free(folio);
}

static void op_alloc(struct stress_worker *w, struct tenant *t)
{
	struct world *world = w->stress->world;
	unsigned i = (unsigned)stress_below(w, MAX_ALLOCS);
	umm_folio_t **folio = &world->keep[w->number].alloc[i].folio;
	uint64_t *id = &world->keep[w->number].alloc[i].id;
	unsigned order = (unsigned)stress_below(w, stress_below(w, 4) ? 2 : MAX_ORDER + 1);
	bool nowait = stress_below(w, 4) == 0;
	char *data;
	int err;

	if (*folio) {
		free_checked(*folio, *id);
		*folio = NULL;
		return;
	}
	if (!tenant_enter(t))
		return;
	err = umm_alloc(stress_below(w, 2) ? t->cg : t->child, order, nowait ? UMM_NOWAIT : 0,
			folio);
	tenant_leave(t);
	if (err) {
		must(nowait ? err == -EAGAIN : err == -EBUSY || err == -ENOMEM);
		must(*folio == NULL);
		world->refused++;
		return;
	}
	must(umm_folio_bytes(*folio) == UMM_PAGE_SIZE << order);
	data = umm_folio_data(*folio);
	must(data[0] == 0 && memcmp(data, data + 1, umm_folio_bytes(*folio) - 1) == 0);
	*id = 1000000 + world->next_id++;
	for (unsigned p = 0; p < 1u << order; p++)
		page_fill(data + p * UMM_PAGE_SIZE, *id, p);
	world->allocs++;
}

static void limit_change(struct world *world, struct tenant *t, unsigned which, uint64_t pages)
{
	umm_memcg_t *cg = which ? t->child : t->cg;
	uint64_t bytes = pages ? pages * UMM_PAGE_SIZE : UMM_NO_LIMIT, old, now;
	int err;

	must(pthread_mutex_lock(&t->limit_lock) == 0);
	if (t->highest[which] && (!pages || pages > t->highest[which]))
		t->highest[which] = pages;
	must(umm_memcg_get(cg, UMM_MEMORY_MAX, &old) == 0);
	must(old == (t->max[which] ? t->max[which] * UMM_PAGE_SIZE : UMM_NO_LIMIT));
	err = umm_memcg_set(cg, UMM_MEMORY_MAX, bytes);
	must(umm_memcg_get(cg, UMM_MEMORY_MAX, &now) == 0);
	if (err) {
		must((err == -EBUSY || err == -ENOMEM) && bytes < old);
		must(now == old);
		world->limits_refused++;
	} else {
		must(now == bytes);
		t->max[which] = pages;
		world->limits++;
		if (pages)
			must(memcg_pages(cg, UMM_MEMORY_CURRENT) <= pages);
	}
	peak_check(cg, t->highest[which]);
	must(pthread_mutex_unlock(&t->limit_lock) == 0);
}

static void op_limit(struct stress_worker *w, struct tenant *t)
{
	uint64_t pages = stress_below(w, 6) ? 2 + stress_below(w, 200) : 0;

	if (!tenant_enter(t))
		return;
	limit_change(w->stress->world, t, (unsigned)stress_below(w, 2), pages);
	tenant_leave(t);
}

static void op_reclaim(struct stress_worker *w, struct tenant *t)
{
	struct world *world = w->stress->world;
	uint64_t bytes = stress_below(w, 64) * UMM_PAGE_SIZE, got = 1;
	umm_memcg_t *cg;
	int err;

	if (!tenant_enter(t))
		return;
	cg = stress_below(w, 8) == 0 ? world->f.root : stress_below(w, 2) ? t->cg : t->child;
	err = umm_memcg_reclaim(cg, bytes, &got);
	tenant_leave(t);
	must(got % UMM_PAGE_SIZE == 0);
	must(err == (got < bytes ? -EAGAIN : 0));
}

static void op_stat(struct stress_worker *w, struct tenant *t)
{
	struct world *world = w->stress->world;
	struct umm_stat st[128];

	if (!tenant_enter(t))
		return;
	must(umm_memcg_stat(t->cg, st, 128) > 0);
	must(umm_memcg_events(t->child, st, 128) > 0);
	must(umm_vmstat(world->f.mm, st, 128) > 0);
	tenant_leave(t);
}

static void op_destroy(struct stress_worker *w, struct tenant *t)
{
	struct world *world = w->stress->world;
	struct tenant *old;

	(void)t;
	old = slot_exchange(&world->slot[stress_below(w, NR_SLOTS)], tenant_create(world));
	if (old)
		tenant_destroy(world, old);
}

static void op_drain(struct stress_worker *w, struct tenant *t)
{
	struct world *world = w->stress->world;

	(void)t;
	must(umm_drain(world->f.mm) == 0);
}

static const struct {
	unsigned weight; /* on average */
	void (*fn)(struct stress_worker *w, struct tenant *t);
} ops[NR_OPS] = {
	{ 40, op_read },  { 2, op_read_large }, { 4, op_scan },  { 20, op_pin },
	{ 4, op_advise }, { 10, op_alloc },     { 4, op_limit }, { 3, op_reclaim },
	{ 1, op_stat },   { 2, op_destroy },    { 1, op_drain },
};

/* Each round likes some things more than others. */
static void weights_choose(struct world *world, uint64_t *rng)
{
	for (unsigned i = 0; i < NR_OPS; i++)
		world->weight[i] = ops[i].weight * (1u << rng_next(rng) % 4);
}

static void churn_step(struct stress_worker *w)
{
	struct world *world = w->stress->world;
	struct tenant *t = slot_get(&world->slot[stress_below(w, NR_SLOTS)]);
	unsigned total = 0, i = 0;
	uint64_t roll;

	for (unsigned k = 0; k < NR_OPS; k++)
		total += world->weight[k];
	for (roll = stress_below(w, total); roll >= world->weight[i]; i++)
		roll -= world->weight[i];
	ops[i].fn(w, t);
	tenant_put(t);
}

/* ---- the world ---- */

static void world_create(struct world *world, unsigned nodes, enum umm_lru_lock lru_lock,
			 uint32_t flags)
{
	struct umm_options o = fixture_options(BUDGET_PAGES);

	memset(world, 0, sizeof(*world));
	o.nr_nodes = nodes;
	o.lru_lock = lru_lock;
	o.flags = flags;
	o.readahead_pages = 16;
	world->f = fixture_create_with(&o);
	for (unsigned i = 0; i < NR_SHARED; i++) {
		world->store[i].id = 1 + i;
		world->store[i].pages = OBJ_PAGES;
		/* One of them is slow: loads are in flight when others come by. */
		world->store[i].delay_ns = i == 0 ? 20000 : 0;
		world->base[i] = mem_store_open(world->f.root, &world->store[i]);
	}
	for (unsigned i = 0; i < NR_FILES; i++)
		file_create(world->path[i], sizeof(world->path[i]), 1 + NR_SHARED + i, OBJ_PAGES);
	for (unsigned i = 0; i < NR_SLOTS; i++) {
		must(pthread_mutex_init(&world->slot[i].lock, NULL) == 0);
		world->slot[i].tenant = tenant_create(world);
	}
}

/* Everything that the workers kept, in whatever order. */
static void world_release(struct world *world)
{
	for (unsigned i = 0; i < NR_WORKERS; i++) {
		for (unsigned p = 0; p < MAX_PINS; p++)
			if (world->keep[i].pin[p].folio)
				unpin(&world->keep[i].pin[p]);
		for (unsigned a = 0; a < MAX_ALLOCS; a++)
			if (world->keep[i].alloc[a].folio)
				free_checked(world->keep[i].alloc[a].folio,
					     world->keep[i].alloc[a].id);
	}
}

static void world_destroy(struct world *world)
{
	umm_t *mm = world->f.mm;

	for (unsigned i = 0; i < NR_SLOTS; i++)
		tenant_destroy(world, slot_exchange(&world->slot[i], NULL));
	must(umm_check(mm) == 0);
	world_release(world);
	must(umm_check(mm) == 0);
	must(vmstat(mm, "nr_memcgs") == 1 && vmstat(mm, "nr_memcg_blocks") == 1);
	must(vmstat(mm, "nr_unevictable") == 0);
	for (unsigned i = 0; i < NR_SHARED; i++) {
		must(umm_close(world->base[i]) == 0);
		must(world->store[i].closed == 1);
	}
	must(umm_drain(mm) == 0);
	must(memcg_pages(world->f.root, UMM_MEMORY_CURRENT) == 0);
	must(vmstat(mm, "nr_free_pages") == vmstat(mm, "nr_pages"));
	must(vmstat(mm, "index_bytes") == 0);
	must(vmstat(mm, "warnings") == 0 && log_warnings == 0);
	fixture_destroy(&world->f);
	for (unsigned i = 0; i < NR_FILES; i++)
		must(unlink(world->path[i]) == 0);
}

static void world_report(struct world *world)
{
	umm_t *mm = world->f.mm;

	fprintf(stderr,
		"  reads %llu stale %llu pins %llu allocs %llu refused %llu limits %llu"
		" (refused %llu) destroyed %llu\n"
		"  kswapd %llu direct %llu proactive %llu culled %llu rescued %llu"
		" retries %llu bypass %llu pin_wait %llu\n",
		(unsigned long long)world->reads, (unsigned long long)world->stale,
		(unsigned long long)world->pins, (unsigned long long)world->allocs,
		(unsigned long long)world->refused, (unsigned long long)world->limits,
		(unsigned long long)world->limits_refused, (unsigned long long)world->destroyed,
		(unsigned long long)vmstat(mm, "pgsteal_kswapd"),
		(unsigned long long)vmstat(mm, "pgsteal_direct"),
		(unsigned long long)vmstat(mm, "pgsteal_proactive"),
		(unsigned long long)vmstat(mm, "unevictable_pgs_culled"),
		(unsigned long long)vmstat(mm, "unevictable_pgs_rescued"),
		(unsigned long long)vmstat(mm, "lruvec_lock_retry"),
		(unsigned long long)vmstat(mm, "bypass_pages"),
		(unsigned long long)vmstat(mm, "pin_wait"));
}

#define NR_ROUNDS 4

static void run(uint64_t seed, double seconds, unsigned nodes, enum umm_lru_lock lru_lock,
		uint32_t flags)
{
	static struct world world;
	static struct stress s;

	world_create(&world, nodes, lru_lock, flags);
	stress_init(&s, seed, NR_WORKERS, &world, churn_step);
	for (unsigned round = 0; round < NR_ROUNDS; round++) {
		weights_choose(&world, &seed);
		stress_round(&s, seconds / NR_ROUNDS);
		must(umm_check(world.f.mm) == 0);
		must(memcg_stat(world.f.root, "file_loading") == 0);
	}
	fprintf(stderr, " %u nodes, lru_lock %d, flags %u\n", nodes, (int)lru_lock, flags);
	world_report(&world);
	must(pages_reclaimed(world.f.mm) > 0 &&
	     pages_reclaimed(world.f.mm) <= pages_scanned(world.f.mm));
	must(vmstat(world.f.mm, "unevictable_pgs_rescued") > 0);
	must(world.destroyed > 0 && world.pins > 0 && world.allocs > 0);
	world_destroy(&world);
}

int main(void)
{
	uint64_t seed = stress_seed("churn");
	double seconds = stress_seconds(10) / 5;

	run(seed, seconds, 1, UMM_LRU_LOCK_MEMCG, 0);
	run(seed + 1, seconds, 3, UMM_LRU_LOCK_MEMCG, UMM_NO_URING);
	run(seed + 2, seconds, 1, UMM_LRU_LOCK_NODE, 0);
	run(seed + 3, seconds, 3, UMM_LRU_LOCK_NODE, 0);
	run(seed + 4, seconds, 1, UMM_LRU_LOCK_MEMCG, UMM_NO_KSWAPD);
	return 0;
}
