"""The scalar operators over partial real numbers: what `Operator.scalar` is read with."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import wraps
from typing import Any

from egraph_fusion.ir.tensors import DType
from egraph_fusion.rulesets.exact_constants import Root, meant
from egraph_fusion.rulesets.exact_numbers import (
    LARGEST_EXPONENT,
    UNDEFINED,
    UNKNOWN,
    Enclosures,
    Interval,
    Real,
    Rounding,
    Special,
    Value,
)

ONE, ZERO, HALF = Fraction(1), Fraction(0), Fraction(1, 2)
LARGEST_POWER = 64
"""Integer exponents up to here are multiplied out exactly."""
ULPS = 8
"""Rounding error, in unit roundoffs, that a library's transcendental function may make."""

Method = Callable[..., Any]


def strict(method: Callable[..., Value]) -> Callable[..., Value]:
    """Give back what is undefined, else what is unknown, among the operands."""

    @wraps(method)
    def wrapped(self: RealScalars, *values: Any) -> Value:
        if any(v is UNDEFINED for v in values):
            return UNDEFINED
        if any(v is UNKNOWN for v in values):
            return UNKNOWN
        return method(self, *values)

    return wrapped


class RealScalars(Enclosures):
    """Scalar operators on `Value`s: exact where rational, enclosed elsewhere, undefined outside."""

    def const(self, value: float) -> Value:
        """Return the number that a literal means: 0.1 is a tenth."""
        if not math.isfinite(value):
            return UNKNOWN
        number = meant(float(value))
        return self.settled(number) if isinstance(number, Fraction) else self._root(number)

    def _root(self, x: Root) -> Interval:
        near = x.sign * self.mp.sqrt(self.mpf(x.of) / (self.mp.pi if x.over_pi else 1))
        return self.widened(Interval(near, near), 2)

    @strict
    def add(self, x: Real, y: Real) -> Value:
        """Add."""
        if isinstance(x, Fraction) and isinstance(y, Fraction):
            return self.settled(x + y)
        i, j = self.interval(x), self.interval(y)
        return self.widened(self._grown(i.lo + j.lo, i.hi + j.hi), 1)

    @strict
    def neg(self, x: Real) -> Value:
        """Negate."""
        return -x if isinstance(x, Fraction) else Interval(-x.hi, -x.lo)

    def sub(self, x: Value, y: Value) -> Value:
        """Subtract."""
        return self.add(x, self.neg(y))

    @strict
    def mul(self, x: Real, y: Real) -> Value:
        """Multiply."""
        if isinstance(x, Fraction) and isinstance(y, Fraction):
            return self.settled(x * y)
        if ZERO in (x, y):
            return ZERO
        return self.product(self.interval(x), self.interval(y))

    @strict
    def div(self, x: Real, y: Real) -> Value:
        """Divide; undefined for 0."""
        if y == ZERO:
            return UNDEFINED
        if isinstance(x, Fraction) and isinstance(y, Fraction):
            return self.settled(x / y)
        return self.quotient(self.interval(x), self.interval(y))

    def reciprocal(self, x: Value) -> Value:
        """Divide 1."""
        return self.div(ONE, x)

    @strict
    def mod(self, x: Real, y: Real) -> Value:
        """Return x - floor(x / y) * y."""
        return self.sub(x, self.mul(self.floor(self.div(x, y)), y))

    @strict
    def fmod(self, x: Real, y: Real) -> Value:
        """Return x - trunc(x / y) * y."""
        return self.sub(x, self.mul(self._trunc(self.div(x, y)), y))

    @strict
    def abs(self, x: Real) -> Value:
        """Return the magnitude."""
        if isinstance(x, Fraction):
            return abs(x)
        if x.lo >= 0 or x.hi <= 0:
            return Interval(*sorted((abs(x.lo), abs(x.hi))))
        return Interval(self.mp.zero, max(-x.lo, x.hi))

    @strict
    def sign(self, x: Real) -> Value:
        """Return -1, 0 or 1."""
        if isinstance(x, Fraction):
            return Fraction((x > 0) - (x < 0))
        if x.lo <= 0 <= x.hi:
            return UNKNOWN
        return ONE if x.lo > 0 else -ONE

    @strict
    def max(self, x: Real, y: Real) -> Value:
        """Return the larger."""
        less = self.below(x, y)
        if less is not UNKNOWN:
            return y if less else x
        i, j = self.interval(x), self.interval(y)
        return Interval(max(i.lo, j.lo), max(i.hi, j.hi))

    def min(self, x: Value, y: Value) -> Value:
        """Return the smaller."""
        return self.neg(self.max(self.neg(x), self.neg(y)))

    def relu(self, x: Value) -> Value:
        """Return the larger of 0 and x."""
        return self.max(ZERO, x)

    @strict
    def floor(self, x: Real) -> Value:
        """Round down."""
        return self._step(x, math.floor, self.mp.floor)

    @strict
    def ceil(self, x: Real) -> Value:
        """Round up."""
        return self._step(x, math.ceil, self.mp.ceil)

    @strict
    def round(self, x: Real) -> Value:
        """Round to the nearest integer, ties to even."""
        return self._step(x, round, self.mp.nint)

    @strict
    def _trunc(self, x: Real) -> Value:
        return self._step(x, math.trunc, int)

    def _step(self, x: Real, exact: Callable[[Fraction], int], near: Method) -> Value:
        if isinstance(x, Fraction):
            return Fraction(exact(x))
        if max(abs(x.lo), abs(x.hi)) > self.mp.ldexp(1, LARGEST_EXPONENT):
            return UNKNOWN
        lo, hi = int(near(x.lo)), int(near(x.hi))
        return Fraction(lo) if lo == hi else UNKNOWN

    # Comparison and logic

    @strict
    def lt(self, x: Any, y: Any) -> Value:
        """Return whether x < y."""
        return self.below(x, y)

    def gt(self, x: Value, y: Value) -> Value:
        """Return whether x > y."""
        return self.lt(y, x)

    def ge(self, x: Value, y: Value) -> Value:
        """Return whether x >= y."""
        return self.logical_not(self.lt(x, y))

    def le(self, x: Value, y: Value) -> Value:
        """Return whether x <= y."""
        return self.ge(y, x)

    @strict
    def eq(self, x: Any, y: Any) -> Value:
        """Return whether two values are equal."""
        if isinstance(x, Interval) or isinstance(y, Interval):
            i, j = self.interval(x), self.interval(y)
            return False if i.hi < j.lo or j.hi < i.lo else UNKNOWN
        return bool(x == y)

    def ne(self, x: Value, y: Value) -> Value:
        """Return whether two values differ."""
        return self.logical_not(self.eq(x, y))

    @strict
    def logical_not(self, x: bool) -> Value:
        """Negate a truth value."""
        return not x

    @strict
    def logical_and(self, x: bool, y: bool) -> Value:
        """Return whether both hold."""
        return x and y

    @strict
    def logical_or(self, x: bool, y: bool) -> Value:
        """Return whether one holds."""
        return x or y

    @strict
    def logical_xor(self, x: bool, y: bool) -> Value:
        """Return whether exactly one holds."""
        return x != y

    def isnan(self, x: Value) -> Value:
        """No real number is NaN."""
        return x if isinstance(x, Special) else False

    def select(self, condition: Value, x: Value, y: Value) -> Value:
        """Return the chosen value, whatever the other is."""
        if isinstance(condition, Special):
            return condition
        return x if condition else y

    @strict
    def _number(self, x: Any) -> Value:
        return Fraction(int(x)) if isinstance(x, bool) else x

    def cast(self, to: str, x: Value) -> Value:
        """Convert: to integers by truncation, to bool by being other than 0, to floats as it is.

        Floats that do not hold every number of the operand's dtype are what `rounded` is for.
        """
        dtype = DType(to)
        if isinstance(x, Special):
            return x
        if dtype is DType.BOOL:
            return self.ne(self._number(x), ZERO)
        if dtype.is_integer:
            return self._in_range(dtype, self._trunc(self._number(x)))
        if self.rounding is None or not dtype.is_float:
            return self._number(x)
        return RealScalars(self.digits, Rounding.of(dtype)).add(self._number(x), ZERO)

    def rounded(self, to: DType, x: Value) -> Value:
        """Round to a floating-point dtype, ties to even; undefined where that overflows."""
        if isinstance(x, Special):
            return x
        number, dtype = self._number(x), Rounding.of(to)
        if self.rounding is not None:
            return RealScalars(self.digits, dtype).add(number, ZERO)
        ends = [number] if isinstance(number, Fraction) else self._ends(number, dtype)
        near = {dtype.nearest(n) for n in ends}
        found = [n for n in near if n is not None]
        if len(found) < len(near):
            together = len({n > 0 for n in ends}) == 1
            return UNDEFINED if not found and together else UNKNOWN
        return found[0] if len(found) == 1 else Interval(*sorted(map(self.mpf, found)))

    def _ends(self, x: Any, dtype: Rounding) -> list[Fraction]:
        return [self.fraction(end, dtype) for end in (x.lo, x.hi)]

    def _in_range(self, dtype: DType, x: Value) -> Value:
        if not isinstance(x, Fraction):
            return x
        bits = dtype.itemsize * 8
        low, high = (0, 2**bits) if dtype.value[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1))
        return x if low <= x < high else UNDEFINED

    # Groups

    def total(self, values: Sequence[Value]) -> Value:
        """Return the sum of a group, in whatever order it is added up."""
        for special in (UNDEFINED, UNKNOWN):
            if special in values:
                return special
        return self.sum([v for v in values if isinstance(v, Fraction | Interval)])
