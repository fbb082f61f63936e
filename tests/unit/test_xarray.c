/* SPDX-License-Identifier: MIT */
/*
 * The index: against a slow and obvious model with random operations, with each node allocation failing
 * in turn, and with readers that take no lock against a writer that makes the tree grow and shrink.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/fault.h"
#include "cache/xarray.h"

static struct mm *mm_create(void)
{
	struct mm *mm = calloc(1, sizeof(*mm));

	assert_non_null(mm);
	assert_int_equal(threads_init(&mm->threads), 0);
	assert_int_equal(rcu_init(&mm->rcu, &mm->threads), 0);
	assert_int_equal(threads_enter(&mm->threads), 0);
	return mm;
}

static void mm_destroy(struct mm *mm)
{
	rcu_flush(&mm->rcu, true);
	rcu_fini(&mm->rcu);
	threads_fini(&mm->threads);
	free(mm);
}

static uint64_t nodes_in_mm(struct mm *mm)
{
	return atomic_load(&mm->nr_index_nodes);
}

static uint64_t rng(uint64_t *state)
{
	uint64_t x = *state;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return *state = x;
}

static void *value_entry(uint64_t v)
{
	return (void *)(uintptr_t)(v << 1 | XA_TAG_VALUE);
}

/* ---- what a tree must look like ---- */

/* Check a node and what is below; return the OR of the marks. */
static unsigned check_node(struct xa_node *node, unsigned shift)
{
	uint64_t used = 0, mark[NR_XA_MARKS] = { 0 };
	unsigned marks = 0;

	assert_int_equal(node->shift, shift);
	for (unsigned i = 0; i < XA_SLOTS; i++) {
		void *entry = atomic_load(&node->slot[i]);
		struct xa_node *child;
		unsigned below;

		if (!entry)
			continue;
		used |= 1ull << i;
		assert_int_equal(xa_is_node(entry), shift != 0);
		if (!shift)
			continue;
		child = xa_to_node(entry);
		assert_ptr_equal(child->parent, node);
		assert_int_equal(child->offset, i);
		below = check_node(child, shift - XA_SHIFT);
		for (unsigned m = 0; m < NR_XA_MARKS; m++)
			mark[m] |= (uint64_t)(below >> m & 1) << i;
	}
	assert_true(used);
	assert_int_equal(used, atomic_load(&node->used));
	for (unsigned m = 0; m < NR_XA_MARKS; m++) {
		uint64_t bits = atomic_load(&node->mark[m]);

		assert_int_equal(bits & ~used, 0);
		if (shift)
			assert_int_equal(bits, mark[m]);
		marks |= (unsigned)(bits != 0) << m;
	}
	return marks;
}

static void check_tree(struct xarray *xa)
{
	void *head = atomic_load(&xa->head);

	if (xa_is_node(head)) {
		struct xa_node *top = xa_to_node(head);

		assert_null(top->parent);
		assert_int_equal(top->offset, 0);
		/* Else slot 0 alone is in use and the tree is higher than it need be. */
		assert_int_not_equal(atomic_load(&top->used), 1);
		(void)check_node(top, top->shift);
	}
}

/* ---- the model: the indexes that a test uses, in order, and what stands at each ---- */

#define MODEL_MAX 400

struct model {
	struct mm *mm;
	struct xarray xa;
	unsigned nr;
	uint64_t index[MODEL_MAX];
	void *entry[MODEL_MAX];
	unsigned marks[MODEL_MAX];
};

static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Sort the indexes and drop doubles. */
static void model_init(struct model *mo, struct mm *mm, unsigned nr)
{
	unsigned kept = 0;

	mo->mm = mm;
	xa_init(&mo->xa);
	qsort(mo->index, nr, sizeof(mo->index[0]), compare_u64);
	for (unsigned i = 0; i < nr; i++)
		if (!kept || mo->index[kept - 1] != mo->index[i])
			mo->index[kept++] = mo->index[i];
	mo->nr = kept;
	memset(mo->entry, 0, sizeof(mo->entry));
	memset(mo->marks, 0, sizeof(mo->marks));
}

