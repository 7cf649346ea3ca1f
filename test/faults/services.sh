#!/bin/bash
# What a job's PMIx servers offer: published names, groups, connections, events.
# usage: services.sh [TEST...]    see lib.sh
. "$(dirname "$0")/lib.sh"
PMIX_CLIENT=${PMIX_CLIENT:-$(dirname "$CLIENT")/pmix_client}

test_services() {
  local what n
  for what in names groups events; do
    for n in 1 2 5 16; do
      run -n $n "$PMIX_CLIENT" $what >"$work/out" 2>&1; want "exit code of $what with $n ranks" $? 0
      has "$work/out" "$what of $n ranks passed"; want "lines" "$(wc -l <"$work/out")" 1
    done
  done
  clean
}

run_tests "$@"
