"""Runs the project's checks and counts them. Called by contrib/check, which says what the options mean.

A check is one line of contrib/checks.list or test/*/tests.list:

    NAME   TAGS   SECONDS   COMMAND

NAME is unique. TAGS are words joined by commas: `main`, `asan`, `tsan`: the flavours of the build it runs on (none: it needs no build);
`slow`: only with --full; `timed` and `crowded`: nothing is built meanwhile, as time is measured, or as its few ranks yield all the time;
`ahead`: it builds what later checks run, and while earlier ones run, too, so that little is left to do when it is its turn. SECONDS limit
its time. COMMAND runs in bash with SRC, OUT, BUILD, PREFIX and SANITIZE set; status 0 passes, 77 skips, anything else fails. Unit tests
need no line: each of make's UNIT_TESTS is a check of all three flavours, each of SERIAL_UNIT_TESTS not of tsan.

Checks run in this order, one at a time; those of the folders in PAIRED need nothing but CPUs, of which each leaves some idle, and run two
at a time.
"""
import argparse
import atexit
import dataclasses
import fnmatch
import itertools
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

SRC = pathlib.Path(os.environ["SRC"])
OUT = pathlib.Path(os.environ["OUT"])
FLAVOURS = {"main": "", "asan": "-fsanitize=address,undefined", "tsan": "-fsanitize=thread"}
# Unit tests that sanitizers, which take five to twenty times as long, are spared: test/README.md says what the tags mean.
SPARED = {"main": "", "asan": " '~[more]'", "tsan": " '~[more]~[serial]'"}
SKIPPED = 77
PAIRED = {"unit", "conformance", "random", "fuzz"}


@dataclasses.dataclass
class Check:
    name: str
    flavour: str  # empty: needs no build
    tags: frozenset
    limit: int
    command: str


def read_list(path):
    """The checks of one list; one check per flavour."""
    checks = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        fields = line.split(None, 3)
        if len(fields) != 4 or not fields[2].isdigit():
            sys.exit(f"{path}:{number}: not NAME TAGS SECONDS COMMAND: {line}")
        name, tags, limit, command = fields[0], frozenset(fields[1].split(",")), int(fields[2]), fields[3]
        flavours = [f for f in FLAVOURS if f in tags] or [""]
        for flavour in flavours:
            checks.append(make(name, flavour, tags, limit, command))
    return checks


def make(name, flavour, tags, limit, command):
    prefix = f"{flavour}/" if flavour in ("asan", "tsan") else ""
    return Check(prefix + name, flavour, tags - FLAVOURS.keys(), limit * (4 if prefix else 1), command)


def unit_tests(flavour):
    """The unit tests that the build of a flavour knows: ThreadSanitizer's has none of those that start no thread."""
    text = "\n".join(p.read_text() for p in (SRC / "test/unit").glob("*/Makemodule.am"))
    kinds = "(?:SERIAL_)?" if flavour != "tsan" else ""
    names = sorted(set(re.findall(rf"^{kinds}UNIT_TESTS \+= (\S+)", text, re.M)))
    return [make("unit/" + n.split("/")[-1].removesuffix("_test"), flavour, frozenset(), 240,
                 f'cd "$BUILD" && {n}{SPARED[flavour]} 2>&1') for n in names]


def all_checks():
    """Static checks, then per flavour its build, unit tests and listed checks, then what needs a build in main only."""
    listed = read_list(SRC / "contrib/checks.list")
    lists = {path.parent.name: path for path in sorted((SRC / "test").glob("*/tests.list"))}
    for name in sorted(lists, key=lambda n: (n == "apps", n)):  # what takes longest comes last
        listed += read_list(lists[name])
    checks = [c for c in listed if not c.flavour]
    for flavour in FLAVOURS:
        checks.append(Check(f"build/{flavour}", "", frozenset({"ahead"}), 1200, f'WITH_TESTS=yes "$SRC/contrib/lib/build.sh" {flavour}'))
        checks += unit_tests(flavour)
        checks += [c for c in listed if c.flavour == flavour]
    names = [c.name for c in checks]
    for name in names:
        if names.count(name) > 1:
            sys.exit(f"two checks are called {name}")
    return checks


