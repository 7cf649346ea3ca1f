#!/usr/bin/env python3
"""Weft over UCX beside UCX's own ucx_perftest, on shared memory and on TCP, taking turns.

  ucx.py PREFIX [--perftest FILE] [--rounds N] [--tag]

PREFIX is an installation of Weft. ucx_perftest is Debian's ucx-utils, or that of PyPI's libucx-cu13 (contrib/lib/ucx.sh unpacks it); set
LD_LIBRARY_PATH so that both sides load the same UCX. --tag: beside its tests of tagged messages, which a receiver copies to their place as
MPI must, instead of active messages, which it never looks at. Latency: medians of single round trips, the least of the rounds, as virtual
processors move between near and far ones. Bandwidth: the best of the rounds. One row a size; the last column is the ratio, below 1 where
Weft is ahead.
"""
import argparse
import os
import pathlib
import re
import subprocess
import tempfile
import time

WIRES = {"shared memory": "posix,cma,self", "tcp": "tcp,self"}
SIZES = [8, 64, 1024, 8192, 65536, 1 << 20, 4 << 20]


def cpus():
    allowed = sorted(os.sched_getaffinity(0))
    return allowed[0], allowed[1 % len(allowed)]


def pinned(cpu, words):
    return ["taskset", "-c", str(cpu)] + words


def perftest(program, tls, port, test, size):
    """The value of one row: us (median of single ones), or MB/s."""
    env = dict(os.environ, UCX_TLS=tls)
    rounds = 20000 if size <= 8192 else 3000 if size <= 65536 else 300
    words = [program, "-p", str(port)]
    first, second = cpus()
    server = subprocess.Popen(pinned(first, words), env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            time.sleep(0.1)
            client = subprocess.run(pinned(second, words + ["-t", test, "-s", str(size), "-n", str(rounds), "-f", "-v", "127.0.0.1"]),
                                    env=env, capture_output=True, text=True, timeout=120)
            if client.returncode == 0:
                break
        numbers = client.stdout.strip().splitlines()[-1].split(",")
        return float(numbers[1]) if test.endswith("_lat") else float(numbers[5]) * 1.048576
    finally:
        server.kill()
        server.wait()


def weft(prefix, program, tls):
    env = dict(os.environ, UCX_TLS=tls, WEFT_NET="ucx")
    out = subprocess.run([prefix + "/bin/mpirun", "--bind-to", "hwthread", "-n", "2", program], env=env, capture_output=True, text=True,
                         timeout=300, check=True).stdout
    return {(name, int(size)): float(value) for name, size, value in re.findall(r"^(\w+) (\d+) ([0-9.]+)$", out, re.M)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prefix")
    parser.add_argument("--perftest", default="ucx_perftest")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tag", action="store_true")
    options = parser.parse_args()
    port = 20000 + os.getpid() % 10000
    with tempfile.TemporaryDirectory() as folder:
        program = folder + "/medians"
        source = pathlib.Path(__file__).parent / "medians.c"
        subprocess.run([options.prefix + "/bin/mpicc", "-O2", "-o", program, str(source)], check=True)
        print("| Wire | Row | Unit | Weft over UCX | ucx_perftest | Ratio |\n|---|---|---|---:|---:|---:|")
        for wire, tls in WIRES.items():
            ours, theirs = {}, {}
            for _ in range(options.rounds):
                for key, value in weft(options.prefix, program, tls).items():
                    ours.setdefault(key, []).append(value)
                for name, size in ours:
                    port += 1
                    test = ("tag_" if options.tag else "ucp_am_") + ("lat" if name == "latency" else "bw")
                    value = perftest(options.perftest, tls, port, test, size)
                    theirs.setdefault((name, size), []).append(value)
            for name, size in sorted(ours):
                pick = min if name == "latency" else max
                a, b = pick(ours[name, size]), pick(theirs[name, size])
                ratio = a / b if name == "latency" else b / a
                print(f"| {wire} | {name}, {size} B | {'us' if name == 'latency' else 'MB/s'} | {a:.5g} | {b:.5g} | {ratio:.2f} |", flush=True)


main()
