/* SPDX-License-Identifier: MIT */
/*
 * Options of a command, described once in a table from which they are parsed and the help is printed.
 * Long options only, as `--name value` or `--name=value`; `--` ends them; what is no option is left
 * for the command. The last of several equal options counts.
 */
#ifndef UMM_TOOL_ARGS_H
#define UMM_TOOL_ARGS_H

#include <stddef.h>
#include <stdint.h>

enum arg_kind {
	ARG_FLAG,   /* bool, no value */
	ARG_NUMBER, /* uint64_t */
	ARG_SIZE,   /* uint64_t, in bytes; K, M and G are powers of 1024 */
	ARG_CHOICE, /* unsigned: the position in `choices` */
	ARG_TEXT,   /* const char *, not empty */
};

struct arg {
	const char *name; /* without the dashes */
	enum arg_kind kind;
	size_t offset;              /* of the value in the command's struct of options */
	const char *help;           /* one line */
	const char *value;          /* what the help calls the value; NULL for a flag */
	uint64_t min, max;          /* NUMBER and SIZE */
	const char *const *choices; /* CHOICE: ends with NULL */
};

struct arg_table {
	const char *command;
	const struct arg *args;
	size_t nr;
};

/*
 * Parse argv[1..] into `options`, which holds the defaults. What is left over is moved to the front of
 * argv, and *ret_rest is how many. Return 0, or EXIT_USAGE after one line on standard error.
 */
int args_parse(const struct arg_table *table, int argc, char **argv, void *options, int *ret_rest);

/* Print the options, a line each, on standard output. */
void args_help(const struct arg_table *table);

#endif
