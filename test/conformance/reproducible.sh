#!/bin/sh
# Reproducible reductions of real jobs: the same bits over shared memory and tcp, on one host and on two that are pretended, with other
# tables (runs), and by each algorithm on different numbers of ranks (exact).
# Under sanitizers without what only bits can tell: other tables, and each algorithm, which the unit tests run there.
#   PREFIX=... reproducible.sh
set -u
. "$(dirname "$0")/lib.sh"
compile reproducible || exit 1

# Another host of that name: this one.
cat >"$work/here" <<'EOS'
#!/bin/sh
while [ $# -gt 0 ]; do case $1 in -*) shift ;; *) break ;; esac; done
shift
exec sh -c "$*"
EOS
chmod +x "$work/here"

same() { # what-it-is: its bits are those of the first run
  grep '^bits' "$work/out" >"$work/bits"
  [ -s "$work/first" ] || cp "$work/bits" "$work/first"
  [ -s "$work/bits" ] && cmp -s "$work/first" "$work/bits" && return
  echo "$1: other bits"
  diff "$work/first" "$work/bits" | head -5
  failed=$((failed + 1))
}

bits() { # mode what-it-is mpirun's-arguments...
  mode=$1 what=$2
  shift 2
  attempt "$mode, $what" "$@" "$work/reproducible" "$mode" >"$work/out"
  grep -v '^bits' "$work/out"
  same "$mode, $what"
}

export WEFT_COLL_REPRODUCIBLE=runs
for n in ${RANKS:-2 4 5}; do
  : >"$work/first"
  bits runs "$n ranks" -n "$n"
  bits runs "$n ranks over tcp" -n "$n" -x WEFT_NET=tcp
  if [ -z "${SANITIZE:-}" ]; then
    bits runs "$n ranks again" -n "$n"
    bits runs "$n ranks, another table" -n "$n" -x "WEFT_COLL_TUNED=allreduce=ring;reduce=rabenseifner;scan=chain;reduce_scatter=pairwise"
  fi
  bits runs "$n ranks on two hosts" -n "$n" -launcher-exec "$work/here" -H "one:$((n - n / 2)),two:$((n / 2))"
done

export WEFT_COLL_REPRODUCIBLE=exact
: >"$work/first"
for n in ${RANKS:-3 4 5 8}; do
  [ "$n" -lt 3 ] && continue
  bits exact "$n ranks" -n "$n"
  bits exact "$n ranks on two hosts" -n "$n" -launcher-exec "$work/here" -H "one:$((n - n / 2)),two:$((n / 2))"
done
if [ -z "${SANITIZE:-}" ]; then
  for words in "allreduce=recursive_doubling;reduce=binomial;scan=doubling;reduce_scatter=pairwise" \
    "allreduce=rabenseifner;reduce=rabenseifner;scan=chain;reduce_scatter=recursive_halving" "allreduce=ring" "allreduce=node;reduce=node"; do
    bits exact "$words" -n 4 -x "WEFT_COLL=$words"
  done
  for words in "allreduce=two_level;reduce=two_level" "allreduce=many_leaders;reduce=many_leaders;reduce_scatter=many_leaders"; do
    bits exact "$words" -n 4 -x "WEFT_COLL=$words" -launcher-exec "$work/here" -H one:2,two:2
  done
  # The data is such that the test fails without the mode.
  export WEFT_COLL_REPRODUCIBLE=no
  if "$prefix/bin/mpirun" -n 5 "$work/reproducible" no >"$work/out" 2>&1 </dev/null; then
    echo "no: the bits do not depend on the order"
    failed=$((failed + 1))
  fi
fi
conclude
