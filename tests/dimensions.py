"""Linear equations between extents of tensors, solved exactly."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

Name = tuple[str, int]
"""A tensor and an axis."""


@dataclass(frozen=True)
class Form:
    """A sum of extents with factors."""

    terms: Mapping[Name, Fraction]

    def at(self, extents: Mapping[Name, int]) -> Fraction:
        """Return the value for given extents."""
        return sum((f * extents[n] for n, f in self.terms.items()), Fraction(0))


def variable(name: Name) -> Form:
    """Return the form that is one extent."""
    return Form({name: Fraction(1)})


def times(factor: int | Fraction, a: Form) -> Form:
    """Return a multiple."""
    return Form({n: f * factor for n, f in a.terms.items() if factor})


def add(a: Form, b: Form) -> Form:
    """Return the sum."""
    both = {
        n: a.terms.get(n, Fraction(0)) + b.terms.get(n, Fraction(0)) for n in [*a.terms, *b.terms]
    }
    return Form({n: f for n, f in both.items() if f})


def subtract(a: Form, b: Form) -> Form:
    """Return the difference."""
    return add(a, times(-1, b))


@dataclass(frozen=True)
class Solution:
    """Extents that others determine, each as a form of free ones."""

    determined: Mapping[Name, Form]

    def reduced(self, a: Form) -> Form:
        """Return `a` in terms of free extents."""
        found = Form({})
        for n, f in a.terms.items():
            found = add(found, times(f, self.determined.get(n, variable(n))))
        return found

    def equal(self, a: Name, b: Name) -> bool:
        """Whether two extents are equal in every solution."""
        return not self.reduced(subtract(variable(a), variable(b))).terms

    def sample(self, names: Sequence[Name], draw: Callable[[], int]) -> dict[Name, int] | None:
        """Return extents, free ones drawn; None if a determined one is no positive integer."""
        free = {n: draw() for n in names if n not in self.determined}
        values = {n: f.at(free) for n, f in self.determined.items()}
        if any(v.denominator != 1 or v < 1 for v in values.values()):
            return None
        return free | {n: int(v) for n, v in values.items()}


def solved(zero: Sequence[Form]) -> Solution:
    """Return the solution of the equations that say each form is zero."""
    found = Solution({})
    for form in zero:
        left = found.reduced(form)
        if not left.terms:
            continue
        name, factor = next(iter(left.terms.items()))
        value = times(-1 / factor, subtract(left, times(factor, variable(name))))
        known = {n: Solution({name: value}).reduced(f) for n, f in found.determined.items()}
        found = Solution({**known, name: value})
    return found
