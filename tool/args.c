/* SPDX-License-Identifier: MIT */
/* Owns how options are written. Every refusal names the argument and why, in one line. */
#define _GNU_SOURCE
#include "args.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "complain.h"

enum number_fault { NUMBER_OK, NUMBER_EMPTY, NUMBER_NEGATIVE, NUMBER_GARBAGE, NUMBER_OVERFLOW };

/* Digits only: strtoull would take blanks, signs and "0x", and wrap negative numbers round. */
static enum number_fault parse_digits(const char **at, uint64_t *ret_value)
{
	uint64_t value = 0;
	const char *c = *at;

	if (!*c)
		return NUMBER_EMPTY;
	if (*c == '-')
		return NUMBER_NEGATIVE;
	if (*c < '0' || *c > '9')
		return NUMBER_GARBAGE;
	for (; *c >= '0' && *c <= '9'; c++) {
		if (__builtin_mul_overflow(value, (uint64_t)10, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(*c - '0'), &value))
			return NUMBER_OVERFLOW;
	}
	*at = c;
	*ret_value = value;
	return NUMBER_OK;
}

static enum number_fault parse_number(const char *text, bool size, uint64_t *ret_value)
{
	enum number_fault fault = parse_digits(&text, ret_value);
	unsigned shift = 0;

	if (fault != NUMBER_OK)
		return fault;
	if (size && *text) {
		switch (*text) {
		case 'K':
		case 'k': shift = 10; break;
		case 'M':
		case 'm': shift = 20; break;
		case 'G':
		case 'g': shift = 30; break;
		default: return NUMBER_GARBAGE;
		}
		text++;
	}
	if (*text)
		return NUMBER_GARBAGE;
	if (__builtin_mul_overflow(*ret_value, UINT64_C(1) << shift, ret_value))
		return NUMBER_OVERFLOW;
	return NUMBER_OK;
}

/* 0, or EXIT_USAGE with a line that says what is wrong with `text`. */
static int set_number(const struct arg_table *table, const struct arg *arg, const char *text,
		      uint64_t *ret_value)
{
	bool size = arg->kind == ARG_SIZE;
	const char *why = NULL;
	uint64_t value = 0;

	switch (parse_number(text, size, &value)) {
	case NUMBER_OK: break;
	case NUMBER_EMPTY: why = "is empty"; break;
	case NUMBER_NEGATIVE: why = "is negative"; break;
	case NUMBER_OVERFLOW: why = "is too large"; break;
	case NUMBER_GARBAGE:
		why = size ? "is no size: digits, then K, M or G or nothing" : "is no whole number";
		break;
	}
	if (why) {
		complain(table->command, "--%s: '%s' %s", arg->name, text, why);
		return EXIT_USAGE;
	}
	if (value < arg->min || value > arg->max) {
		bool low = value < arg->min;

		complain(table->command, "--%s: '%s' is too %s, the %s is %llu%s", arg->name, text,
			 low ? "small" : "large", low ? "least" : "most",
			 (unsigned long long)(low ? arg->min : arg->max), size ? " bytes" : "");
		return EXIT_USAGE;
	}
	*ret_value = value;
	return 0;
}

static int set_choice(const struct arg_table *table, const struct arg *arg, const char *text,
		      unsigned *ret_value)
{
	for (unsigned i = 0; arg->choices[i]; i++) {
		if (!strcmp(text, arg->choices[i])) {
			*ret_value = i;
			return 0;
		}
	}
	complain(table->command, "--%s: '%s' is none of %s", arg->name, text, arg->value);
	return EXIT_USAGE;
}

static int set_value(const struct arg_table *table, const struct arg *arg, const char *text,
		     void *options)
{
	void *value = (char *)options + arg->offset;

	switch (arg->kind) {
	case ARG_FLAG: *(bool *)value = true; return 0;
	case ARG_NUMBER:
	case ARG_SIZE: return set_number(table, arg, text, value);
	case ARG_CHOICE: return set_choice(table, arg, text, value);
	case ARG_TEXT:
		if (!*text) {
			complain(table->command, "--%s: is empty", arg->name);
			return EXIT_USAGE;
		}
		*(const char **)value = text;
		return 0;
	}
	return 0;
}

static const struct arg *find_arg(const struct arg_table *table, const char *name, size_t length)
{
	for (size_t i = 0; i < table->nr; i++) {
		if (strlen(table->args[i].name) == length &&
		    !strncmp(table->args[i].name, name, length))
			return &table->args[i];
	}
	return NULL;
}

/* One option at argv[*at]; moves *at to its last word. */
static int parse_option(const struct arg_table *table, int argc, char **argv, int *at,
			void *options)
{
	const char *word = argv[*at];
	const char *equals = strchr(word, '=');
	size_t length = equals ? (size_t)(equals - word) : strlen(word);
	const struct arg *arg = NULL;
	const char *text;

	if (length > 2 && word[1] == '-')
		arg = find_arg(table, word + 2, length - 2);
	if (!arg) {
		complain(table->command, "%.*s: unknown option; see 'umm help %s'", (int)length,
			 word, table->command);
		return EXIT_USAGE;
	}
	if (arg->kind == ARG_FLAG) {
		if (equals) {
			complain(table->command, "--%s: takes no value", arg->name);
			return EXIT_USAGE;
		}
		text = "";
	} else if (equals) {
		text = equals + 1;
	} else if (*at + 1 < argc) {
		text = argv[++*at];
	} else {
		complain(table->command, "--%s: a value is missing, %s", arg->name, arg->value);
		return EXIT_USAGE;
	}
	return set_value(table, arg, text, options);
}

int args_parse(const struct arg_table *table, int argc, char **argv, void *options, int *ret_rest)
{
	bool only_rest = false;
	int rest = 0;

	for (int i = 1; i < argc; i++) {
		int status;

		if (only_rest || argv[i][0] != '-' || !argv[i][1]) {
			argv[rest++] = argv[i];
		} else if (!strcmp(argv[i], "--")) {
			only_rest = true;
		} else {
			status = parse_option(table, argc, argv, &i, options);
			if (status)
				return status;
		}
	}
	*ret_rest = rest;
	return 0;
}

void args_help(const struct arg_table *table)
{
	for (size_t i = 0; i < table->nr; i++) {
		const struct arg *arg = &table->args[i];
		int width = printf("  --%s%s%s", arg->name, arg->value ? " " : "",
				   arg->value ? arg->value : "");

		printf("%*s%s\n", width < 30 ? 30 - width : 2, "", arg->help);
	}
}
