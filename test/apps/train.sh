#!/bin/bash
# Trains a network on handwritten digits, data-parallel: the example examples/train.cc, compiled by our wrapper.
#   train.sh [sync|async]    the losses must be those of one rank (sync), the test accuracy above 95 % (both)
set -eu
. "$(dirname "$0")/../../contrib/lib/common.sh"
mode=${1:-sync}
ranks=${RANKS:-4}
work=$OUT/apps/train
mkdir -p "$work"

# The UCI digits as scikit-learn's wheel ships them: 1,797 lines of 64 pixels and the digit.
if [ ! -s "$work/digits.csv" ]; then
  ls "$DOWNLOADS"/scikit_learn-*.whl >/dev/null 2>&1 || pip_download --only-binary :all: scikit-learn
  python3 - "$DOWNLOADS" "$work/digits.csv" <<'END'
import glob, gzip, sys, zipfile
wheel = zipfile.ZipFile(sorted(glob.glob(sys.argv[1] + "/scikit_learn-*.whl"))[-1])
name = next(n for n in wheel.namelist() if n.endswith("digits.csv.gz"))
open(sys.argv[2], "wb").write(gzip.decompress(wheel.read(name)))
END
fi
"$PREFIX/bin/mpicxx" -std=c++20 -O2 -Wall -Wextra -o "$work/train" "$SRC/examples/train.cc"

accuracy_of() { sed -n 's/.*accuracy[^0-9]*\([0-9.]*\) *%.*/\1/p' "$1" | tail -n 1; }

if [ "$mode" = async ]; then
  run_mpi "$ranks" "$work/train" "$work/digits.csv" --stale 2 | tee "$work/async.log"
  accuracy=$(accuracy_of "$work/async.log")
  say_more="gradients up to 2 steps old"
else
  run_mpi 1 "$work/train" "$work/digits.csv" --losses "$work/losses.1" >"$work/sync1.log"
  run_mpi "$ranks" "$work/train" "$work/digits.csv" --losses "$work/losses.n" | tee "$work/sync.log"
  accuracy=$(accuracy_of "$work/sync.log")
  say_more=$(python3 - "$work/losses.1" "$work/losses.n" <<'END'
import sys
one, many = ([float(line.split()[-1]) for line in open(f) if line.strip()] for f in sys.argv[1:])
if len(one) != len(many) or not one: sys.exit("the runs have different numbers of losses")
worst = max(abs(a - b) / max(abs(a), 1e-12) for a, b in zip(one, many))
if worst > 1e-6: sys.exit(f"losses differ from the run on one rank by {worst:.1e}")
print(f"{len(one)} losses as on 1 rank (within {worst:.0e})")
END
)
fi
awk -v a="${accuracy:-0}" 'BEGIN { exit !(a > 95) }' || die "test accuracy is ${accuracy:-unknown} %, not above 95 %"
result "accuracy $accuracy %, $say_more"
