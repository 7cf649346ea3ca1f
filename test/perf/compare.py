#!/usr/bin/env python3
"""Compares MPI installations side by side on this machine: the same benchmark, compiled with each one's mpicc, run in turns
(A B C A B C ...), so that drift of the machine hits all alike. Prints medians and the ratio of the first to the best other.

    compare.py [OPTIONS] PREFIX [PREFIX ...]
    weft bench [OPTIONS] [--against PREFIX [PREFIX ...]]      this Weft, alone or beside others

--net tcp makes all of them use tcp between the ranks, whatever else they could use. --hosts starts the ranks on these hosts over ssh,
which must see the same TMPDIR (in test/beds/cluster: one given to --share). --sockets adds what plain sockets do in the same pattern
(sockets.c, started by the first prefix): a column of its own, no part of the ratio. A ratio above 1 means that the first prefix is
behind; --limit makes the exit status 1 if a row is further behind than that. Rows of overlap, in %, are what a computation hides of a
call that takes as long: their ratio is that of the times of both together, 200 - overlap.
"""
import argparse, datetime, html, json, math, os, pathlib, platform, statistics, subprocess, sys, tempfile, time

HIGHER_IS_BETTER = {"MB/s", "1/s", "share"}
SOCKETS = "sockets"
FOLDER = pathlib.Path(__file__).parent


# What makes each library use nothing but tcp between ranks. Those that ignore it would be too fast by far: see the latencies.
TCP = {
    "WEFT_NET": "tcp",
    "OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "self,tcp", "OMPI_MCA_coll": "^sm,han",
    "MPIR_CVAR_NOLOCAL": "1", "UCX_TLS": "tcp,self", "I_MPI_FABRICS": "ofi", "FI_PROVIDER": "tcp",
}


