#!/usr/bin/env python3
"""The fault matrix: who dies, in which state, how. In each cell the job must end within LIMIT seconds, with the status and the words
that the cell says, and leave no process and no file; or go on, where that is right.

    matrix.py [--prefix DIR] [--place host|tree|bed|slurm]... [--only TEXT] [--write] [--list] [-j N]

Without --place: host and tree, which need no rights. Status 77 where the machine forbids the beds that were asked for. --write puts the table into docs/faults.md; without it the test fails if the cells there are not those here.
"""
import argparse
import concurrent.futures
import math
import os
import re
import shutil
import signal
import sys
import tempfile
import time

sys.dont_write_bytecode = True  # the source tree stays as it is
from stage import Bed, Failed, Job, Place, Setup, Slurm, Tree, strike, until

LIMIT = 5.0  # seconds from the blow until the job has ended and nothing is left; what docs/faults.md promises
SLACK = 4.0  # a machine that does other things at the same time may take that much longer before the test fails
DOCS = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "docs", "faults.md")
MARKS = ("<!-- matrix.py writes from here -->", "<!-- to here -->")

KILL, TERM, INT, STOP, SEGV = signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGSTOP, signal.SIGSEGV
WHEN = {
    "before": "before MPI_Init",
    "init": "in MPI_Init",
    "run": "running",
    "finalize": "in MPI_Finalize",
    "after": "after MPI_Finalize",
}


class Cell:
    """One cell. `words`: what mpirun must say, with … for anything; None: nothing about the job."""

    def __init__(self, place, who, state, how, status, words, **more):
        self.place, self.who, self.state, self.how, self.status, self.words = place, who, state, how, status, words
        self.phase = more.pop("phase", "run")  # of the ranks
        self.hold = more.pop("hold", None)  # (daemon, state): it stands there when the blow falls
        self.first = more.pop("first", None)  # what leads into that state: "release" the ranks, or "kill" one
        self.blows = more.pop("blows", ())  # ((role, host, rank), signal)...
        self.host = more.pop("host", None)  # that is struck as a whole, for all cells of the same `how` at once
        self.unhold = more.pop("unhold", False)  # the one that stands there goes on after the blow
        self.goes_on = more.pop("goes_on", None)  # what happens instead of an end: "heals", "waits", "ends"
        self.swept = more.pop("swept", False)  # files stay until the next mpirun
        self.patience = more.pop("patience", None)
        self.limit = more.pop("limit", LIMIT)
        self.within = more.pop("within", f"{LIMIT:g} s")  # as users know it
        self.trick = more.pop("trick", "none")  # what the rank does when it is told to
        assert not more, more

    def title(self):
        return f"{self.who}, {self.state}: {self.how}"

    def run(self, place):
        """Returns the seconds from the blow until nothing was left."""
        job = Job(place, self.phase, self.trick, self.hold, self.patience)
        try:
            return self.play(job)
        finally:
            job.clear()

    def play(self, job):
        self.lead(job)
        targets = [(job.find(*who), number) for who, number in self.blows]
        began = time.monotonic()
        for target, number in targets:
            strike(target, number)
        if self.unhold:
            job.unhold()
        if self.goes_on:
            self.go_on(job, [target for target, _ in targets])
            began = time.monotonic()
        return self.end(job, began)

    def lead(self, job):
        """Up to the blow."""
        if not self.hold or self.first:
            job.wait_ready()
        if self.phase == "init":
            time.sleep(0.1)  # those that are ready are about to make the call
        if self.first == "release":
            job.release()
        elif self.first == "kill":
            strike(job.find("rank", rank=2), KILL)
        if self.hold:
            job.wait_held()

    def end(self, job, began):
        """After the blow."""
        job.wait_end(self.limit * SLACK)
        if self.swept:
            self.sweep(job)
        job.wait_clean(max(0.1, began + self.limit * SLACK - time.monotonic()))
        took = time.monotonic() - began
        self.judge(job)
        return took

    def go_on(self, job, targets):
        if self.goes_on == "heals":
            for target in targets:
                until(f"{target} goes on", lambda t=target: t.state() != "T", LIMIT * SLACK)
        elif self.goes_on == "waits":
            time.sleep(1.5)
            job.over()
            for target in targets:
                strike(target, signal.SIGCONT)
        else:
            time.sleep(0.3)
        job.over()
        job.release()

    def sweep(self, job):
        """Nobody was left to clean up: the next mpirun does."""
        until("no process is left", lambda: not job.processes(), LIMIT * SLACK)
        for folder in job.place.temporary(job):
            environment = dict(os.environ, TMPDIR=folder)
            if os.spawnle(os.P_WAIT, job.setup.mpirun, "mpirun", "-n", "1", "true", environment):
                raise Failed("the mpirun after it fails")

    def judge(self, job):
        words = job.words()
        if job.status() != self.status:
            raise Failed(f"status {job.status()} instead of {self.status}: {words[:600]}")
        if self.words is None:
            if "mpirun:" in words:
                raise Failed(f"said, for no reason: {words[:600]}")
        elif not re.search(".*".join(map(re.escape, self.words.split("…"))), words):
            raise Failed(f'no "{self.words}" in: {words[:600]}')
        if words.count("mpirun: ") > 1:
            raise Failed(f"more than one message: {words[:1000]}")


