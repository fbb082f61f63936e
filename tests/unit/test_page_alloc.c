/* SPDX-License-Identifier: MIT */
/* alloc/page_alloc: folios from end to end: CPU lists, watermarks, nodes, faults, and real threads. */
#include "mm_fixture.h"

#include <pthread.h>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

static struct folio *get(struct mm *mm, unsigned order)
{
	return alloc_folio(mm, order, MIGRATE_MOVABLE, ALLOC_NO_WATERMARKS);
}

static void release_all(struct mm *mm, struct folio **v, size_t nr)
{
	while (nr)
		release_folio(mm, v[--nr]);
}

static struct folio **new_vector(uint64_t nr)
{
	struct folio **v = calloc(nr + 1, sizeof(*v));

	assert_non_null(v);
	return v;
}

/* Until there is nothing more. */
static size_t take_all(struct mm *mm, unsigned order, int alloc_flags, struct folio **out)
{
	size_t nr = 0;

	while ((out[nr] = alloc_folio(mm, order, MIGRATE_MOVABLE, alloc_flags)))
		nr++;
	return nr;
}

static void test_every_order(void **state)
{
	struct mm *mm = mm_new(4096, 1);
	uint64_t pages = 0;

	(void)state;
	for (unsigned type = 0; type < NR_MIGRATETYPES; type++)
		for (unsigned order = 0; order <= MAX_ORDER; order++) {
			struct folio *folio = alloc_folio(mm, order, type, ALLOC_WMARK_LOW);

			assert_non_null(folio);
			assert_fresh(folio, order);
			assert_int_equal(folio->migratetype, type);
			assert_int_equal((uintptr_t)folio_address(folio) % (PAGE_SIZE << order), 0);
			memset(folio_address(folio), 0xff, PAGE_SIZE << order);
			/* Marks that say nothing about ownership may stay on what is freed. */
			folio_set(folio, PG_referenced);
			folio_set(folio, PG_workingset);
			folio_set(folio, PG_kernel);
			folio->index = 99;
			folio->private = 99;
			pages += 1ul << order;
			assert_int_equal(vm_event_sum(mm, PGALLOC), pages);
			assert_int_equal(vm_event_sum(mm, PGFREE), pages - (1ul << order));
			release_folio(mm, folio);
			assert_int_equal(vm_event_sum(mm, PGFREE), pages);
		}
	mm_delete(mm);
}

/* All of it, to the last page, and all of it back, in any order. */
static void test_exhaustion(void **state)
{
	uint64_t seed = 42;

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(shapes); i++) {
		struct mm *mm = mm_new(shapes[i].pages, shapes[i].nodes);
		struct folio **v = new_vector(mm->nr_pages);
		size_t nr = 0;

		for (unsigned order = MAX_ORDER + 1; order-- > 0;) {
			while ((v[nr] = get(mm, order)))
				nr++;
			assert_int_equal(mm_buddy_check(mm), 0);
		}
		assert_int_equal(mm_nr_free(mm), 0);
		shuffle(v, nr, &seed);
		release_all(mm, v, nr);
		assert_pristine(mm);

		assert_int_equal(take_all(mm, 0, ALLOC_NO_WATERMARKS, v), mm->nr_pages);
		assert_null(alloc_folio(mm, 0, MIGRATE_UNMOVABLE, ALLOC_NO_WATERMARKS));
		shuffle(v, mm->nr_pages, &seed);
		release_all(mm, v, mm->nr_pages);
		free(v);
		mm_delete(mm);
	}
}

/* D-05: memory that was freed in one size is there for every other. */
static void test_size_classes(void **state)
{
	static const unsigned phase[] = { 0, 6, 3, 9 };
	struct mm *mm = mm_new(4096, 1);
	struct folio **v = new_vector(4096);
	uint64_t seed = 632;

	(void)state;
	for (unsigned round = 0; round < 10; round++) {
		unsigned first = next_random(&seed) % 4, step = 1 + 2 * (next_random(&seed) % 2);

		for (unsigned i = 0; i < 4; i++) {
			unsigned order = phase[(first + step * i) % 4];
			size_t nr = take_all(mm, order, ALLOC_NO_WATERMARKS, v);

			assert_int_equal(nr, 4096 >> order);
			shuffle(v, nr, &seed);
			release_all(mm, v, nr);
			assert_pristine(mm);
		}
	}
	free(v);
	mm_delete(mm);
}

