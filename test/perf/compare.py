#!/usr/bin/env python3
"""Compares MPI installations side by side on this machine: the same benchmark, compiled with each one's mpicc, its parts run in turns
(A B C A B C ...), so that drift of the machine hits all alike. Prints medians and the ratio of the first to the best other.

    compare.py [OPTIONS] LIBRARY [LIBRARY ...]
    weft bench [OPTIONS] [--against LIBRARY [LIBRARY ...]]      this Weft, alone or beside others

A LIBRARY is the folder above its bin/, with settings if it needs some, and a name for the table: [NAME=]PREFIX[,VARIABLE=VALUE...], for example
ucx=/opt/openmpi,OMPI_MCA_pml=ucx. --net tcp makes all of them use tcp between the ranks, whatever else they could use. --hosts starts the ranks on
these hosts over ssh, which must see the same TMPDIR (in test/beds/cluster: one given to --share). --sockets adds what plain sockets do in the
same pattern (sockets.c, started by the first prefix): a column of its own, no part of the ratio. A ratio above 1 means that the first one is
behind; --limit makes the exit status 1 if a row is further behind than that. Rows of overlap, in %, are what a computation hides of a
call that takes as long: their ratio is that of the times of both together, 200 - overlap.

On one host the way of a cache line between two processors is timed before and after each sample (line.c). Virtual processors move, and with them
all times; only samples between equally distant processors count, those of the distance that most are from. The column "line" says which
(ns one way); "~" marks rows for which the libraries never had the same one, so that all samples count.
"""
import argparse, datetime, html, json, math, os, pathlib, platform, statistics, subprocess, sys, tempfile, time
from typing import NamedTuple

HIGHER_IS_BETTER = {"MB/s", "1/s", "share"}
SOCKETS = "sockets"
FOLDER = pathlib.Path(__file__).parent


# What makes each library use nothing but tcp between ranks. Those that ignore it would be too fast by far: see the latencies.
TCP = {
    "WEFT_NET": "tcp",
    "OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "self,tcp", "OMPI_MCA_coll": "^sm,han",
    "MPIR_CVAR_NOLOCAL": "1", "UCX_TLS": "tcp,self", "I_MPI_FABRICS": "ofi", "FI_PROVIDER": "tcp",
}


# What benchmarks can run alone: short enough for the machine to stay as it is meanwhile.
PARTS = {"bench.c": ["memory", "latency", "message_rate", "bandwidth", "bidirectional", "barrier", "bcast", "reduce", "allreduce", "allgather",
                     "alltoall", "reduce_scatter", "start_up"],
         "calls.c": ["ssend", "any_source", "probe", "isend_irecv", "vector", "sendrecv", "gather", "scatter", "gatherv", "scatterv", "allgatherv",
                     "alltoallv", "reduce_scatterv", "scan", "exscan", "allreduce_in_place", "ibarrier", "ibcast", "iallreduce", "iallgather",
                     "ialltoall", "neighbor_alltoall", "comm_dup", "comm_split"]}
SAME_DISTANCE = 1.5  # a line's times that differ by less come from the same place


class Library(NamedTuple):
    name: str
    prefix: str
    settings: dict


class Column(NamedTuple):
    """What takes turns."""
    name: str
    library: Library
    program: pathlib.Path


class Sample(NamedTuple):
    rows: dict    # (name, bytes, unit): value
    line: float   # ns one way; None: it changed meanwhile


def library(text):
    """[NAME=]PREFIX[,VARIABLE=VALUE...]; the name is empty if there is none."""
    where, *settings = text.split(",")
    name, equals, prefix = where.partition("=")
    if not equals or "/" in name:
        name, prefix = "", where
    return Library(name, prefix, dict(setting.partition("=")[::2] for setting in settings))


