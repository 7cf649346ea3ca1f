# Shared by contrib/* and test/apps/*: places, steps with progress, results. Sourced by bash scripts.
#   SRC     root of the source tree           OUT      everything that the scripts make (default SRC/build/contrib)
#   BUILD   build folder of one flavour       PREFIX   where that flavour is installed

SRC=${SRC:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}
OUT=${OUT:-$SRC/build/contrib}
BUILD=${BUILD:-$OUT/main}
PREFIX=${PREFIX:-$BUILD/inst}
LOGS=$OUT/logs
DOWNLOADS=$OUT/downloads
export SRC OUT BUILD PREFIX
mkdir -p "$LOGS" "$DOWNLOADS"
cores=$(nproc 2>/dev/null || echo 2)

if [ -t 1 ]; then bold=$(printf '\033[1m') plain=$(printf '\033[0m'); else bold='' plain=''; fi

say() { printf '%s\n' "$*"; }
title() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }
die() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 1
}

seconds_since() { awk -v a="$1" -v b="$(date +%s.%N)" 'BEGIN { printf "%.1f", b - a }'; }

# step "What" command...: runs it with its output in a log; says what starts, how long it took, and shows the log's end on failure.
# On a terminal the time runs along, with the last line of the log.
step() {
  local what=$1 log begin pid status
  shift
  log=$LOGS/$(printf '%s' "$what" | tr -cs 'A-Za-z0-9' '-' | tr 'A-Z' 'a-z' | sed 's/-*$//').log
  begin=$(date +%s.%N)
  printf '  %-52s ' "$what"
  "$@" >"$log" 2>&1 </dev/null &
  pid=$!
  if [ -t 1 ]; then
    while kill -0 $pid 2>/dev/null; do
      printf '\r  %-52s %4.0f s  %-40.40s' "$what" "$(seconds_since "$begin")" "$(tail -n 1 "$log" | tr -cd '[:print:]')"
      sleep 0.5
    done
    printf '\r  %-52s %-50s\r  %-52s ' "$what" '' "$what"
  fi
  wait $pid && status=0 || status=$?
  if [ $status -eq 0 ]; then
    printf 'ok      %6s s\n' "$(seconds_since "$begin")"
  else
    printf 'FAILED  %6s s\n' "$(seconds_since "$begin")"
    say "  --- the end of $log:"
    tail -n 40 "$log" | sed 's/^/  | /'
  fi
  step_log=$log
  return $status
}

# result TEXT: one line that contrib/try shows in its table.
result() { printf 'result: %s\n' "$*"; }

# The Python environment of the tests, made once. $1...: packages beyond pip. Debian's python3 brings no pip outside of it.
python_environment() {
  local folder=$OUT/venv package
  mkdir -p "$OUT"
  flock "$OUT/venv.lock" sh -c '[ -x "$1/bin/pip" ] || python3 -m venv "$1"' sh "$folder" || return 1
  for package; do
    "$folder/bin/python" -c "import importlib.metadata as m, sys; m.version(sys.argv[1])" "${package%%[=<>]*}" 2>/dev/null ||
      "$folder/bin/python" -m pip --disable-pip-version-check install --quiet "$package" || return 1
  done
}

# pip_download NAME[==VERSION] [pip options]: puts a wheel or sdist into DOWNLOADS.
pip_download() {
  python_environment &&
    "$OUT/venv/bin/python" -m pip --disable-pip-version-check download --quiet --no-deps --dest "$DOWNLOADS" "$@"
}

# run_mpi RANKS command...: under our launcher, with a limit of time (LIMIT seconds, default 300) and MPIRUN_FLAGS.
run_mpi() {
  local ranks=$1
  shift
  timeout -k 10 "${LIMIT:-300}" "$PREFIX/bin/mpirun" -n "$ranks" ${MPIRUN_FLAGS:-} "$@" </dev/null
}

# Programs that others wrote hold nothing of ours but the header and what the wrappers say: with these unchanged they need no new build.
ours() { cat "$PREFIX/include/mpi.h" "$PREFIX/bin/mpicc" | cksum; echo "$PREFIX"; }
compiled_with_ours() { [ -f "$1" ] && [ "$(cat "$1")" = "$(ours)" ]; } # compiled_with_ours STAMP
remember_ours() { ours >"$1"; }                                        # remember_ours STAMP

# Wrappers and WEFT_CC use ccache where it is there.
with_ccache() {
  if command -v ccache >/dev/null; then export WEFT_CC="ccache gcc" WEFT_CXX="ccache g++" CCACHE_NOHASHDIR=1; fi
}
