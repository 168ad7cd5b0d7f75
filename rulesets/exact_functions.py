"""Powers, exponentials and trigonometry over partial real numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from egraph_fusion.rulesets.exact_numbers import (
    UNDEFINED,
    UNKNOWN,
    Interval,
    Real,
    Value,
)
from egraph_fusion.rulesets.exact_scalars import (
    LARGEST_POWER,
    ONE,
    ULPS,
    ZERO,
    RealScalars,
    strict,
)


class RealFunctions(RealScalars):
    """All scalar operators of the registry that have a meaning over the reals."""

    @strict
    def sqrt(self, x: Real) -> Value:
        """Return the square root; undefined for negative numbers."""
        if isinstance(x, Fraction):
            if x < 0:
                return UNDEFINED
            root = Fraction(math.isqrt(x.numerator), math.isqrt(x.denominator))
            if root * root == x:
                return self.settled(root)
        return self._within(self.mp.sqrt, x, 1, low=ZERO)

    @strict
    def exp(self, x: Real) -> Value:
        """Return e to the power of x."""
        return ONE if x == ZERO else self.monotone(self.mp.exp, x, ULPS)

    @strict
    def log(self, x: Real) -> Value:
        """Return the natural logarithm; undefined for numbers that are not positive."""
        if x == ONE:
            return ZERO
        if isinstance(x, Fraction):
            return UNDEFINED if x <= 0 else self.monotone(self.mp.log, x, ULPS)
        if x.hi <= 0:
            return UNDEFINED
        return UNKNOWN if x.lo <= 0 else self.monotone(self.mp.log, x, ULPS)

    def _within(
        self,
        f: Callable[[Any], Any],
        x: Real,
        ulps: int,
        low: Fraction | None = None,
        high: Fraction | None = None,
        falls: bool = False,
    ) -> Value:
        """Apply a monotone function that is defined from `low` to `high`."""
        bounds = [low] if high is None else [low, high]
        if isinstance(x, Fraction):
            if (low is not None and x < low) or (high is not None and x > high):
                return UNDEFINED
            if x in bounds:  # an end point has no neighbours outside
                near = self.mpf(x)
                return self.widened(Interval(f(near), f(near)), ulps)
            return self.monotone(f, x, ulps, falls)
        if (low is not None and x.hi < self.mpf(low)) or (
            high is not None and x.lo > self.mpf(high)
        ):
            return UNDEFINED
        outside = (low is not None and x.lo < self.mpf(low)) or (
            high is not None and x.hi > self.mpf(high)
        )
        return UNKNOWN if outside else self.monotone(f, x, ulps, falls)

    def _odd(self, f: Callable[[Any], Any], x: Real) -> Value:
        return ZERO if x == ZERO else self.monotone(f, x, ULPS)

    @strict
    def erf(self, x: Real) -> Value:
        """Return the error function."""
        return self._odd(self._erf, x)

    def _erf(self, x: Any) -> Any:
        return self.mp.erf(x) if abs(x) < 1000 else self.mp.sign(x)

    @strict
    def tanh(self, x: Real) -> Value:
        """Return the hyperbolic tangent."""
        return self._odd(self.mp.tanh, x)

    @strict
    def sinh(self, x: Real) -> Value:
        """Return the hyperbolic sine."""
        return self._odd(self.mp.sinh, x)

    @strict
    def asinh(self, x: Real) -> Value:
        """Return the inverse hyperbolic sine."""
        return self._odd(self.mp.asinh, x)

    @strict
    def atan(self, x: Real) -> Value:
        """Return the inverse tangent."""
        return self._odd(self.mp.atan, x)

    @strict
    def cosh(self, x: Real) -> Value:
        """Return the hyperbolic cosine."""
        size: Any = self.abs(x)
        return ONE if x == ZERO else self.monotone(self.mp.cosh, size, ULPS)

    @strict
    def asin(self, x: Real) -> Value:
        """Return the inverse sine; undefined outside -1 .. 1."""
        return ZERO if x == ZERO else self._within(self.mp.asin, x, ULPS, -ONE, ONE)

    @strict
    def acos(self, x: Real) -> Value:
        """Return the inverse cosine; undefined outside -1 .. 1."""
        return ZERO if x == ONE else self._within(self.mp.acos, x, ULPS, -ONE, ONE, falls=True)

    @strict
    def acosh(self, x: Real) -> Value:
        """Return the inverse hyperbolic cosine; undefined below 1."""
        return ZERO if x == ONE else self._within(self.mp.acosh, x, ULPS, ONE)

    @strict
    def atanh(self, x: Real) -> Value:
        """Return the inverse hyperbolic tangent; undefined outside -1 .. 1, ends excluded."""
        if x in (ONE, -ONE):
            return UNDEFINED
        return ZERO if x == ZERO else self._within(self.mp.atanh, x, ULPS, -ONE, ONE)

    @strict
    def sin(self, x: Real) -> Value:
        """Return the sine."""
        return ZERO if x == ZERO else self._wave(self.mp.sin, x)

    @strict
    def cos(self, x: Real) -> Value:
        """Return the cosine."""
        return ONE if x == ZERO else self._wave(self.mp.cos, x)

    def _wave(self, f: Callable[[Any], Any], x: Real) -> Value:
        """Enclose by the slope, which is at most 1."""
        i = self.interval(x)
        middle, radius = (i.lo + i.hi) / 2, (i.hi - i.lo) / 2
        if abs(middle) > self.mp.ldexp(1, 1100):
            return UNKNOWN
        near = f(middle)
        return self.widened(Interval(near - radius, near + radius), ULPS)

    @strict
    def tan(self, x: Real) -> Value:
        """Return the tangent."""
        found = self.div(self.sin(x), self.cos(x))
        return self.widened(found, ULPS) if isinstance(found, Interval) else found

    @strict
    def sigmoid(self, x: Real) -> Value:
        """Return 1 / (1 + exp(-x))."""
        return self.monotone(lambda v: 1 / (1 + self.mp.exp(-v)), x, 2 * ULPS)

    @strict
    def softplus(self, x: Real) -> Value:
        """Return log(1 + exp(x)).

        Above the working precision the logarithm is x but for less than that precision shows.
        """
        far = 4 * self.mp.prec
        return self.monotone(lambda v: v if v > far else self.mp.log1p(self.mp.exp(v)), x, 2 * ULPS)

    @strict
    def pow(self, x: Real, y: Real) -> Value:
        """Return x to the power of y; a negative base needs an integer exponent, 0 one >= 0."""
        if isinstance(y, Fraction) and y.denominator == 1 and abs(y) <= LARGEST_POWER:
            return self._integer_power(x, int(y))
        if isinstance(x, Fraction):
            return self._power_of(x, y)
        if x.lo > 0:
            return self._real_power(x, y)
        if x.hi < 0 and isinstance(y, Fraction) and y.denominator > 1:
            return UNDEFINED
        return UNKNOWN

    def _power_of(self, x: Fraction, y: Real) -> Value:
        if x > 0:
            return ONE if x == 1 else self._real_power(x, y)
        if not isinstance(y, Fraction):
            return UNKNOWN
        if x == 0:
            return ZERO if y > 0 else UNDEFINED
        if y.denominator > 1:
            return UNDEFINED
        size = self._real_power(-x, y)
        return self.neg(size) if y.numerator % 2 else size

    def _integer_power(self, x: Real, n: int) -> Value:
        if n == 0:
            return ONE
        if isinstance(x, Fraction):
            return UNDEFINED if x == 0 and n < 0 else self._settled_power(x, n)
        if x.lo <= 0 <= x.hi and n < 0:
            return UNKNOWN
        ends = sorted((x.lo**n, x.hi**n))
        if x.lo < 0 < x.hi and n % 2 == 0:
            ends[0] = self.mp.zero
        return self.widened(self._grown(*ends), ULPS)

    def _settled_power(self, x: Fraction, n: int) -> Value:
        exact = x**n
        if self.rounding is None or self.rounding.holds(exact):
            return exact
        return self.widened(self.interval(exact), ULPS)

    def _real_power(self, x: Real, y: Real) -> Value:
        """Enclose x ** y for positive x by the corners of both intervals."""
        base, power = self.interval(x), self.interval(y)
        logs = [self.mp.log(base.lo), self.mp.log(base.hi)]
        ends = [a * b for a in logs for b in (power.lo, power.hi)]
        found = self.monotone(self.mp.exp, self._grown(min(ends), max(ends)), ULPS)
        return found
