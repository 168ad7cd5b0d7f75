"""Contractions and pooling over exact values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import product as every
from typing import Any

import numpy as np

from egraph_fusion.ir.graph import Attrs
from egraph_fusion.ir.ops import OPERATORS
from egraph_fusion.ir.ops.contraction import einsum_terms
from egraph_fusion.ir.ops.reading import integer, integers, number
from egraph_fusion.ir.ops.windows import view, windows
from egraph_fusion.ir.tensors import DType, TensorType
from egraph_fusion.rulesets.exact_groups import Group, combined, mapped, objects


def _dot(scalars: Group, left: Sequence[Any], right: Sequence[Any]) -> Any:
    return scalars.total([scalars.mul(x, y) for x, y in zip(left, right, strict=True)])


def matmul(scalars: Group, values: Sequence[Any], _attrs: Attrs) -> tuple[Any, ...]:
    """Multiply matrices, as numpy does."""
    a, b = values
    left = a.reshape(1, -1) if a.ndim == 1 else a
    right = b.reshape(-1, 1) if b.ndim == 1 else b
    batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    left = np.broadcast_to(left, (*batch, *left.shape[-2:]))
    right = np.broadcast_to(right, (*batch, *right.shape[-2:]))
    shape = (*batch, left.shape[-2], right.shape[-1])
    products = math.prod(batch)  # given, as -1 cannot be where the extents multiplied are 0
    rows = left.reshape(products * shape[-2], left.shape[-1])
    columns = np.moveaxis(right, -1, -2).reshape(products * shape[-1], right.shape[-2])
    cells: list[Any] = []
    for batch_number in range(math.prod(batch)):
        for i, j in every(range(shape[-2]), range(shape[-1])):
            row = rows[batch_number * shape[-2] + i]
            column = columns[batch_number * shape[-1] + j]
            cells.append(_dot(scalars, list(row), list(column)))
    kept = (() if a.ndim == 1 else shape[-2:-1]) + (() if b.ndim == 1 else shape[-1:])
    return (objects(cells, (*batch, *kept)),)


def gemm(scalars: Group, values: Sequence[Any], attrs: Attrs) -> tuple[Any, ...]:
    """Return alpha A B + beta C."""
    a, b = (v.T if attrs[t] else v for v, t in zip(values, ("transA", "transB"), strict=False))
    (found,) = matmul(scalars, (a, b), {})
    scale, scale_c = number(attrs, "alpha"), number(attrs, "beta")
    if scale != 1.0:
        found = mapped(scalars.mul, found, objects([scalars.const(scale)], ()))
    if len(values) > 2 and values[2] is not None:
        c = values[2]
        c = c if scale_c == 1.0 else mapped(scalars.mul, c, objects([scalars.const(scale_c)], ()))
        found = mapped(scalars.add, found, c)
    return (found,)


def _labels(x: Any) -> Any:
    labels: Any = np.arange(1, x.size + 1, dtype=np.int64)
    return labels.reshape(x.shape)


def conv(scalars: Group, values: Sequence[Any], attrs: Attrs) -> tuple[Any, ...]:
    """Convolve; padding is 0."""
    x, w = values[:2]
    parts = windows(w.shape[2:], attrs)
    counts = tuple(int(str(p.count(d))) for p, d in zip(parts, x.shape[2:], strict=True))
    patches: Any = view(_labels(x), parts, counts, 0)
    pool = [Fraction(0), *x.reshape(-1)]
    each, channels = w.shape[0] // integer(attrs, "group"), w.shape[1]
    shape = (x.shape[0], w.shape[0], *counts)
    cells: list[Any] = []
    for at in every(*map(range, shape)):
        start = at[1] // each * channels
        taps = patches[(at[0], slice(start, start + channels), *at[2:])].reshape(-1)
        cells.append(_dot(scalars, [pool[int(t)] for t in taps], list(w[at[1]].reshape(-1))))
    found = objects(cells, shape)
    if len(values) > 2 and values[2] is not None:
        found = mapped(scalars.add, found, values[2].reshape(1, -1, *(1,) * len(counts)))
    return (found,)


def conv_transpose(scalars: Group, values: Sequence[Any], attrs: Attrs) -> tuple[Any, ...]:
    """Add up what each element scatters: times each weight, to where the weight's tap puts it."""
    x, w = values[:2]
    kinds = [TensorType(DType.FLOAT64, v.shape) for v in (x, w)]
    shape = tuple(
        int(str(d)) for d in OPERATORS["ConvTranspose"].infer(kinds, attrs)[0].shape or ()
    )
    parts = windows(w.shape[2:], attrs)
    rows = x.shape[1] // integer(attrs, "group")
    terms: dict[tuple[int, ...], list[Any]] = {at: [] for at in every(*map(range, shape))}
    for image, channel, *place in every(*map(range, x.shape)):
        for out, *tap in every(*map(range, w.shape[1:])):
            spots = zip(place, tap, parts, strict=True)
            at: tuple[int, ...] = (image, channel // rows * w.shape[1] + out)
            at += tuple(i * p.stride + t * p.dilation - p.before for i, t, p in spots)
            if at in terms:
                left, right = x[(image, channel, *place)], w[(channel, out, *tap)]
                terms[at].append(scalars.mul(left, right))
    found = objects([scalars.total(terms[at]) for at in every(*map(range, shape))], shape)
    if len(values) > 2 and values[2] is not None:
        found = mapped(scalars.add, found, values[2].reshape(1, -1, *(1,) * len(parts)))
    return (found,)


def _pool_windows(x: Any, attrs: Attrs, op: str) -> tuple[tuple[int, ...], list[list[Any]]]:
    """Return the result's shape and the operand's elements in each window."""
    (out,) = OPERATORS[op].infer((TensorType(DType.FLOAT64, x.shape),), attrs)
    shape = tuple(int(str(d)) for d in out.shape or ())
    parts = windows(integers(attrs, "kernel_shape"), attrs)
    taps = view(_labels(x), parts, shape[2:], 0).reshape(math.prod(shape), -1)
    pool = list(x.reshape(-1))
    return shape, [[pool[int(t) - 1] for t in row if t] for row in taps]


def max_pool(scalars: Group, values: Sequence[Any], attrs: Attrs) -> tuple[Any, ...]:
    """Return the largest element of each window."""
    shape, groups = _pool_windows(values[0], attrs, "MaxPool")
    return (objects([combined(scalars, "max", g) for g in groups], shape),)


def average_pool(scalars: Group, values: Sequence[Any], attrs: Attrs) -> tuple[Any, ...]:
    """Divide each window's sum by the divisor that the registry divides a window of ones by."""
    x = values[0]
    shape, groups = _pool_windows(x, attrs, "AveragePool")
    whole: Any = np.ones(x.shape)
    (ones,) = OPERATORS["AveragePool"].evaluate((whole,), attrs)
    cells: list[Any] = []
    for group, share in zip(groups, ones.reshape(-1).tolist(), strict=True):
        divisor = Fraction(round(len(group) / share)) if group else Fraction(0)
        cells.append(scalars.div(scalars.total(group), divisor))
    return (objects(cells, shape),)


def einsum(scalars: Group, values: Sequence[Any], attrs: Attrs) -> tuple[Any, ...]:
    """Sum the products that an equation names."""
    terms, result = einsum_terms(str(attrs["equation"]), [v.ndim for v in values])
    sizes: dict[str, int] = {}
    for term, v in zip(terms, values, strict=True):
        sizes |= {c: d for c, d in zip(term, v.shape, strict=True) if sizes.get(c, 1) == 1}
    summed = [c for c in sizes if c not in result]
    cells: list[Any] = []
    for outer in every(*(range(sizes[c]) for c in result)):
        group: list[Any] = []
        for inner in every(*(range(sizes[c]) for c in summed)):
            at = dict(zip([*result, *summed], [*outer, *inner], strict=True))
            factors = [
                v[tuple(at[c] if v.shape[i] > 1 else 0 for i, c in enumerate(term))]
                for term, v in zip(terms, values, strict=True)
            ]
            group.append(combined(scalars, "mul", factors))
        cells.append(scalars.total(group))
    return (objects(cells, tuple(sizes[c] for c in result)),)
