/* SPDX-License-Identifier: MIT */
/* Waiting for an unpin: in order, without a lost wakeup, and never past the memcg's end. */
#include "memcg_fixture.h"

#define SECOND 1000000000ull

static uint64_t deadline(uint64_t seconds)
{
	return os_now_ns() + seconds * SECOND;
}

static void first_in_line_is_woken(void **state)
{
	struct mem_cgroup *a = new_memcg(root_memcg(state_mm(state)), "a"), *b = new_memcg(a, "b");
	struct pin_waiter w[3];

	memcg_wake_pin_waiters(b); /* nobody there */
	assert_true(pin_queue_join(a, &w[0]));
	assert_false(pin_queue_join(a, &w[1]));
	assert_false(pin_queue_join(a, &w[2]));
	assert_int_equal(atomic_load(&a->pin_queue.nr_waiters), 3);
	assert_true(pin_queue_is_first(a, &w[0]));
	assert_false(pin_queue_is_first(a, &w[1]));

	memcg_wake_pin_waiters(b); /* of a descendant */
	assert_int_equal(atomic_load(&w[0].woken), 1);
	assert_int_equal(atomic_load(&w[1].woken), 0);
	pin_queue_wait(a, &w[0], OS_FOREVER); /* does not sleep: woken already */
	assert_int_equal(atomic_load(&w[0].woken), 0);
	pin_queue_leave(a, &w[1]); /* from the middle: nobody's turn changes */
	assert_int_equal(atomic_load(&w[0].woken) + atomic_load(&w[2].woken), 0);
	pin_queue_leave(a, &w[0]); /* the next one's turn */
	assert_int_equal(atomic_load(&w[2].woken), 1);
	assert_true(pin_queue_is_first(a, &w[2]));
	pin_queue_leave(a, &w[2]);
	assert_int_equal(atomic_load(&a->pin_queue.nr_waiters), 0);
	destroy(b);
	destroy(a);
}

static void wait_ends_at_the_deadline(void **state)
{
	struct mem_cgroup *a = new_memcg(root_memcg(state_mm(state)), "a");
	struct pin_waiter w;
	uint64_t until = os_now_ns() + SECOND / 50;

	(void)pin_queue_join(a, &w);
	while (os_now_ns() < until)
		pin_queue_wait(a, &w, until);
	pin_queue_leave(a, &w);
	destroy(a);
}

static void what_lowers_usage_wakes(void **state)
{
	struct mem_cgroup *a = new_memcg(root_memcg(state_mm(state)), "a"), *b = new_memcg(a, "b");
	struct mem_cgroup *over;
	struct pin_waiter w;
	struct folio folio;

	folio_make(a->mm, &folio, 0, 0);
	set_max(a, 2);
	assert_true(folio_charge(b, &folio));
	(void)pin_queue_join(a, &w);
	assert_int_equal(atomic_load(&w.woken), 0);
	folio_uncharge(&folio);
	assert_int_equal(atomic_exchange(&w.woken, 0), 1);
	assert_int_equal(memcg_try_charge(b, 1, &over), 0);
	memcg_cancel_charge(b, 1);
	assert_int_equal(atomic_exchange(&w.woken, 0), 1);
	set_max(a, 3);
	assert_int_equal(atomic_exchange(&w.woken, 0), 1);
	pin_queue_leave(a, &w);
	destroy(b);
	destroy(a);
}

/* ---- threads ---- */

struct line {
	struct mem_cgroup *memcg;
	_Atomic uint32_t joined, served, order[MAX_WORKERS], ended;
};

static void line_worker(struct worker *w, void *arg)
{
	struct line *line = arg;
	struct pin_waiter waiter;
	struct mem_cgroup *over;
	int err;

	while (atomic_load(&line->joined) != w->nr)
		os_yield();
	(void)pin_queue_join(line->memcg, &waiter);
	atomic_fetch_add(&line->joined, 1);
	while ((err = memcg_try_charge(line->memcg, 1, &over)) == -ENOMEM)
		pin_queue_wait(line->memcg, &waiter, deadline(60));
	if (!err)
		atomic_store(&line->order[atomic_fetch_add(&line->served, 1)], w->nr);
	pin_queue_leave(line->memcg, &waiter);
	atomic_fetch_add(&line->ended, 1);
}

