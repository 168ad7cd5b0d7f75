"""Why two terms are equal: the fewest rules that show it, and a chain of terms one rule apart."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from egraph_fusion.egraph.program import family_name
from egraph_fusion.egraph.ranges import Facts
from egraph_fusion.egraph.saturate import Limits, Saturation, saturate
from egraph_fusion.errors import OptimizeError
from egraph_fusion.experiment.chains import FOLDED, LONGEST, Step, chain
from egraph_fusion.experiment.derivation import Proofs
from egraph_fusion.experiment.expressions import shown
from egraph_fusion.experiment.leaves import Leaf
from egraph_fusion.experiment.printing import Reader
from egraph_fusion.experiment.proof_forest import FOLDING
from egraph_fusion.experiment.queries import Query
from egraph_fusion.experiment.regions import regions
from egraph_fusion.experiment.view import View
from egraph_fusion.ir.graph import Graph
from egraph_fusion.rulesets.pattern import Pattern
from egraph_fusion.rulesets.rule import Rule

UNSURE = ("time", "memory", "crash")
"""Ends of a run that might have shown more."""
REPLAYS = 40
"""Rounds in which the rules are replayed."""
FIRST, GRACE = 20.0, 30.0
"""Seconds for a first chain, and for the last one where the time limit is over."""


@dataclass(frozen=True)
class Explanation:
    """The rules that make two terms equal; iterating yields their names.

    `steps` leads from the first term to the second.  It is empty for equal texts, and where the
    chain would be too long to write (`note` says so).  With `minimal`, no rule of `needed` can be
    left out.
    """

    first: str
    second: str
    start: Pattern | None
    steps: tuple[Step, ...]
    needed: tuple[str, ...]
    minimal: bool
    note: str = ""

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules of the chain in the order in which they are first used."""
        used = (s.rule for s in self.steps if s.rule != FOLDED)
        return tuple(dict.fromkeys(used)) or self.needed

    def __iter__(self) -> Iterator[str]:
        """Yield the names of the rules."""
        return iter(self.rules)

    def __len__(self) -> int:
        """Return the number of rules."""
        return len(self.rules)

    def __str__(self) -> str:
        """Print the chain, a term a line."""
        names = ", ".join(self.rules) or "no rule: they are one term"
        lines = [f"{self.first} = {self.second} by {names}"]
        if self.start is not None and self.steps:
            lines += [f"    {shown(self.start)}", *(f"  {s}" for s in self.steps)]
        return "\n".join([*lines, *([self.note] if self.note else [])])


@dataclass(frozen=True)
class Problem:
    """Two terms that are equal in a graph under rules."""

    graph: Graph
    assumed: Mapping[str, Facts]
    leaves: Mapping[str, Leaf]
    rules: tuple[Rule, ...]
    numerics: str
    limits: Limits
    first: Query
    second: Query

    def saturated(self, rules: Sequence[Rule], observed: bool = False) -> Saturation:
        """Saturate the graph under some of the rules."""
        return saturate(self.graph, rules, self.numerics, self.limits, self.assumed, observed)

    def holds_in(self, found: Saturation) -> bool:
        """Whether the terms are in one class."""
        if not found.states:
            return False
        view = View.of(found)
        return bool(self.first.classes(view) & self.second.classes(view))


def explain(
    problem: Problem, whole: Saturation, roots: Sequence[str], seconds: float
) -> Explanation:
    """Explain why the terms are equal, looking around `roots` first.

    `whole` is the (observed) saturation of the problem's graph.  Raises OptimizeError if the terms
    are not equal, or not within the limits.
    """
    deadline = time.monotonic() + seconds
    for graph, assumed in regions(problem.graph, roots, problem.assumed):
        alone = graph is not problem.graph
        limits = replace(problem.limits, seconds=min(problem.limits.seconds, seconds / 6))
        bounds = limits if alone else problem.limits
        local = replace(problem, graph=graph, assumed=assumed, limits=bounds)
        if alone and time.monotonic() > deadline - seconds / 2:
            continue
        found = local.saturated(problem.rules, observed=True) if alone else whole
        if local.holds_in(found):
            return _explained(local, found, deadline)
    raise OptimizeError(
        f"{problem.first.text} and {problem.second.text} are not equal under these rules and limits"
    )


