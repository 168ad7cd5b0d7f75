"""Pooling: MaxPool, AveragePool, LpPool and their global forms."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from egraph_fusion.ir.dims import Dim
from egraph_fusion.ir.graph import Array, Attrs, AttrValue
from egraph_fusion.ir.ops.intervals import same_interval
from egraph_fusion.ir.ops.operator import (
    Attr,
    Builder,
    IntervalRule,
    Kind,
    Law,
    MappingType,
    Operator,
    fixed_mapping,
    register,
    switch,
)
from egraph_fusion.ir.ops.reading import TypeRuleError, Types, first, integer, integers, known_shape
from egraph_fusion.ir.ops.scalars_numpy import accumulator
from egraph_fusion.ir.ops.tracing import body_flops
from egraph_fusion.ir.ops.windows import (
    AUTO_PAD,
    DILATIONS,
    PADS,
    STRIDES,
    Window,
    completed,
    view,
    windows,
)
from egraph_fusion.ir.tensors import DType, TensorType

MANY = fixed_mapping(MappingType.MANY_TO_MANY)
KERNEL = Attr("kernel_shape", "ints")
CEIL = switch("ceil_mode")
NORM = Attr("p", "int", 2, values=(2, 1, 3))
Pool = Callable[[Array, tuple[Window, ...], tuple[int, ...], Attrs], Array]


def _complete(types: Types, attrs: dict[str, AttrValue]) -> dict[str, AttrValue]:
    x, kernel = known_shape(types), integers(attrs, "kernel_shape")
    return completed(None if x is None else x[2:], kernel, attrs)


def _infer(types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
    x, kernel = first(types), integers(attrs, "kernel_shape")
    if x.shape is None:
        return (TensorType(x.dtype, None),)
    if len(x.shape) != len(kernel) + 2:
        raise TypeRuleError(f"{len(kernel)} window axes, but an operand of rank {len(x.shape)}")
    parts = zip(windows(kernel, attrs), x.shape[2:], strict=True)
    counts = tuple(w.count(d, bool(attrs["ceil_mode"])) for w, d in parts)
    return (TensorType(x.dtype, (*x.shape[:2], *counts)),)


def _evaluate(pool: Pool, values: Sequence[Array | None], attrs: Attrs) -> tuple[Array, ...]:
    x = values[0]
    if x is None:
        raise TypeRuleError("the first operand is missing")
    (out,) = _infer((TensorType(DType.of(x.dtype), x.shape),), attrs)
    counts = tuple(int(str(d)) for d in (out.shape or ())[2:])
    wide = x.astype(accumulator(x.dtype))
    with np.errstate(all="ignore"):
        found = pool(wide, windows(integers(attrs, "kernel_shape"), attrs), counts, attrs)
    return (np.ascontiguousarray(found).astype(x.dtype),)


def _taps(x: Array) -> tuple[int, ...]:
    """Axes of the window's taps in a window view."""
    return tuple(range(-(x.ndim - 2), 0))


def _lowest(dtype: np.dtype[Any]) -> float | int:
    return int(np.iinfo(dtype).min) if DType.of(dtype).is_integer else -math.inf


def _max(x: Array, parts: tuple[Window, ...], counts: tuple[int, ...], _attrs: Attrs) -> Array:
    return np.asarray(view(x, parts, counts, _lowest(x.dtype)).max(axis=_taps(x)))


def _average(x: Array, parts: tuple[Window, ...], counts: tuple[int, ...], attrs: Attrs) -> Array:
    total = view(x, parts, counts, 0).sum(axis=_taps(x))
    inside = np.ones((1, 1, *x.shape[2:]), dtype=x.dtype)
    if attrs["count_include_pad"]:
        grown = [(0, 0), (0, 0), *((w.before, w.after) for w in parts)]
        inside = np.pad(inside, grown, constant_values=1)
        parts = tuple(Window(w.extent, w.stride, w.dilation, 0, 0) for w in parts)
    divisor = view(inside, parts, counts, 0).sum(axis=_taps(x))
    return np.asarray(total / divisor)


def _lp(x: Array, parts: tuple[Window, ...], counts: tuple[int, ...], attrs: Attrs) -> Array:
    p = integer(attrs, "p")
    powers = np.power(np.abs(view(x, parts, counts, 0)), p)
    return np.asarray(np.power(powers.sum(axis=_taps(x)), 1.0 / p)).astype(x.dtype)


def _window_flops(per_tap: int, per_result: int, outs: Sequence[TensorType], attrs: Attrs) -> Dim:
    size = outs[0].size
    taps = math.prod(integers(attrs, "kernel_shape"))
    return 0 if size is None else size * (taps - 1 + taps * per_tap + per_result)


