/* SPDX-License-Identifier: MIT */
/*
 * One line of progress on standard error for whatever takes longer than two seconds. Nothing at all
 * when standard error is no terminal: logs and scripts see results only.
 */
#ifndef UMM_TOOL_PROGRESS_H
#define UMM_TOOL_PROGRESS_H

#include <stdint.h>

/*
 * Show "WHAT: NN %", or WHAT alone if `total` is 0, for unknown. Cheap enough to be called a thousand
 * times a second.
 */
void progress_show(const char *what, uint64_t done, uint64_t total);

/* Take the line away again, before anything else is printed. */
void progress_clear(void);

#endif
