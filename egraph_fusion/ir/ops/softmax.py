"""Softmax, LogSoftmax and Hardmax along one axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from egraph_fusion.ir.graph import Array, Attrs
from egraph_fusion.ir.ops.composite import AXIS, composite, dtype_of, wide
from egraph_fusion.ir.ops.intervals import unit
from egraph_fusion.ir.ops.operator import Builder, Law
from egraph_fusion.ir.ops.reading import TypeRuleError, Types, first, integer
from egraph_fusion.ir.tensors import TensorType


def _softmax(values: Sequence[Array | None], attrs: Attrs) -> tuple[Array, ...]:
    x, axis = wide(values[0]), integer(attrs, "axis")
    with np.errstate(all="ignore"):
        powers = np.exp(x - x.max(axis=axis, keepdims=True, initial=-np.inf))
        out = powers / powers.sum(axis=axis, keepdims=True)
    return (out.astype(dtype_of(values)),)


def _shifted(b: Builder, x: str, axis: int) -> str:
    return b.op("Sub", x, b.op("ReduceMax", x, axes=(axis,), keepdims=1))


def _softmax_body(b: Builder, x: Sequence[str], attrs: Attrs) -> tuple[str, ...]:
    axis = integer(attrs, "axis")
    powers = b.op("Exp", _shifted(b, x[0], axis))
    return (b.op("Div", powers, b.op("ReduceSum", powers, axes=(axis,), keepdims=1)),)


def _log_softmax(values: Sequence[Array | None], attrs: Attrs) -> tuple[Array, ...]:
    x, axis = wide(values[0]), integer(attrs, "axis")
    with np.errstate(all="ignore"):
        shifted = x - x.max(axis=axis, keepdims=True, initial=-np.inf)
        out = shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))
    return (out.astype(dtype_of(values)),)


def _log_softmax_body(b: Builder, x: Sequence[str], attrs: Attrs) -> tuple[str, ...]:
    axis = integer(attrs, "axis")
    shifted = _shifted(b, x[0], axis)
    total = b.op("ReduceSum", b.op("Exp", shifted), axes=(axis,), keepdims=1)
    return (b.op("Sub", shifted, b.op("Log", total)),)


composite("Softmax", (1, 1), _softmax, _softmax_body, (AXIS,), interval=unit)
composite("LogSoftmax", (1, 1), _log_softmax, _log_softmax_body, (AXIS,))


def _axis_extent(types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
    x, axis = first(types), integer(attrs, "axis")
    if x.shape is None or not isinstance(x.shape[axis], int):
        raise TypeRuleError(f"Hardmax: the extent of axis {axis} of {x} must be known")
    return (x,)


def _hardmax(values: Sequence[Array | None], attrs: Attrs) -> tuple[Array, ...]:
    x, axis = wide(values[0]), integer(attrs, "axis")
    best = np.argmax(x, axis=axis, keepdims=True)
    out = np.zeros(x.shape, dtype=dtype_of(values))
    np.put_along_axis(out, best, 1, axis=axis)
    return (out,)


def _hardmax_body(b: Builder, x: Sequence[str], attrs: Attrs) -> tuple[str, ...]:
    axis, kind = integer(attrs, "axis"), b.type_of(x[0])
    depth = (kind.shape or ())[axis]
    if not isinstance(depth, int):
        raise TypeRuleError(f"Hardmax: the extent of axis {axis} of {kind} must be known")
    best = b.op("ArgMax", x[0], axis=axis, keepdims=0)
    pair = b.const(np.array([0, 1], kind.dtype.numpy))
    return (b.op("OneHot", best, pair, axis=axis, depth=depth),)


composite(
    "Hardmax",
    (1, 1),
    _hardmax,
    _hardmax_body,
    (AXIS,),
    infer=_axis_extent,
    laws=Law.INTEGER,
    interval=unit,
)