def environment(of, net=None):
    """The program finds its own MPI first."""
    env = os.environ | of.settings | (TCP if net == "tcp" else {})
    env["PATH"] = f"{of.prefix}/bin:{env['PATH']}"
    env["I_MPI_ROOT"] = of.prefix
    env.setdefault("OMPI_ALLOW_RUN_AS_ROOT", "1")
    env.setdefault("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
    env.setdefault("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe")
    libraries = [str(p) for p in (pathlib.Path(of.prefix) / "lib", pathlib.Path(of.prefix) / "lib/mpi/release") if p.is_dir()]
    env["LD_LIBRARY_PATH"] = ":".join(libraries + [env.get("LD_LIBRARY_PATH", "")])
    return env


def build(of, folder, source):
    program = folder / f"{source}-{of.name.replace('/', '-')}"
    subprocess.run([f"{of.prefix}/bin/mpicc", "-O2", "-o", str(program), str(FOLDER / source)], check=True, env=environment(of))
    return program


def launch(of, options):
    """The launcher's words before the program's name."""
    words = [f"{of.prefix}/bin/mpirun", "-n", str(options.ranks)]
    if not options.hosts:
        return words
    hosts = options.hosts.split(",")
    each = -(-options.ranks // len(hosts))
    if (pathlib.Path(of.prefix) / "bin/weft").exists():
        return words + ["-H", options.hosts] + [word for name, value in TCP.items() if options.net and name.startswith("WEFT") for word in ("-x", f"{name}={value}")]
    if (pathlib.Path(of.prefix) / "bin/ompi_info").exists():
        return words + ["--prefix", of.prefix, "--host", ",".join(f"{host}:{each}" for host in hosts)]
    return words + ["-hosts", options.hosts, "-ppn", str(each)]


def run(column, part, options):
    """The rows of one part of the benchmark; all, if it has none."""
    of = column.library
    command = launch(of, options) + [str(column.program)]
    command += [f"--{name}" for name in ("quick", "fresh") if getattr(options, name)]
    command += ["--only", part] if part else []
    try:
        done = subprocess.run(command, env=environment(of, options.net), capture_output=True, text=True, timeout=options.timeout)
    except subprocess.TimeoutExpired:
        raise SystemExit(f"{' '.join(command)} took longer than {options.timeout:g} s: see --quick, --only and --timeout") from None
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed with {done.returncode}:\n{done.stdout}{done.stderr}")
    fields = [line.split() for line in done.stdout.splitlines()]
    return {(f[0], int(f[1]), f[3]): float(f[2]) for f in fields if len(f) == 4}


def start_up(column, options):
    """Seconds from typing mpirun to the prompt, for a job that only meets once."""
    def once():
        begin = time.monotonic()
        run(column, "nothing", options)
        return time.monotonic() - begin
    return {("start_up", 0, "s"): statistics.median(once() for _ in range(3))}


def columns(options, folder):
    made = [Column(of.name, of, build(of, folder, options.source)) for of in options.libraries]
    if options.sockets:
        made.append(Column(SOCKETS, options.libraries[0], build(options.libraries[0], folder, "sockets.c")))
    return made


class Line:
    """Times the way of a cache line between two processors of this host; None where there is nothing to time it with."""

    def __init__(self, options, folder):
        processors = [str(p) for p in sorted(os.sched_getaffinity(0))[:2]]
        program, self.command = folder / "line", None
        if options.ranks == 1 or options.hosts or len(processors) < 2:
            return
        try:
            subprocess.run([os.environ.get("CC", "cc"), "-O2", "-pthread", "-o", program, FOLDER / "line.c"], check=True, capture_output=True)
            self.command = [program, *processors]
        except (OSError, subprocess.CalledProcessError):
            print("no C compiler: distances of processors are not known", file=sys.stderr)

    def time(self):
        return float(subprocess.run(self.command, check=True, capture_output=True, text=True).stdout) if self.command else None


def near_each_other(times):
    """Those of equal distance in groups, the shortest first."""
    groups = []
    for value in sorted(times):
        if groups and value <= groups[-1][0] * SAME_DISTANCE:
            groups[-1].append(value)
        else:
            groups.append([value])
    return groups


def same_distance(samples):
    """{column: those of its samples that all columns have most of}; None if they never had the same distance."""
    if all(s.line is None for taken in samples.values() for s in taken):
        return None
    groups = near_each_other({s.line for taken in samples.values() for s in taken if s.line is not None})
    chosen = [{name: [s for s in taken if s.line in group] for name, taken in samples.items()} for group in groups]
    best = max(chosen, key=lambda kept: min(len(taken) for taken in kept.values()))
    return best if all(best.values()) else None


def sample(column, part, line, options):
    before = line.time()
    rows = start_up(column, options) if part == "start_up" else run(column, part, options)
    after = line.time()
    steady = before is not None and max(before, after) <= SAME_DISTANCE * min(before, after)
    return Sample(rows, (before + after) / 2 if steady else None)


def measure(part, turns, line, options):
    """{column: samples} of one part, as many as asked for; up to twice as many until half of them are from equal distances."""
    samples = {column.name: [] for column in turns}
    for taken in range(2 * options.runs):
        kept = same_distance(samples) if taken and line.command else None
        if taken >= options.runs and (not line.command or (kept and min(map(len, kept.values())) * 2 >= options.runs)):
            break
        for column in turns[taken % len(turns):] + turns[:taken % len(turns)]:  # nobody always follows the same one
            if part != "start_up" or column.name != SOCKETS:
                samples[column.name].append(sample(column, part, line, options))
    return {name: taken for name, taken in samples.items() if taken}


def medians_of(samples):
    """{column: {row: median}}, and {row: ns of a line; None if distances differ}."""
    kept = same_distance(samples)
    lines = [s.line for taken in (kept or {}).values() for s in taken]
    line = statistics.median(lines) if lines else None
    found = {}
    for name, taken in (kept or samples).items():
        keys = dict.fromkeys(key for s in taken for key in s.rows)
        found[name] = {key: statistics.median(s.rows[key] for s in taken if key in s.rows) for key in keys}
    return found, {key: line for rows in found.values() for key in rows}


def compare(options):
    """({column: {row: median}}, {row: ns of a line})."""
    parts = options.only.split(",") if options.only else PARTS.get(options.source, [None])
    medians, lines = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        turns, line = columns(options, pathlib.Path(folder)), Line(options, pathlib.Path(folder))
        for part in parts:
            found, at = medians_of(measure(part, turns, line, options))
            lines |= at
            for name, rows in found.items():
                medians.setdefault(name, {}).update(rows)
    return medians, lines if line.command else {}


def named(libraries, own):
    """With names: if they have none the last folder, with as many of those above as tell it from the others; "weft" for the prefix `own`."""
    parts = [pathlib.Path(os.path.abspath(of.prefix)).parts for of in libraries]

    def name(mine):
        ends = range(1, len(mine) + 1)
        return "/".join(mine[-next((n for n in ends if [other[-n:] for other in parts].count(mine[-n:]) == 1), 1):])
    return [of._replace(name=of.name or ("weft" if of.prefix == own else name(mine))) for of, mine in zip(libraries, parts)]


def ratio_of(unit, mine, theirs):
    """How far the first is behind the best other; None if there is none."""
    if not theirs:
        return None
    if unit == "%":
        return (200 - mine) / (200 - max(theirs))
    return max(theirs) / mine if unit in HIGHER_IS_BETTER else mine / min(theirs)


def ratios(medians, libraries):
    """{(name, size, unit): how far the first is behind the best of the others}, of the rows that the first has."""
    first, *others = [of.name for of in libraries]
    return {key: ratio_of(key[2], mine, [medians[name][key] for name in others if key in medians[name]]) for key, mine in medians[first].items()}


def mean_of(behind):
    """The geometric one."""
    return statistics.geometric_mean([ratio for ratio in behind.values() if ratio] or [1])


def title(key):
    name, size, _ = key
    unit = next((u for u in (1 << 20, 1 << 10) if size and size % u == 0), 1)
    return name + (f" {size // unit}{ {1: ' B', 1 << 10: ' KiB', 1 << 20: ' MiB'}[unit]}" if size else "")


def version(of):
    """The first line that says one, with what has been set."""
    said = subprocess.run([f"{of.prefix}/bin/mpirun", "--version"], env=environment(of), capture_output=True, text=True)
    line = next((line.strip() for line in said.stdout.splitlines() if any(c.isdigit() for c in line)), "")
    return ", ".join([line, *(f"{name}={value}" for name, value in of.settings.items())])


def processor():
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines() if os.path.exists("/proc/cpuinfo") else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def write_json(path, options, medians, lines, behind):
    """All that is needed to compare with a later run."""
    rows = [{"name": k[0], "bytes": k[1], "unit": k[2], "values": {name: m[k] for name, m in medians.items() if k in m}, "ratio": r, "line_ns": lines.get(k)}
            for k, r in behind.items()]
    text = {"weft-bench": 1, "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "machine": {"processor": processor(), "processors": os.cpu_count(), "system": f"{platform.system()} {platform.release()}"},
            "source": options.source, "ranks": options.ranks, "runs": options.runs, "quick": options.quick, "fresh": options.fresh, "net": options.net,
            "first": options.libraries[0].name, "libraries": {of.name: version(of) for of in options.libraries}, "mean": mean_of(behind), "rows": rows}
    pathlib.Path(path).write_text(json.dumps(text, indent=1) + "\n")


def picture(options, behind):
    """The ratios as bars around 1, on a scale where twice as fast and half as fast are as long, up to 8 times: an SVG."""
    shown = {k: r for k, r in behind.items() if r}
    (first, *others), left, middle, reach, each, step = [of.name for of in options.libraries], 230, 520, 3, 90, 20
    height = 70 + step * len(shown)
    heading = html.escape(f"{first} beside the best of {', '.join(others)}: {options.ranks} ranks, medians of {options.runs} interleaved runs")
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="860" height="{height}" font-family="sans-serif" font-size="12">',
             f'<rect width="860" height="{height}" fill="white"/><text x="20" y="20" font-size="14">{heading}</text>']
    for power in range(-reach, reach + 1):
        x, label = middle + each * power, f"{2 ** abs(power)}x " + ("behind" if power > 0 else "ahead") if power else "level"
        lines.append(f'<line x1="{x:.1f}" y1="50" x2="{x:.1f}" y2="{height - 15}" stroke="{"#000" if power == 0 else "#ccc"}"/>'
                     f'<text x="{x:.1f}" y="44" text-anchor="middle" fill="#555">{label}</text>')
    for number, (key, ratio) in enumerate(shown.items()):
        y, length = 55 + step * number, each * max(-reach, min(reach, math.log2(ratio)))
        lines.append(f'<text x="{left}" y="{y + 12}" text-anchor="end">{html.escape(title(key))}</text>'
                     f'<rect x="{middle + min(length, 0):.1f}" y="{y + 2}" width="{abs(length):.1f}" height="{step - 6}" fill="{"#c0504d" if length > 0 else "#4f9d69"}"/>'
                     f'<text x="{middle + length + (4 if length > 0 else -4):.1f}" y="{y + 12}" text-anchor="{"start" if length > 0 else "end"}">{ratio:.2f}</text>')
    return "\n".join([*lines, "</svg>", ""])


def markdown(options, medians, lines, behind):
    """The table as Markdown."""
    head = ["Row", "Unit", *medians, *["Ratio"] * (len(options.libraries) > 1), *["Line, ns"] * bool(lines)]
    rows = [head, ["---", "---", *["---:"] * (len(head) - 2)]]
    for key, ratio in behind.items():
        cells = [f"{m[key]:.4g}" if key in m else "" for m in medians.values()]
        cells += [f"{ratio:.2f}" if ratio else ""] * (len(options.libraries) > 1) + [f"{lines[key]:.0f}" if lines.get(key) else "~"] * bool(lines)
        rows.append([title(key), key[2], *cells])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def show(options, medians, lines, behind):
    beside = len(options.libraries) > 1
    print(f"{options.ranks} ranks, median of {options.runs} interleaved runs" +
          (f"; ratio = {options.libraries[0].name} behind the best other (below 1: ahead)" if beside else ""))
    print(f"{'row':34}{'unit':>6}" + "".join(f"{name:>14}" for name in medians) + (f"{'ratio':>8}" if beside else "") + (f"{'line':>7}" if lines else ""))
    for key, ratio in behind.items():
        cells = "".join(f"{m.get(key, float('nan')):14.5g}" for m in medians.values())
        line = f"{lines[key]:7.0f}" if lines.get(key) else "      ~" if lines else ""
        print(f"{title(key):34}{key[2]:>6}{cells}" + (f"{ratio:8.2f}" if ratio else " " * 8 * beside) + line)
    if beside:
        print(f"geometric mean of the ratios: {mean_of(behind):.2f}")


def read_options():
    own = "--own" in sys.argv
    parser = argparse.ArgumentParser(prog="weft bench" if own else None, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--own", help=argparse.SUPPRESS)  # what weft bench says: where it is installed
    parser.add_argument("libraries", nargs="*", metavar="LIBRARY", help=argparse.SUPPRESS if own else None)
    parser.add_argument("--against", nargs="+", default=[], metavar="LIBRARY", help="installations to compare with: folders above bin/")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--runs", type=int, default=5, help="rounds; each library runs each part once in each")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions of each call")
    parser.add_argument("--fresh", action="store_true", help="what is sent is written before, within the time: as programs do, and as benchmarks mostly do not")
    parser.add_argument("--only", metavar="NAME,...", help="rows of these names; overlap: nonblocking calls")
    parser.add_argument("--net", choices=["tcp"])
    parser.add_argument("--hosts")
    parser.add_argument("--source", default="bench.c", help="another benchmark of this folder: calls.c (other calls than those of bench.c), local.c (packing and reducing; --ranks 1), threads.c")
    parser.add_argument("--sockets", action="store_true")
    parser.add_argument("--limit", type=float)
    parser.add_argument("--timeout", type=float, default=600, help="seconds for one run of one part with one library")
    parser.add_argument("--json", metavar="FILE", help="writes the medians, with what was compared where and when")
    parser.add_argument("--markdown", metavar="FILE", help="writes the table for a text")
    parser.add_argument("--picture", metavar="FILE", help="writes the ratios as bars, an SVG")
    options = parser.parse_args()
    named_so = ([options.own] if own else []) + options.libraries + options.against
    options.libraries = named([library(text) for text in named_so], options.own)
    if not options.libraries:
        parser.error("no LIBRARY")
    if options.picture and len(options.libraries) == 1:
        parser.error("a picture shows ratios: name another installation to compare with")
    for path in filter(None, (options.json, options.markdown, options.picture)):
        if not pathlib.Path(path).absolute().parent.is_dir():
            parser.error(f"{path} cannot be written: there is no such folder")
    if len({of.name for of in options.libraries}) < len(options.libraries):
        parser.error("two installations have one name: NAME=PREFIX gives another")
    for of in options.libraries:
        if not os.access(f"{of.prefix}/bin/mpicc", os.X_OK):
            parser.error(f"{of.prefix}: there is no bin/mpicc")
    return options


def main():
    options = read_options()
    medians, lines = compare(options)
    behind = ratios(medians, options.libraries)
    show(options, medians, lines, behind)
    if options.json:
        write_json(options.json, options, medians, lines, behind)
    if options.markdown:
        pathlib.Path(options.markdown).write_text(markdown(options, medians, lines, behind))
    if options.picture:
        pathlib.Path(options.picture).write_text(picture(options, behind))
    far = [f"{title(key)}: {ratio:.2f}" for key, ratio in behind.items() if ratio and options.limit and ratio > options.limit]
    if far:
        print(f"further behind than {options.limit}: " + "; ".join(far))
        sys.exit(1)


if __name__ == "__main__":
    main()
