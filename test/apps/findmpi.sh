#!/bin/bash
# How build systems find us: CMake's own FindMPI (C and C++), pkg-config, and the questions that wrappers are asked.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../../contrib/lib/common.sh"
work=$OUT/apps/findmpi
rm -rf "$work"
mkdir -p "$work"
export PATH=$PREFIX/bin:$PATH

# $1 what is greeted with, the rest: the program
hello() {
  local language=$1 count
  shift
  count=$(run_mpi 2 "$@" | grep -c "^hello from $language, rank [01] of 2$")
  [ "$count" -eq 2 ] || die "$* on 2 ranks said hello $count times"
}

cmake -S "$here/findmpi" -B "$work/cmake" >"$work/cmake.log" || { cat "$work/cmake.log"; die "CMake does not find MPI"; }
grep 'found:' "$work/cmake.log"
grep -q "found: .*$PREFIX/include.*$PREFIX/lib.*$PREFIX/bin/mpi" "$work/cmake.log" || die "CMake found another MPI"
cmake --build "$work/cmake" >"$work/make.log" 2>&1 || { cat "$work/make.log"; die "the CMake project does not build"; }
hello C "$work/cmake/hello_c"
hello C++ "$work/cmake/hello_cxx"

# CMake with the wrapper as the compiler
CC=mpicc CXX=mpicxx cmake -S "$here/findmpi" -B "$work/wrapped" >"$work/wrapped.log" || { cat "$work/wrapped.log"; die "CMake under CC=mpicc fails"; }

# pkg-config, also after the tree was moved
for name in weft mpi mpi-c mpi-cxx; do
  flags=$(PKG_CONFIG_PATH=$PREFIX/lib/pkgconfig pkg-config --cflags --libs $name)
  # shellcheck disable=SC2086
  gcc "$here/findmpi/hello.c" $flags -o "$work/pc_$name"
done
hello C "$work/pc_mpi"
cp -a "$PREFIX" "$work/moved"
"$work/moved/bin/mpicc" "$here/findmpi/hello.c" -o "$work/moved_hello"
readelf -d "$work/moved_hello" | grep -q "$work/moved/lib" || die "mpicc of a moved tree still points to the old place"
[ "$(timeout 60 "$work/moved/bin/mpirun" -n 2 "$work/moved_hello" </dev/null | grep -c hello)" -eq 2 ] || die "a moved tree does not run"

# what wrappers answer
says() {
  local expected=$1 got
  shift
  got=$("$@" 2>&1) || die "$* failed: $got"
  case $got in $expected) ;; *) die "$* says '$got', not '$expected'" ;; esac
}
for wrapper in mpicc mpicxx mpic++ mpicc_abi mpicxx_abi; do
  says "*-I$PREFIX/include*-L$PREFIX/lib*-lmpi_abi*" $wrapper -show
  says "*-I$PREFIX/include*-lmpi_abi*" $wrapper -showme
  says "-I$PREFIX/include" $wrapper -showme:compile
  says "*-L$PREFIX/lib*-lmpi_abi" $wrapper -showme:link
  says "$PREFIX/include" $wrapper -showme:incdirs
  says "$PREFIX/lib" $wrapper -showme:libdirs
  says "mpi_abi" $wrapper -showme:libs
  says "*Weft*" $wrapper -showme:version
  says "*-lmpi_abi*" $wrapper -link_info
  says "*-I$PREFIX/include*" $wrapper -compile-info
  for unknown in -showme:nonsense -nonsense; do
    if $wrapper $unknown >/dev/null 2>&1; then die "$wrapper $unknown succeeds"; fi
  done
done
case $(mpicc -show -c x.c) in *-lmpi_abi*) die "mpicc -c links" ;; esac
says "*g++*" mpicxx -showme:command
WEFT_CC=somecc says "somecc *" mpicc -show
OMPI_CC=othercc says "othercc *" mpicc -show
says "thirdcc *" mpicc -cc=thirdcc -show
mpicc -E -dM -x c - </dev/null >/dev/null || die "mpicc does not read standard input"
mkdir -p "$work/a b"
cp "$here/findmpi/hello.c" "$work/a b/hello world.c"
mpicc "$work/a b/hello world.c" -o "$work/a b/out" || die "mpicc does not take names with spaces"
result "CMake $(cmake --version | sed -n '1s/[^0-9]*//p') finds C and C++; pkg-config; a moved tree works"
