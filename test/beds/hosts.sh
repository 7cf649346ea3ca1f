#!/bin/bash
# mpirun on several hosts: programs, input and output, and every way in which a job can end early. Nothing may be left behind.
#   hosts.sh ssh         daemons over ssh, on a bed of four nodes
#   hosts.sh slurm       daemons by srun, inside an allocation of four nodes
# Names of parts (programs, streams, ...) behind it choose among them; slurm leaves out what its daemons do as those over ssh, unless asked for.
# Needs root and the right to make namespaces; skipped (77) where that is denied.
set -eu
. "$(dirname "$0")/../../contrib/lib/common.sh"
here=$SRC/test/beds
mode=${1:-}
shift
work=$OUT/beds/hosts-$mode
mkdir -p "$work"
mpirun=$PREFIX/bin/mpirun
. "$here/lib/digits.sh"
. "$here/lib/bed.sh"
job='' runs=0 swept=''

# in_bed COMMAND...: where the user sits
in_bed() {
  if [ "$mode" = ssh ]; then "$here/cluster" exec head -- "$@"; else "$here/slurm" exec salloc -Q -N4 --ntasks-per-node=4 --overcommit "$@"; fi
}

start() { # start COMMAND...: in the background; its words go to $work/out
  say "$*"
  (in_bed "$@") >"$work/out" 2>&1 <"${input:-/dev/null}" &
  job=$!
  runs=$((runs + 1))
}

show() {
  cat "$work/out"
  die "$*"
}

ends() { # ends STATUS PATTERN [SECONDS]: the job's status and one of its lines, within a time from now
  local want=$1 pattern=$2 status=0 end=$((SECONDS + ${3:-100}))
  while kill -0 $job 2>/dev/null; do
    [ $SECONDS -lt $end ] || { kill $job; show "the job did not end within ${3:-100} s"; }
    sleep 0.05
  done
  wait $job || status=$?
  job=''
  [ $status -eq "$want" ] || show "status $status instead of $want"
  [ -z "$pattern" ] || wait_until grep -a -q -e "$pattern" "$work/out" || show "no line with \"$pattern\""
  [ "$(grep -a '^mpirun: ' "$work/out" | grep -a -c -v '^mpirun: where the ranks are')" -le 1 ] || show "more than one message"
  nothing_left
}

pids() { # pids PATTERN: processes of this bed whose command line has it
  local process net
  for process in $(pgrep -f -- "$1"); do
    net=$(readlink "/proc/$process/ns/net") || continue # it has ended meanwhile
    case " $networks " in *" $net "*) echo "$process" ;; esac
  done 2>/dev/null
}

strike() { # strike SIGNAL PATTERN [head|tail]: the first or last such process of the bed that is no guardian
  local process list=''
  for process in $(pids "$2"); do
    [ "$(cat "/proc/$process/comm")" = weft-guardian ] || list+="$process "
  done
  kill "-$1" "$(tr ' ' '\n' <<<"${list% }" | "${3:-head}" -n 1)"
}

files() {
  local node
  for node in head node1 node2 node3 node4; do
    "$here/cluster" exec $node -- 2>/dev/null sh -c 'ls -d /tmp/weft-* /dev/shm/weft* 2>/dev/null || true'
  done
}

no_processes() { [ -z "$(pids "$work/")$(pids "mpirun --daemon")$(pids "^$mpirun")" ]; }
no_files() { [ -z "$(files)" ]; }
sweep() { # after Slurm has killed all of a step, guardians too: files go with the next job on those hosts
  wait_until no_processes || return 0
  in_bed "$mpirun" "${where[@]}" true
}
nothing_left() {
  [ -z "$swept" ] || sweep
  wait_until no_processes || die "left running: $(for p in $(pids "$work/") $(pids "mpirun"); do tr '\0' ' ' <"/proc/$p/cmdline"; done)"
  wait_until no_files || die "files were left: $(files)"
}

all_run() { [ "$(pids "$work/guest wait" | wc -l)" -ge 16 ]; }
lives() { # lives: a job of 16 ranks that only waits, once all of them do
  start "$mpirun" "${where[@]}" "$work/guest" wait 0
  wait_until all_run || wait_until all_run || wait_until all_run || show "the ranks did not start"
}

