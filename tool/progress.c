/* SPDX-License-Identifier: MIT */
/* Owns the progress line. The state is of the process, as the terminal is. */
#define _GNU_SOURCE
#include "progress.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "posix.h"

#define QUIET_NS 2000000000u /* whoever is done by then has not asked how far it is */
#define STEP_NS 200000000u
#define LINE_MAX_CHARS 72

static struct {
	pthread_mutex_t lock;
	uint64_t first_ns; /* time of the first call */
	uint64_t shown_ns;
	int length; /* of the line on the screen, 0 for none */
} progress = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void progress_wipe(void)
{
	if (progress.length)
		fprintf(stderr, "\r%*s\r", progress.length, "");
	progress.length = 0;
}

void progress_show(const char *what, uint64_t done, uint64_t total)
{
	uint64_t now = now_ns();
	char line[LINE_MAX_CHARS + 1];
	int length;

	pthread_mutex_lock(&progress.lock);
	if (!progress.first_ns)
		progress.first_ns = now;
	if (now - progress.first_ns >= QUIET_NS && now - progress.shown_ns >= STEP_NS &&
	    isatty(STDERR_FILENO)) {
		int percent = total ? (int)(100.0 * (double)done / (double)total) : 0;

		if (total)
			length = snprintf(line, sizeof(line), "%s: %d %%", what,
					  percent > 100 ? 100 : percent);
		else
			length = snprintf(line, sizeof(line), "%s", what);
		progress_wipe();
		progress.length = length < LINE_MAX_CHARS ? length : LINE_MAX_CHARS;
		fputs(line, stderr);
		fflush(stderr);
		progress.shown_ns = now;
	}
	pthread_mutex_unlock(&progress.lock);
}

void progress_clear(void)
{
	pthread_mutex_lock(&progress.lock);
	progress_wipe();
	pthread_mutex_unlock(&progress.lock);
}
