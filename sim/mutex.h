/* SPDX-License-Identifier: MIT */
/* mutex.c's table lives as long as a world. */
#ifndef UMM_SIM_MUTEX_H
#define UMM_SIM_MUTEX_H

int sim_mutexes_init(void);
void sim_mutexes_fini(void);

#endif
