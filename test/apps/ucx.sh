#!/bin/bash
# Another check with UCX as the only transport: by its sockets, then by its shared memory.
#   ucx.sh installed|wheel COMMAND...    with the UCX that is installed, or a newer one, as PyPI ships it
set -eu
. "$(dirname "$0")/../../contrib/lib/common.sh"
. "$SRC/contrib/lib/ucx.sh"
choose_ucx "$1"
shift
export WEFT_NET=ucx
for UCX_TLS in tcp,self posix,cma,self; do
  export UCX_TLS
  say "UCX_TLS=$UCX_TLS"
  "$@"
done
result "the same over UCX ($ucx), by sockets and by shared memory"
