#!/bin/bash
# Tests of what is said of the ways that messages take (mpirun --report-paths, weft paths), and of WEFT_NET.
# usage: paths.sh [TEST...]    see lib.sh
. "$(dirname "$0")/lib.sh"
weft=${MPIRUN%/*}/weft
paths() { timeout -k 5 60 "$weft" paths "$@" </dev/null >"$work/out" 2>"$work/err"; }

test_one_host() {
  paths -n 3; want "status" $? 0
  has "$work/err" "^weft: paths of 3 ranks on 1 host$"
  has "$work/err" "^weft:   within a host  shm (.* us, .* GB/s, published).*  \[ranks 0-2 on [^ ]*\]$"
  has "$work/err" "^weft:   not used  *ucx: all ranks are on one host"
  want "its output" "$(cat "$work/out")" ""
  want "headings" "$(grep -c "paths of" "$work/err")" 1
  paths -n 1; want "alone" $? 0; has "$work/err" "one rank sends to itself only"
  clean
}

test_only_where_asked_for() {
  run -n 2 "$weft" trial-rank >"$work/out" 2>&1; want "status" $? 0; want "said unasked" "$(cat "$work/out")" ""
  run -n 2 --report-paths "$weft" trial-rank >"$work/out" 2>&1; want "status" $? 0; has "$work/out" "within a host"
  run -n 2 -x WEFT_REPORT_PATHS=1 "$weft" trial-rank >"$work/out" 2>&1; want "status" $? 0; has "$work/out" "within a host"
  clean
}

test_ranks_that_were_not_told() { # the others do not wait for them
  run -n 1 -x WEFT_REPORT_PATHS=1 "$weft" trial-rank : -n 1 "$weft" trial-rank >"$work/out" 2>&1; want "status" $? 0
  has "$work/out" "paths of 2 ranks"
  run -n 1 "$weft" trial-rank : -n 1 -x WEFT_REPORT_PATHS=1 "$weft" trial-rank >"$work/out" 2>&1; want "status" $? 0
  clean
}

test_kinds_of_pairs() { # ranks from which the same can be said stand together
  run -n 2 --report-paths "$weft" trial-rank : -n 3 -x WEFT_NET=tcp "$weft" trial-rank >"$work/out" 2>&1; want "status" $? 0
  has "$work/out" "within a host  shm (.*also tcp lo .*)  \[ranks 0-1 on [^ ]*\]$"
  has "$work/out" "within a host  tcp lo ([^)]*)  \[ranks 2-4 on [^ ]* -> ranks 0-4 on "
  has "$work/out" "not reached over shm  \[rank 0 on [^ ]* -> ranks 2-4 on [^ ]*, rank 1 on [^ ]* -> ranks 2-4 on "
  has "$work/out" "not used  *ucx: WEFT_NET does not name it"
  clean
}

test_measured() { # what was measured is what ways cost from then on, for every rank
  paths --measure -n 4 -x WEFT_PML_LANES=4; want "status" $? 0; has "$work/err" "within a host  shm (.*, measured).*  \[ranks 0-3 on "
  paths --measure -n 4; want "status" $? 0
  has "$work/err" "within a host  shm (.* us, .* GB/s, measured); also tcp lo (.* us, .* GB/s, measured).*  \[ranks 0-3 on "
  want "kinds of pairs" "$(grep -c "within a host" "$work/err")" 1
  clean
}

test_wishes() {
  paths -n 2 -x WEFT_NET=tcp; want "status" $? 0
  has "$work/err" "within a host  tcp "; has "$work/err" "not used  *shm: WEFT_NET does not name it"
  paths -n 2 -x WEFT_NET=tcp,shm; has "$work/err" "within a host  shm .*; also tcp "  # the cheaper one first, whatever the order
  run -n 1 -x WEFT_NET=pigeons "$weft" trial-rank >"$work/out" 2>&1; want "no such transport" $(($? != 0)) 1
  has "$work/out" "\"pigeons\" that does not exist; there are: auto, self, shm, "
  clean
}

test_ucx() {
  run -n 1 -x WEFT_NET=ucx -x WEFT_PLUGINS="$work/nowhere" "$weft" trial-rank >"$work/out" 2>&1; want "no plugin" $(($? != 0)) 1
  has "$work/out" "there is no .*/nowhere/btl_ucx.so; it needs UCX both when Weft is configured"
  if [ -e "${MPIRUN%/*}/../lib/weft/btl_ucx.so" ]; then
    mkdir -p "$work/broken"
    echo 'no library' >"$work/broken/btl_ucx.so"
    run -n 1 -x WEFT_NET=ucx -x WEFT_PLUGINS="$work/broken" "$weft" trial-rank >"$work/out" 2>&1; want "no plugin but a file" $(($? != 0)) 1
    has "$work/out" "the transport ucx, which WEFT_NET asks for, cannot be used: .*broken/btl_ucx.so"
    paths -n 2 -x WEFT_NET=ucx -x UCX_TLS=tcp,self; want "status" $? 0; has "$work/err" "within a host  ucx ("
    run -n 2 -x WEFT_NET=ucx -x UCX_TLS=nonsense "$weft" trial-rank >"$work/out" 2>&1; want "no transport of UCX" $(($? != 0)) 1
    has "$work/out" "UCX_TLS"
    # the handlers of crashes stay the program's, unused settings of UCX are not complained about
    run -n 1 -x WEFT_NET=ucx -x UCX_NO_SUCH_SETTING=1 "$weft" trial-rank >"$work/out" 2>&1; want "quiet" "$(cat "$work/out")" ""
  fi
  clean
}

run_tests "$@"
