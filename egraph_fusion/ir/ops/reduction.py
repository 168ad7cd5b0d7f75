"""Reductions: a scalar operator combined over some axes; ArgMax, ArgMin and CumSum beside them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from egraph_fusion.ir.dims import Dim, Shape, product
from egraph_fusion.ir.graph import Array, Attrs, AttrValue
from egraph_fusion.ir.ops.intervals import nonnegative, same_interval
from egraph_fusion.ir.ops.operator import (
    Attr,
    Builder,
    Interval,
    IntervalRule,
    Kind,
    Law,
    MappingType,
    Operator,
    Reduction,
    Scalars,
    fixed_mapping,
    register,
    switch,
)
from egraph_fusion.ir.ops.reading import TypeRuleError, Types, first, integer, integers, normal_axis
from egraph_fusion.ir.ops.scalars_count import scalar_count
from egraph_fusion.ir.ops.scalars_numpy import NumpyScalars, accumulator
from egraph_fusion.ir.ops.tracing import body_flops
from egraph_fusion.ir.tensors import DType, TensorType

AXES = Attr("axes", "ints", axis_of="operand")
KEEPDIMS = switch("keepdims", 1)
INTEGERS = Law.INTEGER_PRESERVING
MANY = fixed_mapping(MappingType.MANY_TO_MANY)
_COMBINE: dict[str, Callable[..., Any]] = {
    "add": np.add.reduce,
    "mul": np.multiply.reduce,
    "max": np.maximum.reduce,
    "min": np.minimum.reduce,
}


def reduced_shape(shape: Shape | None, axes: Sequence[int], keepdims: int) -> Shape | None:
    """Return `shape` with `axes` removed, or set to 1 if `keepdims`."""
    if shape is None:
        return None
    if any(not 0 <= a < len(shape) for a in axes):
        raise TypeRuleError(f"axes {tuple(axes)} are outside the operand's rank {len(shape)}")
    kept = (None if i in axes else d for i, d in enumerate(shape))
    return tuple(1 if d is None else d for d in kept if keepdims or d is not None)


def group_size(types: Types, axes: Sequence[int]) -> Dim:
    """Return how many elements of the first operand fall into one result (1 if unknown rank)."""
    shape = first(types).shape
    return 1 if shape is None else product(shape[a] for a in axes)


def all_axes(types: Types, attrs: dict[str, AttrValue]) -> dict[str, AttrValue]:
    """Complete a missing `axes`: every axis of the first operand."""
    shape = first(types).shape
    if "axes" in attrs or shape is None:
        return attrs
    return {**attrs, "axes": tuple(range(len(shape)))}


def _sorted_axes(types: Types, attrs: dict[str, AttrValue]) -> dict[str, AttrValue]:
    filled = all_axes(types, attrs)
    shape = first(types).shape
    if shape is None or "axes" not in filled:
        return filled
    axes = (normal_axis(a, len(shape), "reduction") for a in integers(filled, "axes"))
    return {**filled, "axes": tuple(sorted(axes))}


def _infer(types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
    x = first(types)
    shape = reduced_shape(x.shape, integers(attrs, "axes"), integer(attrs, "keepdims"))
    return (TensorType(x.dtype, shape),)


def _identity_of(combine: str, dtype: np.dtype[Any]) -> Any:
    if combine in ("add", "mul"):
        return dtype.type(0 if combine == "add" else 1)
    if dtype == np.bool_:
        return combine == "min"
    if DType.of(dtype).is_integer:
        limits = np.iinfo(dtype)
        return dtype.type(limits.min if combine == "max" else limits.max)
    return dtype.type(-math.inf if combine == "max" else math.inf)


def _evaluate(form: Reduction, values: Sequence[Array | None], attrs: Attrs) -> tuple[Array, ...]:
    x = values[0]
    if x is None:
        raise TypeRuleError("the first operand is missing")
    axes = integers(attrs, "axes")
    wide = x.astype(accumulator(x.dtype))
    b = NumpyScalars(wide.dtype)
    with np.errstate(all="ignore"):
        terms = form.pre(b, wide) if form.pre else wide
        start = _identity_of(form.combine, wide.dtype)
        total = _COMBINE[form.combine](
            terms, axis=axes, keepdims=bool(attrs["keepdims"]), initial=start, dtype=wide.dtype
        )
        count = wide.dtype.type(math.prod(x.shape[a] for a in axes))
        done = form.post(b, np.asarray(total), count) if form.post else total
        return (np.asarray(done).astype(x.dtype),)


def _flops(form: Reduction, ins: Types, outs: Sequence[TensorType], attrs: Attrs) -> Dim:
    size, results = first(ins).size, outs[0].size
    if size is None or results is None:
        return 0
    pre, post = form.pre, form.post
    before = 0 if pre is None else scalar_count(lambda b: pre(b, b.leaf))
    after = 0 if post is None else scalar_count(lambda b: post(b, b.leaf, b.leaf))
    combining = 0 if size == 0 else size - results
    return combining + size * before + results * after


def reduce_operator(
    name: str,
    form: Reduction,
    *,
    laws: Law = Law.NONE,
    interval: IntervalRule | None = None,
) -> Operator:
    """Declare a reduction with attributes `axes` (empty: reduces nothing) and `keepdims`."""
    return register(
        Operator(
            name=name,
            kind=Kind.REDUCTION,
            arity=(1, 1),
            infer=_infer,
            evaluate=lambda values, attrs: _evaluate(form, values, attrs),
            mapping=MANY,
            flops=lambda ins, outs, attrs: _flops(form, ins, outs, attrs),
            attrs=(AXES, KEEPDIMS),
            laws=laws,
            reduction=form,
            interval=interval,
            complete=_sorted_axes,
        )
    )


def _abs(b: Scalars, x: Any) -> Any:
    return b.abs(x)


def _square(b: Scalars, x: Any) -> Any:
    return b.mul(x, x)


def _sqrt(b: Scalars, total: Any, _n: Any) -> Any:
    return b.sqrt(total)


def _log(b: Scalars, total: Any, _n: Any) -> Any:
    return b.log(total)


def _over_n(b: Scalars, total: Any, n: Any) -> Any:
    return b.div(total, n)


def _sum_interval(x: Sequence[Interval], _a: Attrs) -> Interval:
    lo, hi = x[0]
    return (0.0 if lo >= 0 else -math.inf, 0.0 if hi <= 0 else math.inf)


def _prod_interval(x: Sequence[Interval], _a: Attrs) -> Interval:
    lo, hi = x[0]
    if lo < 0:
        return (-math.inf, math.inf)
    return (0.0, 1.0 if hi <= 1 else math.inf)


def _mean_interval(x: Sequence[Interval], _a: Attrs) -> Interval:
    lo, hi = x[0]
    return (lo - abs(lo) * 2.0**-6, hi + abs(hi) * 2.0**-6)


reduce_operator(
    "ReduceSum",
    Reduction("add"),
    laws=Law.ODD | Law.ZERO_PRESERVING | INTEGERS,
    interval=_sum_interval,
)
reduce_operator(
    "ReduceMean",
    Reduction("add", post=_over_n),
    laws=Law.ODD | Law.ZERO_PRESERVING,
    interval=_mean_interval,
)
reduce_operator("ReduceProd", Reduction("mul"), laws=INTEGERS, interval=_prod_interval)
for _name, _combine in (("ReduceMax", "max"), ("ReduceMin", "min")):
    reduce_operator(
        _name,
        Reduction(_combine),
        laws=Law.ZERO_PRESERVING | INTEGERS,
        interval=same_interval,
    )
reduce_operator(
    "ReduceL1",
    Reduction("add", pre=_abs),
    laws=Law.EVEN | Law.ZERO_PRESERVING | INTEGERS,
    interval=nonnegative,
)
reduce_operator(
    "ReduceL2",
    Reduction("add", pre=_square, post=_sqrt),
    laws=Law.EVEN | Law.ZERO_PRESERVING,
    interval=nonnegative,
)
reduce_operator(
    "ReduceSumSquare",
    Reduction("add", pre=_square),
    laws=Law.EVEN | Law.ZERO_PRESERVING | INTEGERS,
    interval=nonnegative,
)
reduce_operator("ReduceLogSum", Reduction("add", post=_log))


def _log_sum_exp_body(b: Builder, x: Sequence[str], attrs: Attrs) -> tuple[str, ...]:
    """Shift by the maximum, made finite so that a group of infinities does not give NaN."""
    axes, keepdims = integers(attrs, "axes"), integer(attrs, "keepdims")
    dtype = b.type_of(x[0]).dtype
    largest = float(np.finfo(np.float32).max if dtype is DType.FLOAT32 else _largest(dtype))
    low, high = (b.const(np.asarray(v, dtype.numpy)) for v in (-largest, largest))
    top = b.op("Clip", b.op("ReduceMax", x[0], axes=axes, keepdims=1), low, high)
    total = b.op("ReduceSum", b.op("Exp", b.op("Sub", x[0], top)), axes=axes, keepdims=1)
    result = b.op("Add", b.op("Log", total), top)
    return (result if keepdims or not axes else b.op("Squeeze", result, axes=axes),)


def _largest(dtype: DType) -> float:
    return {DType.FLOAT16: 65504.0, DType.FLOAT64: float(np.finfo(np.float64).max)}.get(
        dtype, 3.3895313892515355e38
    )


def _log_sum_exp(values: Sequence[Array | None], attrs: Attrs) -> tuple[Array, ...]:
    x = values[0]
    if x is None:
        raise TypeRuleError("the first operand is missing")
    axes, keepdims = integers(attrs, "axes"), bool(attrs["keepdims"])
    wide = x.astype(accumulator(x.dtype))
    with np.errstate(all="ignore"):
        top = np.max(wide, axis=axes, keepdims=True, initial=-math.inf)
        top = np.where(np.isinf(top), 0, top).astype(wide.dtype)
        total = np.log(np.sum(np.exp(wide - top), axis=axes, keepdims=True)) + top
    out = total if keepdims else np.squeeze(total, axis=axes)
    return (np.asarray(out).astype(x.dtype),)


def _log_sum_exp_infer(types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
    if not first(types).dtype.is_float:
        raise TypeRuleError(f"ReduceLogSumExp of {first(types)} is not computed on")
    return _infer(types, attrs)


register(
    Operator(
        name="ReduceLogSumExp",
        kind=Kind.REDUCTION,
        arity=(1, 1),
        infer=_log_sum_exp_infer,
        evaluate=_log_sum_exp,
        mapping=MANY,
        flops=body_flops("ReduceLogSumExp"),
        attrs=(AXES, KEEPDIMS),
        body=_log_sum_exp_body,
        complete=_sorted_axes,
    )
)
