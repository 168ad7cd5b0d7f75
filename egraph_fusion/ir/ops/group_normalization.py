"""GroupNormalization, MeanVarianceNormalization, LpNormalization and LRN."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from egraph_fusion.ir.graph import Array, Attrs, AttrValue
from egraph_fusion.ir.ops.composite import (
    AXIS,
    EPSILON,
    STASH,
    common_dtype,
    composite,
    dtype_of,
    rank_of,
    scalar_like,
    wide,
)
from egraph_fusion.ir.ops.normalization import (
    affine,
    centred,
    check_channels,
    normal_body,
    per_channel,
    scaled,
)
from egraph_fusion.ir.ops.operator import Attr, Builder
from egraph_fusion.ir.ops.reading import (
    TypeRuleError,
    Types,
    first,
    integer,
    integers,
    known_shape,
    number,
)
from egraph_fusion.ir.tensors import TensorType


def _group_infer(types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
    """The result has the operand's type; its body needs all sizes but one to be known."""
    common_dtype("GroupNormalization", types)
    x, groups = first(types), integer(attrs, "num_groups")
    for i in (1, 2):
        check_channels("GroupNormalization", x.shape, known_shape(types, i))
    if x.shape is None or len(x.shape) < 2:
        raise TypeRuleError(f"GroupNormalization: the operand {x} must have rank 2 or more")
    channels = x.shape[1]
    if not isinstance(channels, int) or groups < 1 or channels % groups:
        raise TypeRuleError(f"GroupNormalization: {channels} channels in {groups} groups")
    if sum(not isinstance(d, int) for d in x.shape[2:]) > 1:
        raise TypeRuleError(f"GroupNormalization: more than one unknown spatial size in {x}")
    return (x,)


def _group(values: Sequence[Array | None], attrs: Attrs) -> tuple[Array, ...]:
    x, groups = wide(values[0]), integer(attrs, "num_groups")
    with np.errstate(all="ignore"):
        rows = x.reshape(x.shape[0], groups, -1)
        normal = centred(rows, (2,), number(attrs, "epsilon")).reshape(x.shape)
        out = affine(normal, values, (1, -1, *(1,) * (x.ndim - 2)))
        return (out.astype(dtype_of(values)),)


def _group_body(b: Builder, x: Sequence[str], attrs: Attrs) -> tuple[str, ...]:
    shape = b.type_of(x[0]).shape or ()
    back = (0, *(d if isinstance(d, int) else -1 for d in shape[1:]))
    rows = b.op("Reshape", x[0], shape=(0, integer(attrs, "num_groups"), -1))
    normal = b.op("Reshape", normal_body(b, rows, (2,), number(attrs, "epsilon")), shape=back)
    return (scaled(b, normal, ["", per_channel(b, x[0], x[1]), per_channel(b, x[0], x[2])]),)


composite(
    "GroupNormalization",
    (3, 3),
    _group,
    _group_body,
    (EPSILON, Attr("num_groups", "int"), STASH),
    infer=_group_infer,
)


def _mean_variance(values: Sequence[Array | None], attrs: Attrs) -> tuple[Array, ...]:
    x, axes = wide(values[0]), integers(attrs, "axes")
    with np.errstate(all="ignore"):
        distance = x - x.mean(axis=axes, keepdims=True, dtype=x.dtype)
        variance = np.mean(distance * distance, axis=axes, keepdims=True, dtype=x.dtype)
        out = distance / (np.sqrt(variance) + x.dtype.type(_MVN_EPSILON))
        return (np.asarray(out).astype(dtype_of(values)),)


_MVN_EPSILON = 1e-9


def _mean_variance_body(b: Builder, x: Sequence[str], attrs: Attrs) -> tuple[str, ...]:
    axes = integers(attrs, "axes")
    distance = b.op("Sub", x[0], b.op("ReduceMean", x[0], axes=axes, keepdims=1))
    variance = b.op("ReduceMean", b.op("Mul", distance, distance), axes=axes, keepdims=1)
    deviation = b.op("Add", b.op("Sqrt", variance), scalar_like(b, x[0], _MVN_EPSILON))
    return (b.op("Div", distance, deviation),)


def _channel_free(_types: Types, attrs: dict[str, AttrValue]) -> dict[str, AttrValue]:
    return {"axes": (0, 2, 3), **attrs}


composite(
    "MeanVarianceNormalization",
    (1, 1),
    _mean_variance,
    _mean_variance_body,
    (Attr("axes", "ints", axis_of="operand"),),
    complete=_channel_free,
)


