#!/bin/bash
# tcp between hosts as the only transport, several ranks on each: conformance programs and the training example over one rail, over two,
# and where there is nothing but IPv6; rails that look well and carry nothing; what crosses between hosts
# when topologies are reordered; what is tried and found while collectives run; and a crowd that sends to a rank which does not receive.
#   tcp.sh [PART...]        one two dead reorder refine incast six
# Needs root and the right to make namespaces; skipped (77) where that is denied.
set -eu
. "$(dirname "$0")/../../contrib/lib/common.sh"
here=$SRC/test/beds
work=$OUT/beds/tcp
mkdir -p "$work"
. "$here/lib/bed.sh"
. "$here/lib/digits.sh"
export WEFT_NET=tcp
programs="smoke point_to_point requests types communicators intercomm topology partitioned threads collectives"
runs=0

mpirun_on() { # mpirun_on HOSTS ARGUMENTS...: its words go to $work/out
  local hosts=$1
  shift
  say "  $* on $hosts"
  runs=$((runs + 1))
  timeout -k 5 "${limit:-150}" "$here/cluster" exec head -- "$PREFIX/bin/mpirun" -H "$hosts" -x WEFT_NET "$@" >"$work/out" 2>&1 </dev/null
}

show() {
  cat "$work/out"
  die "$*"
}

run() { # run PATTERN HOSTS ARGUMENTS...: must end well, and say so
  local pattern=$1
  shift
  mpirun_on "$@" || show "status $?: $*"
  grep -a -q -e "$pattern" "$work/out" || show "no line with \"$pattern\": $*"
}

# all_programs INTERFACES [PROGRAMS]: on two ranks of each of two hosts; none named: all
all_programs() {
  local name
  # shellcheck disable=SC2086
  for name in ${2:-$programs}; do
    run "$name on 4 ranks: ok" node1:2,node2:2 -x WEFT_NET_INTERFACES="$1" "$work/$name"
  done
  run "4 ranks, .*test accuracy" node1:2,node2:2 -x WEFT_NET_INTERFACES="$1" "$work/train" "$work/digits.csv" --epochs 8 --quiet
  learnt "$work/out" || show "the training has not learnt"
}

one() {
  local other
  other=$(carried eth2)
  all_programs eth1
  [ "$(carried eth2)" -lt $((other + 20000)) ] || die "rail 2 was not to be used"
}

two() {
  local first second
  first=$(carried eth1) second=$(carried eth2)
  all_programs eth1,eth2
  [ $(($(carried eth1) - first)) -gt 100000 ] && [ $(($(carried eth2) - second)) -gt 100000 ] || die "one rail was not used"
}

dead() { # a rail whose address is published and whose frames vanish: on its own an error in time, beside others no hindrance
  "$here/cluster" cut node2 2
  run "point_to_point on 4 ranks: ok" node1:2,node2:2 -x WEFT_NET_INTERFACES=eth2,eth1 "$work/point_to_point"
  if mpirun_on node1:2,node2:2 -x WEFT_NET_INTERFACES=eth2 -x WEFT_TCP_CONNECT_TIMEOUT=1 "$work/smoke"; then show "the job ended well"; fi
  grep -a -q -e "rank [0-9] on node[12]" "$work/out" || show "no word of who was not reached"
  "$here/cluster" heal node2 2
}

six() { # hosts that have no other addresses than those of IPv6, the launcher's too; nothing else differs from two rails
  local node
  "$here/cluster" exec head -- sh -c 'sed s/^10.77.\\\(.\\\)./fd77:\\1::/ /etc/hosts >/tmp/hosts && cat /tmp/hosts >/etc/hosts && rm /tmp/hosts'
  for node in head node1 node2; do
    "$here/cluster" exec $node -- sh -c 'for i in 0 1 2; do ip -4 addr flush dev eth$i; done'
  done
  all_programs eth1,eth2 "smoke point_to_point communicators collectives"
}

all_carried() {
  local node sum=0
  for node in 1 2 3 4; do sum=$((sum + $(carried eth1 node$node))); done
  echo $sum
}