/* As many nodes as there are different ways from the top: one for each prefix of an index. */
static uint64_t model_nr_nodes(const struct model *mo)
{
	uint64_t nr = 0, top = 0;
	unsigned shift = 0;

	for (unsigned i = 0; i < mo->nr; i++)
		if (mo->entry[i])
			top = mo->index[i];
	if (!top)
		return 0;
	for (;; shift += XA_SHIFT) {
		bool any = false;
		uint64_t last = 0;

		for (unsigned i = 0; i < mo->nr; i++) {
			uint64_t prefix = mo->index[i] >> shift >> XA_SHIFT;

			if (mo->entry[i] && (!any || prefix != last)) {
				any = true;
				last = prefix;
				nr++;
			}
		}
		if (!(top >> shift >> XA_SHIFT))
			return nr;
	}
}

static void *model_find(const struct model *mo, uint64_t *index, uint64_t last, int mark)
{
	for (unsigned i = 0; i < mo->nr; i++)
		if (mo->entry[i] && mo->index[i] >= *index && mo->index[i] <= last &&
		    (mark < 0 || mo->marks[i] >> mark & 1)) {
			*index = mo->index[i];
			return mo->entry[i];
		}
	return NULL;
}

static void model_store(struct model *mo, unsigned i, void *entry)
{
	void *old = &old;

	assert_int_equal(xa_store(mo->mm, &mo->xa, mo->index[i], entry, &old), 0);
	assert_ptr_equal(old, mo->entry[i]);
	mo->entry[i] = entry;
	if (!entry)
		mo->marks[i] = 0;
}

static void model_check_find(struct model *mo, uint64_t from, uint64_t last)
{
	for (int mark = -1; mark < NR_XA_MARKS; mark++) {
		uint64_t a = from, b = from;
		void *ea = model_find(mo, &a, last, mark);
		void *eb = mark < 0 ? xa_find(&mo->xa, &b, last)
				    : xa_find_marked(&mo->xa, &b, last, (enum xa_mark)mark);

		assert_ptr_equal(ea, eb);
		assert_int_equal(a, b);
	}
}

static void model_check(struct model *mo)
{
	uint64_t at = 0, nr = 0, nodes = model_nr_nodes(mo);

	check_tree(&mo->xa);
	assert_int_equal(xa_nr_nodes(&mo->xa), nodes);
	assert_int_equal(nodes_in_mm(mo->mm), nodes);
	for (unsigned i = 0; i < mo->nr; i++) {
		assert_ptr_equal(xa_load(&mo->xa, mo->index[i]), mo->entry[i]);
		for (unsigned m = 0; m < NR_XA_MARKS; m++)
			assert_int_equal(xa_get_mark(&mo->xa, mo->index[i], m),
					 mo->marks[i] >> m & 1);
		nr += mo->entry[i] != NULL;
	}
	while (xa_find(&mo->xa, &at, UINT64_MAX)) {
		nr--;
		if (at++ == UINT64_MAX)
			break;
	}
	assert_int_equal(nr, 0);
}

static void model_op(struct model *mo, uint64_t *seed)
{
	unsigned i = (unsigned)(rng(seed) % mo->nr);
	enum xa_mark mark = rng(seed) % NR_XA_MARKS;
	uint64_t a, b;

	switch (rng(seed) % 8) {
	case 0:
	case 1: model_store(mo, i, value_entry(rng(seed) >> 1)); break;
	case 2: model_store(mo, i, (void *)(uintptr_t)(rng(seed) << 3 | 8)); break;
	case 3:
	case 4: model_store(mo, i, NULL); break;
	case 5:
		xa_set_mark(&mo->xa, mo->index[i], mark);
		if (mo->entry[i])
			mo->marks[i] |= 1u << mark;
		break;
	case 6:
		xa_clear_mark(&mo->xa, mo->index[i], mark);
		mo->marks[i] &= ~(1u << mark);
		break;
	case 7:
		a = mo->index[i] + rng(seed) % 3 - 1;
		b = mo->index[rng(seed) % mo->nr];
		model_check_find(mo, a, b);
		model_check_find(mo, a, UINT64_MAX);
		break;
	}
}

