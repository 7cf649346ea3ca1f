#!/usr/bin/env python3
"""Compares MPI installations side by side on this machine: the same benchmark, compiled with each one's mpicc, run in turns
(A B C A B C ...), so that drift of the machine hits all alike. Prints medians and the ratio of the first to the best other.

    compare.py [--ranks 2] [--runs 5] [--quick] [--only NAME,...] [--net tcp] [--hosts A,B] [--source FILE] [--sockets] [--limit 1.5] [--json FILE]
               PREFIX [PREFIX ...]

--net tcp makes all of them use tcp between the ranks, whatever else they could use. --hosts starts the ranks on these hosts over ssh,
which must see the same TMPDIR (in test/beds/cluster: one given to --share). --sockets adds what plain sockets do in the same pattern
(sockets.c, started by the first prefix): a column of its own, no part of the ratio. A ratio above 1 means that the first prefix is
behind; --limit makes the exit status 1 if a row is further behind than that.
"""
import argparse, json, os, pathlib, statistics, subprocess, sys, tempfile, time

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
    done = subprocess.run(command, env=environment(prefix, options.net), capture_output=True, text=True, timeout=options.timeout)
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prefixes", nargs="+", metavar="PREFIX")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only")
    parser.add_argument("--net", choices=["tcp"])
    parser.add_argument("--hosts")
    parser.add_argument("--source", default="bench.c", help="another benchmark of this folder: local.c (packing and reducing; --ranks 1), threads.c")
    parser.add_argument("--sockets", action="store_true")
    parser.add_argument("--limit", type=float)
    parser.add_argument("--timeout", type=float, default=600)
    parser.add_argument("--json")
    options = parser.parse_args()
    medians = compare(options)
    first, others = options.prefixes[0], options.prefixes[1:]
    shown = list(medians)
    names = [pathlib.Path(p).name for p in shown]
    print(f"{options.ranks} ranks, median of {options.runs} interleaved runs; ratio = {names[0]} behind the best other (below 1: ahead)")
    print(f"{'row':24}{'unit':>6}" + "".join(f"{n:>14}" for n in names) + f"{'ratio':>8}")
    behind = []
    for key, mine in medians[first].items():
        name, size, unit = key
        theirs = [medians[p][key] for p in others if key in medians[p]]
        ratio = None
        if theirs:
            ratio = max(theirs) / mine if unit in HIGHER_IS_BETTER else mine / min(theirs)
            if options.limit and ratio > options.limit:
                behind.append(f"{name} {size}: {ratio:.2f}")
        cells = "".join(f"{medians[p].get(key, float('nan')):14.5g}" for p in shown)
        print(f"{name + (' ' + str(size) if size else ''):24}{unit:>6}{cells}" + (f"{ratio:8.2f}" if ratio else ""))
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({p: {" ".join(map(str, k)): v for k, v in r.items()} for p, r in medians.items()}, indent=1))
    if behind:
        print(f"further behind than {options.limit}: " + "; ".join(behind))
        sys.exit(1)


if __name__ == "__main__":
    main()