static void first_come_first_served(void **state)
{
	struct mm *mm = state_mm(state);
	struct line line = { .memcg = new_memcg(root_memcg(mm), "a") };
	struct worker w[8];

	set_max(line.memcg, 8);
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(memcg_try_charge(line.memcg, 1, &(struct mem_cgroup *){ NULL }),
				 0);
	workers_start(w, 8, mm, line_worker, &line);
	while (atomic_load(&line.joined) < 8)
		os_yield();
	/* One page free at a time: the next is given when the last was taken. */
	for (unsigned i = 0; i < 8; i++) {
		os_sleep_ns(2000000);
		assert_int_equal(atomic_load(&line.served), i);
		memcg_cancel_charge(line.memcg, 1);
		while (atomic_load(&line.served) <= i)
			os_yield();
	}
	workers_join(w, 8);
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(atomic_load(&line.order[i]), i);
	memcg_cancel_charge(line.memcg, 8);
	destroy(line.memcg);
}

/* Room for all at once, and one wake: each that is served passes it on. */
static void one_wake_serves_all_there_is_room_for(void **state)
{
	struct mm *mm = state_mm(state);
	struct line line = { .memcg = new_memcg(root_memcg(mm), "a") };
	struct worker w[8];

	set_max(line.memcg, 8);
	assert_int_equal(memcg_try_charge(line.memcg, 8, &(struct mem_cgroup *){ NULL }), 0);
	workers_start(w, 8, mm, line_worker, &line);
	while (atomic_load(&line.joined) < 8)
		os_yield();
	memcg_cancel_charge(line.memcg, 8);
	workers_join(w, 8);
	assert_int_equal(atomic_load(&line.served), 8);
	memcg_cancel_charge(line.memcg, 8);
	destroy(line.memcg);
}

static void dying_wakes_all(void **state)
{
	struct mm *mm = state_mm(state);
	struct line line = { .memcg = new_memcg(root_memcg(mm), "a") };
	struct worker w[6];
	uint64_t start_ns;

	set_max(line.memcg, 1);
	assert_int_equal(memcg_try_charge(line.memcg, 1, &(struct mem_cgroup *){ NULL }), 0);
	workers_start(w, 6, mm, line_worker, &line);
	while (atomic_load(&line.joined) < 4)
		os_yield(); /* the others come when they come: before, meanwhile or after */
	memcg_get(line.memcg);
	start_ns = os_now_ns();
	destroy(line.memcg);
	workers_join(w, 6);
	assert_true(os_now_ns() - start_ns < 50 * SECOND); /* without a wake it is a minute */
	assert_int_equal(atomic_load(&line.ended), 6);
	assert_int_equal(atomic_load(&line.served), 0);
	memcg_cancel_charge(line.memcg, 1);
	memcg_put(line.memcg);
}

struct ring {
	struct mem_cgroup *memcg;
	unsigned rounds;
	_Atomic uint64_t late, sleeps;
};

/* More threads than pages; each waits its turn in the queue, for ever if a wakeup is lost. */
static void ring_worker(struct worker *w, void *arg)
{
	struct ring *ring = arg;
	struct mem_cgroup *over;

	for (unsigned i = 0; i < ring->rounds; i++) {
		struct pin_waiter waiter;
		uint64_t until = deadline(20);

		if (memcg_try_charge(ring->memcg, 1, &over)) {
			(void)pin_queue_join(ring->memcg, &waiter);
			while (memcg_try_charge(ring->memcg, 1, &over)) {
				pin_queue_wait(ring->memcg, &waiter, until);
				atomic_fetch_add(&ring->sleeps, 1);
				if (os_now_ns() >= until)
					atomic_fetch_add(&ring->late, 1);
			}
			pin_queue_leave(ring->memcg, &waiter);
		}
		if (worker_random(w, 4) == 0)
			os_yield();
		memcg_cancel_charge(ring->memcg, 1);
	}
}

static void no_wakeup_is_lost(void **state)
{
	struct mm *mm = state_mm(state);
	struct ring ring = { .memcg = new_memcg(root_memcg(mm), "a"), .rounds = 5000 };
	struct worker w[6];

	for (uint64_t max = 1; max <= 3; max++) {
		set_max(ring.memcg, max);
		workers_start(w, 6, mm, ring_worker, &ring);
		workers_join(w, 6);
	}
	assert_int_equal(atomic_load(&ring.late), 0);
	assert_true(atomic_load(&ring.sleeps) > 0);
	assert_int_equal(memcg_usage(ring.memcg), 0);
	destroy(ring.memcg);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		mm_test(first_in_line_is_woken),
		mm_test(wait_ends_at_the_deadline),
		mm_test(what_lowers_usage_wakes),
		mm_test(first_come_first_served),
		mm_test(one_wake_serves_all_there_is_room_for),
		mm_test(dying_wakes_all),
		mm_test(no_wakeup_is_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
