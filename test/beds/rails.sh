#!/bin/bash
# tcp over several rails between two hosts: spread over all of them, one lost for a while, one for good, all of them; and interfaces
# that lead nowhere. `rails.sh ten_gigabytes` is the long form. Needs root and the right to make namespaces; skipped (77) where that is denied.
set -eu
. "$(dirname "$0")/../../contrib/lib/common.sh"
here=$SRC/test/beds
work=$OUT/beds/rails
mkdir -p "$work"
. "$here/lib/bed.sh"
job='' runs=0

# start ARGUMENTS...: a job on both hosts, in the background. Its ranks use rails 1 and 2; the launcher may use rail 0 as well.
start() {
  say "$*"
  "$here/cluster" exec head -- "$PREFIX/bin/mpirun" -H node1,node2 -x WEFT_NET_INTERFACES="${interfaces:-eth1,eth2}" "$@" \
    >"$work/out" 2>&1 </dev/null &
  job=$!
  runs=$((runs + 1))
}

show() {
  cat "$work/out"
  die "$*"
}

ends() { # ends STATUS PATTERN...: the job's status (or "bad"), and lines that its output must have
  local want=$1 status=0 end=$((SECONDS + ${limit:-120})) pattern
  shift
  while kill -0 $job 2>/dev/null; do
    [ $SECONDS -lt $end ] || { kill $job; show "the job did not end within ${limit:-120} s"; }
    sleep 0.1
  done
  wait $job || status=$?
  job=''
  if [ "$want" = bad ]; then [ $status -ne 0 ] || show "the job ended well"; else [ $status -eq "$want" ] || show "status $status instead of $want"; fi
  for pattern; do grep -a -q -e "$pattern" "$work/out" || show "no line with \"$pattern\""; done
}

programs() {
  local name
  for name in smoke point_to_point collectives; do
    for net in auto tcp; do
      start -ppn 2 -x WEFT_NET=$net "$work/$name"
      ends 0 "$name on 4 ranks: ok"
    done
  done
}

striped() { # both rails carry their part
  local first second
  first=$(carried eth1) second=$(carried eth2)
  start -ppn 1 "$work/traffic" 600
  ends 0 "arrived as they were sent"
  first=$(($(carried eth1) - first)) second=$(($(carried eth2) - second))
  say "rail 1 carried $first bytes, rail 2 $second"
  [ $((first * 5)) -gt $((first + second)) ] && [ $((second * 5)) -gt $((first + second)) ] || show "one rail has carried nearly all"
}

measured() { # a rail of which nobody says that it is slow gets less, once that has been measured
  local node first second
  for node in 1 2; do "$here/cluster" exec node$node -- tc qdisc replace dev eth2 root tbf rate 1gbit burst 256kb latency 100ms; done
  first=$(carried eth1) second=$(carried eth2)
  start -ppn 1 --report-paths -x WEFT_NET_MEASURE=yes "$work/traffic" 600
  ends 0 "arrived as they were sent" "between hosts  tcp eth[12] (.*, measured) + eth[12] (.*, measured)  "
  first=$(($(carried eth1) - first)) second=$(($(carried eth2) - second))
  say "$(grep -a 'between hosts' "$work/out")" "rail 1 carried $first bytes, rail 2 $second"
  [ $((second * 2)) -lt $first ] || show "the slow rail has carried too much"
  for node in 1 2; do "$here/cluster" exec node$node -- tc qdisc del dev eth2 root; done
}

unsteady() { # a rail is cut and healed every second
  start -ppn 1 "$work/traffic" 100000 12
  for rail in 1 2 1 2 1; do
    sleep 1
    "$here/cluster" cut node2 $rail
    sleep 1
    "$here/cluster" heal node2 $rail
  done
  ends 0 "arrived as they were sent" "is lost" "works again"
}

ten_gigabytes() { # the same for as long as 10 GB take, which is too long for the test command
  local rail=1 cuts=0
  start -ppn 1 "$work/traffic" 5000
  while kill -0 $job 2>/dev/null; do
    sleep 1
    "$here/cluster" cut node2 $rail
    sleep 1
    "$here/cluster" heal node2 $rail
    rail=$((3 - rail)) cuts=$((cuts + 1))
  done
  limit=600 ends 0 "^10[0-9]* MB .*arrived as they were sent" "is lost" "works again"
  say "$(grep -a 'arrived as they were sent' "$work/out"); $cuts cuts, $(grep -a -c 'is lost' "$work/out") losses and" \
    "$(grep -a -c 'works again' "$work/out") returns noticed"
}

one_lost() {
  start -ppn 2 "$work/traffic" 100000 6
  sleep 2
  "$here/cluster" cut node2 2
  ends 0 "arrived as they were sent" "eth2 .* (rail 1, link [a-z]*): .*; going on over eth1"
  "$here/cluster" heal node2 2
}

all_lost() { # the program ends with the reason, or is told by the class of an error if it wants to know
  local begin how
  for how in "" told; do
    start -ppn 1 -x WEFT_NET_PATIENCE=3 "$work/traffic" 100000 60 - $how
    sleep 2
    "$here/cluster" cut node2 1
    "$here/cluster" cut node2 2
    begin=$SECONDS
    if [ -z "$how" ]; then ends bad "all 2 ways to it are lost"; else ends bad "lost its peer: MPIX_ERR_PROC_FAILED"; fi
    [ $((SECONDS - begin)) -lt 40 ] || show "the error came after $((SECONDS - begin)) s"
    "$here/cluster" heal node2 all
  done
}

decoys() { # a docker0 with the same address on each host, and cards of one subnet that no cable joins
  local node
  for node in 1 2; do
    "$here/cluster" exec node$node -- sh -c 'ip link add docker0 type veth peer name far0 && ip link set far0 up && ip addr add 172.17.0.1/16 dev docker0 && ip link set docker0 up &&
      ip link add lonely type veth peer name far1 && ip link set far1 up && ip addr add 192.168.50.$1/24 dev lonely && ip link set lonely up' sh $node
  done
  interfaces='' start -ppn 2 "$work/traffic" 100
  ends 0 "arrived as they were sent"
  interfaces=lonely,eth1 start -ppn 2 "$work/traffic" 100
  ends 0 "arrived as they were sent"
}

can_bed sshd ssh || skip "$why_not"
built "$SRC"/test/conformance/{smoke,point_to_point,collectives}.cc "$here/traffic.c"
bed_up rails "$here/cluster" up 2 --rails 3 --share "$OUT" --share "$PREFIX"
[ $# -gt 0 ] || set -- programs striped measured unsteady one_lost all_lost decoys
for part; do "$part"; done
bed_down
result "$runs jobs on two hosts with several rails"
