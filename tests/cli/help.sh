#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Help, version, and that help, manual and completion name the same options.
# shellcheck source=/dev/null disable=SC2154
. "${0%/*}/common.bash"

expect 0 help && out_has readtwice
expect 0 --help && out_has readtwice
expect 0 --version && out_has "umm 0."
expect 0 help help
expect 0 readtwice --help && out_has --memcg-max
expect 0 readtwice --memory garbage --help
expect 0 help readtwice
err_lines 0
out_has "Example"

options=$(grep -oE '^  --[a-z-]+' "$work/out" | tr -d ' ')
[[ $(wc -l <<<"$options") -ge 13 ]] || fail "few options in the help: $options"
for option in $options; do
	grep -qF -- "$option" "$root/completions/umm.bash" || fail "$option is not completed"
	grep -qF -- "*$option*" "$root/man/umm.1.scd" || fail "$option is not in the manual"
done
awk 'length > 100 { exit 1 }' "$work/out" || fail "help is wider than 100 columns"

# The example is to work as it stands, but for its directory.
example=$(sed -n 's/^  umm \(readtwice .*\) [^ ]*$/\1/p' "$work/out")
mkdir "$work/files"
head -c 300000 /dev/urandom >"$work/files/a"
# shellcheck disable=SC2086
expect 0 $example "$work/files" && out_has "0 broken invariants"

# What cannot be printed is a failure.
if [[ -w /dev/full ]]; then
	"$umm" help >/dev/full 2>"$work/err"
	[[ $? == 1 ]] || fail "help to a full disk"
	err_lines 1
fi

# Completion offers options, and the words a choice takes.
completes() {
	local want=$1
	shift
	COMP_WORDS=("$@")
	COMP_CWORD=$(($# - 1))
	COMPREPLY=()
	_umm
	[[ " ${COMPREPLY[*]} " == *" $want "* ]] || fail "completion of '$*': ${COMPREPLY[*]}"
}
. "$root/completions/umm.bash"
completes readtwice umm r
completes --memcg-max umm readtwice --memc
completes both umm readtwice --lru-lock b
completes buffered umm readtwice --io ""
completes readtwice umm help ""
finish
