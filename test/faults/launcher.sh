#!/bin/bash
# Tests of mpirun with real processes: exit codes, output, input, signals, and kill -9 of everything that can be killed.
# usage: launcher.sh [TEST...]    see lib.sh
. "$(dirname "$0")/lib.sh"

test_exit_codes() {
  local c
  for c in 0 1 7 255; do run -n 3 sh -c "exit $c" >"$work/out" 2>&1; want "exit code" $? $c; done
  run -n 3 "$CLIENT" exit 1 5 2>"$work/err"; want "exit before finalize" $? 5; has "$work/err" "rank 1 (pid"
  run -n 3 "$CLIENT" late 2 6 2>"$work/err"; want "exit after finalize" $? 6; want "message" "$(cat "$work/err")" ""
  run -n 3 "$CLIENT" exit 0 0 2>"$work/err"; want "no finalize" $? 1; has "$work/err" "without calling MPI_Finalize"
  run -n 3 "$CLIENT" signal 1 11 2>"$work/err"; want "signal" $? 139; has "$work/err" SIGSEGV
  run -n 3 "$CLIENT" abort 2 9 2>"$work/err"; want "abort" $? 9; has "$work/err" "because the test says so"
  want "lines naming the culprit" "$(grep -c '^mpirun:' "$work/err")" 1
  run -n 2 no-such-program 2>"$work/err"; want "not found" $? 127; has "$work/err" "not in PATH"
  run -n 2 /etc/passwd 2>"$work/err"; want "not executable" $? 126
  run --no-such-option true 2>"$work/err"; want "usage" $? 2
  run -n 2 --timeout 0.5 sleep 100 2>"$work/err"; want "timeout" $? 124; has "$work/err" "rank 1 (pid"
  clean
}

test_exchange() {
  local n
  for n in 1 2 5 32; do
    run -n $n "$CLIENT" exchange >"$work/out" 2>&1; want "exit code of $n ranks" $? 0; has "$work/out" "exchange of $n ranks passed"
  done
  run -n 1 "$CLIENT" exchange : -n 2 "$CLIENT" exchange >"$work/out" 2>&1; want "exit code of two programs" $? 0
  clean
}

test_environment() {
  run -n 3 -x FOO=bar --set some.thing=1 --wdir / sh -c 'echo $PMI_RANK/$PMI_SIZE $OMPI_COMM_WORLD_RANK/$OMPI_COMM_WORLD_SIZE $MPI_LOCALRANKID/$MPI_LOCALNRANKS $FOO $WEFT_SOME_THING $(pwd)' | sort >"$work/out"
  want "environment" "$(cat "$work/out")" "$(for r in 0 1 2; do echo "$r/3 $r/3 $r/3 bar 1 /"; done)"
  PMIX_NAMESPACE=old PMIX_RANK=77 run -n 1 sh -c 'echo $PMIX_RANK' >"$work/out"; want "rank inside another job" "$(cat "$work/out")" 0
}

test_lines_of_32_ranks() {
  # two writes a line, so that careless merging would show
  cat >"$work/talk" <<'EOF'
i=0
while [ $i -lt 1000 ]; do printf "rank-$PMI_RANK "; printf "line-$i end\n"; i=$((i+1)); done
printf "last of $PMI_RANK"
EOF
  run -n 32 sh "$work/talk" >"$work/out"; want "exit code" $? 0
  want "whole lines" "$(grep -cE '^rank-[0-9]+ line-[0-9]+ end$' "$work/out")" 32000
  want "different lines" "$(grep -E '^rank-[0-9]+ line-[0-9]+ end$' "$work/out" | sort -u | wc -l)" 32000
  want "unfinished last lines" "$(grep -cE '^last of [0-9]+$' "$work/out")" 32
  want "all lines" "$(grep -c '' "$work/out")" 32032
  run -n 32 --tag-output sh "$work/talk" >"$work/out"
  want "tagged lines" "$(grep -cE '^\[([0-9]+)\] rank-\1 line-[0-9]+ end$' "$work/out")" 32000
  run -n 8 sh -c "$(cat "$work/talk"); sh $work/talk >&2" >"$work/out" 2>&1
  want "lines of stdout and stderr together" "$(grep -cE '^rank-[0-9]+ line-[0-9]+ end$' "$work/out")" 16000
}

