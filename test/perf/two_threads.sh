#!/bin/sh
# Two threads on two communicators send at 1.7 times the rate of one, as they lie on different lanes.
#   PREFIX=... two_threads.sh     (77: two processors were not there to tell; fails with WEFT_PML_LANES=1)
set -u
here=$(cd "$(dirname "$0")" && pwd)
prefix=${PREFIX:?set PREFIX to the installation to test}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
"$prefix/bin/mpicc" -O2 -Wall -Wextra -o "$work/two_threads" "$here/two_threads.c" -lpthread || exit 1
timeout -k 5 150 "$prefix/bin/mpirun" -n 1 "$work/two_threads" 1.7 60 </dev/null
