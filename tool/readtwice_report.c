/* SPDX-License-Identifier: MIT */
/*
 * What readtwice says in the end. An arm is shown by its median round: the one whose pages a second
 * lie in the middle, so that all its figures are of one run and go together. The spread is over all
 * rounds, and the JSON holds every round.
 */
#define _GNU_SOURCE
#include "readtwice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"

#define LRU_LOCK "lru_lock"
#define RATE_CHARS 80

/* ---- figures ----------------------------------------------------------------------------- */

static struct spread spread_of_rates(const struct arm *arm, size_t nr)
{
	double *rates = calloc(nr, sizeof(*rates));
	struct spread spread = { 0 };

	if (!rates)
		return spread;
	for (size_t i = 0; i < nr; i++)
		rates[i] = pages_per_second(&arm->rounds[i]);
	spread = spread_of(rates, nr);
	free(rates);
	return spread;
}

/* The arms of a round ran one after the other: only they are compared with each other. */
static struct spread spread_of_ratios(const struct arm *node, const struct arm *memcg, size_t nr)
{
	double *ratios = calloc(nr, sizeof(*ratios));
	struct spread spread = { 0 };

	if (!ratios)
		return spread;
	for (size_t i = 0; i < nr; i++) {
		double base = pages_per_second(&node->rounds[i]);

		ratios[i] = base > 0 ? pages_per_second(&memcg->rounds[i]) / base : 0;
	}
	spread = spread_of(ratios, nr);
	free(ratios);
	return spread;
}

/* Of an even number the slower of the two in the middle. */
static const struct round *median_round(const struct arm *arm, size_t nr)
{
	for (size_t i = 0; i < nr; i++) {
		double rate = pages_per_second(&arm->rounds[i]);
		size_t slower = 0, equal = 0;

		for (size_t j = 0; j < nr; j++) {
			double other = pages_per_second(&arm->rounds[j]);

			slower += other < rate;
			equal += other == rate;
		}
		if (slower <= (nr - 1) / 2 && (nr - 1) / 2 < slower + equal)
			return &arm->rounds[i];
	}
	return &arm->rounds[0];
}

static uint64_t lru_lock_figure(const struct round *round, const char *name)
{
	return (uint64_t)json_integer_value(
		json_object_get(json_object_get(round->locks, LRU_LOCK), name));
}

static const char *io_mode_name(unsigned modes)
{
	switch (modes) {
	case 0: return "none";
	case 1u << UMM_IO_DIRECT: return "direct";
	case 1u << UMM_IO_DONTCACHE: return "dontcache";
	case 1u << UMM_IO_BUFFERED: return "buffered";
	case 1u << UMM_IO_STORE: return "store";
	default: return "mixed";
	}
}

struct totals {
	uint64_t verified_bytes, errors, peak_bytes, memcg_peak_bytes, check_violations;
	unsigned io_modes;
};

static struct totals totals_of(const struct result *result)
{
	struct totals totals = { 0 };

	for (size_t a = 0; a < result->nr_arms; a++) {
		for (size_t i = 0; i < result->options->rounds; i++) {
			const struct round *round = &result->arms[a].rounds[i];

			totals.verified_bytes += round->verified_bytes;
			totals.errors += round->errors;
			totals.check_violations += round->check_violations;
			totals.io_modes |= round->io_modes;
			if (round->peak_bytes > totals.peak_bytes)
				totals.peak_bytes = round->peak_bytes;
			if (round->memcg_peak_bytes > totals.memcg_peak_bytes)
				totals.memcg_peak_bytes = round->memcg_peak_bytes;
		}
	}
	return totals;
}

/* ---- the table --------------------------------------------------------------------------- */

