#!/bin/bash
# Small messages cost a bounded number of instructions: a send that goes nowhere (the entry, its checks, the dispatch), and one to
# oneself with its receive. Counted by valgrind, so that the numbers do not depend on the machine's load.
set -eu
command -v valgrind >/dev/null || { echo "result: there is no valgrind"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/loop.c" <<'PROGRAM'
#include <mpi.h>
#include <stdlib.h>
int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int in = 0, out = 0;
  const int self = argv[1][0] == 's';
  for (long i = atol(argv[2]); i > 0; --i) {
    MPI_Send(&out, 1, MPI_INT, self ? 0 : MPI_PROC_NULL, 7, MPI_COMM_WORLD);
    if (self) MPI_Recv(&in, 1, MPI_INT, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  MPI_Finalize();
  return 0;
}
PROGRAM
"$PREFIX/bin/mpicc" -O2 -o "$work/loop" "$work/loop.c"
# Instructions of the whole program with this many turns.
total() {
  valgrind --tool=callgrind --callgrind-out-file=/dev/null "$work/loop" "$1" "$2" 2>&1 | awk '/Collected/ { print $NF }'
}
turns=20000
bad=0
for row in "null 160 a send to MPI_PROC_NULL" "self 1200 a send to oneself and its receive"; do
  read -r mode limit what <<<"$row"
  each=$((($(total "$mode" $turns) - $(total "$mode" 0)) / turns))
  echo "$what: $each instructions (at most $limit)"
  results="${results:+$results; }$mode $each"
  [ "$each" -le "$limit" ] || bad=1
done
echo "result: instructions: $results"
exit $bad
