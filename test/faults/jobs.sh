#!/bin/bash
# weft ps, weft kill and the job's folder: what they show, what they end, and above all what they leave alone.
# usage: jobs.sh [TEST...]    see lib.sh
. "$(dirname "$0")/lib.sh"
WEFT=${WEFT:-$(dirname "$MPIRUN")/weft}

job_name() { "$WEFT" ps | awk -v pid=$launcher '$2 == pid {print $1}'; }
fake_job() { # fake_job NAME PID START [SPACE]: a folder as a running job has it, its lock held by descriptor 9 of this shell
  local folder
  folder=$TMPDIR/weft-$(id -u)-$1
  mkdir -m 700 "$folder"
  printf 'pid %s\nstart %s\nspace %s\nranks 2\nsince 1\nhost h\ndirectory /\ncommand fake\n' "$2" "$3" "${4:-$(readlink /proc/self/ns/pid)}" >"$folder/job"
  exec 9>"$folder/lock"
  flock -n 9
}
start_of() { sed 's/.*) //' "/proc/$1/stat" | cut -d ' ' -f 20; }

test_ps() {
  local job
  want "no jobs" "$("$WEFT" ps | grep -c "no jobs of yours")" 1
  start -n 3 "$CLIENT" wait
  job=$(job_name)
  want "line" "$("$WEFT" ps | awk -v j="$job" '$1 == j {print $3, $5}')" "3 running"
  want "job in JSON" "$("$WEFT" ps --json | python3 -c 'import json, sys; [j] = json.load(sys.stdin); print(j["job"], j["pid"], j["ranks"], j["state"])')" \
    "$job $launcher 3 running"
  want "ranks" "$("$WEFT" ps "$job" | awk '/boot_client/ && $1 ~ /^[0-9]+$/ {print $2}' | sort | tr '\n' ' ')" \
    "$(for r in 0 1 2; do rank_pid $r; done | sort | tr '\n' ' ')"
  grep -qx "OMPI_COMM_WORLD_SIZE=3" "$TMPDIR"/weft-*/environment || reasons+="no environment in the folder; "
  want "readable by others" "$(find "$TMPDIR"/weft-*/ -maxdepth 1 \( -name job -o -name map -o -name environment \) -perm /077 | wc -l)" 0
  kill -STOP "$(rank_pid 1)"
  until_true 5 eval '"$WEFT" ps "$job" | grep -q stopped' || reasons+="a stopped rank is not shown; "
  "$WEFT" ps no-such-job >"$work/out" 2>"$work/err"; want "exit code of an unknown job" $? 1; has "$work/err" "$job"
  "$WEFT" kill "$job" >"$work/out" 2>"$work/err"; want "exit code" $? 0; ended 10; want "mpirun's" $code 143; clean
}

test_kill_by_pid_and_now() {
  start -n 2 "$CLIENT" wait
  "$WEFT" kill $launcher >/dev/null 2>"$work/err"; want "exit code" $? 0; ended 5; want "mpirun's" $code 143; clean
  start -n 2 sh -c 'trap "" TERM; echo ready; while :; do sleep 1; done'
  "$WEFT" kill --now $launcher >/dev/null 2>"$work/err"; want "exit code of --now" $? 0; ended 5; want "mpirun's" $code 137; clean
  start -n 2 "$CLIENT" wait
  kill -STOP $launcher
  "$WEFT" kill $launcher >/dev/null 2>"$work/err"; want "exit code for a stopped mpirun" $? 0; ended 5; want "mpirun's" $code 137; clean
  start -n 2 "$CLIENT" wait
  "$WEFT" kill no-such-job "$(job_name)" >/dev/null 2>"$work/err"; want "exit code of one good and one bad name" $? 1
  has "$work/err" no-such-job; ended 5; want "mpirun's" $code 143; clean
}

