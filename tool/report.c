/* SPDX-License-Identifier: MIT */
/* Owns how figures look and how results reach a file. */
#define _GNU_SOURCE
#include "report.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "complain.h"
#include "posix.h"

static int compare_doubles(const void *left, const void *right)
{
	double l = *(const double *)left;
	double r = *(const double *)right;

	return (l > r) - (l < r);
}

struct spread spread_of(double *values, size_t nr)
{
	qsort(values, nr, sizeof(*values), compare_doubles);
	return (struct spread){
		.median = (values[(nr - 1) / 2] + values[nr / 2]) / 2,
		.min = values[0],
		.max = values[nr - 1],
	};
}

const char *format_count(char out[COUNT_CHARS], uint64_t value)
{
	char digits[COUNT_CHARS];
	size_t nr = (size_t)snprintf(digits, sizeof(digits), "%llu", (unsigned long long)value);
	char *at = out;

	for (size_t i = 0; i < nr; i++) {
		if (i && (nr - i) % 3 == 0)
			*at++ = ',';
		*at++ = digits[i];
	}
	*at = '\0';
	return out;
}

const char *format_bytes(char out[SIZE_CHARS], uint64_t bytes)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	double value = (double)bytes;
	unsigned unit = 0;

	while (value >= 1024 && unit < 6) {
		value /= 1024;
		unit++;
	}
	/* Whole numbers without a fraction: most budgets are. */
	snprintf(out, SIZE_CHARS, value == (double)(uint64_t)value ? "%.0f %s" : "%.1f %s", value,
		 units[unit]);
	return out;
}

void table_init(struct table *table, size_t nr_columns)
{
	*table = (struct table){ .nr_columns = nr_columns };
}

/* Takes over `text`. */
static void table_add(struct table *table, char *text)
{
	if (table->nr_cells == table->room) {
		size_t room = table->room ? table->room * 2 : 64;
		char **cells = realloc(table->cells, room * sizeof(*cells));

		if (!cells) {
			free(text);
			return;
		}
		table->cells = cells;
		table->room = room;
	}
	table->cells[table->nr_cells++] = text;
}

void table_row(struct table *table, const char *label)
{
	while (table->nr_cells % (table->nr_columns + 1))
		table_add(table, NULL);
	table_add(table, strdup(label));
}

void table_cell(struct table *table, const char *format, ...)
{
	char *text = NULL;
	va_list args;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		text = NULL;
	va_end(args);
	table_add(table, text);
}

void table_print(const struct table *table, FILE *to)
{
	size_t per_row = table->nr_columns + 1;

	for (size_t i = 0; i < table->nr_cells; i++) {
		size_t column = i % per_row;
		const char *text = table->cells[i] ? table->cells[i] : "";
		int width = 0;

		for (size_t j = column; j < table->nr_cells; j += per_row) {
			int length = table->cells[j] ? (int)strlen(table->cells[j]) : 0;

			width = length > width ? length : width;
		}
		if (column)
			fprintf(to, "  %*s", width, text);
		else
			fprintf(to, "%-*s", width, text);
		if (column == table->nr_columns || i + 1 == table->nr_cells)
			fputc('\n', to);
	}
}

void table_fini(struct table *table)
{
	for (size_t i = 0; i < table->nr_cells; i++)
		free(table->cells[i]);
	free(table->cells);
	*table = (struct table){ 0 };
}

int report_json_check(const char *command, const char *target)
{
	struct stat st;
	char *parent;
	char *slash;
	int bad;

	if (!strcmp(target, "-"))
		return 0;
	if (stat(target, &st) == 0) {
		if (S_ISDIR(st.st_mode))
			errno = EISDIR;
		bad = S_ISDIR(st.st_mode) || access(target, W_OK);
	} else if (errno == ENOENT) {
		parent = strdup(target);
		slash = parent ? strrchr(parent, '/') : NULL;
		if (slash)
			slash[slash == parent] = '\0';
		bad = access(slash ? parent : ".", W_OK | X_OK);
		free(parent);
	} else {
		bad = -1;
	}
	if (bad) {
		complain(command, "--json: '%s': %s", target, strerror(errno));
		return EXIT_USAGE;
	}
	return 0;
}

/* 0 or an errno. */
static int write_file(const char *path, const char *text, size_t length)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	bool made = fd >= 0;
	struct stat st;
	int err;

	if (fd < 0 && errno == EEXIST)
		fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (fd < 0)
		return errno;
	err = -write_whole(fd, text, length);
	if (err && !made && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && ftruncate(fd, 0))
		err = errno;
	if (close(fd) && !err)
		err = errno;
	if (err && made)
		unlink(path);
	return err;
}

int report_json(const char *command, const char *target, const json_t *root)
{
	char *text = json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
	size_t length = text ? strlen(text) : 0;
	int err = ENOMEM;

	if (text) {
		text[length] = '\n'; /* in place of the terminator: written by length from here */
		if (!strcmp(target, "-"))
			err = fflush(stdout) ? errno
					     : -write_whole(STDOUT_FILENO, text, length + 1);
		else
			err = write_file(target, text, length + 1);
	}
	free(text);
	if (!err)
		return EXIT_DONE;
	complain(command, "--json: '%s': %s", target, strerror(err));
	return EXIT_FAILED;
}

int report_flush(const char *command)
{
	int failed;

	errno = 0;
	failed = fflush(stdout) || ferror(stdout);
	if (!failed)
		return EXIT_DONE;
	complain(command, "standard output: %s", errno ? strerror(errno) : "write error");
	return EXIT_FAILED;
}