def environment(prefix, net=None):
    """The program finds its own MPI first."""
    env = dict(os.environ, **(TCP if net == "tcp" else {}))
    env["PATH"] = f"{prefix}/bin:{env['PATH']}"
    env["I_MPI_ROOT"] = str(prefix)
    env.setdefault("OMPI_ALLOW_RUN_AS_ROOT", "1")
    env.setdefault("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
    env.setdefault("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe")
    libraries = [str(p) for p in (pathlib.Path(prefix) / "lib", pathlib.Path(prefix) / "lib/mpi/release") if p.is_dir()]
    env["LD_LIBRARY_PATH"] = ":".join(libraries + [env.get("LD_LIBRARY_PATH", "")])
    return env


def build(prefix, folder, source):
    program = folder / f"{source}-{abs(hash(prefix))}"
    subprocess.run([f"{prefix}/bin/mpicc", "-O2", "-o", str(program), str(FOLDER / source)], check=True, env=environment(prefix))
    return program


def launch(prefix, options):
    """The launcher's words before the program's name."""
    words = [f"{prefix}/bin/mpirun", "-n", str(options.ranks)]
    if not options.hosts:
        return words
    hosts = options.hosts.split(",")
    each = -(-options.ranks // len(hosts))
    if (pathlib.Path(prefix) / "bin/weft").exists():
        return words + ["-H", options.hosts] + [word for name, value in TCP.items() if options.net and name.startswith("WEFT") for word in ("-x", f"{name}={value}")]
    if (pathlib.Path(prefix) / "bin/ompi_info").exists():
        return words + ["--prefix", prefix, "--host", ",".join(f"{host}:{each}" for host in hosts)]
    return words + ["-hosts", options.hosts, "-ppn", str(each)]


def run(prefix, program, options):
    command = launch(prefix, options) + [str(program)]
    command += ["--quick"] if options.quick else []
    command += ["--only", options.only] if options.only else []
    begin = time.monotonic()
    try:
        done = subprocess.run(command, env=environment(prefix, options.net), capture_output=True, text=True, timeout=options.timeout)
    except subprocess.TimeoutExpired:
        raise SystemExit(f"{' '.join(command)} took longer than {options.timeout:g} s: see --quick, --only and --timeout") from None
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed with {done.returncode}:\n{done.stdout}{done.stderr}")
    rows = {}
    for line in done.stdout.splitlines():
        fields = line.split()
        if len(fields) == 4:
            rows[(fields[0], int(fields[1]), fields[3])] = float(fields[2])
    return rows, time.monotonic() - begin


def start_up(prefix, program, options):
    """Seconds from typing mpirun to the prompt, for a job that only meets once."""
    command = launch(prefix, options) + [str(program), "--only", "nothing"]
    begin = time.monotonic()
    subprocess.run(command, env=environment(prefix, options.net), check=True, capture_output=True, timeout=options.timeout)
    return time.monotonic() - begin


def columns(options, folder):
    """What takes turns: name of the column, installation, program."""
    made = [(p, p, build(p, folder, options.source)) for p in options.prefixes]
    if options.sockets:
        made.append((SOCKETS, options.prefixes[0], build(options.prefixes[0], folder, "sockets.c")))
    return made


def compare(options):
    with tempfile.TemporaryDirectory() as folder:
        turns = columns(options, pathlib.Path(folder))
        values = {name: {} for name, _, _ in turns}
        for _ in range(options.runs):
            for name, prefix, program in turns:
                rows, _ = run(prefix, program, options)
                if name != SOCKETS and options.source == "bench.c" and (not options.only or "start_up" in options.only.split(",")):
                    rows[("start_up", 0, "s")] = statistics.median(start_up(prefix, program, options) for _ in range(3))
                for key, value in rows.items():
                    values[name].setdefault(key, []).append(value)
    return {p: {k: statistics.median(v) for k, v in rows.items()} for p, rows in values.items()}


def names_of(prefixes, own):
    """What the columns are called: the last folder, with as many of those above as tell it from the others; "weft" for `own`."""
    parts = {p: pathlib.Path(os.path.abspath(p)).parts for p in prefixes}
    names = {}
    for p in prefixes:
        ends = range(1, len(parts[p]) + 1)
        length = next((n for n in ends if [q[-n:] for q in parts.values()].count(parts[p][-n:]) == 1), 1)
        names[p] = "weft" if p == own else "/".join(parts[p][-length:])
    return names


def ratio_of(unit, mine, theirs):
    """How far the first is behind the best other; None if there is none."""
    if not theirs:
        return None
    if unit == "%":
        return (200 - mine) / (200 - max(theirs))
    return max(theirs) / mine if unit in HIGHER_IS_BETTER else mine / min(theirs)


def ratios(medians, prefixes):
    """{(name, size, unit): how far the first is behind the best of the others}, of the rows that the first has."""
    others = prefixes[1:]
    return {key: ratio_of(key[2], mine, [medians[p][key] for p in others if key in medians[p]]) for key, mine in medians[prefixes[0]].items()}


def title(key):
    name, size, _ = key
    unit = next((u for u in (1 << 20, 1 << 10) if size and size % u == 0), 1)
    return name + (f" {size // unit}{ {1: ' B', 1 << 10: ' KiB', 1 << 20: ' MiB'}[unit]}" if size else "")


def version(prefix):
    """The first line that says one."""
    said = subprocess.run([f"{prefix}/bin/mpirun", "--version"], env=environment(prefix), capture_output=True, text=True)
    return next((line.strip() for line in said.stdout.splitlines() if any(c.isdigit() for c in line)), "")


def processor():
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines() if os.path.exists("/proc/cpuinfo") else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def write_json(path, options, names, medians, behind):
    """All that is needed to compare with a later run."""
    rows = [{"name": k[0], "bytes": k[1], "unit": k[2], "values": {names[p]: m[k] for p, m in medians.items() if k in m}, "ratio": r}
            for k, r in behind.items()]
    text = {"weft-bench": 1, "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "machine": {"processor": processor(), "processors": os.cpu_count(), "system": f"{platform.system()} {platform.release()}"},
            "source": options.source, "ranks": options.ranks, "runs": options.runs, "quick": options.quick, "net": options.net,
            "first": names[options.prefixes[0]], "libraries": {names[p]: version(p) for p in options.prefixes}, "rows": rows}
    pathlib.Path(path).write_text(json.dumps(text, indent=1) + "\n")


def picture(options, names, behind):
    """The ratios as bars around 1, on a scale where twice as fast and half as fast are as long, up to 8 times: an SVG."""
    shown = {k: r for k, r in behind.items() if r}
    first, left, middle, reach, each, step = names[options.prefixes[0]], 230, 520, 3, 90, 20
    others = ", ".join(names[p] for p in options.prefixes[1:])
    height = 70 + step * len(shown)
    heading = html.escape(f"{first} beside the best of {others}: {options.ranks} ranks, medians of {options.runs} interleaved runs")
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


def show(options, names, medians, behind):
    head = f"{options.ranks} ranks, median of {options.runs} interleaved runs"
    print(head + (f"; ratio = {names[options.prefixes[0]]} behind the best other (below 1: ahead)" if len(options.prefixes) > 1 else ""))
    print(f"{'row':34}{'unit':>6}" + "".join(f"{names[p]:>14}" for p in medians) + (f"{'ratio':>8}" if len(options.prefixes) > 1 else ""))
    for key, ratio in behind.items():
        cells = "".join(f"{m.get(key, float('nan')):14.5g}" for m in medians.values())
        print(f"{title(key):34}{key[2]:>6}{cells}" + (f"{ratio:8.2f}" if ratio else ""))


def read_options():
    own = "--own" in sys.argv
    parser = argparse.ArgumentParser(prog="weft bench" if own else None, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--own", help=argparse.SUPPRESS)  # what weft bench says: where it is installed
    parser.add_argument("prefixes", nargs="*", metavar="PREFIX", help=argparse.SUPPRESS if own else None)
    parser.add_argument("--against", nargs="+", default=[], metavar="PREFIX", help="installations to compare with: folders above bin/")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--runs", type=int, default=5, help="rounds; each library runs once in each")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions of each call")
    parser.add_argument("--only", metavar="NAME,...", help="rows of these names; overlap: nonblocking calls")
    parser.add_argument("--net", choices=["tcp"])
    parser.add_argument("--hosts")
    parser.add_argument("--source", default="bench.c", help="another benchmark of this folder: local.c (packing and reducing; --ranks 1), threads.c")
    parser.add_argument("--sockets", action="store_true")
    parser.add_argument("--limit", type=float)
    parser.add_argument("--timeout", type=float, default=600, help="seconds for one run of one library")
    parser.add_argument("--json", metavar="FILE", help="writes the medians, with what was compared where and when")
    parser.add_argument("--picture", metavar="FILE", help="writes the ratios as bars, an SVG")
    options = parser.parse_args()
    options.prefixes = ([options.own] if own else []) + options.prefixes + options.against
    if not options.prefixes:
        parser.error("no PREFIX")
    if options.picture and len(options.prefixes) == 1:
        parser.error("a picture shows ratios: name another installation to compare with")
    if len(set(options.prefixes)) < len(options.prefixes):
        parser.error("an installation is named twice")
    for prefix in options.prefixes:
        if not os.access(f"{prefix}/bin/mpicc", os.X_OK):
            parser.error(f"{prefix}: there is no bin/mpicc")
    return options


def main():
    options = read_options()
    medians = compare(options)
    names = names_of(options.prefixes, options.own) | {SOCKETS: SOCKETS}
    behind = ratios(medians, options.prefixes)
    show(options, names, medians, behind)
    if options.json:
        write_json(options.json, options, names, medians, behind)
    if options.picture:
        pathlib.Path(options.picture).write_text(picture(options, names, behind))
    far = [f"{title(key)}: {ratio:.2f}" for key, ratio in behind.items() if ratio and options.limit and ratio > options.limit]
    if far:
        print(f"further behind than {options.limit}: " + "; ".join(far))
        sys.exit(1)


if __name__ == "__main__":
    main()
