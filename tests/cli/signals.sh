#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Signals while files are made and while they are read: one line, nothing left, no JSON.
# shellcheck source=/dev/null disable=SC2154
. "${0%/*}/common.bash"

# interrupted SIGNAL STATUS WHEN: WHEN is a command that waits for the moment.
interrupted() {
	local status=0 pid
	rm -f "$work/json"
	"$umm" readtwice --memcgs 8 --memory 32M --rounds 1000 --verify --json "$work/json" \
		>"$work/out" 2>"$work/err" &
	pid=$!
	"$3"
	kill -"$1" "$pid" || fail "it had ended before the signal: $(cat "$work/err")"
	wait "$pid" || status=$?
	[[ $status == "$2" ]] || fail "$1 $3: exit status $status, want $2"
	err_lines 1
	err_has interrupted
	[[ ! -s $work/out ]] || fail "$1 $3: something on standard output"
	[[ ! -e $work/json ]] || fail "$1 $3: JSON after all"
	nothing_left
}

while_making() {
	until compgen -G "$TMPDIR/umm-readtwice-*/f1" >/dev/null; do
		sleep 0.01
	done
}

# The last of the 16 files is there, with its 8 MiB.
while_reading() {
	until [[ -n $(find "$TMPDIR" -name f15 -size 8388608c) ]]; do
		sleep 0.01
	done
	sleep 0.3
}

interrupted INT 130 while_making
interrupted TERM 143 while_making
interrupted INT 130 while_reading
interrupted TERM 143 while_reading
interrupted HUP 129 while_reading
finish