/* ---- watermarks ---- */

static void test_watermark_values(void **state)
{
	static const struct {
		uint64_t pages, min, low;
	} want[] = {
		{ 16, 0, 1 },         { 1000, 7, 22 },        { 4096, 32, 96 },
		{ 65536, 512, 1536 }, { 262144, 1024, 5120 }, { 1048576, 2048, 10240 },
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(want); i++) {
		struct mm *mm = mm_new(want[i].pages, 1);
		const uint64_t *mark = mm->node[0].zone.watermark;

		assert_int_equal(mark[WMARK_MIN], want[i].min);
		assert_int_equal(mark[WMARK_LOW], want[i].low);
		assert_int_equal(mark[WMARK_HIGH], 2 * want[i].low - want[i].min);
		mm_delete(mm);
	}
}

static void test_watermarks_hold(void **state)
{
	struct mm *mm = mm_new(17000, 1);
	struct zone *zone = &mm->node[0].zone;
	struct folio **v = new_vector(17000);
	size_t nr;

	(void)state;
	stay_on_this_cpu();
	assert_true(zone_watermark_ok(zone, MAX_ORDER, WMARK_HIGH));
	nr = take_all(mm, 0, ALLOC_WMARK_LOW, v);
	assert_int_equal(zone->nr_free, zone->watermark[WMARK_LOW]);
	assert_int_equal(mm_nr_free(mm), zone->watermark[WMARK_LOW]);
	assert_false(zone_watermark_ok(zone, 0, WMARK_LOW));
	assert_true(zone_watermark_ok(zone, 0, WMARK_MIN));
	assert_null(alloc_folio(mm, 1, MIGRATE_MOVABLE, ALLOC_WMARK_LOW));
	/* One more on a list: it is not fetched from there for a request that has another try. */
	release_folio(mm, v[--nr]);
	assert_null(alloc_folio(mm, 0, MIGRATE_UNMOVABLE, ALLOC_WMARK_LOW));
	assert_int_equal(zone->nr_free, zone->watermark[WMARK_LOW]);

	nr += take_all(mm, 0, ALLOC_WMARK_MIN, v + nr);
	assert_int_equal(mm_nr_free(mm), zone->watermark[WMARK_MIN]);
	assert_false(zone_watermark_ok(zone, 0, WMARK_MIN));

	nr += take_all(mm, 0, ALLOC_NO_WATERMARKS, v + nr);
	assert_int_equal(nr, 17000);

	/* Enough is free, but no two pages of it together: only single ones are to be had. */
	for (uint64_t i = 0; i < 17000; i++)
		if (page_pfn(mm, folio_page(v[i])) % 2 == 0) {
			release_folio(mm, v[i]);
			v[i] = NULL;
		}
	drain_all_pages(mm);
	assert_true(zone_watermark_ok(zone, 0, WMARK_HIGH));
	assert_false(zone_watermark_ok(zone, 1, WMARK_MIN));
	assert_null(get(mm, 1));
	for (uint64_t i = 0; i < 17000; i++)
		if (v[i])
			release_folio(mm, v[i]);
	free(v);
	mm_delete(mm);
}

/* ---- nodes ---- */

