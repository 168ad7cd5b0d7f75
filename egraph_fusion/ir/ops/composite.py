"""Composites: operators whose meaning is a body of other declared operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from egraph_fusion.ir.graph import Array, Attrs
from egraph_fusion.ir.ops.operator import (
    Attr,
    Body,
    Builder,
    Complete,
    Evaluate,
    IntervalRule,
    Kind,
    Law,
    MappingRule,
    MappingType,
    Operator,
    ResultDType,
    TypeRule,
    fixed_mapping,
    register,
)
from egraph_fusion.ir.ops.reading import TypeRuleError, Types, first
from egraph_fusion.ir.ops.scalars_numpy import accumulator
from egraph_fusion.ir.ops.tracing import body_flops
from egraph_fusion.ir.tensors import DType, TensorType

AXIS = Attr("axis", "int", -1, axis_of="operand")
EPSILON = Attr("epsilon", "float", 1e-5)
STASH = Attr("stash_type", "int", 1, values=(1, 10, 16))
MANY = fixed_mapping(MappingType.MANY_TO_MANY)


def same_type(types: Types, _attrs: Attrs) -> tuple[TensorType, ...]:
    """The result has the first operand's type, of floating-point numbers."""
    if not first(types).dtype.is_float:
        raise TypeRuleError(f"{first(types)} is not computed on")
    return (first(types),)


def composite(
    name: str,
    arity: tuple[int, int],
    evaluate: Evaluate,
    body: Body,
    attrs: tuple[Attr, ...],
    *,
    infer: TypeRule = same_type,
    mapping: MappingRule = MANY,
    laws: Law = Law.NONE,
    interval: IntervalRule | None = None,
    complete: Complete | None = None,
    outputs: int | None = 1,
    kind: Kind = Kind.NORMALIZATION,
    result: ResultDType = "operands",
    keeps_rank: bool = True,
) -> Operator:
    """Declare an operator whose operations are those of its body."""
    return register(
        Operator(
            name=name,
            kind=kind,
            arity=arity,
            infer=infer,
            evaluate=evaluate,
            mapping=mapping,
            flops=body_flops(name),
            attrs=attrs,
            laws=laws,
            body=body,
            interval=interval,
            complete=complete,
            outputs=outputs,
            result=result,
            keeps_rank=keeps_rank,
        )
    )


def common_dtype(name: str, types: Types, mixed: bool = False) -> DType:
    """Return the floating-point dtype that an operator computes its operands in, the widest.

    Raises TypeRuleError if one is no float, or if they differ and may not be `mixed`.
    """
    found = [t.dtype for t in types if t is not None]
    if not all(d.is_float for d in found) or (len(set(found)) > 1 and not mixed):
        raise TypeRuleError(f"{name} of {', '.join(map(str, found))} is not computed on")
    size = max(d.itemsize for d in found)
    largest = {d for d in found if d.itemsize == size}
    return largest.pop() if len(largest) == 1 else DType.FLOAT32  # bfloat16 beside float16


def in_common_dtype(name: str, body: Body) -> Body:
    """Return a body for operands of several dtypes: cast to the widest, and back to the first's."""

    def mixed(b: Builder, x: Sequence[str], attrs: Attrs) -> tuple[str, ...]:
        dtype = common_dtype(name, [b.type_of(v) for v in x], mixed=True)
        (out,) = body(b, [_as(b, v, dtype) for v in x], attrs)
        return (_as(b, out, b.type_of(x[0]).dtype),)

    return mixed


def _as(b: Builder, value: str, dtype: DType) -> str:
    return value if b.type_of(value).dtype is dtype else b.op("Cast", value, to=dtype.value)


def wide(value: Array | None) -> Array:
    """Return an operand in the dtype that sums run in; TypeRuleError if it is missing."""
    if value is None:
        raise TypeRuleError("an operand is missing")
    return value.astype(accumulator(value.dtype))


def widest(values: Sequence[Array | None]) -> list[Array]:
    """Return operands in the dtype that the widest of them is summed in."""
    found = [wide(v) for v in values]
    dtype = np.result_type(*found)
    return [v.astype(dtype) for v in found]


def scalar_like(b: Builder, x: str, value: float) -> str:
    """Return a constant scalar of the dtype of `x`."""
    return b.const(np.asarray(value, b.type_of(x).dtype.numpy))


def rank_of(b: Builder, x: str) -> int:
    """Return the rank of `x`; TypeRuleError if it is unknown."""
    shape = b.type_of(x).shape
    if shape is None:
        raise TypeRuleError("the body needs an operand of known rank")
    return len(shape)


def dtype_of(values: Sequence[Array | None]) -> np.dtype[Any]:
    """Return the dtype of the first operand that is present."""
    return next(v.dtype for v in values if v is not None)
