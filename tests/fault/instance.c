/* SPDX-License-Identifier: MIT */
/* umm_create with faults: no thread, no file descriptor, no memory is left behind (the leak
 * sanitizer looks at the latter). umm_destroy does not fail for lack of anything. */
#include "fault.h"

static const int create_errors[] = { -ENOMEM, 0 };

static struct umm_options options;
static unsigned fds, tasks;
static umm_t *made;

static void create_prepare(void)
{
	fds = count_entries("/proc/self/fd");
	tasks = count_entries("/proc/self/task");
}

static long create_call(void)
{
	int err;

	made = UNTOUCHED;
	err = umm_create(&options, &made);
	if (err)
		must(made == UNTOUCHED);
	return err;
}

/* Threads that were joined may be listed for a moment more. */
static void nothing_left(void)
{
	uint64_t end = now_ns() + 5000000000u;

	while (count_entries("/proc/self/task") != tasks) {
		must(now_ns() < end);
		sleep_ns(1000000);
	}
	must(count_entries("/proc/self/fd") == fds);
}

static void create_succeeded(long ret, bool faulted)
{
	struct mem_store store = { .id = 4, .pages = 20 };
	umm_obj_t *obj;

	(void)faulted;
	must(ret == 0);
	/* Whatever it had to do without, it works. */
	obj = mem_store_open(umm_memcg_root(made), &store);
	for (uint64_t i = 0; i < store.pages; i++)
		must(read_page_checked(obj, store.id, i) == 0);
	must(umm_destroy(made) == -EBUSY);
	must(umm_close(obj) == 0);
	must(umm_check(made) == 0);
	must(umm_destroy(made) == 0);
	nothing_left();
}

static void destroy_prepare(void)
{
	create_prepare();
	must(umm_create(&options, &made) == 0);
}

static long destroy_call(void)
{
	return umm_destroy(made);
}

static void destroy_succeeded(long ret, bool faulted)
{
	(void)ret, (void)faulted;
	nothing_left();
}

int main(void)
{
	static const struct fault_call create = { .name = "umm_create",
						  .prepare = create_prepare,
						  .call = create_call,
						  .succeeded = create_succeeded,
						  .failed = nothing_left,
						  .errors = create_errors };
	static const struct fault_call destroy = { .name = "umm_destroy",
						   .prepare = destroy_prepare,
						   .call = destroy_call,
						   .succeeded = destroy_succeeded };

	options = fixture_options(256);
	for (uint32_t flags = 0; flags <= UMM_NO_URING; flags += UMM_NO_URING) {
		for (uint32_t nodes = 1; nodes <= 3; nodes += 2) {
			options.flags = flags;
			options.nr_nodes = nodes;
			fault_run(NULL, &create);
		}
		options.flags |= UMM_NO_PREFAULT;
		fault_run(NULL, &create);
		fault_run(NULL, &destroy);
	}
	return 0;
}
