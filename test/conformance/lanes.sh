#!/bin/sh
# Conformance programs with as many lanes a process as shall be, and with different numbers of lanes in the processes of one job.
#   PREFIX=... [RANKS=3] [PROGRAMS="..."] lanes.sh [NET...]     WEFT_NET of each run; without: auto
set -u
here=$(cd "$(dirname "$0")" && pwd)
prefix=${PREFIX:?set PREFIX to the installation to test}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
passed=0 failed=0

# Each rank with a number of lanes of its own: 1 to 5, or the same on all.
cat >"$work/with_lanes" <<'EOF'
#!/bin/sh
lanes=$1
shift
[ "$lanes" = mixed ] && lanes=$((PMIX_RANK * 3 % 5 + 1))
WEFT_PML_LANES=$lanes exec "$@"
EOF
chmod +x "$work/with_lanes"

run_one() {  # net lanes program
  if WEFT_NET=$1 timeout -k 5 "${LIMIT:-120}" "$prefix/bin/mpirun" -n "${RANKS:-3}" "$work/with_lanes" "$2" "$work/$3" </dev/null; then
    passed=$((passed + 1))
  else
    echo "$3 over $1 with lanes: $2: exit status $?"
    failed=$((failed + 1))
  fi
}

[ $# -gt 0 ] || set -- auto
for program in ${PROGRAMS:-threads point_to_point requests communicators intercomm partitioned}; do
  "$prefix/bin/mpicxx" -std=c++20 -O1 -Wall -Wextra ${CONFORMANCE_CXXFLAGS:-} ${SANITIZE:-} -o "$work/$program" "$here/$program.cc" || exit 1
  for net; do
    for lanes in ${LANES:-4 mixed}; do run_one "$net" "$lanes" "$program"; done
  done
done
echo "result: $passed runs passed, $failed failed"
[ "$failed" -eq 0 ]
