#!/usr/bin/env python3
"""Who decides which algorithm a collective runs, with real jobs: what mpirun --report-coll says of it.

    collectives.py PREFIX      every failure is printed; status 1 if there is one
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

BIN = pathlib.Path(sys.argv[1]) / "bin"
PROGRAM = """
#include <mpi.h>
#include <stdlib.h>
int main(int argc, char **argv) {
  static double in[1 << 16], out[1 << 16];
  MPI_Comm pair, hinted;
  MPI_Info info;
  MPI_Request request;
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, &pair);
  MPI_Info_create(&info);
  MPI_Info_set(info, "weft_coll", argc > 1 ? argv[1] : "allreduce:-64=ring");
  MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &hinted);
  MPI_Info_free(&info);
  for (int i = 0; i < 20; ++i) {
    MPI_Allreduce(in, out, 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Scan(in, out, 1 << 16, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Bcast(in, 100, MPI_DOUBLE, 0, pair);
    MPI_Allreduce(in, out, 4, MPI_DOUBLE, MPI_SUM, hinted);
    MPI_Ibarrier(pair, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  MPI_Comm_free(&pair);
  MPI_Comm_free(&hinted);
  MPI_Finalize();
  return 0;
}
"""
failures = []
work = tempfile.TemporaryDirectory()
program = pathlib.Path(work.name) / "program"


def want(what, found, expected):
    if found != expected:
        failures.append(f"{what}: {found!r} instead of {expected!r}")


def has(what, text, part):
    if part not in text:
        failures.append(f"{what}: no {part!r} in {text!r}")


def job(*words, **variables):
    # A home of its own: no table of the user's.
    env = {n: v for n, v in os.environ.items() if not n.startswith("WEFT_") and n != "XDG_CONFIG_HOME"} | {"HOME": work.name} | variables
    done = subprocess.run([BIN / "mpirun", *words], capture_output=True, text=True, env=env, timeout=100)
    want(f"status of {words}", done.returncode, 0)
    return done.stderr


def rows(text):
    """What the report says: (collective, ranks, bytes): algorithm -> (calls, measured, model, chosen by)."""
    found = {}
    for line in text.splitlines():
        row = re.match(r"weft:   (\S.*?) +(\d+) +(\d+|\?) +(\S+) +(\d+) +(-|[\d.e+]+ [num]?s) +(-|[\d.e+]+ [num]?s)  (\S+(?: x\d+)?) +(.*)", line)
        if row:
            name, ranks, hosts, size, calls, measured, model, algorithm, by = row.groups()
            want(f"hosts of {name}", hosts, "1")
            found.setdefault((name, int(ranks), size), {})[algorithm] = (int(calls), measured, model, by)
    return found


def only_where_asked_for():
    want("said unasked", job("-n", "2", program), "")


def what_runs():
    text = job("-n", "4", "--report-coll", program)
    want("tables", text.count("weft: collectives of 4 ranks on 1 host\n"), 1)
    found = rows(text)
    world = found[("allreduce", 4, "64-128")]
    want("calls of allreduce", world["node"][0] + world["recursive_doubling"][0], 20)
    has("why not shared memory", world["recursive_doubling"][3], "no shared memory yet")
    want("why shared memory", world["node"][2:], ("-", "size, one host"))
    [[scan]] = [list(by.values()) for (name, _, _), by in found.items() if name == "scan"]
    want("scan", (scan[0], scan[3]), (20, "size"))
    want("measured and expected", "-" in scan[1:3], False)
    want("bcast among pairs", sum(row[0] for row in found[("bcast", 2, "512-1K")].values()), 40)
    want("ibarrier among pairs", found[("ibarrier", 2, "0")]["dissemination"], (40, "-", "-", "size"))
    want("the hint", found[("allreduce", 4, "32-64")]["ring"][::3], (20, "WEFT_COLL"))


def words_of_the_user():
    found = rows(job("-n", "4", "--report-coll", program, WEFT_COLL="allreduce=rabenseifner;bcast@4=chain;scan@4/1:512K-=doubling;bcast@2/2=chain"))
    want("allreduce", {key[2]: list(by) for key, by in found.items() if key[0] == "allreduce"}, {"64-128": ["rabenseifner"], "32-64": ["ring"]})
    want("by whose word", found[("allreduce", 4, "64-128")]["rabenseifner"][3], "WEFT_COLL")
    want("entries for others", "chain" in found[("bcast", 2, "512-1K")], False)
    [by] = [by for key, by in found.items() if key[0] == "scan"]
    want("an entry for these ranks on this host", list(by), ["doubling"])


def wrong_hints():
    text = job("-n", "2", "--report-coll", program, "allreduce=rign;bcast=chain")
    has("a wrong hint", text, "the hint weft_coll of a communicator, ignored in part: \"allreduce=rign\": the algorithms of allreduce are")


def ranks_that_were_not_told():
    text = job("-n", "1", "-env", "WEFT_REPORT_COLL", "1", program, ":", "-n", "1", program)
    has("the others", text, "no word from rank 1")


def main():
    source = program.with_suffix(".c")
    source.write_text(PROGRAM)
    subprocess.run([BIN / "mpicc", "-O2", "-o", program, source], check=True)
    for test in (only_where_asked_for, what_runs, words_of_the_user, wrong_hints, ranks_that_were_not_told):
        test()
    print("\n".join(failures) or "result: collectives run what they should, and say why")
    return 1 if failures else 0


sys.exit(main())
