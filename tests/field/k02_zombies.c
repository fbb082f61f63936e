/* SPDX-License-Identifier: MIT */
/*
 * K-02, zombie memcgs. 10,000 times: create a child of P (max 4,096; the child's 64), read 8 pages
 * that nobody else reads and page 0 of a shared object, destroy the child. A long-lived memcg keeps
 * the shared page pinned all along; at every 100th round it is the child that reads that page first
 * and pays for it.
 *
 * Asserted: control blocks never exceed the live memcgs by more than 16; what is left is P's; walks
 * visit the living only; the figures cost no more to read after 10,000 rounds than after 10; nobody
 * waits for the pin.
 */
#include "harness.h"

#include "memcg/memcontrol.h"

#define ROUNDS FEWER_IN_TSAN(10000, 5)
#define P_PAGES 4096
#define CHILD_PAGES 64
#define PRIVATE 8
#define NR_LIVE 3 /* root, P, the long-lived one */
#define BLOCKS_SLACK 16

struct zombies {
	struct fixture f;
	umm_memcg_t *p, *l;
	struct mem_store private_store, shared_store;
	umm_obj_t *private_obj, *shared_obj; /* P's, the long-lived one's */
	umm_folio_t *pin;
	uint64_t most_blocks, longest_ns;
};

/* The long-lived one lets the page go, the child reads it and pays, the long-lived one pins it
 * again. */
static void hand_shared_page_over(struct zombies *z, umm_obj_t *childs)
{
	if (z->pin)
		umm_unpin(z->pin);
	assert_int_equal(umm_advise(z->shared_obj, 0, UMM_PAGE_SIZE, UMM_ADVISE_DONTNEED), 0);
	assert_false(page_is_cached(z->shared_obj, 0));
	assert_int_equal(read_page_checked(childs, z->shared_store.id, 0), 0);
	assert_int_equal(pin_checked(z->shared_obj, z->shared_store.id, 0, &z->pin), 0);
}