test_reused_pid() { # the number of a dead mpirun belongs to somebody else by now
  local other
  sleep 100 & other=$!
  fake_job 1-a $other 12345
  want "state" "$("$WEFT" ps | awk '/fake/ {print $5}')" ending
  { sleep 1; exec 9>&-; } &
  exec 9>&-
  "$WEFT" kill weft-1-a >"$work/out" 2>&1; want "exit code" $? 0
  kill -0 $other 2>/dev/null || reasons+="a stranger was killed; "
  fake_job 2-a $other "$(start_of $other)" "pid:[1]"
  want "state in another container" "$("$WEFT" ps | awk '/weft-2-a/ {print $5}')" elsewhere
  "$WEFT" kill weft-2-a >"$work/out" 2>&1; want "exit code for another container" $? 1
  kill -0 $other 2>/dev/null || reasons+="a process of another container was killed; "
  exec 9>&-
  want "state of a dead one" "$("$WEFT" ps | awk '/weft-2-a/ {print $5}')" dead
  "$WEFT" kill weft-2-a >"$work/out" 2>"$work/err"; want "exit code for a dead one" $? 1; has "$work/err" "dead already"
  kill -0 $other 2>/dev/null || reasons+="a stranger was killed for a dead job; "
  fake_job 3-a $other "$(start_of $other)"  # and the counter-example: all is as it should be
  { sleep 1; exec 9>&-; } &
  exec 9>&-
  "$WEFT" kill weft-3-a >"$work/out" 2>&1; want "exit code" $? 0
  wait $other; want "status of what was the launcher" $? 143
}

test_folders_of_others() {
  local other
  sleep 100 & other=$!
  fake_job 4-a $other "$(start_of $other)"
  mv "$TMPDIR/weft-$(id -u)-4-a" "$work/moved"
  ln -s "$work/moved" "$TMPDIR/weft-$(id -u)-4-a"
  want "jobs behind a link" "$("$WEFT" ps | grep -c fake)" 0
  rm "$TMPDIR/weft-$(id -u)-4-a"; mv "$work/moved" "$TMPDIR/weft-$(id -u)-4-a"
  want "the same without" "$("$WEFT" ps | grep -c fake)" 1
  chmod 777 "$TMPDIR/weft-$(id -u)-4-a"
  want "jobs in a folder that others may write to" "$("$WEFT" ps | grep -c fake)" 0
  chmod 700 "$TMPDIR/weft-$(id -u)-4-a"
  if [ "$(id -u)" = 0 ] && chown 65534 "$TMPDIR/weft-0-4-a" 2>/dev/null; then
    want "jobs in another user's folder" "$("$WEFT" ps | grep -c fake)" 0
    "$WEFT" kill weft-4-a >/dev/null 2>&1; want "exit code" $? 1
  fi
  kill -0 $other 2>/dev/null || reasons+="a stranger was killed; "
  exec 9>&-
  kill $other
}

test_full_folder() { # a file system of its own, with room for nothing: named, not a crash
  unshare -m true 2>/dev/null || { echo "     (full_folder needs mount namespaces: skipped)"; return; }
  cat >"$work/full.sh" <<'END'
mount -t tmpfs -o "size=$1,nr_inodes=$2" none "$TMPDIR" || exit 99
shift 2
exec "$@"
END
  for size in 4k 64k 256k; do
    timeout 60 unshare -m sh "$work/full.sh" $size 1000 "$MPIRUN" -n 4 "$CLIENT" exchange >"$work/out" 2>"$work/err" </dev/null
    want "exit code with $size" $? 1; has "$work/err" "is full"; has "$work/err" "TMPDIR"
  done
  timeout 60 unshare -m sh "$work/full.sh" 10m 10 "$MPIRUN" -n 4 "$CLIENT" exchange >"$work/out" 2>"$work/err" </dev/null
  want "exit code without inodes" $? 1; has "$work/err" "inodes"
  timeout 60 unshare -m sh "$work/full.sh" 384k 1000 "$MPIRUN" -n 4 "$CLIENT" exchange >"$work/out" 2>"$work/err" </dev/null
  want "exit code with just enough" $? 0; has "$work/out" "exchange of 4 ranks passed"
}

run_tests "$@"
