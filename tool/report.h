/* SPDX-License-Identifier: MIT */
/* What commands print: tables for people, one JSON object for scripts. */
#ifndef UMM_TOOL_REPORT_H
#define UMM_TOOL_REPORT_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct spread {
	double median, min, max;
};

/* Of `nr` > 0 values, which are sorted on the way. The median of an even number is the mean of two. */
struct spread spread_of(double *values, size_t nr);

/* 1234567 as "1,234,567". */
#define COUNT_CHARS 32
const char *format_count(char out[COUNT_CHARS], uint64_t value);

/* A size in the largest unit that leaves at least 1: "512 B", "4.9 MiB". */
#define SIZE_CHARS 32
const char *format_bytes(char out[SIZE_CHARS], uint64_t bytes);

/* A table of labelled rows with right-aligned columns. Memory that runs out shows as a missing cell. */
struct table {
	char **cells; /* row by row: the label, then the columns */
	size_t nr_cells, room;
	size_t nr_columns;
};

void table_init(struct table *table, size_t nr_columns);
void table_row(struct table *table, const char *label);
/* The next column of the row begun last. */
__attribute__((format(printf, 2, 3))) void table_cell(struct table *table, const char *format, ...);
void table_print(const struct table *table, FILE *to);
void table_fini(struct table *table);

/*
 * Can `target` ("-" is standard output) be expected to take the result? Asked before hours of work.
 * 0, or EXIT_USAGE after one line on standard error.
 */
int report_json_check(const char *command, const char *target);

/*
 * Write `root` to `target`. The text is complete before the file is touched; a file that cannot take
 * all of it is removed if it was made here, else emptied. 0, or EXIT_FAILED after one line.
 */
int report_json(const char *command, const char *target, const json_t *root);

/* Flush standard output. 0, or EXIT_FAILED after one line: a full disk, a closed pipe. */
int report_flush(const char *command);

#endif
