#!/bin/bash
# Every C and C++ file is formatted as .clang-format says. format.sh --fix reformats what is not.
set -eu
cd "$(dirname "$0")/../.."
command -v clang-format >/dev/null || { echo "result: there is no clang-format"; exit 77; }
# include/mpi.h, api/generated and badarg.c are generated
mapfile -t files < <(if git rev-parse --git-dir >/dev/null 2>&1; then git ls-files; else cat MANIFEST; fi | grep -E '\.(h|c|cc)$' | grep -v -E '^(include/mpi\.h|api/generated/|test/conformance/badarg/badarg\.c)')
if [ "${1:-}" = --fix ]; then
  clang-format -i "${files[@]}"
  exit
fi
clang-format --dry-run -Werror --ferror-limit=3 "${files[@]}" || { echo "test/checks/format.sh --fix sets this right"; exit 1; }
echo "result: ${#files[@]} files formatted"
