/* SPDX-License-Identifier: MIT */
/*
 * `umm readtwice`: each memcg's readers read files of their own twice, in order.
 *
 *	readtwice.c          the command: options -> files -> rounds -> result
 *	readtwice_options.c  what the options mean and which may not go together
 *	readtwice_files.c    the files to read, and who reads which
 *	readtwice_own.c      files that the command makes itself
 *	readtwice_run.c      one round of one arm, on an instance of its own
 *	readtwice_reader.c   what one thread does
 *	readtwice_report.c   table and JSON
 *	readtwice_trouble.c  what went wrong meanwhile
 */
#ifndef UMM_TOOL_READTWICE_H
#define UMM_TOOL_READTWICE_H

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <umm.h>

#define READTWICE "readtwice"
#define PASSES 2
#define READ_BYTES 4096u

/* ---- options ----------------------------------------------------------------------------- */

enum lock_choice { CHOOSE_NODE, CHOOSE_MEMCG, CHOOSE_BOTH };
enum io_choice { CHOOSE_DIRECT, CHOOSE_BUFFERED };

struct readtwice_options {
	uint64_t memcgs, readers;              /* readers of each memcg */
	uint64_t memory, memcg_max, file_size; /* bytes; the latter two 0: to be derived */
	uint64_t nodes, rounds, seed;
	unsigned lru_lock; /* enum lock_choice */
	unsigned io;       /* enum io_choice */
	bool verify, stat;
	const char *json; /* NULL, a file, or "-" */
};

/* Parse and check; fill in what is derived. The rest of argv are PATHs. 0 or EXIT_USAGE. */
int readtwice_options_parse(struct readtwice_options *options, int argc, char **argv,
			    int *ret_paths);

static inline size_t nr_readers(const struct readtwice_options *options)
{
	return (size_t)(options->memcgs * options->readers);
}

/* ---- files ------------------------------------------------------------------------------- */

struct file {
	char *path;
	struct stat st;      /* when it was found: any difference later means it was changed */
	atomic_bool changed; /* seen to differ, where a read went wrong */
};

struct file_set {
	struct file *files;
	size_t nr, room;
	uint64_t bytes;
	bool own; /* made here: contents are known */
	uint64_t skipped_empty, skipped_unreadable, skipped_special;
	uint64_t seed; /* own: of the contents */
};

/* What one reader reads: positions in the set. */
struct share {
	uint32_t *files;
	size_t nr;
};

/* Find all usable files at and below the paths. 0, EXIT_USAGE or EXIT_FAILED after one line. */
int files_find(struct file_set *set, char **paths, int nr_paths);
/* Add one file; takes over `path`. 0 or -ENOMEM. */
int files_add(struct file_set *set, char *path, const struct stat *st);
bool file_changed(struct file *file);
uint64_t files_skipped(const struct file_set *set);
uint64_t files_changed(const struct file_set *set);
void files_fini(struct file_set *set);

/* Deal the files out to `nr` readers, by size; NULL if there is no memory for it. */
struct share *shares_create(const struct file_set *set, size_t nr);
void shares_destroy(struct share *shares, size_t nr);

/* Make one file for each reader. 0, EXIT_USAGE or EXIT_FAILED after one line, or interrupted. */
int own_create(struct file_set *set, const struct readtwice_options *options);
/* Remove them and their directory; makes system calls only. Nothing to remove is fine. */
void own_remove(void);
/* The bytes of page `index` of file `file`. */
void own_page(uint64_t seed, uint32_t file, uint64_t index, void *page);

/* ---- trouble ----------------------------------------------------------------------------- */

enum trouble_kind {
	TROUBLE_IO,    /* a file could not be read */
	TROUBLE_WRONG, /* wrong bytes */
	TROUBLE_CHECK, /* a limit was exceeded, an invariant broken, a call refused */
	NR_TROUBLES,
};

/* What went wrong: the first of each kind in words, the others as a number. */
struct trouble {
	pthread_mutex_t lock;
	char *first[NR_TROUBLES];
	uint64_t nr[NR_TROUBLES];
};

void trouble_init(struct trouble *trouble);
__attribute__((format(printf, 3, 4))) void
trouble_add(struct trouble *trouble, enum trouble_kind kind, const char *format, ...);
/* One line for each kind that occurred. EXIT_DONE or EXIT_FAILED. */
int trouble_tell(struct trouble *trouble);
void trouble_fini(struct trouble *trouble);

/* ---- running ----------------------------------------------------------------------------- */

struct plan {
	const struct readtwice_options *options;
	struct file_set *set;
	struct share *shares; /* one a reader */
	size_t window;        /* handles that a reader keeps open at once */
	struct trouble *trouble;
};

/* One run of one arm. The JSON objects are snapshots taken before the instance went away. */
struct round {
	double seconds;
	uint64_t pages, bytes, misses, verified_bytes, errors;
	uint64_t peak_bytes;       /* of the root */
	uint64_t memcg_peak_bytes; /* the largest of any memcg */
	uint64_t check_violations;
	unsigned io_modes; /* a bit for each enum umm_io_mode seen */
	json_t *vmstat, *locks;
	json_t *memory_stat, *memory_events; /* of the first memcg, with --stat */
};

struct arm {
	enum umm_lru_lock lru_lock;
	struct round *rounds;
};

/* Run one round on a fresh instance. 0, or an exit code after one line; trouble is not an error. */
int readtwice_run(const struct plan *plan, enum umm_lru_lock lru_lock, const char *what,
		  struct round *ret_round);
void round_fini(struct round *round);

static inline const char *lru_lock_name(enum umm_lru_lock lru_lock)
{
	return lru_lock == UMM_LRU_LOCK_NODE ? "node" : "memcg";
}

static inline double pages_per_second(const struct round *round)
{
	return round->seconds > 0 ? (double)round->pages / round->seconds : 0;
}

/* ---- readers ----------------------------------------------------------------------------- */

/* Holds readers back until all of them have opened their files. */
struct gate {
	pthread_mutex_t lock;
	pthread_cond_t opened; /* for the readers */
	pthread_cond_t moved;  /* for who waits for them */
	size_t ready, done;
	bool open;
	bool cancelled; /* not all readers could be started: none is to read */
	uint64_t opened_ns;
};

/* Aligned so that one reader's counters are on no line of another's. */
struct reader {
	_Alignas(128) _Atomic uint64_t pages; /* read by the progress line meanwhile */
	uint64_t bytes, verified_bytes, errors;
	uint64_t end_ns;
	unsigned io_modes;
	const struct plan *plan;
	const struct share *share;
	struct gate *gate;
	umm_memcg_t *cg;
	umm_obj_t **objs; /* open handles, as in share->files */
	unsigned char *page, *expected;
	int fd; /* of the file under way, for comparing; -1 for none */
	pthread_t thread;
};

int reader_init(struct reader *reader, const struct plan *plan, const struct share *share,
		struct gate *gate, umm_memcg_t *cg);
/* Close what the thread left open for the statistics' sake, and free all. */
void reader_fini(struct reader *reader);
void *reader_main(void *arg); /* a struct reader */

/* ---- reporting --------------------------------------------------------------------------- */

struct result {
	const struct readtwice_options *options;
	const struct file_set *set;
	const struct trouble *trouble;
	struct arm *arms;
	size_t nr_arms;
	size_t window; /* 0: all files stayed open */
};

void readtwice_print(const struct result *result);
/* NULL if there is no memory for it. */
json_t *readtwice_json(const struct result *result);

#endif
