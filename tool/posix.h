/* SPDX-License-Identifier: MIT */
/* What the system has no single call for. */
#ifndef UMM_TOOL_POSIX_H
#define UMM_TOOL_POSIX_H

#include <stddef.h>
#include <stdint.h>

/* Monotonic time. */
uint64_t now_ns(void);

/* Write all of it. 0 or -errno. */
int write_whole(int fd, const void *bytes, size_t length);

#endif
