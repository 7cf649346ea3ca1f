#!/usr/bin/env python3
"""Who decides which algorithm a collective runs, with real jobs: what mpirun --report-coll says of it,
what weft tune measures.

    collectives.py PREFIX      every failure is printed; status 1 if there is one
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from findings import failures, has, want

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
work = tempfile.TemporaryDirectory()
program = pathlib.Path(work.name) / "program"


def job(*words, one_cpu=False, **variables):
    # A home of its own: no table of the user's.
    env = {n: v for n, v in os.environ.items() if not n.startswith("WEFT_") and n != "XDG_CONFIG_HOME"} | {"HOME": work.name} | variables
    within = ["taskset", "-c", str(min(os.sched_getaffinity(0)))] if one_cpu else []
    done = subprocess.run([*within, BIN / "mpirun", *words], capture_output=True, text=True, env=env, timeout=100)
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
    [scan] = [by for (name, _, _), by in found.items() if name == "scan"]
    want("calls of scan", sum(row[0] for row in scan.values()), 20)
    want("bcast among pairs", sum(row[0] for row in found[("bcast", 2, "512-1K")].values()), 40)
    ibarrier = found[("ibarrier", 2, "0")]
    want("ibarrier among pairs", sum(row[0] for row in ibarrier.values()), 40)
    want("ibarrier by messages, then in shared memory", {a: row[1:] for a, row in ibarrier.items()},
         {"dissemination": ("-", "-", "size; first calls, no shared memory yet"), "node": ("-", "-", "size, one host")})
    hinted = found[("allreduce", 4, "32-64")]["ring"]
    want("the hint", hinted[::3], (20, "WEFT_COLL"))
    want("measured and expected", "-" in hinted[1:3], False)


def what_runs_first():
    few = rows(job("-n", "4", "--report-coll", program, one_cpu=True))[("allreduce", 4, "64-128")]
    want("four ranks on a CPU", {name: row[::2] + row[3:] for name, row in few.items()}, {"node": (20, "-", "size, one host")})
    more = rows(job("-n", "5", "--report-coll", program, one_cpu=True))[("allreduce", 5, "64-128")]
    want("calls of allreduce", more["node"][0] + more["recursive_doubling"][0], 20)
    has("why not shared memory", more["recursive_doubling"][3], "no shared memory yet")
    want("why shared memory", more["node"][2:], ("-", "size, one host"))


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


def reproducible():
    runs = rows(job("-n", "5", "--report-coll", program, one_cpu=True, WEFT_COLL_REPRODUCIBLE="runs"))
    by = {name: row[3] for name, row in runs[("allreduce", 5, "64-128")].items()}
    want("one order", by, {"node": "size, one host; one order for all runs",
                           "recursive_doubling": "size; first calls, no shared memory yet; one order for all runs"})
    want("a forced algorithm", runs[("allreduce", 5, "32-64")]["ring"][3], "WEFT_COLL; one order for all runs")
    exact = rows(job("-n", "4", "--report-coll", program, WEFT_COLL_REPRODUCIBLE="exact"))
    [by] = [by for (name, _, size), by in exact.items() if name == "allreduce" and size == "2K-4K"]  # 8 accumulators
    has("exact sums", by["node"][3], "; exact sums, bytes of accumulators")
    has("a wrong word", job("-n", "2", program, WEFT_COLL_REPRODUCIBLE="always"), 'WEFT_COLL_REPRODUCIBLE=always is not one of no, runs, exact; keeping no')


def ranks_that_were_not_told():
    text = job("-n", "1", "-env", "WEFT_REPORT_COLL", "1", program, ":", "-n", "1", program)
    has("the others", text, "no word from rank 1")


def weft(*words, status=0, **variables):
    env = {n: v for n, v in os.environ.items() if not n.startswith("WEFT_") and n != "XDG_CONFIG_HOME"} | {"HOME": work.name} | variables
    done = subprocess.run([BIN / "weft", *words], capture_output=True, text=True, env=env, timeout=300)
    if done.returncode != status:
        failures.append(f"status of weft {words}: {done.returncode}: {done.stderr[-2000:]}")
    return done


def told(**variables):
    """What a rank's environment says of measured settings."""
    return [line for line in job("-n", "1", "sh", "-c", "env >&2", **variables).splitlines() if line.startswith("WEFT_SHM_GET_FROM")]