test_stderr_apart() {
  run -n 4 sh -c 'echo out; echo err >&2' >"$work/out" 2>"$work/err"
  want "stdout" "$(sort -u "$work/out")" out
  want "stderr" "$(sort -u "$work/err")" err
}

test_input_100MB() {
  head -c 100000000 /dev/urandom >"$work/data"
  want "through a pipe" "$(cat "$work/data" | timeout 60 "$MPIRUN" -n 2 sh -c '[ $PMI_RANK = 0 ] && exec md5sum || cat')" "$(md5sum <"$work/data")"
  want "from a file" "$(timeout 60 "$MPIRUN" -n 2 md5sum <"$work/data" | sort -u | wc -l)" 2
  want "to nobody" "$(timeout 60 "$MPIRUN" -n 2 --stdin none cat <"$work/data" | wc -c)" 0
  # a line not read by the job is still there for the next reader
  want "left for others" "$(printf 'a\nb\n' | { timeout 20 "$MPIRUN" -n 1 true; cat; } | tr '\n' ' ')" "a b "
}

test_output_100MB() {
  head -c 100000000 /dev/urandom >"$work/data"
  want "bytes" "$(run -n 1 cat "$work/data" | md5sum)" "$(md5sum <"$work/data")"
  "$MPIRUN" -n 2 sh -c 'yes 0123456789012345678901234567890123456789 | head -c 41000000' 2>"$work/err" </dev/null | (
    sleep 1
    launcher=$(ps -o pid=,args= -e | awk -v m="$MPIRUN" '$2 == m && /head -c 41000000/ {print $1; exit}')
    awk '/VmHWM/ {print $2}' /proc/$launcher/status >"$work/memory"
    wc -c >"$work/size")
  want "bytes through a slow reader" "$(cat "$work/size")" 82000000
  ldd "$MPIRUN" | grep -qE 'lib[at]san' || [ "$(cat "$work/memory")" -lt 40000 ] || reasons+="mpirun grew to $(cat "$work/memory") kB behind a slow reader; "
  rm -f "$work/data"
}

test_reader_gone() {
  timeout 20 "$MPIRUN" -n 2 yes 2>"$work/err" </dev/null | head -1 >"$work/out"
  want "exit code" ${PIPESTATUS[0]} 141
  want "line" "$(cat "$work/out")" y
  clean
}

test_ctrl_c() {
  start -n 3 "$CLIENT" wait; kill -INT $launcher; ended 5; want "exit code" $code 130; want "messages" "$(cat "$work/err")" ""; clean
  start -n 3 "$CLIENT" wait; kill -TERM $launcher; ended 5; want "exit code of TERM" $code 143; clean
  start -n 2 sh -c 'trap "" INT; echo ready; while :; do sleep 1; done'
  kill -INT $launcher; sleep 0.3
  kill -0 $launcher || reasons+="one Ctrl-C ended ranks that ignore it; "
  kill -INT $launcher; ended 5; want "exit code of two" $code 130; clean
  start -n 2 sh -c 'trap "echo stopped; exit 0" INT; echo ready; while :; do sleep 0.1; done'
  kill -INT $launcher; ended 5; want "exit code of a handler" $code 0; want "handlers" "$(grep -c stopped "$work/out")" 2
  start -n 2 sh -c 'trap "" TERM; echo ready; while :; do sleep 1; done'
  kill -TERM $launcher; ended 8; want "exit code of stubborn ranks" $code 143; clean
  start -n 2 sh -c 'trap "echo usr1" USR1; echo ready; i=0; while [ $i -lt 20 ]; do sleep 0.1; i=$((i+1)); done'
  kill -USR1 $launcher; ended 10; want "exit code after USR1" $code 0; want "USR1 seen" "$(grep -c usr1 "$work/out")" 2
}

test_kill_rank() {
  start -n 4 "$CLIENT" orphan; kill -9 "$(rank_pid 2)"; ended 5
  want "exit code" $code 137; has "$work/err" "rank 2 (pid.*SIGKILL"; clean
}

