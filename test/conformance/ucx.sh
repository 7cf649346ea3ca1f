#!/bin/bash
# The conformance programs over WEFT_NET=ucx, by UCX's sockets and by its shared memory.
#   ucx.sh            with the UCX that is installed
#   ucx.sh wheel      with a newer one, as PyPI ships it, which the same plugin loads
# PROGRAMS, RANKS as for run.sh.
set -eu
. "$(dirname "$0")/../../contrib/lib/common.sh"
. "$SRC/contrib/lib/ucx.sh"
choose_ucx "${1:-installed}"
runs=0
for tls in tcp,self posix,cma,self; do
  say "UCX_TLS=$tls"
  MPIRUN_FLAGS="-x WEFT_NET=ucx -x UCX_TLS=$tls" PROGRAMS=${PROGRAMS:-smoke point_to_point collectives threads} RANKS=${RANKS:-2 4} \
    "$SRC/test/conformance/run.sh"
  runs=$((runs + 1))
done
result "UCX ($ucx): $runs sets of transports"