def tuning():
    """A short run of weft tune, what it keeps, and what becomes of that."""
    file = pathlib.Path(work.name) / ".config/weft/collectives.json"
    done = weft("tune", "-n", "3", "--quick", "--only", "allreduce,barrier")
    has("weft tune", done.stdout, f"Kept in {file}")
    table = json.loads(file.read_text())
    want("version", table["weft-collectives"], 1)
    [run] = table["runs"]
    want("ranks, hosts", (run["ranks"], len(run["hosts"])), (3, 1))
    has("the network", " ".join(run["network"]), "within a host  shm")
    want("date", bool(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", run["date"])), True)
    want("numbers of the machine", {name.split(".")[0] for name in table["machine"]}, {"cache", "host", "reduce", "copy"})
    want("no number is nothing", all(table["machine"][name]["value"] > 0 for name in ("cache.per_byte", "cache.send", "reduce", "copy")), True)
    sizes = {(m["collective"], m["bytes"]): set(m["ns"]) for m in table["measurements"]}
    want("barrier's candidates", sizes[("barrier", 0)], {"dissemination", "dissemination_4", "node"})
    want("allreduce's candidates", sizes[("allreduce", 8)], {"recursive_doubling", "rabenseifner", "ring", "double_tree", "swing", "node"})
    want("collectives", {name for name, _ in sizes}, {"allreduce", "barrier"})
    crowded = 3 > 2 * len(os.sched_getaffinity(0))
    [(setting, number)] = table["settings"].items()
    want("the setting", setting, "shm.get_from_crowded" if crowded else "shm.get_from")
    want("its value", number["value"] in {2**n for n in range(14, 26)} | {2**30}, True)
    want("without the table", told(WEFT_COLL_TABLE="none"), [])
    variable = "WEFT_" + setting.replace(".", "_").upper()
    want("what ranks are told", told(WEFT_COLL_TABLE=str(file)), [f"{variable}={number['value']:.0f}"])
    want("what the user says", told(WEFT_COLL_TABLE=str(file), **{variable: "3M"}), [f"{variable}=3M"])
    weft("tune", "-n", "2", "--quick", "--only", "barrier")
    again = json.loads(file.read_text())
    want("measurements of both runs", len(again["measurements"]), len(sizes) + 1)
    want("runs", [r["ranks"] for r in again["runs"]], [3, 2])


def a_table(path, **times):
    """That says which algorithm of allreduce is best for 8 doubles on 4 ranks of one host."""
    run = {"date": "2026-03-01T12:00:00Z", "weft": "1", "cpu": "c", "ranks": 4, "hosts": ["h"], "network": []}
    one = {"collective": "allreduce", "ranks": 4, "hosts": 1, "bytes": 64, "run": 0, "usual": "node", "ns": times}
    path.write_text(json.dumps({"weft-collectives": 1, "runs": [run], "machine": {"cache.latency": {"value": 5000, "run": 0}}, "measurements": [one]}))
    return str(path)


def the_table_decides():
    file = a_table(pathlib.Path(work.name) / "table.json", ring=100, node=200)
    words = weft("tune", "--words", file).stdout.strip()
    want("its words", words, "allreduce@4/1:-256=ring;")
    report = ("-n", "4", "--report-coll", program, "bcast:1G-=chain")
    for text in (job(*report, WEFT_COLL_TABLE=file), job("--set", f"WEFT_COLL_TABLE={file}", *report)):
        found = rows(text)
        want("allreduce by the table", {key[2]: {name: row[3] for name, row in by.items()} for key, by in found.items() if key[0] == "allreduce"},
             {"64-128": {"ring": "the tuned table"}, "32-64": {"ring": "the tuned table"}})
    found = rows(job(*report, WEFT_COLL_TABLE=file, WEFT_COLL="allreduce:64-=recursive_doubling"))
    want("the user before it", [(key[2], list(by)) for key, by in sorted(found.items()) if key[0] == "allreduce"], [("32-64", ["ring"]), ("64-128", ["recursive_doubling"])])
    found = rows(job(*report, WEFT_COLL_TUNED="allreduce=ring"))
    want("what is left over from an outer job", "ring" in str(found), False)
    explained = json.loads(weft("explain", "allreduce", "--ranks", "4", "--bytes", "100", "--json", WEFT_COLL_TABLE=file).stdout)
    want("weft explain", (explained["runs"]["algorithm"], explained["runs"]["by"], explained["runs"]["table_entry"]), ("ring", "table", words.rstrip(";")))
    want("the machine's numbers", explained["machine"]["cache.latency"], 5000)
    want("what was measured", (explained["measured"], explained["measured_bytes"]), ({"ring": 100.0, "node": 200.0}, 64))
    has("its verdict", explained["verdict"], "which overrules the library's node: measured 100 ns instead of 200 ns")
    has("its text", weft("explain", "allreduce", "--ranks", "4", "--bytes", "100", "--table", file).stdout, f"Measured with 64 B (2026-03-01T12:00:00Z, Weft 1, {file}): ring 100 ns, node 200 ns.")
    other = json.loads(weft("explain", "allreduce", "--ranks", "5", "--bytes", "100", "--json", WEFT_COLL_TABLE=file).stdout)
    want("other ranks", (other["runs"]["by"], other["measured"]), ("thresholds", {}))


def tables_that_are_none():
    file = pathlib.Path(work.name) / "table.json"
    a_table(file, ring=100, node=200)
    whole = file.read_text()
    for text, part in [(whole[:100], "it is not JSON"), ("{}", "it is no table of weft tune"), (whole.replace('"hosts": 1', '"hosts": 9'), '"hosts" is no number from 1 to 4'),
                       (whole.replace('"ring"', '"ring;bcast=chain"'), "is no name")]:
        file.write_text(text)
        said = job("-n", "2", program, WEFT_COLL_TABLE=str(file))
        want(f"warnings of {part}", said.count("mpirun: warning: no table of weft tune is used: "), 1)
        has("the warning", said, part)
        has("weft explain", weft("explain", "barrier", "--ranks", "2", status=1, WEFT_COLL_TABLE=str(file)).stderr, part)
        has("weft tune", weft("tune", "-n", "2", "--output", str(file), status=1).stderr, "name another file, or remove this one")
        want("the file", file.read_text(), text)
    file.write_text(whole.replace('"ring"', '"teleport"'))
    said = job("-n", "2", program, WEFT_COLL_TABLE=str(file))
    want("for other ranks", said, "")
    said = job("-n", "4", program, WEFT_COLL_TABLE=str(file))
    want("warnings of what is not known", said.count('the table of weft tune, ignored in part: "allreduce@4/1:-256=teleport": the algorithms of allreduce are'), 1)


def main():
    source = program.with_suffix(".c")
    source.write_text(PROGRAM)
    subprocess.run([BIN / "mpicc", "-O2", "-o", program, source], check=True)
    for test in (only_where_asked_for, what_runs, what_runs_first, words_of_the_user, wrong_hints, reproducible, ranks_that_were_not_told, the_table_decides,
                 tables_that_are_none, tuning):
        test()
    print("\n".join(failures) or "result: collectives run what they should, and say why")
    return 1 if failures else 0


sys.exit(main())
