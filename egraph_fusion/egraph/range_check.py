"""Whether what a rule makes stays within the range of its dtype, as far as constants are known.

A rule is sound over the reals; in floats, a product of two constants may overflow, or vanish under
a division, where the original never did.  Operands whose bounds lie well within the range are calm:
no product of three of them leaves it, so rules fire on them unasked.  For the others, and for rules
that multiply along axes (in float16 also those that add), the bounds of every new intermediate are
worked out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from egraph_fusion.egraph.demand import Demand, Row, bounds_of, first_type, row_text
from egraph_fusion.egraph.interning import Interner
from egraph_fusion.ir.dims import Shape, product
from egraph_fusion.ir.ops import OPERATORS
from egraph_fusion.ir.ops.operator import Interval
from egraph_fusion.ir.tensors import DType, TensorType
from egraph_fusion.rulesets.pattern import Apply, Number, Pattern, Tensor, walk
from egraph_fusion.rulesets.rule import Rule

ASKED = "/asked"
"""Ends the names of the texts of rules that ask before they fire."""
MANY = 2**20
"""Elements that a tensor of unknown extents is taken to have."""
SUMS = ("ReduceSum", "ReduceL1", "ReduceSumSquare", "ReduceL2", "CumSum")
CONTRACTIONS = ("MatMul", "Gemm", "Conv", "ConvTranspose")
COMBINING = (*SUMS, *CONTRACTIONS, "ReduceProd")


@dataclass(frozen=True, slots=True)
class Values:
    """What kinds of values a graph holds: tame but not calm ones (`wild`), float16 (`half`)."""

    wild: bool
    half: bool


@dataclass(frozen=True, slots=True)
class Range:
    """The largest magnitude and the smallest normal one."""

    largest: float
    smallest: float

    @property
    def calm(self) -> Range:
        """The range of which products of three stay within this one."""
        return Range(math.cbrt(self.largest), math.cbrt(self.smallest))

    def holds(self, bounds: Interval) -> bool:
        """Whether nothing within these bounds overflows, and not all of it vanishes."""
        lo, hi = bounds
        most = max(abs(lo), abs(hi))
        least = max(lo, -hi, 0.0) or most
        return most <= self.largest and (most == 0 or least >= self.smallest)


def range_of(dtype: DType) -> Range:
    """Return the range of a float dtype; bfloat16 has that of float32."""
    facts = np.finfo(np.float32 if dtype is DType.BFLOAT16 else dtype.numpy)
    return Range(float(facts.max), float(facts.tiny))


def is_calm(bounds: Interval, dtype: DType) -> bool:
    """Whether bounds lie well within the range of a dtype; unknown ends do not count."""
    lo, hi = bounds
    if not dtype.is_float or (math.isinf(lo) and math.isinf(hi)):
        return True
    known = (lo if math.isfinite(lo) else min(hi, 0.0), hi if math.isfinite(hi) else max(lo, 0.0))
    return range_of(dtype).calm.holds(known)


def new_terms(r: Rule) -> tuple[Apply, ...]:
    """Return the intermediates that the right side has and the left side has not."""
    old = {*walk(r.lhs), r.rhs}
    return tuple(p for p in dict.fromkeys(walk(r.rhs)) if isinstance(p, Apply) and p not in old)


def accumulates(r: Rule, half: bool) -> bool:
    """Whether a rule makes an intermediate that combines so many elements that calm ones overflow.

    Sums of calm products do so in float16 only.
    """
    combining = COMBINING if half else ("ReduceProd",)
    return any(p.op in combining for p in new_terms(r))


def range_demand(interner: Interner, r: Rule, number: int, names: Sequence[str]) -> Demand:
    """Answer yes if all that `r` makes of operands with these bounds and types fits.

    A row holds the lower bound, upper bound and type of each tensor of `names`.
    """

    def answer(row: Row) -> list[str]:
        bounds = dict(zip(names, zip(row[::3], row[1::3], strict=True), strict=True))
        types = {n: first_type(interner, t) for n, t in zip(names, row[2::3], strict=True)}
        return [f"(yes-range-{number} {row_text(row)})"] if fits(r, bounds, types) else []

    sorts = " ".join(["f64 f64 i64"] * len(names))
    return Demand(f"range-{number}", sorts, (f"(relation yes-range-{number} ({sorts}))",), answer)


def fits(r: Rule, bounds: Mapping[str, Interval], types: Mapping[str, TensorType | None]) -> bool:
    """Whether every new intermediate of `r` stays within the range of the operands' dtype."""
    floats = [t.dtype for t in types.values() if t is not None and t.dtype.is_float]
    if not floats:
        return True
    work = _Bounds(bounds, types, range_of(floats[0]))
    return all(work.range.holds(work.of(p)[0]) for p in new_terms(r))


