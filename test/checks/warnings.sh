#!/bin/bash
# The compiler had nothing to say in this build, nor as far as it was made ahead.
set -eu
bad=0
for log in "$OUT/logs/build-$(basename "$BUILD")"{,-ahead}.log; do
  [ -f "$log" ] || continue
  if grep -E -B 1 -A 4 '(: warning: |: note: .*warning)' "$log" | grep -v 'libtool: warning: remember to run' | head -n 60 | grep -A 5 'warning:'; then bad=1; fi
done
[ $bad -eq 0 ] && echo "result: no warnings"
exit $bad
