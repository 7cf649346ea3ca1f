#!/usr/bin/env python3
"""Runs random programs (README.md) under the installed mpirun, and shrinks one that fails to a small reproducer.

    PREFIX=... run.py --runs 30                  a fixed amount of work: the same on every machine
    PREFIX=... run.py --seconds 1800 --seed 7    for a time, from that seed on
    PREFIX=... run.py --runs 1 --seed 7 --ranks 3 --threads 1 --net tcp

Compiles the program with the installation's mpicxx, with CXXFLAGS and SANITIZE of the environment. MPIRUN, MPICXX name others: the
program is plain MPI. Number, ranks, threads and transports of each run are drawn from its seed, unless an option says them.
"""
import argparse
import concurrent.futures
import dataclasses
import os
import pathlib
import random
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent

# What Weft is made to do, by name; "delayed" and "full" are a transport that delays, reorders between peers, and is often full.
NETS = {
    "auto": {},
    "tcp": {"WEFT_NET": "tcp"},
    "delayed": {"WEFT_NET": "tcp", "WEFT_WRAP": "delay=0us-300us,reorder=0.1"},
    "full": {"WEFT_WRAP": "again=0.05x20,drop=0.1"},
    "copies": {"WEFT_SHM_CMA": "no"},
    "narrow": {"WEFT_PML_WINDOW": "4K", "WEFT_PML_EAGER": "256"},
    "ucx": {"WEFT_NET": "ucx"},  # where it is installed
}
# What goes with any of them, each now and then: no spinning before sleep, small rings and queues, grouped partitions.
SETTINGS = {
    "WEFT_PML_SPIN": ("0", 25),
    "WEFT_PML_BURST": ("1", 15),
    "WEFT_PML_PARTITION": ("4K", 25),
    "WEFT_SHM_RING": ("16K", 15),
    "WEFT_SHM_EXCHANGE": ("put", 25),
    "WEFT_TCP_QUEUE": ("8K", 15),
}
COLLECTIVES = {  # forced where they fit
    "barrier": ["dissemination", "node"],
    "bcast": ["binomial", "scatter_allgather", "chain", "binary_tree", "node"],
    "gather": ["linear", "binomial"],
    "scatter": ["linear", "binomial"],
    "allgather": ["ring", "recursive_doubling", "bruck", "neighbor_exchange"],
    "alltoall": ["linear", "pairwise", "bruck"],
    "reduce": ["binomial", "rabenseifner", "node"],
    "allreduce": ["recursive_doubling", "rabenseifner", "ring", "node"],
    "reduce_scatter": ["pairwise", "recursive_halving"],
    "scan": ["doubling", "chain"],
    "exscan": ["doubling", "chain"],
}


@dataclasses.dataclass(frozen=True)
class Case:
    """One run of the program."""
    seed: int
    ranks: int
    threads: int
    count: int
    env: tuple
    lanes: tuple = ()  # of each rank; none: as many as Weft thinks right
    steps: tuple = ()  # (step, part or -1); none: all

    def arguments(self):
        words = ["--seed", self.seed, "--count", self.count]
        if self.threads > 1:
            words += ["--threads", self.threads]
        if self.steps:
            words += ["--steps", ",".join(str(s) if p < 0 else f"{s}.{p}" for s, p in self.steps)]
        return [str(w) for w in words]

    def command(self, options):
        program = [options.program, *self.arguments(), "--limit", str(options.limit)]
        groups = [["-n", str(self.ranks), *program]]
        if self.lanes:
            groups = [["-n", "1", "env", f"WEFT_PML_LANES={self.lanes[rank]}", *program] for rank in range(self.ranks)]
        return shlex.split(options.mpirun) + [word for group in groups for word in [":", *group]][1:]

    def text(self, options):
        return " ".join([f"{k}={shlex.quote(v)}" for k, v in self.env] + [shlex.quote(w) for w in self.command(options)])


def nets(options):
    """Those that can be had here; others' mpirun looks at none of them. Sanitizers do not know what UCX does."""
    if options.net:
        return [options.net]
    ucx = not os.environ.get("SANITIZE") and pathlib.Path(os.environ.get("PREFIX", "/nowhere"), "lib/weft/btl_ucx.so").exists()
    return sorted(name for name in NETS if ucx or name != "ucx")


def draw_lanes(rng, ranks):
    """The same for all ranks, or each its own; threads on one lane meet, those on several do not."""
    how = rng.choice(["default", "default", "one", "four", "each"])
    return () if how == "default" else tuple({"one": 1, "four": 4, "each": rng.randint(1, 5)}[how] for _ in range(ranks))


def draw_case(seed, options):
    """The run that a seed stands for."""
    rng = random.Random(seed)
    ranks = min(options.ranks or rng.choice([1, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8]), options.most_ranks)
    threads = options.threads or rng.choice([1, 1, 1, 2, 3])
    env = dict(NETS[rng.choice(nets(options))])
    env |= {name: value for name, (value, percent) in SETTINGS.items() if rng.random() * 100 < percent}
    forced = [f"{name}={rng.choice(all_)}" for name, all_ in COLLECTIVES.items() if rng.random() < 0.5] if rng.random() < 0.5 else []
    if forced:
        env["WEFT_COLL"] = ";".join(forced)
    return Case(seed, ranks, threads, options.count, tuple(sorted(env.items())), draw_lanes(rng, ranks))