static void model_run(struct model *mo, uint64_t seed, unsigned ops)
{
	for (unsigned n = 0; n < ops; n++) {
		model_op(mo, &seed);
		if (n % 16 == 0)
			model_check(mo);
		if (n % 512 == 511) {
			/* Take most away, so that what is left moves to the top. */
			for (unsigned i = 0; i < mo->nr; i++)
				if (rng(&seed) % 16)
					model_store(mo, i, NULL);
			model_check(mo);
		}
		rcu_flush_if_due(&mo->mm->rcu);
	}
	for (unsigned i = 0; i < mo->nr; i++)
		model_store(mo, i, NULL);
	model_check(mo);
	assert_null(atomic_load(&mo->xa.head));
	assert_int_equal(nodes_in_mm(mo->mm), 0);
}

enum universe { DENSE, FEW, SPARSE, HUGE_ONES, DIGITS, NR_UNIVERSES };

static unsigned universe_fill(struct model *mo, enum universe u, uint64_t *seed)
{
	unsigned nr = u == FEW ? 6 : u == DENSE ? MODEL_MAX : 120;

	for (unsigned i = 0; i < nr; i++) {
		switch (u) {
		case DENSE: mo->index[i] = i; break;
		case FEW: mo->index[i] = i < 3 ? i : 1ull << (i * 9); break;
		case SPARSE: mo->index[i] = rng(seed) % (1ull << 28); break;
		case HUGE_ONES: mo->index[i] = i < 40 ? i : UINT64_MAX - rng(seed) % 300; break;
		default: mo->index[i] = (rng(seed) % 64) << (rng(seed) % 11 * XA_SHIFT); break;
		}
	}
	if (u == HUGE_ONES)
		mo->index[nr - 1] = UINT64_MAX;
	if (u == DIGITS || u == SPARSE)
		mo->index[0] = 0;
	return nr;
}

static void test_model(void **state)
{
	struct mm *mm = mm_create();
	struct model *mo = calloc(1, sizeof(*mo));
	uint64_t seed = 0x9e3779b97f4a7c15u;

	(void)state;
	assert_non_null(mo);
	for (unsigned round = 0; round < 3; round++)
		for (enum universe u = 0; u < NR_UNIVERSES; u++) {
			model_init(mo, mm, universe_fill(mo, u, &seed));
			model_run(mo, rng(&seed), u == FEW ? 20000 : 6000);
		}
	free(mo);
	mm_destroy(mm);
}

/* ---- single cases ---- */

static void test_edges(void **state)
{
	struct mm *mm = mm_create();
	struct xarray xa;
	uint64_t at = 0;
	void *old = &old;

	(void)state;
	xa_init(&xa);
	assert_null(xa_load(&xa, 0));
	assert_null(xa_load(&xa, UINT64_MAX));
	assert_null(xa_find(&xa, &at, UINT64_MAX));
	assert_int_equal(xa_store(mm, &xa, 7, NULL, &old), 0);
	assert_null(old);

	/* A value whose bits look like a node's tag is no node. */
	for (uint64_t v = 0; v < 16; v++) {
		assert_int_equal(xa_store(mm, &xa, 0, value_entry(v), NULL), 0);
		assert_ptr_equal(xa_load(&xa, 0), value_entry(v));
		assert_int_equal(xa_nr_nodes(&xa), 0);
	}
	assert_null(xa_load(&xa, 1));

	assert_int_equal(xa_store(mm, &xa, UINT64_MAX, value_entry(1), NULL), 0);
	assert_int_equal(xa_nr_nodes(&xa), 21);
	assert_ptr_equal(xa_load(&xa, UINT64_MAX), value_entry(1));
	assert_ptr_equal(xa_load(&xa, 0), value_entry(15));
	at = 1;
	assert_ptr_equal(xa_find(&xa, &at, UINT64_MAX), value_entry(1));
	assert_int_equal(at, UINT64_MAX);
	at = 1;
	assert_null(xa_find(&xa, &at, UINT64_MAX - 1));
	assert_int_equal(at, 1);
	at = 5;
	assert_null(xa_find(&xa, &at, 4));
	assert_int_equal(xa_store(mm, &xa, 0, NULL, &old), 0);
	assert_ptr_equal(old, value_entry(15));
	assert_int_equal(xa_nr_nodes(&xa), 11);
	assert_int_equal(xa_store(mm, &xa, UINT64_MAX, NULL, NULL), 0);
	assert_int_equal(xa_nr_nodes(&xa), 0);
	assert_int_equal(nodes_in_mm(mm), 0);
	mm_destroy(mm);
}

