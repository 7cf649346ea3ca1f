#!/bin/bash
# The installed library shows MPI and nothing else, each name weak and also as PMPI, and needs nothing but the C library and its unwinder.
set -eu
library=$PREFIX/lib/libmpi_abi.so.1
bad=0
names=$(nm -D --defined-only "$library" | awk '{ print $3 }' | sed 's/@.*//' | sort)
others=$(grep -v -E '^(P?MPIX?_[A-Z]|weft_describe$|p?mpi_[a-z_0-9]*_*$)' <<<"$names" || true)
[ -z "$others" ] || { echo "the library also exports: $others"; bad=1; }
alone=$(comm -3 <(sed -n 's/^MPI_//p' <<<"$names" | sort) <(sed -n 's/^PMPI_//p' <<<"$names" | sort))
[ -z "$alone" ] || { echo "only one of MPI_ and PMPI_: $alone"; bad=1; }
# libraries of the old style define MPI_ names themselves, also in one static program with ours, and see no call that we make
strong=$(nm -D --defined-only "$library" | awk '$2 != "W" && $3 ~ /^MPI_/ { print $3 }')
[ -z "$strong" ] || { echo "not weak: $strong"; bad=1; }
through=$(readelf -rW "$library" | grep -o -E ' P?MPI_[A-Za-z_]*' | sort -u || true)
[ -z "$through" ] || { echo "called inside the library through the names that others may replace:$through"; bad=1; }
readelf -d "$library" | grep -q 'SONAME.*\[libmpi_abi.so.1\]' || { echo "its soname is not libmpi_abi.so.1"; bad=1; }
needed=$(readelf -d "$library" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' | grep -v -E '^(libc|libm|libdl|libpthread|librt|libgcc_s)\.so|^ld-linux' || true)
[ -z "$needed" ] || { echo "it needs $needed"; bad=1; }
[ "$(readlink -f "$PREFIX/lib/libmpi.so")" = "$(readlink -f "$library")" ] || { echo "libmpi.so is not our library"; bad=1; }
[ $bad -eq 0 ] && echo "result: $(grep -c '^MPI_' <<<"$names") MPI names, each as PMPI too; $(stat -Lc %s "$library" | awk '{ printf "%.1f MiB", $1 / 1048576 }')"
exit $bad
