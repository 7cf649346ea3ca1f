#!/bin/bash
# A library that takes MPI's names and goes on through the PMPI names sees each call of a program once, and none of the library's own:
# preloaded, linked before MPI as a shared library, as an archive, and as an object.
#   PREFIX=... [RANKS="1 2 3"] run.sh
set -eu
here=$(cd "$(dirname "$0")" && pwd)
prefix=${PREFIX:?set PREFIX to the installation to test}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mpicc="$prefix/bin/mpicc -Wall -Wextra -O1 ${SANITIZE:-}"
$mpicc -shared -fPIC "$here/layer.c" -o liblayer.so
$mpicc -c "$here/layer.c" -o layer.o
ar rc liblayer_archive.a layer.o
$mpicc "$here/program.c" -o plain
$mpicc "$here/program.c" -L. -llayer -Wl,-rpath,"$work" -o shared
$mpicc "$here/program.c" -L. -llayer_archive -o archive
$mpicc "$here/program.c" layer.o -o object

# preloading beside a sanitizer needs its library first
asan=$(ldd plain | sed -n 's/.*=> \(.*lib[at]san[^ ]*\).*/\1/p')
runs=0
for ranks in ${RANKS:-1 2 3}; do
  expected="layer: $((2 * ranks)) sends, $ranks receives, $((2 * ranks)) waits, $ranks sums, $((12 * ranks)) bytes, levels $((3 * ranks))"
  for program in "env LD_PRELOAD=${asan:+$asan:}$work/liblayer.so ./plain" ./shared ./archive ./object; do
    # shellcheck disable=SC2086
    said=$(timeout -k 5 "${LIMIT:-60}" "$prefix/bin/mpirun" -n "$ranks" $program </dev/null) || { echo "$program on $ranks ranks: status $?"; exit 1; }
    [ "$said" = "$expected" ] || { printf '%s on %s ranks says\n  %s\nnot\n  %s\n' "$program" "$ranks" "$said" "$expected"; exit 1; }
    runs=$((runs + 1))
  done
done
[ -z "$(timeout -k 5 60 "$prefix/bin/mpirun" -n 1 ./plain </dev/null)" ] || { echo "the program says something without the layer"; exit 1; }
echo "result: old-style PMPI layers see each call once, in $runs runs: preloaded, shared, archive, object"
