#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Files that the command makes itself: of the size asked for, compared byte by byte, and gone after.
# shellcheck source=/dev/null disable=SC2154
. "${0%/*}/common.bash"

for size in 1 4095 4096 4097 10000 256K 1100000; do
	expect 0 readtwice --memcgs 2 --memory 1M --file-size "$size" --verify --rounds 1 --seed 7 \
		--json "$work/json" || continue
	json "$work/json" "j['file_bytes'] == 4 * $([[ $size == 256K ]] && echo 262144 || echo "$size")" \
		'j["verified_bytes"] == 2 * 2 * j["file_bytes"]' \
		'all(a["pages"] == 2 * 4 * -(-j["file_bytes"] // 4 // 4096) for a in j["arms"])'
	nothing_left
done

# Without a size: four times the memory in all, but at least 64 KiB each.
expect 0 readtwice --memcgs 4 --memory 8M --verify --rounds 1 --json "$work/json"
json "$work/json" '4 * j["memory_bytes"] <= j["file_bytes"] <= 4 * j["memory_bytes"] + 8 * 4096' \
	'j["memcg_max_bytes"] == 2 << 20'
expect 0 readtwice --memcgs 16 --memory 64K --verify --rounds 1 --json "$work/json"
json "$work/json" 'j["file_bytes"] == 32 * 65536 and j["memcg_max_bytes"] == 4096'

# The smallest limits, many threads on few pages, each way of reading and of locking.
for io in direct buffered; do
	for lock in node memcg both; do
		expect 0 readtwice --memcgs 2 --readers 8 --memory 256K --memcg-max 16K \
			--file-size 128K --verify --rounds 1 --io $io --lru-lock $lock
		out_has "0 broken invariants"
	done
done
expect 0 readtwice --memcgs 3 --readers 1 --memory 2M --nodes 8 --verify --rounds 1

# Limits that add up to more than the memory: the memory is still kept.
expect 0 readtwice --memcgs 8 --memory 1M --memcg-max 1M --file-size 1M --verify --rounds 1 \
	--json "$work/json"
json "$work/json" 'j["peak_bytes"] <= 1 << 20'

# A directory that cannot be written to.
TMPDIR=$work/nowhere expect 1 readtwice --memory 1M --memcgs 1
err_lines 1
err_has nowhere
finish