programs() {
  local name six=(-n 6)
  [ "$mode" = slurm ] || six+=("${where[@]}")
  for name in smoke point_to_point collectives; do
    start "$mpirun" "${where[@]}" "$work/$name"
    ends 0 "$name on 16 ranks: ok"
  done
  for name in "mixed 0" "mixed 2" "beyond 0" "awaited 0"; do
    # shellcheck disable=SC2086
    start "$mpirun" "${six[@]}" "$work/session_histories" $name
    ends 0 "histories, $name: ok"
  done
  start "$mpirun" "${where[@]}" "$work/train" "$work/digits.csv" --epochs 8 --quiet
  ends 0 "16 ranks, .*test accuracy"
  learnt "$work/out" || show "the training has not learnt"
}

contract() { # what a rank finds in its environment of itself and of rank 0, which is not where mpirun is
  local rank
  start "$mpirun" --env torch "${where[@]}" sh -c 'echo $RANK/$WORLD_SIZE $PMI_RANK/$PMI_SIZE $OMPI_COMM_WORLD_RANK/$OMPI_COMM_WORLD_SIZE \
    $LOCAL_RANK/$LOCAL_WORLD_SIZE $OMPI_COMM_WORLD_LOCAL_RANK/$OMPI_COMM_WORLD_LOCAL_SIZE $MPI_LOCALRANKID/$MPI_LOCALNRANKS $MASTER_ADDR $(hostname) $MASTER_PORT'
  ends 0 ""
  for ((rank = 0; rank < 16; rank++)); do
    grep -q -E "^($rank/16 ){3}($((rank % 4))/4 ){3}node1 node$((rank / 4 + 1)) [1-9][0-9]+$" "$work/out" || show "no such line of rank $rank"
  done
  [ "$(awk '{ print $9 }' "$work/out" | sort -u | wc -l)" -eq 1 ] || show "several MASTER_PORTs"
}

paths() { # which ways are reported; messages over the transports that are not the first choice here
  start "$mpirun" --report-paths "${where[@]}" "$work/smoke"
  ends 0 "^weft:   between hosts  tcp eth"
  grep -q "^weft:   within a host  shm (" "$work/out" || show "no word of shared memory"
  grep -q "^weft:   not used .*ucx: " "$work/out" || show "no word of ucx"
  start "$PREFIX/bin/weft" paths --measure "${where[@]}" -x WEFT_NET=tcp
  ends 0 "^weft:   within a host  tcp eth"
  local pair
  for pair in "ranks 0-3 on node1 -> ranks 4-7 on node2" "ranks 8-11 on node3 -> ranks 4-7 on node2"; do
    grep -q "^weft:   between hosts  tcp eth[^[]*, measured)  \[.*$pair" "$work/out" || show "the ways of $pair were not measured"
  done
  over_ucx
}

tables() { # what weft tune measures over the hosts; a table decides for all of them, though only mpirun reads it
  local table=$work/table.json
  rm -f "$table"
  start "$PREFIX/bin/weft" tune --quick --only barrier --output "$table" "${where[@]}"
  ends 0 "^Kept in $table"
  grep -q '"leaf.latency"' "$table" && grep -q '"two_level"' "$table" && grep -q "between hosts  tcp" "$table" || show "not all was measured"
  sed 's/"barrier"/"allreduce"/; s/"bytes": 0/"bytes": 8/; s/"two_level": [0-9.e+]*/"ring": 1/; s/"dissemination": [0-9.e+]*/"rabenseifner": 1e9/' "$table" >"$work/ring.json"
  start env WEFT_COLL_TABLE="$work/ring.json" "$mpirun" --report-coll "${where[@]}" "$work/collectives"
  ends 0 "^weft: collectives of 16 ranks on 4 hosts"
  grep -q "^weft:   allreduce  *16  *4  *8-16 .*  ring  *the tuned table$" "$work/out" || show "the table has not decided"
}

over_ucx() {
  [ -e "$PREFIX/lib/weft/btl_ucx.so" ] || return 0
  start "$mpirun" --report-paths -x WEFT_NET=ucx -x UCX_TLS=tcp,self "${where[@]}" "$work/point_to_point"
  ends 0 "point_to_point on 16 ranks: ok"
  grep -q "^weft:   between hosts  ucx (" "$work/out" || show "not over ucx"
}

