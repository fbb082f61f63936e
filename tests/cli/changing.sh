#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Files that are cut, rewritten and removed while they are read: reported as changed, not as wrong.
# shellcheck source=/dev/null disable=SC2154
. "${0%/*}/common.bash"

# while_disturbed COMMAND...: run readtwice on $work/files while COMMAND runs over and over.
while_disturbed() {
	local disturber status=0
	while :; do
		"$@"
	done &
	disturber=$!
	"$umm" readtwice --memcgs 2 --memory 2M --rounds 3 --json "$work/json" "${verify[@]}" \
		"$work/files" >"$work/out" 2>"$work/err" || status=$?
	kill "$disturber"
	wait "$disturber" 2>/dev/null
	[[ $status == 0 ]] || fail "$1 ${verify[*]}: exit status $status: $(cat "$work/err")"
	err_lines 0
	json "$work/json" 'j["errors"] == 0 and j["mismatches"] == 0 and j["check_violations"] == 0'
	grep -q '"changed_files": 1,' "$work/json" && noticed=$((noticed + 1))
}

cut() {
	truncate -s 5000 "$work/files/victim"
	truncate -s 4M "$work/files/victim"
}

rewrite() {
	head -c 2M /dev/urandom | dd of="$work/files/victim" bs=64K conv=notrunc status=none
}

replace() {
	head -c 1M /dev/urandom >"$work/victim"
	mv "$work/victim" "$work/files/victim"
}

remove() {
	rm -f "$work/files/victim"
	head -c 1M /dev/urandom >"$work/files/victim"
}

noticed=0
for verify in "" --verify; do
	verify=(${verify:+"$verify"})
	for how in cut rewrite replace remove; do
		rm -rf "$work/files"
		mkdir "$work/files"
		for i in {1..7}; do
			head -c 3000000 /dev/urandom >"$work/files/quiet$i"
		done
		head -c 4M /dev/urandom >"$work/files/victim"
		while_disturbed $how
	done
done
# Not each disturbance has to be met by a read, but out of eight some are.
((noticed > 0)) || fail "no change was ever noticed"
echo "changes noticed in $noticed of 8 runs"
finish
