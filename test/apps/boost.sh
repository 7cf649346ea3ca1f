#!/bin/bash
# Boost.MPI from Debian's source package, compiled by our mpicxx: its own tests, each on the numbers of ranks that its Jamfile names.
#   boost.sh         some of each kind, on up to 4 ranks
#   boost.sh all     all of them, on 1 to 48 ranks
set -eu
. "$(dirname "$0")/../../contrib/lib/common.sh"
. "$SRC/contrib/lib/sources.sh"
work=$OUT/apps/boost
sources=$OUT/apps/boost-src
# serialised and plain messages, skeletons, waiting for any, a topology, collectives, groups
few="block_nonblock_test-b2nb sendrecv_test skeleton_content_test wait_any_test graph_topology_test all_reduce_test scatter_test groups_test"

# All headers in one folder, as an installed Boost has them; beside it Boost.MPI and what it needs of Boost.Serialization.
fetch() {
  local name version folder
  # the name of the package has the version in it: that of this Debian, or of Debian 12 where apt has no lists
  version=$(apt-cache show libboost-dev 2>/dev/null | sed -n 's/^Version: *\([0-9]*\.[0-9]*\).*/\1/p' | sort -V | tail -n 1)
  name=boost${version:-1.74}
  debian_source "$name" "$sources" --wildcards --no-wildcards-match-slash '*/libs/*/include' '*/libs/numeric/*/include' '*/libs/mpi' \
    '*/libs/serialization/src' || no_source "$name"
  [ -d "$sources/include" ] && return
  mkdir -p "$sources/include.new"
  for folder in "$sources"/libs/*/include "$sources"/libs/numeric/*/include; do
    cp -rl "$folder/." "$sources/include.new"
  done
  mv "$sources/include.new" "$sources/include"
}

# "NAME SOURCE RANKS...", by the Jamfile; its rule has an own source and a list of ranks for tests that name none.
tests() {
  sed -n 's/^ *\[ *mpi-test \(.*\)\]/\1/p' "$sources/libs/mpi/test/Jamfile.v2" | awk '{
    count = split($0, part, ":"); split(part[1], name, " "); split(part[2], source, " ")
    path = "mpi/test/" (source[1] != "" ? source[1] : name[1] ".cpp"); sub("test/[.][.]/", "", path)
    print name[1], path, count == 4 ? part[4] : "1 2 3 4 7 8 13 17"
  }'
}

# Boost.Serialization without its XML, which takes a parser, and without wide characters.
makefile() {
  local name source file
  printf 'CXX := %s -O0 -w -I%s\nvpath %%.cpp %s\n' "$PREFIX/bin/mpicxx" "$sources/include" "$sources/libs"
  # shellcheck disable=SC2016
  printf '%s\n' 'all:' '%.o: %.cpp; @mkdir -p $(@D); $(CXX) -c $< -o $@' 'libboost.a:; rm -f $@; ar rcs $@ $^'
  for file in "$sources"/libs/mpi/src/*.cpp "$sources"/libs/serialization/src/*.cpp; do
    file=${file#"$sources"/libs/}
    case $file in *xml* | */utf8* | */codecvt* | */*_w[io]* | */polymorphic*) continue ;; esac
    echo "libboost.a: ${file%.cpp}.o"
  done
  tests | while read -r name source _; do
    # shellcheck disable=SC2016
    printf '%s: %s libboost.a; $(CXX) $^ -o $@\n' "$name" "${source%.cpp}.o"
  done
}

build() { # build TEST...
  compiled_with_ours "$work/stamp" || rm -rf "$work"
  mkdir -p "$work"
  cd "$work"
  with_ccache
  makefile >Makefile
  make -j"$cores" "$@" >make.log 2>&1 || { grep -E 'error|undefined|rror ' make.log | head -n 20; die "Boost.MPI did not compile (see $work/make.log)"; }
  remember_ours "$work/stamp"
}

run() { # run NAME RANKS
  LIMIT=120 run_mpi "$2" "$work/$1" >"$work/$1.$2.log" 2>&1 || { tail -n 30 "$work/$1.$2.log"; die "$1 failed on $2 ranks (see $work/$1.$2.log)"; }
}

run_all() { # run_all MOST TEST...: on the numbers of ranks that it names, up to MOST
  local most=$1 name ranks number count=0 runs=0
  shift
  while read -r name _ ranks; do
    [[ " $* " == *" $name "* ]] || continue
    count=$((count + 1))
    for number in $ranks; do
      [ "$number" -le "$most" ] || continue
      run "$name" "$number"
      runs=$((runs + 1))
    done
  done < <(tests)
  [ $count -eq $# ] || die "only $count of $# tests are in the Jamfile"
  result "$count of Boost.MPI's own tests pass: $runs runs on 1 to $most ranks"
}

fetch
case ${1:-} in
  '') most=4 names=$few ;;
  all) most=48 names=$(tests | cut -d' ' -f1 | tr '\n' ' ') ;;
  *) die "usage: boost.sh [all]" ;;
esac
# shellcheck disable=SC2086
build $names
# shellcheck disable=SC2086
run_all $most $names