streams() {
  local sum fan_out
  seq 1 300000 >"$work/numbers"
  input=$work/numbers start "$mpirun" "${where[@]}" sh -c 'if [ $PMI_RANK = 0 ]; then md5sum; fi'
  ends 0 "^$(md5sum <"$work/numbers" | cut -c1-32)"
  seq 1 $((${MEGABYTES:-24} * 126000)) >"$work/numbers"
  sum=$(md5sum <"$work/numbers" | cut -c1-32)
  for fan_out in 16 2; do # all of it to all ranks but those that do not want it, from a pipe with a slow start
    input=<(sleep 0.3; cat "$work/numbers") start "$mpirun" --fanout $fan_out --stdin all "${where[@]}" sh -c \
      'case $PMI_RANK in 5) ;; 6) head -c 100000 >/dev/null ;; 7) exec 0<&-; sleep 1 ;; *) md5sum ;; esac'
    ends 0 ""
    [ "$(grep -a -c "^$sum" "$work/out")" -eq 13 ] || show "not all ranks got all of the input"
  done
  input=$work/numbers start "$mpirun" --stdin 13 "${where[@]}" sh -c 'md5sum'
  ends 0 "^$sum"
  start "$mpirun" -l "${where[@]}" sh -c 'seq 1 5000 | sed s/^/x/'
  ends 0 '^\[15\] x5000$'
  [ "$(grep -a -c -E '^\[[0-9]+\] x[0-9]+$' "$work/out")" -eq 80000 ] || die "lines were lost or mixed"
}

services() { # what PMIx servers of several hosts answer together
  local what
  cp "$BUILD/test/faults/pmix_client" "$work/"
  for what in names groups events; do
    start "$mpirun" "${where[@]}" "$work/pmix_client" $what
    ends 0 "$what of 16 ranks passed"
  done
  cp "$BUILD/test/faults/boot_client" "$work/"
  start "$mpirun" "${where[@]}" "$work/boot_client" spawn 5
  ends 0 "16 times 5 spawned ranks passed"
  start "$mpirun" "${where[@]}" "$work/boot_client" run 8 "$work/collectives"
  ends 0 "collectives on 8 ranks: ok"
  start "$mpirun" "${where[@]}" "$work/boot_client" failing node3
  ends 0 "failures to spawn passed"
  start "$mpirun" "${where[@]}" "$work/boot_client" brood signal 1 11
  ends 139 "rank 1.1 .* on node[1-4].* SIGSEGV"
}

deaths() {
  start "$mpirun" "${where[@]}" "$work/guest" abort 9
  ends 7 "rank 9 .* on node3.*MPI_Abort"
  start "$mpirun" "${where[@]}" "$work/guest" kill 14
  ends 137 "rank 14 .* on node4.* SIGKILL"
  start "$mpirun" "${where[@]}" sh -c 'exit $((PMI_RANK == 5 ? 3 : 0))'
  ends 3 "rank 5 .* exited with code 3"
  start "$mpirun" "${where[@]}" "$work/nothing"
  ends 127 "cannot start rank .* on node[1-4]: .*nothing: No such file"
  lives
  strike 9 "^$mpirun --daemon" tail
  ends 1 "lost the daemon on node" 5
  lives
  strike INT "^$mpirun .*guest wait"
  ends 130 "" 5
  start "$mpirun" --timeout 3 "${where[@]}" "$work/guest" wait 0
  ends 124 "longer than --timeout 3 s" 60
  grep -q "^mpirun: where the ranks are" "$work/out" || show "no stacks"
  grep -q "^  ranks 0-15\$" "$work/out" || [ "$(grep -c -E '^  ranks? [0-9]' "$work/out")" -ge 2 ] || show "not the stacks of all ranks"
  lives
  strike 9 "^$mpirun .*guest wait"
  [ "$mode" = ssh ] || swept=yes
  ends $([ "$mode" = ssh ] && echo 137 || echo 0) "its guardian has ended the ranks" 5 # salloc does not pass on that its child was killed
  swept=''
}

tools() { # weft ps and weft kill where mpirun is not
  local weft=$PREFIX/bin/weft name
  lives
  "$here/cluster" exec node3 -- "$weft" ps >"$work/ps"
  grep -q "16 .* running .*mpirun -.*guest wait 0 (mpirun is pid [0-9]* on " "$work/ps" || show "weft ps: $(cat "$work/ps")"
  name=$(awk '/guest wait/ { print $1 }' "$work/ps")
  "$here/cluster" exec node3 -- "$weft" ps "$name" >"$work/ps"
  [ "$(grep -c -E " node3 +(runs|waits) .*guest" "$work/ps")" -eq 4 ] || show "weft ps $name: $(cat "$work/ps")"
  "$here/cluster" exec node3 -- "$weft" kill "$name"
  ends 143 "" 10
}

