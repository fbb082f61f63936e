/* SPDX-License-Identifier: MIT */
/*
 * Locks that know their class: counting in all builds, order and context checks in debug builds.
 *
 * Counting costs the uncontended path a thread-local addition and, most of the time, no clock. What
 * contention a waiter met is told by the tag that it finds once it has the lock: the tag of the
 * last holder, which is the one that kept it waiting. Reading the tag before the wait instead could
 * catch a holder that has the lock but has not written its tag yet, and would call contention
 * within one memcg contention with another: a figure that is promised to be 0 must not have such an
 * error.
 */
#include "base/lock.h"

#include <stdio.h>

enum { SAME_NEVER, SAME_CHILD_FIRST };
enum { SLEEP_NO, SLEEP_YES };

static const struct {
	const char *name;
	uint8_t same;
	uint8_t sleep;
} classes[NR_LOCK_CLASSES] = {
#define X(rank, name, same, sleep) [LOCK_##rank] = { name, SAME_##same, SLEEP_##sleep },
	LOCK_TABLE(X)
#undef X
};

const char *lock_class_name(enum lock_class class)
{
	VM_BUG_ON(class >= NR_LOCK_CLASSES);
	return classes[class].name;
}

void lock_init(struct lock *l, enum lock_class class)
{
	VM_BUG_ON(class >= NR_LOCK_CLASSES);
	atomic_init(&l->m.state, 0);
	atomic_init(&l->tag, LOCK_NO_TAG);
	l->class = class;
	l->since_ns = 0;
#if UMM_DEBUG >= 1
	atomic_init(&l->owner, 0);
#endif
}

#if UMM_DEBUG >= 1

static __cold void lock_violation(const char *what, const struct lock *l, const struct lock *held)
{
	char msg[160];

	if (held)
		(void)snprintf(msg, sizeof(msg), "%s: %s while holding %s", what,
			       classes[l->class].name, classes[held->class].name);
	else
		(void)snprintf(msg, sizeof(msg), "%s: %s", what, classes[l->class].name);
	vm_bug(__FILE__, __LINE__, msg);
}

/* Before waiting for `l`: could this wait be part of a deadlock? */
static void lock_check_order(const struct umm_thread *self, const struct lock *l, bool nested)
{
	unsigned same = 0;

	for (uint32_t i = 0; i < self->nr_held; i++) {
		const struct lock *h = self->held[i];

		if (h == l)
			lock_violation("lock taken twice", l, h);
		if (h->class > l->class)
			lock_violation("lock order", l, h);
		if (h->class == l->class) {
			if (!nested)
				lock_violation("second lock of a class", l, h);
			same++;
		}
	}
	if (nested && (classes[l->class].same != SAME_CHILD_FIRST || same != 1))
		lock_violation("not the parent's lock after a child's", l, NULL);
}

static void lock_check_known_thread(struct umm_threads *ts)
{
	VM_BUG_ON(os_thread_slot() >= atomic_load_explicit(&ts->nr_slots, memory_order_relaxed));
}

static void lock_note_held(struct umm_thread *self, struct lock *l)
{
	if (self->nr_held == LOCK_HELD_MAX)
		lock_violation("too many locks held", l, self->held[LOCK_HELD_MAX - 1]);
	self->held[self->nr_held++] = l;
	atomic_store_explicit(&l->owner, os_thread_slot() + 1, memory_order_relaxed);
}

static void lock_note_released(struct umm_thread *self, struct lock *l)
{
	uint32_t i = self->nr_held;

	if (atomic_load_explicit(&l->owner, memory_order_relaxed) != os_thread_slot() + 1)
		lock_violation("released by a thread that does not hold it", l,
			       i ? self->held[i - 1] : NULL);
	atomic_store_explicit(&l->owner, 0, memory_order_relaxed);
	while (i > 0 && self->held[i - 1] != l)
		i--;
	VM_BUG_ON(i == 0);
	for (self->nr_held--; i <= self->nr_held; i++)
		self->held[i - 1] = self->held[i];
}

void lock_assert_held(struct umm_threads *ts, const struct lock *l)
{
	const struct umm_thread *self = thread_self(ts);

	if (atomic_load_explicit(&l->owner, memory_order_relaxed) != os_thread_slot() + 1)
		lock_violation("lock not held", l,
			       self->nr_held ? self->held[self->nr_held - 1] : NULL);
}

void lock_assert_may_sleep(struct umm_threads *ts)
{
	const struct umm_thread *self = thread_self(ts);

	for (uint32_t i = 0; i < self->nr_held; i++)
		if (classes[self->held[i]->class].sleep == SLEEP_NO)
			lock_violation("sleep, free or last put under", self->held[i], NULL);
}

