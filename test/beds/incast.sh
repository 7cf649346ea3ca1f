#!/bin/bash
# 64 senders to a rank of their host that does not receive: over shared memory, and over UCX by its sockets and by its shared memory. What
# tcp does between hosts is in tcp.sh.
#   incast.sh [NET...]       shm ucx
set -eu
. "$(dirname "$0")/../../contrib/lib/common.sh"
here=$SRC/test/beds
work=$OUT/beds/incast
mkdir -p "$work"
. "$here/lib/bed.sh"

# deaf RANKS BOUND OPTIONS...: rooms of 8 MiB in all may take twice that much memory; the rest of BOUND (MiB) is for connections
deaf() {
  local ranks=$1 bound=$2 how
  shift 2
  for how in "" asleep; do
    # shellcheck disable=SC2086
    timeout -k 5 100 "$PREFIX/bin/mpirun" -n "$ranks" --bind-to none "$@" -x WEFT_PML_UNEXPECTED=8M -x WEFT_PML_SPIN=20 "$work/incast" 1024 "$bound" $how \
      >"$work/out" 2>&1 || { cat "$work/out"; die "status $?: $ranks ranks, $* $how"; }
    grep -q "^$((ranks - 2)) senders" "$work/out" || { cat "$work/out"; die "not all have sent: $*"; }
    say "  $* ${how:+($how) }$(cat "$work/out")"
  done
}

built "$here/incast.c"
[ $# -gt 0 ] || set -- shm ucx
for net; do
  case $net in
    shm) deaf 66 24 -x WEFT_NET=shm ;;
    ucx)
      [ -e "$PREFIX/lib/weft/btl_ucx.so" ] || { say "  no UCX in this build"; continue; }
      deaf 66 24 -x WEFT_NET=ucx -x UCX_TLS=posix,cma,self
      deaf 34 24 -x WEFT_NET=ucx -x UCX_TLS=tcp,self
      ;;
    *) die "no such network: $net" ;;
  esac
done
result "up to 64 senders to a rank that does not receive, over $*"
