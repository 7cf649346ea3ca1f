#!/bin/bash
# How good the choice of algorithms is: `weft tune` on beds of several shapes measures each algorithm of each collective, and
# selection.py says in how many cells what is chosen is within 10 % of the best: by thresholds, by the model and by the first run's table,
# judged by the others. As the hosts of a bed share processors, a single run is off by 10 % in some cells, where algorithms of equal messages
# differ: RUNS (4) of them take some 4 minutes a shape each.
#   selection.sh [--quick] [SHAPE...]     SHAPE: HOSTSxRANKS[@MBIT[/US]]: so many ranks on each host, links of MBIT Mbit/s with US microseconds
# 1xN runs on this machine. On the beds all hosts share its processors, so that links have to be slow for them to be what counts. Needs root otherwise; a bed of --latency goes through a switch in user space.
set -eu
. "$(dirname "$0")/../../contrib/lib/common.sh"
here=$SRC/test/beds
work=$OUT/perf/selection
. "$here/lib/bed.sh"
options=()
[ "${1:-}" != --quick ] || { options=(--quick); shift; }
[ $# -gt 0 ] || set -- 1x2 1x4 1x6 2x1@200/500 4x1@200/500 7x1@200/500 8x1@200/500 2x3@200/500 2x4@200/500 4x4@200/500

measure() { # measure SHAPE FOLDER: its table is FOLDER/SHAPE.json
  local shape=${1%@*} limits=() hosts='' n
  local count=${shape%x*} each=${shape#*x} table
  table=$2/${1//[@\/]/-}.json
  case $1 in *@*/*) limits=(--latency "${1##*/}") ;; esac
  case $1 in *@*) n=${1#*@} limits+=(--rate "${n%/*}") ;; esac
  for ((n = 1; n <= count; ++n)); do hosts+=${hosts:+,}node$n:$each; done
  say "  $1"
  if [ "$count" -eq 1 ]; then
    WEFT_COLL_TABLE=none timeout 600 "$PREFIX/bin/weft" tune "${options[@]}" --output "$table" --bind-to none -n "$each" >"$work/out" 2>&1 </dev/null || broken "$1"
    return
  fi
  bed_up perf "$here/cluster" up "$count" "${limits[@]}" --share "$work" --share "$PREFIX"
  timeout 900 "$here/cluster" exec head -- env WEFT_COLL_TABLE=none "$PREFIX/bin/weft" tune "${options[@]}" --output "$table" \
    --bind-to none -H "$hosts" -n $((count * each)) >"$work/out" 2>&1 </dev/null || broken "$1"
  bed_down
}

broken() { # broken WHAT: a failure, with what the job has said
  cat "$work/out"
  die "$1: no table"
}

mkdir -p "$work"
for shape; do [ "${shape%%x*}" -eq 1 ] || can_bed || skip "$why_not"; done
rm -rf "${work:?}"/[1-9] # more runs than this time may have been made before
for ((run = 1; run <= ${RUNS:-4}; ++run)); do
  mkdir -p "$work/$run"
  for shape; do measure "$shape" "$work/$run"; done
done
python3 "$SRC/test/perf/selection.py" --weft "$PREFIX/bin/weft" --misses "$work"/[1-9] | tee "$work/table.md"
result "$(tail -n 1 "$work/table.md")"
