# shellcheck shell=sh
# To be sourced: what compiles conformance programs with an installed MPI (PREFIX) and counts their runs.
here=$(cd "$(dirname "$0")" && pwd)
prefix=${PREFIX:?set PREFIX to the installation to test}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
passed=0 failed=0

compile() { # program
  "$prefix/bin/mpicxx" -std=c++20 -O1 -Wall -Wextra ${CONFORMANCE_CXXFLAGS:-} ${SANITIZE:-} -o "$work/$1" "$here/$1.cc"
}

attempt() { # what-it-is mpirun's-arguments...
  what=$1
  shift
  # mpirun's own limit is the one that shows where the ranks are
  if timeout -k 5 "$((${LIMIT:-120} + 30))" "$prefix/bin/mpirun" --timeout "${LIMIT:-120}" ${MPIRUN_FLAGS:-} "$@" </dev/null; then
    passed=$((passed + 1))
  else
    echo "$what: exit status $?"
    failed=$((failed + 1))
  fi
}

conclude() {
  echo "result: $passed runs passed, $failed failed"
  [ "$failed" -eq 0 ]
}
