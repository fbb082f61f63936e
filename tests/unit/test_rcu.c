/* SPDX-License-Identifier: MIT */
/*
 * base/rcu.c: grace periods wait for whom they must and for nobody else, and deferred frees run once.
 * All of it twice: with membarrier, and with the readers' sequentially consistent stores instead.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/rcu.h"

struct world {
	struct umm_threads threads;
	struct rcu rcu;
};

static struct world *world_create(void **state)
{
	struct world *w = calloc(1, sizeof(*w));
	bool membarrier = *state != NULL;

	assert_non_null(w);
	assert_int_equal(threads_init(&w->threads), 0);
	assert_int_equal(threads_enter(&w->threads), 0);
	assert_int_equal(rcu_init(&w->rcu, &w->threads), 0);
	w->rcu.has_membarrier &= membarrier;
	return w;
}

static void world_destroy(struct world *w)
{
	rcu_fini(&w->rcu);
	threads_fini(&w->threads);
	free(w);
}

static void enter(struct world *w)
{
	if (threads_enter(&w->threads))
		abort();
}

static void start(struct os_thread *t, void (*fn)(void *), void *arg)
{
	assert_int_equal(os_thread_create(t, fn, arg, "test-rcu"), 0);
}

/* ---- who is waited for ---- */

struct gate {
	struct world *w;
	_Atomic bool inside, leave, synced;
};

static void reader_at_gate(void *arg)
{
	struct gate *g = arg;

	enter(g->w);
	rcu_read_lock(&g->w->rcu);
	atomic_store(&g->inside, true);
	while (!atomic_load(&g->leave))
		os_yield();
	rcu_read_unlock(&g->w->rcu);
}

static void synchronizer(void *arg)
{
	struct gate *g = arg;

	enter(g->w);
	rcu_synchronize(&g->w->rcu);
	atomic_store(&g->synced, true);
}

static void wait_for(_Atomic bool *flag)
{
	while (!atomic_load(flag))
		os_yield();
}

static void test_waits_for_open_section(void **state)
{
	struct world *w = world_create(state);
	struct gate g = { .w = w };
	struct os_thread reader, writer;

	start(&reader, reader_at_gate, &g);
	wait_for(&g.inside);
	start(&writer, synchronizer, &g);
	os_sleep_ns(30000000);
	assert_false(atomic_load(&g.synced));
	atomic_store(&g.leave, true);
	os_thread_join(&writer);
	assert_true(atomic_load(&g.synced));
	os_thread_join(&reader);
	world_destroy(w);
}

static void test_ignores_later_section(void **state)
{
	struct world *w = world_create(state);
	struct gate early = { .w = w }, late = { .w = w };
	struct os_thread reader, late_reader, writer;
	uint64_t gp = atomic_load(&w->rcu.gp);

	start(&reader, reader_at_gate, &early);
	wait_for(&early.inside);
	start(&writer, synchronizer, &early);
	while (atomic_load(&w->rcu.gp) == gp)
		os_yield();
	/* Begins after the grace period did, from a thread that the instance did not know then. */
	start(&late_reader, reader_at_gate, &late);
	wait_for(&late.inside);
	atomic_store(&early.leave, true);
	/* If this waited for the late reader it would never end. */
	os_thread_join(&writer);
	assert_true(rcu_read_held(&w->rcu) == false);
	atomic_store(&late.leave, true);
	os_thread_join(&reader);
	os_thread_join(&late_reader);
	world_destroy(w);
}

static void test_idle(void **state)
{
	struct world *w = world_create(state);
	uint64_t gp = atomic_load(&w->rcu.gp);

	for (int i = 0; i < 100; i++) {
		rcu_read_lock(&w->rcu);
		assert_true(rcu_read_held(&w->rcu));
		rcu_read_unlock(&w->rcu);
		rcu_synchronize(&w->rcu);
	}
	assert_int_equal(atomic_load(&w->rcu.gp), gp + 100);
	world_destroy(w);
}

/* ---- readers against a writer that frees ---- */

