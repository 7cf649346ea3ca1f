#!/usr/bin/env python3
"""The performance gate: what hot calls and hot structures cost, beside the parent commit, which is built for it.

    gate.py PREFIX      with SRC, OUT and BUILD set, as contrib/check does

Instructions of single calls (gate.c count), sizes of structures, and cycles (gate.c cycles: low values, both libraries in turns; only a
gross loss counts, as machines are noisy). A loss that is meant is stated in the message of the commit, one line for each:

    Perf-gate: CASE REASON

CASE is the word in the first column of the table. Before it judges the library, the gate shows that it can tell: the same library twice
costs the same, and one with a loop of a few instructions in MPI_Send is caught. Skipped (77) without history, ptrace or x86-64.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SRC, OUT, BUILD = (pathlib.Path(os.environ[name]) for name in ("SRC", "OUT", "BUILD"))
HERE = pathlib.Path(__file__).resolve().parent
# What the library is not made of: where only these have changed, it is the parent's.
ELSEWHERE = [f":(exclude){path}" for path in ("contrib", "docs", "examples", "launcher", "test", "tools", "*.md")]
# Instructions that no commit may go beyond, whatever its parent took: the entry alone, and a message to oneself with its receive.
BUDGETS = {"send_null": 160, "self_8": 1200}
STRUCTURES = {
    "btl/btl.h": ["btl::Header", "btl::Region", "btl::Operation"],
    "btl/shm/ring.h": ["btl::shm::Slot", "btl::shm::Producer", "btl::shm::Consumer"],
    "pml/message.h": ["pml::Announcement", "pml::ClearToSend", "pml::Unexpected"],
    "pml/peer.h": ["pml::Peer", "pml::Way"],
    "pml/request.h": ["pml::Request", "pml::Outcome"],
    "pml/transfer.h": ["pml::Transfer", "pml::Bulkwork"],
    "pml/rails.h": ["pml::Track"],
    "pml/team.h": ["pml::Team"],
}
SLOW = """
#include <mpi.h>
int MPI_Send(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm) {
  for (volatile int i = 0; i < 4; ++i) continue;
  return PMPI_Send(buf, count, type, dest, tag, comm);
}
"""


class Kind:
    """How values of one kind are judged: a loss is more than `share` of the value before, and more than `least`."""

    def __init__(self, unit, share, least):
        self.unit, self.share, self.least = unit, share, least

    def lost(self, before, now):
        return now - before > max(self.share * before, self.least)


INSTRUCTIONS = Kind("instructions", 0.05, 5)
BYTES = Kind("bytes", 0, 0)
CYCLES = Kind("cycles", 1, 100)


def skip(why):
    print(f"result: SKIPPED: {why}")
    sys.exit(77)


def git(*words):
    return subprocess.run(["git", "-C", str(SRC), *words], capture_output=True, text=True)


def parent_revision():
    """Empty without history: a shallow clone, or a tree without a repository of its own."""
    top, head = git("rev-parse", "--show-toplevel"), git("rev-parse", "--quiet", "--verify", "HEAD^")
    return head.stdout.strip() if os.path.realpath(top.stdout.strip() or "/") == os.path.realpath(SRC) else ""


def losses(kind, before, now):
    """The cases that have lost: {case: (before, now)}. What only one side has is not compared."""
    return {case: (before[case], now[case]) for case in now if case in before and kind.lost(before[case], now[case])}


def reasons(message):
    """What a commit's message says of losses that are meant: {case: reason}."""
    return dict(re.findall(r"^Perf-gate: +(\S+) +(\S.*)$", message, re.M))


