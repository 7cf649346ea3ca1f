#!/bin/bash
# Signals on their way to the ranks, and what --timeout shows of them before it ends them.
# usage: stacks.sh [TEST...]    see lib.sh
. "$(dirname "$0")/lib.sh"

only() { # only PROGRAM...: makes $work/mpirun, which finds these programs and no debugger
  local program
  rm -rf "$work/only"; mkdir "$work/only"
  for program; do ln -s "$(command -v "$program")" "$work/only/"; done
  printf '#!/bin/sh\nPATH=%s exec %s "$@"\n' "$work/only" "$MPIRUN" >"$work/mpirun"; chmod +x "$work/mpirun"
}

test_functions() {
  command -v gdb >/dev/null || { echo "     (functions needs gdb: skipped)"; return; }
  mkfifo "$work/fifo"
  run -n 4 --timeout 2 sh -c '[ $PMI_RANK = 2 ] && exec cat "$0"; exec sleep 100' "$work/fifo" 2>"$work/err"; want "exit code" $? 124
  has "$work/err" "where the ranks are (gdb)"; has "$work/err" "ranks 0,1,3"; has "$work/err" "rank 2 (pid"
  if grep -q "not permitted" "$work/err"; then echo "     (no process may be traced here: frames skipped)"; else has "$work/err" "#0 .*nanosleep"; fi
  run -n 2 --timeout 2 sh -c 'sleep 100; true' 2>"$work/err"; want "exit code of scripts" $? 124; has "$work/err" "in its child sleep"
  clean
}

test_without_debugger() {
  only sh sleep
  MPIRUN=$work/mpirun run -n 3 --timeout 1 sleep 100 2>"$work/err"; want "exit code" $? 124
  has "$work/err" "install gdb or elfutils"; has "$work/err" "state S (sleeping)"; has "$work/err" "ranks 0-2"
  clean
}

test_ctrl_c_meanwhile() { # a debugger that hangs holds up nobody
  only sh sleep
  printf '#!/bin/sh\nexec sleep 1000\n' >"$work/only/gdb"; chmod +x "$work/only/gdb"
  MPIRUN=$work/mpirun start -n 2 --timeout 0.3 sh -c 'trap "" INT; echo ready; sleep 1000; sleep 1000'
  until_true 10 grep -q "still running" "$work/err" || reasons+="no timeout; "
  kill -INT $launcher; sleep 0.2; kill -INT $launcher
  ended 5; want "exit code" $code 124; clean
}

test_python_gets_SIGINT() {
  cat >"$work/wait.py" <<'END'
import sys, time
try:
    print("ready", flush=True)
    time.sleep(100)
except KeyboardInterrupt:
    print("KeyboardInterrupt", flush=True)
    if len(sys.argv) > 1:
        raise
END
  start -n 3 python3 "$work/wait.py"; until_true 20 eval '[ "$(grep -c ready "$work/out")" = 3 ]'
  kill -INT $launcher; ended 10; want "exit code of those who catch it" $code 0
  want "ranks that saw it" "$(grep -c KeyboardInterrupt "$work/out")" 3
  start -n 3 python3 "$work/wait.py" raise; until_true 20 eval '[ "$(grep -c ready "$work/out")" = 3 ]'
  kill -INT $launcher; ended 10; want "exit code of those who do not" $code 130; clean
}

test_forwarded_signals() {
  local signal
  for signal in USR1 USR2 ALRM ABRT; do
    start -n 2 sh -c "trap 'echo got $signal; exit 0' $signal; echo ready; while :; do sleep 0.05; done"
    until_true 10 eval '[ "$(grep -c ready "$work/out")" = 2 ]'
    kill -$signal $launcher; ended 10; want "exit code after $signal" $code 0
    want "ranks that got $signal" "$(grep -c "got $signal" "$work/out")" 2
  done
  start -n 2 sh -c 'echo ready; exec sleep 100'
  until_true 10 eval '[ "$(grep -c ready "$work/out")" = 2 ]'
  kill -TSTP $launcher
  until_true 5 eval '[ "$(ps -o stat= --ppid $launcher | grep -c "^T")" = 2 ]' || reasons+="ranks are not stopped; "
  until_true 5 eval 'ps -o stat= -p $launcher | grep -q "^T"' || reasons+="mpirun is not stopped; "
  kill -CONT $launcher
  until_true 5 eval '[ "$(ps -o stat= --ppid $launcher | grep -c "^T")" = 0 ]' || reasons+="ranks do not go on; "
  kill -TERM $launcher; ended 5; want "exit code" $code 143; clean
}

run_tests "$@"
