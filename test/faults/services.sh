#!/bin/bash
# What a job's PMIx servers offer (published names, groups, connections, events) and spawned ranks; on one host, and on pretended ones
# whose daemons are started by a program that takes ssh's place.
# usage: services.sh [TEST...]    see lib.sh
. "$(dirname "$0")/lib.sh"
PMIX_CLIENT=${PMIX_CLIENT:-$(dirname "$CLIENT")/pmix_client}
printf '#!/bin/sh\nwhile [ $# -gt 1 ]; do shift; done\nexec sh -c "$1"\n' >"$work/no_ssh"
chmod +x "$work/no_ssh"
hosts=(--launcher-exec "$work/no_ssh" -H h1:2,h2:2,h3:2,h4:2 -n 8)

good() { # good LINE ARGS...: a job that ends well, saying LINE and nothing else
  local line=$1; shift
  run "$@" >"$work/out" 2>&1; want "exit code of $*" $? 0; has "$work/out" "$line"; want "lines" "$(wc -l <"$work/out")" 1
}

test_services() {
  local what n
  for what in names groups events; do
    for n in 1 2 5 16; do good "$what of $n ranks passed" -n $n "$PMIX_CLIENT" $what; done
  done
  clean
}

test_services_over_hosts() {
  local what n
  for what in names groups events; do
    for n in 1 16; do good "$what of 8 ranks passed" --fanout $n "${hosts[@]}" "$PMIX_CLIENT" $what; done
  done
  clean
}

test_spawn() {
  good "1 times 1 spawned ranks passed" -n 1 "$CLIENT" spawn 1
  good "2 times 5 spawned ranks passed" -n 2 "$CLIENT" spawn 5
  good "nested in weft-.*\.4" -n 1 "$CLIENT" nest 4
  run -n 3 "$CLIENT" nest 2 >"$work/out" 2>&1; want "exit code" $? 0; want "nested" "$(grep -c nested "$work/out")" 3
  clean
}

test_spawn_often() { # what is over takes no room
  good "spawned 60 times" -n 2 "$CLIENT" often 60
  good "spawned 40 times" "${hosts[@]}" "$CLIENT" often 40
  clean
}

test_spawn_over_hosts() {
  local n
  for n in 1 16; do good "8 times 3 spawned ranks passed" --fanout $n "${hosts[@]}" "$CLIENT" spawn 3; done
  good "8 times 5 spawned ranks passed" "${hosts[@]}" "$CLIENT" spawn 5 h4 h2
  clean
}

test_spawn_fails() {
  good "failures to spawn passed" -n 2 "$CLIENT" failing "$(uname -n)"
  good "failures to spawn passed" "${hosts[@]}" "$CLIENT" failing h3
  clean
}

test_spawned_ranks_end_the_job() {
  local where
  for where in "-n 2" "${hosts[*]}"; do
    run $where "$CLIENT" brood signal 1 11 >"$work/out" 2>"$work/err"; want "exit code" $? 139; has "$work/err" "rank 1.1 (pid.*SIGSEGV"
    run $where "$CLIENT" brood abort 0 5 >"$work/out" 2>"$work/err"; want "exit code" $? 5; has "$work/err" "rank 1.0 (pid.*test says so"
    want "messages" "$(grep -c '^mpirun:' "$work/err")" 1
    clean
  done
}

test_spawned_ranks_end_with_the_job() {
  local spawned
  spawned() { pgrep -f "^$CLIENT wait" | wc -l; }
  start -n 2 "$CLIENT" brood wait
  want "spawned ranks" "$(spawned)" 2
  kill -9 "$(rank_pid 1)"; ended 5; want "exit code" $code 137; clean
  start -n 2 "$CLIENT" brood wait; kill -9 $launcher; ended 5; clean 5
  start -n 2 "$CLIENT" brood orphan; kill -TERM $launcher; ended 5; want "exit code of TERM" $code 143; clean
  start "${hosts[@]}" "$CLIENT" brood wait
  kill -9 $launcher; ended 5; clean 8
  start -n 1 --output tag,dir="$work/files" "$CLIENT" brood wait
  until_true 5 grep -qx '\[1.0\] ready' "$work/out" || reasons+="no tag of a spawned rank: $(cat "$work/out"); "
  want "its file" "$(cat "$work/files/rank.1.0")" ready
  kill -TERM $launcher; ended 5; clean
}

alone() { WEFT_BOOT_MPIRUN=$MPIRUN timeout -k 5 60 "$CLIENT" "$@" </dev/null; }
own_mpirun() { pgrep -f '^mpirun --for-singleton' | while read -r p; do grep -qsz "^TMPDIR=$TMPDIR$" "/proc/$p/environ" && cat "/proc/$p/comm" | grep -q mpirun && echo "$p" && break; done; }

test_singleton_spawns() { # a process without mpirun gets one of its own
  alone spawn 5 >"$work/out" 2>&1; want "exit code" $? 0; want "words" "$(cat "$work/out")" "1 times 5 spawned ranks passed"; clean
  alone nest 3 >"$work/out" 2>&1; want "exit code" $? 0
  until_true 10 grep -q 'nested in weft-.*\.3' "$work/out" || reasons+="not nested: $(cat "$work/out"); "; clean
  alone failing "$(uname -n)" >"$work/out" 2>&1; want "exit code" $? 0; has "$work/out" "failures to spawn passed"; clean
  alone brood signal 1 11 >"$work/out" 2>&1; want "exit code" $? 143; has "$work/out" "rank 1.1 (pid.*SIGSEGV"; clean
  WEFT_BOOT_MPIRUN=/no/mpirun timeout 20 "$CLIENT" spawn 1 >"$work/out" 2>&1; want "exit code" $? 99; has "$work/out" "/no/mpirun"; clean
}

test_singleton_and_its_mpirun_die() {
  local p m
  for victim in self mpirun; do
    : >"$work/out"
    WEFT_BOOT_MPIRUN=$MPIRUN "$CLIENT" brood wait >"$work/out" 2>"$work/err" </dev/null & p=$!
    until_true 20 grep -q ready "$work/out" || reasons+="the job did not get ready; "
    m=$(own_mpirun)
    [ -n "$m" ] || reasons+="no mpirun; "
    if [ $victim = self ]; then kill -9 $p; else kill -9 "$m"; fi
    until_true 5 eval '[ -z "$(pgrep -f "^$CLIENT wait")" ]' || reasons+="spawned ranks outlive the end of $victim; "
    kill -9 $p 2>/dev/null
    wait $p 2>/dev/null
    clean 5
  done
}

run_tests "$@"
