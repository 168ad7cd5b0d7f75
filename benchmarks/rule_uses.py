"""Count which rules the results of optimised models owe something to; docs/rules.md shows it.

    python benchmarks/rule_uses.py RESULT.json [MODEL or FOLDER]... [--smallest] [--jobs N]

RESULT.json is read, if it exists, and written after every model, so that a count can go on where it
was broken off; models that it holds are not counted again.  Without models, the two examples are
counted.  A model that can't be read is left out, with a line on standard error; so is one whose run
the clock stopped, since that may vary.  N processes count at once.

A rule has a use in a model if it made a node of the result.  With --smallest, it also has one if it
belongs to a smallest set of rules that reaches a result as good: drop any of that set, and FLOPs,
bytes or operators are more.  That takes many runs of a model.  The structural rules are always
there.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import TypedDict

from egraph_fusion import rulesets
from egraph_fusion.errors import EgraphFusionError
from egraph_fusion.frontend import load
from egraph_fusion.frontend.example_models import EXAMPLES, example_path, materialize
from egraph_fusion.ir.graph import Graph
from egraph_fusion.optimizer import Report, optimize

SECONDS = 600.0
"""Time limit of a run: the deterministic budgets are to stop it, not the clock."""

Reaches = Callable[[Sequence[str]], bool]
Costs = tuple[int, int, int]


class Uses(TypedDict):
    """What one model's result owes: nodes by the rule that made them, and a smallest set.

    `needed` is None if no smallest set was looked for.
    """

    made: dict[str, int]
    needed: list[str] | None


def models(sources: Sequence[Path]) -> Iterator[tuple[str, Path | None]]:
    """Yield the models among files and folders: a name and a file, None for an example of ours."""
    if not sources:
        yield from ((n, None) for n in EXAMPLES)
    for path in sources:
        for file in sorted(path.rglob("*.onnx")) if path.is_dir() else [path]:
            yield file.parent.name if file.stem == "model" else file.stem, file


def graph_of(name: str, file: Path | None) -> Graph:
    """Read a model."""
    return load(file or materialize(example_path(name)))


def costs(report: Report) -> Costs:
    """Return what a result costs, the weightiest first."""
    return report.flops_after, report.bytes_after, report.ops_after


def uses_in(graph: Graph, smallest_set: bool) -> Uses | None:
    """Return which of the 149 rules the result for `graph` owes something to.

    None if the clock stopped the run.
    """
    report = optimize(graph, time_limit=SECONDS).report
    if report.stop_reason == "time":
        return None
    ours = [r.name for r in rulesets.ALL if report.rule_hits.get(r.name)]
    made = {n: report.rule_uses[n] for n in ours if n in report.rule_uses}
    if not smallest_set:
        return {"made": made, "needed": None}

    def reaches(names: Sequence[str]) -> bool:
        rules = [*rulesets.STRUCTURAL, *map(rulesets.find, names)]
        return costs(optimize(graph, rules, time_limit=SECONDS).report) <= costs(report)

    others = [n for n in ours if n not in made]
    needed = smallest(list(made), others, reaches)
    if report.stop_reason != "saturated":
        needed = without_spare(needed, reaches)
    return {"made": made, "needed": sorted(needed)}


def smallest(likely: list[str], others: list[str], reaches: Reaches) -> list[str]:
    """Return a subset of rules that reaches the result and of which none can be dropped.

    It is looked for among `likely` ones first.  None are kept if all together do not reach it.
    """
    if reaches([]):
        return []
    names = likely if likely and reaches(likely) else [*likely, *others]
    kept = _explained([], names, reaches)
    return kept if reaches(kept) else []


def without_spare(kept: list[str], reaches: Reaches) -> list[str]:
    """Drop what is spare all the same: with fewer rules, budgets reach further."""
    for name in reversed(kept):
        rest = [n for n in kept if n != name]
        if len(kept) > 1 and reaches(rest):
            kept = rest
    return kept


def _explained(given: list[str], names: Sequence[str], reaches: Reaches) -> list[str]:
    """Return the part of `names` that is needed beside `given`, by halves (QuickXplain)."""
    if len(names) <= 1:
        return list(names)
    first, second = names[: len(names) // 2], names[len(names) // 2 :]
    later = [] if reaches([*given, *first]) else _explained([*given, *first], second, reaches)
    earlier = [] if reaches([*given, *later]) else _explained([*given, *later], first, reaches)
    return [*earlier, *later]


def counted(name: str, file: Path | None, smallest_set: bool) -> Uses | str:
    """Return the uses in one model, or why they are not counted."""
    try:
        return uses_in(graph_of(name, file), smallest_set) or "stopped by the clock"
    except EgraphFusionError as e:
        return str(e)


def main(result: Path, sources: Sequence[Path], smallest_set: bool, jobs: int) -> None:
    """Count the models in `sources` that `result` does not hold, and write it."""
    found: dict[str, Uses] = json.loads(result.read_text()) if result.exists() else {}
    waiting = [(n, f) for n, f in models(sources) if n not in found]
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        runs = {pool.submit(counted, n, f, smallest_set): n for n, f in waiting}
        for run in as_completed(runs):
            name, uses = runs[run], run.result()
            print(f"{name}: {uses}", file=sys.stderr, flush=True)
            if not isinstance(uses, str):
                found[name] = uses
                result.write_text(json.dumps(dict(sorted(found.items())), indent=1) + "\n")


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Count which rules models owe something to.")
    parser.add_argument("result", type=Path, metavar="RESULT.json")
    parser.add_argument("models", type=Path, nargs="*", metavar="MODEL or FOLDER")
    parser.add_argument("--smallest", action="store_true", help="look for smallest sets as well")
    parser.add_argument("--jobs", type=int, default=1, metavar="N")
    return parser.parse_args()


if __name__ == "__main__":
    args = arguments()
    main(args.result, args.models, args.smallest, args.jobs)
