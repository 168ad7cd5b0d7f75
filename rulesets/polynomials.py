"""Rational functions of symbols with exact coefficients: the numbers that proofs are made with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from egraph_fusion.errors import RuleError
from egraph_fusion.rulesets.exact_constants import meant

Monomial = tuple[tuple[str, int], ...]
Polynomial = Mapping[Monomial, Fraction]

ONE: Polynomial = {(): Fraction(1)}
ZERO: Polynomial = {}
LARGEST = 4000
"""Terms of a polynomial beyond which a proof is not attempted."""


class NotRationalError(RuleError):
    """A term is no rational function of its operands' elements, or too large a one."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """A quotient of two polynomials; if `below` is 0, it is defined nowhere."""

    above: Polynomial
    below: Polynomial

    @property
    def defined(self) -> bool:
        """Whether it has a value anywhere."""
        return bool(self.below)

    def same_as(self, other: Ratio) -> bool:
        """Whether two rational functions are equal wherever both are defined, or neither is."""
        if not (self.defined and other.defined):
            return self.defined == other.defined
        return multiplied(self.above, other.below) == multiplied(other.above, self.below)


def symbol(name: str) -> Ratio:
    """Return the rational function that is one symbol."""
    return Ratio({((name, 1),): Fraction(1)}, ONE)


def constant(value: Fraction) -> Ratio:
    """Return a constant."""
    return Ratio({(): value} if value else ZERO, ONE)


NOWHERE = Ratio(ONE, ZERO)
"""What a division by 0 gives, and everything made of it."""


def added(p: Polynomial, q: Polynomial) -> Polynomial:
    """Return the sum of two polynomials."""
    out = dict(p)
    for monomial, c in q.items():
        out[monomial] = out.get(monomial, Fraction(0)) + c
    return {m: c for m, c in out.items() if c}


def multiplied(p: Polynomial, q: Polynomial) -> Polynomial:
    """Return the product of two polynomials; NotRationalError if it has too many terms."""
    if len(p) * len(q) > 40 * LARGEST:
        raise NotRationalError("a polynomial grows too large")
    out: dict[Monomial, Fraction] = {}
    for m, c in p.items():
        for n, d in q.items():
            both = _times(m, n)
            out[both] = out.get(both, Fraction(0)) + c * d
    if len(out) > LARGEST:
        raise NotRationalError("a polynomial grows too large")
    return {m: c for m, c in out.items() if c}


def _times(m: Monomial, n: Monomial) -> Monomial:
    powers = dict(m)
    for name, power in n:
        powers[name] = powers.get(name, 0) + power
    return tuple(sorted(powers.items()))


def split_content(p: Polynomial) -> tuple[frozenset[str], Polynomial]:
    """Return the symbols that divide `p`, and what is left of it with a first coefficient of 1."""
    names = {n for m in p for n, _ in m}
    least = {n: min(dict(m).get(n, 0) for m in p) for n in names}
    rest = {tuple((n, k - least[n]) for n, k in m if k > least[n]): c for m, c in p.items()}
    first = rest[min(rest)]
    return frozenset(n for n, k in least.items() if k), {m: c / first for m, c in rest.items()}


@dataclass
class Symbolic:
    """Scalar operators on rational functions; remembers what was divided by.

    An operator that is not rational raises NotRationalError.
    """

    divisors: list[Polynomial] = field(default_factory=list[Polynomial])

    def const(self, value: float) -> Ratio:
        """Return the number that a literal means; a root is a symbol that stands for any number."""
        number = meant(float(value))
        return constant(number) if isinstance(number, Fraction) else symbol(str(number))

    def add(self, x: Ratio | Fraction, y: Ratio | Fraction) -> Ratio:
        """Add."""
        p, q = _ratio(x), _ratio(y)
        if p.below == q.below:
            return Ratio(added(p.above, q.above), p.below)
        above = added(multiplied(p.above, q.below), multiplied(q.above, p.below))
        return Ratio(above, multiplied(p.below, q.below))

    def mul(self, x: Ratio | Fraction, y: Ratio | Fraction) -> Ratio:
        """Multiply."""
        p, q = _ratio(x), _ratio(y)
        return Ratio(multiplied(p.above, q.above), multiplied(p.below, q.below))

    def neg(self, x: Ratio | Fraction) -> Ratio:
        """Negate."""
        return self.mul(constant(Fraction(-1)), x)

    def sub(self, x: Ratio | Fraction, y: Ratio | Fraction) -> Ratio:
        """Subtract."""
        return self.add(x, self.neg(y))

    def div(self, x: Ratio | Fraction, y: Ratio | Fraction) -> Ratio:
        """Divide."""
        q = _ratio(y)
        if not q.above or not q.defined:
            return NOWHERE
        self.divisors.append(q.above)
        return self.mul(x, Ratio(q.below, q.above))

    def reciprocal(self, x: Ratio | Fraction) -> Ratio:
        """Divide 1."""
        return self.div(Fraction(1), x)

    def pow(self, x: Ratio | Fraction, y: Ratio | Fraction) -> Ratio:
        """Raise to a constant integer power from 0 to 8."""
        exponent = _ratio(y)
        n = exponent.above.get((), Fraction(0))
        if exponent != constant(n) or n.denominator > 1 or not 0 <= n <= 8:
            raise NotRationalError(f"a power of {exponent}")
        out = constant(Fraction(1)) if _ratio(x).defined else NOWHERE
        for _ in range(int(n)):
            out = self.mul(out, x)
        return out

    def total(self, values: Sequence[Ratio | Fraction]) -> Ratio:
        """Add up a group."""
        out = constant(Fraction(0))
        for v in values:
            out = self.add(out, v)
        return out

    def __getattr__(self, name: str) -> Callable[..., Ratio]:
        """Refuse every other operator."""
        raise NotRationalError(f"{name} is not rational")


def _ratio(x: object) -> Ratio:
    if isinstance(x, Ratio):
        return x
    if not isinstance(x, Fraction):
        raise NotRationalError(f"{x} is not a number")
    return constant(x)