def environment(check):
    """What a check's command sees."""
    env = dict(os.environ)
    build = OUT / (check.flavour or "main")
    env.update(BUILD=str(build), PREFIX=str(build / "inst"), SANITIZE=FLAVOURS.get(check.flavour, ""))
    env["PATH"] = f"{build}/inst/bin:{env['PATH']}"
    folder = SRC / "contrib/lib"
    env["ASAN_OPTIONS"] = "detect_leaks=1:detect_stack_use_after_return=0:abort_on_error=0"
    env["LSAN_OPTIONS"] = f"suppressions={folder}/lsan.supp:print_suppressions=0"
    env["UBSAN_OPTIONS"] = "print_stacktrace=1"
    env["TSAN_OPTIONS"] = f"suppressions={folder}/tsan.supp:halt_on_error=1:second_deadlock_stack=1"
    # What shadow a unit test frees, again and again, is cleared: mapped anew it costs two faults a page, each of which stops all CPUs.
    # Likewise a thread's stack has shadow, all of which is written when the thread begins: see run().
    if check.name.startswith("tsan/unit/"):
        env["TSAN_OPTIONS"] += ":clear_shadow_mmap_threshold=32000000"
    return env


class Run:
    """A check under way; then its status, seconds and log."""

    def __init__(self, check):
        self.check, self.status, self.seconds = check, None, 0.0
        self.log = OUT / "logs" / (check.name.replace("/", "-") + ".log")
        self.log.parent.mkdir(parents=True, exist_ok=True)
        command = "ulimit -s 1024 && " + check.command if check.flavour == "tsan" else check.command  # KiB
        self.begin = time.monotonic()
        with open(self.log, "wb") as out:
            self.process = subprocess.Popen(["bash", "-c", command], stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                                            env=environment(check), cwd=OUT, start_new_session=True)

    def ended(self):
        """A check that is over its time is killed."""
        self.status = self.process.poll()
        self.seconds = time.monotonic() - self.begin
        if self.status is None and self.seconds > self.check.limit:
            self.stop()
            self.status = 124
            with open(self.log, "a", encoding="utf-8") as out:
                out.write(f"\nno end within {self.check.limit} s\n")
        return self.status is not None

    def stop(self):
        """Ends all its processes."""
        os.killpg(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def run(checks, width):
    """Runs checks, so many at a time, and yields each when it has ended. None outlives us."""
    waiting, running = list(checks), []
    try:
        while waiting or running:
            while waiting and len(running) < width:
                running.append(Run(waiting.pop(0)))
            for one in [r for r in running if r.ended()]:
                running.remove(one)
                yield one
            time.sleep(0.02)
    finally:
        for one in running:
            one.stop()


def is_paired(check):
    folder = check.name.removeprefix(f"{check.flavour}/").split("/")[0]
    return folder in PAIRED and not check.tags & {"timed", "crowded"}


class Ahead:
    """Builds what is tagged so, the next flavours too, while earlier checks run, many of which mostly wait: in time that nobody else wants."""

    def __init__(self, checks):
        built_here = any(c.name == "build/main" for c in checks)
        self.todo = [c for c in checks if "ahead" in c.tags] if built_here else []
        self.builds = {}

    def before(self, check):
        """The build of a check's own is waited for; others go on, but where time is measured, or a few ranks yield all the time: whoever
        yields its CPU lends it to them for milliseconds, as idle as they are."""
        self.signal(signal.SIGSTOP if check.tags & {"timed", "crowded"} else signal.SIGCONT)
        if check.name in self.builds:
            self.builds.pop(check.name).wait()
        self.todo = [c for c in self.todo if c.name != check.name]

    def after(self):
        """One at a time, once there is a build at all."""
        if all(b.poll() is not None for b in self.builds.values()) and self.todo and self.todo[0].name != "build/main":
            following = self.todo.pop(0)
            with open(OUT / "logs" / (following.name.replace("/", "-") + "-ahead.log"), "wb") as log:
                self.builds[following.name] = subprocess.Popen(
                    ["chrt", "--idle", "0", "bash", "-c", following.command], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                    env=environment(following), cwd=OUT, start_new_session=True)

    def signal(self, number):
        for build in self.builds.values():
            if build.poll() is None:
                os.killpg(build.pid, number)

    def end(self):
        """No build outlives us."""
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)


