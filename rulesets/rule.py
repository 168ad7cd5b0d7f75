"""A rewrite rule as data: two terms, guards, and the claim it makes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from egraph_fusion.errors import RuleError
from egraph_fusion.rulesets.guards import Form, Guard
from egraph_fusion.rulesets.instances import per_length, per_operator
from egraph_fusion.rulesets.number_leaves import numbers_apart
from egraph_fusion.rulesets.pattern import Pattern, pattern
from egraph_fusion.rulesets.rule_checks import DTYPES, LEVELS, DTypes, Level, problems
from egraph_fusion.rulesets.witness import witness_of

__all__ = ["DTYPES", "LEVELS", "DTypes", "Level", "Rule", "family_rule", "rule"]

LENGTHS = (2, 3, 4)
"""How many operands `many` stands for: an Inception module joins four branches."""


@dataclass(frozen=True, slots=True)
class Rule:
    """The claim that `lhs` equals `rhs` where the guards hold, for tensors of `dtypes`.

    `level` says in which sense (exact, finite, real).  `both` lets the rule also work from right
    to left; `growing` keeps it out of the directed phase, which only simplifies, and `expanding`
    out of both: it is tried at the end, where the e-graph is small.  `schema` groups rules of one
    law.  `witness` is a plausible graph, as ONNX text, that costs more without the
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
    expanding: bool = False
    witness: str = field(default="", compare=False, repr=False)
    source: str = "ours"

    def __post_init__(self) -> None:
        """Check the rule."""
        for problem in problems(self):
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

        `lengths` are the numbers of operands that `many` variables are expanded to.  A number of
        several dtypes is as many leaves.
        """
        for by_operator in per_operator(self):
            yield from map(numbers_apart, per_length(by_operator, lengths))

    def __str__(self) -> str:
        """Print as `name: lhs => rhs if guards`."""
        arrow = "<=>" if self.both else "=>"
        tail = f"  if {', '.join(map(str, self.when))}" if self.when else ""
        return f"{self.name}: {self.lhs} {arrow} {self.rhs}{tail}"


def rule(
    name: str,
    lhs: Pattern | float,
    rhs: Pattern | float,
    when: Guard | Sequence[Guard] = (),
    level: Level = "finite",
    dtypes: DTypes = "float",
    family: str = "",
    schema: str = "",
    both: bool = False,
    growing: bool = False,
    expanding: bool = False,
    witness: str = "",
    source: str = "ours",
) -> Rule:
    """Return a rule; raises RuleError if it is malformed.  Registers nothing."""
    return Rule(
        name,
        _side(name, lhs),
        _side(name, rhs),
        (when,) if isinstance(when, Guard) else _guards(name, when),
        level,
        dtypes,
        family,
        schema,
        both,
        growing,
        expanding,
        witness,
        source,
    )


def _side(name: str, side: object) -> Pattern:
    try:
        return pattern(side)
    except RuleError as e:
        raise RuleError(f"rule {name!r}: {e}") from e


def _guards(name: str, when: object) -> tuple[Guard, ...]:
    if isinstance(when, str) or not isinstance(when, Iterable):
        raise RuleError(f"rule {name!r}: `when` takes guards like nonneg(a), got {when!r}")
    found = tuple(cast("Iterable[object]", when))
    for g in found:
        if not isinstance(g, Guard):
            raise RuleError(f"rule {name!r}: `when` takes guards like nonneg(a), got {g!r}")
    return cast("tuple[Guard, ...]", found)


def family_rule(family: str) -> Callable[..., Rule]:
    """Return `rule` for the rules of one family of ours; each brings its witness."""

    def build(
        name: str, lhs: Pattern, rhs: Pattern, when: Sequence[Guard] = (), **more: Any
    ) -> Rule:
        given: dict[str, Any] = {"family": family, "witness": witness_of(name)} | more
        return rule(name, lhs, rhs, when, **given)

    return build