/* Marks go with the entry at index 0 when it moves between the head and a node. */
static void test_head_marks(void **state)
{
	struct mm *mm = mm_create();
	struct xarray xa;

	(void)state;
	xa_init(&xa);
	xa_set_mark(&xa, 0, XA_MARK_DIRTY);
	assert_false(xa_get_mark(&xa, 0, XA_MARK_DIRTY));
	assert_int_equal(xa_store(mm, &xa, 0, value_entry(1), NULL), 0);
	assert_false(xa_get_mark(&xa, 0, XA_MARK_DIRTY));
	xa_set_mark(&xa, 0, XA_MARK_WRITEBACK);
	for (unsigned bit = 0; bit < 64; bit++) {
		uint64_t other = 1ull << bit, at = 0;

		assert_int_equal(xa_store(mm, &xa, other, value_entry(2), NULL), 0);
		check_tree(&xa);
		assert_true(xa_get_mark(&xa, 0, XA_MARK_WRITEBACK));
		assert_false(xa_get_mark(&xa, 0, XA_MARK_DIRTY));
		assert_false(xa_get_mark(&xa, other, XA_MARK_WRITEBACK));
		xa_clear_mark(&xa, 0, XA_MARK_WRITEBACK);
		assert_null(xa_find_marked(&xa, &at, UINT64_MAX, XA_MARK_WRITEBACK));
		xa_set_mark(&xa, other, XA_MARK_TOWRITE);
		xa_set_mark(&xa, 0, XA_MARK_DIRTY);
		assert_int_equal(xa_store(mm, &xa, other, NULL, NULL), 0);
		assert_int_equal(xa_nr_nodes(&xa), 0);
		assert_true(xa_get_mark(&xa, 0, XA_MARK_DIRTY));
		assert_false(xa_get_mark(&xa, 0, XA_MARK_TOWRITE));
		assert_false(xa_get_mark(&xa, 0, XA_MARK_WRITEBACK));
		xa_clear_mark(&xa, 0, XA_MARK_DIRTY);
		xa_set_mark(&xa, 0, XA_MARK_WRITEBACK);
	}
	/* A new entry starts without marks, wherever the old one had them. */
	assert_int_equal(xa_store(mm, &xa, 0, NULL, NULL), 0);
	assert_int_equal(xa_store(mm, &xa, 0, value_entry(3), NULL), 0);
	assert_false(xa_get_mark(&xa, 0, XA_MARK_WRITEBACK));
	assert_int_equal(xa_store(mm, &xa, 0, NULL, NULL), 0);
	mm_destroy(mm);
}

