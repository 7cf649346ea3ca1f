"""Runs the launch code of DeepSpeed and Accelerate as they ship it, against the mpirun in PATH.

usage: launchers.py FOLDER DEEPSPEED.tar.gz ACCELERATE.whl

Both want torch, which their code for mpirun does not use: the files that build the command lines are taken as they are, what they import besides
is stood in for. The script that they start says which rank it is.
"""

import argparse
import importlib
import os
import subprocess
import sys
import tarfile
import zipfile

TRAIN = '''
import os
def first(*names):
    return next(os.environ[n] for n in names if n in os.environ)
rank = first("RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK")
local = first("LOCAL_RANK", "MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK")
size = first("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
print("rank", rank, "of", size, "local", local, os.environ.get("WANTED", "nothing"), os.environ.get("MASTER_ADDR", "nowhere"))
'''

# a module of which everything can be imported, called, compared and shown
STAND_IN = '''
class Anything(str):
    def __call__(self, *a, **k): return Anything("")
    def __getattr__(self, name):
        if name.startswith("__"): raise AttributeError(name)
        return Anything("")
def __getattr__(name):
    if name.startswith("__"): raise AttributeError(name)
    return Anything("")
'''


def write(folder, name, text):
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)


def unpack(folder, deepspeed, accelerate):
    with tarfile.open(deepspeed) as archive:
        for member in archive.getmembers():
            if "/deepspeed/launcher/" in member.name and member.isfile():
                write(folder, member.name.split("/", 1)[1], archive.extractfile(member).read().decode())
    with zipfile.ZipFile(accelerate) as archive:
        for name in ("accelerate/utils/launch.py", "accelerate/utils/constants.py"):
            write(folder, name, archive.read(name).decode())
    for name in ("deepspeed/__init__.py", "deepspeed/launcher/__init__.py", "accelerate/__init__.py", "accelerate/commands/__init__.py",
                 "accelerate/commands/config/__init__.py"):
        write(folder, name, "")
    for name in ("deepspeed/utils/__init__.py", "deepspeed/accelerator/__init__.py", "accelerate/utils/__init__.py", "accelerate/utils/other.py",
                 "accelerate/utils/versions.py", "accelerate/utils/dataclasses.py", "accelerate/commands/config/config_args.py", "torch.py"):
        write(folder, name, STAND_IN)


def expect(what, command, ranks, wanted, master, environment=None):
    """Runs a command line; each rank must have said who it is, and nothing else may be said."""
    print(what + ":", " ".join(command), flush=True)
    done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    got = sorted(line for line in done.stdout.splitlines() if line.startswith("rank "))
    right = sorted(f"rank {r} of {ranks} local {r} {wanted} {master}" for r in range(ranks))
    if done.returncode or got != right:
        sys.exit(f"{what}: status {done.returncode}\n{done.stdout}{done.stderr}")
    for line in done.stderr.splitlines():
        if line.startswith("mpirun: ") and "another MPI, ignored" not in line:
            sys.exit(f"{what}: {line}")


def deepspeed(script, hosts):
    from deepspeed.launcher import multinode_runner
    args = argparse.Namespace(user_args=["--steps", "3"], user_script=script, include="", exclude="", num_nodes=-1, num_gpus=-1, launcher_args="",
                              hostfile=hosts, no_python=False, module=False, master_addr="127.0.0.1", master_port=29500, launcher="mpich",
                              bind_cores_to_rank=False)
    pool = {"localhost": 2}
    count = 0
    for name in ("OpenMPIRunner", "MPICHRunner", "IMPIRunner"):
        for extra in ("", "-bind-to none"):
            args.launcher_args = extra
            runner = getattr(multinode_runner, name)(args, "", pool)
            if not runner.backend_exists():
                sys.exit(f"{name} finds no MPI")
            runner.add_export("WANTED", "it")
            command = runner.get_cmd(dict(os.environ), {"localhost": [0, 1]})
            master = "nowhere" if name == "OpenMPIRunner" else "127.0.0.1"
            expect("DeepSpeed's " + name, command, 2, "it", master)
            count += 1
    return count


def accelerate(script, hosts):
    launch = importlib.import_module("accelerate.utils.launch")
    from accelerate.utils.dataclasses import Anything
    launch.PrecisionType = Anything
    launch.DynamoBackend = Anything
    defaults = {"num_processes": 4, "num_machines": 1, "mpirun_hostfile": hosts, "bind-to": "none", "training_script": script, "mixed_precision": "no",
                "training_script_args": ["--steps", "3"], "main_process_ip": None, "main_process_port": None, "dynamo_backend": "no"}

    class Arguments(argparse.Namespace):
        def __getattr__(self, name):
            if name.startswith("__"):
                raise AttributeError(name)
            return None

    command, environment = launch.prepare_simple_launcher_cmd_env(Arguments(**defaults))
    environment = {name: value for name, value in environment.items() if isinstance(value, str)}
    expect("Accelerate", command, 4, "it", "127.0.0.1", {**environment, "WANTED": "it"})
    return 1


def main():
    folder = sys.argv[1]
    unpack(folder, sys.argv[2], sys.argv[3])
    sys.path.insert(0, folder)
    os.environ["PYTHONPATH"] = folder
    script, hosts = os.path.join(folder, "train.py"), os.path.join(folder, "hosts")
    write(folder, "train.py", TRAIN)
    write(folder, "hosts", "localhost slots=4\n")
    print(deepspeed(script, hosts) + accelerate(script, hosts))


main()
