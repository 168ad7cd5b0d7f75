"""Count how often each rule stands behind a node of an optimised model; docs/rules.md shows it.

    python benchmarks/rule_uses.py [MODEL or FOLDER]... > docs/rule_uses.json

Without arguments the two example models are counted.  A model that can't be read is left out, with
a line on standard error; so is the count of a run that the clock stopped, which may vary.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from egraph_fusion import rulesets
from egraph_fusion.errors import EgraphFusionError
from egraph_fusion.frontend import load
from egraph_fusion.frontend.example_models import EXAMPLES, example_path, materialize
from egraph_fusion.ir.graph import Graph
from egraph_fusion.optimizer import optimize


def graphs(sources: Sequence[Path]) -> Iterator[tuple[str, Graph]]:
    """Yield the readable models among files and folders by name; the examples if none is given."""
    if not sources:
        yield from ((n, load(materialize(example_path(n)))) for n in EXAMPLES)
    for path in sources:
        for file in sorted(path.glob("*.onnx")) if path.is_dir() else [path]:
            try:
                yield file.stem, load(file)
            except EgraphFusionError as e:
                print(f"{file}: {e}", file=sys.stderr)


def counted(sources: Sequence[Path]) -> dict[str, object]:
    """Return the models' names and, for every rule of the 149 with uses, uses and models."""
    uses: Counter[str] = Counter()
    models: Counter[str] = Counter()
    done: list[str] = []
    for name, graph in graphs(sources):
        report = optimize(graph).report
        print(f"{name}: {report.stop_reason}, {len(report.rule_uses)} rules", file=sys.stderr)
        if report.stop_reason == "time":
            continue
        done.append(name)
        uses.update(report.rule_uses)
        models.update(n for n, times in report.rule_uses.items() if times)
    ours = [r.name for r in rulesets.ALL if uses[r.name]]
    rows = {n: {"uses": uses[n], "models": models[n]} for n in sorted(ours)}
    return {"models": done, "rules": rows}


if __name__ == "__main__":
    print(json.dumps(counted([Path(a) for a in sys.argv[1:]]), indent=1))