def run(case, options):
    """Status and output; a run that does not end says where it is and fails."""
    limit = options.limit
    process = subprocess.Popen(case.command(options), env={**os.environ, **dict(case.env)}, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True)
    try:
        output, _ = process.communicate(timeout=limit + 20)
        return process.returncode, output
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            output, _ = process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
        return 124, output + f"\nno end within {limit + 20} s\n"


class Shrinker:
    """Takes away what a failure does not need: steps, parts of steps, threads, ranks, settings."""

    def __init__(self, case, output, options):
        self.case, self.output = case, output
        self.options = argparse.Namespace(**{**vars(options), "limit": options.shrink_limit})
        self.end = time.monotonic() + options.shrink

    def fails(self, case):
        """Whether it does, at one of three attempts; then it is the best so far."""
        for _ in range(3):
            if time.monotonic() > self.end:
                return False
            status, output = run(case, self.options)
            if status != 0:
                self.case, self.output = case, output
                return True
        return False

    def with_steps(self, steps):
        return bool(steps) and self.fails(dataclasses.replace(self.case, steps=tuple(steps)))

    def shrink_list(self, items):
        """Delta debugging: tries to do without ever smaller pieces of the list."""
        size = max(len(items) // 2, 1)
        while len(items) > 1:
            for at in range(0, len(items), size):
                if self.with_steps(items[:at] + items[at + size:]):
                    items = items[:at] + items[at + size:]
                    break
            else:
                if size == 1:
                    break
                size = max(size // 2, 1)
        return items

    def steps(self):
        found = re.search(r"step (\d+) of thread", self.output)
        everything = [(i, -1) for i in range(self.case.count)]
        last = int(found[1]) if found else self.case.count - 1
        if found and self.with_steps([(last, -1)]):
            return
        if self.with_steps(everything[:last + 1]):
            everything = everything[:last + 1]
        self.shrink_list(everything)

    def parts(self):
        steps = list(self.case.steps)
        if not steps or len(steps) > 4:
            return
        parts = [(step, part) for step, _ in steps for part in range(4)]
        if self.with_steps(parts):
            self.shrink_list(parts)

    def run(self):
        self.steps()
        self.parts()
        for threads in range(1, self.case.threads):
            if self.fails(dataclasses.replace(self.case, threads=threads)):
                break
        for ranks in range(1, self.case.ranks):
            if self.fails(dataclasses.replace(self.case, ranks=ranks)):
                break
        if self.case.lanes:
            self.fails(dataclasses.replace(self.case, lanes=()))
        for name, _ in self.case.env:
            self.fails(dataclasses.replace(self.case, env=tuple(pair for pair in self.case.env if pair[0] != name)))
        return self.case, self.output


def build(folder):
    """Compiles the program, as many files at a time as there are cores."""
    compiler = shlex.split(os.environ.get("MPICXX") or f"{os.environ['PREFIX']}/bin/mpicxx")
    flags = shlex.split(os.environ.get("CXXFLAGS", "-O1 -g1")) + shlex.split(os.environ.get("SANITIZE", "")) + ["-pthread"]
    objects = {source: f"{folder}/{source.stem}.o" for source in sorted(HERE.glob("*.cc"))}

    def compile_one(source):
        subprocess.run([*compiler, "-std=c++20", "-Wall", "-Wextra", *flags, "-c", "-o", objects[source], source], check=True)

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(compile_one, objects))
    subprocess.run([*compiler, *flags, "-o", f"{folder}/random", *objects.values()], check=True)
    return f"{folder}/random"


def report(case, output, options):
    print(f"\nFAILED: {case.text(options)}\n" + "\n".join("  | " + line[:2000] for line in output.splitlines()[:30]), flush=True)


def main():
    parser = argparse.ArgumentParser(formatter_class=argparse.RawDescriptionHelpFormatter, description=__doc__)
    parser.add_argument("--runs", type=int, default=0, help="so many runs")
    parser.add_argument("--seconds", type=float, default=0, help="runs for so long")
    parser.add_argument("--seed", type=int, default=1, help="of the first run; each next one has the next")
    parser.add_argument("--count", type=int, default=40, help="steps of each run")
    parser.add_argument("--ranks", type=int, help="instead of 1 to 8")
    parser.add_argument("--most-ranks", type=int, default=1000, help="no more than so many ranks")
    parser.add_argument("--threads", type=int, help="instead of 1 to 3")
    parser.add_argument("--net", choices=sorted(NETS), help="instead of any")
    parser.add_argument("--limit", type=int, default=120, help="seconds for each run")
    parser.add_argument("--program", help="compiled already")
    parser.add_argument("--shrink", type=float, default=600, help="seconds for making a failure small; 0: none")
    parser.add_argument("--shrink-limit", type=int, default=30, help="seconds for each run while shrinking")
    options = parser.parse_args()
    options.mpirun = os.environ.get("MPIRUN") or f"{os.environ['PREFIX']}/bin/mpirun"
    with tempfile.TemporaryDirectory() as folder:
        options.program = options.program or build(folder)
        begin, runs, steps = time.monotonic(), 0, 0
        while runs < options.runs or time.monotonic() - begin < options.seconds:
            case = draw_case(options.seed + runs, options)
            status, output = run(case, options)
            if status != 0:
                print(f"seed {case.seed}: exit status {status}")
                report(case, output, options)
                if options.shrink:
                    print("making it smaller ...", flush=True)
                    report(*Shrinker(case, output, options).run(), options)
                return 1
            runs, steps = runs + 1, steps + case.count * case.threads
        print(f"result: {runs} random programs of {steps} steps")
    return 0


if __name__ == "__main__":
    sys.exit(main())
