#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A limit given on the command line is enforced, not just shown: at 100 pages, 10,000 different pages
# are read through it, and all but the last hundred have to be reclaimed.
# shellcheck source=/dev/null disable=SC2154
. "${0%/*}/common.bash"

for lock in node memcg; do
	expect 0 readtwice --memcgs 1 --readers 1 --memcg-max 400K --file-size 40000K --memory 16M \
		--rounds 1 --lru-lock $lock --json "$work/json" || continue
	json "$work/json" 'j["memcg_peak_bytes"] <= 100 * 4096' \
		'j["arms"][0]["pages"] == 2 * 10000' \
		'sum(n for name, n in j["arms"][0]["vmstat"].items()
		     if name.startswith("pgsteal_")) >= 9900'
done

# The whole budget as the limit.
expect 0 readtwice --memcgs 1 --readers 1 --memory 400K --file-size 40000K --rounds 1 \
	--json "$work/json"
json "$work/json" 'j["peak_bytes"] <= 100 * 4096'
finish
