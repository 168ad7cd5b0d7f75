"""Dimensions: integers, or canonical integer polynomials over symbols and floor divisions.

A `Dim` is an `int` when it is known and a `Poly` when it is not; arithmetic on a `Poly` returns an
`int` again as soon as the symbols cancel, so code for static shapes never meets a `Poly`.
Two dims are *known equal* iff they compare equal; undecided equality is inequality (a rule then
does not fire).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce

from egraph_fusion.errors import ModelError

NOMINAL = 64
"""What a symbol counts as where a number is needed: in prices and plans."""


@dataclass(frozen=True, slots=True)
class FloorDiv:
    """An atom `numerator // denominator` that could not be simplified."""

    numerator: Dim
    denominator: Dim

    def __str__(self) -> str:
        """Print as Python would read it."""
        return f"({self.numerator})//({self.denominator})"


Monomial = tuple[tuple["str | FloorDiv", int], ...]


def _key(atom: str | FloorDiv) -> str:
    return str(atom)


@dataclass(frozen=True, slots=True)
class Poly:
    """A polynomial: monomials (sorted atoms with powers) to non-zero integer coefficients."""

    terms: tuple[tuple[Monomial, int], ...]

    def __add__(self, other: Dim) -> Dim:
        """Sum in canonical form."""
        return _collect([*self.terms, *_terms(other)])

    __radd__ = __add__

    def __neg__(self) -> Dim:
        """Negation."""
        return _collect([(m, -c) for m, c in self.terms])

    def __sub__(self, other: Dim) -> Dim:
        """Difference in canonical form."""
        return _collect([*self.terms, *((m, -c) for m, c in _terms(other))])

    def __rsub__(self, other: Dim) -> Dim:
        """Difference in canonical form."""
        return -self + other

    def __mul__(self, other: Dim) -> Dim:
        """Product in canonical form."""
        right = _terms(other)
        return _collect([(_times(m, n), c * d) for m, c in self.terms for n, d in right])

    __rmul__ = __mul__

    def __floordiv__(self, other: Dim) -> Dim:
        """Floor division; exact division by an integer stays a polynomial."""
        return floordiv(self, other)

    def __rfloordiv__(self, other: Dim) -> Dim:
        """Floor division with a polynomial denominator."""
        return floordiv(other, self)

    def __str__(self) -> str:
        """Print as Python would read it, e.g. `2*batch*seq + 1`."""
        return " + ".join(_show(m, c) for m, c in self.terms)

    def __repr__(self) -> str:
        """Print as `str` does."""
        return str(self)


Dim = int | Poly
Shape = tuple[Dim, ...]


def symbol(name: str) -> Poly:
    """Return the dimension named `name` (as `dim_param` in ONNX)."""
    return Poly(((((name, 1),), 1),))


def floordiv(a: Dim, b: Dim) -> Dim:
    """Return `a // b`, simplified where every coefficient divides."""
    if isinstance(a, int) and isinstance(b, int):
        if b == 0:
            raise ModelError(f"dimension {a} // 0 is undefined")
        return a // b
    if a == b or b == 1 or a == 0:
        return 1 if a == b else a
    if isinstance(a, Poly) and isinstance(b, int) and b > 0:
        return _divide_by_integer(a, b)
    quotient = _divide_by_monomial(a, b)
    return quotient if quotient is not None else _quotient(a, b)


def product(dims: Iterable[Dim]) -> Dim:
    """Return the product of `dims` (1 for none)."""
    one: Dim = 1
    return reduce(lambda x, y: x * y, dims, one)


def symbols(dim: Dim) -> frozenset[str]:
    """Return the symbols a dimension depends on."""
    if isinstance(dim, int):
        return frozenset()
    found: set[str] = set()
    for monomial, _ in dim.terms:
        for atom, _ in monomial:
            if isinstance(atom, str):
                found.add(atom)
            else:
                found |= symbols(atom.numerator) | symbols(atom.denominator)
    return frozenset(found)


def substitute(dim: Dim, values: Mapping[str, Dim]) -> Dim:
    """Replace symbols by `values`; symbols without a value stay."""
    if isinstance(dim, int):
        return dim
    total: Dim = 0
    for monomial, coefficient in dim.terms:
        part: Dim = coefficient
        for atom, power in monomial:
            for _ in range(power):
                part = part * _substitute_atom(atom, values)
        total = total + part
    return total


def nominal(dim: Dim) -> int:
    """Return a dimension as a number, every symbol counted as `NOMINAL`."""
    value = substitute(dim, dict.fromkeys(symbols(dim), NOMINAL))
    return value if isinstance(value, int) else 0


def static(shape: Shape) -> tuple[int, ...] | None:
    """Return the shape as integers, or None if a dimension is unknown."""
    known = tuple(d for d in shape if isinstance(d, int))
    return known if len(known) == len(shape) else None


def without_leading_ones(shape: Shape) -> Shape:
    """Return the shape from its first axis on that is not of size 1."""
    return shape[next((n for n, d in enumerate(shape) if d != 1), len(shape)) :]


def _substitute_atom(atom: str | FloorDiv, values: Mapping[str, Dim]) -> Dim:
    if isinstance(atom, str):
        return values.get(atom, symbol(atom))
    return floordiv(substitute(atom.numerator, values), substitute(atom.denominator, values))


def _terms(dim: Dim) -> tuple[tuple[Monomial, int], ...]:
    if isinstance(dim, Poly):
        return dim.terms
    return (((), dim),) if dim else ()


def _times(a: Monomial, b: Monomial) -> Monomial:
    powers: dict[str | FloorDiv, int] = dict(a)
    for atom, power in b:
        powers[atom] = powers.get(atom, 0) + power
    return tuple(sorted(powers.items(), key=lambda item: _key(item[0])))


def _order(monomial: Monomial) -> tuple[int, str]:
    return (-sum(p for _, p in monomial), str(monomial))


def _collect(terms: Iterable[tuple[Monomial, int]]) -> Dim:
    sums: dict[Monomial, int] = {}
    for monomial, coefficient in terms:
        sums[monomial] = sums.get(monomial, 0) + coefficient
    kept = sorted(((m, c) for m, c in sums.items() if c), key=lambda term: _order(term[0]))
    if not kept:
        return 0
    if len(kept) == 1 and kept[0][0] == ():
        return kept[0][1]
    return Poly(tuple(kept))


def _quotient(a: Dim, b: Dim) -> Dim:
    return Poly(((((FloorDiv(a, b), 1),), 1),))


def _divide_by_integer(a: Poly, b: int) -> Dim:
    """Move whole multiples of `b` out of the numerator, so that equal quotients print alike."""
    whole = _collect([(m, c // b) for m, c in a.terms])
    rest = _collect([(m, c % b) for m, c in a.terms])
    if isinstance(rest, int):
        return whole  # 0 <= rest < b
    shared = math.gcd(b, *(c for m, c in rest.terms if m))
    constant = dict(rest.terms).get((), 0) // shared
    rest = _collect([*((m, c // shared) for m, c in rest.terms if m), ((), constant)])
    return whole + (rest if b == shared else _nested(rest, b // shared))


def _nested(a: Dim, b: int) -> Dim:
    """Return `a // b`, where (x // c) // b is x // (c * b)."""
    if isinstance(a, Poly) and len(a.terms) == 1 and a.terms[0][1] == 1:
        atoms = a.terms[0][0]
        if len(atoms) == 1 and atoms[0][1] == 1 and isinstance(atoms[0][0], FloorDiv):
            inner = atoms[0][0]
            if isinstance(inner.denominator, int) and inner.denominator > 0:
                return floordiv(inner.numerator, inner.denominator * b)
    return _quotient(a, b)


def _divide_by_monomial(a: Dim, b: Dim) -> Dim | None:
    if not (isinstance(a, Poly) and isinstance(b, Poly) and len(b.terms) == 1):
        return None
    (divisor, scale) = b.terms[0]
    out: list[tuple[Monomial, int]] = []
    for monomial, coefficient in a.terms:
        powers = dict(monomial)
        for atom, power in divisor:
            powers[atom] = powers.get(atom, 0) - power
        if coefficient % scale or any(p < 0 for p in powers.values()):
            return None
        left = tuple(sorted(((t, p) for t, p in powers.items() if p), key=lambda i: _key(i[0])))
        out.append((left, coefficient // scale))
    return _collect(out)


def _show(monomial: Monomial, coefficient: int) -> str:
    atoms = ["*".join([_show_atom(a)] * p) for a, p in monomial]
    if coefficient != 1 or not atoms:
        atoms.insert(0, str(coefficient))
    return "*".join(atoms)


def _show_atom(atom: str | FloorDiv) -> str:
    """Print a symbol as it is if it is a word, else quoted."""
    return str(atom) if isinstance(atom, FloorDiv) or _WORD.match(atom) else json.dumps(atom)


_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