static void print_head(const struct result *result, const struct totals *totals)
{
	const struct readtwice_options *options = result->options;
	char count[COUNT_CHARS], bytes[SIZE_CHARS], limit[SIZE_CHARS];

	printf("%llu memcgs with %llu readers each; %s files, %s, each read twice in order, 4 KiB at "
	       "a time\n",
	       (unsigned long long)options->memcgs, (unsigned long long)options->readers,
	       format_count(count, result->set->nr), format_bytes(bytes, result->set->bytes));
	printf("memory %s on %llu node%s, limit of a memcg %s, I/O %s; %llu round%s",
	       format_bytes(bytes, options->memory), (unsigned long long)options->nodes,
	       options->nodes == 1 ? "" : "s", format_bytes(limit, options->memcg_max),
	       io_mode_name(totals->io_modes), (unsigned long long)options->rounds,
	       options->rounds == 1 ? "" : "s");
	printf("%s\n", options->rounds > 1 ? ", the median one shown" : "");
	if (options->verify)
		printf("every byte was compared, which is part of the time\n");
	if (files_skipped(result->set))
		printf("skipped %s files: %llu empty, %llu unreadable, %llu not regular\n",
		       format_count(count, files_skipped(result->set)),
		       (unsigned long long)result->set->skipped_empty,
		       (unsigned long long)result->set->skipped_unreadable,
		       (unsigned long long)result->set->skipped_special);
	if (result->window)
		printf("more files than may be open: a reader keeps %zu, and those closed leave the "
		       "cache\n",
		       result->window);
	printf("\n");
}

enum row {
	ROW_PAGES,
	ROW_SECONDS,
	ROW_RATE,
	ROW_RATE_SPREAD,
	ROW_HITS,
	ROW_LOCKS,
	ROW_LOCKS_PER_PAGE,
	ROW_SAME,
	ROW_OTHER,
	ROW_WAIT,
	ROW_HOLD,
	ROW_PEAK,
	ROW_PEAK_PART,
	ROW_MEMCG_PEAK,
	NR_ROWS,
};

static const char *const row_labels[NR_ROWS] = {
	[ROW_PAGES] = "pages read",
	[ROW_SECONDS] = "seconds",
	[ROW_RATE] = "pages/s",
	[ROW_RATE_SPREAD] = "  min .. max",
	[ROW_HITS] = "hit ratio",
	[ROW_LOCKS] = "lru_lock acquisitions",
	[ROW_LOCKS_PER_PAGE] = "  per page read",
	[ROW_SAME] = "  contended by same memcg",
	[ROW_OTHER] = "  contended by other memcg",
	[ROW_WAIT] = "  wait, s",
	[ROW_HOLD] = "  hold, s (estimated)",
	[ROW_PEAK] = "peak usage",
	[ROW_PEAK_PART] = "  of the memory",
	[ROW_MEMCG_PEAK] = "  of a memcg",
};

static double part(uint64_t of, uint64_t whole)
{
	return whole ? (double)of / (double)whole : 0;
}

static void print_lock_cell(struct table *table, enum row row, const struct round *round)
{
	char count[COUNT_CHARS];

	switch (row) {
	case ROW_LOCKS:
		table_cell(table, "%s",
			   format_count(count, lru_lock_figure(round, "acquisitions")));
		break;
	case ROW_LOCKS_PER_PAGE:
		table_cell(table, "%.4f",
			   part(lru_lock_figure(round, "acquisitions"), round->pages));
		break;
	case ROW_SAME:
		table_cell(table, "%s",
			   format_count(count, lru_lock_figure(round, "contended_same_memcg")));
		break;
	case ROW_OTHER:
		table_cell(table, "%s",
			   format_count(count, lru_lock_figure(round, "contended_other_memcg")));
		break;
	case ROW_WAIT:
		table_cell(table, "%.4f", (double)lru_lock_figure(round, "wait_ns") / 1e9);
		break;
	default: table_cell(table, "%.4f", (double)lru_lock_figure(round, "hold_ns") / 1e9); break;
	}
}

static void print_cell(struct table *table, enum row row, const struct result *result,
		       const struct arm *arm)
{
	const struct round *round = median_round(arm, result->options->rounds);
	char count[COUNT_CHARS], other[COUNT_CHARS];
	struct spread rates;

	switch (row) {
	case ROW_PAGES: table_cell(table, "%s", format_count(count, round->pages)); break;
	case ROW_SECONDS: table_cell(table, "%.3f", round->seconds); break;
	case ROW_RATE:
		table_cell(table, "%s", format_count(count, (uint64_t)pages_per_second(round)));
		break;
	case ROW_RATE_SPREAD:
		rates = spread_of_rates(arm, result->options->rounds);
		table_cell(table, "%s .. %s", format_count(count, (uint64_t)rates.min),
			   format_count(other, (uint64_t)rates.max));
		break;
	case ROW_HITS:
		table_cell(table, "%.2f %%",
			   100 * part(round->pages - round->misses, round->pages));
		break;
	case ROW_PEAK: table_cell(table, "%s", format_bytes(count, round->peak_bytes)); break;
	case ROW_PEAK_PART:
		table_cell(table, "%.2f %%",
			   100 * part(round->peak_bytes, result->options->memory));
		break;
	case ROW_MEMCG_PEAK:
		table_cell(table, "%s", format_bytes(count, round->memcg_peak_bytes));
		break;
	default: print_lock_cell(table, row, round); break;
	}
}

