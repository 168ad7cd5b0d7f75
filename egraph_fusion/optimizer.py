"""`optimize`: saturate a graph under rules, extract the cheapest equal graph, and report."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from egraph_fusion.arguments import bounded, checked
from egraph_fusion.egraph.candidates import Candidate, best
from egraph_fusion.egraph.choosing import Offer
from egraph_fusion.egraph.counting import totals
from egraph_fusion.egraph.pricing import Allowed
from egraph_fusion.egraph.program import ASSUMED, by_family, family_name
from egraph_fusion.egraph.rebuild import Rebuilt
from egraph_fusion.egraph.saturate import Limits, Saturation, saturate
from egraph_fusion.egraph.state import EState
from egraph_fusion.egraph.writing import folds_of, uses_by_rule, written
from egraph_fusion.errors import OptimizeError
from egraph_fusion.extract import EXTRACTORS
from egraph_fusion.extract.choice import Choice
from egraph_fusion.extract.cost import COST_MODELS
from egraph_fusion.frontend import expressible
from egraph_fusion.frontend.source import Source, graph_of
from egraph_fusion.fusion.extended import plan_extended
from egraph_fusion.ir.graph import Graph, Node, frozen_attrs
from egraph_fusion.ir.tensors import TensorType
from egraph_fusion.rulesets import FOUNDATION, default_rules, select
from egraph_fusion.rulesets.admission import admit
from egraph_fusion.rulesets.rule import LEVELS, Rule

NEARLY = 1e-6
"""A gap, in parts of the cost, that is not worth looking for in other states."""


@dataclass(frozen=True)
class Report:
    """What `optimize` did.

    FLOPs, bytes (tensors written per run) and operators before and after; how saturation went;
    how often each rule was applied (`rule_hits`: matches whose two sides are of one type) and
    stands behind a node of the result (`rule_uses`); `extraction_gap` as `Choice.gap`;
    `assumptions` made at level "real"; `growth` is the number of e-nodes after each iteration,
    `memory` the most bytes that the e-graph's process ever held; `notes` on anything that was
    given up.
    """

    flops_before: int
    flops_after: int
    contraction_flops_before: int
    contraction_flops_after: int
    other_flops_before: int
    other_flops_after: int
    ops_before: int
    ops_after: int
    bytes_before: int
    bytes_after: int
    iterations: int = 0
    eclasses: int = 0
    enodes: int = 0
    saturated: bool = False
    stop_reason: str = ""
    rule_hits: dict[str, int] = field(default_factory=dict[str, int])
    rule_uses: dict[str, int] = field(default_factory=dict[str, int])
    extraction_gap: float | None = None
    assumptions: list[str] = field(default_factory=list[str])
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    growth: list[int] = field(default_factory=list[int])
    memory: int = 0
    notes: list[str] = field(default_factory=list[str])

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values."""
        return asdict(self)


@dataclass(frozen=True)
class Optimized:
    """An equal graph that costs no more, and the report."""

    graph: Graph
    report: Report


@checked(OptimizeError, least={"time_limit": 0, "node_limit": 1, "iter_limit": 0})
def optimize(
    graph: Source,
    rules: Sequence[Rule | str] | str | Path | None = None,
    without: Sequence[str] = (),
    numerics: str = "finite",
    extractor: str = "auto",
    cost: str = "flops",
    time_limit: float = 60.0,
    node_limit: int = 100_000,
    iter_limit: int = 12,
    allowed: Allowed | None = None,
    verify: bool = True,
) -> Optimized:
    """Return a graph of the same meaning with fewer FLOPs (never more FLOPs or nodes).

    `graph` may also be what `load` takes.
    `rules` are rules or their names, or the path of a Python file that defines some; None means
    all of ours.  `without` leaves rules out by name.  `numerics` is the level of rules admitted.
    `allowed` refuses new nodes, given operator, types and attributes; by default those that the
    graph's opset cannot express.  With `verify`, rules that are not ours are tried before use.
    Raises OptimizeError for unknown options and RuleError for unusable or wrong rules.
    """
    check_options(numerics, extractor, cost)
    graph = graph_of(graph)
    writable = allowed or expressible_in(graph)
    used = select(default_rules() if rules is None else rules, without)
    if verify and rules is not None:
        admit(used)
    clock = _Clock()
    limits = Limits(node_limit, iter_limit, time_limit)
    result = saturate(graph, used, numerics, limits, first=FOUNDATION)
    clock.stop("saturate")
    notes = [result.note] if result.note else []
    extraction = _Extraction(result, extractor, cost, writable, bounded(time_limit), clock, notes)
    early, others = extraction.candidates()
    clock.stop("extract")
    chosen = best(Candidate(graph, planned_blocks), early, others, cost)
    clock.stop("choose")
    return Optimized(chosen.graph, _report(graph, result, chosen, clock.seconds, notes))


def planned_blocks(graph: Graph) -> int:
    """Return the number of blocks of the default planner's plan, whatever the target."""
    return len(plan_extended(graph).blocks)


