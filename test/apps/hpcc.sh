#!/bin/bash
# The HPC Challenge suite (HPL, PTRANS, RandomAccess, FFT, ...) from Debian's source package, compiled by our mpicc against the
# reference BLAS, a small problem on 4 ranks: every residual check must pass.
#   hpcc.sh [build|run]
set -eu
. "$(dirname "$0")/../../contrib/lib/common.sh"
. "$SRC/contrib/lib/sources.sh"
work=$OUT/apps/hpcc
ranks=${RANKS:-4}
mkdir -p "$work"

build() {
  local sources
  sources=$work/src
  debian_source hpcc "$sources" || no_source hpcc
  # HPL of 2012 calls two functions by names that MPI removed in 2012
  cat >"$sources/hpl/Make.weft" <<END
SHELL = /bin/sh
CD = cd
CP = cp
LN_S = ln -s
MKDIR = mkdir -p
RM = /bin/rm -f
TOUCH = touch
ARCH = weft
TOPdir = ../../..
INCdir = \$(TOPdir)/include
BINdir = \$(TOPdir)/bin/weft
LIBdir = \$(TOPdir)/lib/weft
HPLlib = \$(LIBdir)/libhpl.a
LAlib = -lblas
F2CDEFS = -DAdd_ -DF77_INTEGER=int -DStringSunStyle
HPL_INCLUDES = -I\$(INCdir) -I\$(INCdir)/weft
HPL_LIBS = \$(HPLlib) \$(LAlib) -lm
HPL_DEFS = \$(F2CDEFS) \$(HPL_INCLUDES)
CC = $PREFIX/bin/mpicc
CCNOOPT = \$(HPL_DEFS)
CCFLAGS = \$(HPL_DEFS) -O2 -w -DMPI_Address=MPI_Get_address -DMPI_Type_struct=MPI_Type_create_struct
LINKER = $PREFIX/bin/mpicc
LINKFLAGS = \$(CCFLAGS)
ARCHIVER = ar
ARFLAGS = r
RANLIB = echo
END
  compiled_with_ours "$work/built" && [ -x "$sources/hpcc" ] && return
  rm -f "$sources/hpcc"
  mkdir -p "$sources/hpl/lib/weft"
  find "$sources" -name '*.o' -delete
  make -C "$sources/hpl/lib/arch/build" -j"$cores" arch=weft -f Makefile.hpcc >"$work/make.log" 2>&1 || {
    grep -E 'error|undefined' "$work/make.log" | head -n 20
    die "hpcc did not compile (see $work/make.log)"
  }
  remember_ours "$work/built"
}

run() {
  local out=$work/run/hpccoutf.txt passed failed
  rm -rf "$work/run"
  mkdir -p "$work/run"
  cd "$work/run"
  # grid 2 x 2, matrices of 512, two sizes for the transposition
  sed -e '6s/^[0-9]*/512/' -e '8s/^[0-9]*/64/' -e '11s/^2/2/' "$work/src/_hpccinf.txt" >hpccinf.txt
  LIMIT=${LIMIT:-240} run_mpi "$ranks" "$work/src/hpcc" || die "hpcc ended with status $?"
  grep -q 'End of HPC Challenge tests' "$out" || die "hpcc did not come to its end"
  passed=$(grep -c -E 'PASSED' "$out" || true)
  failed=$(grep -c -E 'FAILED' "$out" || true)
  grep -E '(PASSED|FAILED|residual|Success=)' "$out"
  grep -q '^Success=1' "$out" || die "hpcc says that it did not succeed"
  [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ] || die "$failed checks failed, $passed passed"
  awk '/Found [0-9]* errors/ && $2 > 0 && $0 !~ /\(passed\)/ { exit 1 }' "$out" || die "RandomAccess found errors"
  result "HPL and the rest: $passed residual checks passed on $ranks ranks, $(sed -n 's/^HPL_Tflops=\(.*\)/\1/p' "$out" | awk '{ printf "%.2f", $1 * 1000 }') Gflop/s"
}

case ${1:-all} in
  build) build ;;
  run) run ;;
  all) build; run ;;
  *) die "usage: hpcc.sh [build|run]" ;;
esac