static void test_local_node_first(void **state)
{
	struct mm *mm = mm_new(12288, 3);
	struct folio **v = new_vector(12288);
	unsigned local;
	size_t nr;

	(void)state;
	stay_on_this_cpu();
	local = mm_local_node(mm);
	nr = take_all(mm, 0, ALLOC_WMARK_LOW, v);
	/* Each node is filled to its low mark before the next one is touched. */
	for (size_t i = 0; i < nr; i++)
		assert_int_equal(v[i]->pgdat->id, (local + i / (nr / 3)) % 3);
	nr += take_all(mm, 0, ALLOC_NO_WATERMARKS, v + nr);
	assert_int_equal(nr, 12288);
	release_all(mm, v, nr);
	free(v);
	mm_delete(mm);
}

/* ---- CPU lists ---- */

static struct pcp *this_pcp(struct mm *mm)
{
	return &mm->node[0].zone.pcp[os_cpu()];
}

static void test_pcp(void **state)
{
	struct mm *mm = mm_new(65536, 1);
	struct zone *zone = &mm->node[0].zone;
	struct folio *v[2000];
	struct pcp *pcp;
	unsigned high;

	(void)state;
	stay_on_this_cpu();
	pcp = this_pcp(mm);
	high = (unsigned)min_u64(65536 / (32 * mm->nr_cpus), 256);
	assert_int_equal(pcp->high, high);
	assert_int_equal(pcp->batch, max_u64(min_u64(high / 4, 63), 1));

	v[0] = get(mm, 0);
	assert_int_equal(pcp->count, pcp->batch - 1);
	assert_int_equal(zone->nr_free, 65536 - pcp->batch);
	assert_int_equal(mm_nr_free(mm), 65535);
	for (unsigned i = 1; i < 2000; i++) {
		assert_non_null(v[i] = get(mm, 0));
		assert_true(pcp->count < pcp->batch);
	}
	for (unsigned i = 0; i < 2000; i++) {
		release_folio(mm, v[i]);
		assert_true(pcp->count <= pcp->high);
	}
	assert_true(pcp->count > pcp->high - pcp->batch);
	assert_int_equal(folio_test(v[1999], PG_pcp), 1);
	assert_int_equal(mm_nr_free(mm), 65536);
	assert_int_equal(mm_buddy_check(mm), 0);

	/* The page that was freed last is still warm: it goes out first. */
	assert_ptr_equal(get(mm, 0), v[1999]);
	release_folio(mm, v[1999]);

	drain_all_pages(mm);
	assert_int_equal(pcp->count, 0);
	assert_int_equal(zone->nr_free, 65536);
	mm_delete(mm);
}

/* What a refill leaves alone: the last pages, and pageblocks of another type. */
static void test_refill_is_modest(void **state)
{
	struct mm *mm = mm_new(17000, 1);
	struct zone *zone = &mm->node[0].zone;
	struct folio **v = new_vector(17000), *folio;
	size_t nr = 0;

	(void)state;
	stay_on_this_cpu();
	while ((v[nr] = alloc_folio(mm, 0, MIGRATE_UNMOVABLE, ALLOC_NO_WATERMARKS)))
		nr++;
	assert_int_equal(nr, 17000);
	for (unsigned i = 0; i < mm->nr_cpus; i++)
		release_folio(mm, v[i]);
	drain_all_pages(mm);
	v[0] = alloc_folio(mm, 0, MIGRATE_UNMOVABLE, ALLOC_NO_WATERMARKS);
	assert_int_equal(this_pcp(mm)->count, 0);
	for (unsigned i = 1; i < mm->nr_cpus; i++)
		v[i] = alloc_folio(mm, 0, MIGRATE_UNMOVABLE, ALLOC_NO_WATERMARKS);

	/* Half of it is free, in single pages: too small to claim a pageblock for. */
	for (unsigned i = 0; i < 17000; i++)
		if (page_pfn(mm, folio_page(v[i])) % 2) {
			release_folio(mm, v[i]);
			v[i] = NULL;
		}
	drain_all_pages(mm);
	folio = alloc_folio(mm, 0, MIGRATE_MOVABLE, ALLOC_WMARK_LOW);
	assert_non_null(folio);
	assert_int_equal(vm_event_sum(mm, PAGEBLOCK_STEAL), 1);
	assert_int_equal(this_pcp(mm)->count, 0);
	assert_int_equal(buddy_check(mm, zone), 0);
	release_folio(mm, folio);
	for (unsigned i = 0; i < 17000; i++)
		if (v[i])
			release_folio(mm, v[i]);
	free(v);
	mm_delete(mm);
}

