"""Operators that walk along one axis: ArgMax, ArgMin and CumSum."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from egraph_fusion.ir.dims import Dim, floordiv
from egraph_fusion.ir.graph import Array, Attrs
from egraph_fusion.ir.ops.operator import (
    Attr,
    Kind,
    Law,
    MappingType,
    Operator,
    fixed_mapping,
    register,
    switch,
)
from egraph_fusion.ir.ops.reading import TypeRuleError, Types, first, integer
from egraph_fusion.ir.ops.reduction import reduced_shape
from egraph_fusion.ir.ops.scalars_numpy import accumulator
from egraph_fusion.ir.tensors import DType, TensorType

MANY = fixed_mapping(MappingType.MANY_TO_MANY)


def _arg_infer(types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
    axis, keepdims = integer(attrs, "axis"), integer(attrs, "keepdims")
    return (TensorType(DType.INT64, reduced_shape(first(types).shape, [axis], keepdims)),)


def _arg_flops(ins: Types, outs: Sequence[TensorType], _attrs: Attrs) -> Dim:
    size, results = first(ins).size, outs[0].size
    return 0 if size is None or results is None or size == 0 else size - results


def _arg_evaluate(largest: bool, values: Sequence[Array | None], attrs: Attrs) -> tuple[Array, ...]:
    x = values[0]
    if x is None:
        raise TypeRuleError("the first operand is missing")
    axis, keepdims = integer(attrs, "axis"), bool(attrs["keepdims"])
    find = np.argmax if largest else np.argmin
    if attrs["select_last_index"]:
        found = x.shape[axis] - 1 - find(np.flip(x, axis), axis=axis, keepdims=keepdims)
    else:
        found = find(x, axis=axis, keepdims=keepdims)
    return (np.asarray(found, dtype=np.int64),)


def _arg_operator(name: str, largest: bool) -> Operator:
    return register(
        Operator(
            name=name,
            kind=Kind.REDUCTION,
            arity=(1, 1),
            infer=_arg_infer,
            evaluate=lambda values, attrs: _arg_evaluate(largest, values, attrs),
            mapping=MANY,
            flops=_arg_flops,
            attrs=(
                Attr("axis", "int", 0, axis_of="operand"),
                switch("keepdims", 1),
                switch("select_last_index"),
            ),
            result=DType.INT64,
        )
    )


_arg_operator("ArgMax", largest=True)
_arg_operator("ArgMin", largest=False)


def _same_type(types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
    integer(attrs, "axis")
    return (first(types),)


def _cumsum(values: Sequence[Array | None], attrs: Attrs) -> tuple[Array, ...]:
    x, axis = values[0], integer(attrs, "axis")
    if x is None:
        raise TypeRuleError("the first operand is missing")
    turned = np.flip(x, axis) if attrs["reverse"] else x
    total = np.cumsum(turned, axis=axis, dtype=accumulator(x.dtype))
    if attrs["exclusive"]:
        lines = np.moveaxis(total, axis, 0)
        shifted = np.concatenate([np.zeros_like(lines[:1]), lines[:-1]])
        total = np.moveaxis(shifted, 0, axis)
    out = np.flip(total, axis) if attrs["reverse"] else total
    return (np.ascontiguousarray(out).astype(x.dtype),)


def _cumsum_flops(ins: Types, _outs: Sequence[TensorType], attrs: Attrs) -> Dim:
    x = first(ins)
    if x.shape is None or x.size is None:
        return 0
    length = x.shape[integer(attrs, "axis")]
    return 0 if x.size == 0 else x.size - floordiv(x.size, length)


register(
    Operator(
        name="CumSum",
        laws=Law.INTEGER_PRESERVING,
        kind=Kind.OTHER,
        arity=(1, 1),
        infer=_same_type,
        evaluate=_cumsum,
        mapping=MANY,
        flops=_cumsum_flops,
        attrs=(
            Attr("axis", "int", axis_of="operand"),
            switch("exclusive"),
            switch("reverse"),
        ),
        keeps_rank=True,
    )
)