NORMS = (2, 1)


def _lp_infer(types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
    if integer(attrs, "p") not in NORMS:
        raise TypeRuleError(f"LpNormalization: p must be 1 or 2, not {attrs['p']!r}")
    return (first(types),)


def _lp(values: Sequence[Array | None], attrs: Attrs) -> tuple[Array, ...]:
    x, axis, p = wide(values[0]), integer(attrs, "axis"), integer(attrs, "p")
    with np.errstate(all="ignore"):
        size: Array = np.abs(x) if p == 1 else x * x
        total: Array = size.sum(axis=axis, keepdims=True)
        norm: Array = total if p == 1 else np.sqrt(total)
        divisor: Array = np.where(norm == 0, x.dtype.type(1), norm)
        return (np.asarray(x / divisor).astype(dtype_of(values)),)


def _lp_body(b: Builder, x: Sequence[str], attrs: Attrs) -> tuple[str, ...]:
    """A group of zeros stays zero: its norm is taken as 1."""
    p, axes = integer(attrs, "p"), (integer(attrs, "axis"),)
    norm = b.op(f"ReduceL{p}", x[0], axes=axes, keepdims=1)
    zero, one = scalar_like(b, x[0], 0.0), scalar_like(b, x[0], 1.0)
    return (b.op("Div", x[0], b.op("Where", b.op("Equal", norm, zero), one, norm)),)


composite(
    "LpNormalization",
    (1, 1),
    _lp,
    _lp_body,
    (AXIS, Attr("p", "int", 2, values=NORMS)),
    infer=_lp_infer,
)


def _borders(attrs: Attrs) -> tuple[int, int]:
    """How many channels before and after belong to a window."""
    size = integer(attrs, "size")
    return (size - 1) // 2, size // 2


def _lrn_infer(types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
    x = first(types)
    _channels(x, attrs)
    return (x,)


def _channels(x: TensorType, attrs: Attrs) -> int:
    """Return the number of channels, which the body must know; TypeRuleError if it is not."""
    size = integer(attrs, "size")
    channels = x.shape[1] if x.shape is not None and len(x.shape) > 1 else None
    if size < 1 or not isinstance(channels, int):
        raise TypeRuleError(f"LRN: a window of {size} channels of {x}, whose number must be known")
    return channels


def _lrn(values: Sequence[Array | None], attrs: Attrs) -> tuple[Array, ...]:
    x, (before, after) = wide(values[0]), _borders(attrs)
    grown = [(0, 0)] * x.ndim
    grown[1] = (before, after)
    with np.errstate(all="ignore"):
        squares = np.pad(x * x, grown)
        windows = np.lib.stride_tricks.sliding_window_view(squares, integer(attrs, "size"), 1)
        alpha, beta, bias = (number(attrs, n) for n in ("alpha", "beta", "bias"))
        base = windows.sum(axis=-1) * (alpha / integer(attrs, "size")) + bias
        return (np.asarray(x / np.power(base, beta)).astype(dtype_of(values)),)


def _lrn_body(b: Builder, x: Sequence[str], attrs: Attrs) -> tuple[str, ...]:
    """Sum the window's slices of the padded squares."""
    size, (before, after), rank = integer(attrs, "size"), _borders(attrs), rank_of(b, x[0])
    channels = _channels(b.type_of(x[0]), attrs)
    pads = (0, before, *(0,) * (rank - 2), 0, after, *(0,) * (rank - 2))
    squares = b.op("Pad", b.op("Mul", x[0], x[0]), pads=pads)
    total = _window(b, squares, 0, channels)
    for start in range(1, size):
        total = b.op("Add", total, _window(b, squares, start, channels))
    share = float(Fraction(repr(number(attrs, "alpha"))) / size)  # nearest to what it means
    scale = b.op("Mul", total, scalar_like(b, x[0], share))
    base = b.op("Add", scale, scalar_like(b, x[0], number(attrs, "bias")))
    power = b.op("Pow", base, scalar_like(b, x[0], number(attrs, "beta")))
    return (b.op("Div", x[0], power),)


def _window(b: Builder, x: str, start: int, length: int) -> str:
    return b.op("Slice", x, starts=(start,), ends=(start + length,), axes=(1,), steps=(1,))


composite(
    "LRN",
    (1, 1),
    _lrn,
    _lrn_body,
    (
        Attr("alpha", "float", 1e-4),
        Attr("beta", "float", 0.75),
        Attr("bias", "float", 1.0),
        Attr("size", "int"),
    ),
    infer=_lrn_infer,
)
