/* SPDX-License-Identifier: MIT */
/*
 * Readers that each read a file of their own twice, in order, 4 KiB at a time, with a quarter of the
 * files' size as memory:
 *
 *	dd      processes, from the kernel's page cache, in one memory cgroup with the budget as limit
 *	umm     threads with a memcg each, from one instance with the same budget, files past the
 *	        kernel's page cache
 *	umm, buffered  the same through the kernel's page cache, which nothing limits here
 *
 * The files are out of the kernel's page cache before each run. Making an instance, its memcgs or a
 * cgroup is not timed; starting threads or processes and opening files is.
 */
#define _GNU_SOURCE
#include "common.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <umm.h>
#include <unistd.h>

#define PASSES 2u
#define MAX_READERS 256u
#define TMPFS 0x01021994 /* its statfs.f_type; linux/magic.h is not everywhere */

struct file {
	int fd;
	char path[64];
};

struct plan {
	uint64_t readers, file_size, memory;
	struct file files[MAX_READERS];
	pid_t dd[MAX_READERS]; /* the process under way, or 0 */
	char cgroup[128];      /* directory; empty: none */
	char procs[160];       /* its cgroup.procs */
};

static volatile sig_atomic_t caught;

static void on_signal(int signal)
{
	caught = signal;
}

/* ---- the cgroup that holds dd to the budget ---------------------------------------------- */

static bool write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return ok;
}

/* Make a child of the hierarchy at `top`, if that has a memory controller and lets us. */
static bool cgroup_try(struct plan *plan, const char *top, const char *limit_name)
{
	char path[192], text[32];

	snprintf(path, sizeof(path), "%s/cgroup.procs", top);
	if (access(path, W_OK))
		return false;
	snprintf(plan->cgroup, sizeof(plan->cgroup), "%s/umm-bench-%d", top, (int)getpid());
	if (mkdir(plan->cgroup, 0755)) {
		plan->cgroup[0] = '\0';
		return false;
	}
	snprintf(plan->procs, sizeof(plan->procs), "%s/cgroup.procs", plan->cgroup);
	snprintf(path, sizeof(path), "%s/%s", plan->cgroup, limit_name);
	snprintf(text, sizeof(text), "%llu", (unsigned long long)plan->memory);
	if (write_text(path, text))
		return true;
	rmdir(plan->cgroup);
	plan->cgroup[0] = '\0';
	return false;
}

static const char *cgroup_make(struct plan *plan)
{
	if (cgroup_try(plan, "/sys/fs/cgroup/memory", "memory.limit_in_bytes"))
		return "a cgroup (v1) with the budget as limit";
	if (cgroup_try(plan, "/sys/fs/cgroup", "memory.max"))
		return "a cgroup (v2) with the budget as limit";
	return "NOTHING: no memory cgroup could be made, so dd has the whole page cache";
}

static void cgroup_remove(struct plan *plan)
{
	/* A process that has just ended may still count as a member for a moment. */
	for (int i = 0; plan->cgroup[0] && i < 100; i++) {
		if (!rmdir(plan->cgroup) || errno != EBUSY)
			break;
		usleep(10000);
	}
}

/* ---- signals: leave no process and no cgroup behind (files have no name) ----------------- */

static void clean_up(struct plan *plan)
{
	for (unsigned i = 0; i < MAX_READERS; i++) {
		if (plan->dd[i] > 0) {
			kill(plan->dd[i], SIGKILL);
			waitpid(plan->dd[i], NULL, 0);
			plan->dd[i] = 0;
		}
	}
	cgroup_remove(plan);
}

static void end_if_caught(struct plan *plan)
{
	int signal = caught;

	if (!signal)
		return;
	clean_up(plan);
	/* The handler was reset when it ran, so that this ends the process as the signal would have. */
	raise(signal);
}

static struct plan *plan_at_exit;

static void clean_up_at_exit(void)
{
	if (plan_at_exit)
		clean_up(plan_at_exit);
	plan_at_exit = NULL;
}

