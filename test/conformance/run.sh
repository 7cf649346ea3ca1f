#!/bin/sh
# Compiles the conformance programs with an installed MPI and runs each on several numbers of ranks.
#   PREFIX=... [RANKS="1 2 3"] [PROGRAMS="..."] [MPIRUN_FLAGS=...] run.sh
# Plain MPI: the programs can be run against any MPI to check the programs themselves.
set -u
here=$(cd "$(dirname "$0")" && pwd)
prefix=${PREFIX:?set PREFIX to the installation to test}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
passed=0 failed=0
ranks_list=${RANKS:-1 2 3 4 5 8}
[ -z "${SANITIZE:-}" ] || ranks_list=${RANKS:-1 2 4}
for program in ${PROGRAMS:-smoke point_to_point requests types communicators intercomm collectives topology partitioned threads}; do
  if ! "$prefix/bin/mpicxx" -std=c++20 -O1 -Wall -Wextra ${CONFORMANCE_CXXFLAGS:-} ${SANITIZE:-} -o "$work/$program" "$here/$program.cc"; then
    failed=$((failed + 1))
    continue
  fi
  for ranks in $ranks_list; do
    if timeout -k 5 "${LIMIT:-120}" "$prefix/bin/mpirun" -n "$ranks" ${MPIRUN_FLAGS:-} "$work/$program" </dev/null; then
      passed=$((passed + 1))
    else
      echo "$program on $ranks ranks: exit status $?"
      failed=$((failed + 1))
    fi
  done
done
echo "result: $passed runs passed, $failed failed"
[ "$failed" -eq 0 ]
