/* SPDX-License-Identifier: MIT */
/* What main.c knows of each command: see its table. argv[0] is the command's name. */
#ifndef UMM_TOOL_COMMAND_H
#define UMM_TOOL_COMMAND_H

int readtwice_main(int argc, char **argv);
void readtwice_help(void);

#endif