static void catch_signals(void)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESETHAND }, old;

	/* No SA_RESTART: waiting for dd shall end. What is ignored (nohup) stays ignored. */
	for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++)
		if (!sigaction(signals[i], NULL, &old) && old.sa_handler != SIG_IGN)
			sigaction(signals[i], &action, NULL);
}

/* ---- dd ---------------------------------------------------------------------------------- */

__attribute__((noreturn)) static void run_dd(const struct plan *plan, const char *path)
{
	char input[80];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (plan->cgroup[0] && !write_text(plan->procs, "0"))
		_exit(126);
	snprintf(input, sizeof(input), "if=%s", path);
	execlp("dd", "dd", input, "of=/dev/null", "bs=4k", "status=none", (char *)NULL);
	_exit(127);
}

static void start_dd(struct plan *plan, unsigned reader)
{
	pid_t pid = fork();

	if (pid < 0)
		bench_die("fork: %s", strerror(errno));
	if (!pid)
		run_dd(plan, plan->files[reader].path);
	plan->dd[reader] = pid;
}

static unsigned wait_for_dd(struct plan *plan)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, 0)) < 0) {
		if (errno != EINTR)
			bench_die("waitpid: %s", strerror(errno));
		end_if_caught(plan);
	}
	for (unsigned i = 0; i < plan->readers; i++) {
		if (plan->dd[i] != pid)
			continue;
		plan->dd[i] = 0;
		if (status) {
			end_if_caught(plan);
			bench_die("dd ended with status %#x (127: not found, 126: no cgroup)",
				  (unsigned)status);
		}
		return i;
	}
	bench_die("process %d is none of ours", (int)pid);
}

/* A reader's second dd starts when its first one has ended. */
static void read_with_dd(struct plan *plan)
{
	unsigned passes[MAX_READERS] = { 0 };
	uint64_t running = plan->readers;

	for (unsigned i = 0; i < plan->readers; i++)
		start_dd(plan, i);
	while (running) {
		unsigned reader = wait_for_dd(plan);

		if (++passes[reader] < PASSES)
			start_dd(plan, reader);
		else
			running--;
	}
}

/* ---- umm --------------------------------------------------------------------------------- */

struct reader {
	const struct file *file;
	umm_memcg_t *cg;
	umm_obj_t *obj;
	char *buf;
	pthread_t thread;
	uint32_t flags;
	int err;
};

static void *read_with_umm(void *arg)
{
	struct reader *r = arg;
	uint64_t bytes, offset;

	r->err = umm_file_open(r->cg, r->file->path, r->flags, &r->obj);
	if (r->err)
		return NULL;
	bytes = umm_obj_bytes(r->obj);
	for (unsigned pass = 0; pass < PASSES; pass++) {
		for (offset = 0; offset < bytes && !caught; offset += UMM_PAGE_SIZE) {
			ssize_t n = umm_pread(r->obj, r->buf, UMM_PAGE_SIZE, offset);

			if (n != UMM_PAGE_SIZE) {
				r->err = n < 0 ? (int)n : -EIO;
				return NULL;
			}
		}
	}
	return NULL;
}

static umm_t *umm_make(const struct plan *plan, struct reader *readers, uint32_t flags)
{
	struct umm_options options;
	umm_t *mm;
	int err;

	umm_options_init(&options);
	options.memory_bytes = plan->memory;
	err = umm_create(&options, &mm);
	if (err)
		bench_die("umm_create: %s", strerror(-err));
	for (unsigned i = 0; i < plan->readers; i++) {
		char name[16];

		snprintf(name, sizeof(name), "reader%u", i);
		readers[i].file = &plan->files[i];
		readers[i].flags = flags;
		err = umm_memcg_create(mm, NULL, name, &readers[i].cg);
		if (err)
			bench_die("umm_memcg_create: %s", strerror(-err));
	}
	return mm;
}

