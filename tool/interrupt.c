/* SPDX-License-Identifier: MIT */
/* Owns what the process does on signals. */
#define _GNU_SOURCE
#include "interrupt.h"

#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

enum { SETTLED = -1, LET_PASS = -2 };

atomic_int interrupt_signal;
static void (*at_last_resort)(void);
static sigset_t watched;

/* Impatience: whoever signals twice does not want to wait for threads. */
static void *watch_signals(void *unused)
{
	(void)unused;
	for (;;) {
		int none = 0;
		int signal = 0;

		if (sigwait(&watched, &signal))
			continue;
		if (atomic_compare_exchange_strong(&interrupt_signal, &none, signal))
			continue;
		if (none == SETTLED) {
			atomic_store(&interrupt_signal, LET_PASS);
			continue;
		}
		at_last_resort();
		_exit(128 + signal);
	}
	return NULL;
}

bool interrupt_settle(void)
{
	int none = 0;

	return atomic_compare_exchange_strong(&interrupt_signal, &none, SETTLED);
}

static void on_abort(int signal)
{
	(void)signal;
	at_last_resort(); /* then abort() ends the process as it would have */
}

int interrupt_start(void (*last_resort)(void))
{
	struct sigaction old, act = { .sa_handler = SIG_DFL };
	pthread_attr_t attr;
	pthread_t thread;
	int err;

	at_last_resort = last_resort;
	/* Shells start background jobs with SIGINT ignored; whoever sends one by hand means it. */
	sigaction(SIGINT, &act, NULL);
	sigaction(SIGTERM, &act, NULL);
	sigemptyset(&watched);
	sigaddset(&watched, SIGINT);
	sigaddset(&watched, SIGTERM);
	/* But nohup(1) is to be respected. */
	if (sigaction(SIGHUP, NULL, &old) == 0 && old.sa_handler != SIG_IGN)
		sigaddset(&watched, SIGHUP);
	act.sa_handler = on_abort;
	sigaction(SIGABRT, &act, NULL);
	act.sa_handler = SIG_IGN; /* a closed pipe is a write error, with a line of its own */
	sigaction(SIGPIPE, &act, NULL);

	err = pthread_sigmask(SIG_BLOCK, &watched, NULL);
	if (err)
		return -err;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	err = pthread_create(&thread, &attr, watch_signals, NULL);
	pthread_attr_destroy(&attr);
	return -err;
}
