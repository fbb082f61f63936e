/* SPDX-License-Identifier: MIT */
/* Owns the shape of lines on standard error. Called from any thread. */
#define _GNU_SOURCE
#include "complain.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "progress.h"

/* A newline in a file name must not become a second line, nor an escape sequence reach a terminal. */
static void make_printable(char *text)
{
	for (unsigned char *c = (unsigned char *)text; *c; c++) {
		if (*c < 0x20 || *c == 0x7f)
			*c = '?';
	}
}

void complain(const char *command, const char *format, ...)
{
	char *text = NULL;
	va_list args;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		text = NULL;
	va_end(args);
	if (text)
		make_printable(text);
	progress_clear();
	fprintf(stderr, "umm%s%s: %s\n", command ? " " : "", command ? command : "",
		text ? text : "out of memory");
	free(text);
}