static void test_tiny_zones_have_no_lists(void **state)
{
	struct mm *mm = mm_new(16, 1);
	struct folio *v[17];

	(void)state;
	assert_int_equal(this_pcp(mm)->high, 0);
	/* A run is had whole or not at all, as long as there are watermarks to keep. */
	assert_int_equal(alloc_folios_bulk(mm, MIGRATE_MOVABLE, ALLOC_WMARK_LOW, 16, v), 0);
	assert_int_equal(alloc_folios_bulk(mm, MIGRATE_MOVABLE, ALLOC_WMARK_LOW, 15, v), 15);
	assert_int_equal(take_all(mm, 0, ALLOC_WMARK_LOW, v + 15), 0);
	assert_int_equal(take_all(mm, 0, ALLOC_NO_WATERMARKS, v + 15), 1);
	assert_int_equal(mm->node[0].zone.nr_free, 0);
	release_folio(mm, v[3]);
	assert_int_equal(mm->node[0].zone.nr_free, 1);
	v[3] = get(mm, 0);
	release_all(mm, v, 16);
	mm_delete(mm);
}

/* Pages on lists of other CPUs, or of another type, or not merged, are brought home before a refusal. */
static void test_drain_before_refusal(void **state)
{
	struct mm *mm = mm_new(17000, 1);
	struct zone *zone = &mm->node[0].zone;
	struct folio **v = new_vector(17000), *folio, *pair = NULL, *got[3];
	unsigned other;

	(void)state;
	stay_on_this_cpu();
	other = (os_cpu() + 1) % mm->nr_cpus;
	assert_int_equal(take_all(mm, 0, ALLOC_NO_WATERMARKS, v), 17000);

	/* Another type. */
	release_folio(mm, v[16999]);
	assert_int_equal(this_pcp(mm)->count, 1);
	folio = alloc_folio(mm, 0, MIGRATE_UNMOVABLE, ALLOC_NO_WATERMARKS);
	assert_ptr_equal(folio, v[16999]);

	/* Another CPU. */
	release_folio(mm, folio);
	if (other != os_cpu()) {
		list_splice_init(&this_pcp(mm)->list[MIGRATE_MOVABLE],
				 &zone->pcp[other].list[MIGRATE_MOVABLE]);
		this_pcp(mm)->count = 0;
		zone->pcp[other].count = 1;
	}
	assert_ptr_equal(get(mm, 0), folio);

	/* Two halves of what is asked for. */
	for (unsigned i = 0; i < 16999 && !pair; i++)
		for (unsigned k = i + 1; k < 16999 && k < i + 4; k++)
			if ((page_pfn(mm, folio_page(v[i])) ^ page_pfn(mm, folio_page(v[k]))) ==
			    1) {
				pair = v[i] < v[k] ? v[i] : v[k];
				release_folio(mm, v[i]);
				release_folio(mm, v[k]);
				v[k] = NULL;
				v[i] = pair;
				break;
			}
	assert_non_null(pair);
	assert_int_equal(zone->nr_free, 0);
	assert_ptr_equal(get(mm, 1), pair);

	/* A request that got a part of what it asked for. */
	release_folio(mm, v[16999]);
	drain_all_pages(mm);
	release_folio(mm, v[16998]);
	assert_int_equal(zone->nr_free, 1);
	assert_int_equal(alloc_folios_bulk(mm, MIGRATE_UNMOVABLE, ALLOC_NO_WATERMARKS, 3, got), 2);
	v[16999] = got[0];
	v[16998] = got[1];
	for (unsigned i = 0; i < 17000; i++)
		if (v[i])
			release_folio(mm, v[i]);
	free(v);
	mm_delete(mm);
}

