#!/bin/bash
# hypre from Debian's source package, compiled by our mpicc: its own regression tests (linear solvers and preconditioners), whose results
# its own scripts compare with those that upstream saved, and with each other between numbers of ranks.
#   hypre.sh              solvers and preconditioners of its three interfaces, on 1 to 3 ranks
#   hypre.sh TEST...      these, named as in src/test, as TEST_ij/solvers
set -eu
. "$(dirname "$0")/../../contrib/lib/common.sh"
. "$SRC/contrib/lib/sources.sh"
work=$OUT/apps/hypre
drivers="ij struct sstruct ams_driver maxwell_unscaled struct_migrate sstruct_fac"
few="TEST_ij/default TEST_ij/air TEST_ij/elast TEST_struct/solvers TEST_sstruct/solvers"

build() {
  debian_source hypre "$OUT/apps/hypre-src" || no_source hypre
  compiled_with_ours "$work/stamp" && return
  rm -rf "$work"
  cp -r "$OUT/apps/hypre-src" "$work"
  cd "$work/src"
  with_ccache
  # shellcheck disable=SC2086
  { ./configure --disable-fortran CC="$PREFIX/bin/mpicc" CXX="$PREFIX/bin/mpicxx" CFLAGS="-O1 -w" CXXFLAGS="-O1 -w" && make -j"$cores" &&
    make -C test -j"$cores" $drivers; } >"$work/make.log" 2>&1 ||
    { grep -E 'error|undefined|rror ' "$work/make.log" | head -n 20; die "hypre did not compile (see $work/make.log)"; }
  remember_ours "$work/stamp"
}

# Its scripts write what differs, and what a program says on its standard error, to TEST.err: empty if all is well.
check() { # check TEST...
  local test file runs=0
  cd "$work/src/test"
  bash ./cleantest.sh >"$work/test.log" 2>&1
  for test; do
    # written for bash, though its first line says sh
    timeout -k 10 "${LIMIT:-600}" bash ./runtest.sh -mpi "$PREFIX/bin/mpirun -n" "$test.sh" >>"$work/test.log" 2>&1 ||
      { tail -n 20 "$work/test.log"; die "$test came to no end (see $work/test.log)"; }
    [ -f "$test.err" ] && [ ! -s "$test.err" ] || { head -n 40 "$test.err"; die "$test failed (see $work/src/test/$test.err)"; }
    for file in "$test".out.*; do
      runs=$((runs + 1))
    done
  done
  result "$# of hypre's own regression tests pass: $runs runs"
}

build
# shellcheck disable=SC2086
check ${*:-$few}
