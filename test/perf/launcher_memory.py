#!/usr/bin/env python3
"""What memory mpirun and the daemon of another host (this one, by another name) take with 128 ranks: while these wait, and while they write
more than anybody reads. Fails above 20 MB.

    launcher_memory.py [--ranks 128] PREFIX BOOT_CLIENT
"""
import argparse, os, pathlib, signal, subprocess, sys, tempfile, time

sys.dont_write_bytecode = True
from many_daemons import AGENT, LIMIT_KB, daemons_in, field

FLOOD = "i=0; while [ $i -lt 40 ]; do i=$((i + 1)); printf '%05000d\\n' $i $i $i $i; done; head -c 200000 /dev/zero; sleep 1000"


def peaks(job, folder):
    """Of mpirun and of its daemon, if there is one."""
    return [field(job.pid, "status", "VmHWM:")] + [field(p, "status", "VmHWM:") for p in daemons_in(folder)]


def measure(name, command, folder, flood):
    job = subprocess.Popen(command, env={**os.environ, "TMPDIR": str(folder)}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           start_new_session=True)
    try:
        if flood:  # a reader that takes a little now and then
            end = time.monotonic() + 4
            while time.monotonic() < end:
                job.stdout.read1(1 << 16)
                time.sleep(0.05)
        elif job.stdout.readline() not in (b"ready\n", b"[0] ready\n"):
            raise SystemExit(f"{name}: the ranks did not get ready")
        found = peaks(job, folder)
    finally:
        job.send_signal(signal.SIGTERM)
        job.stdout.close()
        job.wait(60)
    print(f"{name:32}" + "".join(f"{kb / 1000:10.1f}" for kb in found), flush=True)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prefix", metavar="PREFIX")
    parser.add_argument("client", metavar="BOOT_CLIENT")
    parser.add_argument("--ranks", type=int, default=128)
    options = parser.parse_args()
    mpirun, client = f"{os.path.abspath(options.prefix)}/bin/mpirun", os.path.abspath(options.client)
    most = 0
    with tempfile.TemporaryDirectory(prefix="wm") as name:
        folder = pathlib.Path(name)
        agent = folder / "agent"
        agent.write_text(AGENT.format(folder=folder))
        agent.chmod(0o755)
        there = ["--launcher", "ssh", "--launcher-exec", str(agent), "-H", f"h1:{options.ranks}"]
        print(f"{options.ranks} ranks; MB at most:{'':10}{'mpirun':>10}{'daemon':>10}")
        for where, place in (("", ["--oversubscribe"]), (", on another host", there)):
            for what, wish in (("wait", []), ("wait, --output dir", ["--output", f"tag,dir={folder}/out"]), ("flood", []),
                               ("flood, --output dir", ["--output", f"tag,dir={folder}/out"])):
                flood = what.startswith("flood")
                program = ["sh", "-c", FLOOD] if flood else [client, "wait"]
                command = [mpirun, *place, *wish, "-n", str(options.ranks), *program]
                most = max(most, *measure(what + where, command, folder, flood))
    if most > LIMIT_KB:
        sys.exit(f"more than {LIMIT_KB} kB")
    print(f"result: at most {most / 1000:.1f} MB")


if __name__ == "__main__":
    main()