def expressible_in(graph: Graph) -> Allowed:
    """Return the test whether a new node can be written in the graph's opset."""

    def allowed(
        op: str,
        ins: tuple[TensorType | None, ...],
        outs: tuple[TensorType, ...],
        attrs: dict[str, Any],
    ) -> bool:
        operands = tuple(f"x{i}" if t else "" for i, t in enumerate(ins))
        results = tuple(f"y{i}" for i, _ in enumerate(outs))
        types = {f"x{i}": t for i, t in enumerate(ins) if t}
        types |= dict(zip(results, outs, strict=True))
        node = Node(op, operands, results, frozen_attrs(attrs))
        alone = Graph("", tuple(types), results, (node,), types, opset=graph.opset)
        return not expressible(node, alone)

    return allowed


class _Clock:
    """Seconds per stage."""

    def __init__(self) -> None:
        self.start = self.last = time.perf_counter()
        self.seconds: dict[str, float] = {}

    @property
    def total(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self.start

    def stop(self, stage: str) -> None:
        """Note the time since the last stage under `stage`."""
        now = time.perf_counter()
        self.seconds[stage] = now - self.last
        self.last = now


def check_options(numerics: str, extractor: str = "auto", cost: str = "flops") -> None:
    """Raise OptimizeError for a numerics level, an extractor or a cost model that there is not."""
    for what, value, known in (
        ("numerics level", numerics, LEVELS),
        ("extractor", extractor, tuple(EXTRACTORS)),
        ("cost model", cost, tuple(COST_MODELS)),
    ):
        if value not in known:
            raise OptimizeError(f"no {what} is called {value!r}; there are {', '.join(known)}")


@dataclass
class _Extraction:
    """Graphs out of the states of a saturation, within the time that is left."""

    result: Saturation
    extractor: str
    cost: str
    allowed: Allowed
    time_limit: float
    clock: _Clock
    notes: list[str]

    def __post_init__(self) -> None:
        """What is computed at compile time is shared by all states."""
        self.folds = folds_of(self.result.program)

    def candidates(self) -> tuple[Candidate | None, list[Candidate]]:
        """Return what the early rules reach, and what all rules reach.

        The last state has it all; states before it are only looked at where it is not proven that
        its best graph was found, and then without searching for a proof.
        """
        states = self.result.states
        found = [self._extracted(s, self.extractor) for s in states[-1:]]
        early = self.result.early
        if early is None:
            first = None
        else:
            first = found[-1] if early is states[-1] else self._extracted(early, self.extractor)
        proven = [c for c in found if c is not None and c.gap is not None and c.gap < NEARLY]
        if not proven:
            quick = "greedy-dag" if self.extractor == "auto" else self.extractor
            rest = [s for s in states[:-1] if s is not early]
            found += [self._extracted(s, quick) for s in reversed(rest)]
        return first, [c for c in found if c is not None]

    def _extracted(self, state: EState, extractor: str) -> Candidate | None:
        """Return the best graph of a state; None, and a note, if it can't be written down."""
        result, model = self.result, COST_MODELS[self.cost]
        names = [t.rule.name for t in result.program.rules]

        def choose(offered: Offer) -> Choice:
            left = max(self.time_limit - self.clock.total, 1.0)
            return EXTRACTORS[extractor](offered.snapshot, left)

        try:
            rebuilt, choice = written(
                result.loaded, state, model, self.allowed, choose, names, self.folds
            )
        except OptimizeError as e:
            self.notes.append(str(e))
            return None
        uses, assumed = uses_by_rule(rebuilt.uses, names), _assumptions(result, rebuilt)
        return Candidate(rebuilt.graph, planned_blocks, uses, choice.gap, assumed)


def _assumptions(result: Saturation, rebuilt: Rebuilt) -> tuple[str, ...]:
    """Return what level "real" took for granted in the rules behind the result."""
    texts = result.program.rules
    used = {texts[n].rule.name.split("[")[0] for n in rebuilt.uses if n >= 0}
    guards = {r.name: r.value_guards for r in result.rules}
    found: list[str] = []
    for name in sorted(u for u in used if u.endswith(ASSUMED)):
        found += [f"{family_name(name)}: {g}" for g in guards[family_name(name)]]
    return tuple(found)


def _report(
    graph: Graph, result: Saturation, best: Candidate, seconds: dict[str, float], notes: list[str]
) -> Report:
    before, after = totals(graph), best.totals
    last = result.states[-1] if result.states else None
    return Report(
        flops_before=before.flops,
        flops_after=after.flops,
        contraction_flops_before=before.contraction_flops,
        contraction_flops_after=after.contraction_flops,
        other_flops_before=before.other_flops,
        other_flops_after=after.other_flops,
        ops_before=before.ops,
        ops_after=after.ops,
        bytes_before=before.nbytes,
        bytes_after=after.nbytes,
        iterations=result.iterations,
        eclasses=len(last.classes) if last else 0,
        enodes=last.n_nodes if last else 0,
        saturated=result.stop_reason == "saturated",
        stop_reason=result.stop_reason,
        rule_hits=by_family(result.hits),
        rule_uses=best.uses,
        extraction_gap=best.gap,
        assumptions=list(best.assumptions),
        seconds=seconds,
        growth=list(result.growth),
        memory=result.memory,
        notes=notes,
    )
