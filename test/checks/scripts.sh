#!/bin/bash
# Every script parses, is executable if it has an interpreter line, and passes shellcheck where that is there.
set -eu
cd "$(dirname "$0")/../.."
bad=0 count=0
while read -r file; do
  [ -f "$file" ] || continue
  first=$(head -c 64 "$file" | head -n 1 | tr -d '\0')
  case $first in
    '#!'*python3*) python3 -c 'import ast, sys; ast.parse(open(sys.argv[1]).read(), sys.argv[1])' "$file" || bad=1 ;;
    '#!'*bash*) bash -n "$file" || bad=1 ;;
    '#!'*sh*) sh -n "$file" || bad=1 ;;
    *) continue ;;
  esac
  count=$((count + 1))
  case $file in *.in) ;; *) [ -x "$file" ] || { echo "$file is not executable"; bad=1; } ;; esac
  case $first in
    '#!'*bash* | '#!'*/sh*) if command -v shellcheck >/dev/null; then shellcheck -S error "$file" || bad=1; fi ;;
  esac
done < <(if git rev-parse --git-dir >/dev/null 2>&1; then git ls-files; else cat MANIFEST; fi)
[ $bad -eq 0 ] && echo "result: $count scripts"
exit $bad
