#!/bin/bash
# What ranks find in their environment: the contract of docs/environment.md, what they inherit and what the user sets.
# usage: environment.sh [TEST...]    see lib.sh
. "$(dirname "$0")/lib.sh"
table=$(dirname "$0")/../../docs/environment.md

# sh -c "$show" sh NAME...: the values of these variables in the environment of the rank that prints them
# shellcheck disable=SC2016
show='for name; do eval "printf \"%s \" \"\${$name-unset}\""; done; echo'

test_contract() {
  run -n 3 sh -c "$show" sh OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_LOCAL_RANK OMPI_COMM_WORLD_NODE_RANK PMI_RANK MPI_LOCALRANKID \
    OMPI_COMM_WORLD_SIZE OMPI_COMM_WORLD_LOCAL_SIZE OMPI_UNIVERSE_SIZE PMI_SIZE MPI_LOCALNRANKS RANK MASTER_PORT | sort >"$work/out"
  want "values" "$(cat "$work/out")" "$(for r in 0 1 2; do echo "$r $r $r $r $r 3 3 3 3 3 unset unset "; done)"
  run -n 2 sh -c "$show" sh WEFT_JOB PMIX_NAMESPACE | sort -u >"$work/out"
  want "the job's name" "$(awk '$1 == $2 && $1 ~ /^weft-/' "$work/out" | wc -l)/$(wc -l <"$work/out")" 1/1
}

test_torch() {
  run -n 3 --env torch sh -c "$show" sh RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR | sort >"$work/out"
  want "values" "$(cat "$work/out")" "$(for r in 0 1 2; do echo "$r 3 $r 3 127.0.0.1 "; done)"
  run -n 4 --env torch sh -c "$show" sh MASTER_PORT | sort -u >"$work/out"
  want "ports" "$(grep -cE '^[0-9]{5} $' "$work/out")/$(wc -l <"$work/out")" 1/1
  MASTER_ADDR=elsewhere run -n 2 --env torch -x MASTER_PORT=1234 sh -c "$show" sh MASTER_ADDR MASTER_PORT | sort -u >"$work/out"
  want "what the user says" "$(cat "$work/out")" "elsewhere 1234 "
  # a store as PyTorch opens it: rank 0 listens, the others come
  cat >"$work/store.py" <<'END'
import os, socket, time
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
place = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if rank == 0:
    with socket.create_server(place) as server:
        print(sorted(int(server.accept()[0].recv(16)) for _ in range(size - 1)))
else:
    for attempt in range(200):
        try:
            with socket.create_connection(place) as connection:
                connection.sendall(str(rank).encode())
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
END
  want "ranks that met" "$(run -n 4 --env torch python3 "$work/store.py")" "[1, 2, 3]"
}

test_inherit() {
  export TEST_A=a TEST_B=b
  want "all" "$(run -n 1 sh -c "$show" sh TEST_A TEST_B)" "a b "
  want "listed" "$(run -n 1 -envlist TEST_A,PATH sh -c "$show" sh TEST_A TEST_B)" "a unset "
  want "listed for all" "$(run -genvlist TEST_B,PATH -n 1 true : -n 1 sh -c "$show" sh TEST_A TEST_B)" "unset b "
  want "none" "$(run -n 1 -envnone -env TEST_C c /bin/sh -c "$show" sh TEST_A TEST_C PMI_SIZE)" "unset c 1 "
  run -genvnone -genv TEST_C c -n 1 /bin/sh -c "$show" sh TEST_A TEST_C : -n 1 -envall -env TEST_C d /bin/sh -c "$show" sh TEST_A TEST_C | sort >"$work/out"
  want "of each program" "$(tr '\n' '|' <"$work/out")" "unset c |unset d |"
  run -n 1 -x TEST_C=1 -env TEST_D 2 sh -c "$show" sh TEST_C TEST_D : -n 1 sh -c "$show" sh TEST_C TEST_D | sort >"$work/out"
  want "-x for all, -env for one" "$(tr '\n' '|' <"$work/out")" "1 2 |1 unset |"
  want "a rank with nothing inherited" "$(run -n 2 -envnone "$CLIENT" exchange | tail -n 1)" "exchange of 2 ranks passed"
  run -n 1 -x NOT_THERE true 2>"$work/err"; want "exit code" $? 0; has "$work/err" "NOT_THERE"
}

test_mca_of_others() {
  run -n 2 --mca pml ob1 -mca btl ^openib --gmca x y true 2>"$work/err"; want "exit code" $? 0
  want "warnings" "$(grep -c '' "$work/err")" 1; has "$work/err" "pml, btl, x"
}

test_inside_another_job() {
  want "ranks of an inner job" "$(run -n 2 --env torch sh -c "[ \$RANK = 1 ] || exec '$MPIRUN' -n 1 sh -c '$show' sh OMPI_COMM_WORLD_SIZE RANK MASTER_PORT")" \
    "1 unset unset "
}

test_no_false_alarm() { # none of the names makes a rank believe in a foreign launcher
  run -n 3 "$CLIENT" hello >"$work/out" 2>"$work/err"; want "exit code" $? 0; want "messages" "$(cat "$work/err")" ""
  run -n 3 sh -c "unset PMIX_NAMESPACE; exec '$CLIENT' hello" >"$work/out" 2>"$work/err"
  want "lines where PMIX_ variables are lost" "$(grep -c "has removed the variables PMIX" "$work/err")" 1
  want "all lines" "$(grep -c '' "$work/err")" 1
}

test_table() { # each variable that mpirun adds is in the table, and the other way round
  run -n 1 --env torch -envnone /usr/bin/env | sed 's/=.*//' | grep -v -e '^PMIX_' -e '^NS_' | sort >"$work/set"
  grep -oE '^\| `[A-Z_]+`' "$table" | tr -d '|` ' | sort >"$work/table"
  want "difference" "$(diff "$work/set" "$work/table")" ""
}

run_tests "$@"