static void test_dense_size(void **state)
{
	struct mm *mm = mm_create();
	const uint64_t nr = 1u << 18;
	struct xarray xa;

	(void)state;
	xa_init(&xa);
	for (uint64_t i = 0; i < nr; i++)
		assert_int_equal(xa_store(mm, &xa, i, value_entry(i), NULL), 0);
	/* At most 9.5 bytes an entry. */
	assert_true(xa_nr_nodes(&xa) * sizeof(struct xa_node) * 2 <= nr * 19);
	for (uint64_t i = 0; i < nr; i++) {
		assert_int_equal(xa_store(mm, &xa, i, NULL, NULL), 0);
		rcu_flush_if_due(&mm->rcu);
	}
	assert_int_equal(nodes_in_mm(mm), 0);
	mm_destroy(mm);
}

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* 1000 pages of a file of 1 TiB. Probing its 2^28 indexes would take seconds, the walk far less. */
static void test_sparse_walk(void **state)
{
	struct mm *mm = mm_create();
	uint64_t seed = 42, at, nr, start;
	struct xarray xa;

	(void)state;
	xa_init(&xa);
	for (unsigned i = 0; i < 1000; i++)
		assert_int_equal(xa_store(mm, &xa, (uint64_t)i << 18 | rng(&seed) % (1u << 18),
					  value_entry(i), NULL),
				 0);
	xa_set_mark(&xa, (at = 0, xa_find(&xa, &at, UINT64_MAX), at), XA_MARK_DIRTY);
	start = cpu_ns();
	for (at = 0, nr = 0; xa_find(&xa, &at, UINT64_MAX); at++)
		assert_ptr_equal(xa_load(&xa, at), value_entry(nr++));
	assert_int_equal(nr, 1000);
	for (at = 0, nr = 0; xa_find_marked(&xa, &at, UINT64_MAX, XA_MARK_DIRTY); at++)
		nr++;
	assert_int_equal(nr, 1);
	assert_true(cpu_ns() - start < 500000000u);
	for (at = 0; xa_find(&xa, &at, UINT64_MAX);)
		assert_int_equal(xa_store(mm, &xa, at, NULL, NULL), 0);
	assert_int_equal(nodes_in_mm(mm), 0);
	mm_destroy(mm);
}

/* ---- failing allocations ---- */

#if UMM_FAULT_POINTS

/* Let each allocation of one store fail in turn; each time the tree must be as it was. */
static unsigned store_with_faults(struct model *mo, unsigned i, enum fault_kind kind)
{
	unsigned n = 1;

	for (;; n++) {
		void *before = atomic_load(&mo->xa.head), *old = &old;
		int r;

		fault_arm(kind, n);
		r = xa_store(mo->mm, &mo->xa, mo->index[i], value_entry(i), &old);
		if (!fault_disarm()) {
			assert_int_equal(r, 0);
			assert_ptr_equal(old, mo->entry[i]);
			mo->entry[i] = value_entry(i);
			model_check(mo);
			return n - 1;
		}
		assert_int_equal(r, -ENOMEM);
		assert_ptr_equal(old, &old);
		assert_ptr_equal(atomic_load(&mo->xa.head), before);
		model_check(mo);
	}
}

static void test_faults(void **state)
{
	static const uint64_t indexes[] = { 0,    1,          63,         64,        4095,
					    4096, 1ull << 30, 1ull << 60, UINT64_MAX };
	struct mm *mm = mm_create();
	struct model *mo = calloc(1, sizeof(*mo));
	unsigned nr_faults = 0;

	(void)state;
	assert_non_null(mo);
	memcpy(mo->index, indexes, sizeof(indexes));
	model_init(mo, mm, ARRAY_SIZE(indexes));
	/* Each index on top of each other one, and on top of nothing; by both reasons to fail. */
	for (unsigned i = 0; i < mo->nr; i++)
		for (unsigned j = 0; j <= mo->nr; j++)
			for (unsigned k = 0; k < 2; k++) {
				enum fault_kind kind = k ? FAULT_ALLOC : FAULT_INDEX;

				if (j < mo->nr) {
					model_store(mo, j, value_entry(99));
					xa_set_mark(&mo->xa, mo->index[j], XA_MARK_DIRTY);
					mo->marks[j] = 1u << XA_MARK_DIRTY;
				}
				nr_faults += store_with_faults(mo, i, kind);
				/* Erasing never fails. */
				fault_arm(FAULT_ANY, 1);
				model_store(mo, i, NULL);
				if (j < mo->nr)
					model_store(mo, j, NULL);
				assert_false(fault_disarm());
				model_check(mo);
			}
	assert_true(nr_faults > 500);
	free(mo);
	mm_destroy(mm);
}
#else
static void test_faults(void **state)
{
	(void)state;
	skip();
}
#endif