def rank_cells(place):
    """A rank dies, in each phase of its life."""
    rank, node = (2, "h3") if place == "tree" else (2, None)
    me = ("rank", None, rank)
    where = {
        "before": "before MPI_Init, or without MPI",
        "init": "in MPI_Init or after it, before MPI_Finalize",
        "run": "in MPI_Init or after it, before MPI_Finalize",
        "finalize": "in MPI_Init or after it, before MPI_Finalize",
        "after": "after MPI_Finalize",
    }
    who = "a rank" if place == "host" else "a rank on another host"
    head = f"rank {rank} (pid … on {node or '…'}, …) "
    for phase, when in WHEN.items():
        hows = [("SIGKILL", KILL, 137, "was killed by signal 9, SIGKILL (Killed), ")]
        if place == "host":
            hows.append(("SIGSEGV", SEGV, 139, "was killed by signal 11, SIGSEGV (Segmentation fault), "))
        for how, number, status, words in hows:
            yield Cell(place, who, when, how, status, head + words + where[phase], phase=phase, blows=[(me, number)])
        if place == "host" or phase == "run":
            words = None if phase == "after" else head + "exited with code 3, " + where[phase]
            more = dict(goes_on="ends") if phase == "after" else {}
            yield Cell(place, who, when, "exit(3)", 3, words, phase=phase, trick="exit", blows=[(me, signal.SIGUSR1)], **more)
    yield Cell(place, who, WHEN["run"], "SIGTERM", 143, head + "was killed by signal 15, SIGTERM (Terminated), ", blows=[(me, TERM)])
    yield Cell(
        place, who, WHEN["run"], "exit(0)", 1, head + "exited without calling MPI_Finalize", trick="quit", blows=[(me, signal.SIGUSR1)]
    )
    yield Cell(place, who, WHEN["run"], "MPI_Abort(9)", 9, head + "ended the job with code 9", trick="abort", blows=[(me, signal.SIGUSR1)])
    yield Cell(place, who, WHEN["run"], "SIGSTOP", 0, None, blows=[(me, STOP)], goes_on="waits")


def mpirun_cells(place):
    """mpirun dies, in each phase of DaemonState."""
    me = ("mpirun", None, None)
    guarded = "mpirun: killed; its guardian has ended the ranks and removed the job's files."
    who = "mpirun" if place == "host" else "mpirun of a job on other hosts"
    states = ["allocate", "map", "launch", "run", "stop", "done"]
    if place == "tree":
        states.insert(1, "reach")
    leads = {"run": None, "stop": "kill", "done": "release"}
    for state in states:
        more = dict(hold=(0, state), first=leads.get(state))
        yield Cell(place, who, state, "SIGKILL", 137, guarded, blows=[(me, KILL)], **more)
        over = {"stop": (137, "rank 2 (pid …) was killed by signal 9"), "done": (0, None)}
        status, words = over.get(state, (143, None))
        yield Cell(place, who, state, "SIGTERM", status, words, blows=[(me, TERM)], unhold=True, **more)
    yield Cell(place, who, "run", "SIGINT", 130, None, blows=[(me, INT)])
    yield Cell(place, who, "run", "SIGSTOP", 0, None, blows=[(me, STOP)], goes_on="waits")


