/* SPDX-License-Identifier: MIT */
/*
 * 64 threads want one page, of a store that fails now and then. Again and again it is dropped while
 * nobody uses it, then all come for it at once, and some try to drop it meanwhile. However many
 * want it there is one load at a time; each gets the right bytes or the error of a load that it
 * waited for; an error is never remembered.
 */
#include "stress.h"

#define NR_WORKERS 64
#define PAGE_INDEX 5
#define NR_PAGES 9

struct flaky_store {
	struct mem_store mem;
	_Atomic uint32_t calls, failures;
	_Atomic int in_flight, most_in_flight;
};

static struct {
	struct fixture f;
	umm_memcg_t *cg;
	umm_obj_t *obj;
	struct flaky_store store;
	pthread_barrier_t barrier;
	_Atomic bool over;
	uint64_t herds; /* worker 0's */
	_Atomic uint64_t good, bad, dropped;
} world;

static ssize_t flaky_read(void *ctx, const struct iovec *iov, int iovcnt, uint64_t offset)
{
	struct flaky_store *s = ctx;
	uint32_t call = ++s->calls;
	int now = ++s->in_flight, most = s->most_in_flight;
	ssize_t ret;

	while (now > most && !atomic_compare_exchange_weak(&s->most_in_flight, &most, now))
		;
	sched_yield();
	if (call % 3 == 0) {
		s->failures++;
		ret = call % 2 ? -EIO : -ENXIO;
	} else {
		if (call % 4 == 0)
			sleep_ns(200000);
		ret = mem_store_read(&s->mem, iov, iovcnt, offset);
	}
	s->in_flight--;
	return ret;
}

static void flaky_close(void *ctx)
{
	struct flaky_store *s = ctx;

	s->mem.closed++;
}

static const struct umm_store_ops flaky_ops = {
	.size = sizeof(flaky_ops),
	.read = flaky_read,
	.close = flaky_close,
};

static void outcome(int err)
{
	must(err == 0 || err == -EIO || err == -ENXIO);
	if (err)
		world.bad++;
	else
		world.good++;
}

static void drop(void)
{
	must(umm_advise(world.obj, PAGE_INDEX * UMM_PAGE_SIZE, UMM_PAGE_SIZE,
			UMM_ADVISE_DONTNEED) == 0);
	world.dropped++;
}

static void want(struct stress_worker *w)
{
	uint64_t roll = stress_below(w, 16);
	umm_folio_t *folio;
	int err;

	if (roll == 0) {
		drop();
	} else if (roll < 6) {
		err = pin_checked(world.obj, world.store.mem.id, PAGE_INDEX, &folio);
		outcome(err);
		if (err)
			return;
		if (roll == 1)
			sched_yield();
		must(page_is(umm_folio_data(folio), world.store.mem.id, PAGE_INDEX));
		umm_unpin(folio);
	} else {
		outcome(read_page_checked(world.obj, world.store.mem.id, PAGE_INDEX));
	}
}

/* All workers in step, until worker 0 says that the round is over. */
static void one_page_step(struct stress_worker *w)
{
	uint32_t calls = 0;

	while (!world.over) {
		pthread_barrier_wait(&world.barrier);
		if (w->number == 0) {
			drop();
			calls = world.store.calls;
			world.herds++;
		}
		pthread_barrier_wait(&world.barrier);
		for (unsigned i = 0; i < 3; i++)
			want(w);
		pthread_barrier_wait(&world.barrier);
		if (w->number == 0) {
			must(world.store.calls > calls); /* it was gone, and nobody had it */
			world.over = now_ns() >= w->stress->end_ns;
		}
		pthread_barrier_wait(&world.barrier);
	}
}

static void run(uint64_t seed, double seconds, uint32_t readahead)
{
	struct umm_options o = fixture_options(256);
	static struct stress s;
	umm_t *mm;

	memset(&world, 0, sizeof(world));
	o.readahead_pages = readahead;
	world.f = fixture_create_with(&o);
	mm = world.f.mm;
	world.cg = memcg_with_max(&world.f, NULL, "tenant", 64);
	world.store.mem.id = 77;
	world.store.mem.pages = NR_PAGES;
	must(umm_store_open(world.cg, &flaky_ops, &world.store, NR_PAGES * UMM_PAGE_SIZE,
			    &world.obj) == 0);
	stress_init(&s, seed, NR_WORKERS, NULL, one_page_step);
	must(pthread_barrier_init(&world.barrier, NULL, NR_WORKERS) == 0);
	for (unsigned round = 0; round < 2; round++) {
		world.over = false;
		stress_round(&s, seconds / 2);
		must(umm_check(mm) == 0);
		must(vmstat(mm, "pgfault") == world.good);
	}
	fprintf(stderr,
		"  %llu herds, %llu good %llu bad %llu dropped, %u loads, %u failed, %d at once\n",
		(unsigned long long)world.herds, (unsigned long long)world.good,
		(unsigned long long)world.bad, (unsigned long long)world.dropped,
		(unsigned)world.store.calls, (unsigned)world.store.failures,
		(int)world.store.most_in_flight);
	must(world.good > 0 && world.bad > 0 && world.store.failures > 0);
	/* Past the cache there may be more; nothing drives reads there. */
	must((uint64_t)world.store.most_in_flight <= 1 + vmstat(mm, "bypass_pages"));
	must(pthread_barrier_destroy(&world.barrier) == 0);
	must(umm_close(world.obj) == 0 && world.store.mem.closed == 1);
	must(umm_memcg_destroy(world.cg) == 0);
	must(log_warnings == 0);
	fixture_destroy(&world.f);
}

int main(void)
{
	uint64_t seed = stress_seed("one_page");
	double seconds = stress_seconds(6) / 2;

	run(seed, seconds, 0);
	run(seed + 1, seconds, 8);
	return 0;
}