static const char *io_mode_name(enum umm_io_mode mode)
{
	switch (mode) {
	case UMM_IO_DIRECT: return "O_DIRECT";
	case UMM_IO_DONTCACHE: return "RWF_DONTCACHE";
	case UMM_IO_BUFFERED: return "buffered";
	case UMM_IO_STORE: break;
	}
	return "?";
}

static void umm_unmake(const struct plan *plan, umm_t *mm, struct reader *readers)
{
	for (unsigned i = 0; i < plan->readers; i++) {
		umm_close(readers[i].obj);
		umm_memcg_destroy(readers[i].cg);
	}
	if (umm_destroy(mm))
		bench_die("umm_destroy: something is still in use");
}

static double lru_locks(umm_t *mm)
{
	struct umm_lock_stat stats[64];
	ssize_t nr = umm_lock_stats(mm, stats, 64);

	for (ssize_t i = 0; i < nr && i < 64; i++)
		if (!strcmp(stats[i].name, "lru_lock"))
			return (double)stats[i].acquisitions;
	return 0;
}

/* ---- the arms ---------------------------------------------------------------------------- */

static void drop_page_cache(const struct plan *plan)
{
	for (unsigned i = 0; i < plan->readers; i++)
		posix_fadvise(plan->files[i].fd, 0, 0, POSIX_FADV_DONTNEED);
}

