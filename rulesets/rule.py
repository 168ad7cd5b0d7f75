"""A rewrite rule as data: two terms, guards, and the claim it makes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from egraph_fusion.errors import RuleError
from egraph_fusion.ir.ops import OPERATORS
from egraph_fusion.rulesets.guards import GUARDS, Form, Guard
from egraph_fusion.rulesets.instances import per_length, per_operator
from egraph_fusion.rulesets.pattern import (
    Apply,
    Attribute,
    AttrTerm,
    Computed,
    Many,
    Output,
    Pattern,
    Scalar,
    Tensor,
    attribute_terms,
    pattern,
    walk,
)
from egraph_fusion.rulesets.witness import witness_of

Level = Literal["exact", "finite", "real"]
DTypes = Literal["float", "int", "uint", "bool", "numeric", "any"]
LEVELS: tuple[str, ...] = get_args(Level)
DTYPES: tuple[str, ...] = get_args(DTypes)
LENGTHS = (2, 3, 4)
"""How many operands `many` stands for: an Inception module joins four branches."""


@dataclass(frozen=True, slots=True)
class Rule:
    """The claim that `lhs` equals `rhs` where the guards hold, for tensors of `dtypes`.

    `level` says in which sense (exact, finite, real).  `both` lets the rule also work from right
    to left; `growing` keeps it out of the directed phase, which only simplifies.  `schema` groups
    rules of one law.  `witness` is a plausible graph, as ONNX text, that costs more without the
    rule; it is no part of the claim.  Construction raises RuleError, naming the rule, if it is
    malformed.
    """

    name: str
    lhs: Pattern
    rhs: Pattern
    when: tuple[Guard, ...] = ()
    level: Level = "finite"
    dtypes: DTypes = "float"
    family: str = ""
    schema: str = ""
    both: bool = False
    growing: bool = False
    witness: str = field(default="", compare=False, repr=False)
    source: str = "ours"

    def __post_init__(self) -> None:
        """Check the rule."""
        for problem in _problems(self):
            raise RuleError(f"rule {self.name!r}: {problem}")

    @property
    def guards(self) -> tuple[Guard, ...]:
        """The guards."""
        return self.when

    @property
    def value_guards(self) -> tuple[Guard, ...]:
        """The guards that look at the values of tensors."""
        return tuple(g for g in self.when if g.kind.form is Form.VALUE)

    def directions(self) -> tuple[Rule, ...]:
        """Return the rule, and its reverse if it works both ways; the reverse is `growing`."""
        if not self.both:
            return (self,)
        back = replace(
            self, name=f"{self.name}-reverse", lhs=self.rhs, rhs=self.lhs, both=False, growing=True
        )
        return (replace(self, both=False), back)

    def instances(self, lengths: Sequence[int] = LENGTHS) -> Iterator[Rule]:
        """Yield the rule for every operator its operator variable stands for and every arity.

        `lengths` are the numbers of operands that `many` variables are expanded to.
        """
        for by_operator in per_operator(self):
            yield from per_length(by_operator, lengths)

    def __str__(self) -> str:
        """Print as `name: lhs => rhs if guards`."""
        arrow = "<=>" if self.both else "=>"
        tail = f"  if {', '.join(map(str, self.when))}" if self.when else ""
        return f"{self.name}: {self.lhs} {arrow} {self.rhs}{tail}"


def rule(
    name: str,
    lhs: Pattern | float,
    rhs: Pattern | float,
    when: Sequence[Guard] = (),
    level: Level = "finite",
    dtypes: DTypes = "float",
    family: str = "",
    schema: str = "",
    both: bool = False,
    growing: bool = False,
    witness: str = "",
    source: str = "ours",
) -> Rule:
    """Return a rule; raises RuleError if it is malformed.  Registers nothing."""
    return Rule(
        name,
        pattern(lhs),
        pattern(rhs),
        tuple(when),
        level,
        dtypes,
        family,
        schema,
        both,
        growing,
        witness,
        source,
    )


def family_rule(family: str) -> Callable[..., Rule]:
    """Return `rule` for the rules of one family of ours; each brings its witness."""

    def build(
        name: str, lhs: Pattern, rhs: Pattern, when: Sequence[Guard] = (), **more: Any
    ) -> Rule:
        given: dict[str, Any] = {"family": family, "witness": witness_of(name)} | more
        return rule(name, lhs, rhs, when, **given)

    return build


def bound_attributes(p: Pattern) -> frozenset[str]:
    """Return the attribute variables that matching `p` binds."""
    return frozenset(t.name for t in attribute_terms(p) if isinstance(t, Attribute))


def _problems(r: Rule) -> Iterator[str]:
    if r.level not in LEVELS:
        yield f"level {r.level!r} is none of {', '.join(LEVELS)}"
    if r.dtypes not in DTYPES:
        yield f"dtypes {r.dtypes!r} is none of {', '.join(DTYPES)}"
    if not isinstance(r.lhs, Apply | Output):
        yield f"the left side must apply an operator, got {r.lhs}"
    yield from (p for side in (r.lhs, r.rhs) for p in _malformed(side))
    yield from _unbound(r, r.lhs, r.rhs)
    if r.both:
        yield from _unbound(r, r.rhs, r.lhs)
    for g in r.when:
        yield from _guard_problems(r, g)


def _malformed(side: Pattern) -> Iterator[str]:
    for q in walk(side):
        if not isinstance(q, Apply) or q.op.startswith("?"):
            continue
        if q.op not in OPERATORS:
            yield f"no operator is called {q.op!r}"
            return
        low, high = OPERATORS[q.op].arity
        many = any(isinstance(a, Many) for a in q.args)
        if not many and not low <= len(q.args) <= (len(q.args) if high is None else high):
            yield f"{q.op} takes {low} to {high} operands, got {len(q.args)} in {q}"
        names = {a.name for a in OPERATORS[q.op].attrs}
        for name, _ in q.attrs:
            if name not in names:
                yield f"{q.op} has no attribute {name!r}; it has {sorted(names)}"


def _unbound(r: Rule, lhs: Pattern, rhs: Pattern) -> Iterator[str]:
    del r
    have = {q for q in walk(lhs) if isinstance(q, Tensor | Many)}
    for q in walk(rhs):
        if isinstance(q, Tensor | Many) and q not in have:
            yield f"the right side uses {q}, which the left side does not bind"
    bound = bound_attributes(lhs)
    for term in attribute_terms(rhs):
        for name in _names(term):
            if name not in bound:
                yield f"the right side uses attribute {name}, which the left side does not bind"
        if isinstance(term, Computed):
            yield from _foreign(term.args, lhs)
    for term in attribute_terms(lhs):
        if isinstance(term, Computed):
            yield f"the left side cannot compute an attribute: {term}"
    if any(isinstance(q, Scalar) for q in walk(lhs)):
        yield "the left side cannot match scalar(...): match a tensor and guard it"


def _names(term: AttrTerm) -> Iterator[str]:
    if isinstance(term, Attribute):
        yield term.name
    if isinstance(term, Computed):
        yield from (a.name for a in term.args if isinstance(a, Attribute))


def _foreign(args: Sequence[object], lhs: Pattern) -> Iterator[str]:
    inside = set(walk(lhs))
    for arg in args:
        if isinstance(arg, Pattern) and arg not in inside:
            yield f"{arg} is not part of the left side {lhs}"


def _guard_problems(r: Rule, g: Guard) -> Iterator[str]:
    if g.name not in GUARDS:
        yield f"no guard is called {g.name!r}"
        return
    for missing in _foreign(g.args, r.lhs):
        yield f"guard {g}: {missing}"
    for name in g.attributes:
        if name not in bound_attributes(r.lhs):
            yield f"guard {g}: attribute {name} is not bound by the left side"
    if g.kind.form is not Form.TYPE and not all(isinstance(a, Pattern) for a in g.args):
        yield f"guard {g} takes tensors"
