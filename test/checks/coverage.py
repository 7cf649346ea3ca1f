#!/usr/bin/env python3
"""Every function that api/mpi.api describes for C is in the library, as MPI_ and as PMPI_, and mpi.h declares both.

coverage.py LIBRARY"""
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(ROOT, "api"))
from gen import model  # noqa: E402

STANDARD_ABI = 664  # names that the MPI 5.0 standard ABI exports

api = model.parse(os.path.join(ROOT, "api", "mpi.api"))
names = {name for f in api.functions if f.in_c for name, _ in f.forms()}
abi = {name for f in api.abi_functions() for name, _ in f.forms()}
lines = subprocess.run(["nm", "-D", "--defined-only", sys.argv[1]], check=True, capture_output=True, text=True).stdout.splitlines()
exported = {line.split()[-1].split("@")[0] for line in lines}
with open(os.path.join(ROOT, "include", "mpi.h")) as header:
    declared = set(re.findall(r"\b(P?MPI_\w+)\(", header.read()))
both = names | {"P" + name for name in names}
wrong = [f"not in the library: {n}" for n in sorted(both - exported)] + [f"not in mpi.h: {n}" for n in sorted(both - declared)]
wrong += [f"not described: {n}" for n in sorted(n for n in exported if re.match(r"P?MPI_", n) and n not in both)]
if len(abi) != STANDARD_ABI:
    wrong.append(f"{len(abi)} names are described as the standard ABI's, which has {STANDARD_ABI}")
undefined = subprocess.run(["nm", "-D", "--undefined-only", sys.argv[1]], check=True, capture_output=True, text=True).stdout
wrong += [f"no body: {line.split()[-1]}" for line in undefined.splitlines() if "4weft4body" in line]
print("\n".join(wrong) or f"result: {len(abi)} names of the standard ABI and {len(names - abi)} for Fortran, each twice")
sys.exit(bool(wrong))
