"""Quantisation: between floats and 8- or 16-bit integers with a scale and a zero point."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from egraph_fusion.ir.dims import product
from egraph_fusion.ir.graph import Array, Attrs
from egraph_fusion.ir.ops.composite import composite, rank_of
from egraph_fusion.ir.ops.operator import (
    Attr,
    Builder,
    Evaluate,
    Kind,
    Law,
    MappingType,
    fixed_mapping,
    switch,
)
from egraph_fusion.ir.ops.reading import (
    TypeRuleError,
    Types,
    first,
    integer,
    known_shape,
    must_be_vector,
    types_of,
)
from egraph_fusion.ir.ops.tracing import evaluate_body
from egraph_fusion.ir.tensors import DType, TensorType

ONE_TO_ONE = fixed_mapping(MappingType.ONE_TO_ONE)
QUANTIZED = (DType.INT8, DType.UINT8, DType.INT16, DType.UINT16)
BLOCK = Attr("block_size", "int", 0, values=(0,))
ZERO_POINTS = (*QUANTIZED, DType.INT32)


def through_body(name: str) -> Evaluate:
    """Return the numpy meaning that is the body's."""

    def evaluate(values: Sequence[Array | None], attrs: Attrs) -> tuple[Array, ...]:
        return evaluate_body(name, types_of(values), values, attrs)

    return evaluate


def _check_scale(types: Types, attrs: Attrs, name: str) -> None:
    """Refuse scales that are neither one value nor one value for each index of the axis."""
    x, scale = known_shape(types, 0), known_shape(types, 1)
    if integer(attrs, "block_size"):
        raise TypeRuleError(f"{name}: blocked scales are not computed on")
    if x is None or scale is None:
        raise TypeRuleError(f"{name}: operands must have known rank")
    if len(scale) > 1:
        raise TypeRuleError(f"{name}: a scale of rank {len(scale)}, expected 0 or 1")
    if scale and scale[0] != 1 and not -len(x) <= integer(attrs, "axis") < len(x):
        raise TypeRuleError(f"{name}: axis {integer(attrs, 'axis')} is outside rank {len(x)}")
    if scale and scale[0] != 1:
        must_be_vector(name, scale, x[integer(attrs, "axis")])
    zero = known_shape(types, 2)
    if zero is not None and product(zero) != product(scale):
        raise TypeRuleError(f"{name}: a scale of shape {scale}, and a zero point of {zero}")


def _along(b: Builder, x: str, vector: str, attrs: Attrs) -> str:
    """Reshape a vector of scales to broadcast along the quantised axis of `x`."""
    shape, rank = b.type_of(vector).shape, rank_of(b, x)
    if not shape:
        return vector
    if shape[0] == 1:
        return b.op("Squeeze", vector, axes=(0,))
    after = rank - 1 - integer(attrs, "axis") % rank
    return b.op("Unsqueeze", vector, axes=tuple(range(1, after + 1))) if after else vector


def _quantized_dtype(types: Types, attrs: Attrs) -> DType:
    zero = types[2] if len(types) > 2 else None
    if zero is not None:
        return zero.dtype
    return DType(str(attrs["output_dtype"])) if attrs["output_dtype"] else DType.UINT8


