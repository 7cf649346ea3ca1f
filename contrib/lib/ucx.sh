# Which UCX the plugin loads. Sourced after common.sh.
#   choose_ucx installed|wheel    the installed one, or a newer one as PyPI ships it; sets `ucx`, its name. Ends with 77 where Weft has no plugin.
choose_ucx() {
  local version=${UCX_WHEEL:-1.22.0} folder
  if [ ! -e "$PREFIX/lib/weft/btl_ucx.so" ]; then
    result "SKIPPED: built without UCX"
    exit 77
  fi
  ucx=installed
  [ "$1" = wheel ] || return 0
  ucx=$version
  folder=$OUT/apps/libucx-$version
  if [ ! -d "$folder" ]; then
    ls "$DOWNLOADS/libucx_cu13-$version"*.whl >/dev/null 2>&1 || pip_download --only-binary :all: "libucx-cu13==$version"
    mkdir -p "$OUT/apps"
    rm -rf "$folder.part"
    python3 -m zipfile -e "$DOWNLOADS/libucx_cu13-$version"*.whl "$folder.part"
    mv "$folder.part" "$folder"
  fi
  export LD_LIBRARY_PATH=$folder/libucx/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  # which one it is, UCX says itself
  run_mpi 1 -x WEFT_NET=ucx -x UCX_LOG_LEVEL=info "$PREFIX/bin/weft" trial-rank 2>&1 | grep -F -q "$version" ||
    die "the plugin has not loaded UCX $version"
}
