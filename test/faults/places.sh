#!/bin/bash
# Tests of where mpirun puts ranks, with real processes: what the kernel says of their CPUs, maps without a start, mistakes in files.
# usage: places.sh [TEST...]    see lib.sh
. "$(dirname "$0")/lib.sh"

allowed() { sed -n 's/^Cpus_allowed_list:\t//p' "${1:-/proc/self/status}"; }
all=$(allowed)
first=${all%%[-,]*}
ask=(sed -n 's/^Cpus_allowed_list:\t//p' /proc/self/status)

test_binding() {
  want "one rank" "$(run -n 1 "${ask[@]}")" "$all"
  want "a set" "$(run -n 2 --cpu-set "$first" "${ask[@]}" | sort -u)" "$first"
  want "one thread" "$(run -n 1 --bind-to hwthread "${ask[@]}")" "$first"
  want "none" "$(run -n 2 --bind-to none "${ask[@]}" | sort -u)" "$all"
  want "crowded" "$(run -n $((3 * $(nproc))) "${ask[@]}" | sort -u)" "$all"
  want "threads" "$(OMP_NUM_THREADS=9999 run -n 2 "${ask[@]}" | sort -u)" "$all"
  want "affinity of mpirun" "$(taskset -c "$first" timeout 60 "$MPIRUN" -n 3 "${ask[@]}" </dev/null | sort -u)" "$first"
  want "overload" "$(run -n 2 --cpu-set "$first" --bind-to core:overload-allowed "${ask[@]}" | sort -u)" "$first"
  run -n 3 --cpu-set "$first" --bind-to hwthread true 2>"$work/err"; want "overloaded" $? 2; has "$work/err" "than it has hardware threads"
  run -n 5 --bind-to none "$CLIENT" exchange >"$work/out" 2>&1; want "exchange" $? 0
  run -n 2 --cpu-set "$first" "$CLIENT" exchange >"$work/out" 2>&1; want "exchange on one CPU" $? 0
  clean
}

test_numbers_of_ranks() {
  want "slots" "$(run -H localhost:3 sh -c 'echo x' | wc -l)" 3
  want "per host" "$(run -ppn 2 sh -c 'echo x' | wc -l)" 2
  want "one a thread" "$(run --use-hwthread-cpus --cpu-set "$first" sh -c 'echo x' | wc -l)" 1
  want "ppr" "$(run --map-by ppr:2:node sh -c 'echo x' | wc -l)" 2
  printf -- '-n 2 sh -c "echo a b"\n# comment\n-n 1 echo c\n' >"$work/config"
  want "configfile" "$(run -configfile "$work/config" | sort | tr '\n' ' ')" "a b a b c "
  clean
}

test_shown() {
  run --dry-run -n 3 touch "$work/started" >"$work/out" 2>"$work/err"; want "dry run" $? 0
  has "$work/out" "3 ranks on 1 host"; has "$work/out" "  rank 2  "
  [ ! -e "$work/started" ] || reasons+="a dry run has started something; "
  run -n 1 --report-bindings --cpu-set "$first" true 2>"$work/err"; has "$work/err" "rank 0 on .*: CPUs $first"
  run -n 1 --display map true 2>"$work/err"; has "$work/err" "1 rank on 1 host"
  clean
}

test_plan_for_another_machine() {
  export HWLOC_SYNTHETIC="pack:2 numa:1 l3:1 core:4 pu:2"
  run --dry-run -n 2 prog >"$work/out" 2>"$work/err"; want "plan" $? 0
  has "$work/out" "2 packages, 2 NUMA nodes, 8 cores, 16 CPUs"; has "$work/out" "rank 1  CPUs 8-15  \[../../../..\]\[BB/BB/BB/BB\]"
  run --dry-run -n 2 -cpus-per-proc 3 prog >"$work/out"; has "$work/out" "rank 1  CPUs 6-11"
  run --dry-run --bind-to core -n 17 prog 2>"$work/err"; want "too many" $? 2; has "$work/err" "8 cores"
  want "ranks of a real job" "$(run -n 2 "${ask[@]}" | sort -u)" "$all"
  unset HWLOC_SYNTHETIC
  clean
}

test_gpus() {
  local stored
  stored="$(dirname "$0")/../unit/place/dgx.xml"
  HWLOC_XMLFILE=$stored run --dry-run -n 4 -gpus-per-proc 1 prog >"$work/out" 2>"$work/err"; want "plan" $? 0
  has "$work/out" "8 GPUs, 8 network interfaces"; has "$work/out" "rank 2  CPUs 16-23 .*  GPU 4 near mlx5_4"
  HWLOC_XMLFILE=$stored CUDA_VISIBLE_DEVICES=3,6 run --dry-run --map-by :GPU=2 prog >"$work/out"; has "$work/out" "1 rank on"
  has "$work/out" "GPUs 3,6 near mlx5_3,mlx5_6"
  HWLOC_XMLFILE=$stored run --dry-run -n 3 --gpus-per-rank 3 prog 2>"$work/err"; want "too few" $? 2
  has "$work/err" "are 9, but there are 8; start 2 ranks"
  # a driver that knows of two GPUs, as ranks then find them; only where this test may mount something over /proc
  [ "$(id -u)" -eq 0 ] && unshare -m sh -c 'mount -t tmpfs tmpfs /proc/driver && mkdir -p /proc/driver/nvidia/gpus/0099:01:00.0' 2>/dev/null || { clean; return; }
  # shellcheck disable=SC2016
  unshare -m sh -c 'mount -t tmpfs tmpfs /proc/driver && mkdir -p /proc/driver/nvidia/gpus/0099:0$0:00.0 /proc/driver/nvidia/gpus/0099:0$1:00.0 && shift && exec "$@"' \
    1 2 timeout -k 5 60 "$MPIRUN" -n 2 -gpus-per-proc 1 sh -c 'echo $PMI_RANK $CUDA_VISIBLE_DEVICES $CUDA_DEVICE_ORDER ${WEFT_NEAR_NICS-unset}' \
    </dev/null >"$work/out" 2>"$work/err"; want "ranks with GPUs" $? 0
  want "GPUs" "$(sed 's/ [^ ]*$//' "$work/out" | sort | tr '\n' ' ')" "0 0 PCI_BUS_ID 1 1 PCI_BUS_ID "
  clean
}

