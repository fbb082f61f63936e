#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# same.sh UMM: the command gives the same JSON twice, also in processes with different address layouts and
# environments; says that it is simulated; and refuses what makes no sense in one line with status 2.
set -euo pipefail
umm=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
options=(readtwice --sim --cpus 16 --nodes 2 --memory 16M --lru-lock both --seed 1)

"$umm" "${options[@]}" --json - >"$dir/a"
env LONG="$(printf '%5000s' x)" "$umm" "${options[@]}" --json "$dir/b" >"$dir/table"
cmp "$dir/a" "$dir/b"
"$umm" "${options[@]}" --seed 2 --json "$dir/c" >/dev/null
if cmp -s "$dir/a" "$dir/c"; then
	echo "another seed, the same result" >&2
	exit 1
fi
grep -q SIMULATED "$dir/table"
python3 - "$dir/a" <<'PY'
import json, sys
r = json.load(open(sys.argv[1], encoding="utf-8"))
assert r["simulated"] is True and r["command"] == "readtwice" and r["virtual_seconds"] > 0
assert r["costs"]["read_ns"]["value"] > 0 and r["costs"]["read_ns"]["origin"]
assert [a["lru_lock"] for a in r["arms"]] == ["node", "memcg"]
for a in r["arms"]:
    assert a["check_violations"] == 0 and a["errors"] == 0
    assert set(a["locks"]["lru_lock"]) == {"acquisitions", "contended_same_memcg", "contended_other_memcg",
                                           "wait_ns", "hold_ns"}
    assert a["vmstat"]["pgpgin_pages"] > 0
assert r["ratio_memcg_over_node"]["median"] > 0
PY

refused() {
	local status=0
	"$umm" readtwice --sim "$@" >"$dir/out" 2>"$dir/err" || status=$?
	[[ $status == 2 && $(wc -l <"$dir/err") == 1 && ! -s $dir/out ]] || {
		echo "not refused properly: $*" >&2
		exit 1
	}
}
refused --cpus 0
refused --cpus 100000
refused --preset Z9
refused --cost nothing=1
refused --cost read_ns
refused --sweep cpus=9..3
refused --sweep memory=1..2
refused --seconds never
refused --seconds 1 --whole
refused --memory 64K --memcgs 100
refused /etc/passwd
