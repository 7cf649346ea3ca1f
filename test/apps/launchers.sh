#!/bin/bash
# The launch code of DeepSpeed and Accelerate, as PyPI has it, starts ranks with our mpirun. Skipped (77) where they cannot be had.
set -eu
. "$(dirname "$0")/../../contrib/lib/common.sh"
work=$OUT/apps/launchers
rm -rf "$work"
mkdir -p "$work"
deepspeed=0.19.8 accelerate=1.15.0

# fetch NAME==VERSION FILE [pip options]: into DOWNLOADS, unless it is there
fetch() {
  local what=$1 file=$2
  shift 2
  [ -s "$DOWNLOADS/$file" ] || pip_download "$what" "$@" && [ -s "$DOWNLOADS/$file" ] || {
    result "SKIPPED: $what cannot be downloaded here"
    exit 77
  }
}
fetch deepspeed==$deepspeed deepspeed-$deepspeed.tar.gz --no-binary deepspeed
fetch accelerate==$accelerate accelerate-$accelerate-py3-none-any.whl --only-binary :all:

export PATH=$PREFIX/libexec/weft/compat:$PREFIX/bin:$PATH
for name in openmpi mpich; do # as whom mpirun answers
  WEFT_COMPAT=$name timeout 120 python3 "$SRC/test/apps/launchers.py" "$work/$name" "$DOWNLOADS/deepspeed-$deepspeed.tar.gz" \
    "$DOWNLOADS/accelerate-$accelerate-py3-none-any.whl" >"$work/$name.log" 2>&1 || { cat "$work/$name.log"; die "as $name"; }
done
result "$(tail -n 1 "$work/openmpi.log") command lines, each as Open MPI and as MPICH"