def pool_operator(
    name: str,
    pool: Pool,
    attrs: tuple[Attr, ...],
    *,
    per_tap: int = 0,
    per_result: int = 0,
    laws: Law = Law.NONE,
    interval: IntervalRule | None = None,
) -> Operator:
    """Declare a pooling operator; a window counts in full even where it overlaps the padding."""
    return register(
        Operator(
            name=name,
            kind=Kind.POOLING,
            arity=(1, 1),
            infer=_infer,
            evaluate=lambda values, a: _evaluate(pool, values, a),
            mapping=MANY,
            flops=lambda _ins, outs, a: _window_flops(per_tap, per_result, outs, a),
            attrs=(KERNEL, STRIDES, PADS, DILATIONS, CEIL, AUTO_PAD, *attrs),
            laws=laws,
            interval=interval,
            complete=_complete,
            keeps_rank=True,
        )
    )


pool_operator(
    "MaxPool",
    _max,
    (switch("storage_order"),),
    laws=Law.INTEGER_PRESERVING,
    interval=same_interval,
)
pool_operator("AveragePool", _average, (switch("count_include_pad"),), per_result=1)
pool_operator("LpPool", _lp, (NORM,), per_tap=1, per_result=1)


def _spatial(b: Builder, x: str) -> tuple[int, ...]:
    shape = b.type_of(x).shape
    if shape is None or len(shape) < 3:
        raise TypeRuleError(f"a global pool needs spatial axes, got {b.type_of(x)}")
    return tuple(range(2, len(shape)))


def _global_infer(types: Types, _attrs: Attrs) -> tuple[TensorType, ...]:
    x = first(types)
    if x.shape is None:
        return (TensorType(x.dtype, None),)
    if len(x.shape) < 3:
        raise TypeRuleError(f"a global pool needs spatial axes, got {x}")
    return (TensorType(x.dtype, (*x.shape[:2], *(1 for _ in x.shape[2:]))),)


def _global(reduce: str) -> Callable[[Builder, Sequence[str], Attrs], tuple[str, ...]]:
    def body(b: Builder, x: Sequence[str], _attrs: Attrs) -> tuple[str, ...]:
        return (b.op(reduce, x[0], axes=_spatial(b, x[0]), keepdims=1),)

    return body


def _global_lp_body(b: Builder, x: Sequence[str], attrs: Attrs) -> tuple[str, ...]:
    p, axes = integer(attrs, "p"), _spatial(b, x[0])
    if p in (1, 2):
        return (b.op(f"ReduceL{p}", x[0], axes=axes, keepdims=1),)
    dtype = b.type_of(x[0]).dtype.numpy
    power, root = b.const(np.asarray(p, dtype)), b.const(np.asarray(1.0 / p, dtype))
    total = b.op("ReduceSum", b.op("Pow", b.op("Abs", x[0]), power), axes=axes, keepdims=1)
    return (b.op("Pow", total, root),)


def _global_mean(x: Array, axes: tuple[int, ...], _attrs: Attrs) -> Array:
    return np.asarray(x.mean(axis=axes, keepdims=True, dtype=x.dtype))


def _global_max(x: Array, axes: tuple[int, ...], _attrs: Attrs) -> Array:
    return np.asarray(x.max(axis=axes, keepdims=True))


def _global_lp(x: Array, axes: tuple[int, ...], attrs: Attrs) -> Array:
    p = integer(attrs, "p")
    total = np.power(np.abs(x), p).sum(axis=axes, keepdims=True)
    return np.asarray(np.power(total, 1.0 / p)).astype(x.dtype)


def _global_operator(
    name: str,
    meaning: Callable[[Array, tuple[int, ...], Attrs], Array],
    body: Callable[[Builder, Sequence[str], Attrs], tuple[str, ...]],
    attrs: tuple[Attr, ...] = (),
    laws: Law = Law.NONE,
) -> Operator:
    def evaluate(values: Sequence[Array | None], a: Attrs) -> tuple[Array, ...]:
        x = values[0]
        if x is None:
            raise TypeRuleError("the first operand is missing")
        axes = tuple(range(2, x.ndim))
        with np.errstate(all="ignore"):
            return (meaning(x.astype(accumulator(x.dtype)), axes, a).astype(x.dtype),)

    return register(
        Operator(
            name=name,
            kind=Kind.POOLING,
            arity=(1, 1),
            infer=_global_infer,
            evaluate=evaluate,
            mapping=MANY,
            flops=body_flops(name),
            attrs=attrs,
            laws=laws,
            body=body,
            keeps_rank=True,
        )
    )


_global_operator("GlobalAveragePool", _global_mean, _global("ReduceMean"))
_global_operator("GlobalMaxPool", _global_max, _global("ReduceMax"), laws=Law.INTEGER_PRESERVING)
_global_operator("GlobalLpPool", _global_lp, _global_lp_body, (NORM,))
