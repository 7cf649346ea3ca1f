#!/bin/sh
# Conformance programs with as many lanes a process as shall be, and with different numbers of lanes in the processes of one job.
#   PREFIX=... [RANKS=3] [PROGRAMS="..."] lanes.sh [NET...]     WEFT_NET of each run; without: auto
set -u
. "$(dirname "$0")/lib.sh"

# Each rank with a number of lanes of its own: 1 to 5, or the same on all.
cat >"$work/with_lanes" <<'EOF'
#!/bin/sh
lanes=$1
shift
[ "$lanes" = mixed ] && lanes=$((PMIX_RANK * 3 % 5 + 1))
WEFT_PML_LANES=$lanes exec "$@"
EOF
chmod +x "$work/with_lanes"

[ $# -gt 0 ] || set -- auto
for program in ${PROGRAMS:-threads point_to_point requests communicators intercomm partitioned}; do
  compile "$program" || exit 1
  for net; do
    export WEFT_NET="$net"
    for lanes in ${LANES:-4 mixed}; do
      attempt "$program over $net with lanes: $lanes" -n "${RANKS:-3}" "$work/with_lanes" "$lanes" "$work/$program"
    done
  done
done
conclude
