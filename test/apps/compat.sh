#!/bin/bash
# contrib/compat: what callers of other MPIs look for, and the command lines that they make of it.
set -eu
. "$(dirname "$0")/../../contrib/lib/common.sh"
work=$OUT/apps/compat
rm -rf "$work"
mkdir -p "$work"
compat=$PREFIX/libexec/weft/compat
plain=$PREFIX/bin:$PATH
tests=0

# ranks N COMMAND...: it starts N ranks that know each other
cat >"$work/train.py" <<'END'
import os
keys = ("RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK"), ("LOCAL_RANK", "MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK")
rank, local = ([os.environ[k] for k in names if k in os.environ][0] for names in keys)
size = os.environ.get("WORLD_SIZE", os.environ["OMPI_COMM_WORLD_SIZE"])
print("trains as", rank, "of", size, "local", local, "with", os.environ.get("WANTED"))
END
ranks() {
  local n=$1 expected
  shift
  expected=$(for ((i = 0; i < n; i++)); do echo "trains as $i of $n local $i with it"; done)
  timeout 60 "$@" >"$work/out" 2>"$work/err" </dev/null || { cat "$work/err"; die "fails: $*"; }
  [ "$(sed 's/^\[[0-9]*\] //' "$work/out" | sort)" = "$expected" ] || { cat "$work/out" "$work/err"; die "wrong ranks: $*"; }
  tests=$((tests + 1))
}
says() { # says PATTERN COMMAND...
  local pattern=$1
  shift
  # shellcheck disable=SC2254
  case $("$@" 2>&1) in $pattern) tests=$((tests + 1)) ;; *) die "$* says: $("$@" 2>&1)" ;; esac
}

# Without the folder nobody is led to believe in another MPI.
export PATH=$plain
says "mpirun (Weft)*" mpirun --version
for name in ompi_info mpichversion mpiname; do [ ! -e "$PREFIX/bin/$name" ] || die "$name stands in bin"; done

# With it, each is answered in the words it knows; where the folder stands in the source tree as well.
for folder in "$compat" "$SRC/contrib/compat"; do
  export PATH=$folder:$plain
  says "mpirun (Open MPI) [0-9]*Weft*" mpirun --version
  says "*MPICH*Weft*" env WEFT_COMPAT=mpich mpirun --version
  says "ompi_info (Open MPI)*Weft*" ompi_info --version
  says "*mpi_built_with_cuda_support:value:*" ompi_info --parsable --all
  says "MPICH Version:*Weft*" mpichversion
  [ "$(mpirun -n 2 sh -c 'echo $PMI_SIZE --version')" = "2 --version"$'\n'"2 --version" ] || die "words of the program are taken for ours"
done
export PATH=$compat:$plain
says "*(Open MPI)*" mpiexec --version

export WANTED=it
python=$(command -v python3)
printf 'localhost slots=4\n' >"$work/hosts"
# Horovod for Open MPI, and for MPICH and Intel MPI; both go through sh
ranks 2 sh -c "mpirun --allow-run-as-root --tag-output -np 2 -H localhost:2 -bind-to none -map-by slot -mca pml ob1 -mca btl ^openib \
  -mca btl_tcp_if_include lo -x NCCL_SOCKET_IFNAME=lo --output-filename $work/files -x PATH -x WANTED $python $work/train.py"
[ "$(cat "$work"/files/rank.* | wc -l)" -eq 2 ] || die "--output-filename has made no files"
ranks 2 sh -c "mpirun -l -np 2 -ppn 2 -hosts localhost -bind-to none -map-by slot -genv NCCL_SOCKET_IFNAME=lo $python $work/train.py"
# DeepSpeed for Open MPI (its arguments are no shell's: a name and its value come as one word), MPICH and Intel MPI
command -v ompi_info >/dev/null || die "no ompi_info"
ranks 2 mpirun --allow-run-as-root -np 2 -hostfile "$work/hosts" -mca 'btl tcp,self' -mca coll_hcoll_enable 0 -x PATH -x CUDA_DEVICE_ORDER=PCI_BUS_ID \
  --bind-to none --mca btl_tcp_if_include eth0 -x UCX_TLS=tcp "$python" -u "$work/train.py"
ranks 2 mpirun -n 2 -ppn 2 -genv UCX_TLS=tcp -genv MASTER_ADDR localhost -genv MASTER_PORT 29500 -genv WORLD_SIZE 2 -genv LOCAL_SIZE 2 -hosts localhost \
  "$python" -u "$work/train.py"
ranks 2 mpirun -ppn 2 -genv WORLD_SIZE 2 -genv I_MPI_PIN 0 -hosts localhost -env RANK 0 -env LOCAL_RANK 0 -n 1 "$python" -u "$work/train.py" \
  : -env RANK 1 -env LOCAL_RANK 1 -n 1 "$python" -u "$work/train.py"
# what both say of ssh, and of many hosts
ranks 2 sh -c "mpirun --allow-run-as-root --tag-output -np 2 -H localhost:2 -bind-to none -map-by slot -mca pml ob1 -mca btl ^openib --timestamp-output \
  -mca plm_rsh_no_tree_spawn true -mca plm_rsh_num_concurrent 64 -mca plm_rsh_args \"-p 22 -i key\" -x PATH -x WANTED $python $work/train.py | sed 's/^[^[]*//'"
ranks 2 sh -c "mpirun -l -np 2 -ppn 2 -hosts localhost -bind-to none -map-by slot -bootstrap=ssh -bootstrap-exec-args \"-p 22\" \
  -genv NCCL_SOCKET_IFNAME=lo -outfile-pattern $work/pattern $python $work/train.py; cat $work/pattern"
# Accelerate
ranks 4 mpirun --hostfile "$work/hosts" -n 4 --npernode 4 --bind-to none "$python" "$work/train.py"
ranks 4 mpirun -f "$work/hosts" -n 4 -ppn 4 "$python" "$work/train.py"
# torchrun's variables, for what knows no others
unset WANTED
ranks 3 mpirun --env torch -x WANTED=it -n 3 "$python" "$work/train.py"
result "$tests answers and command lines of Horovod, DeepSpeed and Accelerate"
