"""How far the e-graph of a model grows, with the printed rules and their foundation and with all.

    python benchmarks/growth.py [MODEL or FOLDER]... [--into FILE] [--json]

Prints a table, or JSON: for every model e-nodes, e-classes, iterations, seconds of the processor,
the most memory that the e-graph's process held, why it stopped, the extraction gap, and FLOPs and
blocks of the result, once with the paper's ten printed rules, those over constants and the
structural ones (`rulesets.FOUNDATION`), and once with all.  Without models, the two examples are
measured.

FILE is read, if it exists, and written after every model, so that a run can go on where it was
broken off; docs/growth.md shows docs/growth.json.  Exit code 1 if all rules gave a worse result
than the printed ones somewhere.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypedDict

from egraph_fusion import rulesets
from egraph_fusion.egraph import session
from egraph_fusion.errors import EgraphFusionError
from egraph_fusion.frontend import load
from egraph_fusion.frontend.example_models import EXAMPLES, example_path, materialize
from egraph_fusion.ir.graph import Graph
from egraph_fusion.pipeline import optimize, plan
from egraph_fusion.rulesets.rule import Rule

SECONDS = 600.0
"""Time limit of a run: the deterministic budgets are to stop it, not the clock."""

HEADS = (
    "e-nodes",
    "e-classes",
    "iterations",
    "CPU s",
    "MB",
    "stopped",
    "gap",
    "FLOPs",
    "blocks",
)


class Growth(TypedDict):
    """One run: `cpu` is the processor's seconds in both processes, `memory` the e-graph's bytes."""

    enodes: int
    eclasses: int
    iterations: int
    seconds: float
    cpu: float
    memory: int
    stop_reason: str
    gap: float | None
    flops: int
    blocks: int


Runs = dict[str, Growth]


def rule_sets() -> dict[str, tuple[Rule, ...]]:
    """Return the sets of rules to compare by name."""
    rules = rulesets.default_rules()
    printed = tuple(r for r in rules if r.name in rulesets.FOUNDATION)
    return {"printed": printed, "all": rules}


def measured(graph: Graph, rules: Sequence[Rule]) -> Growth:
    """Rewrite a graph with a fresh e-graph process and say how it went."""
    session.stop()
    start, cpu = time.perf_counter(), _processor_seconds()
    found = optimize(graph, rules=rules, time_limit=SECONDS, verify=False)
    seconds = time.perf_counter() - start
    session.stop()  # so that its seconds are counted
    report = found.report
    return Growth(
        enodes=report.enodes,
        eclasses=report.eclasses,
        iterations=report.iterations,
        seconds=round(seconds, 2),
        cpu=round(_processor_seconds() - cpu, 2),
        memory=report.memory,
        stop_reason=report.stop_reason,
        gap=report.extraction_gap,
        flops=report.flops_after,
        blocks=len(plan(found.graph).blocks),
    )


def _processor_seconds() -> float:
    """Return what this process and its ended children have used."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def compared(graph: Graph) -> Runs:
    """Return the runs of one graph by rule set."""
    return {name: measured(graph, rules) for name, rules in rule_sets().items()}


def complaints(model: str, runs: Mapping[str, Growth]) -> Iterator[str]:
    """Say where all rules gave a worse result than the printed ones."""
    printed, everything = runs["printed"], runs["all"]
    for what in ("flops", "blocks"):
        if everything[what] > printed[what]:
            yield f"{model}: {what} {everything[what]} with all rules, {printed[what]} with ten"


def graphs(sources: Sequence[Path]) -> Iterator[tuple[str, Callable[[], Graph]]]:
    """Yield the models among files and folders, each a name and how to read it."""
    if not sources:
        for n in EXAMPLES:
            yield n, partial(_example, n)
    for path in sources:
        for file in sorted(path.glob("*.onnx")) if path.is_dir() else [path]:
            yield file.stem, partial(load, file)


def _example(name: str) -> Graph:
    return load(materialize(example_path(name)))


def table(models: Mapping[str, Runs]) -> Iterator[str]:
    """Yield the lines of a table: the ten rules' figures before a slash, all rules' after it."""
    yield f"| model | {' | '.join(HEADS)} |\n|---|{'---|' * len(HEADS)}"
    for name, runs in models.items():
        cells = zip(_cells(runs["printed"]), _cells(runs["all"]), strict=True)
        yield f"| {name} | {' | '.join(a if a == b else f'{a} / {b}' for a, b in cells)} |"


def _cells(g: Growth) -> list[str]:
    gap = "unknown" if g["gap"] is None else f"{g['gap']:.2g}"
    return [
        str(g["enodes"]),
        str(g["eclasses"]),
        str(g["iterations"]),
        f"{g['cpu']:.1f}",
        str(g["memory"] >> 20),
        g["stop_reason"],
        gap,
        f"{g['flops']:,}",
        str(g["blocks"]),
    ]


def main(arguments: Sequence[str]) -> int:
    """Measure, print and say by the exit code whether more rules were worse anywhere."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sources", nargs="*", type=Path)
    parser.add_argument("--into", type=Path)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    into: Path | None = options.into
    done: dict[str, Runs] = json.loads(into.read_text()) if into and into.exists() else {}
    for name, read in graphs(options.sources):
        if name in done:
            continue
        try:
            done[name] = compared(read())
        except EgraphFusionError as e:
            print(f"{name}: {e}", file=sys.stderr)
            continue
        gc.collect()
        if into:
            into.write_text(json.dumps(done, indent=1) + "\n")
        print(f"{name}: {done[name]['all']['stop_reason']}", file=sys.stderr)
    print(json.dumps(done, indent=1) if options.json else "\n".join(table(done)))
    worse = [line for name, runs in done.items() for line in complaints(name, runs)]
    print("\n".join(worse), file=sys.stderr)
    return bool(worse)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