def guardian_cells(place):
    host = "mpirun's host" if place == "host" else "h4"
    me = ("guardian", host, None)
    who = "mpirun's guardian" if place == "host" else "a daemon's guardian"
    yield Cell(place, who, "run", "SIGKILL", 0, None, blows=[(me, KILL)], goes_on="ends")
    yield Cell(place, who, "run", "SIGSTOP", 0, None, blows=[(me, STOP)], goes_on="ends")
    if place == "host":
        boss = ("mpirun", None, None)
        both = [(boss, STOP), (me, KILL), (boss, KILL)]  # else it may find the time for another guardian
        yield Cell(place, "mpirun and its guardian", "run", "SIGKILL", 137, None, blows=both, swept=True)


def daemon_cells():
    """Daemons of other hosts, in each stage of LeafState: that of rank 0, which has others below it, and one at the end."""
    for node, who in ((1, "daemon of rank 0's host, with others below"), (4, "daemon at the end of the tree")):
        host = f"h{node}"
        me = ("daemon", host, None)
        lost = f"lost the daemon on {host}: "
        told = f"the daemon on {host} got SIGTERM from process … of user "
        for state in ("join", "prepare", "serve", "run", "leave"):
            more = dict(hold=None if state == "run" else (node, state), first="release" if state == "leave" else None)
            words = f"cannot start a daemon on {host}: ssh or the daemon was killed by signal 9" if state == "join" else lost
            if state == "leave":
                yield Cell("tree", who, state, "SIGKILL", 0, None, blows=[(me, KILL)], **more)
            else:
                yield Cell("tree", who, state, "SIGKILL", 1, words, blows=[(me, KILL)], **more)
            status, words = {
                "join": (1, f"cannot start a daemon on {host}: ssh or the daemon was killed by signal 15"),
                "leave": (0, None),
            }.get(state, (143, told))
            yield Cell("tree", who, state, "SIGTERM", status, words, blows=[(me, TERM)], unhold=state != "run", **more)
        silent = dict(blows=[(me, STOP)], patience=2)
        words = f"the daemon on {host} was started, but did not connect back within 2 s"
        more = dict(hold=(node, "join"), limit=2 + LIMIT, within=f"patience + {LIMIT:g} s", **silent)
        yield Cell("tree", who, "join", "SIGSTOP", 1, words, **more)
        words = f"these hosts do not get ready, and nothing has happened for too long: …{host}"
        more = dict(hold=(node, "prepare"), limit=3 + LIMIT, within=f"1.5 × patience + {LIMIT:g} s", **silent)
        yield Cell("tree", who, "prepare", "SIGSTOP", 1, words, **more)
        yield Cell("tree", who, "run", "SIGSTOP", 0, None, blows=[(me, STOP)], goes_on="heals")
    both = [(("daemon", "h4", None), STOP), (("guardian", "h4", None), KILL), (("daemon", "h4", None), KILL)]
    yield Cell("tree", "a daemon and its guardian", "run", "SIGKILL", 1, "lost the daemon on h4: ", blows=both, swept=True)


def ssh_cells():
    for node, who in ((1, "ssh of mpirun"), (4, "ssh of a daemon")):
        host = f"h{node}"
        me = ("ssh", host, None)
        words = f"cannot start a daemon on {host}: ssh or the daemon was killed by signal 9"
        yield Cell("tree", who, "join", "SIGKILL", 1, words, blows=[(me, KILL)], hold=(node, "join"), unhold=True)
        words = f"lost the daemon on {host}: its ssh was ended by signal 9"
        yield Cell("tree", who, "run", "SIGKILL", 1, words, blows=[(me, KILL)])
        yield Cell("tree", who, "leave", "SIGKILL", 0, None, blows=[(me, KILL)], hold=(node, "leave"), first="release", unhold=True)
        yield Cell("tree", who, "run", "SIGSTOP", 0, None, blows=[(me, STOP)], goes_on="waits")


