/* SPDX-License-Identifier: MIT */
/* The end of the assertion ladder. Everything else of base.h is inline. */
#include "base/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void vm_bug(const char *file, int line, const char *what)
{
	char msg[512];
	int len = snprintf(msg, sizeof(msg), "umm: BUG at %s:%d: %s\n", file, line, what);

	if (len >= (int)sizeof(msg)) {
		len = sizeof(msg) - 1;
		msg[len - 1] = '\n';
	}
	/* One system call, no stdio: state is corrupt, and other threads may be here as well. */
	if (len > 0 && write(STDERR_FILENO, msg, (size_t)len) < 0)
		abort();
	abort();
}
