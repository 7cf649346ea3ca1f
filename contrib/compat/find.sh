# shellcheck shell=sh
# Read by the scripts beside it, which set $here to this folder. They are found through PATH, so the real programs are looked for elsewhere.

# weft_program NAME: the program of the installation that this folder belongs to, or else the first in PATH outside of this folder
weft_program() {
  if [ -x "$here/../../../bin/weft" ] && [ -x "$here/../../../bin/$1" ]; then
    echo "$here/../../../bin/$1"
    return
  fi
  old_ifs=$IFS
  IFS=:
  for folder in $PATH; do
    [ -x "$folder/$1" ] && [ -x "$folder/weft" ] && ! [ "$folder" -ef "$here" ] || continue
    IFS=$old_ifs
    echo "$folder/$1"
    return
  done
  IFS=$old_ifs
  echo "$0: there is no $1 of Weft in PATH" >&2
  echo false
}

# answer_version NAME: what the callers of WEFT_COMPAT's MPI look for, and who answers
answer_version() {
  real=$("$(weft_program mpirun)" --version) || exit 1
  case ${WEFT_COMPAT:-openmpi} in
    openmpi) printf '%s (Open MPI) 5.0.0\n\n' "$1" ;;
    mpich) printf 'HYDRA build details:\n    Version:                                 4.2.0\n    Interface of:                            MPICH\n\n' ;;
    *)
      echo "$0: WEFT_COMPAT is $WEFT_COMPAT, which is neither openmpi nor mpich" >&2
      exit 1
      ;;
  esac
  echo "In truth: $real, answering in that name for programs that ask."
}
