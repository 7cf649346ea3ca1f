#!/bin/sh
# sessions.cc, each of its tests in processes of its own. As run.sh: PREFIX=... [RANKS="1 2 5"] [MPIRUN_FLAGS=...] sessions.sh
set -u
. "$(dirname "$0")/lib.sh"
compile sessions || exit 1
# PMIx loses a line where it is opened twice; leaks of libraries are told from ours by whole stacks only
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:fast_unwind_on_malloc=0"
for ranks in ${RANKS:-1 2 5}; do
  for test in alone left_behind threads with_world after_world apart refused lent_to_comm lent_to_session process_sets; do
    attempt "$test on $ranks ranks" -n "$ranks" "$work/sessions" $test
  done
done
attempt "kinds of memory asked for" -n 2 --memory-alloc-kinds mpi:alloc_mem,cuda:device -x WANTED_KINDS=mpi:alloc_mem,mpi,system "$work/sessions" asked_for
attempt "process sets that were asked for" -n 2 --pset ocean,all -x "WANTED_SETS=ocean 2 atmosphere 3 all 5 mpix://SHARED 5" "$work/sessions" process_sets \
  : -n 3 --pset atmosphere --pset all "$work/sessions" process_sets
attempt "after_world in a large job" -n 3 env OMPI_COMM_WORLD_SIZE=5000 "$work/sessions" after_world
conclude
