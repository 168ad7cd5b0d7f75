"""Elementwise operators: one scalar function each; shapes broadcast."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from egraph_fusion.ir.dims import Dim
from egraph_fusion.ir.graph import Array, Attrs
from egraph_fusion.ir.ops.intervals import (
    abs_interval,
    corners,
    max_interval,
    min_interval,
    minus_one_to_one,
    monotone,
    neg_interval,
    pow_interval,
    quotient_interval,
    real_exp,
    real_log,
    real_sqrt,
    reciprocal_interval,
    same_interval,
    steps,
    where_interval,
)
from egraph_fusion.ir.ops.operator import (
    Asides,
    Attr,
    Body,
    IntervalRule,
    Kind,
    Law,
    MappingType,
    Operator,
    ResultDType,
    Scalar,
    Scalars,
    register,
    switch,
)
from egraph_fusion.ir.ops.reading import (
    TypeRuleError,
    Types,
    elements,
    first,
    present,
    same_dtype,
    types_of,
)
from egraph_fusion.ir.ops.scalars_numpy import NumpyScalars
from egraph_fusion.ir.ops.tracing import body_flops
from egraph_fusion.ir.tensors import DType, TensorType, broadcast

DTypeRule = Callable[[Types, Attrs], DType]


def broadcast_type(types: Types, dtype: DType) -> tuple[TensorType, ...]:
    """Return the type of a broadcasting operator's result; unknown rank if undecided."""
    shapes = [t.shape for t in present(types)]
    known = [s for s in shapes if s is not None]
    if len(known) < len(shapes):
        return (TensorType(dtype, None),)
    shape = broadcast(*known)
    if shape is None and any(_clash(known)):
        raise TypeRuleError(f"shapes {', '.join(map(str, known))} do not broadcast")
    return (TensorType(dtype, shape),)


def _clash(shapes: Sequence[tuple[Dim, ...]]) -> list[bool]:
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(s)) + s for s in shapes]
    columns = [
        {d for d in dims if isinstance(d, int) and d != 1} for dims in zip(*padded, strict=True)
    ]
    return [len(c) > 1 for c in columns]


def elementwise_mapping(
    ins: Types, outs: Sequence[TensorType], constant: Sequence[bool], _attrs: Attrs
) -> MappingType:
    """One-to-One, or One-to-Many if an operand that is not constant is broadcast."""
    moving = [t for t, c in zip(ins, constant, strict=True) if t is not None and not c]
    same = all(t.shape is not None and t.shape == outs[0].shape for t in moving)
    return MappingType.ONE_TO_ONE if same else MappingType.ONE_TO_MANY


def elementwise(
    name: str,
    scalar: Scalar,
    arity: int | tuple[int, int | None] = 1,
    *,
    laws: Law = Law.NONE,
    attrs: tuple[Attr, ...] = (),
    dtype_of: DTypeRule | None = None,
    result: ResultDType = "operands",
    asides: Asides = (),
    takes: Callable[[DType], bool] | None = None,
    interval: IntervalRule | None = None,
    per_element: int | Callable[[Types], int] = 1,
    body: Body | None = None,
    check: Callable[[Types], None] | None = None,
) -> Operator:
    """Declare an elementwise operator from its scalar meaning alone.

    `dtype_of` gives the output dtype where it is neither `result` nor the common one of the
    operands that are not `asides`; `takes` says which dtypes they may have, and `check` refuses
    others for their shapes.  With a `body` in other operators, the body's operations count instead
    of one per element.
    """
    bounds = (arity, arity) if isinstance(arity, int) else arity

    def infer(types: Types, a: Attrs) -> tuple[TensorType, ...]:
        if takes is not None and not all(takes(t.dtype) for t in types if t is not None):
            raise TypeRuleError(f"{name} of {', '.join(map(str, types))} is not computed on")
        if check is not None:
            check(types)
        if dtype_of is not None:
            return broadcast_type(types, dtype_of(types, a))
        if isinstance(result, DType):
            return broadcast_type(types, result)
        alike = [t for i, t in enumerate(types) if i not in dict(asides)]
        return broadcast_type(types, same_dtype(alike))

    def flops(ins: Types, outs: Sequence[TensorType], _a: Attrs) -> Dim:
        return elements(outs, per_element(ins) if callable(per_element) else per_element)

    def evaluate(values: Sequence[Array | None], a: Attrs) -> tuple[Array, ...]:
        (out,) = infer(types_of(values), a)
        with np.errstate(all="ignore"):
            got = scalar(NumpyScalars.for_operands(values), list(values), a)
            return (np.asarray(got, dtype=out.dtype.numpy),)

    return register(
        Operator(
            name=name,
            kind=Kind.ELEMENTWISE,
            arity=bounds,
            infer=infer,
            evaluate=evaluate,
            mapping=elementwise_mapping,
            flops=flops if body is None else body_flops(name),
            attrs=attrs,
            laws=laws,
            scalar=scalar,
            interval=interval,
            body=body,
            result=result,
            asides=asides,
            takes=takes,
        )
    )


