/* SPDX-License-Identifier: MIT */
/* What main.c knows of each command: see its table. argv[0] is the command's name. */
#ifndef UMM_TOOL_COMMAND_H
#define UMM_TOOL_COMMAND_H

int readtwice_main(int argc, char **argv);
void readtwice_help(void);

/* readtwice_sim.c; only in a build with the virtual CPUs (-Dsim=true). */
#if UMM_HAVE_SIM
#include <stdbool.h>

bool readtwice_wants_sim(int argc, char **argv);
int readtwice_sim_main(int argc, char **argv);
void readtwice_sim_help(void);
#endif

#endif
