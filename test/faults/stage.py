"""Where the fault matrix plays: jobs on one host, on four hosts that are one machine, and on a bed of hosts with ssh between them.

A Job is one mpirun with all that belongs to it: its processes are found by FAULTS_CELL in their environment, wherever they run.
"""
import os
import re
import shutil
import signal
import subprocess
import threading
import time

HERE = os.path.dirname(os.path.realpath(__file__))
PATIENCE = 60.0  # with what must happen before a blow, on a loaded machine

# Stands for ssh: another host is another temporary folder and another name. Not by exec, so that it can die alone, as ssh can.
AGENT = """#!/bin/sh
mkdir -p "$FAULTS_DIR/$1"
FAULTS_HOST=$1 TMPDIR=$FAULTS_DIR/$1 sh -c "$2"
exit $?
"""


class Failed(Exception):
    pass


def until(what, condition, seconds=PATIENCE, nap=0.02):
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise Failed(f"waited {seconds:g} s in vain until {what}")
        time.sleep(nap)


def read(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


class Process:
    """One process of a job, by its role: mpirun, guardian, daemon, ssh or rank, on a host."""

    def __init__(self, pid, role, host, rank=None):
        self.pid, self.role, self.host, self.rank = pid, role, host, rank

    def state(self):
        text = read(f"/proc/{self.pid}/stat")
        return text[text.rfind(b")") + 2 :][:1].decode() or "gone"

    def __str__(self):
        return f"{self.role} on {self.host} (pid {self.pid}, {self.state()})"


class Place:
    """One host: mpirun starts all ranks itself."""

    name = "host"
    hosts = []

    def __init__(self, setup):
        self.setup = setup

    @classmethod
    def forbidden(cls):
        """Why this place cannot be had on this machine, if so."""
        return None

    def command(self, job, arguments):
        return [self.setup.mpirun, *arguments]

    def options(self):
        return ["-n", "4"]

    def host_of(self, pid, environment):
        return environment.get("FAULTS_HOST", "mpirun's host")

    def prepare(self, job):
        """Makes what a job needs before it starts; returns mpirun's TMPDIR."""
        folder = os.path.join(job.folder, "tmp")
        os.makedirs(folder)
        return folder

    def temporary(self, job):
        """The temporary folders of the hosts, as far as they are there."""
        folders = [os.path.join(job.folder, name) for name in ["tmp", *self.hosts]]
        return [folder for folder in folders if os.path.isdir(folder)]

    def shared_memory(self):
        return ["/dev/shm"]

    def files(self, job):
        """What a job has left, or uses."""
        found = [os.path.join(folder, name) for folder in self.temporary(job) for name in os.listdir(folder)]
        shared = tuple(f"weft.{name}." for name in job.names)
        for folder in self.shared_memory():
            found += [os.path.join(folder, name) for name in os.listdir(folder) if shared and name.startswith(shared)]
        return found


class Tree(Place):
    """Four hosts that are this machine, below mpirun: h1 and h2 are its children, h3 and h4 those of h1."""

    name = "tree"
    hosts = ["h1", "h2", "h3", "h4"]

    def options(self):
        agent = os.path.join(self.setup.work, "agent")
        return ["--launcher", "ssh", "--launcher-exec", agent, "--fanout", "2", "-H", ",".join(h + ":1" for h in self.hosts), "-n", "4"]


class Bed(Place):
    """Four hosts of the bed (test/beds/cluster) over real ssh, below mpirun on a fifth: node3 and node4 below node1. Needs root."""

    name = "bed"
    hosts = ["head", "node1", "node2", "node3", "node4"]
    script = "cluster"
    needs = ["sshd", "ssh", "ip", "nsenter"]
    packages = "openssh-server openssh-client iproute2 slurm-wlm munge"

    @classmethod
    def forbidden(cls):
        if os.getuid():
            return "only root can make namespaces with a network of their own"
        for program in cls.needs:
            if not shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin"):
                return f"there is no {program} (Debian packages: {cls.packages})"
        trial = "mount --make-rprivate / && mount -t tmpfs tmpfs /tmp && mount -t proc proc /proc && ip link add type veth"
        done = subprocess.run(["unshare", "--mount", "--uts", "--ipc", "--net", "--pid", "--fork", "sh", "-c", trial], capture_output=True)
        return "this machine forbids namespaces: " + done.stderr.decode(errors="replace").strip() if done.returncode else None

    def __init__(self, setup):
        super().__init__(setup)
        self.bed = f"matrix-{os.getpid()}"
        self.state = os.environ.get("BEDS_STATE", "/var/lib/weft-beds")
        self.sweep()
        prefix = os.path.dirname(os.path.dirname(setup.mpirun))
        self.control("up", "4", "--share", setup.work, "--share", prefix)

    def sweep(self):
        """Beds of tests that were killed."""
        for name in os.listdir(self.state) if os.path.isdir(self.state) else []:
            bed = name.removeprefix("cluster-")
            if bed.startswith("matrix-") and not os.path.exists(f"/proc/{bed.removeprefix('matrix-')}"):
                self.control("down", bed=bed)

    def control(self, *words, bed=None, script=None):
        command = [os.path.join(HERE, "..", "beds", script or self.script), *words]
        environment = dict(os.environ, CLUSTER_NAME=bed or self.bed)
        done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode:
            raise Failed(f"{' '.join(words)}: {done.stdout.decode(errors='replace')}")

    def down(self):
        self.control("down")

    def command(self, job, arguments):
        return ["env", f"CLUSTER_NAME={self.bed}", os.path.join(HERE, "..", "beds", "cluster"), "exec", "head", "--", *super().command(job, arguments)]

    def options(self):
        ssh = "ssh -o LogLevel=INFO -o SendEnv=FAULTS_* -o SendEnv=WEFT_* -o SendEnv=TMPDIR"
        hosts = ",".join(host + ":1" for host in self.hosts[1:])
        return ["--launcher", "ssh", "--launcher-exec", ssh, "--fanout", "2", "-H", hosts, "-n", "4"]

    def roots(self):
        """Where the files of each host that runs are seen from here."""
        for host in self.hosts:
            pid = read(os.path.join(self.state, f"cluster-{self.bed}", host + ".pid")).decode().split(" ")[0]
            if pid and os.path.isdir(f"/proc/{pid}/root/tmp"):
                yield host, f"/proc/{pid}"

    def prepare(self, job):
        for _, root in self.roots():
            os.makedirs(f"{root}/root/tmp/{job.cell}", exist_ok=True)
        return f"/tmp/{job.cell}"

    def temporary(self, job):
        return [path for _, root in self.roots() if os.path.isdir(path := f"{root}/root/tmp/{job.cell}")]

    def shared_memory(self):
        return [f"{root}/root/dev/shm" for _, root in self.roots()]

    def host_of(self, pid, environment):
        def network(process):
            try:
                return os.readlink(f"{process}/ns/net")
            except OSError:
                return None

        own = network(f"/proc/{pid}")
        return next((host for host, root in self.roots() if own and network(root) == own), "?")

    def blow(self, how, host):
        self.control({"crash": "kill", "cut": "cut"}[how], host, script="cluster")

    def mend(self, how, host):
        self.control({"crash": "boot", "cut": "heal"}[how], host, script="cluster")


class Slurm(Bed):
    """The bed as a Slurm cluster: mpirun in an allocation, one srun starts all daemons."""

    name = "slurm"
    script = "slurm"
    needs = [*Bed.needs, "srun", "slurmctld", "slurmd", "munged"]

    def command(self, job, arguments):
        return super().command(job, ["-x"])[:-2] + ["salloc", "-Q", "-N4", "--ntasks-per-node=1", "--overcommit", self.setup.mpirun, *arguments]

    def options(self):
        return ["-n", "4"]


class Setup:
    """What all jobs share: the programs, and a folder."""

    def __init__(self, prefix, work):
        self.mpirun = os.path.join(prefix, "bin", "mpirun")
        self.work = work
        self.victim = os.path.join(work, "victim")
        self.number = 0
        self.lock = threading.Lock()
        mpicc = os.path.join(prefix, "bin", "mpicc")
        subprocess.run([mpicc, "-O1", "-o", self.victim, os.path.join(HERE, "victim.c")], check=True)
        agent = os.path.join(work, "agent")
        with open(agent, "w") as file:
            file.write(AGENT)
        os.chmod(agent, 0o755)

    def next(self):
        with self.lock:
            self.number += 1
            return self.number


class Job:
    def __init__(self, place, phase="run", how="none", hold=None, patience=None, options=()):
        self.place = place
        self.setup = place.setup
        self.cell = f"{os.getpid()}-{self.setup.next()}"
        self.folder = os.path.join(self.setup.work, self.cell)
        self.hold = os.path.join(self.folder, "hold") if hold else None
        self.names = set()
        os.makedirs(self.folder)
        self.variables = {"FAULTS_CELL": self.cell, "FAULTS_DIR": self.folder}
        if hold:
            self.variables["WEFT_LAUNCHER_HOLD"] = f"{hold[0]}:{hold[1]}:{self.hold}"
        if patience:
            self.variables["WEFT_LAUNCHER_PATIENCE"] = str(patience)
        arguments = [*place.options(), *options, self.setup.victim, phase, how]
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("PMI", "OMPI_", "WEFT_", "SLURM"))}
        environment.update(self.variables, TMPDIR=place.prepare(self))
        self.output = open(os.path.join(self.folder, "words"), "w+b")
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            place.command(self, arguments), stdin=subprocess.DEVNULL, stdout=self.output, stderr=subprocess.STDOUT, env=environment
        )

    def words(self):
        return read(os.path.join(self.folder, "words")).decode(errors="replace")

    def processes(self):
        mark = b"FAULTS_CELL=" + self.cell.encode()
        found = []
        for name in os.listdir("/proc"):
            if not name.isdigit() or int(name) == os.getpid():
                continue
            text = read(f"/proc/{name}/environ")
            if mark not in text:
                continue
            environment = dict(e.split("=", 1) for e in text.decode(errors="replace").split("\0") if "=" in e)
            one = self.recognise(int(name), environment)
            if one and one.state() not in ("Z", "X", "gone"):
                found.append(one)
        return found

    def recognise(self, pid, environment):
        if environment.get("FAULTS_CELL") != self.cell:
            return None
        words = read(f"/proc/{pid}/cmdline").decode(errors="replace").split("\0")[:-1]
        host = self.place.host_of(pid, environment)
        program = os.path.basename(words[0]) if words else ""
        if read(f"/proc/{pid}/comm").strip() == b"weft-guardian":
            return Process(pid, "guardian", host)
        if program == "mpirun":
            return Process(pid, "daemon" if words[1:] == ["--daemon"] else "mpirun", host)
        if program == "victim":
            return Process(pid, "rank", host, int(environment.get("PMIX_RANK", -1)))
        if program in ("ssh", "srun") or (len(words) > 2 and os.path.basename(words[1]) == "agent"):
            target = words[words.index("--daemon") - 1] if "--daemon" in words else words[-2]
            return Process(pid, "ssh", target)
        return Process(pid, program or "?", host)

    def find(self, role, host=None, rank=None):
        """The one process of that role; waits until it is there."""

        def look():
            found = [p for p in self.processes() if p.role == role and host in (None, p.host) and rank in (None, p.rank)]
            return found[0] if found else None

        return until(f"there is the {role} {host or ''}{'' if rank is None else rank}", lambda: look() or self.over(), 20)

    def over(self):
        if self.process.poll() is not None:
            raise Failed(f"mpirun ended too early, with {self.status()}: {self.words()[:600]}")
        return None

    def wait_ready(self, ranks=4):
        marks = [os.path.join(self.folder, f"rank.{r}") for r in range(ranks)]
        until("all ranks are ready", lambda: all(os.path.exists(m) for m in marks) or self.over())
        self.note_names()

    def wait_held(self):
        until("the launcher stands in the state", lambda: os.path.exists(self.hold) or self.over())
        self.note_names()

    def note_names(self):
        for name in self.place.files(self):
            found = re.match(r"weft-\d+-([^.]*)", os.path.basename(name))
            if found:
                self.names.add("weft-" + found.group(1))

    def unhold(self):
        if self.hold and os.path.exists(self.hold):
            os.remove(self.hold)

    def release(self):
        """The ranks go on to their end."""
        for process in self.processes():
            if process.role == "rank":
                strike(process, signal.SIGUSR2)

    def status(self):
        code = self.process.returncode
        return 128 - code if code is not None and code < 0 else code

    def wait_end(self, seconds):
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Failed(f"mpirun still runs after {seconds:g} s: " + self.words()[:600]) from None

    def leftovers(self):
        return [str(p) for p in self.processes()] + self.place.files(self)

    def wait_clean(self, seconds):
        try:
            until("nothing is left", lambda: not self.leftovers(), seconds)
        except Failed:
            raise Failed(f"left behind after {seconds:g} s: {'; '.join(self.leftovers())}") from None

    def clear(self):
        """Whatever became of it: nothing of it stays."""
        for _ in range(100):
            rest = self.processes()
            for process in rest:
                strike(process, signal.SIGKILL)
            if not rest:
                break
            time.sleep(0.02)
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.output.close()
        subprocess.run(["rm", "-rf", self.folder])


def strike(process, number):
    try:
        os.kill(process.pid, number)
    except ProcessLookupError:
        pass


__all__ = ["Bed", "Failed", "Job", "Place", "Setup", "Slurm", "Tree", "strike", "until"]