def host_cells():
    """A whole host dies, or its network, while a job is in each of its states."""
    for how, what in (("crash", "a host crashes"), ("cut", "the network of a host is cut")):
        for node, where in ((1, "rank 0's, with others below"), (4, "at the end of the tree")):
            host = f"node{node}"
            lost = f"lost the daemon on {host}: its host does not answer any more"
            who = f"{what}: {where}"
            same = dict(host=host)
            words = f"cannot start a daemon on {host}: it does not answer any more"
            more = dict(limit=10, within="10 s: it tries all addresses of its parent") if how == "cut" else {}
            yield Cell("bed", who, "join", how, 1, words, hold=(node, "join"), **more, **same)
            yield Cell("bed", who, "prepare", how, 1, lost, hold=(node, "prepare"), **same)
            for phase in ("init", "run", "finalize"):
                yield Cell("bed", who, WHEN[phase], how, 1, lost, phase=phase, **same)
            yield Cell("bed", who, "leave", how, 0, None, hold=(node, "leave"), first="release", **same)
        who = f"{what}: mpirun's"
        status, words = (137, None) if how == "crash" else (1, "lost the daemon on node…: its host does not answer any more")
        yield Cell("bed", who, "running", how, status, words, host="head")


def ssh_bed_cells():
    for node, who in ((1, "ssh of mpirun"), (4, "ssh of a daemon")):
        host = f"node{node}"
        words = f"lost the daemon on {host}: its ssh was ended by signal 9"
        yield Cell("bed", who, "run", "SIGKILL", 1, words, blows=[(("ssh", host, None), KILL)])
    lost = "lost the daemon on node4: "
    yield Cell("bed", "a daemon", "run", "SIGKILL", 1, lost, blows=[(("daemon", "node4", None), KILL)])
    yield Cell("bed", "mpirun", "run", "SIGKILL", 137, "its guardian has ended the ranks", blows=[(("mpirun", None, None), KILL)])


def slurm_cells():
    lost = "lost the daemon on node"
    yield Cell("slurm", "a daemon", "run", "SIGKILL", 1, lost, blows=[(("daemon", "node4", None), KILL)])
    # Slurm then kills all processes of the step, guardians too if they have not been quicker.
    yield Cell("slurm", "srun", "run", "SIGKILL", 1, lost, blows=[(("ssh", None, None), KILL)], swept=True)
    yield Cell(
        "slurm", "mpirun", "run", "SIGKILL", 0, "its guardian has ended the ranks", blows=[(("mpirun", None, None), KILL)], swept=True
    )
    yield Cell("slurm", "a rank", "run", "SIGKILL", 137, "rank 2 (pid … on node3, …) was killed by signal 9", blows=[(("rank", None, 2), KILL)])
    yield Cell("slurm", "a host crashes", "running", "crash", 1, lost + "4: its host does not answer any more", host="node4")


def all_cells():
    yield from rank_cells("host")
    yield from mpirun_cells("host")
    yield from guardian_cells("host")
    yield from rank_cells("tree")
    yield from mpirun_cells("tree")
    yield from daemon_cells()
    yield from ssh_cells()
    yield from guardian_cells("tree")
    yield from ssh_bed_cells()
    yield from host_cells()
    yield from slurm_cells()


def attempt(work):
    """The seconds that work() tells and nothing, or nothing and what went wrong."""
    try:
        return work(), None
    except Failed as why:
        return None, str(why)


def run_group(cells, place):
    """One blow at a host for the jobs of all these cells."""
    jobs = [Job(place, c.phase, c.trick, c.hold, c.patience) for c in cells]
    try:
        ready = [attempt(lambda c=c, j=j: c.lead(j)) for c, j in zip(cells, jobs)]
        began = time.monotonic()
        place.blow(cells[0].how, cells[0].host)
        for job in jobs:
            job.unhold()
        with concurrent.futures.ThreadPoolExecutor(len(cells)) as pool:  # all at once: each counts its own time
            ends = list(pool.map(lambda c, j, r: r if r[1] else attempt(lambda: c.end(j, began)), cells, jobs, ready))
        place.mend(cells[0].how, cells[0].host)
        return ends
    finally:
        for job in jobs:
            job.clear()


def run_cells(cells, place, workers):
    """Runs the cells of one place side by side; returns the seconds of each, or nothing if it failed."""
    results = {}

    def note(cell, took, why):
        results[cell] = took
        line = f"{cell.place}: {cell.title()}"
        print(f"FAIL {line}: {why}" if why else f"ok   {line} ({took:.1f} s)", flush=True)

    alone = [c for c in cells if not c.host]
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        for cell, (took, why) in zip(alone, pool.map(lambda c: attempt(lambda: c.run(place)), alone)):
            note(cell, took, why)
    blows = {}
    for cell in cells:
        if cell.host:
            blows.setdefault((cell.how, cell.host), []).append(cell)
    for group in blows.values():
        for cell, (took, why) in zip(group, run_group(group, place)):
            note(cell, took, why)
    return results