states() { # states PROGRAM: how many ranks are in which state
  local process
  for process in $(pids "^$1"); do sed 's/.*) \(.\).*/\1/' "/proc/$process/stat"; done | sort | uniq -c | tr t T | xargs
}

debugger() { # ranks on all hosts stand still until the debugger has read the table
  command -v gdb >/dev/null || return 0
  cat >"$work/gdb" <<END
set pagination off
break main
run
set var MPIR_being_debugged = 1
break MPIR_Breakpoint
continue
printf "size %d state %d last on %s\\n", MPIR_proctable_size, MPIR_debug_state, MPIR_proctable[MPIR_proctable_size - 1].host_name
shell touch $work/held; until [ -e $work/go ]; do sleep 0.05; done
continue
END
  rm -f "$work/held" "$work/go"
  start env DEBUGINFOD_URLS= gdb -nx -batch -x "$work/gdb" --args "$mpirun" "${where[@]}" "$work/smoke"
  wait_until [ -e "$work/held" ] || wait_until [ -e "$work/held" ] || wait_until [ -e "$work/held" ] || show "the debugger saw no table"
  [ "$(states "$work/smoke")" = "16 T" ] || show "not held: $(states "$work/smoke")"
  touch "$work/go"
  ends 0 "smoke on 16 ranks: ok"
  grep -q "^size 16 state 1 last on node4" "$work/out" || show "not the table of all ranks"
}

ssh_only() {
  local fan_out cpus ask=(sed -n 's/^Cpus_allowed_list:.//p' /proc/self/status)
  cpus=$("$mpirun" --bind-to core -n 1 "${ask[@]}") # all nodes have the same processors
  start "$mpirun" --bind-to core -H node1:1,node2:1 -n 2 "${ask[@]}"
  ends 0 "^$cpus\$"
  [ "$(grep -c "^$cpus\$" "$work/out")" -eq 2 ] || show "ranks on other hosts are not bound"
  for fan_out in 1 2; do
    start "$mpirun" --fanout $fan_out "${where[@]}" "$work/point_to_point"
    ends 0 "point_to_point on 16 ranks: ok"
  done
  where+=(--fanout 1)
  lives
  strike 9 "^$mpirun --daemon" head
  ends 1 "lost the daemon on node" 5
  where=("${where[@]:0:2}")
  lives
  strike 9 "^ssh .* node2 exec"
  ends 1 "lost the daemon on node2: its ssh was ended by signal 9" 5
  lives
  "$here/cluster" kill node4
  ends 1 "lost the daemon on node4" 10
  "$here/cluster" boot node4
}

refused() { # refused PATTERN OPTIONS...: a job that cannot start, and why
  local pattern=$1
  shift
  start "$mpirun" "$@" "$work/smoke"
  ends 1 "$pattern" 60
}

unreachable() { # each step on the way to another host can fail, and is named
  local version
  refused "cannot start a daemon on nosuch: its name was not found" -H node1:4,nosuch:4 -n 8
  refused "cannot start a daemon on node1" -H node1:4,node1-r7:4 -n 8 --launcher-exec "ssh -o ProxyCommand=false"
  refused "cannot start a daemon on node2: ssh has no key that it accepts" -H node2:1 -n 1 --launcher-exec \
    "ssh -F none -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
  refused "cannot start a daemon on node2: its host key is not known" -H node2:1 -n 1 --launcher-exec \
    "ssh -F none -o StrictHostKeyChecking=yes -o UserKnownHostsFile=/dev/null -o GlobalKnownHostsFile=/dev/null"
  refused "cannot start a daemon on node2: it refused the connection: no sshd listens there" -H node2:1 -n 1 --launcher-exec "ssh -p 23"
  refused "nosuchssh" -H node2:1 -n 1 --launcher-exec nosuchssh
  "$here/cluster" cut node4
  refused "cannot start a daemon on node4: it did not answer" "${where[@]}" --launcher-exec "ssh -o ConnectTimeout=1"
  "$here/cluster" heal node4
  version=$("$mpirun" --version | sed -n 's/.*(Weft) //p')
  cat >"$work/agent" <<END
#!/bin/sh
case \$1 in node3) ;; *) exec ssh -T "\$@" ;; esac
python3 -c 'import os; os.write(1, os.read(0, 1 << 16).replace(b"$version", b"${version//[0-9]/9}"))' | ssh -T "\$@"
END
  chmod +x "$work/agent"
  refused "cannot start a daemon on node3: versions differ: mpirun is of Weft ${version//[0-9]/9}, on this host is Weft $version\$" \
    "${where[@]}" --launcher-exec "$work/agent"
  "$here/cluster" exec node3 -- sh -c 'mkdir -p /tmp/empty && mount --bind /tmp/empty "$1" || exit 1' sh "$PREFIX/bin"
  refused "cannot start a daemon on node3: $mpirun is not on that host" "${where[@]}"
  "$here/cluster" exec node3 -- umount "$PREFIX/bin"
}

