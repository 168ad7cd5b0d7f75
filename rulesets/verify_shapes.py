"""Random operand shapes that mostly fit a term."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from egraph_fusion.ir.ops import OPERATORS, Kind
from egraph_fusion.rulesets.pattern import Apply, Attribute, Number, Output, Pattern, Tensor
from egraph_fusion.rulesets.term_dtypes import leaf_patterns
from egraph_fusion.rulesets.verify_sizes import PLAIN, Extents

Sizes = tuple[int, ...]

PRODUCTS = ("vector by matrix", "matrix by vector", "vectors")
"""The ranks that operands of MatMul may have, besides those of matrices."""


class Shapes:
    """Random operand shapes that mostly fit a term: every operator passes down what it needs."""

    def __init__(self, rng: Random, extents: Extents = PLAIN) -> None:
        self.rng = rng
        self.extents = extents
        self.found: dict[Pattern, Sizes] = {}
        self.operands: dict[str, Sizes] = {}
        self.alike = rng.random() < extents.alike  # siblings have the same shape
        self.one_size = rng.randrange(1, 4) if rng.random() < 0.25 else None
        self.product = self._product()

    def fit(self, p: Pattern) -> dict[Pattern, Sizes]:
        """Return a shape for each leaf of `p`."""
        self._fit(p, self.random_shape())
        return {leaf: self.found[leaf] for leaf in leaf_patterns(p)}

    def dim(self) -> int:
        """Return a random extent."""
        if self.one_size is not None and self.extents is PLAIN:
            return self.rng.choice((1, self.one_size))
        return self.extents.drawn(self.rng)

    def random_shape(self, low: int = 0, high: int = 4) -> Sizes:
        """Return a random shape of rank `low` to `high`, or of the rank that is looked for."""
        weights = [1, 3, 4, 3, 2][low : high + 1]
        rank = self.rng.choices(range(low, high + 1), weights)[0]
        if self.extents.rank is not None and high == 4:
            rank = self.extents.rank
        shape = [self.dim() for _ in range(rank)]
        if self.extents.at is not None and -rank <= self.extents.at < rank:
            shape[self.extents.at] = self.extents.special[0]
        return tuple(shape)

    def _fit(self, p: Pattern, wanted: Sizes) -> None:
        if isinstance(p, Tensor | Number):
            self.found.setdefault(p, wanted)
        elif isinstance(p, Output):
            self._fit(p.of, wanted)
        elif isinstance(p, Apply):
            self._fit_apply(p, wanted)

    def _fit_apply(self, p: Apply, wanted: Sizes) -> None:
        if p.op in ROLES:
            shapes: Sequence[Sizes] = self._role(p, wanted)
        elif OPERATORS[p.op].kind is Kind.ELEMENTWISE:
            shapes = [self.narrowed(wanted, a) for a in p.args]
        else:
            shapes = [self._operand(p, wanted)] * len(p.args)
        for a, s in zip(p.args, shapes, strict=True):
            self._fit(a, s)

    def product_form(self) -> str:
        """Return which operands of a matrix product are vectors."""
        return self.product if self.alike else self._product()

    def _product(self) -> str:
        rng = self.rng
        return rng.choice(PRODUCTS) if rng.random() < self.extents.vectors else "matrices"

    def narrowed(self, wanted: Sizes, p: Pattern | None = None) -> Sizes:
        """Return `wanted`, or a shape that broadcasts into it."""
        rng = self.rng
        kind = rng.random()
        if isinstance(p, Number):
            kind = 0.95 if kind < 0.7 else kind
        if kind < 0.5:
            return wanted
        if kind < 0.6:
            return (1,) * len(wanted)
        if kind < 0.9:
            cut = wanted[rng.randrange(len(wanted) + 1) :] if rng.random() < 0.6 else wanted
            return tuple(1 if rng.random() < 0.4 else d for d in cut)
        return ()

    def _operand(self, p: Apply, wanted: Sizes) -> Sizes:
        """Return the shape for an operand of a reduction or movement: the same for siblings."""
        key = f"{p.op} {p.attrs} {p.rest} {wanted}"
        if key not in self.operands:
            grown = tuple(self.dim() if d == 1 else d for d in wanted)
            shape = self.rng.choice((wanted, grown, self.random_shape()))
            low = 3 if OPERATORS[p.op].kind is Kind.POOLING else 0
            while len(shape) < low:
                shape = (*shape, self.dim())
            self.operands[key] = shape
        found = self.operands[key]
        return found if self.alike or self.rng.random() < 0.5 else self.flattened(found)

    def flattened(self, shape: Sizes) -> Sizes:
        """Return `shape` with some sizes turned to 1."""
        return tuple(1 if self.rng.random() < 0.4 else d for d in shape)

    def _role(self, p: Apply, wanted: Sizes) -> Sequence[Sizes]:
        key = f"{p.op} {p.attrs} {p.rest} {wanted if p.op == 'MatMul' else ''}"
        shared = self.operands.setdefault(f"{key} inner", (max(0, self.dim()),))
        found = ROLES[p.op](self, wanted, shared[0], p)
        return found[: len(p.args)]


def _matmul(s: Shapes, wanted: Sizes, inner: int, _p: Apply) -> list[Sizes]:
    form = s.product_form()
    if form == "vectors":
        return [(inner,), (inner,)]
    wanted = wanted or (s.dim(),)
    if form == "vector by matrix":
        return [(inner,), (*wanted[:-1], inner, wanted[-1])]
    if form == "matrix by vector":
        return [(*wanted, inner), (inner,)]
    while len(wanted) < 2:
        wanted = (s.dim(), *wanted)
    batch, (rows, columns) = wanted[:-2], wanted[-2:]
    return [
        (*s.narrowed(batch), rows, inner),
        (*s.narrowed(batch), inner, columns),
    ]


def _gemm(s: Shapes, wanted: Sizes, inner: int, p: Apply) -> list[Sizes]:
    while len(wanted) < 2:
        wanted = (s.dim(), *wanted)
    rows, columns = wanted[-2:]
    turned = dict(p.attrs)
    left = (inner, rows) if _is_set(s, turned.get("transA", 0)) else (rows, inner)
    right = (columns, inner) if _is_set(s, turned.get("transB", 0)) else (inner, columns)
    return [left, right, s.narrowed((rows, columns))]


def _is_set(s: Shapes, value: Any) -> bool:
    return s.rng.random() < 0.5 if isinstance(value, Attribute) else bool(value)


def _conv(s: Shapes, _wanted: Sizes, _inner: int, p: Apply) -> list[Sizes]:
    rng, key = s.rng, f"conv {p.rest}"
    if key not in s.operands:
        rank = rng.choice((1, 1, 2))
        group, channels = rng.choice((1, 1, 1, 2)), rng.randrange(1, 3)
        spatial = tuple(rng.randrange(1, 5 - rank) for _ in range(rank))
        x = (rng.randrange(1, 3), channels * group, *spatial)
        w = (group * rng.randrange(1, 3), channels, *(rng.randrange(1, 3) for _ in range(rank)))
        s.operands |= {key: x, f"{key} w": w}
    x, w = s.operands[key], s.operands[f"{key} w"]
    rank = len(x) - 2
    if not s.alike and rng.random() < 0.7:
        spatial = (1,) * rank if rng.random() < 0.7 else s.flattened(x[2:])
        kernel = (*w[:2], *(1,) * rank) if rng.random() < 0.7 else s.flattened(w)
        x, w = ((*x[:2], *spatial), w) if rng.random() < 0.5 else (x, kernel)
    return [x, w, w[:1]]


def _conv_transpose(s: Shapes, _wanted: Sizes, _inner: int, _p: Apply) -> list[Sizes]:
    rng = s.rng
    rank = rng.choice((1, 1, 2))
    x = (rng.randrange(1, 3), rng.choice((1, 2, 2, 4)), *(rng.randrange(1, 3) for _ in range(rank)))
    w = (x[1], rng.randrange(1, 4), *(rng.randrange(1, 3) for _ in range(rank)))
    return [x, w, w[1:2]]


def _channels(s: Shapes, wanted: Sizes, _inner: int, _p: Apply) -> list[Sizes]:
    while len(wanted) < 2:
        wanted = (*wanted, s.dim())
    return [wanted, *[wanted[1:2]] * 4]


def _gather(s: Shapes, wanted: Sizes, _inner: int, _p: Apply) -> list[Sizes]:
    return [s.random_shape(1, 3) if s.rng.random() < 0.5 else wanted, s.random_shape(0, 2)]


def _gather_nd(s: Shapes, _wanted: Sizes, _inner: int, p: Apply) -> list[Sizes]:
    x, batch = s.random_shape(1, 3), dict(p.attrs).get("batch_dims", 0 if p.rest is None else None)
    if not isinstance(batch, int):
        batch = s.rng.randrange(min(2, len(x)))
    rank, lead = max(1, len(x) - batch), x[:batch]
    return [x, (*lead, *s.random_shape(0, 1), s.rng.randrange(1, rank + 1))]


def _concat(s: Shapes, wanted: Sizes, _inner: int, p: Apply) -> list[Sizes]:
    if not wanted:
        wanted = (s.dim(),)
    key = f"concat {wanted}"
    axis = s.operands.setdefault(key, (s.rng.randrange(len(wanted)),))[0]
    literal = dict(p.attrs).get("axis")
    axis = literal % len(wanted) if isinstance(literal, int) else axis
    return [(*wanted[:axis], s.dim(), *wanted[axis + 1 :]) for _ in p.args]


def _spatial_blocks(s: Shapes, _wanted: Sizes, _inner: int, _p: Apply) -> list[Sizes]:
    return [(1, s.rng.choice((1, 4, 4, 8)), s.rng.choice((1, 2)), 2)]


def _matrix(s: Shapes, wanted: Sizes, _inner: int, _p: Apply) -> list[Sizes]:
    return [wanted if len(wanted) == 2 else (s.dim(), s.dim())]


def _one_hot(s: Shapes, _wanted: Sizes, _inner: int, _p: Apply) -> list[Sizes]:
    return [s.random_shape(0, 2), (2,)]


def _scaled(s: Shapes, wanted: Sizes, _inner: int, _p: Apply) -> list[Sizes]:
    """Return the shape of a tensor, and one scale, or one for each place along an axis."""
    scale = s.rng.choice([(), (1,), *((d,) for d in wanted)])
    return [wanted, scale, scale]


ROLES = {
    "MatMul": _matmul,
    "Gemm": _gemm,
    "Conv": _conv,
    "ConvInteger": _conv,
    "ConvTranspose": _conv_transpose,
    "BatchNormalization": _channels,
    "InstanceNormalization": _channels,
    "GroupNormalization": _channels,
    "Gather": _gather,
    "GatherND": _gather_nd,
    "Concat": _concat,
    "DepthToSpace": _spatial_blocks,
    "SpaceToDepth": _spatial_blocks,
    "EyeLike": _matrix,
    "OneHot": _one_hot,
    "QuantizeLinear": _scaled,
    "DequantizeLinear": _scaled,
}
"""Operators whose operands have shapes of their own."""
