"""The page on how far e-graphs grow, with the table of the last measurement."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

FOLDER = Path(__file__).parent
HEAD = """# How far e-graphs grow

Saturation is bounded by counts, so that one input gives one result on every machine; the clock is
a safety net, and a run that it stopped says so (`stop_reason` "time").

- **Regrouping.** All ways to sum n operands are 3^n e-nodes. Associativity looks only through
  values with one consumer, and a long chain is regrouped in pieces of up to seven operands, fewer
  where a graph has many (`egraph_fusion/egraph/regrouping.py`).
- **Constants.** `(x + 1) + 2` becomes `x + 3`, and the form before is not matched again: 300
  scalars in a row end as one. Numbers that are computed exactly are one e-class, however they
  were computed.
- **Rules.** A rule that matches more than 2,000 times in an iteration pauses; one that used up
  its matches (8 for each e-node of the graph, at least 30,000), or would in its next step,
  retires (`stop_reason` "matches").
- **E-nodes.** Ten times those of the graph, at least 10,000 and at most `node_limit` ("nodes").
- **Iterations.** Twice `iter_limit` (at most 24) of the rules that simplify, then `iter_limit` of
  all ("iterations"); 0 leaves the model as it is.
- **Taking apart.** Laws that make more work when read from right to left (`a * (b + c)` into
  `a * b + a * c`; `rulesets/expansions.py`) are applied once where all rules are done and the
  e-graph has up to 100 e-nodes; then all rules run again until there are 500, and that once more
  if it is still small. What this leaves unfinished does not count for `stop_reason`.
- **Extraction.** The solver of the default extractor stops after a fixed amount of work.
- **Memory.** The e-graph lives in a process of its own with 4 GiB of address space ("memory").

Whatever ends a run, the best result so far is returned, the model itself if there is none, and
the report's `notes` say what happened.

The structural rules, the ten printed in the paper and those that gather constants and move them
into weights (`rulesets.FOUNDATION`) are run to their end first. What is extracted then bounds the
final choice: no result with more FLOPs or more blocks is taken, so more rules never hurt.

`python benchmarks/growth.py MODELS --into docs/growth.json` measures, and fails if all rules were
worse than the printed ones anywhere; `tests/test_growth.py` holds it for the example models, and
for larger ones where they lie beside the checkout, and `tests/test_measured_figures.py` what the
table says: all rules are nowhere worse, no run was ended by the clock or by memory, and bert-base
and gpt2 took less than 30 seconds. Below, before a slash: these rules; after it:
all 149; one figure where both agree. *CPU s* are seconds of the processor in both
processes, *MB* the most that the e-graph's process held. All were measured with
the rules as they are, on two cores of which one was busy otherwise.

"""


def _benchmark() -> ModuleType:
    path = FOLDER.parent / "benchmarks" / "growth.py"
    spec = importlib.util.spec_from_file_location("growth", path)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def growth_page() -> str:
    """The page on growth."""
    models = json.loads((FOLDER / "growth.json").read_text())
    return HEAD + "\n".join(_benchmark().table(models)) + "\n"
