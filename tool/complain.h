/* SPDX-License-Identifier: MIT */
/*
 * The one way to say on standard error that something is wrong: one line, whatever bytes a file name
 * or an argument holds, and never in the middle of a progress line.
 */
#ifndef UMM_TOOL_COMPLAIN_H
#define UMM_TOOL_COMPLAIN_H

/* What scripts rely on. */
enum exit_code {
	EXIT_DONE = 0,
	EXIT_FAILED = 1, /* a check failed, or the machine refused something */
	EXIT_USAGE = 2,  /* the arguments cannot be carried out as given */
};

/* Print "umm COMMAND: message"; `command` may be NULL. */
__attribute__((format(printf, 2, 3))) void complain(const char *command, const char *format, ...);

#endif
