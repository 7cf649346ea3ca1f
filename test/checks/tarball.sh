#!/bin/bash
# `make dist` packs every tracked file, and what it packs configures; what is installed runs from elsewhere.
#   tarball.sh build   what was packed builds and is installed, too, and it is that which runs from elsewhere
set -eu
. "$(dirname "$0")/../../contrib/lib/common.sh"
work=$OUT/tarball
rm -rf "$work"
mkdir -p "$work"
cd "$BUILD"
rm -f weft-*.tar.xz
make dist >"$work/dist.log" 2>&1 || { tail -n 30 "$work/dist.log"; exit 1; }
tar -xf weft-*.tar.xz -C "$work"
cd "$work"/weft-*
if git -C "$SRC" rev-parse --git-dir >/dev/null 2>&1; then
  missing=$(git -C "$SRC" ls-files | while read -r f; do [ -e "$f" ] || [ ! -e "$SRC/$f" ] || echo "$f"; done)
  [ -z "$missing" ] || { echo "not in the tarball:"; echo "$missing"; exit 1; }
fi
count=$(find . -type f | wc -l)
mkdir -p build/contrib/main
cd build/contrib/main
../../../configure --prefix="$work/inst" >configure.log 2>&1 || { tail -n 30 configure.log; exit 1; }
# everything is found relative to itself
moved=$work/moved what="configured"
if [ "${1:-}" = build ]; then
  what="configured, built and installed"
  make -j"$cores" >make.log 2>&1 || { grep -E -A 5 'error' make.log | head -n 40; tail -n 10 make.log; exit 1; }
  make install DESTDIR="$work/stage" >install.log 2>&1 || { tail -n 20 install.log; exit 1; }
  moved=$work/stage$work/inst
else
  cp -a "$PREFIX" "$moved"
fi
"$moved/bin/mpicc" "$SRC/test/apps/findmpi/hello.c" -o "$work/hello"
[ "$(timeout 60 "$moved/bin/mpirun" -n 2 "$work/hello" </dev/null | grep -c '^hello from C, rank [01] of 2$')" -eq 2 ]
if ldd "$work/hello" | grep -F "$PREFIX"; then echo "found where it was installed first"; exit 1; fi
rm -rf "$work"
result "$count files, $what; run from elsewhere"