def call(name: str) -> Scalar:
    """Return the scalar meaning that is one entry of the scalar table."""

    def scalar(b: Scalars, x: Sequence[Any], _a: Attrs) -> Any:
        return getattr(b, name)(*x)

    return scalar


def _fold(name: str) -> Scalar:
    """Return the left fold of a binary scalar operator over any number of operands."""

    def scalar(b: Scalars, x: Sequence[Any], _a: Attrs) -> Any:
        total = x[0]
        for value in x[1:]:
            total = getattr(b, name)(total, value)
        return total

    return scalar


def _cast_dtype(_types: Types, attrs: Attrs) -> DType:
    found = next((d for d in DType if d.value == attrs["to"]), DType.OTHER)
    if not (found.is_float or found.is_integer or found is DType.BOOL):
        raise TypeRuleError(f"Cast: {attrs['to']!r} is no element type that is computed on")
    return found


def is_float(dtype: DType) -> bool:
    """Whether this is a floating-point dtype: what most functions are defined for."""
    return dtype.is_float


def first_dtype(types: Types, _attrs: Attrs) -> DType:
    """Return the first operand's dtype."""
    return first(types).dtype


def _mean(b: Scalars, x: Sequence[Any], a: Attrs) -> Any:
    return b.div(_fold("add")(b, x, a), b.const(float(len(x))))


def _cast(b: Scalars, x: Sequence[Any], a: Attrs) -> Any:
    return b.cast(str(a["to"]), x[0])


def _identity(_b: Scalars, x: Sequence[Any], _a: Attrs) -> Any:
    return x[0]


def _mod(b: Scalars, x: Sequence[Any], a: Attrs) -> Any:
    return (b.fmod if a["fmod"] else b.mod)(x[0], x[1])


AC = Law.COMMUTATIVE | Law.ASSOCIATIVE
UP, DOWN, ZERO = Law.INCREASING, Law.DECREASING, Law.ZERO_PRESERVING
INTEGER, INTEGERS = Law.INTEGER, Law.INTEGER_PRESERVING

# Arithmetic
elementwise("Add", call("add"), 2, laws=AC | INTEGERS, interval=corners(lambda p, q: p + q))
elementwise("Sub", call("sub"), 2, laws=INTEGERS, interval=corners(lambda p, q: p - q))
elementwise("Mul", call("mul"), 2, laws=AC | INTEGERS, interval=corners(lambda p, q: p * q))
elementwise("Div", call("div"), 2, interval=quotient_interval)
elementwise("Pow", call("pow"), 2, dtype_of=first_dtype, interval=pow_interval)
elementwise("Mod", _mod, 2, laws=INTEGERS, attrs=(switch("fmod"),))
for _name, _scalar, _interval in (("Max", "max", max_interval), ("Min", "min", min_interval)):
    elementwise(
        _name,
        _fold(_scalar),
        (1, None),
        laws=AC | Law.IDEMPOTENT | INTEGERS,
        interval=_interval,
        per_element=lambda ins: len(ins) - 1,
    )
