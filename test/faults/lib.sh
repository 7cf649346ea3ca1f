# Shared by the tests of mpirun with real processes; sourced by them. Each defines test_NAME functions and ends with: run_tests "$@"
# WEFT_PREFIX: the installation (or MPIRUN: the program itself). BOOT_CLIENT: the test's rank without MPI.
set -u
MPIRUN=${MPIRUN:-${WEFT_PREFIX:+$WEFT_PREFIX/bin/mpirun}}
MPIRUN=${MPIRUN:-$PWD/mpirun}
CLIENT=${BOOT_CLIENT:-$PWD/test/faults/boot_client}
for program in "$MPIRUN" "$CLIENT"; do
  [ -x "$program" ] || { echo "not found: $program (set WEFT_PREFIX or MPIRUN, and BOOT_CLIENT, or run in the build folder)"; exit 1; }
done
work=$(mktemp -d)
export TMPDIR=$work/tmp
mkdir "$TMPDIR"
exec 2> >(grep -v "Killed  " >&2)  # bash's remarks on what we kill
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 reasons=

run() { timeout -k 5 60 "$MPIRUN" "$@" </dev/null; }
want() { # want WHAT GOT EXPECTED
  [ "$2" = "$3" ] || reasons+="$1 is \"$2\", wanted \"$3\"; "
}
has() { # has FILE PATTERN
  grep -q -- "$2" "$1" || reasons+="no \"$2\" in: $(head -c 400 "$1" | tr '\n' '|'); "
}
until_true() { # until_true SECONDS COMMAND...
  local end=$((SECONDS + $1)); shift
  until "$@"; do [ $SECONDS -gt $end ] && return 1; sleep 0.05; done
}
ours() { # processes started by this test: they have our TMPDIR in their environment
  local file pid name state
  for file in $(grep -lsz "^TMPDIR=$TMPDIR$" /proc/[0-9]*/environ); do
    pid=${file#/proc/}; pid=${pid%/environ}
    read -r _ name state _ 2>/dev/null <"/proc/$pid/stat" || continue
    case $name in "(boot_client)"|"(weft-guardian)"|"(mpirun)"|"(sleep)"|"(sh)") [ "$state" = Z ] || echo "$pid" ;; esac
  done
}
nothing_left() { [ -z "$(ours)" ] && [ -z "$(ls -A "$TMPDIR")" ] && ! ls /dev/shm | grep -q "^weft\.weft-"; }
clean() { # nothing may be left, at once or within a moment
  until_true "${1:-3}" nothing_left || reasons+="left behind: $(for p in $(ours); do ps -o pid=,args= -p "$p"; done | tr '\n' ';') $(ls -A "$TMPDIR" | tr '\n' ' '); "
}
start() { # start ARGS...: mpirun in the background, ready when rank 0 has said so
  : >"$work/out"
  "$MPIRUN" "$@" >"$work/out" 2>"$work/err" </dev/null &
  launcher=$!
  until_true 20 grep -q ready "$work/out" || reasons+="the job did not get ready; "
}
ended() { # ended SECONDS: waits for the launcher, sets code
  local end=$((SECONDS + $1))
  while kill -0 $launcher 2>/dev/null; do
    [ $SECONDS -gt $end ] && { reasons+="mpirun still runs after $1 s; "; kill -9 $launcher; break; }
    sleep 0.05
  done
  wait $launcher 2>/dev/null
  code=$?
}
guardian() { ps -o pid=,comm= --ppid $launcher | awk '$2 == "weft-guardian" {print $1}'; }
rank_pid() { # the first of mpirun's children with that rank: children that ranks leave behind become its own, too
  local p
  for p in $(ps -o pid=,comm= --ppid $launcher | awk '$2 == "boot_client" {print $1}' | sort -n); do
    tr '\0' '\n' <"/proc/$p/environ" 2>/dev/null | grep -qx "PMI_RANK=$1" && echo "$p" && return
  done
}

# run_tests [TEST...]: prints one line a test, ends with "N passed, N failed"
run_tests() {
  local tests t p began took
  tests=${*:-$(declare -F | awk '$3 ~ /^test_/ {sub("test_", "", $3); print $3}')}
  for t in $tests; do
    reasons=
    began=$(date +%s%N)
    "test_$t"
    took=$((($(date +%s%N) - began) / 1000000))
    if [ -z "$reasons" ]; then echo "ok   $t ($took ms)"; passed=$((passed + 1))
    else echo "FAIL $t ($took ms): ${reasons:0:2000}"; failed=$((failed + 1)); fi
    for p in $(ours); do kill -9 "$p" 2>/dev/null; done
    rm -rf "${TMPDIR:?}"/*
  done
  echo "$passed passed, $failed failed"
  [ $failed = 0 ]
}
