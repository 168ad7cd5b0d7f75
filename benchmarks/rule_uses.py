"""Count which rules the results of optimised models owe something to; docs/rules.md shows it.

    python benchmarks/rule_uses.py RESULT.json [MODEL or FOLDER]...

RESULT.json is read, if it exists, and written after every model, so that a count can go on where it
was broken off; models that it holds are not counted again.  Without models, the two examples are
counted.  A model that can't be read is left out, with a line on standard error; so is one whose run
the clock stopped, since that may vary.

A rule has a use in a model if it made a node of the result, or if it belongs to a smallest set of
rules that reaches a result as good: drop any of that set, and FLOPs, bytes or operators are more.
The structural rules are always there.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
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
    """What one model's result owes: nodes by the rule that made them, and a smallest set."""

    made: dict[str, int]
    needed: list[str]


def graphs(sources: Sequence[Path]) -> Iterator[tuple[str, Callable[[], Graph]]]:
    """Yield the models among files and folders, each a name and how to read it."""
    if not sources:
        for n in EXAMPLES:
            yield n, partial(_example, n)
    for path in sources:
        for file in sorted(path.rglob("*.onnx")) if path.is_dir() else [path]:
            name = file.parent.name if file.stem == "model" else file.stem
            yield name, partial(load, file)


def _example(name: str) -> Graph:
    return load(materialize(example_path(name)))


def costs(report: Report) -> Costs:
    """Return what a result costs, the weightiest first."""
    return report.flops_after, report.bytes_after, report.ops_after


def uses_in(graph: Graph) -> Uses | None:
    """Return which of the 149 rules the result for `graph` owes something to.

    None if the clock stopped the run.
    """
    report = optimize(graph, time_limit=SECONDS).report
    if report.stop_reason == "time":
        return None
    ours = [r.name for r in rulesets.ALL if report.rule_hits.get(r.name)]
    made = {n: report.rule_uses[n] for n in ours if n in report.rule_uses}

    def reaches(names: Sequence[str]) -> bool:
        rules = [*rulesets.STRUCTURAL, *map(rulesets.find, names)]
        return costs(optimize(graph, rules, time_limit=SECONDS).report) <= costs(report)

    others = [n for n in ours if n not in made]
    return {"made": made, "needed": sorted(smallest(list(made), others, reaches))}


def smallest(likely: list[str], others: list[str], reaches: Reaches) -> list[str]:
    """Return a subset of rules that reaches the result and of which none can be dropped.

    It is looked for among `likely` ones first.  None are kept if all together do not reach it.
    """
    if reaches([]):
        return []
    names = likely if likely and reaches(likely) else [*likely, *others]
    kept = _explained([], names, reaches)
    for name in reversed(kept):  # with fewer rules, budgets reach further: look once more
        rest = [n for n in kept if n != name]
        if len(kept) > 1 and reaches(rest):
            kept = rest
    return kept if reaches(kept) else []


def _explained(given: list[str], names: Sequence[str], reaches: Reaches) -> list[str]:
    """Return the part of `names` that is needed beside `given`, by halves (QuickXplain)."""
    if len(names) <= 1:
        return list(names)
    first, second = names[: len(names) // 2], names[len(names) // 2 :]
    later = [] if reaches([*given, *first]) else _explained([*given, *first], second, reaches)
    earlier = [] if reaches([*given, *later]) else _explained([*given, *later], first, reaches)
    return [*earlier, *later]


def main(result: Path, sources: Sequence[Path]) -> None:
    """Count the models in `sources` that `result` does not hold, and write it."""
    found: dict[str, Uses] = json.loads(result.read_text()) if result.exists() else {}
    for name, read in graphs(sources):
        if name in found:
            continue
        try:
            uses = uses_in(read())
        except EgraphFusionError as e:
            print(f"{name}: {e}", file=sys.stderr)
            continue
        if uses is None:
            print(f"{name}: stopped by the clock, not counted", file=sys.stderr)
            continue
        print(f"{name}: {uses}", file=sys.stderr, flush=True)
        found[name] = uses
        result.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), [Path(a) for a in sys.argv[2:]])
