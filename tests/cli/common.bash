# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034
# What the tests of the command share. The command is the first argument, or in $UMM.
set -u

umm=${1:-${UMM:-}}
if [[ ! -x $umm ]]; then
	echo "usage: ${0##*/} PATH_OF_UMM" >&2
	exit 2
fi
root=$(cd "${BASH_SOURCE[0]%/*}/../.." && pwd)
work=$(mktemp -d "${TMPDIR:-/var/tmp}/umm-cli.XXXXXX")
trap 'chmod -R u+rwx "$work" 2>/dev/null; rm -rf "$work"' EXIT
# Whatever the command leaves behind shows up here.
export TMPDIR=$work/tmp
mkdir "$TMPDIR"
failed=0

fail() {
	printf 'FAIL: %s\n' "$*" >&2
	failed=1
}

skip() {
	printf 'skipped: %s\n' "$*" >&2
	exit 77
}

# expect STATUS ARGS...: run the command; its output is left in $work/out and $work/err.
expect() {
	local want=$1 status=0
	shift
	"$umm" "$@" >"$work/out" 2>"$work/err" </dev/null || status=$?
	if [[ $status != "$want" ]]; then
		fail "umm $*: exit status $status, want $want: $(head -c 300 "$work/err")"
		return 1
	fi
}

# err_lines N: the last command printed as many lines on standard error.
err_lines() {
	[[ $(wc -l <"$work/err") == "$1" ]] ||
		fail "$(wc -l <"$work/err") lines on standard error, want $1: $(head -c 300 "$work/err")"
}

err_has() {
	grep -qF -- "$1" "$work/err" || fail "no '$1' in: $(head -c 300 "$work/err")"
}

out_has() {
	grep -qF -- "$1" "$work/out" || fail "no '$1' in the output"
}

# json FILE EXPRESSION...: each is true in Python, where j is the object in FILE.
json() {
	python3 - "$@" <<'PY' || fail "JSON of the last command"
import json, sys
with open(sys.argv[1], encoding="utf-8") as file:
    j = json.load(file)
bad = [text for text in sys.argv[2:] if not eval(text, {"j": j})]
for text in bad:
    print("not so:", text, file=sys.stderr)
sys.exit(bool(bad))
PY
}

nothing_left() {
	[[ -z $(ls -A "$TMPDIR") ]] || fail "left behind: $(ls -A "$TMPDIR")"
}

finish() {
	nothing_left
	exit "$failed"
}
