"""Whole operators over exact values: the registry's scalar, index and body meanings, re-read.

Tensors are numpy object arrays of `Value`s; index operands and their results stay integer arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import product as every
from typing import Any, Protocol

import numpy as np

from egraph_fusion.errors import RuleError
from egraph_fusion.ir.graph import Array, Attrs, AttrValue
from egraph_fusion.ir.ops import OPERATORS, Kind, Operator
from egraph_fusion.ir.ops.contraction import einsum_terms
from egraph_fusion.ir.ops.operator import integer, integers, normalized, number
from egraph_fusion.ir.ops.windows import view, windows
from egraph_fusion.ir.tensors import DType, TensorType
from egraph_fusion.rulesets.exact_numbers import UNDEFINED

LOOKUPS = ("Gather", "GatherElements", "GatherND", "Trilu")
COMPUTING = ("Resize", "EyeLike", "OneHot")
"""Movement operators whose results are not just elements of their operands."""
Meaning = Callable[["Group", Sequence[Any], Attrs], tuple[Any, ...]]


class Group(Protocol):
    """Scalar operators (those named here, and any that an operator's meaning uses), and sums."""

    def const(self, value: float) -> Any:
        """Return a literal: the decimal fraction that it is written as."""
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


class NoMeaningError(RuleError):
    """An operator has no meaning over the reals (bit operations, strings, random numbers)."""


def apply_exactly(scalars: Group, op: str, values: Sequence[Any], attrs: Attrs) -> tuple[Any, ...]:
    """Apply an operator to object arrays.

    Raises NoMeaningError where the operator has no meaning over the reals.
    """
    operator = OPERATORS[op]
    if op in MEANINGS:
        return MEANINGS[op](scalars, values, attrs)
    if operator.scalar is not None:
        return (_elementwise(scalars, operator, values, attrs),)
    if operator.reduction is not None:
        return (_reduced(scalars, operator, values[0], attrs),)
    if operator.body is not None:
        body = _Body(scalars, values)
        return tuple(body.values[r] for r in operator.body(body, body.operands, attrs))
    if op in LOOKUPS or (operator.kind is Kind.MOVEMENT and op not in COMPUTING):
        return _moved(operator, values, attrs)
    raise NoMeaningError(f"operator {op} has no meaning over the real numbers")


def _objects(items: Sequence[Any], shape: Sequence[int]) -> Any:
    out = np.empty(len(items), dtype=object)
    for i, item in enumerate(items):
        out[i] = item
    return out.reshape(tuple(shape))


def _elementwise(scalars: Group, operator: Operator, values: Sequence[Any], attrs: Attrs) -> Any:
    scalar: Any = operator.scalar
    present = [v for v in values if v is not None]
    wide = iter(np.broadcast_arrays(*present))
    columns = [None if v is None else next(wide).reshape(-1) for v in values]
    shape = np.broadcast_shapes(*(v.shape for v in present))
    try:
        results = [
            scalar(scalars, [None if c is None else c[i] for c in columns], attrs)
            for i in range(math.prod(shape))
        ]
    except AttributeError as missing:
        raise NoMeaningError(f"{operator.name} has no meaning over the reals") from missing
    return _objects(results, shape)


def _combined(scalars: Group, combine: str, group: Sequence[Any]) -> Any:
    if combine == "add":
        return scalars.total(group)
    if not group:
        return Fraction(1) if combine == "mul" else UNDEFINED
    found = group[0]
    for item in group[1:]:
        found = getattr(scalars, combine)(found, item)
    return found


def _groups(x: Any, axes: Sequence[int]) -> tuple[tuple[int, ...], list[list[Any]]]:
    """Return the shape that stays and, for each element of it, the group of `x` along `axes`."""
    kept = [a for a in range(x.ndim) if a not in axes]
    rows = x.transpose([*kept, *axes])
    shape = tuple(x.shape[a] for a in kept)
    size = math.prod(x.shape[a] for a in axes)
    flat = rows.reshape(math.prod(shape), size)
    return shape, [list(row) for row in flat]


def _reduced(scalars: Group, operator: Operator, x: Any, attrs: Attrs) -> Any:
    form: Any = operator.reduction
    axes = integers(attrs, "axes")
    shape, groups = _groups(x, axes)
    results: list[Any] = []
    for group in groups:
        terms = [form.pre(scalars, v) for v in group] if form.pre else group
        found = _combined(scalars, form.combine, terms)
        size = Fraction(len(group))
        results.append(form.post(scalars, found, size) if form.post else found)
    kept = tuple(1 if a in axes else d for a, d in enumerate(x.shape))
    return _objects(results, kept if attrs["keepdims"] else shape)


def _moved(operator: Operator, values: Sequence[Any], attrs: Attrs) -> tuple[Any, ...]:
    """Move numbered elements as the registry does, then put the values in their places."""
    labels: list[Any] = []
    pool: list[Any] = [Fraction(0)]  # number 0 is what a border is filled with
    for v in values:
        if v is None or v.dtype != object:
            labels.append(v)
            continue
        labels.append(np.arange(len(pool), len(pool) + v.size, dtype=np.int64).reshape(v.shape))
        pool += list(v.reshape(-1))
    moved = operator.evaluate(labels, attrs)
    return tuple(_objects([pool[int(i)] for i in m.reshape(-1)], m.shape) for m in moved)


def _dot(scalars: Group, left: Sequence[Any], right: Sequence[Any]) -> Any:
    return scalars.total([scalars.mul(x, y) for x, y in zip(left, right, strict=True)])


def _matmul(scalars: Group, values: Sequence[Any], _attrs: Attrs) -> tuple[Any, ...]:
    a, b = values
    left = a.reshape(1, -1) if a.ndim == 1 else a
    right = b.reshape(-1, 1) if b.ndim == 1 else b
    batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    left = np.broadcast_to(left, (*batch, *left.shape[-2:]))
    right = np.broadcast_to(right, (*batch, *right.shape[-2:]))
    shape = (*batch, left.shape[-2], right.shape[-1])
    rows, columns = left.reshape(-1, left.shape[-1]), np.moveaxis(right, -1, -2)
    columns = columns.reshape(-1, right.shape[-2])
    cells: list[Any] = []
    for batch_number in range(math.prod(batch)):
        for i, j in every(range(shape[-2]), range(shape[-1])):
            row = rows[batch_number * shape[-2] + i]
            column = columns[batch_number * shape[-1] + j]
            cells.append(_dot(scalars, list(row), list(column)))
    kept = (() if a.ndim == 1 else shape[-2:-1]) + (() if b.ndim == 1 else shape[-1:])
    return (_objects(cells, (*batch, *kept)),)


def _gemm(scalars: Group, values: Sequence[Any], attrs: Attrs) -> tuple[Any, ...]:
    a, b = (v.T if attrs[t] else v for v, t in zip(values, ("transA", "transB"), strict=False))
    (found,) = _matmul(scalars, (a, b), {})
    scale, scale_c = number(attrs, "alpha"), number(attrs, "beta")
    if scale != 1.0:
        found = _mapped(scalars.mul, found, _objects([scalars.const(scale)], ()))
    if len(values) > 2 and values[2] is not None:
        c = values[2]
        c = c if scale_c == 1.0 else _mapped(scalars.mul, c, _objects([scalars.const(scale_c)], ()))
        found = _mapped(scalars.add, found, c)
    return (found,)


def _mapped(f: Callable[..., Any], x: Any, y: Any) -> Any:
    left, right = np.broadcast_arrays(x, y)
    pairs = zip(left.reshape(-1), right.reshape(-1), strict=True)
    return _objects([f(p, q) for p, q in pairs], left.shape)


def _labels(x: Any) -> Any:
    return np.arange(1, x.size + 1, dtype=np.int64).reshape(x.shape)


def _conv(scalars: Group, values: Sequence[Any], attrs: Attrs) -> tuple[Any, ...]:
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
    found = _objects(cells, shape)
    if len(values) > 2 and values[2] is not None:
        found = _mapped(scalars.add, found, values[2].reshape(1, -1, *(1,) * len(counts)))
    return (found,)


def _pool_windows(x: Any, attrs: Attrs, op: str) -> tuple[tuple[int, ...], list[list[Any]]]:
    """Return the result's shape and the operand's elements in each window."""
    (out,) = OPERATORS[op].infer((TensorType(DType.FLOAT64, x.shape),), attrs)
    shape = tuple(int(str(d)) for d in out.shape or ())
    parts = windows(integers(attrs, "kernel_shape"), attrs)
    taps = view(_labels(x), parts, shape[2:], 0).reshape(math.prod(shape), -1)
    pool = list(x.reshape(-1))
    return shape, [[pool[int(t) - 1] for t in row if t] for row in taps]


def _max_pool(scalars: Group, values: Sequence[Any], attrs: Attrs) -> tuple[Any, ...]:
    shape, groups = _pool_windows(values[0], attrs, "MaxPool")
    return (_objects([_combined(scalars, "max", g) for g in groups], shape),)


def _average_pool(scalars: Group, values: Sequence[Any], attrs: Attrs) -> tuple[Any, ...]:
    """Divide each window's sum by the divisor that the registry divides a window of ones by."""
    x = values[0]
    shape, groups = _pool_windows(x, attrs, "AveragePool")
    (ones,) = OPERATORS["AveragePool"].evaluate((np.ones(x.shape),), attrs)
    cells: list[Any] = []
    for group, share in zip(groups, ones.reshape(-1).tolist(), strict=True):
        divisor = Fraction(round(len(group) / share)) if group else Fraction(0)
        cells.append(scalars.div(scalars.total(group), divisor))
    return (_objects(cells, shape),)


def _einsum(scalars: Group, values: Sequence[Any], attrs: Attrs) -> tuple[Any, ...]:
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
            group.append(_combined(scalars, "mul", factors))
        cells.append(scalars.total(group))
    return (_objects(cells, tuple(sizes[c] for c in result)),)


def _arg(largest: bool) -> Meaning:
    def meaning(scalars: Group, values: Sequence[Any], attrs: Attrs) -> tuple[Any, ...]:
        x, axis = values[0], integer(attrs, "axis")
        shape, groups = _groups(x, (axis,))
        last = bool(attrs["select_last_index"])
        kept = tuple(1 if a == axis else d for a, d in enumerate(x.shape))
        cells = [_position(scalars, g, largest, last) for g in groups]
        return (_objects(cells, kept if attrs["keepdims"] else shape),)

    return meaning


def _position(scalars: Group, group: Sequence[Any], largest: bool, last: bool) -> Any:
    best: Any = Fraction(0)
    for i in range(1, len(group)):
        pair = (group[int(best)], group[i])
        small, large = pair if largest else pair[::-1]
        better = getattr(scalars, "le" if last else "lt")(small, large)
        if not isinstance(better, bool):
            return better
        best = Fraction(i) if better else best
    return best if group else UNDEFINED


def _cumsum(scalars: Group, values: Sequence[Any], attrs: Attrs) -> tuple[Any, ...]:
    x, axis = values[0], integer(attrs, "axis")
    lines = np.moveaxis(x, axis, -1)
    lines = lines[..., ::-1] if attrs["reverse"] else lines
    out = np.empty(lines.shape, dtype=object)
    for at in every(*map(range, lines.shape)):
        stop = at[-1] if attrs["exclusive"] else at[-1] + 1
        out[at] = scalars.total(list(lines[(*at[:-1], slice(0, stop))]))
    out = out[..., ::-1] if attrs["reverse"] else out
    return (np.moveaxis(out, -1, axis),)


def _never(_scalars: Group, values: Sequence[Any], _attrs: Attrs) -> tuple[Any, ...]:
    """No real number is infinite."""
    x = values[0]
    return (_objects([False] * x.size, x.shape),)


MEANINGS: dict[str, Meaning] = {
    "IsInf": _never,
    "MatMul": _matmul,
    "Gemm": _gemm,
    "Einsum": _einsum,
    "Conv": _conv,
    "MaxPool": _max_pool,
    "AveragePool": _average_pool,
    "ArgMax": _arg(largest=True),
    "ArgMin": _arg(largest=False),
    "CumSum": _cumsum,
}


class _Body:
    """A builder that applies exactly what a composite's body builds.

    Types are those of float64, so that constants of the body are not rounded.
    """

    def __init__(self, scalars: Group, values: Sequence[Any]) -> None:
        self.scalars = scalars
        self.operands = tuple("" if v is None else f"x{i}" for i, v in enumerate(values))
        self.values: dict[str, Any] = {
            n: v for n, v in zip(self.operands, values, strict=True) if n
        }

    def type_of(self, value: str) -> TensorType:
        """Return the type of a value."""
        found = self.values[value]
        return TensorType(DType.INT64 if found.dtype.kind in "iu" else DType.FLOAT64, found.shape)

    def const(self, array: Array) -> str:
        """Return a constant; integers stay as they are, since they are indices."""
        if array.dtype.kind in "iu":
            return self._named(array)
        items = [self.scalars.const(float(v)) for v in array.reshape(-1).tolist()]
        return self._named(_objects(items, array.shape))

    def op(self, name: str, *inputs: str, **attrs: AttrValue) -> str:
        """Apply an operator."""
        types = tuple(self.type_of(v) if v else None for v in inputs)
        filled = normalized(OPERATORS[name], types, attrs)
        operands = [self.values[v] if v else None for v in inputs]
        return self._named(apply_exactly(self.scalars, name, operands, filled)[0])

    def _named(self, value: Any) -> str:
        name = f"t{len(self.values)}"
        self.values[name] = value
        return name
