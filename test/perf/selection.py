#!/usr/bin/env python3
"""How often the algorithm that is chosen is within 10 % of the best one, by tables of `weft tune`.

selection.py [--weft FILE] [--misses] TABLE...     each table holds one shape of hosts; --weft: also what the model of `weft explain` takes
                                                   between hosts, with the machine's numbers from the table
"""
import argparse
import json
import subprocess
import sys

NEAR = 1.10
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


def share(ratios):
    return f"{sum(r <= NEAR for r in ratios)} of {len(ratios)}"


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--weft")
    options.add_argument("--misses", action="store_true")
    options.add_argument("tables", nargs="+")
    given = options.parse_args()
    every, modelled, misses, by_collective = [], [], [], {}
    print("| ranks on hosts | cells | chosen within 10 % of the best | worst |" + (" model within 10 % |" if given.weft else ""))
    print("|---|---:|---:|---|" + ("---:|" if given.weft else ""))
    for file in given.tables:
        cells, machine = read(file)
        chosen = [(c.ratio(c.chosen), c) for c in cells]
        every += [r for r, _ in chosen]
        for r, c in chosen:
            by_collective.setdefault(c.name, []).append(r)
        model = []
        if given.weft:
            for r, c in chosen:
                word = c.by_model(given.weft, machine)
                model.append(c.ratio(word) if c.hosts > 1 else r)
                if given.misses and model[-1] > NEAR:
                    misses.append(f"  model {c.ranks}/{c.hosts} {c.name} {size(c.bytes)}: {word} {c.ratio(word):.2f} of {c.best}; chosen {c.chosen} {r:.2f}")
        modelled += model
        worst, at = max(chosen, key=lambda pair: pair[0])
        shape = file.rsplit("/", 1)[-1].removesuffix(".json")
        print(f"| {cells[0].ranks} on {cells[0].hosts} ({shape}) | {len(cells)} | {share([r for r, _ in chosen])} "
              f"| {worst:.2f}: {at.name} {size(at.bytes)}, {at.chosen} instead of {at.best} |" + (f" {share(model)} |" if given.weft else ""))
        misses += [f"  {c.ranks}/{c.hosts} {c.name} {size(c.bytes)}: {c.chosen} {r:.2f} of {c.best}" for r, c in chosen if r > NEAR]
    print()
    for name, ratios in by_collective.items():
        print(f"{name}: {share(ratios)}")
    if given.misses:
        print("\n".join(misses))
    print(f"chosen within 10 % of the best: {share(every)} cells" + (f"; by the model {share(modelled)}" if given.weft else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main())
