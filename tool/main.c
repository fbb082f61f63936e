/* SPDX-License-Identifier: MIT */
/* `umm COMMAND ...`: finds the command. Exit status: see complain.h. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <umm.h>

#include "command.h"
#include "complain.h"
#include "report.h"

struct command {
	const char *name;
	const char *summary;
	int (*main)(int argc, char **argv);
	void (*help)(void);
};

static int help_main(int argc, char **argv);
static void help_help(void);

static const struct command commands[] = {
	{ "readtwice", "tenants read files twice: one LRU lock for all against one each",
	  readtwice_main, readtwice_help },
	{ "help", "this list, or a command's options and an example", help_main, help_help },
};
#define NR_COMMANDS (sizeof(commands) / sizeof(commands[0]))

static void help_help(void)
{
	fputs("usage: umm help [COMMAND]\n", stdout);
}

static void print_usage(void)
{
	fputs("usage: umm COMMAND [OPTIONS]\n"
	      "       umm --version\n"
	      "\n"
	      "Tries out umm, memory cgroups for the tenants inside one process.\n"
	      "\n",
	      stdout);
	for (size_t i = 0; i < NR_COMMANDS; i++)
		printf("  %-12s%s\n", commands[i].name, commands[i].summary);
	fputs("\n'umm help COMMAND' has the options, and an example.\n", stdout);
}

static const struct command *find_command(const char *name)
{
	for (size_t i = 0; i < NR_COMMANDS; i++) {
		if (!strcmp(name, commands[i].name))
			return &commands[i];
	}
	complain(NULL, "'%s': unknown command; 'umm help' lists them", name);
	return NULL;
}

static int help_main(int argc, char **argv)
{
	const struct command *command;

	if (argc > 2) {
		complain("help", "'%s': one command at a time", argv[2]);
		return EXIT_USAGE;
	}
	if (argc < 2) {
		print_usage();
		return report_flush("help");
	}
	command = find_command(argv[1]);
	if (!command)
		return EXIT_USAGE;
	command->help();
	return report_flush("help");
}

/* `umm COMMAND --help` is what everybody tries first; anywhere before a `--`. */
static int wants_help(int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
		if (!strcmp(argv[i], "--help"))
			return 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	const struct command *command;

	if (argc < 2) {
		complain(NULL, "a command is missing; 'umm help' lists them");
		return EXIT_USAGE;
	}
	if (!strcmp(argv[1], "--version")) {
		printf("umm %s\n", umm_version());
		return report_flush(NULL);
	}
	if (!strcmp(argv[1], "--help")) {
		print_usage();
		return report_flush(NULL);
	}
	command = find_command(argv[1]);
	if (!command)
		return EXIT_USAGE;
	if (wants_help(argc - 1, argv + 1)) {
		command->help();
		return report_flush(command->name);
	}
	return command->main(argc - 1, argv + 1);
}
