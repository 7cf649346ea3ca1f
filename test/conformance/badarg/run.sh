#!/bin/sh
# Compiles and runs the bad-argument test with the MPI in PREFIX.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
prefix=${PREFIX:?set PREFIX to the installation to test}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$prefix/bin/mpicc" -O0 -Wall ${SANITIZE:-} -o "$work/badarg" "$here/badarg.c" "$here/main.c"
timeout -k 5 "${LIMIT:-300}" "$work/badarg"
