#!/usr/bin/env python3
"""Checks that includes point one way (docs/architecture.md): each floor may include itself and what is below it.

    includes.py SOURCE_TREE      every wrong arrow is printed; status 1 if there is one
"""
import pathlib
import re
import sys

RUNTIME_MIDDLE = {"runtime/topo", "runtime/mem", "runtime/type", "runtime/op", "runtime/boot", "runtime/obs", "runtime/net"}
BELOW = {"runtime/base": set(), "runtime/config": {"runtime/base"}}
for name in RUNTIME_MIDDLE:
    BELOW[name] = RUNTIME_MIDDLE | {"runtime/config", "runtime/base"}
RUNTIME = RUNTIME_MIDDLE | {"runtime/config", "runtime/base"}
BELOW["btl"] = RUNTIME
BELOW["pml"] = RUNTIME | {"btl"}
BELOW["coll"] = RUNTIME | {"btl", "pml"}
BELOW["comm"] = RUNTIME | {"btl", "pml", "coll"}
BELOW["rma"] = BELOW["io"] = RUNTIME | {"btl", "pml", "coll", "comm"}
BELOW["api"] = RUNTIME | {"btl", "pml", "coll", "comm", "rma", "io"}
BELOW["launcher"] = RUNTIME
BELOW["tools"] = RUNTIME | {"coll"}  # weft explain prices schedules
ANYONE = {"include"}  # mpi.h
SUFFIXES = {".h", ".cc", ".c", ".hpp", ".inc"}


def floor_of(path):
    """The floor that a path relative to the root belongs to, or None."""
    parts = path.split("/")
    two = "/".join(parts[:2])
    return two if two in BELOW else parts[0] if parts[0] in BELOW or parts[0] in ANYONE else None


def check(root):
    wrong = []
    for file in sorted(p for p in root.rglob("*") if p.suffix in SUFFIXES):
        name = file.relative_to(root).as_posix()
        floor = floor_of(name)
        if floor is None or floor in ANYONE:
            continue
        for number, line in enumerate(file.read_text(errors="replace").splitlines(), 1):
            found = re.match(r'\s*#\s*include\s*"([^"]+)"', line)
            if not found:
                continue
            target = found.group(1)
            to = floor_of(target)
            if target.startswith("../") or (to is None and (file.parent / target).exists() and "/" not in target):
                wrong.append(f'{name}:{number}: include "{target}" by its path from the root')
            elif to is not None and to not in ANYONE and to != floor and to not in BELOW[floor]:
                wrong.append(f"{name}:{number}: {floor} may not include {to} ({target})")
            elif target.startswith("test/"):
                wrong.append(f"{name}:{number}: {floor} may not include a test ({target})")
    return wrong


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    wrong = check(root)
    for line in wrong:
        print(line)
    print("result:", f"{len(wrong)} wrong includes" if wrong else "all includes point downwards")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
