#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# nm.sh SIM.a LIB..: what is built for real CPUs has not one symbol of the virtual ones or of a sanitizer,
# and what is built for virtual ones has nothing of the sanitizer that our runtime does not define.
set -euo pipefail
sim=$1
shift
status=0

[[ $# -gt 0 ]] || exit 1
for lib in "$@"; do
	if nm "$lib" 2>/dev/null | grep -E '__tsan_|[^a-z]sim_|os_sim_'; then
		echo "$lib: has symbols of the simulation" >&2
		status=1
	fi
done
if nm "$sim" | grep -E ' U .*__tsan_|^ *U (umm_|os_|sim_)'; then
	echo "$sim: needs symbols that are not there" >&2
	status=1
fi
# Not -q: nm would be killed while it still writes.
nm "$sim" | grep -E ' [tT] __tsan_atomic64_load$' >/dev/null || {
	echo "$sim: is not instrumented" >&2
	status=1
}
exit $status