test_files() {
  printf '# hosts\n\nlocalhost slots=2 max_slots=4\n' >"$work/hosts"
  want "from a file" "$(run --hostfile "$work/hosts" sh -c 'echo x' | wc -l)" 2
  want "more than slots" "$(run --hostfile "$work/hosts" -n 4 --oversubscribe sh -c 'echo x' | wc -l)" 4
  run --hostfile "$work/hosts" -n 3 true 2>"$work/err"; want "too many" $? 2; has "$work/err" "line 3 of $work/hosts"
  run --hostfile "$work/hosts" -n 5 --oversubscribe true 2>"$work/err"; want "more than max_slots" $? 2; has "$work/err" "room for 4"
  printf '\n\n\n\n\n\nlocalhost slot=2\n' >"$work/hosts"
  run -f "$work/hosts" true 2>"$work/err"; want "mistake" $? 2; has "$work/err" "line 7 of $work/hosts: .*did you mean slots"
  printf 'rank 0=localhost slot=0\nrank 1=localhost\n' >"$work/ranks"
  run --rankfile "$work/ranks" "${ask[@]}" >"$work/out"; want "rankfile" $? 0; want "ranks" "$(wc -l <"$work/out")" 2
  run --map-by cor true 2>"$work/err"; want "mistyped" $? 2; has "$work/err" "did you mean core"
  clean
}

test_patterns_and_exits() {
  run -n 3 -outfile-pattern "$work/o.%r" -errfile-pattern "$work/e.%h" sh -c 'echo out $PMI_RANK; echo err $PMI_RANK >&2' >"$work/out" 2>"$work/err"
  want "status" $? 0; want "output" "$(cat "$work/out" "$work/err")" ""
  want "files" "$(cat "$work"/o.0 "$work"/o.1 "$work"/o.2 | tr '\n' ' ')" "out 0 out 1 out 2 "
  want "file for all" "$(sort "$work/e.$(uname -n)" | tr '\n' ' ')" "err 0 err 1 err 2 "
  run -n 1 -outfile-pattern "$work/none/o" true 2>"$work/err"; want "no folder" $? 1; has "$work/err" "cannot write its output to $work/none/o: No such"
  run -n 3 -print-all-exitcodes sh -c 'sleep 0.1; exit $((PMI_RANK ? 0 : 4))' 2>"$work/err"; want "code" $? 4; has "$work/err" "^exit code 4: rank 0$"
  clean
}

test_sequence() {
  printf 'localhost\n# three times\nlocalhost slots=1\n\nlocalhost\n' >"$work/hosts"
  want "lines" "$(run -f "$work/hosts" --map-by seq sh -c 'echo x' | wc -l)" 3
  want "names" "$(run -H localhost,localhost -map-by seq sh -c 'echo x' | wc -l)" 2
  run -f "$work/hosts" --map-by seq -n 4 true 2>"$work/err"; want "too many" $? 2; has "$work/err" "4 ranks, but hosts for 3 are named"
  clean
}

# What is mistyped is named, with what helps; nothing is started.
test_mistakes() {
  mistake() { # mistake PATTERN ARGUMENTS...
    local pattern=$1
    shift
    run "$@" >"$work/out" 2>"$work/err"; want "status of $*" $? 2; has "$work/err" "$pattern"
    [ ! -s "$work/out" ] || reasons+="output of $*; "
  }
  mistake "did you mean --report-bindings" --report-binding echo
  mistake "unknown option --nonsense" -n 2 --nonsense echo
  mistake "did you mean core" --bind-to cor echo
  mistake "CPUs 70: ranks on .* may use" --bind-to user:70 echo
  mistake "than it has hardware threads; start fewer, or use --bind-to none" -n $((2 * $(nproc --all) + 1)) --bind-to core echo
  CUDA_VISIBLE_DEVICES="" mistake "there is no GPU that ranks may use" -gpus-per-proc 2 echo
  printf 'localhost\n' >"$work/hosts"
  mistake "-H localhost,elsewhere: elsewhere is not in the hostfile" --hostfile "$work/hosts" -H localhost,elsewhere echo
  mistake "elsewhere is not in the hostfile" -H elsewhere --hostfile "$work/hosts" echo
  mistake "hostfile .*nothere: No such file" --hostfile "$work/nothere" echo
  mistake "is no name of a host" -H 'a;b' echo
  run -n 2 nosuchprogram 2>"$work/err"; want "no program" $? 127; has "$work/err" "cannot start rank [01] (nosuchprogram) on .*: nosuchprogram is not in PATH"
  clean
}

run_tests "$@"