static void test_bulk(void **state)
{
	struct mm *mm = mm_new(4096, 2);
	struct folio *v[4097], *big[3];
	unsigned nr;

	(void)state;
	assert_int_equal(alloc_folios_bulk(mm, MIGRATE_MOVABLE, ALLOC_WMARK_LOW, 0, v), 0);
	nr = alloc_folios_bulk(mm, MIGRATE_MOVABLE, ALLOC_WMARK_LOW, 300, v);
	assert_int_equal(nr, 300);
	for (unsigned i = 0; i < nr; i++)
		assert_fresh(v[i], 0);
	assert_int_equal(vm_event_sum(mm, PGALLOC), 300);
	/* More than there is: what there is. */
	nr += alloc_folios_bulk(mm, MIGRATE_MOVABLE, ALLOC_NO_WATERMARKS, 4097 - nr, v + nr);
	assert_int_equal(nr, 4096);
	assert_int_equal(alloc_folios_bulk(mm, MIGRATE_MOVABLE, ALLOC_NO_WATERMARKS, 1, v + nr), 0);

	/* Freed together: of both nodes, and of several orders. */
	for (unsigned i = 0; i < nr; i++)
		assert_true(folio_ref_freeze(v[i], 1));
	free_folios_bulk(mm, v, nr);
	free_folios_bulk(mm, v, 0);
	assert_int_equal(vm_event_sum(mm, PGFREE), 4096);
	assert_pristine(mm);
	for (unsigned i = 0; i < 3; i++) {
		assert_non_null(big[i] = get(mm, i * 4));
		assert_true(folio_ref_freeze(big[i], 1));
	}
	free_folios_bulk(mm, big, 3);
	mm_delete(mm);
}

/* ---- faults, checks, figures ---- */

static void test_injected_faults(void **state)
{
	struct mm *mm = mm_new(4096, 1);
	struct folio *v[8];

	(void)state;
	fault_arm(FAULT_PAGE, 1);
	assert_null(get(mm, 0));
	assert_true(fault_disarm());
	fault_arm(FAULT_PAGE, 2);
	assert_non_null(v[0] = get(mm, 3));
	assert_null(get(mm, 3));
	assert_true(fault_disarm());
	release_folio(mm, v[0]);

	fault_arm(FAULT_PAGE, 1);
	assert_int_equal(alloc_folios_bulk(mm, MIGRATE_MOVABLE, ALLOC_WMARK_LOW, 8, v), 0);
	assert_true(fault_disarm());
	fault_arm(FAULT_PAGE, 6);
	assert_int_equal(alloc_folios_bulk(mm, MIGRATE_MOVABLE, ALLOC_WMARK_LOW, 8, v), 5);
	assert_true(fault_disarm());
	release_all(mm, v, 5);
	mm_delete(mm);
}

static void test_init_undone(void **state)
{
	struct fixture *f = fixture_new(4096, 3);
	unsigned n;
	int err;

	(void)state;
	assert_int_equal(mm_arena_init(&f->mm), 0);
	for (n = 1;; n++) {
		fault_arm(FAULT_ALLOC, n);
		err = page_alloc_init(&f->mm);
		if (!fault_disarm())
			break;
		assert_int_equal(err, -ENOMEM);
		/* What core/ does then, and tries anew. */
		mm_arena_fini(&f->mm);
		assert_int_equal(mm_arena_init(&f->mm), 0);
	}
	assert_int_equal(err, 0);
	assert_int_equal(n, 4);
	mm_delete(&f->mm);
}

static void test_metadata_budget(void **state)
{
	(void)state;
	for (unsigned nodes = 1; nodes <= UMM_MAX_NODES; nodes *= 2) {
		struct mm *mm = mm_new(65536, nodes);
		uint64_t bytes = mm->nr_pages * sizeof(struct page) + nodes * sizeof(struct pgdat);

		for (unsigned i = 0; i < nodes; i++)
			bytes += mm->node[i].zone.nr_pageblocks + mm->nr_cpus * sizeof(struct pcp);
		assert_true(bytes * 100 <= mm->arena_bytes * 2);
		mm_delete(mm);
	}
}

