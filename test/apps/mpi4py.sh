#!/bin/bash
# mpi4py, built from its source distribution by our mpicc.
#   mpi4py.sh build | helloworld | ringtest | numpy     its own benchmarks, and an allreduce of numpy arrays, on 4 ranks
#   mpi4py.sh suite RANKS [local|joint] [options of its test/main.py]     its own test suite, without what mpi4py.skip names
#   mpi4py.sh --net LIST ...     over these transports (WEFT_NET); what is not named, shared memory too, is switched off
#   mpi4py.sh --late ...         with messages that come late, and in another order between different peers (WEFT_WRAP)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../../contrib/lib/common.sh"
version=4.1.2
python=$OUT/venv/bin/python
sources=$OUT/apps/mpi4py-$version
ranks=${RANKS:-4} net=''
while :; do
  case ${1:-} in
    --net) export WEFT_NET=$2; net=$net.${2//,/-}; shift 2 ;;
    --late) export WEFT_WRAP=delay=0us-300us,reorder=0.1; net=$net.late; shift ;;
    *) break ;;
  esac
done

# Rebuilt when our header or wrapper changes: the only things of ours that end up in it.
build() {
  compiled_with_ours "$OUT/venv/mpi4py.stamp" && [ -d "$sources" ] && return
  say "building mpi4py $version"
  python_environment setuptools wheel build cython numpy
  if [ ! -d "$sources" ]; then
    ls "$DOWNLOADS/mpi4py-$version.tar.gz" >/dev/null 2>&1 || pip_download --no-binary mpi4py "mpi4py==$version"
    mkdir -p "$OUT/apps"
    tar -xf "$DOWNLOADS/mpi4py-$version.tar.gz" -C "$OUT/apps"
  fi
  # one large file: through ccache where it is there, and with little optimisation, as nobody measures this build
  with_ccache
  rm -rf "$sources/build"
  CFLAGS="-O0 -g0" MPICC=$PREFIX/bin/mpicc "$python" -m pip --disable-pip-version-check install --quiet --no-cache-dir --force-reinstall \
    --no-deps --no-build-isolation "$sources"
  remember_ours "$OUT/venv/mpi4py.stamp"
}

# One process (or thread) at a time builds.
build_once() {
  exec 8>"$OUT/mpi4py.lock"
  flock 8
  build
  exec 8>&-
}

helloworld() {
  run_mpi "$ranks" "$python" -m mpi4py.bench helloworld | tee "$OUT/apps/helloworld.out"
  [ "$(sort -u "$OUT/apps/helloworld.out" | grep -c "^Hello, World! I am process *[0-9]* of $ranks on ")" -eq "$ranks" ] ||
    die "not every one of $ranks ranks said hello"
  result "$ranks ranks said hello"
}

ringtest() {
  run_mpi "$ranks" "$python" -m mpi4py.bench ringtest -l 100 -n 1024 | tee "$OUT/apps/ringtest.out"
  grep -q 'time for 100 loops' "$OUT/apps/ringtest.out" || die "no result"
  result "$(sed -n 's/.*= *\([0-9.e-]* seconds\).*/100 rounds of 1 KiB in \1/p' "$OUT/apps/ringtest.out")"
}

numpy() {
  run_mpi "$ranks" "$python" "$here/allreduce.py" | tee "$OUT/apps/numpy.out"
  result "$(tail -n 1 "$OUT/apps/numpy.out")"
}

# modules whose tests need no other rank
local_modules='test_(address|attributes|buffer|cffi|ctypes|datatype|doc|environ|errhandler|errorcode|exceptions|grequest|group|handle|info'
local_modules+='|mpiabi|mpiapi|mpimem|msgspec|objmodel|op|pack|package|pickle|status|subclass|threads|toplevel|util_dtlib)\b'

suite() { # suite RANKS [local|joint] OPTION...: all modules, those that need no other rank, or the others
  local ranks=$1 log
  shift
  case ${1:-} in
    local) shift; set -- -i "$local_modules" "$@" ;;
    joint) shift; set -- -e "$local_modules" "$@" ;;
  esac
  # "module  reason" leaves a module out; "module.Class.test  reason" (with wildcards) single tests
  sed -n 's/^\([a-z_0-9]*\)[[:space:]].*/^\1\\.py$/p' "$here/mpi4py.skip" >"$OUT/apps/skip.modules"
  sed -n 's/^\([^#[:space:]]*\.[^[:space:]]*\).*/\1/p' "$here/mpi4py.skip" >"$OUT/apps/skip.tests"
  log=$OUT/apps/suite.$ranks$net.log
  cd "$sources"
  set -- "$@" --no-builddir -e "$(paste -sd '|' "$OUT/apps/skip.modules")" --xfile "$OUT/apps/skip.tests"
  LIMIT=${LIMIT:-800} run_mpi "$ranks" "$python" -X faulthandler "$here/suite.py" test/main.py -v ${FAILFAST--f} "$@" >"$log" 2>&1 || {
    status=$?
    grep -E -a '(FAIL|ERROR|Error|error|abort|Traceback)' "$log" | head -n 40 || true
    echo "--- the end of $log:"
    tail -n 40 "$log"
    [ $status -eq 124 ] && echo "no end within the limit of time"
    exit 1
  }
  tail -n 5 "$log"
  [ "$(grep -a -c '^OK' "$log")" -eq "$ranks" ] || die "only $(grep -a -c '^OK' "$log") of $ranks ranks came to a good end (see $log)"
  result "$(grep -a -o 'Ran [0-9]* tests' "$log" | head -n 1) on each of $ranks ranks${WEFT_NET:+ over $WEFT_NET}${WEFT_WRAP:+ with $WEFT_WRAP}"
}

build_once
case ${1:-} in
  build) ;;
  helloworld | ringtest | numpy) "$1" ;;
  suite) shift; suite "$@" ;;
  *) die "usage: mpi4py.sh build | helloworld | ringtest | numpy | suite RANKS" ;;
esac
