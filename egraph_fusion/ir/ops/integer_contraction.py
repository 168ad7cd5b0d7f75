"""Contractions of integers with zero points: MatMulInteger and ConvInteger."""

from __future__ import annotations

from collections.abc import Sequence

from egraph_fusion.ir.graph import Attrs
from egraph_fusion.ir.ops.composite import composite, rank_of
from egraph_fusion.ir.ops.convolution import CONV
from egraph_fusion.ir.ops.operator import OPERATORS, Builder, Kind, TypeRule
from egraph_fusion.ir.ops.quantization import through_body
from egraph_fusion.ir.ops.reading import (
    TypeRuleError,
    Types,
    known_shape,
    must_be_vector,
    must_broadcast_into,
)
from egraph_fusion.ir.tensors import DType, TensorType


def _as_int32(name: str) -> TypeRule:
    """Return the type rule of `name` applied to the same operands widened to int32."""

    def infer(types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        for kind in types:
            if kind is not None and kind.dtype not in (DType.INT8, DType.UINT8):
                raise TypeRuleError(f"{name}Integer: an operand is {kind}, expected 8-bit integers")
            if kind is not None and kind.shape is None:
                raise TypeRuleError(f"{name}Integer: operands must have known rank")
        _check_zero_points(name, types)
        wide = [None if t is None else TensorType(DType.INT32, t.shape) for t in types[:2]]
        return OPERATORS[name].infer(wide, attrs)

    return infer


def _check_zero_points(name: str, types: Types) -> None:
    """Refuse zero points that are neither numbers nor one for each row, column or filter."""
    for operand in (0, 1):
        zero, whole = known_shape(types, operand + 2), known_shape(types, operand)
        if not zero or whole is None:
            continue
        if name == "Conv":
            must_be_vector("ConvInteger", zero, whole[0] if operand and zero[0] != 1 else 1)
        elif zero != (1,):
            rows = operand == 0 and len(zero) == 1
            must_broadcast_into("MatMulInteger", (*zero, 1) if rows else zero, whole)


def _centred(b: Builder, x: Sequence[str], operand: int, axes: tuple[int, ...]) -> str:
    """Return an operand less its zero point, which `axes` align if it is a vector."""
    value = b.op("Cast", x[operand], to="int32")
    zero = x[operand + 2] if operand + 2 < len(x) else ""
    if not zero:
        return value
    shape = b.type_of(zero).shape or ()
    point = b.op("Cast", zero, to="int32")
    if shape == (1,):
        point = b.op("Squeeze", point, axes=(0,))
    elif len(shape) == 1 and axes:
        point = b.op("Unsqueeze", point, axes=axes)
    return b.op("Sub", value, point)


def _matmul_body(b: Builder, x: Sequence[str], _attrs: Attrs) -> tuple[str, ...]:
    return (b.op("MatMul", _centred(b, x, 0, (1,)), _centred(b, x, 1, ())),)


def _conv_body(b: Builder, x: Sequence[str], attrs: Attrs) -> tuple[str, ...]:
    taps = tuple(range(1, rank_of(b, x[1])))
    return (b.op("Conv", _centred(b, x, 0, ()), _centred(b, x, 1, taps), **attrs),)


composite(
    "MatMulInteger",
    (2, 4),
    through_body("MatMulInteger"),
    _matmul_body,
    (),
    infer=_as_int32("MatMul"),
    result=DType.INT32,
    keeps_rank=False,
    kind=Kind.CONTRACTION,
)
composite(
    "ConvInteger",
    (2, 4),
    through_body("ConvInteger"),
    _conv_body,
    CONV.attrs,
    infer=_as_int32("Conv"),
    result=DType.INT32,
    kind=Kind.CONTRACTION,
    complete=CONV.complete,
)