Known = tuple[Interval, bool]
"""Bounds, and whether they follow from constants alone."""


@dataclass
class _Bounds:
    """Bounds of the terms of one rule; of what is unknown, those of calm values."""

    leaves: Mapping[str, Interval]
    types: Mapping[str, TensorType | None]
    range: Range
    found: dict[Pattern, Known] = field(default_factory=dict[Pattern, Known])

    @property
    def unknown(self) -> Known:
        return (-self.range.calm.largest, self.range.calm.largest), False

    def of(self, p: Pattern) -> Known:
        if p not in self.found:
            self.found[p] = self._found(p)
        return self.found[p]

    def _found(self, p: Pattern) -> Known:
        match p:
            case Number(value):
                return (value, value), True
            case Tensor(name):
                lo, hi = self.leaves[name]
                (low, high), _ = self.unknown
                if math.isfinite(lo) and math.isfinite(hi):
                    return (lo, hi), True
                return (
                    lo if math.isfinite(lo) else min(low, hi),
                    hi if math.isfinite(hi) else max(high, lo),
                ), False
            case Apply():
                return self._apply(p, [self.of(a) for a in p.args])
            case _:
                return self.unknown

    def _apply(self, p: Apply, operands: Sequence[Known]) -> Known:
        known = all(k for _, k in operands)
        bounds = [b for b, _ in operands]
        if p.op in COMBINING:
            return (self._combined(p, bounds), True) if known else self.unknown
        rule = OPERATORS[p.op].interval
        if rule is None:
            return self.unknown
        lo, hi = bounds_of(rule, bounds, {})
        if p.op not in ("Add", "Sub", "Mul") and not (math.isfinite(lo) and math.isfinite(hi)):
            return self.unknown
        return (lo, hi), known

    def _combined(self, p: Apply, bounds: Sequence[Interval]) -> Interval:
        lo, hi = bounds[0]
        most = max(abs(lo), abs(hi))
        n = self._elements(p.args[0])
        if p.op == "ReduceProd":
            top = _power(most, n)
            return (_power(lo, n), top) if lo > 0 else (-top if lo < 0 else 0.0, top)
        if p.op in ("ReduceSum", "CumSum"):
            return min(lo, n * lo), max(hi, n * hi)
        if p.op in SUMS:
            total = n * (most if p.op == "ReduceL1" else most * most)
            return 0.0, math.sqrt(total) if p.op == "ReduceL2" else total
        other = max(abs(bounds[1][0]), abs(bounds[1][1]))
        total = self._depth(p) * most * other
        return -total, total

    def _depth(self, p: Apply) -> int:
        """Return at most how many products a contraction sums."""
        first, second = p.args[:2]
        if p.op == "MatMul" and isinstance(first, Tensor):
            return _size((self._shape(first) or (MANY,))[-1:])
        return self._elements(second)

    def _elements(self, p: Pattern) -> int:
        """Return at most how many elements a term has: its operands may broadcast."""
        shapes = [self._shape(q) for q in walk(p) if isinstance(q, Tensor)]
        rank = max((len(s) for s in shapes if s is not None), default=0)
        padded = [(1,) * (rank - len(s)) + s for s in shapes if s is not None]
        return math.prod(max(_size((d,)) for d in dims) for dims in zip(*padded, strict=True))

    def _shape(self, p: Tensor) -> Shape | None:
        found = self.types[p.name]
        return found.shape if found is not None else None


def _size(shape: Shape) -> int:
    size: Any = product(shape)
    return size if isinstance(size, int) else MANY


def _power(x: float, n: int) -> float:
    """Return x to the power n for x ≥ 0; what vanishes is the least number above 0."""
    try:
        return max(x**n, math.ulp(0.0)) if x else 0.0
    except OverflowError:
        return math.inf
