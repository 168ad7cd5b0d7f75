"""Print what every extractor finds on a folder of extraction-gym e-graphs.

Usage: python benchmarks/extraction.py FOLDER [SECONDS per exact run].
"""

from __future__ import annotations

import sys
from pathlib import Path

from egraph_fusion.extract import EXTRACTORS, from_gym


def main(folder: str, seconds: str = "60") -> None:
    """Print one row per file: size, three costs, the exact extractor's bound, gap and time."""
    names = ("tree", "greedy-dag", "exact")
    heads = ("classes", "nodes", *names, "bound", "gap", "greedy s", "exact s")
    print(f"{'file':34}", *(f"{h:>11}" for h in heads))
    for path in sorted(Path(folder).glob("*.json")):
        eg = from_gym(path)
        found = {n: EXTRACTORS[n](eg, time_limit=float(seconds)) for n in names}
        for choice in found.values():
            choice.check(eg)
        exact = found["exact"]
        costs = (f"{found[n].dag_cost:11.6f}" for n in names)
        bound = "" if exact.bound is None else f"{exact.bound:11.6f}"
        gap = "" if exact.gap is None else f"{exact.gap:11.2g}"
        times = f"{found['greedy-dag'].seconds:11.1f} {exact.seconds:11.1f}"
        print(f"{path.stem[:34]:34} {eg.n_classes:11} {eg.n_nodes:11}", *costs, bound, gap, times)


if __name__ == "__main__":
    main(*sys.argv[1:])