def _useful(found: Saturation) -> tuple[Rule, ...]:
    """Return the rules that matched at all: the others changed nothing."""
    names = {family_name(n) for n in found.hits}
    return tuple(r for r in found.rules if r.name in names)


def _explained(local: Problem, found: Saturation, deadline: float) -> Explanation:
    late: list[Saturation] = []

    def enough(some: Sequence[Rule]) -> bool:
        run = local.saturated(some)
        if run.stop_reason in UNSURE:
            late.append(run)
        return local.holds_in(run)

    needed, sure = fewest(_of_a_chain(local, found, enough, deadline), enough, deadline)
    minimal = sure and not late
    final = local.saturated(needed, observed=True)
    proofs, ends = _replayed(local, final, max(deadline, time.monotonic() + GRACE))
    names = tuple(r.name for r in needed)
    texts = (local.first.text, local.second.text)
    if ends is None:
        note = "the chain of terms was not found within the limits"
        return Explanation(*texts, None, (), names, minimal, note)
    written = chain(proofs, Reader(final.loaded, local.leaves), *ends)
    note = f"the chain has more than {LONGEST} steps" if written.steps is None else ""
    steps = written.steps or ()
    return Explanation(*texts, written.start, steps, names, minimal, note)


def _of_a_chain(
    local: Problem,
    found: Saturation,
    enough: Callable[[Sequence[Rule]], bool],
    deadline: float,
) -> tuple[Rule, ...]:
    """Return the rules of the first chain that is found, if they suffice, else all that matched.

    That spares the search for fewest rules most of its way.
    """
    rules = _useful(found)
    proofs, ends = _replayed(local, found, min(deadline, time.monotonic() + FIRST))
    if ends is None:
        return rules
    steps = islice(proofs.explain(*ends), LONGEST)
    used = {family_name(proofs.rules[s.rule].name) for s in steps if s.rule != FOLDING}
    few = tuple(r for r in rules if r.name in used)
    return few if enough(few) else rules


def fewest(
    rules: Sequence[Rule], enough: Callable[[Sequence[Rule]], bool], deadline: float
) -> tuple[tuple[Rule, ...], bool]:
    """Return rules of which none can be left out, by delta debugging (Zeller 1999).

    False as the second result says that the time was over before that was certain.
    """
    kept, size = list(rules), max(len(rules) // 2, 1)
    while kept:
        before = len(kept)
        for start in reversed(range(0, before, size)):
            if time.monotonic() > deadline:
                return tuple(kept), False
            fewer = kept[:start] + kept[start + size :]
            if enough(fewer):
                kept = fewer
        if size == 1 and len(kept) == before:
            break
        size = max(size // 2, 1)
    return tuple(kept), True


def _replayed(
    local: Problem, final: Saturation, deadline: float
) -> tuple[Proofs, tuple[int, int] | None]:
    rules = tuple(t.rule for t in final.program.rules if t.rule.name in final.hits)
    proofs = Proofs(View.of(final), rules, local.numerics != "real")
    values = proofs.load(final.loaded.graph)
    for _ in range(REPLAYS):
        ends = _ends(local, proofs, values)
        if proofs.find(ends[0]) == proofs.find(ends[1]):
            return proofs, ends
        if not proofs.step(deadline) or time.monotonic() > deadline:
            break
    return proofs, None


def _ends(local: Problem, proofs: Proofs, values: Mapping[str, int]) -> tuple[int, int]:
    found: list[int] = []
    for q in (local.first, local.second):
        found.append(values[q.value] if q.graph is None else proofs.load(q.graph, values)[q.value])
    proofs.close()
    return found[0], found[1]