static struct folio *victim(struct mm *mm)
{
	struct folio *folio = get(mm, 0);

	folio->refcount = 0;
	return folio;
}

static void free_referenced(void *mm)
{
	free_folio(mm, get(mm, 0));
}

static void free_listed(void *mm)
{
	struct folio *folio = victim(mm);

	folio_set(folio, PG_lru);
	free_folio(mm, folio);
}

static void free_cached(void *mm)
{
	struct folio *folio = victim(mm);

	folio->mapping = mm;
	free_folio(mm, folio);
}

static void free_charged(void *mm)
{
	struct folio *folio = victim(mm);

	folio->memcg_slot = 1;
	free_folio(mm, folio);
}

static void free_twice(void *mm)
{
	struct folio *folio = victim(mm);

	free_folio(mm, folio);
	free_folio(mm, folio);
}

static void free_tail(void *mm)
{
	struct folio *folio = get(mm, 2);

	free_folio(mm, page_folio(folio_page(folio) + 1));
}

static void test_free_checks(void **state)
{
	void (*const bad[])(void *) = { free_referenced, free_listed, free_cached,
					free_charged,    free_twice,  free_tail };
	struct mm *mm = mm_new(4096, 1);

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++)
		assert_true(aborts(bad[i], mm));
	mm_delete(mm);
}

#if UMM_DEBUG >= 1
static void free_under_lru_lock(void *arg)
{
	struct mm *mm = arg;
	struct folio *folio = victim(mm);

	lock_acquire(&mm->threads, &mm->node[0].lru_lock);
	free_folio(mm, folio);
}

static void test_free_context(void **state)
{
	struct mm *mm = mm_new(4096, 1);

	(void)state;
	assert_true(aborts(free_under_lru_lock, mm));
	mm_delete(mm);
}
#endif

#if UMM_DEBUG >= 2 && !defined(__SANITIZE_ADDRESS__)
static void write_after_free(void *arg)
{
	struct folio *folio = get(arg, 1);
	char *p = folio_address(folio);

	release_folio(arg, folio);
	p[PAGE_SIZE + 77] ^= 1;
	assert_ptr_equal(get(arg, 1), folio);
}

static void test_free_frames(void **state)
{
	struct mm *mm = mm_new(4096, 1);
	struct folio *folio = get(mm, 0);

	(void)state;
	memset(folio_address(folio), 'x', PAGE_SIZE);
	release_folio(mm, folio);
	for (unsigned i = 0; i < PAGE_SIZE; i++)
		assert_int_not_equal(((char *)folio_address(folio))[i], 'x');
	assert_true(aborts(write_after_free, mm));
	mm_delete(mm);
}
#elif defined(__SANITIZE_ADDRESS__)
static void test_free_frames(void **state)
{
	struct mm *mm = mm_new(4096, 1);
	size_t bytes = mm->arena_bytes;
	void *arena = mm->arena;
	struct folio *folio;

	(void)state;
	assert_ptr_equal(__asan_region_is_poisoned(arena, 1), arena);
	folio = get(mm, 3);
	assert_null(__asan_region_is_poisoned(folio_address(folio), 8 * PAGE_SIZE));
	release_folio(mm, folio);
	for (unsigned i = 0; i < 8; i++)
		assert_true(__asan_address_is_poisoned((char *)folio_address(folio) +
						       i * PAGE_SIZE + 5));
	mm_delete(mm);
	/* The address range is free for others. */
	assert_ptr_equal(mmap(arena, bytes, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0),
			 arena);
	assert_null(__asan_region_is_poisoned(arena, bytes));
	assert_int_equal(munmap(arena, bytes), 0);
}
#else
static void test_free_frames(void **state)
{
	(void)state;
	skip();
}
#endif

/* ---- threads ---- */

#define NR_THREADS 4
#define HELD_MAX 200

