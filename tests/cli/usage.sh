#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What cannot be carried out as given: exit status 2 and one line that names the argument.
# shellcheck source=/dev/null disable=SC2154
. "${0%/*}/common.bash"

# bad WORD ARGS...: refused, with WORD in the only line.
bad() {
	local word=$1
	shift
	expect 2 "$@" || return
	err_lines 1
	err_has "$word"
	[[ ! -s $work/out ]] || fail "umm $*: something on standard output"
}

bad "command" # none at all
bad nonsense nonsense
bad "''" ""
bad nonsense help nonsense
bad extra help readtwice extra
bad unknown -v

bad --nonsense readtwice --nonsense
bad --nonsense readtwice --nonsense=1
bad --sim readtwice --sim
bad -m readtwice -m 5
bad unknown readtwice ---
bad unknown readtwice --=5
bad unknown readtwice --memor 5M
bad "takes no value" readtwice --verify=yes
bad "value is missing" readtwice --memory
bad "value is missing" readtwice --json

for option in --memory --memcg-max --file-size; do
	for value in "" 0 -1 -5M M 5X 5KiB 5MM 1.5G " 5M" "5M " +5M 0x10000 1e9 16T ９M \
		18446744073709551616 18446744073709551615G 17179869184G 99999999999999999999999; do
		bad "$option" readtwice "$option" "$value"
		bad "$option" readtwice "$option=$value"
	done
done
for option in --memcgs --readers --nodes --rounds; do
	for value in "" 0 -1 x 1K 1.0 " 1" 1x 18446744073709551616 18446744073709551615; do
		bad "$option" readtwice "$option" "$value"
	done
done
for value in "" -1 x 1K 18446744073709551616; do
	bad --seed readtwice --seed "$value"
done
for value in "" x NODE nod nodes node,memcg; do
	bad --lru-lock readtwice --lru-lock "$value"
done
for value in "" x Direct dontcache; do
	bad --io readtwice --io "$value"
done
bad --nodes readtwice --nodes 9
bad --rounds readtwice --rounds 1001

# Sizes that are none of a machine's.
bad --memory readtwice --memory 4095
bad --memory readtwice --memory 60K
bad --memory readtwice --memory 16384G
bad --memory readtwice --memory 8589934591G
bad --memory readtwice --memory 1M --memcgs 1000
bad --memcg-max readtwice --memcg-max 4095
bad --file-size readtwice --file-size 8388608G --memory 1M --memcgs 2
bad --file-size readtwice --file-size 8589934591G --memory 1M --memcgs 2
bad --readers readtwice --memcgs 5000 --readers 5000
bad --readers readtwice --memcgs 1 --readers 8129

# Files.
bad nowhere readtwice "$work/nowhere"
bad "no such file" readtwice ""
bad --file-size readtwice --file-size 1M "$work"
bad "0 empty" readtwice "$TMPDIR"
: >"$work/empty"
bad "1 empty" readtwice "$work/empty"
bad "no file to read" readtwice /dev/null
bad nowhere readtwice $'nowhere\nat all'
bad --json readtwice --json ""
bad --json readtwice --json "$work"
bad --json readtwice --json "$work/nowhere/x.json"
bad --json readtwice --json "$work/empty/x.json"

# The last of two counts; what follows -- is no option.
expect 0 readtwice --memory 0x --help
bad "no such file" readtwice --memory 1M --memcgs 1 -- --verify
finish
