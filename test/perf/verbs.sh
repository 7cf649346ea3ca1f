#!/bin/bash
# Weft over verbs beside perftest's tools, and beside Open MPI over UCX's rc if it is there: on soft-RoCE, in test/beds/rdma-vm, two hosts
# with one rail, taking turns. Only ratios mean anything.
#   verbs.sh PREFIX [OPENMPI [ROUNDS]]     two installations (folders above bin/); 3 rounds
# Latency: the median of the rounds' medians. Bandwidth: that of their best windows; ib_write_bw's own average.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
sizes='8 1024 4096' large=1048576

ours() { # ours WHO MPIRUN PROGRAM OPTION...
  local who=$1 mpirun=$2 program=$3
  shift 3
  timeout 120 "$mpirun" "$@" -H node1,node2 -n 2 "$program" 20 $sizes $large 2>"$work/err" | sed "s/^/$who /" || { cat "$work/err" >&2; return 1; }
}

# perftest TOOL SIZE ROUNDS COLUMN: one value. The server needs a moment before it listens
perftest() {
  local server attempt
  ssh node1 "$1" -d rxe1r0 -x 1 -F -s "$2" -n "$3" >/dev/null 2>&1 &
  server=$!
  for attempt in 1 2 3 4 5 6 7 8; do
    sleep 0.5
    ssh node2 "$1" -d rxe2r0 -x 1 -F -s "$2" -n "$3" node1 >"$work/perftest" 2>&1 && break
  done
  wait $server || true
  awk -v size="$2" -v column="$4" '$1 == size { print $column }' "$work/perftest"
}

if [ "${1:-}" = inside ]; then
  work=$2 prefix=$3 openmpi=$4
  for ((round = 0; round < $5; round++)); do
    WEFT_NET=verbs ours weft "$prefix/bin/mpirun" "$work/weft" --bind-to none
    [ -z "$openmpi" ] || ours openmpi "$openmpi/bin/mpirun" "$work/openmpi" --allow-run-as-root --bind-to none --prefix "$openmpi" --mca pml ucx \
      --mca osc ucx -x UCX_TLS=rc_v,ud_v,self -x UCX_IB_ROCE_REACHABILITY_MODE=all -x UCX_UD_VERBS_ETH_DGID_CHECK=n -x UCX_LOG_LEVEL=fatal
    for size in $sizes; do echo "perftest latency $size $(perftest ib_send_lat "$size" 1000 5)"; done
    echo "perftest bandwidth $large $(perftest ib_write_bw $large 100 4)"
  done
  exit
fi

prefix=$(readlink -f "$1") openmpi=${2:+$(readlink -f "$2")}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$prefix/bin/mpicc" -O2 -o "$work/weft" "$here/medians.c"
[ -z "$openmpi" ] || "$openmpi/bin/mpicc" -O2 -o "$work/openmpi" "$here/medians.c"
"$here/../beds/rdma-vm" --timeout 900 --nodes 2 --rails 1 --share "$here" --share "$work" --share "$prefix" ${openmpi:+--share "$openmpi"} -- \
  "$here/verbs.sh" inside "$work" "$prefix" "$openmpi" "${3:-3}" >"$work/rows"
awk '{ key = $2 " " $3; if (!(key in seen)) { seen[key] = 1; keys[++n] = key }; values[$1, key, ++count[$1, key]] = $4 }
  function median(who, key,   i, j, m, v, t) {
    m = count[who, key]; if (!m) return 0
    for (i = 1; i <= m; i++) v[i] = values[who, key, i] + 0
    for (i = 1; i <= m; i++) for (j = i + 1; j <= m; j++) if (v[j] < v[i]) { t = v[i]; v[i] = v[j]; v[j] = t }
    return v[int((m + 1) / 2)]
  }
  function ratio(row, a, b) { return a && b ? sprintf("%.2f", row == "latency" ? a / b : b / a) : "" }
  END {
    print "| Row | Unit | Weft | perftest | Ratio | Open MPI | Ratio |\n|---|---|---:|---:|---:|---:|---:|"
    for (i = 1; i <= n; i++) {
      split(keys[i], part, " "); w = median("weft", keys[i]); p = median("perftest", keys[i]); o = median("openmpi", keys[i])
      print "| " part[1] ", " part[2] " B | " (part[1] == "latency" ? "us" : part[1] == "rate" ? "1/ms" : "MB/s") " | " w " | " (p ? p : "") " | " ratio(part[1], w, p) " | " (o ? o : "") " | " ratio(part[1], w, o) " |"
    }
  }' "$work/rows"