/* ---- readers without a lock ---- */

/* The first of these can be an anchor: always there, always marked, but replaced all the time. */
static const uint64_t places[] = {
	0, 1, 63, 64, 100, 4096, 1ull << 40, UINT64_MAX - 64, UINT64_MAX
};
#define NR_PLACES ARRAY_SIZE(places)

struct object {
	uint64_t index;
	uint64_t version;
	struct rcu_head rcu;
};

struct arena {
	struct mm *mm;
	struct xarray xa;
	struct lock lock;
	bool anchored;
	unsigned ops;
	uint64_t version[NR_PLACES]; /* under the lock */
	_Atomic uint32_t nr_writers;
	_Atomic uint32_t nr_threads; /* numbers them */
	_Atomic uint64_t nr_seen;
	_Atomic uint64_t nr_bad;
};

static void object_free_rcu(struct rcu_head *head)
{
	struct object *o = container_of(head, struct object, rcu);

	o->index = 0xdead;
	os_free(o);
}

/* cmocka's assertions may only be used in the main thread. */
static void expect(struct arena *a, bool ok)
{
	if (!ok)
		atomic_fetch_add(&a->nr_bad, 1);
}

static void arena_store(struct arena *a, unsigned i, bool erase)
{
	struct object *o = NULL;
	void *old = NULL;

	if (!erase) {
		o = os_alloc(sizeof(*o));
		if (!o)
			abort();
	}
	lock_acquire(&a->mm->threads, &a->lock);
	if (o) {
		o->index = places[i];
		o->version = ++a->version[i];
	}
	if (xa_store(a->mm, &a->xa, places[i], o, &old))
		abort();
	lock_release(&a->mm->threads, &a->lock);
	if (old)
		rcu_defer(&a->mm->rcu, &((struct object *)old)->rcu, object_free_rcu);
}

static void arena_mark(struct arena *a, unsigned i, enum xa_mark mark, bool set)
{
	lock_acquire(&a->mm->threads, &a->lock);
	if (set)
		xa_set_mark(&a->xa, places[i], mark);
	else
		xa_clear_mark(&a->xa, places[i], mark);
	lock_release(&a->mm->threads, &a->lock);
}

static void *writer_main(void *arg)
{
	struct arena *a = arg;
	uint64_t seed = 1000 + atomic_fetch_add(&a->nr_threads, 1);

	if (threads_enter(&a->mm->threads))
		abort();
	for (unsigned n = 0; n < a->ops; n++) {
		unsigned i = (unsigned)(rng(&seed) % NR_PLACES);
		enum xa_mark mark = rng(&seed) % NR_XA_MARKS;
		bool anchor = a->anchored && i == 0;

		if (rng(&seed) % 8 == 0 && !(anchor && mark == XA_MARK_DIRTY))
			arena_mark(a, i, mark, rng(&seed) % 2);
		else
			arena_store(a, i, !anchor && rng(&seed) % 3);
		rcu_flush_if_due(&a->mm->rcu);
	}
	atomic_fetch_sub(&a->nr_writers, 1);
	return NULL;
}

static void reader_load(struct arena *a, unsigned i, uint64_t *newest)
{
	struct object *o;

	rcu_read_lock(&a->mm->rcu);
	o = xa_load(&a->xa, places[i]);
	expect(a, o || !(a->anchored && i == 0));
	if (o) {
		expect(a, o->index == places[i]);
		/* Time does not run backwards for one reader. */
		expect(a, o->version >= newest[i]);
		newest[i] = o->version;
		atomic_fetch_add_explicit(&a->nr_seen, 1, memory_order_relaxed);
	}
	/* Always absent, but near to what comes and goes. */
	expect(a, !xa_load(&a->xa, places[i] ^ 2));
	rcu_read_unlock(&a->mm->rcu);
}

