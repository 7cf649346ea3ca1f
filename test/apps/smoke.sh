#!/bin/bash
# The same short job again and again: no hang, no leftover process, nothing left in /dev/shm or the folder for temporary files.
#   smoke.sh RUNS RANKS
set -eu
. "$(dirname "$0")/../../contrib/lib/common.sh"
runs=$1 ranks=$2
work=$OUT/apps/smoke
mkdir -p "$work"
program=$work/smoke-$ranks
"$PREFIX/bin/mpicc" -O1 -o "$program" "$SRC/test/apps/crossing.c"
TMPDIR=$(mktemp -d "$work/tmp.XXXXXX")
export TMPDIR
slowest=0
for run in $(seq "$runs"); do
  begin=$(date +%s.%N)
  # the arguments mark our processes
  LIMIT=60 run_mpi "$ranks" "$program" "smoke-$$" >"$work/out.$ranks" 2>&1 || {
    status=$?
    cat "$work/out.$ranks"
    die "run $run of $runs on $ranks ranks: status $status$([ $status -eq 124 ] && echo ' (a hang)')"
  }
  grep -q "crossing ok on $ranks ranks" "$work/out.$ranks" || { cat "$work/out.$ranks"; die "run $run of $runs: no result"; }
  slowest=$(awk -v a="$slowest" -v b="$(seconds_since "$begin")" 'BEGIN { print (a > b) ? a : b }')
done
left=$(pgrep -f "smoke-$$" -a | grep -v "$0" || true)
[ -z "$left" ] || die "processes were left: $left"
left=$(ls -A "$TMPDIR")
[ -z "$left" ] || die "files were left in TMPDIR: $left"
rmdir "$TMPDIR"
result "$runs runs on $ranks ranks, the slowest took $slowest s"
