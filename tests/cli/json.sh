#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The JSON that scripts read: valid, complete, alone where asked for, and never partial.
# shellcheck source=/dev/null disable=SC2154
. "${0%/*}/common.bash"

small=(readtwice --memcgs 3 --readers 2 --memory 4M --file-size 300K --rounds 2)

expect 0 "${small[@]}" --json - --verify --stat
err_lines 0
python3 -m json.tool "$work/out" >/dev/null || fail "--json - is not JSON"
json "$work/out" \
	'j["command"] == "readtwice"' \
	'j["memcgs"] == 3 and j["readers"] == 2 and j["memory_bytes"] == 4 << 20' \
	'j["rounds"] == 2 and j["nodes"] == 1 and j["seed"] == 1 and j["verify"] is True' \
	'j["files"] == 6 and j["file_bytes"] == 6 * 300 * 1024' \
	'j["io_mode"] in ("direct", "dontcache", "buffered")' \
	'j["skipped_files"] == 0 and j["changed_files"] == 0 and j["errors"] == 0' \
	'j["mismatches"] == 0 and j["check_violations"] == 0' \
	'j["verified_bytes"] == 2 * 2 * 2 * j["file_bytes"]' \
	'0 < j["peak_bytes"] <= j["memory_bytes"]' \
	'0 < j["memcg_peak_bytes"] <= j["memcg_max_bytes"]' \
	'[a["lru_lock"] for a in j["arms"]] == ["node", "memcg"]' \
	'all(len(a["rounds"]) == 2 for a in j["arms"])' \
	'all(r["pages"] == 2 * 6 * 75 for a in j["arms"] for r in a["rounds"] + [a])' \
	'all(r["bytes"] == 2 * j["file_bytes"] for a in j["arms"] for r in a["rounds"] + [a])' \
	'all(r["hits"] + r["misses"] == r["pages"] for a in j["arms"] for r in a["rounds"] + [a])' \
	'all(abs(a["pages_per_s"] * a["seconds"] / a["pages"] - 1) < 1e-6 for a in j["arms"])' \
	'all(any(r["seconds"] == a["seconds"] for r in a["rounds"]) for a in j["arms"])' \
	'all(s["min"] <= s["median"] <= s["max"] for s in [j["ratio_memcg_over_node"]])' \
	'all(a["vmstat"]["pgfault"] >= a["pages"] for a in j["arms"])' \
	'all({"acquisitions", "contended_same_memcg", "contended_other_memcg", "wait_ns", "hold_ns"}
	     == set(a["locks"]["lru_lock"]) for a in j["arms"])' \
	'all(r["locks"]["lru_lock"]["contended_other_memcg"] == 0 for r in j["arms"][1]["rounds"])' \
	'all("same_memcg_per_page" in a["contention"] for a in j["arms"])' \
	'all("file" in a["memory_stat"] and "max" in a["memory_events"] for a in j["arms"])'

# To a file: the table goes to standard output. One arm has no ratio.
expect 0 "${small[@]}" --lru-lock=memcg --nodes 2 --io buffered --json "$work/new.json"
out_has "pages/s"
json "$work/new.json" 'len(j["arms"]) == 1 and j["ratio_memcg_over_node"] is None' \
	'j["io_mode"] == "buffered" and j["nodes"] == 2 and j["verified_bytes"] == 0' \
	'"memory_stat" not in j["arms"][0]'
before=$(wc -c <"$work/new.json")
expect 0 "${small[@]}" --rounds 1 --lru-lock=memcg --json "$work/new.json" # shorter than before
json "$work/new.json" 'j["rounds"] == 1'
[[ $(wc -c <"$work/new.json") -lt $before ]] || fail "the file did not shrink"
ln -s new.json "$work/link.json"
expect 0 "${small[@]}" --rounds 1 --json "$work/link.json"
[[ -L $work/link.json ]] || fail "the link was replaced"
json "$work/new.json" 'len(j["arms"]) == 2'

# What cannot be written is a failure, said in one line.
if [[ -w /dev/full ]]; then
	expect 1 "${small[@]}" --rounds 1 --json /dev/full
	err_lines 1
	err_has /dev/full
	[[ -e /dev/full ]] || fail "/dev/full was removed"
	"$umm" "${small[@]}" --rounds 1 >/dev/full 2>"$work/err"
	[[ $? == 1 ]] || fail "table to a full disk"
	err_lines 1
	"$umm" "${small[@]}" --rounds 1 --json - >/dev/full 2>"$work/err"
	[[ $? == 1 ]] || fail "JSON to a full disk"
	err_lines 1
fi
"$umm" "${small[@]}" --rounds 1 --json - 2>"$work/err" | true
[[ ${PIPESTATUS[0]} == [01] ]] || fail "a closed pipe: ${PIPESTATUS[0]}"

# A file that hits a size limit half-way is taken away again if it was made here.
(
	ulimit -f 1
	trap '' XFSZ
	exec "$umm" "${small[@]}" --rounds 1 --json "$work/partial.json" "$root/include/umm.h"
) >"$work/out" 2>"$work/err"
status=$?
[[ $status == 2 ]] || fail "--file-size with a PATH: $status"
mkdir "$work/files"
head -c 50000 /dev/urandom >"$work/files/a"
(
	ulimit -f 1
	trap '' XFSZ
	exec "$umm" readtwice --memcgs 1 --memory 1M --json "$work/partial.json" "$work/files"
) >/dev/null 2>"$work/err"
[[ $? == 1 ]] || fail "a file that is too large: exit status"
err_lines 1
[[ ! -e $work/partial.json ]] || fail "partial JSON: $(wc -c <"$work/partial.json") bytes"
finish