def run_place(kind, cells, setup, workers):
    """Sets the place up if it has to be, and takes it down whatever happens."""
    place = kind(setup)
    try:
        return run_cells(cells, place, workers)
    finally:
        if hasattr(place, "down"):
            place.down()


KINDS = (Place, Tree, Bed, Slurm)
PLACES = {
    "host": ("On one host", "`mpirun -n 4`. Rank 2 is the one that dies."),
    "tree": (
        "On other hosts",
        "Four ranks on h1 to h4. mpirun has started the daemons of h1 and h2, that of h1 those of h3 and h4.\n"
        "Hosts are folders of one machine here, and what stands for ssh starts a daemon there.",
    ),
    "bed": (
        "On other hosts over real ssh, and whole hosts",
        "As above, on node1 to node4 of the bed (test/beds/cluster), which have networks of their own. mpirun is on a fifth host.",
    ),
    "slurm": ("In a Slurm allocation", "One srun starts all daemons. salloc ends with 0 when mpirun is killed."),
}
OUTCOMES = {
    "heals": "the guardian lets it go on, the job goes on",
    "waits": "the job waits for SIGCONT",
    "ends": "the job goes on",
}


def table(cells):
    """The cells as they stand in the docs."""
    lines = []
    for place, (title, about) in PLACES.items():
        lines += ["", f"## {title}", "", about, ""]
        lines += ["| Who | When | What | The job ends within | Status of mpirun | mpirun says |", "|---|---|---|---|---|---|"]
        for c in cells:
            if c.place != place:
                continue
            ends = OUTCOMES.get(c.goes_on) or c.within + ("; files go with the next mpirun" if c.swept else "")
            says = f"`{c.words.removeprefix('mpirun: ')}`" if c.words else ""
            lines.append(f"| {c.who} | {c.state} | {c.how} | {ends} | {c.status} | {says} |")
    return "\n".join([MARKS[0], *lines, "", MARKS[1]])


def documented():
    with open(DOCS) as file:
        text = file.read()
    begin, end = text.index(MARKS[0]), text.index(MARKS[1]) + len(MARKS[1])
    return text, begin, end


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prefix", default=os.environ.get("PREFIX") or os.environ.get("WEFT_PREFIX"))
    parser.add_argument("--place", action="append", choices=[kind.name for kind in KINDS])
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("-j", type=int, default=3)
    options = parser.parse_args()
    every = list(all_cells())
    if options.write:
        text, begin, end = documented()
        with open(DOCS, "w") as file:
            file.write(text[:begin] + table(every) + text[end:])
    text, begin, end = documented()
    stale = text[begin:end] != table(every)
    if stale:
        print("docs/faults.md does not say what is tested here: matrix.py --write")
    places = options.place or ["host", "tree"]
    cells = [c for c in every if c.place in places]
    cells = [c for c in cells if all(text in f"{c.place}: {c.title()}" for text in options.only)]
    if options.list:
        for cell in cells:
            print(f"{cell.place}: {cell.title()}")
        return 0
    forbidden = next(filter(None, (kind.forbidden() for kind in KINDS if kind.name in places)), None)
    if forbidden:
        print("result: SKIPPED:", forbidden)
        return 77
    signal.signal(TERM, lambda *_: sys.exit(143))
    work = tempfile.mkdtemp(prefix="faults-")
    try:
        setup = Setup(options.prefix, work)
        results = {}
        for kind in KINDS:
            mine = [c for c in cells if c.place == kind.name]
            if mine:
                results.update(run_place(kind, mine, setup, options.j))
    finally:
        shutil.rmtree(work, ignore_errors=True)
    bad = sum(took is None for took in results.values()) + stale
    slow = [f"{c.title()} ({took:.1f} s)" for c, took in results.items() if took and took > c.limit]
    if slow:
        print("later than promised (is the machine busy?):", "; ".join(slow))
    print(f"result: {sum(took is not None for took in results.values())} of {len(cells)} cells passed" + (", the docs are stale" if stale else ""))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
