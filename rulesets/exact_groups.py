"""Object arrays of exact values: how they are built, grouped and combined."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from egraph_fusion.ir.graph import Attrs
from egraph_fusion.rulesets.exact_numbers import UNDEFINED

Meaning = Callable[["Group", Sequence[Any], Attrs], tuple[Any, ...]]


class Group(Protocol):
    """Scalar operators (those named here, and any that an operator's meaning uses), and sums."""

    def const(self, value: float) -> Any:
        """Return the number that a literal means."""
        ...

    def total(self, values: Sequence[Any]) -> Any:
        """Return a sum."""
        ...

    def add(self, x: Any, y: Any) -> Any:
        """Add."""
        ...

    def mul(self, x: Any, y: Any) -> Any:
        """Multiply."""
        ...

    def div(self, x: Any, y: Any) -> Any:
        """Divide."""
        ...


def objects(items: Sequence[Any], shape: Sequence[int]) -> Any:
    """Return items as an object array of a shape."""
    out: Any = np.empty(len(items), dtype=object)
    for i, item in enumerate(items):
        out[i] = item
    return out.reshape(tuple(shape))


def combined(scalars: Group, combine: str, group: Sequence[Any]) -> Any:
    """Return the reduction of a group by add, mul, max or min."""
    if combine == "add":
        return scalars.total(group)
    if not group:
        return Fraction(1) if combine == "mul" else UNDEFINED
    found = group[0]
    for item in group[1:]:
        found = getattr(scalars, combine)(found, item)
    return found


def groups(x: Any, axes: Sequence[int]) -> tuple[tuple[int, ...], list[list[Any]]]:
    """Return the shape that stays and, for each element of it, the group of `x` along `axes`."""
    kept = [a for a in range(x.ndim) if a not in axes]
    rows = x.transpose([*kept, *axes])
    shape = tuple(x.shape[a] for a in kept)
    size = math.prod(x.shape[a] for a in axes)
    flat = rows.reshape(math.prod(shape), size)
    return shape, [list(row) for row in flat]


def mapped(f: Callable[..., Any], x: Any, y: Any) -> Any:
    """Apply `f` to each pair of elements of two arrays that broadcast."""
    left, right = np.broadcast_arrays(x, y)
    pairs = zip(left.reshape(-1), right.reshape(-1), strict=True)
    return objects([f(p, q) for p, q in pairs], left.shape)
