#!/bin/bash
# PT-Scotch from Debian's source package, compiled by our mpicc: its own parallel checks (distributed graphs checked, coarsened, grown,
# redistributed, ordered, partitioned, scattered and gathered) on 3 and 4 ranks, with threads that call MPI at once.
#   scotch.sh [build]
set -eu
. "$(dirname "$0")/../../contrib/lib/common.sh"
. "$SRC/contrib/lib/sources.sh"
work=$OUT/apps/scotch

build() {
  debian_source scotch "$OUT/apps/scotch-src" || no_source scotch
  compiled_with_ours "$work/stamp" && return
  rm -rf "$work"
  cp -r "$OUT/apps/scotch-src" "$work"
  with_ccache
  cat >"$work/src/Makefile.inc" <<MAKEFILE
EXE =
LIB = .a
OBJ = .o
MAKE = make
AR = ar
ARFLAGS = -ru
CAT = cat
CCS = ${WEFT_CC:-gcc}
CCP = $PREFIX/bin/mpicc
CCD = $PREFIX/bin/mpicc
CFLAGS = -O0 -w -fPIC -DCOMMON_PTHREAD -DCOMMON_RANDOM_FIXED_SEED -DSCOTCH_PTHREAD -DSCOTCH_PTHREAD_MPI -DSCOTCH_RENAME -Drestrict=__restrict -DIDXSIZE64 -DSCOTCH_MPI_ASYNC_COLL
CLIBFLAGS =
LDFLAGS = -lm -lrt -pthread
CP = cp
FLEX = flex
BISON = bison
LN = ln
MKDIR = mkdir -p
MV = mv
RANLIB = ranlib
MAKEFILE
  make -C "$work/src" -j"$cores" ptscotch >"$work/make.log" 2>&1 ||
    { grep -E 'error|undefined|rror ' "$work/make.log" | head -n 20; die "PT-Scotch did not compile (see $work/make.log)"; }
  remember_ours "$work/stamp"
}

check() {
  local programs
  mkdir -p "$work/tmp"
  TMPDIR=$work/tmp timeout -k 10 "${LIMIT:-300}" make -C "$work/src/check" ptcheck EXECPPROG="$PREFIX/bin/mpirun" TMPDIR="$work/tmp" >"$work/check.log" 2>&1 ||
    { tail -n 25 "$work/check.log"; die "a check of PT-Scotch failed (see $work/check.log)"; }
  programs=$(grep -c "^$PREFIX/bin/mpirun" "$work/check.log")
  [ "$programs" -ge 20 ] || die "only $programs runs in $work/check.log"
  result "PT-Scotch's own parallel checks pass: $programs runs on 3 and 4 ranks"
}

build
[ "${1:-}" = build ] || check