static void round_once(struct zombies *z, uint64_t round)
{
	umm_memcg_t *child = memcg_with_max(&z->f, z->p, "child", CHILD_PAGES);
	umm_obj_t *private_obj, *shared_obj;
	uint64_t start, blocks;

	assert_int_equal(umm_obj_reopen(z->private_obj, child, &private_obj), 0);
	assert_int_equal(umm_obj_reopen(z->shared_obj, child, &shared_obj), 0);
	for (uint64_t i = 0; i < PRIVATE; i++)
		assert_int_equal(
			read_page_checked(private_obj, z->private_store.id, round * PRIVATE + i),
			0);
	if (round % 100 == 0)
		hand_shared_page_over(z, shared_obj);
	else
		assert_int_equal(read_page_checked(shared_obj, z->shared_store.id, 0), 0);
	assert_true(memcg_pages(child, UMM_MEMORY_PEAK) <= PRIVATE + 1);

	/* Handles are closed before or after: they must not keep the block once they are closed. */
	if (round % 2)
		assert_int_equal(umm_close(private_obj), 0);
	start = now_ns();
	assert_int_equal(umm_memcg_destroy(child), 0);
	start = now_ns() - start;
	z->longest_ns = start > z->longest_ns ? start : z->longest_ns;
	assert_int_equal(read_page_checked(shared_obj, z->shared_store.id, 0), -ESTALE);
	assert_int_equal(umm_close(shared_obj), 0);
	if (round % 2 == 0)
		assert_int_equal(umm_close(private_obj), 0);

	blocks = vmstat(z->f.mm, "nr_memcg_blocks");
	z->most_blocks = blocks > z->most_blocks ? blocks : z->most_blocks;
	assert_int_equal(vmstat(z->f.mm, "nr_memcgs"), NR_LIVE);
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* CPU time of reading P's and the root's figures, median of 15. */
static uint64_t stats_cost(struct zombies *z)
{
	struct umm_stat st[64];
	uint64_t sample[15];

	for (unsigned i = 0; i < 15; i++) {
		uint64_t start = thread_cpu_ns();

		for (unsigned n = 0; n < 50; n++) {
			must(umm_memcg_stat(z->p, st, 64) > 0);
			must(umm_memcg_stat(z->f.root, st, 64) > 0);
			must(umm_vmstat(z->f.mm, st, 64) > 0);
		}
		sample[i] = thread_cpu_ns() - start;
	}
	qsort(sample, 15, sizeof(sample[0]), compare);
	return sample[7];
}

/* Memcgs that a pass of reclaim over everything comes by. */
static unsigned visited(umm_memcg_t *root, bool shared)
{
	uint32_t generation;
	unsigned nr = 0;
	struct mem_cgroup *pos =
		shared ? memcg_iter_shared(root, 0, NULL, &generation) : memcg_iter(root, NULL);

	for (; pos; nr++)
		pos = shared ? memcg_iter_shared(root, 0, pos, &generation) : memcg_iter(root, pos);
	return nr;
}

static void assert_charges_moved(struct zombies *z)
{
	uint64_t resident;

	assert_int_equal(umm_drain(z->f.mm), 0);
	resident = pages_cached(z->private_obj) + pages_cached(z->shared_obj);
	assert_true(resident > P_PAGES / 2);
	assert_int_equal(memcg_pages(z->p, UMM_MEMORY_CURRENT), resident);
	assert_int_equal(memcg_stat(z->p, "file"), resident * UMM_PAGE_SIZE);
	assert_int_equal(memcg_pages(z->l, UMM_MEMORY_CURRENT), 0);
	assert_true(memcg_pages(z->p, UMM_MEMORY_PEAK) <= P_PAGES);
}

static void zombies_open(struct zombies *z)
{
	struct umm_options o = fixture_options(2 * P_PAGES);

	o.readahead_pages = 0; /* each child reads its 8 pages and no more */
	z->f = fixture_create_with(&o);
	z->p = memcg_with_max(&z->f, NULL, "P", P_PAGES);
	z->l = memcg_with_max(&z->f, NULL, "L", 0);
	z->private_store = (struct mem_store){ .id = 1, .pages = ROUNDS * PRIVATE };
	z->shared_store = (struct mem_store){ .id = 2, .pages = 1 };
	z->private_obj = mem_store_open(z->p, &z->private_store);
	z->shared_obj = mem_store_open(z->l, &z->shared_store);
}

static void test_ten_thousand_children(void **state)
{
	struct zombies z = { .pin = NULL };
	uint64_t early = 0, late, freed;

	(void)state;
	zombies_open(&z);
	for (uint64_t round = 0; round < ROUNDS; round++) {
		round_once(&z, round);
		if (round == 10)
			early = stats_cost(&z);
	}
	late = stats_cost(&z);
	print_message("  most blocks %llu, figures read in %llu ns, then %llu ns, longest destroy "
		      "%llu us\n",
		      (unsigned long long)z.most_blocks, (unsigned long long)early / 50,
		      (unsigned long long)late / 50, (unsigned long long)z.longest_ns / 1000);
	assert_true(z.most_blocks <= NR_LIVE + BLOCKS_SLACK);
	assert_true(vmstat(z.f.mm, "nr_memcg_blocks") <= NR_LIVE + BLOCKS_SLACK);
	assert_true(late <= 2 * early);
	assert_int_equal(vmstat(z.f.mm, "pin_wait"), 0);
	assert_int_equal(visited(z.f.root, false), NR_LIVE);
	assert_int_equal(visited(z.f.root, true), NR_LIVE);
	assert_charges_moved(&z);
	assert_int_equal(umm_check(z.f.mm), 0);

	/* All of it can still be reclaimed but the pinned page, through the living. */
	assert_int_equal(umm_memcg_reclaim(z.f.root, P_PAGES * UMM_PAGE_SIZE, &freed), -EAGAIN);
	assert_int_equal(memcg_pages(z.p, UMM_MEMORY_CURRENT), 1);
	assert_true(page_is(umm_folio_data(z.pin), z.shared_store.id, 0));

	umm_unpin(z.pin);
	assert_int_equal(umm_close(z.private_obj), 0);
	assert_int_equal(umm_close(z.shared_obj), 0);
	assert_int_equal(umm_memcg_destroy(z.p), 0);
	assert_int_equal(umm_memcg_destroy(z.l), 0);
	assert_int_equal(log_warnings, 0);
	fixture_destroy(&z.f);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_ten_thousand_children) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
