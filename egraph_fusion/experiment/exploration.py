"""`explore`: what rules make of an expression or a model, and why or why not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from egraph_fusion.arguments import bounded, checked
from egraph_fusion.egraph.program import by_family, lengths_in
from egraph_fusion.egraph.ranges import Facts
from egraph_fusion.egraph.saturate import Limits, Saturation, saturate
from egraph_fusion.errors import ModelError, OptimizeError, RuleError
from egraph_fusion.experiment.classes import EClass, listed
from egraph_fusion.experiment.explanation import Explanation, Problem, explain
from egraph_fusion.experiment.expressions import graph_of, shown
from egraph_fusion.experiment.extraction import Extracted, extract, terms_of_graph
from egraph_fusion.experiment.leaves import Leaf
from egraph_fusion.experiment.misses import Miss, left_out, nearest_miss
from egraph_fusion.experiment.page import page
from egraph_fusion.experiment.printing import Printer, Reader
from egraph_fusion.experiment.queries import Query, Term, query, with_query
from egraph_fusion.experiment.view import View
from egraph_fusion.extract.cost import CostModel
from egraph_fusion.frontend import load
from egraph_fusion.frontend.source import Source
from egraph_fusion.ir.graph import Graph
from egraph_fusion.output_files import write_text
from egraph_fusion.rulesets import default_rules, find, select
from egraph_fusion.rulesets.pattern import Pattern, operators_of
from egraph_fusion.rulesets.rule import LEVELS, Rule


@dataclass(frozen=True, eq=False)
class Exploration:
    """A saturated e-graph that answers questions.

    `growth` is the number of applied operators after each iteration (`enodes` also counts inputs
    and constants).  `hits` says how often each rule was applied: matches whose two sides are of one
    type, news or not (a place is matched again where a class of it has changed).  `seconds` says
    how long each rule was searched for and applied; `stop_reason` is "saturated" or the limit that
    ended the run ("iterations", "nodes", "matches", "time", "memory").
    """

    graph: Graph
    rules: tuple[Rule, ...]
    numerics: str
    limits: Limits
    saturation: Saturation = field(repr=False)
    leaves: Mapping[str, Leaf]
    assumed: Mapping[str, Facts]

    @property
    def growth(self) -> tuple[int, ...]:
        """Applied operators in the e-graph after each iteration."""
        return self.saturation.growth

    @property
    def iterations(self) -> int:
        """Iterations that ran."""
        return self.saturation.iterations

    @property
    def stop_reason(self) -> str:
        """Why the run ended."""
        return self.saturation.stop_reason

    @property
    def saturated(self) -> bool:
        """Whether no rule finds anything new."""
        return self.stop_reason == "saturated"

    @property
    def enodes(self) -> int:
        """E-nodes of the last state."""
        return self.saturation.states[-1].n_nodes

    @property
    def eclasses(self) -> int:
        """Classes of the last state."""
        return len(self.saturation.states[-1].classes)

    @cached_property
    def hits(self) -> dict[str, int]:
        """How often each rule was applied, for those that were."""
        return by_family(self.saturation.hits)

    @cached_property
    def seconds(self) -> dict[str, float]:
        """Seconds of each rule that could match at all."""
        return by_family(self.saturation.seconds)

    @cached_property
    def classes(self) -> tuple[EClass, ...]:
        """Every class of tensors: its type, bounds, names and terms."""
        return listed(self._view, self._printer)

    @checked(ModelError)
    def tensor(self, name: str) -> Leaf:
        """Return a value of the explored graph for use in expressions.

        Raises ModelError if there is none of this name.
        """
        known = query(self.graph, name)
        return Reader(self.saturation.loaded, self.leaves).named(known.value)

    @checked(ModelError)
    def contains(self, x: Term) -> bool:
        """Whether the e-graph holds `x`, an expression or the name of a tensor.

        Raises ModelError for a name that the graph does not have, and for a tensor of another type
        than its namesake there.
        """
        return bool(query(self.graph, x).classes(self._view))

    @checked(ModelError)
    def equal(self, x: Term, y: Term) -> bool:
        """Whether the rules make `x` and `y` equal, within the limits.

        Terms that the e-graph does not hold are explored together with it.  Raises ModelError as
        `contains` does.
        """
        asked = (query(self.graph, x), query(self.graph, y))
        return self._holding(*asked)._joined(*asked)

    @checked(OptimizeError, least={"time_limit": 0}, others={"x": ModelError, "y": ModelError})
    def why(self, x: Term, y: Term, time_limit: float = 60.0) -> Explanation:
        """Return the rules that make `x` and `y` equal, and a chain of terms one rule apart.

        `time_limit` (seconds) bounds the search for fewest rules; a first chain is looked for
        beyond it.  Raises OptimizeError if they are not equal under the rules and limits, and
        ModelError as `contains` does.
        """
        asked = (query(self.graph, x), query(self.graph, y))
        whole = self._holding(*asked)
        if not whole._joined(*asked):
            raise OptimizeError(
                f"{asked[0].text} and {asked[1].text} are not equal under these rules and limits; "
                "`why_not(rule)` says what kept a rule from firing"
            )
        problem = Problem(
            whole.graph, whole.assumed, whole.leaves, self.rules, self.numerics, self.limits, *asked
        )
        return explain(problem, whole.saturation, whole._roots(asked), bounded(time_limit))

    @checked(RuleError)
    def why_not(self, rule: Rule | str) -> Miss:
        """Return what kept a rule from firing, where it came nearest; also that it was left out.

        Raises RuleError for a name that no rule has.
        """
        wanted = self._rule(rule)
        if self.hits.get(wanted.name) and wanted in self.rules:
            return Miss(wanted.name, "", hits=self.hits[wanted.name])
        if LEVELS.index(wanted.level) > LEVELS.index(self.numerics):
            reason = f"its level is {wanted.level!r}, the run admits up to {self.numerics!r}"
            return Miss(wanted.name, "level", "", (reason,))
        lengths = lengths_in(self.saturation.loaded)
        instances = [i for d in wanted.directions() for i in d.instances(lengths)]
        miss = nearest_miss(self._view, self._printer, instances, self.numerics != "real")
        return miss if wanted in self.rules else left_out(miss)

    def near_misses(self) -> tuple[Miss, ...]:
        """Return `why_not` of every rule of this run that did not fire though its operators occur.

        Those that a guard kept back come first.
        """
        idle = [r for r in self.rules if r.name not in self.hits and self._occurs(r)]
        found = [m for m in map(self.why_not, idle) if m.kind in ("guard", "operand")]
        return tuple(sorted(found, key=lambda m: m.kind != "guard"))

    def _occurs(self, r: Rule) -> bool:
        """Whether every operator of a left side occurs; one of a class stands for the class."""
        wanted = {op for op in operators_of(r.lhs) if not op.startswith("?")}
        return bool(wanted) and wanted <= set(self._view.by_op)

    @checked(OptimizeError, least={"time_limit": 0})
    def extract(
        self, cost: str | CostModel = "flops", extractor: str = "auto", time_limit: float = 60.0
    ) -> Extracted:
        """Return the cheapest equal graph by a cost model: "flops", "bytes" or one of your own.

        Raises OptimizeError for an unknown cost model or extractor.
        """
        return extract(self.saturation, self.leaves, cost, extractor, bounded(time_limit))

    def to_html(self, path: str | Path) -> None:
        """Write a page that needs no other file: growth, rules, classes."""
        write_text(Path(path), page(self))

    def __str__(self) -> str:
        """Print the size, the rules that were applied and the classes."""
        lines = [
            f"{self.enodes} e-nodes in {self.eclasses} classes after {self.iterations} iterations"
            f" ({self.stop_reason})",
            *(f"  {name}: hits {n}" for name, n in sorted(self.hits.items())),
        ]
        return "\n".join([*lines, *map(str, self.classes)])

    @property
    def expressions(self) -> tuple[str, ...]:
        """What was explored, as text."""
        return tuple(shown(p, 200) for p in terms_of_graph(self.graph, self.leaves))

    @cached_property
    def _view(self) -> View:
        return View.of(self.saturation)

    @cached_property
    def _printer(self) -> Printer:
        kept = self.leaves or self.graph.types  # values of a model stand by their names
        return Printer(self._view, Reader(self.saturation.loaded, self.leaves), kept)

    def _rule(self, rule: Rule | str) -> Rule:
        if isinstance(rule, Rule):
            return rule
        return next((r for r in self.rules if r.name == rule), None) or find(rule)

    def _joined(self, first: Query, second: Query) -> bool:
        """Whether two terms are in one class."""
        return bool(first.classes(self._view) & second.classes(self._view))

    def _holding(self, *asked: Query) -> Exploration:
        """Return this exploration if it holds the terms, else one of the graph and them."""
        new = [q for q in asked if not q.classes(self._view)]
        if not new:
            return self
        leaves = dict(self.leaves)
        for q in new:
            leaves |= q.leaves
        graph = with_query(self.graph, *new)
        return _explored(graph, leaves, self.assumed, self.rules, self.numerics, self.limits)

    def _roots(self, asked: Sequence[Query]) -> tuple[str, ...]:
        """Return the values of the graph to look around for a derivation."""
        found = [v for q in asked for v in self._view.values_above(q.classes(self._view))[:2]]
        return tuple(dict.fromkeys(found)) or self.graph.outputs


@checked(
    OptimizeError,
    least={"time_limit": 0, "node_limit": 1, "iter_limit": 0},
    others={"what": ModelError, "rules": RuleError, "without": RuleError},
)
def explore(
    what: Pattern | Sequence[Pattern] | Source,
    rules: Sequence[Rule | str] | str | Path | None = None,
    without: Sequence[str] = (),
    numerics: str = "finite",
    time_limit: float = 60.0,
    node_limit: int = 100_000,
    iter_limit: int = 12,
) -> Exploration:
    """Saturate an expression, several, or a model (graph, path, ModelProto) under rules.

    `rules` are rules or names of ours, or the path of a Python file that defines some; None means
    all of ours.  `numerics` and the limits are those of `optimize`; `iter_limit=0` looks at the
    input as it is.  Raises ModelError for terms that do not fit, RuleError for unusable rules, and
    OptimizeError for impossible options or if a limit ends the run before anything is known.
    """
    if numerics not in LEVELS:
        raise OptimizeError(
            f"no numerics level is called {numerics!r}; there are {', '.join(LEVELS)}"
        )
    used = select(default_rules() if rules is None else rules, without)
    limits = Limits(node_limit, iter_limit, time_limit)
    if isinstance(what, Pattern):
        what = [what]
    if isinstance(what, Sequence) and not isinstance(what, str):
        if not what:
            raise ModelError("explore: what is an empty list; expected at least one expression")
        made = graph_of(what)
        return _explored(made.graph, made.leaves, made.assumed, used, numerics, limits)
    graph = what if isinstance(what, Graph) else load(what)
    return _explored(graph, {}, {}, used, numerics, limits)


def _explored(
    graph: Graph,
    leaves: Mapping[str, Leaf],
    assumed: Mapping[str, Facts],
    rules: tuple[Rule, ...],
    numerics: str,
    limits: Limits,
) -> Exploration:
    known = {**{v: leaf.facts for v, leaf in leaves.items() if leaf.value is None}, **assumed}
    found = saturate(graph, rules, numerics, limits, known, observed=True)
    if not found.states:
        raise OptimizeError(f"the run was ended {_ended(found, limits)} before its first result")
    return Exploration(graph, rules, numerics, limits, found, leaves, known)


def _ended(found: Saturation, limits: Limits) -> str:
    """Return what ended a run, for people, and what to do about it."""
    if found.stop_reason == "time":
        return f"by its time_limit of {limits.seconds:g} s"
    return f"({found.note})"
