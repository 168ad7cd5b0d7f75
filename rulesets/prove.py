"""Proofs: rules whose sides are rational functions of their operands' elements.

The method is polynomial identity by normal form: both sides are expanded to quotients of
polynomials with exact rational coefficients, one symbol for each element of each operand, and
compared by cross-multiplication.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

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
from egraph_fusion.rulesets.verify_settings import Setting, settings_of
from egraph_fusion.rulesets.verify_terms import REFUSALS, Program

SHAPES = 40
"""Settings at which a rule is proven."""
LARGEST = 24
"""Elements of the operands of a setting at which a proof is attempted."""


@dataclass(frozen=True, slots=True)
class Proof:
    """What is proven of a rule: equality for all values, in `settings` shapes and attributes.

    `every_shape`: both sides are elementwise, so that one element stands for all.  `domain`: the
    two sides divide by 0 for the same values, too; otherwise that is tested, not proven.
    """

    settings: int
    every_shape: bool
    domain: bool

    def __str__(self) -> str:
        """Print as a phrase."""
        where = "every shape" if self.every_shape else f"{self.settings} shapes"
        return f"proven for all values in {where}" + ("" if self.domain else ", domain tested")


def prove(rule: Rule, seed: int = 0, shapes: int = SHAPES) -> Proof | None:
    """Return the proof that both sides of `rule` are equal; None if it is not rational, or wrong.

    Rounding is no part of a proof, and neither are shapes other than those tried, unless all
    operators are elementwise.
    """
    domain, settings = True, 0
    instances = [i for d in rule.directions() for i in d.instances()]
    for instance in instances:
        found = [s for s in settings_of(instance, seed) if s.size[0] <= LARGEST][-shapes:]
        try:
            proven = [_proven(instance, s) for s in found]
        except REFUSALS:
            return None
        if not proven or None in proven:
            return None
        domain = domain and all(p is not False for p in proven)
        settings += len(found)
    return Proof(settings, all(map(_elementwise, instances)), domain) if settings else None


def _elementwise(rule: Rule) -> bool:
    used = operators_of(rule.lhs) | operators_of(rule.rhs)
    return all(OPERATORS[op].kind is Kind.ELEMENTWISE for op in used)


def _proven(rule: Rule, s: Setting) -> bool | None:
    """Return None if the sides differ, else whether their domains are the same."""
    if s.right is None or s.refusal:
        return None
    symbols = {p: _symbols(s, p, shape) for p, shape in s.shapes.items()}
    left, left_divisors = _expanded(s.left, symbols)
    right, right_divisors = _expanded(s.right, symbols)
    if not all(x.same_as(y) for x, y in zip(left, right, strict=True)):
        return None
    known = _nonzero(rule)
    return _zeros(left_divisors, known) == _zeros(right_divisors, known)


def _symbols(s: Setting, p: Pattern, shape: Sequence[int]) -> Any:
    size = math.prod(shape)
    if p in s.index_limits:
        return (np.arange(size) % max(1, s.index_limits[p])).reshape(tuple(shape))
    out = np.empty(size, dtype=object)
    for i in range(size):
        out[i] = Symbolic().const(p.value) if isinstance(p, Number) else symbol(f"{p}.{i}")
    return out.reshape(tuple(shape))


def _expanded(program: Program, symbols: Mapping[Pattern, Any]) -> tuple[list[Ratio], Any]:
    scalars = Symbolic()
    found = program.run_exactly(scalars, symbols)[program.root].reshape(-1)
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
