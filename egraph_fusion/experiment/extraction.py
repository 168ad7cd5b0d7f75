"""The cheapest term of an explored graph under a cost model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from egraph_fusion.egraph.choosing import Offer
from egraph_fusion.egraph.counting import Totals, totals
from egraph_fusion.egraph.facts import load_graph
from egraph_fusion.egraph.saturate import Saturation
from egraph_fusion.egraph.writing import folds_of, uses_by_rule, written
from egraph_fusion.errors import OptimizeError, said
from egraph_fusion.experiment.expressions import shown
from egraph_fusion.experiment.leaves import ABSENT, Leaf
from egraph_fusion.experiment.printing import Reader
from egraph_fusion.extract import EXTRACTORS
from egraph_fusion.extract.choice import Choice
from egraph_fusion.extract.cost import COST_MODELS, CostModel, Features
from egraph_fusion.ir.graph import Graph
from egraph_fusion.ir.text import print_graph
from egraph_fusion.optimizer import expressible_in
from egraph_fusion.rulesets.pattern import Pattern

SHORT = 12
"""Nodes of a graph that prints as expressions; a longer one prints as a graph."""


@dataclass(frozen=True)
class Extracted:
    """An equal graph: `expressions` gives each output as a term.

    `cost` is what the cost model says in its own terms: FLOPs for "flops", bytes for "bytes", else
    the exact integer.  `gap` is 0 where nothing cheaper is in the e-graph, None where that is not
    known.  `uses` counts the rules that made what was chosen.
    """

    graph: Graph
    expressions: tuple[Pattern, ...]
    cost: int | float
    totals: Totals
    gap: float | None
    uses: Mapping[str, int]

    @property
    def expression(self) -> Pattern:
        """The only output; OptimizeError if there are several."""
        if len(self.expressions) != 1:
            raise OptimizeError(f"there are {len(self.expressions)} outputs: see `expressions`")
        return self.expressions[0]

    @property
    def flops(self) -> int:
        """FLOPs of one run."""
        return self.totals.flops

    @property
    def _promise(self) -> str:
        if self.gap is None:
            return "not proven cheapest in the e-graph"
        if self.gap == 0:
            return "proven cheapest in the e-graph"
        return f"at most {100 * self.gap:.2g} % above the cheapest in the e-graph"

    def __str__(self) -> str:
        """Print the terms, or the graph if it is long, and what it costs."""
        tail = f"{self.totals.flops} FLOPs, {self.totals.ops} operators ({self._promise})"
        if len(self.graph.nodes) > SHORT:
            return f"{print_graph(self.graph, data=False)}{tail}"
        return "\n".join([*(shown(p, 400) for p in self.expressions), tail])


def extract(
    found: Saturation,
    leaves: Mapping[str, Leaf],
    cost: str | CostModel,
    extractor: str,
    seconds: float,
) -> Extracted:
    """Return the cheapest graph in the last state of a saturation.

    Raises OptimizeError for an unknown cost model or extractor, a cost model that raises or gives
    no price, and if nothing can be extracted.
    """
    model = COST_MODELS.get(cost) if isinstance(cost, str) else cost
    if not callable(model):
        raise OptimizeError(f"no cost model is called {cost!r}; there are {', '.join(COST_MODELS)}")
    if extractor not in EXTRACTORS:
        raise OptimizeError(
            f"no extractor is called {extractor!r}; there are {', '.join(EXTRACTORS)}"
        )
    loaded, state = found.loaded, found.states[-1]
    model = _exact(model)
    names = [t.rule.name for t in found.program.rules]
    allowed = expressible_in(loaded.graph)

    def choose(offered: Offer) -> Choice:
        return EXTRACTORS[extractor](offered.snapshot, seconds)

    folds = folds_of(found.program)
    made, choice = written(loaded, state, model, allowed, choose, names, folds)
    counts = totals(made.graph)
    uses = uses_by_rule(made.uses, names)
    own = {"flops": counts.flops, "bytes": counts.nbytes}
    price = own[cost] if isinstance(cost, str) and cost in own else choice.dag_cost
    return Extracted(
        made.graph, terms_of_graph(made.graph, leaves), price, counts, choice.gap, uses
    )


def _exact(model: CostModel) -> CostModel:
    """Return the model, made to say so where it gives no price that can be compared exactly."""
    name = getattr(model, "__qualname__", repr(model))

    def price(features: Features) -> int:
        try:
            found = cast("object", model(features))
        except Exception as e:  # whatever it raises is the cost function's own
            raise OptimizeError(f"cost function {name} raised {said(e)} for {features}") from e
        if not isinstance(found, int) or found < 0:
            raise OptimizeError(f"a cost is an integer from 0 on; {name} gives {found!r}")
        return found

    return price


def terms_of_graph(graph: Graph, leaves: Mapping[str, Leaf]) -> tuple[Pattern, ...]:
    """Return every output of a graph as an expression."""
    loaded = load_graph(graph)
    reader = Reader(loaded, leaves)
    names = {k: v for v, k in loaded.values.items()}
    terms: dict[str, Pattern] = {v: reader.named(v) for v in graph.inputs}
    terms |= {v: reader.constant(v) for v in graph.constants}
    for t in loaded.terms:
        operands = [terms[names[k]] if k >= 0 else ABSENT for k in t.operands]
        whole = reader.applied(t.constructor, t.attrs, operands)
        outputs = graph.nodes[t.node].outputs
        if not t.constructor.outputs:
            terms[outputs[0]] = whole
            continue
        terms |= {v: reader.output(i, whole) for i, v in enumerate(outputs) if v}
    return tuple(terms[v] for v in graph.outputs)
