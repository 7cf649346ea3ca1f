#!/bin/bash
# Configures, builds and installs one flavour: build.sh main|asan|tsan. Idempotent: what is up to date is left alone.
set -eu
. "$(dirname "$0")/common.sh"
flavour=${1:-main}
BUILD=$OUT/$flavour
PREFIX=$BUILD/inst
aligned="" test_flags="-Og -g1" # half the time that -O2 takes: the tests are compiled, what they test is optimised as ever
case $flavour in
  main) options="" ;;
  asan)
    # AddressSanitizer sees null and what is too short dereferenced, too; these checks double the time of compiling, as does -O1. Alignment is
    # checked where bytes that others wrote are read as words (make's ALIGNED), undefined behaviour in what is tested, not in its tests.
    options="--enable-sanitize=address,undefined CXXFLAGS=-Og\ -g1\ -fno-sanitize=null,object-size,vptr,alignment CFLAGS=-Og\ -g1"
    aligned=-fsanitize=alignment
    test_flags="$test_flags -fno-sanitize=undefined"
    ;;
  tsan) options="--enable-sanitize=thread CXXFLAGS=-O1\ -g1 CFLAGS=-O1\ -g1" ;;
  *) die "unknown flavour $flavour (main, asan, tsan)" ;;
esac
if [ ! -x "$SRC/configure" ] || [ -n "$(find "$SRC" -name Makemodule.am -newer "$SRC/Makefile.in" -not -path "$SRC/build/*" -print -quit)" ] ||
  [ "$SRC/configure.ac" -nt "$SRC/configure" ]; then
  (cd "$SRC" && autoreconf -fi)
fi
mkdir -p "$BUILD"
cd "$BUILD"
if [ ! -f Makefile ] || [ "$SRC/configure" -nt config.status ]; then
  # by a relative path, so that ccache serves other checkouts too
  eval "\"$(realpath --relative-to=. "$SRC")/configure\" --prefix=\"$PREFIX\" $options"
fi
make -j"$cores" ALIGNED="$aligned" 2>&1
make install >/dev/null
if [ "${WITH_TESTS:-no}" = yes ]; then make -j"$cores" check TESTS= CXXFLAGS="$test_flags" 2>&1; fi
