#!/bin/sh
# sessions.cc, each of its tests in processes of its own. As run.sh: PREFIX=... [RANKS="1 2 5"] [MPIRUN_FLAGS=...] sessions.sh
set -u
here=$(cd "$(dirname "$0")" && pwd)
prefix=${PREFIX:?set PREFIX to the installation to test}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
passed=0 failed=0
"$prefix/bin/mpicxx" -std=c++20 -O1 -Wall -Wextra ${SANITIZE:-} -o "$work/sessions" "$here/sessions.cc" || exit 1
run() {
  if timeout -k 5 "${LIMIT:-60}" "$prefix/bin/mpirun" ${MPIRUN_FLAGS:-} "$@" </dev/null; then
    passed=$((passed + 1))
  else
    echo "mpirun $*: exit status $?"
    failed=$((failed + 1))
  fi
}
for ranks in ${RANKS:-1 2 5}; do
  for test in alone left_behind threads with_world after_world apart process_sets; do
    run -n "$ranks" "$work/sessions" $test
  done
done
run -n 2 --memory-alloc-kinds mpi:alloc_mem,cuda:device -x WANTED_KINDS=mpi:alloc_mem,mpi,system "$work/sessions" asked_for
run -n 2 --pset ocean,all -x "WANTED_SETS=ocean 2 atmosphere 3 all 5 mpix://SHARED 5" "$work/sessions" process_sets \
  : -n 3 --pset atmosphere --pset all "$work/sessions" process_sets
echo "result: $passed runs passed, $failed failed"
[ "$failed" -eq 0 ]
