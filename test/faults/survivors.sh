#!/bin/bash
# A rank is killed: the others get MPIX_ERR_PROC_FAILED from what they wait for, before mpirun ends them.
#   survivors.sh installed|wheel     over the sockets of that UCX, and over Weft's own
# Over shared memory nothing says so by itself: there mpirun ends the job (the fault matrix).
set -eu
. "$(dirname "$0")/../../contrib/lib/common.sh"
. "$SRC/contrib/lib/ucx.sh"
choose_ucx "$1"
export UCX_TLS=tcp,self
program=$(mktemp -d)/survivors
trap 'rm -rf "${program%/*}"' EXIT
"$PREFIX/bin/mpicc" -o "$program" "$SRC/test/faults/survivors.c"
for net in tcp ucx; do
  for bytes in 8 4000000; do
    said=$(timeout -k 5 60 "$PREFIX/bin/mpirun" -n 3 -x WEFT_NET=$net "$program" $bytes 2>&1) && die "mpirun takes a killed rank for nothing: $said"
    for rank in 0 2; do
      grep -q "^rank $rank: MPIX_ERR_PROC_FAILED" <<<"$said" || die "$net, $bytes bytes: rank $rank was not told: $said"
    done
  done
done
result "told over tcp and UCX ($ucx)"
