"""Normalisations over trailing axes, channels, groups and windows, with their bodies."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from egraph_fusion.ir.dims import Shape
from egraph_fusion.ir.graph import Array, Attrs
from egraph_fusion.ir.ops.composite import (
    AXIS,
    EPSILON,
    STASH,
    common_dtype,
    composite,
    dtype_of,
    in_common_dtype,
    rank_of,
    scalar_like,
    wide,
    widest,
)
from egraph_fusion.ir.ops.operator import Attr, Builder, MappingType, fixed_mapping
from egraph_fusion.ir.ops.reading import (
    TypeRuleError,
    Types,
    first,
    integer,
    known_shape,
    must_be_vector,
    must_broadcast_into,
    normal_axis,
    number,
)
from egraph_fusion.ir.tensors import TensorType


def _tail_axes(rank: int, attrs: Attrs) -> tuple[int, ...]:
    return tuple(range(normal_axis(integer(attrs, "axis"), rank), rank))


def centred(x: Array, axes: tuple[int, ...], epsilon: float) -> Array:
    """Return (x - mean) / sqrt(variance + epsilon) over `axes`."""
    mean = x.mean(axis=axes, keepdims=True, dtype=x.dtype)
    distance = x - mean
    variance = np.mean(distance * distance, axis=axes, keepdims=True, dtype=x.dtype)
    return np.asarray(distance / np.sqrt(variance + x.dtype.type(epsilon)))


def affine(x: Array, values: Sequence[Array | None], shape: tuple[int, ...] | None = None) -> Array:
    """Multiply by operand 1 and add operand 2, each reshaped to broadcast as `shape`."""
    out = x
    for position, join in ((1, np.multiply), (2, np.add)):
        value = values[position] if position < len(values) else None
        if value is not None:
            wide_value = value.astype(x.dtype)
            out = join(out, wide_value if shape is None else wide_value.reshape(shape))
    return np.asarray(out)


def _layer_norm(values: Sequence[Array | None], attrs: Attrs) -> tuple[Array, ...]:
    x = wide(values[0])
    with np.errstate(all="ignore"):
        normal = centred(x, _tail_axes(x.ndim, attrs), number(attrs, "epsilon"))
        return (affine(normal, values).astype(dtype_of(values)),)


def normal_body(b: Builder, x: str, axes: tuple[int, ...], epsilon: float) -> str:
    """Return (x - mean) / sqrt(variance + epsilon) over `axes`."""
    centred = b.op("Sub", x, b.op("ReduceMean", x, axes=axes, keepdims=1))
    variance = b.op("ReduceMean", b.op("Mul", centred, centred), axes=axes, keepdims=1)
    deviation = b.op("Sqrt", b.op("Add", variance, scalar_like(b, x, epsilon)))
    return b.op("Div", centred, deviation)


def scaled(b: Builder, x: str, operands: Sequence[str]) -> str:
    """Return x times operand 1 plus operand 2, where they are present."""
    out = x
    for position, op in ((1, "Mul"), (2, "Add")):
        if position < len(operands) and operands[position]:
            out = b.op(op, out, operands[position])
    return out


def _layer_norm_body(b: Builder, x: Sequence[str], attrs: Attrs) -> tuple[str, ...]:
    axes = _tail_axes(rank_of(b, x[0]), attrs)
    return (scaled(b, normal_body(b, x[0], axes, number(attrs, "epsilon")), x),)


def _layer_norm_infer(types: Types, _attrs: Attrs) -> tuple[TensorType, ...]:
    common_dtype("LayerNormalization", types)
    for i in (1, 2):
        must_broadcast_into("LayerNormalization", known_shape(types, i), first(types).shape)
    return (first(types),)


composite(
    "LayerNormalization",
    (2, 3),
    _layer_norm,
    _layer_norm_body,
    (AXIS, EPSILON, STASH),
    infer=_layer_norm_infer,
)


def _rms_norm(values: Sequence[Array | None], attrs: Attrs) -> tuple[Array, ...]:
    x = wide(values[0])
    axes = _tail_axes(x.ndim, attrs)
    with np.errstate(all="ignore"):
        square = np.mean(x * x, axis=axes, keepdims=True, dtype=x.dtype)
        normal = x / np.sqrt(square + x.dtype.type(number(attrs, "epsilon")))
        return (affine(normal, values).astype(dtype_of(values)),)


def _rms_norm_body(b: Builder, x: Sequence[str], attrs: Attrs) -> tuple[str, ...]:
    axes = _tail_axes(rank_of(b, x[0]), attrs)
    square = b.op("ReduceMean", b.op("Mul", x[0], x[0]), axes=axes, keepdims=1)
    epsilon = scalar_like(b, x[0], number(attrs, "epsilon"))
    return (scaled(b, b.op("Div", x[0], b.op("Sqrt", b.op("Add", square, epsilon))), x),)


def _rms_norm_infer(types: Types, _attrs: Attrs) -> tuple[TensorType, ...]:
    # Of operands that differ, ONNX's schema and its reference do not agree on the result.
    common_dtype("RMSNormalization", types)
    must_broadcast_into("RMSNormalization", known_shape(types, 1), first(types).shape)
    return (first(types),)


composite(
    "RMSNormalization",
    (2, 2),
    _rms_norm,
    _rms_norm_body,
    (AXIS, EPSILON, STASH),
    infer=_rms_norm_infer,
)


def per_channel(b: Builder, x: str, operand: str) -> str:
    """Reshape a vector of channels to broadcast along axis 1 of `x`."""
    rank = rank_of(b, x)
    return b.op("Unsqueeze", operand, axes=tuple(range(1, rank - 1))) if rank > 2 else operand


def _batch_norm(values: Sequence[Array | None], attrs: Attrs) -> tuple[Array, ...]:
    x, *vectors = widest(values)
    shape = (1, -1, *(1,) * (x.ndim - 2)) if x.ndim > 1 else (-1,)
    scale, bias, mean, variance = (v.reshape(shape) for v in vectors)
    with np.errstate(all="ignore"):
        deviation = np.sqrt(variance + x.dtype.type(number(attrs, "epsilon")))
        return ((scale * (x - mean) / deviation + bias).astype(dtype_of(values)),)


def _batch_norm_body(b: Builder, x: Sequence[str], attrs: Attrs) -> tuple[str, ...]:
    scale, bias, mean, variance = (per_channel(b, x[0], v) for v in x[1:])
    epsilon = scalar_like(b, x[4], number(attrs, "epsilon"))
    factor = b.op("Div", scale, b.op("Sqrt", b.op("Add", variance, epsilon)))
    return (b.op("Add", b.op("Mul", b.op("Sub", x[0], mean), factor), bias),)


def _batch_norm_infer(types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
    x = first(types)
    if attrs.get("training_mode", 0):
        raise TypeRuleError("BatchNormalization: training is not computed on")
    common_dtype("BatchNormalization", types, mixed=True)
    for i in range(1, 5):
        check_channels("BatchNormalization", x.shape, known_shape(types, i), least=1)
    return (x,)


def check_channels(name: str, x: Shape | None, vector: Shape | None, least: int = 2) -> None:
    """Raise TypeRuleError unless `vector` can hold one value for each channel of `x`.

    An operand of rank 1, if `least` allows for it, has one channel.
    """
    if x is not None and len(x) < least:
        raise TypeRuleError(f"{name}: an operand of rank {len(x)}, expected {least} or more")
    channels = None if x is None else x[1] if len(x) > 1 else 1
    must_be_vector(name, vector, channels)


composite(
    "BatchNormalization",
    (5, 5),
    _batch_norm,
    in_common_dtype("BatchNormalization", _batch_norm_body),
    (EPSILON, Attr("momentum", "float", 0.9), Attr("training_mode", "int", 0, values=(0,))),
    infer=_batch_norm_infer,
    mapping=fixed_mapping(MappingType.ONE_TO_ONE),
)


def _instance_norm(values: Sequence[Array | None], attrs: Attrs) -> tuple[Array, ...]:
    x = wide(values[0])
    with np.errstate(all="ignore"):
        normal = centred(x, tuple(range(2, x.ndim)), number(attrs, "epsilon"))
        out = affine(normal, values, (1, -1, *(1,) * (x.ndim - 2)))
        return (out.astype(dtype_of(values)),)


def _instance_norm_body(b: Builder, x: Sequence[str], attrs: Attrs) -> tuple[str, ...]:
    axes = tuple(range(2, rank_of(b, x[0])))
    normal = normal_body(b, x[0], axes, number(attrs, "epsilon"))
    return (scaled(b, normal, ["", per_channel(b, x[0], x[1]), per_channel(b, x[0], x[2])]),)


def _instance_norm_infer(types: Types, _attrs: Attrs) -> tuple[TensorType, ...]:
    common_dtype("InstanceNormalization", types)
    for i in (1, 2):
        check_channels("InstanceNormalization", first(types).shape, known_shape(types, i))
    return (first(types),)


composite(
    "InstanceNormalization",
    (3, 3),
    _instance_norm,
    _instance_norm_body,
    (EPSILON,),
    infer=_instance_norm_infer,
)
