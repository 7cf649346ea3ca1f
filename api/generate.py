#!/usr/bin/env python3
"""Generates the MPI interface from api/mpi.api: the C header, the entry points, tests and tables.

  api/generate.py            writes what changed
  api/generate.py --check    changes nothing; fails if a generated file is out of date
"""

import argparse
import os
import sys

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "api"))

from gen import badarg, bodies, entries, header, model, status  # noqa: E402


def outputs(api):
    """Path (from the repository root) -> text of each generated file."""
    return {
        "include/mpi.h": header.generate(api),
        "api/generated/bodies.h": bodies.generate(api),
        **entries.generate(api),
        "docs/status.md": status.generate(api),
        "test/conformance/badarg/badarg.c": badarg.generate(api),
    }


def read(path):
    try:
        with open(path) as file:
            return file.read()
    except FileNotFoundError:
        return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="fail if a generated file is out of date")
    check = parser.parse_args().check
    stale = 0
    for path, text in outputs(model.parse(os.path.join(ROOT, "api", "mpi.api"))).items():
        full = os.path.join(ROOT, path)
        if read(full) == text:
            continue
        stale += 1
        print(f"{'out of date' if check else 'written'}: {path}")
        if not check:
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "w") as file:
                file.write(text)
    if check and stale:
        sys.exit(f"{stale} generated files are out of date: run api/generate.py")


if __name__ == "__main__":
    main()
