#!/usr/bin/env python3
"""weft explain: its counts against counts by hand, its parts against their sum, what it says of WEFT_COLL and of wrong questions.

    explain.py PREFIX      every failure is printed; status 1 if there is one
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from findings import failures, has, want

WEFT = pathlib.Path(sys.argv[1]) / "bin/weft"
COLLECTIVES = ["barrier", "bcast", "gather", "scatter", "allgather", "alltoall", "reduce", "allreduce", "reduce_scatter", "scan", "exscan"]


def ask(*words, coll="", network="", table="none", reproducible="no"):
    env = {name: value for name, value in os.environ.items() if not name.startswith("WEFT_")}
    env |= {"WEFT_COLL_REPRODUCIBLE": reproducible}
    env |= {"WEFT_COLL": coll} if coll else {}
    env |= {"WEFT_NETWORK": network} if network else {}
    env |= {"WEFT_COLL_TABLE": table}
    return subprocess.run([WEFT, "explain", *words], capture_output=True, text=True, env=env, timeout=100)


def answer(*words, **settings):
    done = ask(*words, "--json", **settings)
    if done.returncode:
        failures.append(f"{words}: status {done.returncode}: {done.stderr}")
        sys.exit("\n".join(failures))
    return json.loads(done.stdout)


def sums_and_order():
    for collective in COLLECTIVES:
        for size in ["8", "64K"]:
            found = answer(collective, "--ranks", "12", "--hosts", "3", "--bytes", size)
            times = [c["ns"] for c in found["candidates"]]
            want(f"order of {collective}", times, sorted(times))
            for c in found["candidates"]:
                parts = sum(c[f"{part}_ns"] for part in ("latency", "transfer", "waiting", "work"))
                want(f"parts of {collective} {c['algorithm']}", abs(parts - c["ns"]) < 1e-6 * c["ns"], True)
            runs = [c for c in found["candidates"] if all(c[key] == found["runs"][key] for key in ("algorithm", "segments"))]
            want(f"{collective}: what runs, among the candidates", len(runs), 1)
            want(f"{collective}: by whose word", found["runs"]["by"], "thresholds")


def crossings():
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
        file.write("SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=n[3-4]\nSwitchName=top Switches=a,b\n")
        file.flush()
        words = ["allgather", "--ranks", "8", "--bytes", "1K"]
        for found in (answer(*words, "--network", file.name), answer(*words, network=file.name), answer(*words, "--hosts", "4", "--hosts-per-switch", "2")):
            [ring] = [c for c in found["candidates"] if c["algorithm"] == "ring"]
            want("hosts and switches", (found["hosts"], found["switches"]), (4, 2))
            want("crossings of a ring", (ring["messages"], ring["between_hosts"], ring["between_switches"]), (56, 28, 14))
            want("bytes of a ring", (ring["busiest_host_link"], ring["busiest_uplink"]), (7168, 7168))
        has("too few hosts", ask(*words, "--network", file.name, "--hosts", "5").stderr, "names 4 hosts, fewer than 5")


def words_of_the_user():
    words = ["allreduce", "--ranks", "6", "--hosts", "2", "--bytes"]
    rule = "allreduce:64K-1M=ring"
    for size, algorithm, by in [("64K", "ring", "WEFT_COLL"), ("1048575", "ring", "WEFT_COLL"), ("1M", "many_leaders", "thresholds"), ("65535", "two_level", "thresholds")]:
        runs = answer(*words, size, coll=rule)["runs"]
        want(f"{size} with {rule}", (runs["algorithm"], runs["by"], runs["entry"]), (algorithm, by, rule if by == "WEFT_COLL" else ""))
    refused = answer(*words, "64K", "--ordered", coll=rule)
    want("an operation that does not commute", (refused["runs"]["algorithm"], refused["runs"]["entry_unusable"], refused["unfit"]), ("two_level", True, ["ring", "double_tree", "swing", "many_leaders"]))
    has("its verdict", refused["verdict"], "cannot be used here")
    slow = answer(*words, "1M", coll="allreduce=recursive_doubling")
    has("a bad choice", slow["verdict"], "The model differs: it expects")
    node = answer("barrier", "--ranks", "4")
    want("barrier on one host", node["runs"]["algorithm"], "node")
    has("its verdict", node["verdict"], "no price for it")
    gathers = [answer("gather", "--ranks", "8", "--bytes", "128K", *cpus)["runs"]["algorithm"] for cpus in ([], ["--cpus", "8"], ["--cpus", "2"])]
    want("a long gather with a CPU each, and with fewer", gathers, ["linear", "linear", "node"])
    has("with fewer CPUs", ask("gather", "--ranks", "8", "--bytes", "128K", "--cpus", "2").stdout, "8 ranks on 1 host with 2 CPUs")
    wrong = ask(*words, "64K", coll="allreduce:64K=ring;bcast=chian")
    want("warnings", [line.count("WEFT_COLL") for line in wrong.stderr.splitlines()], [1])
    has("the warning", wrong.stderr, "64K-1M, 1M- or -64K")
    has("the warning", wrong.stderr, '"bcast=chian": the algorithms of bcast are binomial, ')


def reproducible():
    words = ["allreduce", "--ranks", "8", "--hosts", "2", "--bytes", "64K"]
    want("by hosts", answer(*words)["runs"]["algorithm"], "two_level")
    for word in ("runs", "exact"):
        found = answer(*words, reproducible=word)
        want(f"in one order ({word})", found["runs"]["algorithm"], "rabenseifner")
        has("its verdict", found["verdict"], "in one order for all runs (WEFT_COLL_REPRODUCIBLE)")
        want("what is no reduction", answer("bcast", *words[1:], reproducible=word)["runs"]["algorithm"], answer("bcast", *words[1:])["runs"]["algorithm"])
    has("exact sums", ask(*words, reproducible="exact").stdout, "sums of accumulators")


def one_warning_a_job():
    """Ranks say it once, too."""
    job = subprocess.run([WEFT.parent / "mpirun", "-n", "3", WEFT, "trial-rank"], capture_output=True, text=True, env={**os.environ, "WEFT_COLL": "barrier=bar"}, timeout=60)
    want("status of a job", job.returncode, 0)
    want("warnings of a job", job.stderr.count('"barrier=bar": the algorithms of barrier are dissemination, dissemination_4, two_level, node'), 1)


def for_people():
    text = ask("allreduce", "--ranks", "4096", "--bytes", "1M").stdout
    for part in ("1 MiB (the whole vector), 4096 ranks on 64 hosts behind 1 switch", "<- runs", "Cheapest by the model: ", "host_link 0.08 ns/B", "ring ~"):
        has("text", text, part)
    rings = ask("allgather", "--ranks", "8", "--hosts", "4", "--hosts-per-switch", "2", "--bytes", "1K").stdout
    want("a ring behind two switches", [line.split()[-5:-1] for line in rings.splitlines() if " ring" in line][:1], [["7", "KiB", "7", "KiB"]])
    machine = answer("bcast", "--ranks", "2", "--hosts", "2", "--bytes", "1000", "--machine", "leaf.latency=1e6,host_link=1")
    want("numbers of the machine", (machine["machine"]["leaf.latency"], machine["candidates"][0]["transfer_ns"]), (1e6, 1000.0))


def wrong_questions():
    fine = ["bcast", "--ranks", "4", "--bytes", "8"]
    for words, part in [(["bcats", *fine[1:]], "these are barrier, bcast"), (["neighbor_alltoall", *fine[1:]], "graph of neighbours"),
                        (fine[:3], "--bytes is missing"), ([*fine, "--hosts", "5"], "5 hosts are more than 4 ranks"), ([*fine, "--root", "4"], "the root 4"), ([*fine, "--hosts", "2", "--cpus", "2"], "these ranks are on 2"),
                        ([*fine, "--machine", "speed=3"], '"speed" is no number'), ([*fine, "--network", "/nowhere"], "/nowhere: cannot be read"),
                        ([*fine, "--network", "/dev/null"], "names no host"), (["bcast", "--bytes", "8"], "--ranks"), ([*fine, "--ranks", "0"], "--ranks"),
                        ([*fine[:3], "--bytes", "much"], "--bytes")]:
        done = ask(*words)
        want(f"status of {words}", done.returncode != 0, True)
        has(f"{words}", done.stderr, part)


for test in (sums_and_order, crossings, words_of_the_user, reproducible, one_warning_a_job, for_people, wrong_questions):
    test()
print("\n".join(failures) or "result: weft explain answers as it should")
sys.exit(1 if failures else 0)