# crosses KIND REORDER: $crossed, the bytes of 50 rounds between hosts; as many as the program says, and few more
crosses() {
  local before said
  before=$(all_carried)
  run "^$1: .* 0 wrong words" node1:4,node2:4,node3:4,node4:4 -x WEFT_NET=shm,tcp -x WEFT_NET_INTERFACES=eth1 "$work/reorder" "$1" "$2" 50
  crossed=$(($(all_carried) - before))
  said=$(sed -n "s/^$1: \\([0-9]*\\) bytes.*/\\1/p" "$work/out")
  say "    $said bytes a round between hosts, $crossed were sent in 50"
  [ $crossed -gt $((said * 50)) ] && [ $crossed -lt $((said * 60 + 2000000)) ] || show "other bytes than by the places of the ranks"
}

reorder() { # 4 hosts of 4: of a grid of 2 x 8 cut 10 edges as it lies and 6 in blocks; of the ring 12 and 4
  local as_is
  crosses grid 0
  as_is=$crossed
  crosses grid 1
  [ $((crossed * 100)) -lt $((as_is * 75)) ] || die "reordering a grid does not pay"
  crosses ring 0
  as_is=$crossed
  crosses ring 1
  [ $((crossed * 100)) -lt $((as_is * 50)) ] || die "reordering a ring does not pay"
}

refine() { # a table that names what takes fourteen messages one after the other where three would do
  cat >"$work/table.json" <<'END'
{"weft-collectives": 1, "machine": {},
 "runs": [{"date": "2026-03-01T12:00:00Z", "weft": "1", "cpu": "c", "ranks": 8, "hosts": ["node1", "node2", "node3", "node4"], "network": []}],
 "measurements": [{"collective": "allreduce", "ranks": 8, "hosts": 4, "bytes": 8, "run": 0, "usual": "recursive_doubling", "ns": {"ring": 1, "recursive_doubling": 2}}]}
END
  run "^refine: .* 0 wrong sums" node1:2,node2:2,node3:2,node4:2 -x WEFT_NET_INTERFACES=eth1 --set WEFT_COLL_TABLE="$work/table.json" -x WEFT_COLL_REFINE=yes \
    --report-coll "$work/refine" 2000
  grep -a "^refine\|way" "$work/out"
  grep -a -q "^weft:   Found on the way, .*allreduce@8/4:8-16=" "$work/out" || show "nothing was found that is faster than a ring"
  [ "$(grep -a -c "  tried on the way$" "$work/out")" -gt 1 ] || show "only one was tried"
  run "collectives on 8 ranks: ok" node1:2,node2:2,node3:2,node4:2 -x WEFT_NET_INTERFACES=eth1 -x WEFT_COLL_REFINE=yes "$work/collectives"
}

# Rooms of 127 KiB for each sender, 8 MiB in all, may take twice that much memory; 8 MiB more are for the connections of all.
incast() {
  local options="-x WEFT_PML_UNEXPECTED=8M -x WEFT_PML_SPIN=20 --bind-to none"
  # shellcheck disable=SC2086
  run "64 senders of 1.0 MiB" node1:17,node2:17,node3:16,node4:16 $options "$work/incast" 1024 24
  grep -a senders "$work/out"
  # shellcheck disable=SC2086
  run "64 senders of 1.0 MiB" node1:66 $options "$work/incast" 1024 24 asleep
  grep -a senders "$work/out"
}

can_bed sshd ssh || skip "$why_not"
for name in $programs; do built "$SRC/test/conformance/$name.cc"; done
built "$SRC/examples/train.cc" "$here/incast.c" "$here/reorder.c" "$here/refine.c"
digits >"$work/digits.csv"
# Apart: ranks that know nothing of those of other hosts would take each other's processors.
bed_up tcp "$here/cluster" up 4 --rails 3 --apart --share "$OUT" --share "$PREFIX"
[ $# -gt 0 ] || set -- one two dead reorder refine incast six
for part; do
  begin=$SECONDS
  "$part"
  say "$part: $((SECONDS - begin)) s"
done
bed_down
result "$runs jobs over tcp: one rail, two, IPv6, a rail that carries nothing, 64 to 1"