static uint64_t cpu_used(int who)
{
	struct rusage used;

	getrusage(who, &used);
	return (uint64_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000000u +
	       (uint64_t)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1000u;
}

static double pages_of(const struct plan *plan)
{
	uint64_t pages = plan->file_size / UMM_PAGE_SIZE;

	return (double)(plan->readers * PASSES * pages);
}

static void sample(const struct plan *plan, struct bench_arm *arm, uint64_t ns, uint64_t cpu,
		   double count)
{
	double pages = pages_of(plan);

	bench_sample(arm, pages * 1e9 / (double)ns, (double)cpu / pages, count / pages);
}

static void run_dd_arm(struct plan *plan, struct bench_arm *arm)
{
	uint64_t start, cpu;

	drop_page_cache(plan);
	cpu = cpu_used(RUSAGE_CHILDREN);
	start = bench_now();
	read_with_dd(plan);
	sample(plan, arm, bench_now() - start, cpu_used(RUSAGE_CHILDREN) - cpu, 0);
}

static void run_umm_arm(struct bench *b, struct plan *plan, struct bench_arm *arm, uint32_t flags)
{
	static char *buffers;
	static struct reader readers[MAX_READERS];
	uint64_t start, cpu;
	umm_t *mm;

	if (!buffers)
		buffers = bench_memory(MAX_READERS * UMM_PAGE_SIZE);
	memset(readers, 0, sizeof(readers));
	mm = umm_make(plan, readers, flags);
	drop_page_cache(plan);
	cpu = cpu_used(RUSAGE_SELF);
	start = bench_now();
	for (unsigned i = 0; i < plan->readers; i++) {
		readers[i].buf = buffers + (size_t)i * UMM_PAGE_SIZE;
		if (pthread_create(&readers[i].thread, NULL, read_with_umm, &readers[i]))
			bench_die("no thread");
	}
	for (unsigned i = 0; i < plan->readers; i++)
		pthread_join(readers[i].thread, NULL);
	end_if_caught(plan);
	sample(plan, arm, bench_now() - start, cpu_used(RUSAGE_SELF) - cpu, lru_locks(mm));
	for (unsigned i = 0; i < plan->readers; i++)
		if (readers[i].err)
			bench_die("reader %u: %s", i, strerror(-readers[i].err));
	bench_fact(b, flags ? "umm, buffered, reads" : "umm reads", "%s",
		   io_mode_name(umm_obj_io_mode(readers[0].obj)));
	umm_unmake(plan, mm, readers);
}

enum { DD, UMM, UMM_BUFFERED, NR_ARMS };

static void prepare(struct bench *b, struct plan *plan)
{
	struct statfs fs;

	plan->file_size -= plan->file_size % UMM_PAGE_SIZE;
	if (!plan->memory)
		plan->memory = plan->readers * plan->file_size / 4;
	for (unsigned i = 0; i < plan->readers; i++)
		plan->files[i].fd = bench_file(b, plan->file_size, plan->files[i].path);
	plan_at_exit = plan;
	atexit(clean_up_at_exit);
	catch_signals();
	bench_fact(b, "readers", "%llu, each a file of %llu KiB, %u times",
		   (unsigned long long)plan->readers, (unsigned long long)plan->file_size >> 10,
		   PASSES);
	bench_fact(b, "budget", "%llu KiB", (unsigned long long)plan->memory >> 10);
	bench_fact(b, "dd is held by", "%s", cgroup_make(plan));
	if (!fstatfs(plan->files[0].fd, &fs) && fs.f_type == TMPFS)
		bench_fact(b, "WARNING", "files lie on tmpfs: nothing is read from a disk");
}

static void report(struct bench *b, struct bench_arm *arms)
{
	const struct bench_ratio ratios[] = {
		{ .name = "umm / dd, pages per second",
		  .measure = BENCH_RATE,
		  .over = &arms[UMM],
		  .under = &arms[DD],
		  .aim = 1 },
		{ .name = "umm, buffered / dd, pages per second",
		  .measure = BENCH_RATE,
		  .over = &arms[UMM_BUFFERED],
		  .under = &arms[DD] },
		{ .name = "umm / dd, CPU time per page",
		  .measure = BENCH_COST,
		  .over = &arms[UMM],
		  .under = &arms[DD] },
		{ .name = "umm: lru_locks per page read",
		  .measure = BENCH_COUNT,
		  .over = &arms[UMM],
		  .aim = 0.1,
		  .at_most = true },
	};
	const struct bench_arm *list[NR_ARMS];

	for (unsigned i = 0; i < NR_ARMS; i++)
		list[i] = &arms[i];
	bench_report(b, list, NR_ARMS, ratios, sizeof(ratios) / sizeof(*ratios));
}

int main(int argc, char **argv)
{
	static struct bench_arm arms[NR_ARMS] = {
		[DD] = { .name = "dd" },
		[UMM] = { .name = "umm", .counter_name = "lru_locks" },
		[UMM_BUFFERED] = { .name = "umm, buffered", .counter_name = "lru_locks" },
	};
	static struct plan plan = { .readers = 8, .file_size = 64u << 20 };
	const struct bench_option options[] = {
		{ "--readers N", "threads or processes, each with a file", &plan.readers, 1,
		  MAX_READERS },
		{ "--file-size SIZE", "bytes of each file", &plan.file_size, 1u << 20,
		  16ull << 30 },
		{ "--memory SIZE", "the budget; 0: a quarter of all files", &plan.memory, 0,
		  1ull << 40 },
	};
	struct bench b = {
		.name = "readtwice-vs-dd",
		.summary = "Files read twice in order: dd in a cgroup, umm with the same budget.",
		.rounds = 7,
		.seed = 1,
	};

	bench_init(&b, argc, argv, options, sizeof(options) / sizeof(*options));
	if (b.quick) {
		b.rounds = 1;
		plan.readers = plan.readers < 4 ? plan.readers : 4;
		plan.file_size = plan.file_size < 8u << 20 ? plan.file_size : 8u << 20;
	}
	prepare(&b, &plan);
	for (unsigned i = 0; i < NR_ARMS; i++)
		arms[i].threads = (unsigned)plan.readers;
	for (uint64_t round = 0; round < b.rounds; round++) {
		run_dd_arm(&plan, &arms[DD]);
		run_umm_arm(&b, &plan, &arms[UMM], 0);
		run_umm_arm(&b, &plan, &arms[UMM_BUFFERED], UMM_FILE_BUFFERED);
	}
	report(&b, arms);
	for (unsigned i = 0; i < plan.readers; i++)
		close(plan.files[i].fd);
	clean_up_at_exit();
	bench_fini(&b);
	return 0;
}