static void print_tail(const struct result *result, const struct totals *totals)
{
	char count[COUNT_CHARS];

	if (result->nr_arms == 2) {
		struct spread ratio = spread_of_ratios(&result->arms[0], &result->arms[1],
						       result->options->rounds);

		printf("\nmemcg/node, pages/s: %.3f (%.3f .. %.3f)\n", ratio.median, ratio.min,
		       ratio.max);
	}
	printf("\n");
	if (result->options->verify)
		printf("verified %s bytes, %llu wrong\n",
		       format_count(count, totals->verified_bytes),
		       (unsigned long long)result->trouble->nr[TROUBLE_WRONG]);
	if (files_changed(result->set))
		printf("%llu files were changed meanwhile and not read to the end\n",
		       (unsigned long long)files_changed(result->set));
	if (totals->errors)
		printf("%s files could not be read to the end\n",
		       format_count(count, totals->errors));
	printf("%llu broken invariants\n", (unsigned long long)totals->check_violations);
}

static void print_counters(const char *title, json_t *object)
{
	printf("\n%s\n", title);
	for (void *at = json_object_iter(object); at; at = json_object_iter_next(object, at))
		printf("  %s %llu\n", json_object_iter_key(at),
		       (unsigned long long)json_integer_value(json_object_iter_value(at)));
}

static void print_stat(const struct result *result)
{
	char title[64];

	for (size_t a = 0; a < result->nr_arms; a++) {
		const struct arm *arm = &result->arms[a];
		const struct round *round = median_round(arm, result->options->rounds);
		const char *lock = lru_lock_name(arm->lru_lock);

		snprintf(title, sizeof(title), "lru_lock %s: memcg0's memory.stat", lock);
		print_counters(title, round->memory_stat);
		snprintf(title, sizeof(title), "lru_lock %s: memcg0's memory.events", lock);
		print_counters(title, round->memory_events);
		snprintf(title, sizeof(title), "lru_lock %s: vmstat", lock);
		print_counters(title, round->vmstat);
	}
}

void readtwice_print(const struct result *result)
{
	struct totals totals = totals_of(result);
	struct table table;

	print_head(result, &totals);
	table_init(&table, result->nr_arms);
	table_row(&table, "lru_lock");
	for (size_t a = 0; a < result->nr_arms; a++)
		table_cell(&table, "%s", lru_lock_name(result->arms[a].lru_lock));
	for (enum row row = 0; row < NR_ROWS; row++) {
		table_row(&table, row_labels[row]);
		for (size_t a = 0; a < result->nr_arms; a++)
			print_cell(&table, row, result, &result->arms[a]);
	}
	table_print(&table, stdout);
	table_fini(&table);
	print_tail(result, &totals);
	if (result->options->stat)
		print_stat(result);
}

/* ---- JSON -------------------------------------------------------------------------------- */

static json_t *integer(uint64_t value)
{
	return json_integer((json_int_t)value);
}

/* The figures of one round: in an arm's "rounds", and for the median one in the arm itself. */
static json_t *round_json(const struct round *round)
{
	json_t *object = json_object();
	uint64_t same = lru_lock_figure(round, "contended_same_memcg");
	uint64_t other = lru_lock_figure(round, "contended_other_memcg");

	json_object_set_new(object, "pages", integer(round->pages));
	json_object_set_new(object, "bytes", integer(round->bytes));
	json_object_set_new(object, "seconds", json_real(round->seconds));
	json_object_set_new(object, "pages_per_s", json_real(pages_per_second(round)));
	json_object_set_new(object, "hits", integer(round->pages - round->misses));
	json_object_set_new(object, "misses", integer(round->misses));
	json_object_set_new(object, "errors", integer(round->errors));
	json_object_set_new(object, "verified_bytes", integer(round->verified_bytes));
	json_object_set_new(object, "peak_bytes", integer(round->peak_bytes));
	json_object_set_new(object, "memcg_peak_bytes", integer(round->memcg_peak_bytes));
	json_object_set_new(object, "check_violations", integer(round->check_violations));
	json_object_set_new(object, "lru_lock_acquisitions_per_page",
			    json_real(part(lru_lock_figure(round, "acquisitions"), round->pages)));
	json_object_set_new(object, "contention",
			    json_pack("{s:f,s:f}", "same_memcg_per_page", part(same, round->pages),
				      "other_memcg_per_page", part(other, round->pages)));
	json_object_set(object, "vmstat", round->vmstat);
	json_object_set(object, "locks", round->locks);
	if (round->memory_stat)
		json_object_set(object, "memory_stat", round->memory_stat);
	if (round->memory_events)
		json_object_set(object, "memory_events", round->memory_events);
	return object;
}