devices() { # each host's daemon finds its own GPUs, here those of a driver that only seems to be there
  local node line
  for node in node1 node2; do
    "$here/cluster" exec $node -- sh -c 'mount -t tmpfs tmpfs /proc/driver && mkdir -p /proc/driver/nvidia/gpus/0099:01:00.0 /proc/driver/nvidia/gpus/0099:02:00.0'
  done
  # shellcheck disable=SC2016
  start "$mpirun" -H node1:2,node2:2 -n 4 -gpus-per-proc 1 sh -c 'echo "$PMI_RANK $(hostname) $CUDA_VISIBLE_DEVICES"'
  ends 0 ""
  for line in "0 node1 0" "1 node1 1" "2 node2 0" "3 node2 1"; do grep -q -x "$line" "$work/out" || show "no line \"$line\""; done
  refused "the daemon on node[12]: 2 GPUs for each of 2 ranks on node[12] are 4, but there are 2" -H node1:2,node2:2 -n 4 -gpus-per-proc 2
  refused "the daemon on node3: .*there is no GPU that ranks may use" -H node1:1,node3:1 -n 2 -gpus-per-proc 1
  refused "WEFT_NET_INTERFACES=nosuch leaves no network interface" -H node1:1,node2:1 -n 2 -iface nosuch
  for node in node1 node2; do "$here/cluster" exec $node -- umount /proc/driver; done
  # shellcheck disable=SC2016
  start "$mpirun" -H node1,node2,node1 --map-by seq -outfile-pattern "$work/pattern.%r.%h" -print-all-exitcodes sh -c 'echo "$PMI_RANK"; exit $((PMI_RANK == 9))'
  ends 0 "^exit code 0: ranks 0-2"
  [ "$(cat "$work/pattern.0.node1" "$work/pattern.1.node2" "$work/pattern.2.node1" | tr '\n' ' ')" = "0 1 2 " ] || show "the files of ranks are wrong"
}

ipv6_only() { # from here on no host has an IPv4 address but that of its loopback
  local node
  for node in head node1 node2 node3 node4; do
    "$here/cluster" exec $node -- ip -4 addr flush dev eth0
  done
  "$here/cluster" exec head -- sh -c 'sed s/^10.77.0./fd77:0::/ /etc/hosts >/tmp/hosts && cat /tmp/hosts >/etc/hosts && rm /tmp/hosts'
  start "$mpirun" --fanout 2 "${where[@]}" "$work/point_to_point"
  ends 0 "point_to_point on 16 ranks: ok"
}

case $mode in ssh | slurm) ;; *) die "say ssh or slurm" ;; esac
case $mode in ssh) can_bed sshd ssh ;; *) can_bed sshd ssh srun slurmctld slurmd munged ;; esac || skip "$why_not"
built "$SRC"/test/conformance/{smoke,point_to_point,collectives,session_histories}.cc "$here/guest.c" "$SRC/examples/train.cc"
digits >"$work/digits.csv"
case $mode in
  ssh) bed_up hosts "$here/cluster" up 4 --share "$OUT" --share "$PREFIX" ;;
  *) bed_up hosts "$here/slurm" up 4 --cpus 4 --share "$OUT" --share "$PREFIX" ;;
esac
where=(-n 16)
[ "$mode" = slurm ] || where=(-H node1:4,node2:4,node3:4,node4:4)
all="programs contract tools deaths"
[ "$mode" = slurm ] || all+=" tables services paths streams debugger ssh_only unreachable devices ipv6_only"
# shellcheck disable=SC2086
[ $# -gt 0 ] || set -- $all
for part; do "$part"; done
bed_down
result "$runs jobs on four hosts with $mode"
