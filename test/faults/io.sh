#!/bin/bash
# What goes into the ranks and comes out of them: to whom, where to, and all of it.
# usage: io.sh [TEST...]    see lib.sh
. "$(dirname "$0")/lib.sh"

test_1GB_in_and_out() {
  local sum all
  head -c 8388608 /dev/urandom >"$work/block"
  all() { local i; for i in $(seq 128); do cat "$work/block"; done; }
  sum=$(all | cksum)
  want "1 GB through rank 0" "$(all | timeout 100 "$MPIRUN" -n 2 sh -c '[ $PMI_RANK = 0 ] || exec cat; exec cat' | cksum)" "$sum"
  want "1 GB to both ranks" "$(all | timeout 100 "$MPIRUN" -n 2 --stdin all cksum)" "$sum"$'\n'"$sum"
}

test_stdin_of_a_rank() {
  want "to rank 2" "$(seq 1000 | timeout 20 "$MPIRUN" -n 4 --stdin 2 --tag-output cat | tail -n 1)" "[2] 1000"
  want "lines" "$(seq 1000 | timeout 20 "$MPIRUN" -n 4 --stdin 2 --tag-output cat | grep -c '^\[2\] ')" 1000
  want "to nobody" "$(seq 1000 | timeout 20 "$MPIRUN" -n 4 --stdin none cat | wc -l)" 0
  run -n 2 --stdin 2 cat >"$work/out" 2>"$work/err"; want "exit code" $? 2; has "$work/err" "ranks 0 to 1"
}

test_stdin_of_all() {
  local n
  for n in 1 2 5; do
    want "through a pipe to $n" "$(seq 100000 | timeout 20 "$MPIRUN" -n $n --stdin all cksum | sort | uniq -c | awk '{print $1}')" $n
    seq 100000 >"$work/data"
    want "from a file to $n" "$(timeout 20 "$MPIRUN" -n $n --stdin all cksum <"$work/data" | sort | uniq -c | awk '{print $1}')" $n
  done
  want "what comes late" "$({ echo a; sleep 0.3; echo b; } | timeout 20 "$MPIRUN" -n 3 --stdin all cat | sort | tr '\n' ' ')" "a a a b b b "
  want "the rest of a file" "$({ read -r _; timeout 20 "$MPIRUN" -n 2 --stdin all cat; } <"$work/data" | awk '{s += $1} END {printf "%d %.0f", NR, s}')" \
    "199998 $((2 * (100000 * 100001 / 2 - 1)))"
  # one rank wants nothing, one leaves in the middle, two read all
  want "lines" "$(seq 300000 | timeout 20 "$MPIRUN" -n 4 --stdin all sh -c 'case $PMI_RANK in 0) exit 0;; 1) exec head -n 5;; *) exec wc -l;; esac' \
    | sort | uniq -c | awk '$2 > 5 {print $1, $2}')" "2 300000"
  want "nothing" "$(timeout 20 "$MPIRUN" -n 3 --stdin all cat </dev/null | wc -c)" 0
  clean
}

test_back_pressure() { # nobody reads for a while: the source waits, mpirun does not swallow it
  mkfifo "$work/fifo"
  { head -c 200000000 /dev/zero; : >"$work/source.done"; } >"$work/fifo" &
  : >"$work/out"
  "$MPIRUN" -n 2 --stdin all sh -c 'echo ready; while [ ! -e "$0" ]; do sleep 0.05; done; exec wc -c' "$work/go" <"$work/fifo" >"$work/out" 2>"$work/err" &
  launcher=$!
  until_true 20 grep -q ready "$work/out"
  sleep 0.5
  [ ! -e "$work/source.done" ] || reasons+="the source could end although nobody reads; "
  awk '/VmHWM/ {print $2}' /proc/$launcher/status >"$work/memory"
  ldd "$MPIRUN" | grep -qE 'lib[at]san' || [ "$(cat "$work/memory")" -lt 40000 ] || reasons+="mpirun grew to $(cat "$work/memory") kB; "
  : >"$work/go"
  ended 20
  want "bytes" "$(grep -v ready "$work/out" | tr '\n' ' ')" "200000000 200000000 "
}

test_output_folder() {
  run -n 12 --output "dir=$work/a/b" sh -c 'echo out $PMI_RANK; echo err $PMI_RANK >&2; printf end' >"$work/out" 2>"$work/err"; want "exit code" $? 0
  want "files" "$(ls "$work/a/b" | tr '\n' ' ')" "$(seq -f 'rank.%02g' -s ' ' 0 11) "
  want "a file" "$(sort "$work/a/b/rank.07" | tr '\n' ' ')" "end err 7 out 7 "
  want "lines here" "$(grep -c '' "$work/out")/$(grep -c '' "$work/err")" 24/12
  run -n 2 --output "dir=$work/c,nocopy,tag" sh -c 'seq 100000' >"$work/out"
  want "lines here with nocopy" "$(wc -l <"$work/out")" 0
  want "lines there" "$(cat "$work"/c/rank.* | wc -l)" 200000
  run -n 2 --output "dir=$work/c,nocopy" echo new >"$work/out"
  want "files of an earlier job" "$(cat "$work"/c/rank.* | tr '\n' ' ')" "new new "
  : >"$work/file"
  run -n 2 --output "dir=$work/file/x" echo lost >"$work/out" 2>"$work/err"; want "exit code where no folder can be" $? 1; has "$work/err" "$work/file"
  clean
}

test_tag_and_time() {
  run -n 3 --output tag,timestamp sh -c 'seq 100; seq 100 >&2' >"$work/out" 2>&1
  want "lines" "$(grep -cE '^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\.[0-9]{3} \[[0-2]\] [0-9]+$' "$work/out")" 600
  run -n 3 --output "timestamp,dir=$work/stamped" seq 100 >/dev/null
  want "lines in a file" "$(grep -cE '^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\.[0-9]{3} [0-9]+$' "$work/stamped/rank.1")" 100
}

test_all_at_exit() { # the ranks are gone long before the reader takes what they wrote
  want "bytes" "$(run -n 4 sh -c 'yes | head -c 300000; yes | head -c 300000 >&2' 2>&1 | { sleep 2.5; wc -c; })" 2400000
  want "the last of a killed rank" "$(run -n 2 sh -c '[ $PMI_RANK = 0 ] && { printf last; kill -9 $$; }; sleep 20' 2>/dev/null)" last
}

test_full_disk() {
  run -n 2 echo lost >/dev/full 2>"$work/err"; want "exit code" $? 1; has "$work/err" "standard output: No space left"
  want "messages" "$(grep -c '' "$work/err")" 1
  unshare -m true 2>/dev/null || return
  mkdir -p "$work/small"
  timeout 60 unshare -m sh -c 'mount -t tmpfs -o size=64k none "$1" && exec "$2" -n 1 --output "dir=$1,nocopy" seq 50000' sh "$work/small" "$MPIRUN" \
    >"$work/out" 2>"$work/err" </dev/null
  want "exit code of a full folder" $? 1; has "$work/err" "rank.0.*No space left"
  want "the last line, here" "$(tail -n 1 "$work/out")" 50000
}

run_tests "$@"
