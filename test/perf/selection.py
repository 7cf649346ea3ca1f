#!/usr/bin/env python3
"""How often the algorithm that is chosen is within 10 % of the best one, by tables of `weft tune`.

selection.py [--weft FILE] [--misses] FIRST FURTHER...     folders with tables of the same names, each of one shape of hosts

What is judged is what the library's thresholds choose, what the table of the first folder takes and, with --weft, what the model takes between
hosts with that table's numbers of the machine. The further runs judge: the least time of an algorithm in them is what it takes, as others
that work on the machine only ever add to it.
"""
import argparse
import json
import pathlib
import subprocess
import sys

NEAR = 1.10
SAME = 1.05  # a table leaves what is chosen anyway where others are not faster than that
OF_BLOCKS = ("gather", "scatter", "allgather", "alltoall")


def size(n):
    for unit, name in ((1 << 20, "M"), (1 << 10, "K")):
        if n >= unit and n % unit == 0:
            return f"{n // unit}{name}"
    return str(n)


class Cell:
    """A collective of one size on one shape, with the time of each algorithm: the least one of several runs."""

    def __init__(self, measurements):
        of = measurements[0]
        self.name, self.bytes, self.ranks, self.hosts = (of[key] for key in ("collective", "bytes", "ranks", "hosts"))
        self.chosen = of["usual"]
        self.ns = {name: min(m["ns"][name] for m in measurements) for name in of["ns"] if all(name in m["ns"] for m in measurements)}
        self.best = min(self.ns, key=self.ns.get)

    def ratio(self, algorithm):
        return self.ns[algorithm] / self.ns[self.best]

    def known(self, algorithm):
        """It, or what is chosen anyway if not all runs have measured it."""
        return algorithm if algorithm in self.ns else self.chosen

    def by_model(self, weft, machine):
        """What the model holds for the cheapest of those that were measured."""
        command = [weft, "explain", self.name, "--ranks", str(self.ranks), "--hosts", str(self.hosts), "--machine", machine, "--json"]
        if self.name != "barrier":
            command += ["--bytes", str(self.bytes)]
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, env={"WEFT_COLL_TABLE": "none"}).stdout)
        return next(c["algorithm"] for c in found["candidates"] if c["algorithm"] in self.ns)


def read(files):
    """The cells that all tables have, and the first one's numbers of the machine."""
    tables = []
    for file in files:
        with open(file, encoding="utf-8") as text:
            tables.append(json.load(text))
    machine = ",".join(f"{name}={number['value']}" for name, number in tables[0]["machine"].items())
    by_name = [{(m["collective"], m["bytes"]): m for m in table["measurements"]} for table in tables]
    cells = [Cell([of[name] for of in by_name]) for name in by_name[0] if all(name in of for of in by_name)]
    return [cell for cell in cells if len(cell.ns) > 1], machine


def near(ratios):
    return sum(r <= NEAR for r in ratios)


def by_table(cells):
    """What a table takes, by collective and bytes."""
    return {(c.name, c.bytes): c.chosen if c.ratio(c.chosen) <= SAME else c.best for c in cells}


def choices(cells, weft, table, machine):
    """Who decides: what each cell gets."""
    found = {"thresholds": [c.chosen for c in cells]}
    if weft:
        found["the model"] = [c.by_model(weft, machine) if c.hosts > 1 else c.chosen for c in cells]
    found["the table"] = [c.known(table.get((c.name, c.bytes))) for c in cells]
    return found


def judge(first, further, weft):
    """The cells of one shape, and the ratios to the best by who decides."""
    earlier, machine = read([first])
    cells, _ = read(further)
    return cells, {by: [c.ratio(name) for c, name in zip(cells, names)] for by, names in choices(cells, weft, by_table(earlier), machine).items()}


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--weft", help="the command weft")
    options.add_argument("--misses", action="store_true", help="list them")
    options.add_argument("first", type=pathlib.Path)
    options.add_argument("further", type=pathlib.Path, nargs="+")
    given = options.parse_args()
    all_ratios, misses = {}, []
    for number, file in enumerate(sorted(given.first.glob("*.json"))):
        cells, ratios = judge(file, [folder / file.name for folder in given.further], given.weft)
        if number == 0:
            print("| Ranks on hosts | Cells | " + " | ".join(f"by {by} | worst" for by in ratios) + " |\n|---|---:|" + "---:|---:|" * len(ratios))
        print(f"| {cells[0].ranks} on {cells[0].hosts} ({file.stem}) | {len(cells)} | " + " | ".join(f"{near(r)} | {max(r):.2f}" for r in ratios.values()) + " |")
        for by, of_cells in ratios.items():
            all_ratios.setdefault(by, []).extend(of_cells)
            misses += [f"{by}: {c.ranks}/{c.hosts} {c.name} {size(c.bytes)}: {r:.2f} of {c.best}" for c, r in zip(cells, of_cells) if r > NEAR]
    if given.misses:
        print("\n".join(misses))
    print("within 10 % of the best: " + ", ".join(f"{near(r)} of {len(r)} cells by {by}" for by, r in all_ratios.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