/* ThreadSanitizer sees more in a tenth of the rounds, and takes as long for them. */
#if defined(__SANITIZE_THREAD__)
#define STRESS_ROUNDS 5000
#define LAST_PAGES_ROUNDS 3
#else
#define STRESS_ROUNDS 50000
#define LAST_PAGES_ROUNDS 20
#endif

struct worker {
	pthread_t thread;
	struct mm *mm;
	uint64_t seed;
	uint64_t taken;
	struct folio *held[HELD_MAX];
	unsigned nr;
};

/* For threads: cmocka's asserts are the main thread's. */
#define must(cond) VM_BUG_ON(!(cond))

static void put(struct mm *mm, struct folio *folio)
{
	if (atomic_fetch_sub_explicit(&folio->refcount, 1, memory_order_acq_rel) == 1)
		free_folio(mm, folio);
}

static void stamp(struct worker *w, struct folio *folio)
{
	for (unsigned long i = 0; i < folio_nr_pages(folio); i++) {
		uint64_t *p = (uint64_t *)(void *)((char *)folio_address(folio) + i * PAGE_SIZE);

		p[0] = (uintptr_t)w;
		p[511] = (uintptr_t)folio;
	}
}

static void check_stamp(const struct worker *w, struct folio *folio)
{
	for (unsigned long i = 0; i < folio_nr_pages(folio); i++) {
		uint64_t *p = (uint64_t *)(void *)((char *)folio_address(folio) + i * PAGE_SIZE);

		must(p[0] == (uintptr_t)w);
		must(p[511] == (uintptr_t)folio);
	}
}

static void worker_take(struct worker *w)
{
	static const unsigned likely_orders[] = { 0, 0, 0, 0, 0, 0, 1, 2, 3, 5, 9 };
	unsigned order = likely_orders[next_random(&w->seed) % ARRAY_SIZE(likely_orders)];
	enum migratetype type = next_random(&w->seed) % NR_MIGRATETYPES;
	unsigned nr = 1;

	if (order == 0 && next_random(&w->seed) % 4 == 0) {
		nr = (unsigned)min_u64(HELD_MAX - w->nr, 1 + next_random(&w->seed) % 32);
		nr = alloc_folios_bulk(w->mm, type, ALLOC_NO_WATERMARKS, nr, &w->held[w->nr]);
	} else {
		w->held[w->nr] = alloc_folio(w->mm, order, type, (int)(next_random(&w->seed) % 3));
		nr = w->held[w->nr] != NULL;
	}
	for (; nr; nr--)
		stamp(w, w->held[w->nr++]);
}

static void worker_give(struct worker *w)
{
	size_t i = next_random(&w->seed) % w->nr;
	struct folio *folio = w->held[i];

	check_stamp(w, folio);
	w->held[i] = w->held[--w->nr];
	put(w->mm, folio);
}

/* A stale pointer to any page at all: a reference can be had only on the head of what is in use. */
static void worker_touch(struct worker *w)
{
	struct folio *folio = page_folio(pfn_page(w->mm, next_random(&w->seed) % w->mm->nr_pages));

	if (!folio_try_get(folio))
		return;
	must(!folio_test(folio, PG_buddy) && !folio_test(folio, PG_pcp) &&
	     !folio_test(folio, PG_tail));
	must(folio->order <= MAX_ORDER && !atomic_load(&folio->mapping));
	put(w->mm, folio);
}

static void *stress_thread(void *arg)
{
	struct worker *w = arg;

	must(threads_enter(&w->mm->threads) == 0);
	for (unsigned i = 0; i < STRESS_ROUNDS; i++) {
		if (w->nr == 0 || (w->nr < HELD_MAX && next_random(&w->seed) % 2))
			worker_take(w);
		else
			worker_give(w);
		worker_touch(w);
		if (next_random(&w->seed) % 2048 == 0)
			drain_all_pages(w->mm);
		if (next_random(&w->seed) % 8192 == 0)
			must(buddy_check(w->mm, &w->mm->node[0].zone) == 0);
		must(mm_nr_free(w->mm) <= 2 * w->mm->nr_pages);
	}
	while (w->nr)
		worker_give(w);
	return NULL;
}