def _quantize_infer(types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
    _check_scale(types, attrs, "QuantizeLinear")
    dtype, x = _quantized_dtype(types, attrs), first(types)
    if dtype not in QUANTIZED or x.dtype not in (DType.FLOAT32, DType.INT32):
        raise TypeRuleError(f"QuantizeLinear: {x} to {dtype.value} is not computed on")
    return (TensorType(dtype, x.shape),)


def _quantize_body(b: Builder, x: Sequence[str], attrs: Attrs) -> tuple[str, ...]:
    types = tuple(b.type_of(v) if v else None for v in x)
    dtype = _quantized_dtype(types, attrs)
    scale = b.op("Cast", _along(b, x[0], x[1], attrs), to="float32")
    real = b.op("Cast", x[0], to="float32") if b.type_of(x[0]).dtype is DType.INT32 else x[0]
    steps = b.op("Round", b.op("Div", real, scale))
    if len(x) > 2 and x[2]:
        zero = b.op("Cast", _along(b, x[0], x[2], attrs), to="float32")
        steps = b.op("Add", steps, zero)
    limits = np.iinfo(dtype.numpy)
    low, high = (b.const(np.asarray(v, np.float32)) for v in (limits.min, limits.max))
    return (b.op("Cast", b.op("Clip", steps, low, high), to=dtype.value),)


composite(
    "QuantizeLinear",
    (2, 3),
    through_body("QuantizeLinear"),
    _quantize_body,
    (
        Attr("axis", "int", 1),
        BLOCK,
        Attr("output_dtype", "str", "", values=("", *(d.value for d in QUANTIZED))),
        Attr("precision", "str", "", values=("",)),
        switch("saturate", 1),
    ),
    infer=_quantize_infer,
    result="other",
    mapping=ONE_TO_ONE,
    kind=Kind.OTHER,
)


def _dequantize_infer(types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
    _check_scale(types, attrs, "DequantizeLinear")
    x, scale = first(types), types[1]
    if x.dtype not in ZERO_POINTS or scale is None or not scale.dtype.is_float:
        raise TypeRuleError(f"DequantizeLinear: {x} by {scale} is not computed on")
    wanted = str(attrs["output_dtype"])
    return (TensorType(DType(wanted) if wanted else scale.dtype, x.shape),)


def _dequantize_body(b: Builder, x: Sequence[str], attrs: Attrs) -> tuple[str, ...]:
    scale = _along(b, x[0], x[1], attrs)
    dtype = str(attrs["output_dtype"]) or b.type_of(scale).dtype.value
    steps = b.op("Cast", x[0], to="int32")
    if len(x) > 2 and x[2]:
        zero = b.op("Cast", _along(b, x[0], x[2], attrs), to="int32")
        steps = b.op("Sub", steps, zero)
    real = b.op("Mul", b.op("Cast", steps, to="float32"), b.op("Cast", scale, to="float32"))
    return (real if dtype == "float32" else b.op("Cast", real, to=dtype),)


composite(
    "DequantizeLinear",
    (2, 3),
    through_body("DequantizeLinear"),
    _dequantize_body,
    (
        Attr("axis", "int", 1),
        BLOCK,
        Attr("output_dtype", "str", "", values=("", "float32", "float16")),
    ),
    infer=_dequantize_infer,
    laws=Law.INTEGER_PRESERVING,
    result="other",
    mapping=ONE_TO_ONE,
    kind=Kind.OTHER,
)


def _dynamic_infer(types: Types, _attrs: Attrs) -> tuple[TensorType, ...]:
    x = first(types)
    if x.dtype is not DType.FLOAT32 or x.shape is None:
        raise TypeRuleError(f"DynamicQuantizeLinear: the operand is {x}, expected float32")
    return (
        TensorType(DType.UINT8, x.shape),
        TensorType(DType.FLOAT32, ()),
        TensorType(DType.UINT8, ()),
    )


def _dynamic_body(b: Builder, x: Sequence[str], _attrs: Attrs) -> tuple[str, ...]:
    """The range, widened to hold 0, in 255 steps."""
    axes = tuple(range(rank_of(b, x[0])))
    zero, steps = (b.const(np.asarray(v, np.float32)) for v in (0.0, 255.0))
    low = b.op("Min", b.op("ReduceMin", x[0], axes=axes, keepdims=0), zero)
    high = b.op("Max", b.op("ReduceMax", x[0], axes=axes, keepdims=0), zero)
    scale = b.op("Div", b.op("Sub", high, low), steps)
    shift = b.op("Round", b.op("Clip", b.op("Neg", b.op("Div", low, scale)), zero, steps))
    point = b.op("Cast", shift, to="uint8")
    return (b.op("QuantizeLinear", x[0], scale, point), scale, point)


composite(
    "DynamicQuantizeLinear",
    (1, 1),
    through_body("DynamicQuantizeLinear"),
    _dynamic_body,
    (),
    infer=_dynamic_infer,
    result="other",
    mapping=fixed_mapping(MappingType.MANY_TO_MANY),
    outputs=3,
    kind=Kind.OTHER,
)
