#!/bin/bash
# mpirun as parallel debuggers see it: the MPIR interface, driven by gdb.
# usage: debugger.sh [TEST...]    see lib.sh
. "$(dirname "$0")/lib.sh"
command -v gdb >/dev/null || { echo "no gdb: skipped"; exit 77; }
gdb -nx -batch -ex run --args true 2>&1 | grep -q "exited normally" || { echo "gdb may not trace here: skipped"; exit 77; }
# a program without symbols would say so itself; a debugger's own settings and downloads stay out
export DEBUGINFOD_URLS=

test_started_by_a_debugger() { # ranks stand still until the table has been read, then go on by themselves
  cat >"$work/script" <<END
set pagination off
set breakpoint pending on
break main
run
set var MPIR_being_debugged = 1
break MPIR_Breakpoint
continue
printf "size %d state %d\n", MPIR_proctable_size, MPIR_debug_state
python
import gdb, os
for i in range(int(gdb.parse_and_eval("MPIR_proctable_size"))):
    entry = gdb.parse_and_eval("MPIR_proctable[%d]" % i)
    pid = int(entry["pid"])
    state = open("/proc/%d/stat" % pid).read().rsplit(")", 1)[1].split()[0]
    rank = [v for v in open("/proc/%d/environ" % pid).read().split("\0") if v.startswith("PMI_RANK=")][0]
    print("entry", i, rank, state, os.path.basename(os.readlink("/proc/%d/exe" % pid)), os.path.basename(entry["executable_name"].string()), entry["host_name"].string())
end
continue
END
  timeout 60 gdb -nx -batch -x "$work/script" --args "$MPIRUN" -n 3 "$CLIENT" exchange >"$work/out" 2>&1 </dev/null
  if grep -q "Python scripting is not supported" "$work/out"; then echo "     (this gdb has no Python: skipped)"; return; fi
  has "$work/out" "size 3 state 1"
  want "entries" "$(grep '^entry' "$work/out")" "$(for r in 0 1 2; do echo "entry $r PMI_RANK=$r t boot_client boot_client $(hostname)"; done | sed 's/ t / T /')"
  has "$work/out" "exchange of 3 ranks passed"
  has "$work/out" "exited normally"
  clean
}

test_attached_to() {
  start -n 2 "$CLIENT" wait
  timeout 60 gdb -nx -batch -p $launcher -ex 'printf "size %d state %d pids %d %d\n", MPIR_proctable_size, MPIR_debug_state, MPIR_proctable[0].pid, MPIR_proctable[1].pid' \
    >"$work/gdb" 2>&1 </dev/null
  has "$work/gdb" "size 2 state 1 pids $(rank_pid 0) $(rank_pid 1)"
  kill -TERM $launcher; ended 5; want "exit code" $code 143; clean
}

test_abort_is_told() {
  cat >"$work/script" <<END
set pagination off
break MPIR_Breakpoint if MPIR_debug_state == 2
run
printf "why: %s\n", MPIR_debug_abort_string
continue
END
  timeout 60 gdb -nx -batch -x "$work/script" --args "$MPIRUN" -n 2 "$CLIENT" abort 1 7 >"$work/out" 2>&1 </dev/null
  has "$work/out" "why: mpirun: rank 1 .*because the test says so"
  has "$work/out" "exited with code 07"
  clean
}

run_tests "$@"
