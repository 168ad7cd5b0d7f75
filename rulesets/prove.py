"""Proofs: rules whose sides are rational functions of their operands' elements.

The method is polynomial identity by normal form: both sides are expanded to quotients of
polynomials with exact rational coefficients, one symbol for each element of each operand, and
compared by cross-multiplication.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from egraph_fusion.arguments import checked
from egraph_fusion.errors import REFUSALS, RuleError
from egraph_fusion.ir.ops import OPERATORS, Kind
from egraph_fusion.rulesets.pattern import Number, Pattern, Tensor, operators_of
from egraph_fusion.rulesets.polynomials import (
    NotRationalError,
    Polynomial,
    Ratio,
    Symbolic,
    split_content,
    symbol,
)
from egraph_fusion.rulesets.rule import Rule
from egraph_fusion.rulesets.verification import verify
from egraph_fusion.rulesets.verify_search import settings_of
from egraph_fusion.rulesets.verify_settings import Setting
from egraph_fusion.rulesets.verify_sizes import named_sizes
from egraph_fusion.rulesets.verify_terms import Program

SHAPES = 40
"""Settings at which a rule is proven, beside those that are rare."""
LARGEST, LONG = 24, 100
"""Elements of the operands of a setting at which a proof is attempted; more if an axis is long."""


@dataclass(frozen=True, slots=True)
class Proof:
    """What is proven of a rule: equality for all values, in `settings` shapes and attributes.

    `every_shape`: both sides are elementwise, so that one element stands for all.  `domain`: the
    two sides divide by 0 for the same values, too; otherwise that is tested, as `verify` does.
    """

    settings: int
    every_shape: bool
    domain: bool

    def __str__(self) -> str:
        """Print as a phrase."""
        where = "every shape" if self.every_shape else f"{self.settings} shapes"
        return f"proven for all values in {where}" + ("" if self.domain else ", domain tested")


@checked(RuleError, least={"seed": 0, "shapes": 1})
def prove(rule: Rule, seed: int = 0, shapes: int = SHAPES) -> Proof | None:
    """Return the proof that both sides of `rule` are equal; None if it is not rational, or wrong.

    Rounding is no part of a proof, and neither are shapes other than those tried, unless all
    operators are elementwise; a rule that names sizes is tried at larger ones, or not proven.
    A claim bit for bit is only proven where that is no matter of
    rounding: of integers, which are a ring as long as nothing divides, and of mere movement.
    Raises RuleError for arguments of another type, and for numbers that cannot be.
    """
    domain, settings = True, 0
    instances = [i for d in rule.directions() for i in d.instances()]
    if not all(map(_algebraic, instances)):
        return None
    for instance in instances:
        drawn = settings_of(instance, seed)
        if not _rational(instance, drawn):
            return None
        tried = _tried(drawn, shapes)
        if not _exceeded(instance, tried):
            return None
        try:
            proven = [_proven(instance, s) for s in tried]
        except REFUSALS:
            return None
        if not all(p.equal for p in proven) or not any(p.defined for p in proven):
            return None
        domain = domain and all(p.domain for p in proven)
        settings += sum(p.defined for p in proven)
    if not settings or not (domain or verify(rule, seed=seed, check_guards=False).ok):
        return None
    return Proof(settings, all(map(_elementwise, instances)), domain)


def _algebraic(rule: Rule) -> bool:
    """Whether equal rational functions are all that the rule claims."""
    if rule.level != "exact" or rule.dtypes in ("int", "uint"):
        return True
    used = operators_of(rule.lhs) | operators_of(rule.rhs)
    return all(OPERATORS[op].kind is Kind.MOVEMENT for op in used)


def _rational(rule: Rule, drawn: Sequence[Setting]) -> bool:
    """Whether a small setting does not show that a side is none: then no more need be drawn."""
    for s in islice((s for s in drawn if s.size[0] and not s.refusal), 1):
        try:
            _proven(rule, s)
        except NotRationalError:
            return False
        except REFUSALS:
            break
    return True


def _tried(drawn: Sequence[Setting], shapes: int) -> list[Setting]:
    """Return the largest settings, and those in which results are made of no elements."""
    refused = [s for s in drawn if s.refusal]
    empty = [s for s in drawn if _of_nothing(s)]
    full = [s for s in drawn if not _of_nothing(s)]
    rare = [s for s in full if _rare(s) and s.size[0] <= LONG]
    usual = [s for s in full if not _rare(s) and s.size[0] <= LARGEST]
    return refused[:1] or [*empty[:shapes], *rare, *usual[-shapes:]]


def _rare(s: Setting) -> bool:
    """Whether a setting was looked for since few are like it."""
    return s.long or s.tall or s.mixes_windows


def _exceeded(rule: Rule, tried: Sequence[Setting]) -> bool:
    """Whether some extent is larger than all sizes that the rule names."""
    extents = [d for s in tried for t in s.left.types for d in t.static_shape or ()]
    return max(extents, default=0) > max(named_sizes(rule), default=-1)


def _of_nothing(s: Setting) -> bool:
    """Whether an operand has no elements, and the result has."""
    return 0 in map(math.prod, s.shapes.values()) and 0 not in (s.left.type.static_shape or ())


def _elementwise(rule: Rule) -> bool:
    used = operators_of(rule.lhs) | operators_of(rule.rhs)
    return all(OPERATORS[op].kind is Kind.ELEMENTWISE for op in used)


@dataclass(frozen=True, slots=True)
class _Sides:
    """What is found of both sides in one setting: whether they are `equal` and `defined` at all."""

    equal: bool
    defined: bool = True
    domain: bool = False


def _proven(rule: Rule, s: Setting) -> _Sides:
    if s.right is None or s.refusal or s.index_limits:
        return _Sides(equal=False)
    symbols = {p: _symbols(s, p, shape) for p, shape in s.shapes.items()}
    left, left_divisors = _expanded(s.left, symbols)
    right, right_divisors = _expanded(s.right, symbols)
    equal = all(x.same_as(y) for x, y in zip(left, right, strict=True))
    if rule.dtypes != "float" and (left_divisors or right_divisors):
        equal = False  # integers are truncated
    known = _nonzero(rule)
    domain = _zeros(left_divisors, known) == _zeros(right_divisors, known)
    return _Sides(equal, not left or any(x.defined for x in left), domain)


def _symbols(s: Setting, p: Pattern, shape: Sequence[int]) -> Any:
    size = math.prod(shape)
    out = np.empty(size, dtype=object)
    for i in range(size):
        out[i] = Symbolic().const(p.value) if isinstance(p, Number) else symbol(f"{p}.{i}")
    return out.reshape(tuple(shape))


def _expanded(program: Program, symbols: Mapping[Pattern, Any]) -> tuple[list[Ratio], Any]:
    scalars = Symbolic()
    found = program.run_exactly(lambda _: scalars, symbols)[program.root].reshape(-1)
    ratios = [v if isinstance(v, Ratio) else scalars.add(v, scalars.const(0.0)) for v in found]
    return ratios, scalars.divisors


def _nonzero(rule: Rule) -> frozenset[str]:
    """Return the tensors that a guard keeps away from 0."""
    names = ("nonzero", "positive")
    return frozenset(
        p.name for g in rule.when if g.name in names for p in g.patterns if isinstance(p, Tensor)
    )


def _zeros(
    divisors: Iterable[Polynomial], nonzero: frozenset[str]
) -> tuple[frozenset[str], frozenset[str]]:
    """Return what makes a divisor 0: symbols that divide one, and the polynomials left of them."""
    symbols: set[str] = set()
    others: set[str] = set()
    for p in divisors:
        names, rest = split_content(p)
        symbols |= {n for n in names if n.rpartition(".")[0] not in nonzero}
        if any(rest):
            others.add(str(sorted(rest.items())))
    return frozenset(symbols), frozenset(others)


__all__ = ["NotRationalError", "Proof", "prove"]