static void reader_walk(struct arena *a, int mark, uint64_t *newest)
{
	uint64_t at = 0, last = 0;
	bool any = false, anchor = false;
	struct object *o;

	rcu_read_lock(&a->mm->rcu);
	while ((o = mark < 0 ? xa_find(&a->xa, &at, UINT64_MAX)
			     : xa_find_marked(&a->xa, &at, UINT64_MAX, (enum xa_mark)mark))) {
		expect(a, o->index == at);
		expect(a, !any || at > last);
		anchor |= at == 0;
		any = true;
		for (unsigned i = 0; i < NR_PLACES; i++)
			if (places[i] == at) {
				expect(a, o->version >= newest[i]);
				newest[i] = o->version;
			}
		last = at;
		if (at++ == UINT64_MAX)
			break;
	}
	rcu_read_unlock(&a->mm->rcu);
	if (a->anchored && (mark < 0 || mark == XA_MARK_DIRTY))
		expect(a, anchor);
}

static void *reader_main(void *arg)
{
	struct arena *a = arg;
	uint64_t seed = 2000 + atomic_fetch_add(&a->nr_threads, 1), newest[NR_PLACES] = { 0 };

	if (threads_enter(&a->mm->threads))
		abort();
	do {
		for (unsigned n = 0; n < 32; n++)
			reader_load(a, (unsigned)(rng(&seed) % NR_PLACES), newest);
		for (int mark = -1; mark < NR_XA_MARKS; mark++)
			reader_walk(a, mark, newest);
		if (a->anchored) {
			rcu_read_lock(&a->mm->rcu);
			expect(a, xa_get_mark(&a->xa, 0, XA_MARK_DIRTY));
			rcu_read_unlock(&a->mm->rcu);
		}
	} while (atomic_load(&a->nr_writers));
	return NULL;
}

static void readers_against_writers(bool anchored, unsigned nr_writers)
{
	struct mm *mm = mm_create();
	struct arena *a = calloc(1, sizeof(*a));
	pthread_t thread[6];
	unsigned nr = 0;

	assert_non_null(a);
	a->mm = mm;
	a->anchored = anchored;
	a->ops = 40000 / nr_writers;
	xa_init(&a->xa);
	lock_init(&a->lock, LOCK_I_PAGES);
	atomic_init(&a->nr_writers, nr_writers);
	if (anchored) {
		arena_store(a, 0, false);
		arena_mark(a, 0, XA_MARK_DIRTY, true);
	}
	for (; nr < 3; nr++)
		assert_int_equal(pthread_create(&thread[nr], NULL, reader_main, a), 0);
	for (; nr < 3 + nr_writers; nr++)
		assert_int_equal(pthread_create(&thread[nr], NULL, writer_main, a), 0);
	while (nr)
		pthread_join(thread[--nr], NULL);
	assert_int_equal(atomic_load(&a->nr_bad), 0);
	assert_true(atomic_load(&a->nr_seen) > 0);
	check_tree(&a->xa);
	for (unsigned i = 0; i < NR_PLACES; i++)
		arena_store(a, i, true);
	assert_null(atomic_load(&a->xa.head));
	assert_int_equal(nodes_in_mm(mm), 0);
	mm_destroy(mm);
	free(a);
}

static void test_readers_anchored(void **state)
{
	(void)state;
	readers_against_writers(true, 1);
	readers_against_writers(true, 3);
}

static void test_readers(void **state)
{
	(void)state;
	readers_against_writers(false, 1);
	readers_against_writers(false, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_edges),
		cmocka_unit_test(test_head_marks),
		cmocka_unit_test(test_model),
		cmocka_unit_test(test_dense_size),
		cmocka_unit_test(test_sparse_walk),
		cmocka_unit_test(test_faults),
		cmocka_unit_test(test_readers_anchored),
		cmocka_unit_test(test_readers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
