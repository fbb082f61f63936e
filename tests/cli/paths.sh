#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Trees of files: what is in them is found, shared out, compared; what cannot be read is counted.
# shellcheck source=/dev/null disable=SC2154
. "${0%/*}/common.bash"

tree=$work/tree
mkdir -p "$tree/a/b/c" "$tree/none" "$tree/odd names"
for i in {1..40}; do
	head -c $((i * 1777)) /dev/urandom >"$tree/a/b/file$i"
done
head -c 3000000 /dev/urandom >"$tree/a/large"
head -c 1 /dev/urandom >"$tree/a/b/c/one"
printf x >"$tree/odd names/"$'new\nline'
printf x >"$tree/odd names/"$'\xff\xfe'
printf x >"$tree/odd names/--verify"
good=45
: >"$tree/empty"
: >"$tree/a/b/empty"
mkfifo "$tree/fifo"
ln -s /etc/passwd "$tree/link"
ln -s nowhere "$tree/dangling"
ln -s .. "$tree/a/loop"
skipped=6

expect 0 readtwice --memcgs 5 --memory 4M --rounds 1 --verify --json "$work/json" "$tree"
out_has "skipped $skipped files: 2 empty, 0 unreadable, 4 not regular"
json "$work/json" "j['files'] == $good and j['skipped_files'] == $skipped" \
	'j["verified_bytes"] == 2 * 2 * j["file_bytes"] and j["changed_files"] == 0' \
	'j["skipped"] == {"empty": 2, "unreadable": 0, "not_regular": 4}'

# Fewer files than readers: each reads one. A link that is named itself is followed.
ln -s a/large "$tree/to-large"
expect 0 readtwice --memcgs 3 --memory 4M --rounds 1 --verify --json "$work/json" \
	"$tree/to-large" "$tree/a/b/file7"
json "$work/json" 'j["files"] == 2' \
	'j["verified_bytes"] == 2 * 2 * 3 * j["file_bytes"]'

# Some of the named paths are of no use, others are.
expect 0 readtwice --memcgs 1 --memory 1M --rounds 1 --json "$work/json" \
	"$tree/empty" "$tree/none" /dev/null "$tree/a/b/file1"
json "$work/json" 'j["files"] == 1 and j["skipped_files"] == 2'

# A name that looks like an option.
cd "$tree/odd names" || exit 1
expect 0 readtwice --memcgs 1 --memory 1M --rounds 1 -- --verify
cd "$work" || exit 1

# More files than may be open at once.
(
	ulimit -n 100
	exec "$umm" readtwice --memcgs 4 --memory 4M --rounds 1 --verify --json "$work/json" "$tree"
) >"$work/out" 2>"$work/err" || fail "few descriptors: $(cat "$work/err")"
json "$work/json" "j['files'] == $good" 'j["errors"] == 0 and j["open_files_per_reader"] >= 1' \
	'j["verified_bytes"] == 2 * 2 * j["file_bytes"]'

# Unreadable ones; root reads everything, so somebody else has to try.
chmod 000 "$tree/a/b/file1" "$tree/a/b/c"
chmod 755 "$work" && chmod 777 "$TMPDIR"
nobody=()
if [[ $EUID == 0 ]]; then
	nobody=(setpriv --reuid 65534 --regid 65534 --clear-groups --)
fi
if "${nobody[@]}" "$umm" --version >/dev/null 2>&1; then
	"${nobody[@]}" "$umm" readtwice --memcgs 2 --memory 4M --rounds 1 --json - "$tree" \
		>"$work/json" 2>"$work/err" || fail "unreadable files: $(cat "$work/err")"
	json "$work/json" "j['files'] == $good - 2" 'j["skipped"]["unreadable"] == 2'
	"${nobody[@]}" "$umm" readtwice --memcgs 2 --memory 4M "$tree/a/b/file1" \
		>"$work/out" 2>"$work/err"
	[[ $? == 2 ]] || fail "only an unreadable file"
	err_lines 1
	err_has "1 unreadable"
fi
finish
