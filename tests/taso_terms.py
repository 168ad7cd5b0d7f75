"""The notation in which TASO's equalities are published, and its meaning in float64.

Expressions are S-expressions over TASO's operators: `matmul act a b` multiplies matrices; `concat
axis rank a b`; `conv2d stride_h stride_w pad act x w` (pad 0 keeps the extents, act 2 is a relu;
the channels of x over those of w are the number of groups); `ewadd` and `ewmul` take operands of
one shape and never broadcast.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
ACTIVATIONS = {0: "none", 2: "relu"}


@dataclass(frozen=True)
class Expr:
    """An operator, its numbers and its operands; a variable has neither."""

    op: str
    numbers: tuple[int, ...] = ()
    operands: tuple[Expr, ...] = ()

    def __str__(self) -> str:
        """Print in the notation of the file."""
        if not self.operands:
            return self.op
        return f"({' '.join([self.op, *map(str, self.numbers), *map(str, self.operands)])})"

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables in order of appearance."""
        if not self.operands:
            return (self.op,)
        return tuple(dict.fromkeys(v for o in self.operands for v in o.variables))

    def walk(self) -> Iterator[Expr]:
        """Yield the expression and its parts, operands first."""
        for o in self.operands:
            yield from o.walk()
        yield self


def parsed(text: str) -> Expr:
    """Return the expression that `text` writes."""
    words = iter(re.findall(r"[()]|[^\s()]+", text))

    def read(word: str) -> Expr | int:
        if word != "(":
            return int(word) if word.lstrip("-").isdigit() else Expr(word.lstrip("?"))
        name, parts = next(words), list[Expr | int]()
        while (inner := next(words)) != ")":
            parts.append(read(inner))
        numbers = tuple(p for p in parts if isinstance(p, int))
        return Expr(name, numbers, tuple(p for p in parts if isinstance(p, Expr)))

    found = read(next(words))
    assert isinstance(found, Expr), text
    assert not list(words), text
    return found


def groups(conv: Expr) -> int:
    """Return the groups of a convolution: two where inputs are joined and their weights are not."""
    x, w = conv.operands
    joined = x.op == "concat" and x.numbers[0] == 1
    return 2 if joined and w.op == "concat" and w.numbers[0] == 0 else 1


def value(e: Expr, leaves: Mapping[str, Array]) -> Array:
    """Return the value of an expression in float64."""
    operands = [value(o, leaves) for o in e.operands]
    return MEANING[e.op](e.numbers, *operands) if operands else leaves[e.op]


def _elementwise(function: Callable[[Array, Array], Array]) -> Callable[..., Array]:
    def apply(_numbers: Any, a: Array, b: Array) -> Array:
        assert a.shape == b.shape, "TASO does not broadcast"
        return function(a, b)

    return apply


def _conv2d(numbers: Sequence[int], x: Array, w: Array) -> Array:
    """Convolve by definition: stride 1, extents kept, groups by the channels."""
    assert numbers[:3] == (1, 1, 0)
    n, channels, height, width = x.shape
    filters, depth, kh, kw = w.shape
    group = channels // depth
    assert group * depth == channels
    assert filters % group == 0
    assert kh % 2 == kw % 2 == 1
    padded = np.pad(x, ((0, 0), (0, 0), (kh // 2, kh // 2), (kw // 2, kw // 2)))
    out = np.zeros((n, filters, height, width))
    for f in range(filters):
        first = f // (filters // group) * depth
        for c in range(depth):
            for i in range(kh):
                for j in range(kw):
                    part = padded[:, first + c, i : i + height, j : j + width]
                    out[:, f] += w[f, c, i, j] * part
    return _activated(numbers[3], out)


def _activated(act: int, a: Array) -> Array:
    return np.maximum(a, 0) if ACTIVATIONS[act] == "relu" else a


def _relu(_numbers: Sequence[int], a: Array) -> Array:
    return np.maximum(a, 0)


def _matmul(numbers: Sequence[int], a: Array, b: Array) -> Array:
    return _activated(numbers[0], a @ b)


def _concat(numbers: Sequence[int], a: Array, b: Array) -> Array:
    return np.concatenate([a, b], axis=numbers[0])


MEANING: dict[str, Callable[..., Array]] = {
    "ewadd": _elementwise(np.add),
    "ewmul": _elementwise(np.multiply),
    "relu": _relu,
    "matmul": _matmul,
    "concat": _concat,
    "conv2d": _conv2d,
}