#define NR_READERS 3
#define NR_UPDATES 2000
#define GOOD 0x600d600du
#define POISON 0xdeadbeefu

struct object {
	struct rcu_head rcu;
	uint32_t head, tail; /* plain: only a grace period keeps the poison away from readers */
};

struct chase {
	struct world *w;
	_Atomic(struct object *) current;
	_Atomic bool stop;
	_Atomic uint64_t reads, bad;
};

static struct object *object_create(void)
{
	struct object *o = malloc(sizeof(*o));

	if (!o)
		abort();
	o->head = GOOD;
	o->tail = GOOD;
	return o;
}

static void object_destroy(struct object *o)
{
	o->head = POISON;
	o->tail = POISON;
	free(o);
}

static void read_once(struct chase *c)
{
	const struct object *o;
	uint32_t head, tail;

	rcu_read_lock(&c->w->rcu);
	o = atomic_load_explicit(&c->current, memory_order_acquire);
	head = o->head;
	os_relax();
	tail = o->tail;
	rcu_read_unlock(&c->w->rcu);
	atomic_fetch_add_explicit(&c->reads, 1, memory_order_relaxed);
	if (head != GOOD || tail != GOOD)
		atomic_fetch_add(&c->bad, 1);
}

static void chaser(void *arg)
{
	struct chase *c = arg;

	enter(c->w);
	while (!atomic_load_explicit(&c->stop, memory_order_relaxed))
		read_once(c);
}

/* A thread that comes, reads a little and goes: slots are entered and recycled all the time. */
static void visitor(void *arg)
{
	struct chase *c = arg;

	enter(c->w);
	for (int i = 0; i < 20; i++)
		read_once(c);
}

static void visitors(void *arg)
{
	struct chase *c = arg;
	struct os_thread t[4];

	while (!atomic_load(&c->stop)) {
		for (size_t i = 0; i < ARRAY_SIZE(t); i++)
			if (os_thread_create(&t[i], visitor, c, "visitor"))
				abort();
		for (size_t i = 0; i < ARRAY_SIZE(t); i++)
			os_thread_join(&t[i]);
	}
}

static void chase_start(struct chase *c, struct world *w, struct os_thread *t)
{
	*c = (struct chase){ .w = w };
	atomic_init(&c->current, object_create());
	for (int i = 0; i < NR_READERS; i++)
		start(&t[i], chaser, c);
	start(&t[NR_READERS], visitors, c);
	while (atomic_load(&c->reads) < 100)
		os_yield();
}

static void chase_end(struct chase *c, struct os_thread *t)
{
	atomic_store(&c->stop, true);
	for (int i = 0; i <= NR_READERS; i++)
		os_thread_join(&t[i]);
	object_destroy(atomic_load(&c->current));
	assert_int_equal(atomic_load(&c->bad), 0);
}

static void test_readers_never_see_poison(void **state)
{
	struct world *w = world_create(state);
	struct os_thread t[NR_READERS + 1];
	struct chase c;

	chase_start(&c, w, t);
	for (int i = 0; i < NR_UPDATES; i++) {
		struct object *old =
			atomic_exchange_explicit(&c.current, object_create(), memory_order_acq_rel);

		rcu_synchronize(&w->rcu);
		object_destroy(old);
	}
	chase_end(&c, t);
	world_destroy(w);
}

/*
 * For what only a CPU's store buffer can break: a reader that has loaded the old pointer while its
 * own "I am reading" is not visible yet. Stores become visible in order, so a few that miss all
 * caches, just before, hold that one up for a microsecond. On two CPUs of x86-64 this fails thousands
 * of times without barrier A of rcu.c, or with a relaxed store where there is no membarrier. (D only
 * matters to CPUs that reorder more than that.)
 */
#define NR_FLIPS 100000
#define SCRATCH_BYTES (64ul << 20)
#define NR_SLOW_STORES 12