def last_result(log):
    """The text of the last `result:` line, if any."""
    found = re.findall(r"^result: (.*)$", log.read_text(errors="replace"), re.M)
    return found[-1] if found else ""


def show_log(log, most=60):
    lines = log.read_text(errors="replace").splitlines()
    print(f"    --- {log}{' (its end)' if len(lines) > most else ''}:")
    for line in lines[-most:]:
        print("    |", line[:1000])


class Count:
    """Tells of each check when it has ended, of one that runs alone also what it is, and of all in the end."""

    def __init__(self, checks):
        self.begun = ""
        self.checks, self.told, self.passed, self.failed, self.skipped, self.broken, self.logs = checks, 0, 0, [], [], set(), {}

    def is_broken(self, check):
        """A check cannot run whose build has failed, and fails."""
        if check.flavour not in self.broken:
            return False
        self.failed.append(check.name)
        self.tell(check, f"FAILED     not run: there is no {check.flavour} build")
        return True

    def begin(self, check):
        self.told += 1
        self.begun = check.name
        print(f"[{self.told:3}/{self.checks}] {check.name:<34} ", end="", flush=True)

    def tell(self, check, text):
        if self.begun != check.name:
            self.begin(check)
        print(text, flush=True)

    def add(self, run):
        name = run.check.name
        if run.status == 0:
            self.passed += 1
            self.tell(run.check, f"ok      {run.seconds:7.1f} s  {last_result(run.log)}")
        elif run.status == SKIPPED:
            self.skipped.append(name)
            self.tell(run.check, f"skipped {run.seconds:7.1f} s  {last_result(run.log)}")
        else:
            self.failed.append(name)
            self.logs[name] = run.log
            self.tell(run.check, f"FAILED  {run.seconds:7.1f} s  status {run.status}")
            show_log(run.log)
            if name.startswith("build/"):
                self.broken.add(name.removeprefix("build/"))

    def show(self, seconds):
        print(f"\n{int(seconds) // 60} min {int(seconds) % 60} s; logs are in {OUT}/logs")
        for name in self.skipped:
            print("skipped:", name)
        for name in self.failed:
            print("FAILED:", name)
            if name in self.logs:  # once more: often only the end of this output is kept
                show_log(self.logs[name], max(3, 12 // len(self.failed)))
        print(f"{self.passed} passed, {len(self.failed)} failed")


def select(checks, options):
    if options.only:
        chosen = [c for c in checks if any(fnmatch.fnmatch(c.name, p) or c.name.startswith(p.rstrip("/") + "/") for p in options.only)]
        if not chosen:
            sys.exit("no check is called " + " or ".join(options.only) + "; --list shows them")
        builds = {f"build/{c.flavour}" for c in chosen if c.flavour}
        return [c for c in checks if c in chosen or (c.name in builds and not options.no_build)]
    return [c for c in checks if options.full or "slow" not in c.tags]


def main():
    parser = argparse.ArgumentParser(prog="contrib/check", description="Runs all checks; ends with a line `N passed, N failed`.")
    parser.add_argument("--list", action="store_true", help="show the checks and do nothing")
    parser.add_argument("--only", action="append", metavar="NAME", help="run this check, or folder of checks (wildcards allowed; repeatable)")
    parser.add_argument("--full", action="store_true", help="run the slow ones as well")
    parser.add_argument("--no-build", action="store_true", help="with --only: take the build as it is")
    options = parser.parse_args()
    checks = all_checks()
    if options.list:
        for c in checks:
            print(f"{c.name:<36} {'slow' if 'slow' in c.tags else '':<6}{c.command}")
        return 0
    checks = select(checks, options)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    start = time.monotonic()
    ahead = Ahead(checks)
    atexit.register(ahead.end)
    count = Count(len(checks))
    for paired, group in itertools.groupby(checks, is_paired):
        for together in [list(group)] if paired else [[c] for c in group]:
            runnable = [c for c in together if not count.is_broken(c)]
            for check in runnable:
                ahead.before(check)
            if runnable and not paired:
                count.begin(runnable[0])
            for one in run(runnable, 2 if paired else 1):
                ahead.after()
                count.add(one)
    count.show(time.monotonic() - start)
    return 1 if count.failed else 0


if __name__ == "__main__":
    sys.exit(main())
