#!/bin/bash
# FFTW's MPI part from Debian's source package, compiled by our mpicc, on top of Debian's libfftw3: its own bench in verify mode, which
# compares each transform with what theory says of it (linearity, shifts, impulses).
#   fftw.sh         a fixed list of transforms of every kind on 1 to 5 ranks
#   fftw.sh build   compiles it, no more
#   fftw.sh check   FFTW's own `make check` of the MPI part: random ones
set -eu
. "$(dirname "$0")/../../contrib/lib/common.sh"
. "$SRC/contrib/lib/sources.sh"
work=$OUT/apps/fftw

# i, o: in place or not; c, r, k: complex, real to complex, real to real; f, b: there, back; [ ]: transposed in, out;
# vN: so many at once. (FFTW itself does not survive a single transform of one element.)
transforms="
  ocf2 icb3 ocf120 icb1024 ocf1021 ocf720v3 icb2310
  ocf8x9 icb30x20 ocf[30x20 icb]30x20 ocf17x3 icb1x40v2 ocf6x8x9v2 icb[7x5x12 ocf]12x8x6
  orf8x9 irf30x20 irb[30x20 orf]12x14 orb20x6x7 irf]5x4x16v2 orb[10x6x4x3
  ok12e01x9o11 ik20fx15b ok8hx10e10v2 ik]9o00x16e11"

# Its makefiles would have the rest of FFTW compiled first, a minute of it, which is there.
make_mpi() {
  make -j"$cores" -C "$work/mpi" "$@" libfftw3_mpi_la_DEPENDENCIES= libfftw3_mpi_la_LIBADD= mpi_bench_DEPENDENCIES=libfftw3_mpi.la \
    mpi_bench_LDADD="libfftw3_mpi.la ../libbench2/libbench2.a -lfftw3"
}

build() {
  debian_source fftw3 "$OUT/apps/fftw3-src" || no_source fftw3
  compiled_with_ours "$work/stamp" && [ -x "$work/mpi/mpi-bench" ] && return
  rm -rf "$work"
  mkdir -p "$work"
  cd "$work"
  with_ccache
  { "$OUT/apps/fftw3-src/configure" --enable-mpi --disable-fortran --disable-doc --disable-shared CC="${WEFT_CC:-gcc}" CFLAGS="-O1 -w" \
    MPICC="$PREFIX/bin/mpicc" MPIRUN="$PREFIX/bin/mpirun" && make -j"$cores" -C libbench2 && make_mpi mpi-bench; } >make.log 2>&1 ||
    { tail -n 20 make.log; die "FFTW did not compile (see $work/make.log)"; }
  remember_ours "$work/stamp"
}

list() {
  local ranks transform options='' count=0
  for transform in $transforms; do
    options="$options --verify $transform"
    count=$((count + 1))
  done
  for ranks in 1 2 3 4 5; do
    # shellcheck disable=SC2086
    LIMIT=100 run_mpi $ranks "$work/mpi/mpi-bench" -v1 -oestimate $options >"$work/verify.$ranks" 2>&1 ||
      { tail -n 20 "$work/verify.$ranks"; die "not every transform is right on $ranks ranks (see $work/verify.$ranks)"; }
    [ "$(wc -l <"$work/verify.$ranks")" -eq $count ] || die "not each of $count transforms was verified (see $work/verify.$ranks)"
  done
  result "FFTW verifies $count transforms on each of 1 to 5 ranks"
}

check() {
  make_mpi check >"$work/check.log" 2>&1 || { tail -n 20 "$work/check.log"; die "make check failed (see $work/check.log)"; }
  result "$(grep -c 'transforms passed' "$work/check.log") rounds of FFTW's own check of its MPI part"
}

build
[ "${1:-}" = build ] || "${1:-list}"
