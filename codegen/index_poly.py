"""Polynomials over index atoms: the normal form of integer index expressions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from egraph_fusion.codegen.loop_text import expression
from egraph_fusion.codegen.loop_walk import subexpressions
from egraph_fusion.codegen.loops import (
    Call,
    Const,
    Expr,
)

Index = Expr | int
Ranges = Mapping[str, tuple[Index | None, Index | None]]
Monomial = tuple[Expr, ...]  # atoms, sorted by their text; repeated for powers


@dataclass(frozen=True, slots=True)
class Poly:
    """A sum of integer multiples of products of atoms; `terms` holds no zero coefficient."""

    terms: Mapping[Monomial, int]

    def __eq__(self, other: object) -> bool:
        """Equality of polynomials."""
        return isinstance(other, Poly) and self.terms == other.terms

    def __add__(self, other: Poly) -> Poly:
        """Sum."""
        return _collect([*self.terms.items(), *other.terms.items()])

    def __sub__(self, other: Poly) -> Poly:
        """Difference."""
        return self + other.scaled(-1)

    def __mul__(self, other: Poly) -> Poly:
        """Product."""
        return _collect(
            (_product(m, n), c * d) for m, c in self.terms.items() for n, d in other.terms.items()
        )

    def scaled(self, factor: int) -> Poly:
        """Return the product with an integer."""
        return _collect((m, c * factor) for m, c in self.terms.items())

    @property
    def constant(self) -> int | None:
        """The value, if there are no atoms."""
        if not self.terms:
            return 0
        return self.terms.get(()) if len(self.terms) == 1 else None

    @property
    def single(self) -> Expr | None:
        """The atom, if this is one atom with factor 1."""
        match [*self.terms.items()]:
            case [((atom,), 1)]:
                return atom
            case _:
                return None

    @property
    def atoms(self) -> tuple[Expr, ...]:
        """All atoms, in a fixed order."""
        found = {atom for monomial in self.terms for atom in monomial}
        return tuple(sorted(found, key=expression))

    def split(self, atom: Expr) -> tuple[Poly, Poly] | None:
        """Return (a, b) with self = a * atom + b, or None if `atom` also occurs otherwise."""
        factor: list[tuple[Monomial, int]] = []
        rest: list[tuple[Monomial, int]] = []
        for monomial, coefficient in self.terms.items():
            others = tuple(a for a in monomial if a != atom)
            if any(_mentions(a, atom) for a in others) or len(monomial) - len(others) > 1:
                return None
            target = rest if len(others) == len(monomial) else factor
            target.append((others, coefficient))
        return _collect(factor), _collect(rest)

    def divided(self, divisor: Poly) -> tuple[Poly, Poly]:
        """Return (q, r) with self = q * divisor + r; whatever is no plain multiple stays in r."""
        if self == divisor:
            return number(1), number(0)
        if len(divisor.terms) != 1:
            return number(0), self
        ((factors, scale),) = divisor.terms.items()
        quotient: list[tuple[Monomial, int]] = []
        rest: list[tuple[Monomial, int]] = []
        for monomial, coefficient in self.terms.items():
            others = _without(monomial, factors)
            if others is None or coefficient % scale:
                rest.append((monomial, coefficient))
            else:
                quotient.append((others, coefficient // scale))
        return _collect(quotient), _collect(rest)


ZERO: Final = Poly({})


def number(value: int) -> Poly:
    """Return a constant polynomial."""
    return Poly({(): value}) if value else ZERO


def atom(expr: Expr) -> Poly:
    """Return the polynomial of one atom."""
    return Poly({(expr,): 1})


def as_index(value: Index) -> Expr:
    """Return an integer as an expression; expressions stay."""
    return Const(value) if isinstance(value, int) else value


def as_expr(poly: Poly) -> Expr:
    """Return `poly` as an expression, large factors first, subtracting negative terms."""
    ordered = sorted(
        poly.terms.items(), key=lambda t: (not t[0], -len(t[0]), -abs(t[1]), _key(t[0]))
    )
    ordered.sort(key=lambda t: t[1] < 0 or not t[0])
    out: Expr | None = None
    for monomial, coefficient in ordered:
        if out is None:
            out = _term(monomial, coefficient)
        else:
            op = "add" if coefficient > 0 else "sub"
            out = Call(op, (out, _term(monomial, abs(coefficient))))
    return Const(0) if out is None else out


def _term(monomial: Monomial, coefficient: int) -> Expr:
    factors = [*monomial, Const(coefficient)] if coefficient != 1 or not monomial else [*monomial]
    out = factors[0]
    for factor in factors[1:]:
        out = Call("mul", (out, factor))
    return out


def _collect(terms: Iterable[tuple[Monomial, int]]) -> Poly:
    sums: dict[Monomial, int] = {}
    for monomial, coefficient in terms:
        sums[monomial] = sums.get(monomial, 0) + coefficient
    return Poly({m: c for m, c in sums.items() if c})


def _product(left: Monomial, right: Monomial) -> Monomial:
    return tuple(sorted((*left, *right), key=expression))


def _without(monomial: Monomial, factors: Monomial) -> Monomial | None:
    left = [*monomial]
    for factor in factors:
        if factor not in left:
            return None
        left.remove(factor)
    return tuple(left)


def _mentions(expr: Expr, atom: Expr) -> bool:
    return any(e == atom for e in subexpressions(expr))


def _key(monomial: Monomial) -> tuple[str, ...]:
    return tuple(map(expression, monomial))
