#!/bin/bash
# Binaries cross over: a program compiled by the mpicc_abi of PyPI's mpich runs on our library, and ours on its libmpi_abi.so.1.
set -eu
. "$(dirname "$0")/../../contrib/lib/common.sh"
work=$OUT/apps/abi
mpich=$work/mpich
ranks=${RANKS:-4}
mkdir -p "$work"
if [ ! -x "$mpich/bin/mpicc_abi" ]; then
  python3 -m venv "$mpich"
  "$mpich/bin/python" -m pip --disable-pip-version-check install --quiet mpich
fi
program=$SRC/test/apps/crossing.c

"$mpich/bin/mpicc_abi" -O1 -Wall -o "$work/theirs" "$program"
"$PREFIX/bin/mpicc" -O1 -Wall -o "$work/ours" "$program"
needed=$(readelf -d "$work/ours" "$work/theirs" | grep -o 'libmpi_abi.so.1' | wc -l)
[ "$needed" -eq 2 ] || die "not both programs need libmpi_abi.so.1"

# $1 program  $2 folder of the MPI to run on  $3 what its library calls itself
crossing() {
  local out
  out=$(LD_LIBRARY_PATH=$2/lib timeout 60 "$2/bin/mpirun" -n "$ranks" "$1" </dev/null 2>&1) || { echo "$out"; die "$1 failed on $3"; }
  echo "$out"
  case $out in *"crossing ok on $ranks ranks of: "*"$3"*) ;; *) die "$1 did not run on $3" ;; esac
}
crossing "$work/ours" "$PREFIX" Weft
crossing "$work/theirs" "$mpich" MPICH
crossing "$work/theirs" "$PREFIX" Weft
crossing "$work/ours" "$mpich" MPICH
result "two programs, two libraries, all four combinations"
