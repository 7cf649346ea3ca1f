#!/bin/sh
# Compiles the conformance programs with an installed MPI and runs each on several numbers of ranks.
#   PREFIX=... [RANKS="1 2 3"] [PROGRAMS="..."] [MPIRUN_FLAGS=...] run.sh
# Plain MPI: the programs can be run against any MPI to check the programs themselves.
set -u
. "$(dirname "$0")/lib.sh"
ranks_list=${RANKS:-1 2 3 4 5 8}
[ -z "${SANITIZE:-}" ] || ranks_list=${RANKS:-1 2 4}
for program in ${PROGRAMS:-smoke point_to_point requests types communicators intercomm collectives topology partitioned threads values}; do
  if ! compile "$program"; then
    failed=$((failed + 1))
    continue
  fi
  for n in $ranks_list; do attempt "$program on $n ranks" -n "$n" "$work/$program"; done
done
conclude
