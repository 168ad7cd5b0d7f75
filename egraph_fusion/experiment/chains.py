"""Proofs written out: terms, each one rule apart from the one before."""

from __future__ import annotations

from dataclasses import dataclass, replace

from egraph_fusion.egraph.program import family_name
from egraph_fusion.errors import OptimizeError
from egraph_fusion.experiment.derivation import Proofs, Rewrite
from egraph_fusion.experiment.expressions import shown
from egraph_fusion.experiment.printing import Reader
from egraph_fusion.experiment.proof_forest import FOLDING
from egraph_fusion.rulesets.pattern import Apply, Output, Pattern
from egraph_fusion.rulesets.rule import Rule

LONGEST = 400
"""Steps of a chain that is still written out."""

FOLDED = "constant folding"
"""Stands for a rule where a step evaluates constants."""


@dataclass(frozen=True)
class Step:
    """One rewrite: `rule` turns a part of `before`, at `place`, into what stands in `after`.

    `place` is a path of operand numbers from the root; `forward` is false where the rule leads
    from `after` to `before`.  `instance` is the rule as it was applied, operator and arity chosen.
    """

    rule: str
    forward: bool
    place: tuple[int, ...]
    before: Pattern
    after: Pattern
    instance: Rule

    def __str__(self) -> str:
        """Print the new term and the rule."""
        way = "" if self.forward else " (from right to left)"
        return f"= {shown(self.after)}    by {self.rule}{way}"


@dataclass(frozen=True)
class Chain:
    """A term, and the steps from there; None if there are more than LONGEST."""

    start: Pattern
    steps: tuple[Step, ...] | None


def chain(proofs: Proofs, reader: Reader, first: int, second: int) -> Chain:
    """Return the chain between two equal terms of a proof."""
    terms = _Terms(proofs, reader)
    start = terms.of(first)
    steps: list[Step] = []
    for r in proofs.explain(first, second):
        before = steps[-1].after if steps else start
        after = _replaced(before, r.place, terms.of(r.new))
        steps.append(_step(_rule(proofs, terms, r), r, before, after))
        if len(steps) > LONGEST:
            return Chain(start, None)
    return Chain(start, _without_loops(start, steps))


def _rule(proofs: Proofs, terms: _Terms, r: Rewrite) -> Rule:
    """Return the rule of a rewrite; that of folding says what a term of constants is."""
    if r.rule != FOLDING:
        return proofs.rules[r.rule]
    left, right = (r.old, r.new) if r.forward else (r.new, r.old)
    return Rule(FOLDED, terms.of(left), terms.of(right), level="exact", dtypes="any")


def _step(rule: Rule, r: Rewrite, before: Pattern, after: Pattern) -> Step:
    name = family_name(rule.name)
    if "-reverse" not in rule.name:
        return Step(name, r.forward, r.place, before, after, rule)
    given = replace(rule, name=rule.name.replace("-reverse", ""), lhs=rule.rhs, rhs=rule.lhs)
    return Step(name, not r.forward, r.place, before, after, given)


def _without_loops(start: Pattern, steps: list[Step]) -> tuple[Step, ...]:
    """Leave out what leads from a term back to itself."""
    kept: list[Step] = []
    for s in steps:
        kept.append(s)
        terms = [start, *(k.after for k in kept[:-1])]
        if s.after in terms:
            del kept[terms.index(s.after) :]
    return tuple(kept)


def _replaced(p: Pattern, place: tuple[int, ...], part: Pattern) -> Pattern:
    if not place:
        return part
    match p:
        case Output(of, index):
            return Output(_replaced(of, place[1:], part), index)
        case Apply(args=args):
            i = place[0]
            changed = _replaced(args[i], place[1:], part)
            return replace(p, args=(*args[:i], changed, *args[i + 1 :]))
        case _:
            raise OptimizeError(f"{p} has no operand {place[0]}")


@dataclass
class _Terms:
    """Terms of a proof as expressions."""

    proofs: Proofs
    reader: Reader

    def __post_init__(self) -> None:
        self.made: dict[int, Pattern] = {}

    def of(self, number: int) -> Pattern:
        stack = [number]  # terms may be deeper than Python recurses
        while stack:
            n = self.proofs.nodes[stack[-1]]
            wanted = [k for k in n.children if k not in self.made]
            if wanted and stack[-1] not in self.made:
                stack.extend(wanted)
                continue
            done = stack.pop()
            if done not in self.made:
                self.made[done] = self.reader.term(n, [self.made[k] for k in n.children])
        return self.made[number]
