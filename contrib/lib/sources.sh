# Source packages of Debian, for programs that others wrote. Sourced after common.sh.
#   debian_source NAME FOLDER [tar's options and patterns: a part of it]
#       unpacks the upstream sources of NAME into FOLDER, unless they are there; fetched once into DOWNLOADS. Returns 1 where no
#       registry answers.

# Through an apt configuration of our own, derived from the machine's: the user's sources stay as they are. apt checks what it gets
# against the signatures of the archive.
debian_fetch() {
  local name=$1 conf=$OUT/apt file options
  mkdir -p "$conf/lists/partial" "$conf/cache/archives/partial" "$conf/sources"
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    [ -f "$file" ] && grep -i debian "$file" | sed -n 's/^deb\([[:space:]]\)/deb-src\1/p' >"$conf/sources/$(basename "$file" .list)-src.list"
  done
  for file in /etc/apt/sources.list.d/*.sources; do
    [ -f "$file" ] && grep -qi debian "$file" && sed 's/^Types:.*/Types: deb-src/' "$file" >"$conf/sources/$(basename "$file")"
  done
  options="-o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts=$conf/sources -o Dir::State::lists=$conf/lists -o Dir::Cache=$conf/cache -o APT::Sandbox::User=root"
  # the lists of an hour ago will do
  if [ -z "$(find "$conf/updated" -mmin -60 2>/dev/null)" ]; then
    # shellcheck disable=SC2086
    apt-get $options update >"$conf/update.log" 2>&1 && touch "$conf/updated" || cat "$conf/update.log"
  fi
  # shellcheck disable=SC2086
  (cd "$DOWNLOADS" && apt-get $options -q source --tar-only "$name") || return 1
}

debian_source() {
  local name=$1 folder=$2 tar
  shift 2
  [ -d "$folder" ] && return 0
  # one process at a time has apt's lists
  exec 8>"$OUT/apt.lock"
  flock 8
  ls "$DOWNLOADS/$name"_*.orig.tar.* >/dev/null 2>&1 || debian_fetch "$name" || { exec 8>&-; return 1; }
  exec 8>&-
  tar=$(find "$DOWNLOADS" -name "${name}_*.orig.tar.*" ! -name '*.asc' | sort | tail -n 1)
  rm -rf "$folder.new"
  mkdir -p "$folder.new"
  tar -xf "$tar" -C "$folder.new" --strip-components=1 "$@" && mv "$folder.new" "$folder"
}

# no_source NAME: ends the check, as failed, or as skipped where a skip was asked for (OFFLINE=skip).
no_source() {
  [ "${OFFLINE:-}" = skip ] || die "apt-get did not get the source package of $1"
  result "SKIPPED: no source package of $1: no registry answers"
  exit 77
}