static json_t *spread_json(struct spread spread)
{
	return json_pack("{s:f,s:f,s:f}", "median", spread.median, "min", spread.min, "max",
			 spread.max);
}

static json_t *arm_json(const struct result *result, const struct arm *arm)
{
	size_t nr = result->options->rounds;
	json_t *object = json_pack("{s:s}", "lru_lock", lru_lock_name(arm->lru_lock));
	json_t *figures = round_json(median_round(arm, nr));
	json_t *rounds = json_array();

	for (size_t i = 0; i < nr; i++)
		json_array_append_new(rounds, round_json(&arm->rounds[i]));
	json_object_update(object, figures);
	json_decref(figures);
	json_object_set_new(object, "pages_per_s_spread", spread_json(spread_of_rates(arm, nr)));
	json_object_set_new(object, "rounds", rounds);
	return object;
}

static void set_totals(json_t *root, const struct result *result)
{
	struct totals totals = totals_of(result);
	const struct file_set *set = result->set;

	json_object_set_new(root, "io_mode", json_string(io_mode_name(totals.io_modes)));
	json_object_set_new(root, "peak_bytes", integer(totals.peak_bytes));
	json_object_set_new(root, "memcg_peak_bytes", integer(totals.memcg_peak_bytes));
	json_object_set_new(root, "verified_bytes", integer(totals.verified_bytes));
	json_object_set_new(root, "mismatches", integer(result->trouble->nr[TROUBLE_WRONG]));
	json_object_set_new(root, "errors", integer(totals.errors));
	json_object_set_new(root, "check_violations", integer(totals.check_violations));
	json_object_set_new(root, "files", integer(set->nr));
	json_object_set_new(root, "file_bytes", integer(set->bytes));
	json_object_set_new(root, "skipped_files", integer(files_skipped(set)));
	json_object_set_new(root, "skipped",
			    json_pack("{s:I,s:I,s:I}", "empty", (json_int_t)set->skipped_empty,
				      "unreadable", (json_int_t)set->skipped_unreadable,
				      "not_regular", (json_int_t)set->skipped_special));
	json_object_set_new(root, "changed_files", integer(files_changed(set)));
	json_object_set_new(root, "open_files_per_reader",
			    result->window ? integer(result->window) : json_null());
}

json_t *readtwice_json(const struct result *result)
{
	const struct readtwice_options *options = result->options;
	json_t *root = json_pack("{s:s,s:s}", "command", READTWICE, "version", umm_version());
	json_t *arms = json_array();
	json_t *ratio = json_null();

	for (size_t a = 0; a < result->nr_arms; a++)
		json_array_append_new(arms, arm_json(result, &result->arms[a]));
	if (result->nr_arms == 2)
		ratio = spread_json(
			spread_of_ratios(&result->arms[0], &result->arms[1], options->rounds));
	json_object_set_new(root, "memcgs", integer(options->memcgs));
	json_object_set_new(root, "readers", integer(options->readers));
	json_object_set_new(root, "memory_bytes", integer(options->memory));
	json_object_set_new(root, "memcg_max_bytes", integer(options->memcg_max));
	json_object_set_new(root, "nodes", integer(options->nodes));
	json_object_set_new(root, "rounds", integer(options->rounds));
	json_object_set_new(root, "seed", integer(options->seed));
	json_object_set_new(root, "verify", json_boolean(options->verify));
	set_totals(root, result);
	json_object_set_new(root, "arms", arms);
	json_object_set_new(root, "ratio_memcg_over_node", ratio);
	return root;
}
