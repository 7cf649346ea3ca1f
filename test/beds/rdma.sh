#!/bin/bash
# Messages over verbs, and over UCX's rc, on soft-RoCE: a virtual machine with two hosts, two rails between them, and shared memory switched off.
#   rdma.sh [PART]...     starts the machine and runs itself in it: units, messages, ucx, rails, automatic (default: all)
# Needs root, QEMU and Debian's kernel package; skipped (77) where one is missing.
set -eu
. "$(dirname "$0")/../../contrib/lib/common.sh"
here=$SRC/test/beds
. "$here/lib/digits.sh"
work=$OUT/beds/rdma
mkdir -p "$work"
mpirun=$PREFIX/bin/mpirun job=''

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

# ---- rails that break; everything waits for what it has brought about, as nobody knows how fast the machine is

cable() { nsenter --net="$BED_VM_NET" ip link set "xroce2r$1" "$2"; } # cable RAIL up|down: node2's

broken() { # broken WORDS...: a failure, with what the job has said
  cat "$work/out"
  die "$*"
}

until_true() { # until_true WHAT COMMAND...: waits until the command succeeds
  local what=$1 end=$((SECONDS + 90))
  shift
  until "$@"; do
    kill -0 "$job" 2>/dev/null || broken "the job ended before $what"
    [ $SECONDS -lt $end ] || broken "for 90 s: no $what"
    sleep 0.2
  done
}

said() { [ "$(grep -a -c -e "$2" "$work/out")" -ge "$1" ]; } # said TIMES PATTERN

carried() { [ "$(packets "$1")" -ge "$2" ]; }

flows() { # flows DEVICE...: each carries data
  local device
  for device; do until_true "traffic over $device" carried "$device" $(($(packets "$device") + 1000)); done
}

traffic() { # traffic SETTING...: a job of two ranks in the background
  rm -f "$work/stop" "$work/out"
  "$mpirun" --bind-to none -H node1,node2 -n 2 "${@/#/-x}" "$work/traffic" 1000000 300 "$work/stop" >"$work/out" 2>&1 &
  job=$!
  until_true "output" test -e "$work/out"
  flows rxe1r0 rxe1r1
}

steady_in_the_end() { # each rail cut and healed, then one cut for good
  local rail
  traffic
  for rail in 0 1; do
    cable $rail down
    until_true "word of the loss" said 1 "rank 1 .*is lost over verbs rxe1r$rail:1 \|rank 1 over verbs rxe1r$rail:1 is lost"
    cable $rail up
    until_true "word of its return" said 1 "rank 1 over verbs rxe1r$rail:1 works again"
    flows rxe1r$rail
  done
  cable 1 down
  until_true "word of the second loss" said 1 "going on over rxe1r0:1"
  flows rxe1r0
  touch "$work/stop"
  wait "$job" || broken "the job ended with status $?"
  said 1 "arrived as they were sent" || broken "no word of what has arrived"
  cable 1 up
}

all_lost() {
  local begin
  traffic WEFT_NET_PATIENCE=3
  cable 0 down
  cable 1 down
  begin=$SECONDS
  ! wait "$job" || broken "the job ended well without any rail"
  said 1 "all 2 ways to it are lost, the last one because: " || broken "no clear error"
  said 1 "WEFT_VERBS_TIMEOUT\|cannot connect" || broken "the error does not help"
  [ $((SECONDS - begin)) -lt 60 ] || broken "the error came after $((SECONDS - begin)) s"
  cable 0 up
  cable 1 up
}

rails() {
  local begin=$SECONDS
  export WEFT_NET=verbs
  steady_in_the_end
  all_lost
  job=''
  say "  rails cut and healed: $((SECONDS - begin)) s"
}

# ---- everything else

units() {
  local begin=$SECONDS
  [ -x "$BUILD/test/unit/btl/verbs_test" ] || return 0
  ssh node1 "$BUILD/test/unit/btl/verbs_test" >"$work/out" 2>&1 || { cat "$work/out"; die "the unit tests failed"; }
  ! grep -q skipped: "$work/out" || die "the unit tests found no device"
  say "  unit tests on node1: $((SECONDS - begin)) s"
}

messages() {
  local before
  export WEFT_NET=verbs
  before=$(packets rxe1r0)
  run "point_to_point on 4 ranks: ok" "$work/point_to_point"
  [ "$(packets rxe1r0)" -gt $((before + 1000)) ] || die "the messages took another way"
  run "collectives on 4 ranks: ok" "$work/collectives"
  run "4 ranks, .*test accuracy" "$work/train" "$work/digits.csv" --epochs 5 --quiet
  learnt "$work/out" || die "the training has not learnt"
}

ucx() {
  local before
  [ -e "$PREFIX/lib/weft/btl_ucx.so" ] || return 0
  export WEFT_NET=ucx UCX_TLS=rc_v,ud_v,self
  before=$(packets rxe1r0)
  run "point_to_point on 4 ranks: ok" "$work/point_to_point"
  [ "$(packets rxe1r0)" -gt $((before + 1000)) ] || die "the messages of UCX took another way"
  run "collectives on 4 ranks: ok" "$work/collectives"
}

automatic() {
  local before
  export WEFT_NET=auto
  before=$(packets rxe2r0)
  run "smoke on 4 ranks: ok" "$work/smoke"
  [ "$(packets rxe2r0)" -gt $((before + 10)) ] || die "on its own, verbs was not chosen between hosts"
}

if [ "${1:-}" = inside ]; then
  shift
  export WEFT_PML_SPIN=20
  for part; do "$part"; done
  exit
fi

# ---- outside

[ "$(id -u)" -eq 0 ] || skip "only root can make the machine's devices"
has_commands qemu-system-x86_64 busybox cpio modprobe sshd || skip "$why_not"
grep -q '^#define HAVE_VERBS 1' "$BUILD/config.h" || skip "this Weft was built without rdma-core"
"$here/rdma-vm" --setup >"$work/setup" 2>&1 || skip "the machine's kernel cannot be had: $(tail -n 1 "$work/setup")"
built "$SRC"/test/conformance/{smoke,point_to_point,collectives}.cc "$SRC/examples/train.cc" "$here/traffic.c"
digits >"$work/digits.csv"
[ $# -gt 0 ] || set -- units messages ucx rails automatic
begin=$SECONDS status=0
cd "$work"
"$here/rdma-vm" --timeout 840 --nodes 2 --rails 2 --share "$SRC" --share "$OUT" --share "$BUILD" --share "$PREFIX" -- "$here/rdma.sh" inside "$@" || status=$?
[ $status -ne 125 ] || skip "the machine did not start"
[ $status -eq 0 ] || die "status $status"
result "two hosts with two rails of soft-RoCE: $*; $((SECONDS - begin)) s"
