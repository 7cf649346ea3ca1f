#!/usr/bin/env python3
"""A job with one rank on each of many hosts, all played by this machine: every daemon is started by a program that stands in for ssh,
with a temporary folder of its own. Reports how long the job takes to start, meet and end, and what memory its daemons take.

    many_daemons.py [--hosts 16,64,256] [--fanout N] [--runs 3] [--client BOOT_CLIENT] [--check] PREFIX

The ranks call MPI_Init, MPI_Barrier and MPI_Finalize; with --client (test/faults/boot_client of a build folder) they only join, meet twice and
leave, which shows the launcher's own part. PSS: memory of all daemons together, shared pages counted once.
--check: one run; fails unless mpirun and each daemon stay below 20 MB.
"""
import argparse, os, pathlib, signal, statistics, subprocess, sys, tempfile, time

SOURCE = pathlib.Path(__file__).with_name("startup.c")
LIMIT_KB = 20_000

AGENT = """#!/bin/sh
mkdir -p "{folder}/$1" && export TMPDIR="{folder}/$1" && exec sh -c "$2"
"""


class Bed:
    def __init__(self, prefix, folder, client):
        self.mpirun = f"{prefix}/bin/mpirun"
        self.folder = pathlib.Path(folder)
        self.programs = {"meet": [client, "meet"], "wait": [client, "wait"]}
        if not client:
            program = str(self.folder / "startup")
            subprocess.run([f"{prefix}/bin/mpicc", "-O1", "-o", program, str(SOURCE)], check=True)
            self.programs = {"meet": [program], "wait": [program, "wait"]}
        self.agent = self.folder / "agent"
        self.agent.write_text(AGENT.format(folder=self.folder))
        self.agent.chmod(0o755)

    def command(self, hosts, fan_out, what):
        file = self.folder / f"hosts.{hosts}"
        file.write_text("".join(f"h{i}\n" for i in range(1, hosts + 1)))
        fan = ["--fanout", str(fan_out)] if fan_out else []
        return [self.mpirun, "--launcher", "ssh", "--launcher-exec", str(self.agent), *fan, "--hostfile", str(file), "-n", str(hosts),
                "--set", "pml_spin=0",  # each rank believes that it has this machine to itself
                *self.programs[what]]

    def environment(self):
        return {**os.environ, "TMPDIR": str(self.folder)}

    def time(self, hosts, fan_out):
        begin = time.monotonic()
        done = subprocess.run(self.command(hosts, fan_out, "meet"), env=self.environment(), capture_output=True, text=True, timeout=300)
        if done.returncode:
            raise SystemExit(f"{hosts} hosts: ended with {done.returncode}:\n{done.stderr[-2000:]}")
        return time.monotonic() - begin

    def memory(self, hosts, fan_out):
        """(sum of PSS, largest peak) of the daemons, peak of mpirun; in kB. CPU seconds of mpirun itself until the ranks have met."""
        job = subprocess.Popen(self.command(hosts, fan_out, "wait"), env=self.environment(), stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
        try:
            if job.stdout.readline() != b"ready\n":
                raise SystemExit(f"{hosts} hosts: the ranks did not get ready")
            daemons = list(daemons_in(self.folder))
            if len(daemons) != hosts:
                raise SystemExit(f"{len(daemons)} daemons instead of {hosts}")
            return (sum(field(p, "smaps_rollup", "Pss:") for p in daemons), max(field(p, "status", "VmHWM:") for p in daemons),
                    field(job.pid, "status", "VmHWM:"), cpu_seconds(job.pid))
        finally:
            job.send_signal(signal.SIGTERM)
            job.wait(60)


def daemons_in(folder):
    """Daemons whose temporary folder the agent has made there; their guardians are none."""
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "cmdline").read_bytes().endswith(b"\0--daemon\0") and \
                    (entry / "comm").read_text() == "mpirun\n" and f"TMPDIR={folder}/h".encode() in (entry / "environ").read_bytes():
                yield int(entry.name)
        except OSError:
            pass


def cpu_seconds(pid):
    after_name = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")


def field(pid, file, name):
    for line in pathlib.Path(f"/proc/{pid}/{file}").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1])
    raise SystemExit(f"no {name} in /proc/{pid}/{file}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prefix", metavar="PREFIX")
    parser.add_argument("--hosts", default="16,64,256")
    parser.add_argument("--fanout", type=int, default=0)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--client")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    # a short name, as sockets live there; in memory, as one disk would have to play those of all hosts
    with tempfile.TemporaryDirectory(prefix="wm", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as folder:
        bed = Bed(os.path.abspath(options.prefix), folder, options.client and os.path.abspath(options.client))
        print(f"{'hosts':>6} {'seconds':>9} {'PSS of daemons, MB':>20} {'a daemon, MB':>13} {'mpirun, MB':>11} {'its CPU, s':>11}")
        for hosts in map(int, options.hosts.split(",")):
            seconds = statistics.median(bed.time(hosts, options.fanout) for _ in range(1 if options.check else options.runs))
            pss, peak, own, cpu = bed.memory(hosts, options.fanout)
            print(f"{hosts:6} {seconds:9.3f} {pss / 1000:20.1f} {peak / 1000:13.1f} {own / 1000:11.1f} {cpu:11.2f}")
            if options.check and max(peak, own) > LIMIT_KB:
                sys.exit(f"more than {LIMIT_KB} kB")
            left = [str(p) for p in pathlib.Path(folder).rglob("weft-*")]
            if left or list(daemons_in(folder)):
                sys.exit(f"left behind: {left} {list(daemons_in(folder))}")
    if options.check:
        print(f"result: {options.hosts} daemons")


if __name__ == "__main__":
    main()
