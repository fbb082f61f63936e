/* SPDX-License-Identifier: MIT */
/* Owns what went wrong: a failing disk must not print a line for each of ten thousand files. */
#define _GNU_SOURCE
#include "readtwice.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "complain.h"

void trouble_init(struct trouble *trouble)
{
	*trouble = (struct trouble){ 0 };
	pthread_mutex_init(&trouble->lock, NULL);
}

void trouble_add(struct trouble *trouble, enum trouble_kind kind, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	pthread_mutex_lock(&trouble->lock);
	if (!trouble->nr[kind]++ && vasprintf(&trouble->first[kind], format, args) < 0)
		trouble->first[kind] = NULL;
	pthread_mutex_unlock(&trouble->lock);
	va_end(args);
}

int trouble_tell(struct trouble *trouble)
{
	int status = EXIT_DONE;

	for (int kind = 0; kind < NR_TROUBLES; kind++) {
		uint64_t others = trouble->nr[kind] - 1;
		const char *first = trouble->first[kind];

		if (!trouble->nr[kind])
			continue;
		status = EXIT_FAILED;
		if (others)
			complain(READTWICE, "%s (and %llu more like it)",
				 first ? first : "out of memory", (unsigned long long)others);
		else
			complain(READTWICE, "%s", first ? first : "out of memory");
	}
	return status;
}

void trouble_fini(struct trouble *trouble)
{
	for (int kind = 0; kind < NR_TROUBLES; kind++)
		free(trouble->first[kind]);
	pthread_mutex_destroy(&trouble->lock);
}
