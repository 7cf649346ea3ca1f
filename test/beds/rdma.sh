#!/bin/bash
# Messages over verbs, and over UCX's rc, on soft-RoCE: a virtual machine with two hosts, two rails between them, and shared memory switched off.
#   rdma.sh           starts the machine and runs itself in it
# Needs root, QEMU and Debian's kernel package; skipped (77) where one is missing.
set -eu
. "$(dirname "$0")/../../contrib/lib/common.sh"
here=$SRC/test/beds
. "$here/lib/digits.sh"
work=$OUT/beds/rdma
mkdir -p "$work"
mpirun=$PREFIX/bin/mpirun

. "$here/lib/bed.sh"

# ---- in the machine

packets() { nsenter --net="$BED_VM_NET" rdma statistic show link "$1/1" | sed -n 's/.*sent_pkts \([0-9]*\).*/\1/p'; }

run() { # run PATTERN COMMAND...: on four ranks on two hosts; one of its lines
  local pattern=$1 begin=$SECONDS
  shift
  # the hosts share their processors, so that ranks bound by each would meet on the same ones
  timeout 240 "$mpirun" --bind-to none -H node1:2,node2:2 -n 4 "$@" >"$work/out" 2>&1 || { cat "$work/out"; die "status $?: $*"; }
  grep -q -e "$pattern" "$work/out" || { cat "$work/out"; die "no line with \"$pattern\": $*"; }
  say "  ${1##*/} over $WEFT_NET: $((SECONDS - begin)) s"
}

inside() {
  local before
  if [ -x "$BUILD/test/unit/btl/verbs_test" ]; then
    ssh node1 "$BUILD/test/unit/btl/verbs_test" >"$work/out" 2>&1 || { cat "$work/out"; die "the unit tests failed"; }
    ! grep -q skipped: "$work/out" || die "the unit tests found no device"
    say "  unit tests on node1: $SECONDS s"
  fi
  export WEFT_NET=verbs WEFT_PML_SPIN=20
  before=$(packets rxe1r0)
  run "point_to_point on 4 ranks: ok" "$work/point_to_point"
  [ "$(packets rxe1r0)" -gt $((before + 1000)) ] || die "the messages took another way"
  run "collectives on 4 ranks: ok" "$work/collectives"
  run "4 ranks, .*test accuracy" "$work/train" "$work/digits.csv" --epochs 5 --quiet
  learnt "$work/out" || die "the training has not learnt"
  if [ -e "$PREFIX/lib/weft/btl_ucx.so" ]; then
    export WEFT_NET=ucx UCX_TLS=rc_v,ud_v,self
    before=$(packets rxe1r0)
    run "point_to_point on 4 ranks: ok" "$work/point_to_point"
    [ "$(packets rxe1r0)" -gt $((before + 1000)) ] || die "the messages of UCX took another way"
    run "collectives on 4 ranks: ok" "$work/collectives"
  fi
  export WEFT_NET=auto
  before=$(packets rxe2r0)
  run "smoke on 4 ranks: ok" "$work/smoke"
  [ "$(packets rxe2r0)" -gt $((before + 10)) ] || die "on its own, verbs was not chosen between hosts"
}

if [ "${1:-}" = inside ]; then
  inside
  exit
fi

# ---- outside

[ "$(id -u)" -eq 0 ] || skip "only root can make the machine's devices"
has_commands qemu-system-x86_64 busybox cpio modprobe sshd || skip "$why_not"
grep -q '^#define HAVE_VERBS 1' "$BUILD/config.h" || skip "this Weft was built without rdma-core"
"$here/rdma-vm" --setup >"$work/setup" 2>&1 || skip "the machine's kernel cannot be had: $(tail -n 1 "$work/setup")"
built "$SRC"/test/conformance/{smoke,point_to_point,collectives}.cc "$SRC/examples/train.cc"
digits >"$work/digits.csv"
begin=$SECONDS status=0
cd "$work"
"$here/rdma-vm" --timeout 840 --nodes 2 --rails 2 --share "$SRC" --share "$OUT" --share "$BUILD" --share "$PREFIX" -- "$here/rdma.sh" inside || status=$?
[ $status -ne 125 ] || skip "the machine did not start"
[ $status -eq 0 ] || die "status $status"
result "unit tests, conformance and training over verbs, conformance over UCX between two hosts with two rails, $((SECONDS - begin)) s"
