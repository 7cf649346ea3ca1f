#!/usr/bin/env python3
"""Start-up side by side: a job that calls MPI_Init, MPI_Barrier and MPI_Finalize, from typing mpirun to the prompt, compiled with each
installation's mpicc. The installations take turns; prints medians, and the ratio of the first to the best of the others.

    startup.py [--ranks 2,32,128] [--runs 9] PREFIX [PREFIX ...]
    startup.py --bed 8 [--ranks 8,32] [--runs 9] PREFIX [PREFIX ...]     on so many hosts of test/beds/cluster, over ssh; needs root

Installations that cannot start a job say so and are left out. A ratio below 1 means that the first is ahead.
"""
import argparse, os, pathlib, statistics, subprocess, sys, tempfile, time

sys.dont_write_bytecode = True
from compare import environment

HERE = pathlib.Path(__file__).resolve().parent
CLUSTER = HERE.parent / "beds" / "cluster"


class Installation:
    def __init__(self, prefix, folder):
        self.prefix, self.name = os.path.abspath(prefix), pathlib.Path(prefix).name
        self.environment = environment(self.prefix)
        self.environment.setdefault("PRTE_ALLOW_RUN_AS_ROOT", "1")
        self.environment.setdefault("PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
        self.program = folder / f"startup-{abs(hash(self.prefix))}"
        subprocess.run([f"{self.prefix}/bin/mpicc", "-O1", "-o", str(self.program), str(HERE / "startup.c")], check=True,
                       env=self.environment)
        version = subprocess.run([f"{self.prefix}/bin/mpirun", "--version"], env=self.environment, capture_output=True, text=True)
        self.open_mpi = "open" in version.stdout.lower()
        self.times, self.trouble = {}, None

    def command(self, ranks, hosts):
        each = -(-ranks // max(len(hosts), 1))
        if not hosts:
            where = []
        elif self.open_mpi:  # the library path of its daemons is not passed on otherwise
            where = ["-H", ",".join(f"{h}:{each}" for h in hosts), "-x", "LD_LIBRARY_PATH"]
        else:
            where = ["-hosts", ",".join(hosts), "-ppn", str(each)]
        return [f"{self.prefix}/bin/mpirun", *where, "-n", str(ranks), str(self.program)]

    def run(self, ranks, hosts, before):
        if self.trouble:
            return
        begin = time.monotonic()
        try:
            done = subprocess.run([*before, *self.command(ranks, hosts)], env=self.environment, capture_output=True, text=True, timeout=120,
                                  stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            self.trouble = "took longer than 120 s"
            return
        if done.returncode:
            self.trouble = f"ended with {done.returncode}: {(done.stdout + done.stderr)[-1500:]}"
        else:
            self.times.setdefault(ranks, []).append(time.monotonic() - begin)


def measure(options, installations, hosts, before):
    for ranks in options.ranks:
        for one in installations:
            one.run(ranks, hosts, before)  # a first time, for caches
            one.times.pop(ranks, None)
        for _ in range(options.runs):
            for one in installations:
                one.run(ranks, hosts, before)


def report(options, installations):
    where = f"{options.bed} hosts" if options.bed else "one host"
    print(f"seconds, median of {options.runs} interleaved runs on {where}; ratio = {installations[0].name} to the best other")
    print(f"{'ranks':>6}" + "".join(f"{i.name:>14}" for i in installations) + f"{'ratio':>8}")
    for ranks in options.ranks:
        medians = [statistics.median(i.times[ranks]) if len(i.times.get(ranks, [])) == options.runs else None for i in installations]
        others = [m for m in medians[1:] if m]
        ratio = f"{medians[0] / min(others):8.2f}" if medians[0] and others else ""
        print(f"{ranks:6}" + "".join(f"{m:14.3f}" if m else f"{'-':>14}" for m in medians) + ratio)
    for one in installations:
        if one.trouble:
            print(f"{one.name}: {one.trouble}")


def on_bed(options, installations, folder):
    """Runs the measurement with mpirun on the head of a cluster. Its hosts see the temporary folder and the installations."""
    name = f"startup-{os.getpid()}"
    paths = [i.environment["LD_LIBRARY_PATH"].strip(":") for i in installations]
    bed = {**os.environ, "CLUSTER_NAME": name, "CLUSTER_SETENV": "LD_LIBRARY_PATH=" + ":".join(p for p in paths if p)}
    shared = [word for path in [str(folder), *(i.prefix for i in installations)] for word in ("--share", path)]
    try:
        subprocess.run([str(CLUSTER), "up", str(options.bed), *shared], check=True, env=bed, stdout=subprocess.DEVNULL)
        for one in installations:
            one.environment["CLUSTER_NAME"] = name
        measure(options, installations, [f"node{i}" for i in range(1, options.bed + 1)], [str(CLUSTER), "exec", "head", "--"])
    finally:
        subprocess.run([str(CLUSTER), "down"], env=bed, stdout=subprocess.DEVNULL)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prefixes", nargs="+", metavar="PREFIX")
    parser.add_argument("--ranks", type=lambda text: list(map(int, text.split(","))))
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--bed", type=int, default=0, metavar="HOSTS")
    options = parser.parse_args()
    options.ranks = options.ranks or ([options.bed, 4 * options.bed] if options.bed else [2, 32, 128])
    with tempfile.TemporaryDirectory(dir="/var/tmp" if options.bed else None) as name:
        folder = pathlib.Path(name)
        installations = [Installation(prefix, folder) for prefix in options.prefixes]
        if options.bed:
            on_bed(options, installations, folder)
        else:
            measure(options, installations, [], [])
        report(options, installations)


if __name__ == "__main__":
    main()
