"""Whole operators over exact values: the registry's scalar, index and body meanings, re-read.

Tensors are numpy object arrays of `Value`s.  Operands that are indices may be integer arrays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import product as every
from typing import Any

import numpy as np

from egraph_fusion.errors import RuleError
from egraph_fusion.ir.graph import Array, Attrs, AttrValue
from egraph_fusion.ir.ops import OPERATORS, Kind, Operator
from egraph_fusion.ir.ops.operator import normalized
from egraph_fusion.ir.ops.reading import integer, integers
from egraph_fusion.ir.tensors import DType, TensorType
from egraph_fusion.rulesets.exact_contractions import (
    average_pool,
    conv,
    conv_transpose,
    einsum,
    gemm,
    matmul,
    max_pool,
)
from egraph_fusion.rulesets.exact_groups import Group, Meaning, combined, groups, objects
from egraph_fusion.rulesets.exact_numbers import UNDEFINED, UNKNOWN
from egraph_fusion.rulesets.exact_scalars import RealScalars

LOOKUPS = ("Gather", "GatherElements", "GatherND", "Trilu")
COMPUTING = ("Resize", "EyeLike")
"""Movement operators whose results are not just elements of their operands."""


class NoMeaningError(RuleError):
    """An operator has no meaning over the reals (bit operations, strings, random numbers)."""


def apply_exactly(scalars: Group, op: str, values: Sequence[Any], attrs: Attrs) -> tuple[Any, ...]:
    """Apply an operator to object arrays.

    Raises NoMeaningError where the operator has no meaning over the reals.
    """
    operator = OPERATORS[op]
    if op in LOOKUPS or op == "OneHot":
        return _looked_up(operator, values, attrs, 0 if op == "OneHot" else 1)
    values = [_numbers(v) for v in values]
    if op in MEANINGS:
        return MEANINGS[op](scalars, values, attrs)
    if operator.scalar is not None:
        return (_elementwise(scalars, operator, values, attrs),)
    if operator.reduction is not None:
        return (_reduced(scalars, operator, values[0], attrs),)
    if operator.body is not None:
        body = _Body(scalars, values)
        return tuple(body.values[r] for r in operator.body(body, body.operands, attrs))
    if operator.kind is Kind.MOVEMENT and op not in COMPUTING:
        return _moved(operator, values, attrs)
    raise NoMeaningError(f"operator {op} has no meaning over the real numbers")


def round_exactly(scalars: Group, x: Any, to: DType) -> Any:
    """Round an object array to a floating-point dtype; NoMeaningError if `scalars` cannot."""
    if not isinstance(scalars, RealScalars):
        raise NoMeaningError(f"rounding to {to.value} is no rational function")
    return objects([scalars.rounded(to, v) for v in _numbers(x).reshape(-1)], x.shape)


def _numbers(v: Any) -> Any:
    """Return integers as exact values: what is computed from indices is no array any more."""
    if v is None or v.dtype.kind not in "iu":
        return v
    return objects([Fraction(n) for n in v.reshape(-1).tolist()], v.shape)


def _looked_up(
    operator: Operator, values: Sequence[Any], attrs: Attrs, place: int
) -> tuple[Any, ...]:
    """Move elements by the indices at `place`; all are unknown if an index is not decided."""
    operands = list(map(_numbers, values))
    at = operands[place] if place < len(operands) else None
    if at is not None:
        operands[place] = _indices(at)
    moved = _moved(operator, operands, attrs)
    if at is None or all(isinstance(n, Fraction) for n in at.reshape(-1)):
        return moved
    return tuple(objects([UNKNOWN] * m.size, m.shape) for m in moved)


def _indices(v: Any) -> Array:
    """Return exact values as integers, 0 for those that are not decided."""
    items = [int(n) if isinstance(n, Fraction) else 0 for n in v.reshape(-1)]
    return np.asarray(items, dtype=np.int64).reshape(v.shape)


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
    return objects(results, shape)


def _reduced(scalars: Group, operator: Operator, x: Any, attrs: Attrs) -> Any:
    form: Any = operator.reduction
    axes = integers(attrs, "axes")
    shape, parts = groups(x, axes)
    results: list[Any] = []
    for group in parts:
        terms = [form.pre(scalars, v) for v in group] if form.pre else group
        found = combined(scalars, form.combine, terms)
        size = Fraction(len(group))
        results.append(form.post(scalars, found, size) if form.post else found)
    kept = tuple(1 if a in axes else d for a, d in enumerate(x.shape))
    return objects(results, kept if attrs["keepdims"] else shape)


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
    return tuple(objects([pool[int(i)] for i in m.reshape(-1)], m.shape) for m in moved)


def _arg(largest: bool) -> Meaning:
    def meaning(scalars: Group, values: Sequence[Any], attrs: Attrs) -> tuple[Any, ...]:
        x, axis = values[0], integer(attrs, "axis")
        shape, parts = groups(x, (axis,))
        last = bool(attrs["select_last_index"])
        kept = tuple(1 if a == axis else d for a, d in enumerate(x.shape))
        cells = [_position(scalars, g, largest, last) for g in parts]
        return (objects(cells, kept if attrs["keepdims"] else shape),)

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
    out: Any = np.empty(lines.shape, dtype=object)
    for at in every(*map(range, lines.shape)):
        stop = at[-1] if attrs["exclusive"] else at[-1] + 1
        out[at] = scalars.total(list(lines[(*at[:-1], slice(0, stop))]))
    out = out[..., ::-1] if attrs["reverse"] else out
    return (np.moveaxis(out, -1, axis),)


def _never(_scalars: Group, values: Sequence[Any], _attrs: Attrs) -> tuple[Any, ...]:
    """No real number is infinite."""
    x = values[0]
    return (objects([False] * x.size, x.shape),)


MEANINGS: dict[str, Meaning] = {
    "IsInf": _never,
    "MatMul": matmul,
    "Gemm": gemm,
    "Einsum": einsum,
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "MaxPool": max_pool,
    "AveragePool": average_pool,
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
        return self._named(objects(items, array.shape))

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
