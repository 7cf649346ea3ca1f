#!/bin/bash
# A rank is killed: the others get MPIX_ERR_PROC_FAILED from what they wait for, before mpirun ends them. Sockets break; of what happens to a
# peer in shared memory, Weft's or UCX's, nobody but mpirun can tell.
#   survivors.sh                     over Weft's shared memory and tcp
#   survivors.sh installed|wheel     over the sockets and the shared memory of that UCX
set -eu
. "$(dirname "$0")/../../contrib/lib/common.sh"
. "$SRC/contrib/lib/ucx.sh"
nets=(shm: tcp:)
if [ $# -gt 0 ]; then
  choose_ucx "$1"
  nets=(ucx:tcp,self ucx:posix,cma,self)
fi
program=$(mktemp -d)/survivors
trap 'rm -rf "${program%/*}"' EXIT
"$PREFIX/bin/mpicc" -o "$program" "$SRC/test/faults/survivors.c"
for net in "${nets[@]}"; do
  for call in 8 4000000 "4000000 away"; do
    read -ra arguments <<<"$call"
    said=$(UCX_TLS=${net#*:} timeout -k 5 60 "$PREFIX/bin/mpirun" -n 3 -x WEFT_NET="${net%%:*}" -x WEFT_PML_HELPER=always "$program" \
      "${arguments[@]}" 2>&1) &&
      die "mpirun takes a killed rank for nothing: $said"
    for rank in 0 2; do
      grep -q "^rank $rank: MPIX_ERR_PROC_FAILED" <<<"$said" || die "$net, $call bytes: rank $rank was not told: $said"
    done
  done
done
result "told over ${nets[*]}"
