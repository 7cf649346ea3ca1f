#!/usr/bin/env python3
"""How often the algorithm that is chosen is within 10 % of the best one, by tables of `weft tune`.

selection.py [--weft FILE] [--before FOLDER] [--misses] TABLE...     each table holds one shape of hosts

Of what the library's thresholds choose, with --weft also of what the model takes between hosts with the machine's numbers from the table,
and with --before of what another table of the same shape takes.
"""
import argparse
import json
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
    """A collective of one size on one shape."""

    def __init__(self, measurement):
        self.name = measurement["collective"]
        self.bytes = measurement["bytes"]
        self.ranks, self.hosts = measurement["ranks"], measurement["hosts"]
        self.ns = measurement["ns"]
        self.chosen = measurement["usual"]
        self.best = min(self.ns, key=self.ns.get)

    def ratio(self, algorithm):
        return self.ns[algorithm] / self.ns[self.best]

    def by_model(self, weft, machine):
        """What the model holds for the cheapest of those that were measured."""
        command = [weft, "explain", self.name, "--ranks", str(self.ranks), "--hosts", str(self.hosts), "--machine", machine, "--json"]
        if self.name != "barrier":
            command += ["--bytes", str(self.bytes)]
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, env={"WEFT_COLL_TABLE": "none"}).stdout)
        return next(c["algorithm"] for c in found["candidates"] if c["algorithm"] in self.ns)


def read(file):
    with open(file, encoding="utf-8") as text:
        table = json.load(text)
    machine = ",".join(f"{name}={number['value']}" for name, number in table["machine"].items())
    return [Cell(m) for m in table["measurements"] if len(m["ns"]) > 1], machine


def near(ratios):
    return sum(r <= NEAR for r in ratios)


def by_table(cells):
    """What a table takes, by collective and bytes."""
    return {(c.name, c.bytes): c.chosen if c.ratio(c.chosen) <= SAME else c.best for c in cells}


def choices(cells, machine, weft, before):
    """Who decides: what each cell gets."""
    found = {"thresholds": [c.chosen for c in cells]}
    if weft:
        found["model"] = [c.by_model(weft, machine) if c.hosts > 1 else c.chosen for c in cells]
    if before:
        table = by_table(before)
        found["table"] = [table.get((c.name, c.bytes), c.chosen) for c in cells]
    return found


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--weft", help="the command weft")
    options.add_argument("--before", help="folder with tables of an earlier run, by the same names: what is measured is what they choose")
    options.add_argument("--misses", action="store_true", help="list them")
    options.add_argument("tables", nargs="+")
    given = options.parse_args()
    all_ratios, misses = {}, []
    for number, file in enumerate(given.tables):
        cells, machine = read(file)
        before = read(f"{given.before}/{file.rsplit('/', 1)[-1]}")[0] if given.before else None
        ratios = {by: [c.ratio(name) for c, name in zip(cells, names)] for by, names in choices(cells, machine, given.weft, before).items()}
        if number == 0:
            print("| ranks on hosts | cells | " + " | ".join(f"within 10 % by {by} | worst" for by in ratios) + " |\n|---|---:|" + "---:|---:|" * len(ratios))
        shape = file.rsplit("/", 1)[-1].removesuffix(".json")
        print(f"| {cells[0].ranks} on {cells[0].hosts} ({shape}) | {len(cells)} | " + " | ".join(f"{near(r)} | {max(r):.2f}" for r in ratios.values()) + " |")
        for by, of_cells in ratios.items():
            all_ratios.setdefault(by, []).extend(of_cells)
            misses += [f"{by}: {c.ranks}/{c.hosts} {c.name} {size(c.bytes)}: {r:.2f} of {c.best}" for c, r in zip(cells, of_cells) if r > NEAR]
    if given.misses:
        print("\n".join(misses))
    print("within 10 % of the best: " + ", ".join(f"{near(r)} of {len(r)} cells by {by}" for by, r in all_ratios.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
