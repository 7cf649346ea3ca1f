#!/bin/bash
# tcp beside other MPI libraries: latency, message rate and bandwidth of two ranks over loopback, then between two hosts of
# test/beds/cluster (veth; needs root). A column of its own shows what plain sockets do in the same pattern.
#   tcp.sh [OPTIONS OF compare.py] PREFIX OTHER...
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cluster=$here/../beds/cluster
export CLUSTER_NAME=perf$$
folder=$(mktemp -d)
trap '"$cluster" down >/dev/null 2>&1; rm -rf "$folder"' EXIT

shares=(--share "$folder")
for word; do
  [ ! -d "$word/bin" ] || shares+=(--share "$word")
done
compare=("$here/compare.py" --net tcp --sockets --only latency,message_rate,bandwidth,bidirectional)

echo "loopback"
"${compare[@]}" "$@"
"$cluster" up 2 "${shares[@]}" >/dev/null
echo "between two hosts"
"$cluster" exec head -- env TMPDIR="$folder" "${compare[@]}" --hosts node1,node2 "$@"