struct flip {
	struct world *w;
	struct object o[16]; /* used in turn, so that poison stays for a while */
	_Atomic(struct object *) current;
	_Atomic bool stop, running;
	char *scratch;
	uint64_t bad;
};

static void flip_reader(void *arg)
{
	struct flip *f = arg;
	uint64_t random = 1;

	enter(f->w);
	memset(f->scratch, 1, SCRATCH_BYTES);
	atomic_store(&f->running, true);
	while (!atomic_load_explicit(&f->stop, memory_order_relaxed)) {
		const struct object *o;

		for (int i = 0; i < NR_SLOW_STORES; i++) {
			random = random * 6364136223846793005u + 1442695040888963407u;
			f->scratch[(random >> 33) % SCRATCH_BYTES] = 2;
		}
		rcu_read_lock(&f->w->rcu);
		o = atomic_load_explicit(&f->current, memory_order_acquire);
		for (int i = 0; i < 20; i++)
			os_relax();
		f->bad += o->head != GOOD;
		rcu_read_unlock(&f->w->rcu);
	}
}

static void test_store_buffer(void **state)
{
	struct world *w = world_create(state);
	struct flip f = { .w = w };
	struct os_thread t;

	f.scratch = os_reserve(SCRATCH_BYTES);
	assert_non_null(f.scratch);
	f.o[0].head = GOOD;
	atomic_init(&f.current, &f.o[0]);
	start(&t, flip_reader, &f);
	wait_for(&f.running);
	for (int i = 1; i <= NR_FLIPS; i++) {
		struct object *new = &f.o[i % ARRAY_SIZE(f.o)], *old;

		new->head = GOOD;
		old = atomic_exchange_explicit(&f.current, new, memory_order_acq_rel);
		rcu_synchronize(&w->rcu);
		old->head = POISON;
	}
	atomic_store(&f.stop, true);
	os_thread_join(&t);
	os_unreserve(f.scratch, SCRATCH_BYTES);
	assert_int_equal(f.bad, 0);
	world_destroy(w);
}

static void object_rcu_free(struct rcu_head *head)
{
	object_destroy(container_of(head, struct object, rcu));
}

static void test_deferred_free_waits(void **state)
{
	struct world *w = world_create(state);
	struct os_thread t[NR_READERS + 1];
	struct chase c;

	chase_start(&c, w, t);
	for (int i = 0; i < NR_UPDATES * 10; i++) {
		struct object *old =
			atomic_exchange_explicit(&c.current, object_create(), memory_order_acq_rel);

		rcu_defer(&w->rcu, &old->rcu, object_rcu_free);
		rcu_flush_if_due(&w->rcu);
	}
	assert_true(atomic_load(&w->rcu.nr_deferred) < RCU_DEFER_BATCH);
	chase_end(&c, t);
	world_destroy(w);
}

/* ---- the deferred stack ---- */

struct call {
	struct rcu_head rcu;
	struct rcu *again; /* defer once more when run */
	_Atomic unsigned *ran;
};

static void call_run(struct rcu_head *head)
{
	struct call *c = container_of(head, struct call, rcu);

	atomic_fetch_add(c->ran, 1);
	if (c->again) {
		struct rcu *rcu = c->again;

		c->again = NULL;
		rcu_defer(rcu, &c->rcu, call_run);
	}
}