elementwise(
    "Sum", _fold("add"), (1, None), laws=AC | INTEGERS, per_element=lambda ins: len(ins) - 1
)
elementwise("Mean", _mean, (1, None), laws=Law.COMMUTATIVE, per_element=len)
elementwise(
    "Neg",
    call("neg"),
    laws=ZERO | DOWN | Law.ODD | Law.INVOLUTION | INTEGERS,
    interval=neg_interval,
)
elementwise(
    "Abs", call("abs"), laws=ZERO | Law.EVEN | Law.IDEMPOTENT | INTEGERS, interval=abs_interval
)
STEP = ZERO | UP | Law.IDEMPOTENT | INTEGER
elementwise("Sign", call("sign"), laws=STEP | Law.ODD, interval=minus_one_to_one)
elementwise(
    "Reciprocal", call("reciprocal"), laws=Law.ODD, interval=reciprocal_interval, takes=is_float
)
elementwise("Floor", call("floor"), laws=STEP, interval=steps(np.floor), takes=is_float)
elementwise("Ceil", call("ceil"), laws=STEP, interval=steps(np.ceil), takes=is_float)
elementwise("Round", call("round"), laws=STEP | Law.ODD, interval=steps(np.rint), takes=is_float)
# Exponentials and friends
elementwise("Sqrt", call("sqrt"), laws=ZERO | UP, interval=monotone(real_sqrt), takes=is_float)
elementwise("Exp", call("exp"), laws=UP, interval=monotone(real_exp), takes=is_float)
elementwise("Log", call("log"), laws=UP, interval=monotone(real_log), takes=is_float)
elementwise("Erf", call("erf"), laws=ZERO | UP | Law.ODD, interval=minus_one_to_one, takes=is_float)
elementwise("Sin", call("sin"), laws=ZERO | Law.ODD, interval=minus_one_to_one, takes=is_float)
elementwise("Cos", call("cos"), laws=Law.EVEN, interval=minus_one_to_one, takes=is_float)
elementwise("Tan", call("tan"), laws=ZERO | Law.ODD, takes=is_float)
elementwise("Asin", call("asin"), laws=ZERO | UP | Law.ODD, takes=is_float)
elementwise("Acos", call("acos"), laws=DOWN, takes=is_float)
elementwise("Atan", call("atan"), laws=ZERO | UP | Law.ODD, takes=is_float)
elementwise("Sinh", call("sinh"), laws=ZERO | UP | Law.ODD, takes=is_float)
elementwise("Cosh", call("cosh"), laws=Law.EVEN, takes=is_float)
elementwise(
    "Tanh", call("tanh"), laws=ZERO | UP | Law.ODD, interval=minus_one_to_one, takes=is_float
)
elementwise("Asinh", call("asinh"), laws=ZERO | UP | Law.ODD, takes=is_float)
elementwise("Acosh", call("acosh"), laws=UP, takes=is_float)
elementwise("Atanh", call("atanh"), laws=ZERO | UP | Law.ODD, takes=is_float)
elementwise(
    "Where",
    call("select"),
    3,
    laws=INTEGERS,
    asides=((0, DType.BOOL),),
    interval=where_interval,
)
# Conversion and no-ops
CASTS = ("float32", "float16", "float64", "int32", "int64", "int8", "uint8", "bool")
elementwise(
    "Cast",
    _cast,
    laws=INTEGERS,
    attrs=(Attr("to", "str", values=CASTS),),
    dtype_of=_cast_dtype,
    result="other",
)
elementwise("Identity", _identity, laws=INTEGERS, per_element=0, interval=same_interval)
