#!/usr/bin/env python3
"""weft bench: a short run of the installed comparison; medians, ratios, JSON and picture against installations that answer what is known.

    bench.py PREFIX      every failure is printed; status 1 if there is one
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

sys.dont_write_bytecode = True
sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "checks"))
from compare import Sample, same_distance
from findings import failures, has, want

PREFIX = pathlib.Path(sys.argv[1])
work = tempfile.TemporaryDirectory()
folder = pathlib.Path(work.name)
FAKE_MPICC = """#!/bin/sh
while [ "$1" != -o ]; do shift; done
printf '#!/bin/sh\\nexec "%s/rows"\\n' '{0}' >"$2"; chmod +x "$2"
"""
# The n-th line of each row's values, one more in each run.
FAKE_ROWS = """#!/bin/sh
turn=$(($(cat '{0}/turn' 2>/dev/null) + 1)); echo $turn >'{0}/turn'
while read -r name bytes unit values; do
  set -- $values; shift $(((turn - 1) % $#)); echo "$name $bytes $1 $unit"
done <'{0}/table'
"""


def bench(*words, status=0, program=(PREFIX / "bin/weft", "bench"), **variables):
    done = subprocess.run([*program, *words], capture_output=True, text=True, env={**os.environ, **variables}, timeout=250)
    if done.returncode != status:
        failures.append(f"status of {words}: {done.returncode}: {done.stdout[-1000:]}{done.stderr[-2000:]}")
    return done


def fake(name, table):
    """An installation whose benchmark prints these rows: NAME BYTES UNIT, and the values of its runs."""
    home = folder / name
    (home / "bin").mkdir(parents=True)
    for path, text in [("bin/mpicc", FAKE_MPICC), ("bin/mpirun", '#!/bin/sh\n[ "$1" = --version ] && echo "Fake MPI 1.2" && exit\nexec "$3"\n'), ("rows", FAKE_ROWS), ("table", table)]:
        (home / path).write_text(text.replace("{0}", str(home)))
        (home / path).chmod(0o755)
    return str(home)


def bars(file):
    """How many there are for ratios."""
    found = xml.etree.ElementTree.parse(file).getroot()
    want("the picture's element", found.tag, "{http://www.w3.org/2000/svg}svg")
    return sum(one.tag.endswith("rect") and one.get("fill") != "white" for one in found.iter())


def known_answers():
    """Medians of each library, ratios of the first to the best other, by unit."""
    first = fake("a<&>/inst", "latency 8 us 3 9 2\nbandwidth 1048576 MB/s 500 100 200\noverlap 65536 % 50 50 50\nhidden 65536 % 0 0 0\nalone 0 us 1 1 1\n")
    second = fake("b/inst", "latency 8 us 6 6 6\nbandwidth 1048576 MB/s 100 100 100\noverlap 65536 % 25 25 25\nhidden 65536 % 20 20 20\n")
    third = fake("c", "latency 8 us 4 1.5 1\nbandwidth 1048576 MB/s 50 800 800\noverlap 65536 % 75 75 75\nhidden 65536 % 0 0 0\n")
    file, image = folder / "known.json", folder / "known.svg"
    script = (sys.executable, pathlib.Path(__file__).with_name("compare.py"))
    done = bench(first, second, "--against", third, "--ranks", "1", "--runs", "3", "--only", "all", "--json", file, "--picture", image, "--limit", "3", program=script, status=1)
    found = json.loads(file.read_text())
    want("libraries", found["libraries"], {"a<&>/inst": "Fake MPI 1.2", "b/inst": "Fake MPI 1.2", "c": "Fake MPI 1.2"})
    rows = {row["name"]: (list(row["values"].values()), row["ratio"]) for row in found["rows"]}
    want("medians and ratios", rows, {"latency": ([3, 6, 1.5], 2), "bandwidth": ([200, 100, 800], 4), "overlap": ([50, 25, 75], 1.2),
                                      "hidden": ([0, 20, 0], 200 / 180), "alone": ([1], None)})
    want("bars", bars(image), 4)
    has("the limit", done.stdout, "further behind than 3.0: bandwidth 1 MiB: 4.00\n")


def distances():
    """Which samples count, by how far the processors were from each other."""
    def kept(**lines):
        found = same_distance({name: [Sample({}, line) for line in taken] for name, taken in lines.items()})
        return found and {name: [s.line for s in taken] for name, taken in found.items()}
    want("all near", kept(a=[50, 55], b=[52, 60]), {"a": [50, 55], "b": [52, 60]})
    want("most are far", kept(a=[50, 220, 210], b=[230, 52, 200]), {"a": [220, 210], "b": [230, 200]})
    want("one moved meanwhile", kept(a=[50, None], b=[52, 51]), {"a": [50], "b": [52, 51]})
    want("never the same", kept(a=[50, 51], b=[220, None]), None)
    want("not known", kept(a=[None], b=[None]), None)


def a_short_run():
    """Of this Weft: all rows that were asked for, overlap in per cent."""
    file, image = folder / "alone.json", folder / "beside.svg"
    bench("--quick", "--runs", "1", "--only", "barrier,overlap", "--json", file)
    found = json.loads(file.read_text())
    names = {"barrier"} | {kind.format(call) for call in ("isend_irecv", "iallreduce", "ialltoall") for kind in ("{}", "overlap_{}", "overlap_{}_tested")}
    want("rows", {row["name"] for row in found["rows"]}, names)
    want("sizes of overlap", {row["bytes"] for row in found["rows"]}, {0, 65536, 1 << 20, 4 << 20})
    for row in found["rows"]:
        value = row["values"]["weft"]
        want(f"{row['name']} is possible", 0 <= value <= 100 if row["unit"] == "%" else value > 0, True)
    want("no ratio", {row["ratio"] for row in found["rows"]}, {None})
    want("the machine", found["machine"]["processors"], os.cpu_count())
    (folder / "again").symlink_to(PREFIX)
    set_so = f"again={folder / 'again'},WEFT_NET=shm"
    done = bench("--quick", "--runs", "1", "--only", "barrier,latency", "--against", set_so, "--picture", image, "--json", file)
    want("what was set", json.loads(file.read_text())["libraries"]["again"].endswith(", WEFT_NET=shm"), True)
    want("both columns", done.stdout.splitlines()[1].split(), ["row", "unit", "weft", "again", "ratio"] + ["line"] * (len(os.sched_getaffinity(0)) > 1))
    want("rows of a table", sum(line.split()[0] in ("barrier", "latency") for line in done.stdout.splitlines()), 11)
    want("bars", bars(image), 11)


def mistakes():
    has("a picture of nothing", bench("--picture", "x.svg", status=2).stderr, "name another installation")
    has("no installation", bench("--against", "/nowhere", status=2).stderr, "/nowhere: there is no bin/mpicc")
    has("a part that fails", bench("--only", "barrier", "--quick", "--against", f"away={PREFIX},WEFT_NET=nothing", status=1).stderr, "failed with")
    has("one installation twice", bench("--against", folder / "again", folder / "again", status=2).stderr, "have one name")
    slow = fake("slow", "")
    (folder / "slow/bin/mpirun").write_text("#!/bin/sh\nexec sleep 60\n")
    has("a library that does not end", bench("--only", "barrier", "--quick", "--against", slow, "--timeout", "10", status=1).stderr, "took longer than 10 s")
    has("no Python", bench("--quick", status=1, PATH="/nowhere").stderr, "needs Python 3")


for test in (known_answers, distances, a_short_run, mistakes):
    test()
print("\n".join(failures) or "result: weft bench compares as it should")
sys.exit(1 if failures else 0)
