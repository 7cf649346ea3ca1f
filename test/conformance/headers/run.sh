#!/bin/bash
# The headers with every language standard from C90 and C++98 on, pedantically and without a warning; and an old program, which uses what
# MPI 3.0 removed.
#   PREFIX=... run.sh
set -eu
. "$(dirname "$0")/../../../contrib/lib/common.sh"
work=$OUT/headers
mkdir -p "$work"
old=$SRC/test/conformance/headers/removed.c
strict=(-Wall -Wextra -pedantic-errors -Werror)

for header in mpi.h mpix.h mpi-ext.h mpi_removed.h; do
  printf '#include <%s>\nint main(%s) { return 0; }\n' "$header" void >"$work/alone.c"
  printf '#include <%s>\nint main() { return 0; }\n' "$header" >"$work/alone.cc"
  for standard in c90 c99 c11 c17 gnu90; do
    "$PREFIX/bin/mpicc" "${strict[@]}" -std=$standard -fsyntax-only "$work/alone.c" || die "$header in $standard"
  done
  for standard in c++98 c++11 c++17 c++20; do
    "$PREFIX/bin/mpicxx" "${strict[@]}" -std=$standard -fsyntax-only "$work/alone.cc" || die "$header in $standard"
  done
done

"$PREFIX/bin/mpicc" -fsyntax-only "$old" 2>"$work/warnings"
grep -q 'MPI_Address.*removed in MPI 3.0; use MPI_Get_address' "$work/warnings" || die "the compiler does not say what stands for MPI_Address"
if "$PREFIX/bin/mpicc" -DWEFT_NO_REMOVED -Werror=implicit-function-declaration -fsyntax-only "$old" 2>/dev/null; then
  die "WEFT_NO_REMOVED leaves nothing out"
fi
"$PREFIX/bin/mpicc" -O0 -c -o "$work/alone.o" "$work/alone.c"
[ -z "$(nm -u "$work/alone.o")" ] || die "who includes the headers and uses nothing of it needs $(nm -u "$work/alone.o")"
for compiler in "mpicc -std=c90" "mpicxx -x c++"; do
  # shellcheck disable=SC2086
  "$PREFIX"/bin/$compiler "${strict[@]}" -Wno-deprecated-declarations -o "$work/removed" "$old"
  timeout 60 "$PREFIX/bin/mpirun" -n 2 "$work/removed" >"$work/out" 2>&1 || { cat "$work/out"; die "the old program failed ($compiler)"; }
  grep -q '^removed: ok$' "$work/out" || { cat "$work/out"; die "the old program did not run to its end"; }
done
result "4 headers, 9 standards of C and C++; an old program in both"
