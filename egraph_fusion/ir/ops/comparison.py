"""Comparisons, tests, logic of truth values and of bits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from egraph_fusion.ir.graph import Attrs
from egraph_fusion.ir.ops.elementwise import AC, call, elementwise
from egraph_fusion.ir.ops.operator import Attr, Law, Scalars, switch
from egraph_fusion.ir.tensors import DType


def _shift(b: Scalars, x: Sequence[Any], a: Attrs) -> Any:
    return (b.shl if a["direction"] == "LEFT" else b.shr)(x[0], x[1])


def _is_inf(b: Scalars, x: Sequence[Any], a: Attrs) -> Any:
    up = b.eq(x[0], b.const(math.inf))
    down = b.eq(x[0], b.const(-math.inf))
    if a["detect_negative"] and a["detect_positive"]:
        return b.logical_or(up, down)
    if a["detect_positive"]:
        return up
    return down if a["detect_negative"] else b.lt(x[0], x[0])


def _is_bool(dtype: DType) -> bool:
    return dtype is DType.BOOL


def _is_integer(dtype: DType) -> bool:
    return dtype.is_integer


elementwise("Equal", call("eq"), 2, laws=Law.COMMUTATIVE, result=DType.BOOL)
elementwise("Less", call("lt"), 2, result=DType.BOOL)
elementwise("LessOrEqual", call("le"), 2, result=DType.BOOL)
elementwise("Greater", call("gt"), 2, result=DType.BOOL)
elementwise("GreaterOrEqual", call("ge"), 2, result=DType.BOOL)
elementwise("And", call("logical_and"), 2, laws=AC | Law.IDEMPOTENT, takes=_is_bool)
elementwise("Or", call("logical_or"), 2, laws=AC | Law.IDEMPOTENT, takes=_is_bool)
elementwise("Xor", call("logical_xor"), 2, laws=AC, takes=_is_bool)
elementwise("Not", call("logical_not"), laws=Law.INVOLUTION, takes=_is_bool)
elementwise("BitwiseAnd", call("bit_and"), 2, laws=AC | Law.IDEMPOTENT, takes=_is_integer)
elementwise("BitwiseOr", call("bit_or"), 2, laws=AC | Law.IDEMPOTENT, takes=_is_integer)
elementwise("BitwiseXor", call("bit_xor"), 2, laws=AC, takes=_is_integer)
elementwise("BitwiseNot", call("bit_not"), laws=Law.INVOLUTION, takes=_is_integer)
elementwise(
    "BitShift",
    _shift,
    2,
    attrs=(Attr("direction", "str", values=("LEFT", "RIGHT")),),
    takes=_is_integer,
)
elementwise("IsNaN", call("isnan"), result=DType.BOOL)
elementwise(
    "IsInf",
    _is_inf,
    attrs=(switch("detect_negative", 1), switch("detect_positive", 1)),
    result=DType.BOOL,
)