static void test_defer_and_flush(void **state)
{
	struct world *w = world_create(state);
	static struct call calls[RCU_DEFER_BATCH];
	_Atomic unsigned ran = 0;

	for (int i = 0; i < RCU_DEFER_BATCH; i++) {
		/* Below a batch nothing runs by itself. */
		rcu_flush_if_due(&w->rcu);
		rcu_flush(&w->rcu, false);
		assert_int_equal(ran, 0);
		calls[i] = (struct call){ .ran = &ran };
		rcu_defer(&w->rcu, &calls[i].rcu, call_run);
		assert_int_equal(atomic_load(&w->rcu.nr_deferred), i + 1);
	}
	rcu_flush_if_due(&w->rcu);
	assert_int_equal(ran, RCU_DEFER_BATCH);
	assert_int_equal(atomic_load(&w->rcu.nr_deferred), 0);

	/* One is enough for "all"; what it defers itself waits for the next flush. */
	calls[0].again = &w->rcu;
	rcu_defer(&w->rcu, &calls[0].rcu, call_run);
	rcu_flush(&w->rcu, true);
	assert_int_equal(ran, RCU_DEFER_BATCH + 1);
	assert_int_equal(atomic_load(&w->rcu.nr_deferred), 1);
	rcu_flush(&w->rcu, true);
	assert_int_equal(ran, RCU_DEFER_BATCH + 2);
	rcu_flush(&w->rcu, true);
	assert_int_equal(ran, RCU_DEFER_BATCH + 2);

	/* The end runs all, and what that defers. */
	calls[0].again = &w->rcu;
	rcu_defer(&w->rcu, &calls[0].rcu, call_run);
	world_destroy(w);
	assert_int_equal(ran, RCU_DEFER_BATCH + 4);
}

static void defer_in_section(void *arg)
{
	struct gate *g = arg;

	enter(g->w);
	rcu_flush(&g->w->rcu, true);
	atomic_store(&g->synced, true);
}

static void test_flush_waits_for_readers(void **state)
{
	struct world *w = world_create(state);
	struct gate g = { .w = w };
	struct os_thread reader, writer;
	_Atomic unsigned ran = 0;
	struct call c = { .ran = &ran };

	start(&reader, reader_at_gate, &g);
	wait_for(&g.inside);
	rcu_defer(&w->rcu, &c.rcu, call_run);
	start(&writer, defer_in_section, &g);
	os_sleep_ns(30000000);
	assert_int_equal(ran, 0);
	assert_false(atomic_load(&g.synced));
	atomic_store(&g.leave, true);
	os_thread_join(&writer);
	os_thread_join(&reader);
	assert_int_equal(ran, 1);
	world_destroy(w);
}

#define NR_DEFERRERS 4
#define NR_DEFERS 5000

struct defer_work {
	struct world *w;
	struct call *calls;
	_Atomic unsigned next, *ran;
};

static void deferrer(void *arg)
{
	struct defer_work *d = arg;
	unsigned first = atomic_fetch_add(&d->next, 1) * NR_DEFERS;

	enter(d->w);
	for (unsigned i = first; i < first + NR_DEFERS; i++) {
		d->calls[i] = (struct call){ .ran = d->ran };
		rcu_defer(&d->w->rcu, &d->calls[i].rcu, call_run);
		rcu_flush_if_due(&d->w->rcu);
	}
}

static void test_defer_from_many_threads(void **state)
{
	struct world *w = world_create(state);
	_Atomic unsigned ran = 0;
	struct defer_work d = { .w = w, .ran = &ran };
	struct os_thread t[NR_DEFERRERS];

	d.calls = calloc(NR_DEFERRERS * NR_DEFERS, sizeof(*d.calls));
	assert_non_null(d.calls);
	for (int i = 0; i < NR_DEFERRERS; i++)
		start(&t[i], deferrer, &d);
	for (int i = 0; i < NR_DEFERRERS; i++)
		os_thread_join(&t[i]);
	rcu_flush(&w->rcu, true);
	assert_int_equal(ran, NR_DEFERRERS * NR_DEFERS);
	assert_int_equal(atomic_load(&w->rcu.nr_deferred), 0);
	free(d.calls);
	world_destroy(w);
}

#define BOTH(test)                                                  \
	cmocka_unit_test_prestate(test, (void *)1),                 \
	{                                                           \
#test "_without_membarrier", test, NULL, NULL, NULL \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(test_waits_for_open_section),
		BOTH(test_ignores_later_section),
		BOTH(test_idle),
		BOTH(test_readers_never_see_poison),
		BOTH(test_store_buffer),
		BOTH(test_deferred_free_waits),
		BOTH(test_defer_and_flush),
		BOTH(test_flush_waits_for_readers),
		BOTH(test_defer_from_many_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
