"""Operators that read a shape, or fill and mask by index: Shape, Size, EyeLike and Trilu."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from egraph_fusion.ir.graph import Array, Attrs
from egraph_fusion.ir.ops.operator import (
    Attr,
    Indices,
    Kind,
    Law,
    MappingType,
    Operator,
    Piece,
    fixed_mapping,
    no_flops,
    register,
    switch,
)
from egraph_fusion.ir.ops.reading import TypeRuleError, Types, first, integer
from egraph_fusion.ir.tensors import DType, TensorType

MANY = fixed_mapping(MappingType.MANY_TO_MANY)
DIAGONAL = Attr("k", "int", 0, values=(0, 1, -1, 2))


def _picked(attrs: Attrs) -> slice:
    end = attrs.get("end")
    return slice(integer(attrs, "start"), None if end is None else integer(attrs, "end"))


def _shape_infer(types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
    shape = first(types).shape
    if shape is None:
        raise TypeRuleError("Shape: the operand's rank is unknown")
    return (TensorType(DType.INT64, (len(shape[_picked(attrs)]),)),)


def _operand(values: Sequence[Array | None]) -> Array:
    if values[0] is None:
        raise TypeRuleError("the first operand is missing")
    return values[0]


def _shape(values: Sequence[Array | None], attrs: Attrs) -> tuple[Array, ...]:
    return (np.array(_operand(values).shape[_picked(attrs)], dtype=np.int64),)


def _size(values: Sequence[Array | None], _attrs: Attrs) -> tuple[Array, ...]:
    return (np.asarray(_operand(values).size, dtype=np.int64),)


# No element of the operand is read, so nothing is gained by fusing these: they bar fusion.
register(
    Operator(
        name="Shape",
        kind=Kind.OTHER,
        arity=(1, 1),
        infer=_shape_infer,
        evaluate=_shape,
        mapping=MANY,
        flops=no_flops,
        attrs=(Attr("start", "int", 0), Attr("end", "int")),
        result=DType.INT64,
    )
)
register(
    Operator(
        name="Size",
        kind=Kind.OTHER,
        arity=(1, 1),
        infer=lambda _types, _attrs: (TensorType(DType.INT64, ()),),
        evaluate=_size,
        mapping=MANY,
        flops=no_flops,
        result=DType.INT64,
    )
)


def _eye_infer(types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
    x = first(types)
    if x.shape is not None and len(x.shape) != 2:
        raise TypeRuleError(f"EyeLike: the operand {x} is no matrix")
    return (TensorType(DType(str(attrs["dtype"])) if attrs["dtype"] else x.dtype, x.shape),)


def _eye(values: Sequence[Array | None], attrs: Attrs) -> tuple[Array, ...]:
    x = _operand(values)
    dtype = DType(str(attrs["dtype"])).numpy if attrs["dtype"] else x.dtype
    return (np.eye(x.shape[0], x.shape[1], k=integer(attrs, "k"), dtype=dtype),)


def _eye_pull(
    ix: Indices, _out: int, index: Sequence[Any], _i: Types, _o: Sequence[TensorType], attrs: Attrs
) -> tuple[Piece, ...]:
    row, column = index
    diagonal = row + integer(attrs, "k")
    on = ix.both(ix.ge(column, diagonal), ix.lt(column, diagonal + 1))
    return (Piece(None, (), on, value=1.0), Piece(None, ()))


register(
    Operator(
        name="EyeLike",
        kind=Kind.MOVEMENT,
        arity=(1, 1),
        infer=_eye_infer,
        evaluate=_eye,
        mapping=fixed_mapping(MappingType.ONE_TO_ONE),
        flops=no_flops,
        attrs=(Attr("dtype", "str", "", values=("", "float32", "int64")), DIAGONAL),
        laws=Law.INTEGER,
        pull=_eye_pull,
        result="other",
        keeps_rank=True,
    )
)


def _trilu_infer(types: Types, _attrs: Attrs) -> tuple[TensorType, ...]:
    x = first(types)
    if x.shape is not None and len(x.shape) < 2:
        raise TypeRuleError(f"Trilu: the operand {x} holds no matrices")
    return (x,)


def _trilu(values: Sequence[Array | None], attrs: Attrs) -> tuple[Array, ...]:
    x, k = _operand(values), integer(attrs, "k")
    kept = np.tri(x.shape[-2], x.shape[-1], k - 1 if attrs["upper"] else k, dtype=bool)
    return (np.where(~kept if attrs["upper"] else kept, x, np.zeros((), x.dtype)),)


def _trilu_pull(
    ix: Indices, _out: int, index: Sequence[Any], _i: Types, _o: Sequence[TensorType], attrs: Attrs
) -> tuple[Piece, ...]:
    row, column, k = index[-2], index[-1], integer(attrs, "k")
    kept = ix.ge(column, row + k) if attrs["upper"] else ix.lt(column, row + (k + 1))
    return (Piece(0, tuple(index), kept), Piece(None, ()))


register(
    Operator(
        name="Trilu",
        kind=Kind.MOVEMENT,
        arity=(1, 1),
        infer=_trilu_infer,
        evaluate=_trilu,
        mapping=fixed_mapping(MappingType.ONE_TO_ONE),
        flops=no_flops,
        attrs=(switch("upper", 1), DIAGONAL),
        pull=_trilu_pull,
        keeps_rank=True,
    )
)