#else

static inline void lock_check_order(const struct umm_thread *self, const struct lock *l,
				    bool nested)
{
	(void)self, (void)l, (void)nested;
}

static inline void lock_check_known_thread(struct umm_threads *ts)
{
	(void)ts;
}

static inline void lock_note_held(struct umm_thread *self, struct lock *l)
{
	(void)self, (void)l;
}

static inline void lock_note_released(struct umm_thread *self, struct lock *l)
{
	(void)self, (void)l;
}

#endif

/* The lock is ours: who had it before no longer matters, who has it now must be told. */
static inline void lock_taken(struct umm_thread *self, struct lock *l, uint32_t tag)
{
	struct lock_counts *c = &self->lock[l->class];

	thread_count(&c->acquisitions, 1);
	atomic_store_explicit(&l->tag, tag, memory_order_relaxed);
	/* The clock's own cost falls into the sample: short holds are overestimated by about it. */
	if (unlikely(atomic_load_explicit(&c->acquisitions, memory_order_relaxed) % LOCK_SAMPLE ==
		     0))
		l->since_ns = os_now_ns();
	else
		l->since_ns = 0;
	lock_note_held(self, l);
}

static __cold void lock_wait(struct umm_thread *self, struct lock *l, uint32_t tag)
{
	struct lock_counts *c = &self->lock[l->class];
	uint64_t start_ns = os_now_ns();

	os_mutex_lock_slow(&l->m);
	thread_count(&c->wait_ns, os_now_ns() - start_ns);
	if (atomic_load_explicit(&l->tag, memory_order_relaxed) == tag)
		thread_count(&c->contended_same, 1);
	else
		thread_count(&c->contended_other, 1);
}

static inline void lock_take(struct umm_threads *ts, struct lock *l, uint32_t tag, bool nested)
{
	struct umm_thread *self = thread_self(ts);

	lock_check_known_thread(ts);
	lock_check_order(self, l, nested);
	if (unlikely(!os_mutex_try(&l->m)))
		lock_wait(self, l, tag);
	lock_taken(self, l, tag);
}

void lock_acquire_tagged(struct umm_threads *ts, struct lock *l, uint32_t tag)
{
	lock_take(ts, l, tag, false);
}

void lock_acquire_nested(struct umm_threads *ts, struct lock *l, uint32_t tag)
{
	lock_take(ts, l, tag, true);
}

/* No order check: what never waits cannot deadlock. Later acquisitions are checked against it. */
bool lock_try(struct umm_threads *ts, struct lock *l, uint32_t tag)
{
	lock_check_known_thread(ts);
	if (!os_mutex_try(&l->m))
		return false;
	lock_taken(thread_self(ts), l, tag);
	return true;
}

void lock_release(struct umm_threads *ts, struct lock *l)
{
	struct umm_thread *self = thread_self(ts);
	uint64_t since_ns;

	lock_note_released(self, l);
	since_ns = l->since_ns;
	if (unlikely(since_ns))
		thread_count(&self->lock[l->class].hold_ns, (os_now_ns() - since_ns) * LOCK_SAMPLE);
	os_mutex_unlock(&l->m);
}

static void sum_one(_Atomic uint64_t *to, const _Atomic uint64_t *from)
{
	thread_count(to, atomic_load_explicit(from, memory_order_relaxed));
}

void lock_class_sum(struct umm_threads *ts, enum lock_class class, struct lock_counts *ret)
{
	uint32_t nr = atomic_load_explicit(&ts->nr_slots, memory_order_acquire);
	struct lock_counts sum = { 0 };

	VM_BUG_ON(class >= NR_LOCK_CLASSES);
	for (uint32_t s = 0; s < nr; s++) {
		const struct lock_counts *c = &ts->slot[s].lock[class];

		sum_one(&sum.acquisitions, &c->acquisitions);
		sum_one(&sum.contended_same, &c->contended_same);
		sum_one(&sum.contended_other, &c->contended_other);
		sum_one(&sum.wait_ns, &c->wait_ns);
		sum_one(&sum.hold_ns, &c->hold_ns);
	}
	atomic_init(&ret->acquisitions, sum.acquisitions);
	atomic_init(&ret->contended_same, sum.contended_same);
	atomic_init(&ret->contended_other, sum.contended_other);
	atomic_init(&ret->wait_ns, sum.wait_ns);
	atomic_init(&ret->hold_ns, sum.hold_ns);
}