def parent_build(revision):
    """Builds a commit as contrib/check builds this tree, so that ccache has what is the same; kept until another one is asked for."""
    folder = OUT / "parent" / revision
    place = folder / "build/contrib/main"
    if not (folder / "complete").exists():
        shutil.rmtree(OUT / "parent", ignore_errors=True)
        folder.mkdir(parents=True)
        archive = subprocess.Popen(["git", "-C", str(SRC), "archive", revision], stdout=subprocess.PIPE)
        subprocess.run(["tar", "-x", "-C", str(folder)], stdin=archive.stdout, check=True)
        env = {k: v for k, v in os.environ.items() if k not in ("BUILD", "PREFIX", "WITH_TESTS")}
        env |= {"SRC": str(folder), "OUT": str(folder / "build/contrib")}
        done = subprocess.run([str(folder / "contrib/lib/build.sh"), "main"], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if archive.wait() or done.returncode:
            print(done.stdout[-3000:])
            skip(f"the parent commit {revision[:12]} does not build here")
        (folder / "complete").touch()
    return folder, place


def compiler():
    """For C++; through ccache where it is there."""
    return (["ccache"] if shutil.which("ccache") else []) + os.environ.get("CXX", "g++").split()


def try_sizes(folder, build, structures):
    """Sizes of structures as one program prints them; None if it does not compile."""
    with tempfile.TemporaryDirectory() as work:
        source, program = pathlib.Path(work) / "sizes.cc", pathlib.Path(work) / "sizes"
        lines = [f'#include "{header}"' for header in structures] + ["#include <cstdio>", "int main() {"]
        lines += [f'std::printf("{name} %zu\\n", sizeof(weft::{name}));' for names in structures.values() for name in names]
        source.write_text("\n".join([*lines, "}", ""]))
        words = [*compiler(), "-std=c++20", f"-I{folder}", f"-I{build}", "-o", str(program), str(source)]
        if subprocess.run(words, capture_output=True).returncode:
            return None
        text = subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout
    return {name: int(size) for name, size in re.findall(r"^(\S+) (\d+)$", text, re.M)}


def sizes(folder, build):
    """What a tree does not have is left out."""
    found = try_sizes(folder, build, STRUCTURES)
    if found is None:
        single = [try_sizes(folder, build, {header: [name]}) for header, names in STRUCTURES.items() for name in names]
        found = {name: size for one in single if one for name, size in one.items()}
    return found


class Library:
    """An installation with the benchmark compiled for it."""

    def __init__(self, prefix, folder):
        self.prefix, self.folder = str(prefix), pathlib.Path(folder)
        self.program = self.folder / f"gate-{abs(hash(self.prefix))}"
        self.compile("-O2", "-Wall", "-Wextra", "-o", self.program, HERE / "gate.c")

    def compile(self, *words):
        subprocess.run([f"{self.prefix}/bin/mpicc", *map(str, words)], check=True)

    def values(self, mode, *options):
        """One run's values: {case: instructions or cycles}."""
        env = {name: value for name, value in os.environ.items() if not name.startswith("WEFT_") or name in ("WEFT_CC", "WEFT_CXX")}
        with tempfile.NamedTemporaryFile(dir=self.folder) as board:
            words = [f"{self.prefix}/bin/mpirun", *options, "-n", "2", str(self.program), mode, board.name]
            done = subprocess.run(words, capture_output=True, text=True, env=env, stdin=subprocess.DEVNULL, timeout=120)
        if done.returncode:
            sys.exit(f"{' '.join(words)}: status {done.returncode}\n{done.stdout}{done.stderr}")
        trouble = re.search(r"^no way to count: (.*)$", done.stdout, re.M)
        if trouble:
            skip(f"no way to count instructions: {trouble[1]}")
        return {name: int(value) for name, value in re.findall(r"^(\S+) (\d+)$", done.stdout, re.M)}


def least(*runs):
    return {case: min(run[case] for run in runs if case in run) for case in runs[0]}


def show(kind, before, now):
    print(f"{kind.unit:24}{'parent':>10}{'now':>10}")
    for case, value in now.items():
        old = before.get(case)
        print(f"{case:24}{'' if old is None else old:>10}{value:>10}" + ("" if old in (None, value) else f"{value - old:+10}"))


def prove(library, found):
    """Failures of the gate itself: it must find the same library unchanged, and a slower one slower."""
    failures = []
    for _ in range(3):
        again = library.values("count")
        moved = {case: (found[case], value) for case, value in again.items() if abs(value - found[case]) > INSTRUCTIONS.least}
        found = least(found, again)
        if not moved:
            break
    else:
        failures.append(f"the same library counted again differs: {moved}")
    source, slow = library.folder / "slow.c", library.folder / "slow.so"
    source.write_text(SLOW)
    library.compile("-O2", "-shared", "-fPIC", "-o", slow, source)
    caught = losses(INSTRUCTIONS, found, library.values("count", "-env", "LD_PRELOAD", str(slow)))
    print("a slower MPI_Send is caught as", caught)
    if not {"send_8", "send_null", "send_1024"} <= set(caught) or any("recv" in case for case in caught):
        failures.append(f"a slower MPI_Send is not told from the rest: {caught}")
    if losses(BYTES, {"a": 64, "b": 64}, {"a": 64, "b": 65, "c": 1}) != {"b": (64, 65)}:
        failures.append("a structure that has grown is not found")
    if reasons("Title\n\nPerf-gate: send_8 checks the tag\nPerf-gate: recv_8\n") != {"send_8": "checks the tag"}:
        failures.append("reasons are not read as they are written")
    return failures


def compare(parent, now, counted):
    """All losses against the parent's library. What seems lost is measured again, as only a lasting loss is one."""
    before = parent.values("count")
    for _ in range(2):
        if losses(INSTRUCTIONS, before, counted):
            before, counted = least(before, parent.values("count")), least(counted, now.values("count"))
    show(INSTRUCTIONS, before, counted)
    old, new = parent.values("cycles"), now.values("cycles")
    for turn in range(12):
        if turn < 2 or losses(CYCLES, old, new):
            old, new = least(old, parent.values("cycles")), least(new, now.values("cycles"))
    show(CYCLES, old, new)
    return {f"{case} ({CYCLES.unit})": pair for case, pair in losses(CYCLES, old, new).items()} | losses(INSTRUCTIONS, before, counted)


def main():
    prefix = pathlib.Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as work:
        now = Library(prefix, work)
        counted = now.values("count")
        failures = prove(now, counted)
        failures += [f"{case}: {counted[case]} instructions, more than {most}" for case, most in BUDGETS.items() if counted[case] > most]
        revision, lost = parent_revision(), {}
        if not revision:
            print("\n".join(failures))
            sys.exit("a loss") if failures else skip("there is no parent commit here to compare with")
        same = git("diff", "--quiet", revision, "--", ".", *ELSEWHERE).returncode == 0
        if same:
            show(INSTRUCTIONS, {}, counted)
        else:
            folder, place = parent_build(revision)
            before, after = sizes(folder, place), sizes(SRC, BUILD)
            show(BYTES, before, after)
            lost = losses(BYTES, before, after) | compare(Library(place / "inst", work), now, counted)
    meant = reasons(git("log", "-1", "--format=%B").stdout)
    for case, (was, is_now) in lost.items():
        reason = meant.get(case.split()[0])
        print(f"{case}: {is_now} instead of {was}" + (f"; meant: {reason}" if reason else ""))
        failures += [] if reason else [f"{case} has lost: {is_now} instead of {was} at {revision[:12]}"]
    print("\n".join(failures))
    beside = "the library of the parent commit" if same else f"beside {revision[:12]}"
    print(f"result: instructions: send of 8 B {counted['send_8']}, receive {counted['recv_8']}, to oneself {counted['self_8']}; {beside}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