test_kill_mpirun() {
  local i
  for i in 1 2 3; do start -n 4 "$CLIENT" orphan; kill -9 $launcher; ended 5; clean 5; done
  # in the middle of the start
  for i in 0.00 0.01 0.02 0.03 0.05 0.08; do
    "$MPIRUN" -n 8 "$CLIENT" orphan >/dev/null 2>&1 </dev/null & launcher=$!
    sleep $i; kill -9 $launcher; ended 5; clean 5
  done
}

test_kill_guardian() {
  local first
  start -n 3 "$CLIENT" orphan; first=$(guardian); kill -9 "$first"
  until_true 3 eval '[ -n "$(guardian)" ] && [ "$(guardian)" != "'$first'" ]' || reasons+="no new guardian; "
  kill -9 $launcher; ended 5; clean 5
  start -n 3 "$CLIENT" orphan; kill -9 "$(guardian)"; kill -TERM $launcher; ended 5; want "exit code" $code 143; clean
}

test_kill_both() { # ranks die with mpirun; the folder is swept by the next job
  start -n 3 "$CLIENT" wait; kill -9 "$(guardian)" $launcher; ended 5
  until_true 3 eval '[ -z "$(ours)" ]' || reasons+="processes left: $(ours); "
  run -n 1 true; clean
}

test_leftovers_of_ranks() { # a rank that leaves a daemon and a background child, holding our pipes
  run -n 2 sh -c 'sleep 1000 & setsid sleep 1000 & exit 0'; want "exit code" $? 0; clean
}

test_folder_trouble() {
  TMPDIR=/nonexistent run -n 2 true 2>"$work/err"; want "exit code" $? 1; has "$work/err" "TMPDIR"
}

test_folder_fills_up() { # after mpirun has looked: the job runs, or ends and says why
  unshare -m true 2>/dev/null || { echo "(without folders that fill up: no right to mount)"; return; }
  local state free
  for state in allocate map; do
    for free in 4 20 80 150 200 270; do
      WEFT_LAUNCHER_HOLD=0:$state:$work/hold unshare -m bash -c 'mount -t tmpfs -o size=3m tmpfs "$TMPDIR" || exit 99
        timeout -k 5 30 "$0" -n 8 "$1" hello </dev/null &
        until [ -e "$2" ] || ! kill -0 $!; do sleep 0.02; done
        dd if=/dev/zero of="$TMPDIR/rest" bs=1k count=$(($(df -k --output=avail "$TMPDIR" | tail -n 1) - $3)) 2>/dev/null
        rm -f "$2"
        wait $!' "$MPIRUN" "$CLIENT" "$work/hold" $free >"$work/out" 2>"$work/err"
      case $? in
        0) want "lines with $free kB left" "$(wc -l <"$work/out")" 8 ;;
        1 | 98) grep -qE "full" "$work/err" || reasons+="no reason with $free kB left in $state: $(head -c 500 "$work/err"); " ;;
        *) reasons+="exit code $? with $free kB left in $state: $(head -c 500 "$work/err"); " ;;
      esac
    done
  done
}

test_foreign_launchers() { # PRTERUN: that of an Open MPI; HYDRA: an mpirun of MPICH
  if command -v "${PRTERUN:-prterun}" >/dev/null; then
    timeout 60 "${PRTERUN:-prterun}" --allow-run-as-root --map-by :oversubscribe -n 3 "$CLIENT" exchange >"$work/out" 2>"$work/err"
    want "exit code under prterun" $? 0; has "$work/out" "exchange of 3 ranks passed"
  fi
  PMI_FD=9 PMI_RANK=0 PMI_SIZE=2 "$CLIENT" hello >"$work/out" 2>"$work/err"
  want "lines about a launcher without PMIx" "$(grep -c "offers no PMIx server" "$work/err")" 1
}

test_repeated_runs() {
  local i
  for i in $(seq 30); do run -n 4 "$CLIENT" hello >"$work/out" 2>&1 || { reasons+="run $i: exit $?: $(head -c 300 "$work/out"); "; break; }
    want "lines of run $i" "$(wc -l <"$work/out")" 4; done
  clean
}

run_tests "$@"