static void run_threads(struct mm *mm, struct worker *w, void *(*fn)(void *))
{
	for (unsigned i = 0; i < NR_THREADS; i++) {
		w[i].mm = mm;
		w[i].seed = 1000 + i;
		assert_int_equal(pthread_create(&w[i].thread, NULL, fn, &w[i]), 0);
	}
	for (unsigned i = 0; i < NR_THREADS; i++)
		assert_int_equal(pthread_join(w[i].thread, NULL), 0);
}

static void unpin_cpus(void)
{
	cpu_set_t all;

	memset(&all, 0xff, sizeof(all));
	assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
}

static void test_stress(void **state)
{
	static const struct shape small[] = { { 1000, 1 }, { 4096, 2 }, { 17000, 3 } };

	(void)state;
	unpin_cpus();
	for (unsigned i = 0; i < ARRAY_SIZE(small); i++) {
		struct mm *mm = mm_new(small[i].pages, small[i].nodes);
		struct worker *w = calloc(NR_THREADS, sizeof(*w));

		assert_non_null(w);
		run_threads(mm, w, stress_thread);
		assert_int_equal(mm_buddy_check(mm), 0);
		assert_int_equal(mm_nr_free(mm), mm->nr_pages);
		assert_int_equal(vm_event_sum(mm, PGALLOC), vm_event_sum(mm, PGFREE));
		free(w);
		mm_delete(mm);
	}
}

static void *grab_thread(void *arg)
{
	struct worker *w = arg;
	struct folio *folio, *mine = NULL;

	must(threads_enter(&w->mm->threads) == 0);
	while ((folio = get(w->mm, 0))) {
		folio->private = (uintptr_t)mine;
		mine = folio;
		w->taken++;
	}
	/* Nobody gives back before all have been refused. */
	w->held[0] = mine;
	return NULL;
}

/* Whatever is on whichever list meanwhile: together the threads get every single page. */
static void test_last_pages(void **state)
{
	struct mm *mm = mm_new(17000, 2);
	struct worker w[NR_THREADS];

	(void)state;
	unpin_cpus();
	for (unsigned round = 0; round < LAST_PAGES_ROUNDS; round++) {
		uint64_t taken = 0;

		memset(w, 0, sizeof(w));
		run_threads(mm, w, grab_thread);
		assert_int_equal(mm_nr_free(mm), 0);
		for (unsigned i = 0; i < NR_THREADS; i++) {
			struct folio *folio = w[i].held[0];

			taken += w[i].taken;
			while (folio) {
				struct folio *next = (struct folio *)(uintptr_t)folio->private;

				folio->private = 0;
				release_folio(mm, folio);
				folio = next;
			}
		}
		assert_int_equal(taken, 17000);
	}
	mm_delete(mm);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_order),
		cmocka_unit_test(test_exhaustion),
		cmocka_unit_test(test_size_classes),
		cmocka_unit_test(test_watermark_values),
		cmocka_unit_test(test_watermarks_hold),
		cmocka_unit_test(test_local_node_first),
		cmocka_unit_test(test_pcp),
		cmocka_unit_test(test_refill_is_modest),
		cmocka_unit_test(test_tiny_zones_have_no_lists),
		cmocka_unit_test(test_drain_before_refusal),
		cmocka_unit_test(test_bulk),
		cmocka_unit_test(test_injected_faults),
		cmocka_unit_test(test_init_undone),
		cmocka_unit_test(test_metadata_budget),
		cmocka_unit_test(test_free_checks),
#if UMM_DEBUG >= 1
		cmocka_unit_test(test_free_context),
#endif
		cmocka_unit_test(test_free_frames),
		cmocka_unit_test(test_stress),
		cmocka_unit_test(test_last_pages),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
