#!/bin/sh
# session_histories.cc. As run.sh: PREFIX=... [RANKS="2 3 5"] [REPEAT=100] [MPIRUN_FLAGS=...] session_histories.sh
set -u
. "$(dirname "$0")/lib.sh"
compile session_histories || exit 1
# PMIx loses a line where it is opened twice; leaks of libraries are told from ours by whole stacks only
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:fast_unwind_on_malloc=0"
play() { # ranks what number
  attempt "$2 $3 on $1 ranks" -n "$1" "$work/session_histories" "$2" "$3"
}
for turn in $(seq "${REPEAT:-1}"); do
  for ranks in ${RANKS:-2 3 5}; do
    for number in 0 1 2 3 4 5 6; do play "$ranks" mixed "$number"; done
    for number in 0 1; do
      play "$ranks" sessions "$number"
      play "$ranks" beyond "$number"
    done
    play "$ranks" awaited 0
  done
done
# In a large job (which this one says to be) PMIx cannot tell what it should: nobody waits for ever, and the reason is said.
words=$(WEFT_BOOT_TIMEOUT=3 "$prefix/bin/mpirun" --timeout 60 -n 2 env OMPI_COMM_WORLD_SIZE=5000 "$work/session_histories" mixed 0 2>&1 </dev/null) && failed=$((failed + 1))
case $words in
  *"they cannot meet"*) passed=$((passed + 1)) ;;
  *) echo "large job: $words" && failed=$((failed + 1)) ;;
esac
conclude
