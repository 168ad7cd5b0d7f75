"""Elementwise operators: one scalar function each; shapes broadcast."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from egraph_fusion.ir.dims import Dim
from egraph_fusion.ir.graph import Array, Attrs
from egraph_fusion.ir.ops.operator import (
    Attr,
    Interval,
    Kind,
    Law,
    MappingType,
    Operator,
    Scalar,
    Scalars,
    TypeRuleError,
    Types,
    elements,
    first,
    present,
    register,
    same_dtype,
)
from egraph_fusion.ir.ops.scalars_numpy import NumpyScalars
from egraph_fusion.ir.tensors import DType, TensorType, broadcast

ResultDType = Callable[[Types, Attrs], DType]
BOUNDLESS: Interval = (-math.inf, math.inf)


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
    result: ResultDType | None = None,
    interval: Callable[[Sequence[Interval], Attrs], Interval] | None = None,
    per_element: int = 1,
) -> Operator:
    """Declare an elementwise operator from its scalar meaning alone.

    `result` gives the output dtype where it is not the operands' common one.
    """
    bounds = (arity, arity) if isinstance(arity, int) else arity

    def infer(types: Types, a: Attrs) -> tuple[TensorType, ...]:
        dtype = result(types, a) if result else same_dtype(types)
        return broadcast_type(types, dtype)

    def flops(_ins: Types, outs: Sequence[TensorType], _a: Attrs) -> Dim:
        return elements(outs, per_element)

    def evaluate(values: Sequence[Array | None], a: Attrs) -> tuple[Array, ...]:
        types = [None if v is None else TensorType(DType.of(v.dtype), v.shape) for v in values]
        (out,) = infer(types, a)
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
            flops=flops,
            attrs=attrs,
            laws=laws,
            scalar=scalar,
            interval=interval,
        )
    )


def _call(name: str) -> Scalar:
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


def _boolean(_types: Types, _attrs: Attrs) -> DType:
    return DType.BOOL


def _cast_dtype(_types: Types, attrs: Attrs) -> DType:
    return DType(str(attrs["to"]))


def _first_dtype(types: Types, _attrs: Attrs) -> DType:
    return first(types).dtype


def _branch_dtype(types: Types, _attrs: Attrs) -> DType:
    return same_dtype(types[1:])


def _unit(_x: Sequence[Interval], _a: Attrs) -> Interval:
    return (0.0, 1.0)


def _minus_one_to_one(_x: Sequence[Interval], _a: Attrs) -> Interval:
    return (-1.0, 1.0)


def _nonnegative(_x: Sequence[Interval], _a: Attrs) -> Interval:
    return (0.0, math.inf)


def _rounded(lo: float, hi: float) -> Interval:
    """Widen outwards by one part in 1e12, so that rounding never excludes a value."""
    if math.isnan(lo) or math.isnan(hi):
        return BOUNDLESS
    return (lo - abs(lo) * 1e-12, hi + abs(hi) * 1e-12)


def _corners(function: Callable[[float, float], float]) -> Callable[..., Interval]:
    def interval(x: Sequence[Interval], _a: Attrs) -> Interval:
        values = [function(p, q) for p in x[0] for q in x[1]]
        return BOUNDLESS if any(map(math.isnan, values)) else _rounded(min(values), max(values))

    return interval


def _monotone(function: Callable[[float], float]) -> Callable[..., Interval]:
    def interval(x: Sequence[Interval], _a: Attrs) -> Interval:
        return _rounded(function(x[0][0]), function(x[0][1]))

    return interval


def _exp(x: float) -> float:
    return math.exp(x) if x < 709 else math.inf


def _sqrt(x: float) -> float:
    return math.sqrt(x) if x > 0 else 0.0


def _log(x: float) -> float:
    return (math.log(x) if x < math.inf else math.inf) if x > 0 else -math.inf


def _abs_interval(x: Sequence[Interval], _a: Attrs) -> Interval:
    lo, hi = x[0]
    return (max(0.0, lo, -hi), max(abs(lo), abs(hi)))


def _neg_interval(x: Sequence[Interval], _a: Attrs) -> Interval:
    return (-x[0][1], -x[0][0])


def _max_interval(x: Sequence[Interval], _a: Attrs) -> Interval:
    return (max(lo for lo, _ in x), max(hi for _, hi in x))


def _min_interval(x: Sequence[Interval], _a: Attrs) -> Interval:
    return (min(lo for lo, _ in x), min(hi for _, hi in x))


def _relu_interval(x: Sequence[Interval], _a: Attrs) -> Interval:
    return (max(0.0, x[0][0]), max(0.0, x[0][1]))


def _where_interval(x: Sequence[Interval], _a: Attrs) -> Interval:
    return (min(x[1][0], x[2][0]), max(x[1][1], x[2][1]))


def _pow_interval(x: Sequence[Interval], _a: Attrs) -> Interval:
    (lo, hi), (p, q) = x
    if p == q and p == 2:
        return (0.0, max(lo * lo, hi * hi))
    return (0.0, math.inf) if lo >= 0 else BOUNDLESS


def _clip(b: Scalars, x: Sequence[Any], _a: Attrs) -> Any:
    low = x[0] if len(x) < 2 or x[1] is None else b.max(x[0], x[1])
    return low if len(x) < 3 or x[2] is None else b.min(low, x[2])


def _clip_interval(x: Sequence[Interval], _a: Attrs) -> Interval:
    lo, hi = x[0]
    low, high = (x[1] if len(x) > 1 else BOUNDLESS), (x[2] if len(x) > 2 else BOUNDLESS)
    return (min(max(lo, low[0]), high[1]), min(max(hi, low[1]), high[1]))


def _mean(b: Scalars, x: Sequence[Any], a: Attrs) -> Any:
    return b.div(_fold("add")(b, x, a), b.const(float(len(x))))


def _affine(b: Scalars, x: Any, scale: float, shift: float) -> Any:
    return b.add(b.mul(x, b.const(scale)), b.const(shift))


def _hard_sigmoid(b: Scalars, x: Sequence[Any], a: Attrs) -> Any:
    line = _affine(b, x[0], _f(a, "alpha"), _f(a, "beta"))
    return b.max(b.const(0.0), b.min(b.const(1.0), line))


def _hard_swish(b: Scalars, x: Sequence[Any], _a: Attrs) -> Any:
    line = _affine(b, x[0], 1.0 / 6.0, 0.5)
    return b.mul(x[0], b.max(b.const(0.0), b.min(b.const(1.0), line)))


def _leaky_relu(b: Scalars, x: Sequence[Any], a: Attrs) -> Any:
    return b.select(b.lt(x[0], b.const(0.0)), b.mul(b.const(_f(a, "alpha")), x[0]), x[0])


def _prelu(b: Scalars, x: Sequence[Any], _a: Attrs) -> Any:
    return b.select(b.lt(x[0], b.const(0.0)), b.mul(x[1], x[0]), x[0])


def _elu(b: Scalars, x: Sequence[Any], a: Attrs) -> Any:
    bent = b.mul(b.const(_f(a, "alpha")), b.sub(b.exp(x[0]), b.const(1.0)))
    return b.select(b.lt(x[0], b.const(0.0)), bent, x[0])


def _celu(b: Scalars, x: Sequence[Any], a: Attrs) -> Any:
    alpha = b.const(_f(a, "alpha"))
    bent = b.mul(alpha, b.sub(b.exp(b.div(x[0], alpha)), b.const(1.0)))
    return b.add(b.max(b.const(0.0), x[0]), b.min(b.const(0.0), bent))


def _selu(b: Scalars, x: Sequence[Any], a: Attrs) -> Any:
    alpha, gamma = b.const(_f(a, "alpha")), b.const(_f(a, "gamma"))
    bent = b.sub(b.mul(alpha, b.exp(x[0])), alpha)
    return b.mul(gamma, b.select(b.gt(x[0], b.const(0.0)), x[0], bent))


def _thresholded_relu(b: Scalars, x: Sequence[Any], a: Attrs) -> Any:
    return b.select(b.gt(x[0], b.const(_f(a, "alpha"))), x[0], b.const(0.0))


def _shrink(b: Scalars, x: Sequence[Any], a: Attrs) -> Any:
    lambd, bias = b.const(_f(a, "lambd")), b.const(_f(a, "bias"))
    above = b.select(b.gt(x[0], lambd), b.sub(x[0], bias), b.const(0.0))
    return b.select(b.lt(x[0], b.neg(lambd)), b.add(x[0], bias), above)


def _softsign(b: Scalars, x: Sequence[Any], _a: Attrs) -> Any:
    return b.div(x[0], b.add(b.const(1.0), b.abs(x[0])))


def _mish(b: Scalars, x: Sequence[Any], _a: Attrs) -> Any:
    return b.mul(x[0], b.tanh(b.softplus(x[0])))


def _gelu(b: Scalars, x: Sequence[Any], a: Attrs) -> Any:
    half = b.mul(b.const(0.5), x[0])
    if a.get("approximate") == "tanh":
        cube = b.mul(x[0], b.mul(x[0], x[0]))
        inner = b.add(x[0], b.mul(b.const(0.044715), cube))
        bent = b.tanh(b.mul(b.const(math.sqrt(2 / math.pi)), inner))
    else:
        bent = b.erf(b.mul(x[0], b.const(math.sqrt(0.5))))
    return b.mul(half, b.add(b.const(1.0), bent))


def _swish(b: Scalars, x: Sequence[Any], a: Attrs) -> Any:
    return b.mul(x[0], b.sigmoid(b.mul(b.const(_f(a, "alpha")), x[0])))


def _cast(b: Scalars, x: Sequence[Any], a: Attrs) -> Any:
    return b.cast(str(a["to"]), x[0])


def _identity(_b: Scalars, x: Sequence[Any], _a: Attrs) -> Any:
    return x[0]


def _shift(b: Scalars, x: Sequence[Any], a: Attrs) -> Any:
    return (b.shl if a["direction"] == "LEFT" else b.shr)(x[0], x[1])


def _mod(b: Scalars, x: Sequence[Any], a: Attrs) -> Any:
    return (b.fmod if a["fmod"] else b.mod)(x[0], x[1])


def _is_inf(b: Scalars, x: Sequence[Any], a: Attrs) -> Any:
    up = b.eq(x[0], b.const(math.inf))
    down = b.eq(x[0], b.const(-math.inf))
    if a["detect_negative"] and a["detect_positive"]:
        return b.logical_or(up, down)
    if a["detect_positive"]:
        return up
    return down if a["detect_negative"] else b.ne(x[0], x[0])


def _f(a: Attrs, name: str) -> float:
    value = a[name]
    return float(value) if isinstance(value, int | float) else math.nan


def _float(name: str, default: float) -> Attr:
    return Attr(name, "float", default)


AC = Law.COMMUTATIVE | Law.ASSOCIATIVE
UP, DOWN = Law.INCREASING, Law.DECREASING

# Arithmetic
elementwise("Add", _call("add"), 2, laws=AC, interval=_corners(lambda p, q: p + q))
elementwise("Sub", _call("sub"), 2, interval=_corners(lambda p, q: p - q))
elementwise("Mul", _call("mul"), 2, laws=AC, interval=_corners(lambda p, q: p * q))
elementwise("Div", _call("div"), 2)
elementwise("Pow", _call("pow"), 2, result=_first_dtype, interval=_pow_interval)
elementwise("Mod", _mod, 2, attrs=(Attr("fmod", "int", 0),))
elementwise("Max", _fold("max"), (1, None), laws=AC | Law.IDEMPOTENT, interval=_max_interval)
elementwise("Min", _fold("min"), (1, None), laws=AC | Law.IDEMPOTENT, interval=_min_interval)
elementwise("Sum", _fold("add"), (1, None), laws=AC)
elementwise("Mean", _mean, (1, None), laws=Law.COMMUTATIVE)
elementwise("Neg", _call("neg"), laws=DOWN | Law.ODD | Law.INVOLUTION, interval=_neg_interval)
elementwise("Abs", _call("abs"), laws=Law.EVEN | Law.IDEMPOTENT, interval=_abs_interval)
elementwise("Sign", _call("sign"), laws=UP | Law.ODD, interval=_minus_one_to_one)
elementwise("Reciprocal", _call("reciprocal"), laws=Law.ODD)
elementwise("Floor", _call("floor"), laws=UP | Law.IDEMPOTENT)
elementwise("Ceil", _call("ceil"), laws=UP | Law.IDEMPOTENT)
elementwise("Round", _call("round"), laws=UP | Law.ODD | Law.IDEMPOTENT)
# Exponentials and friends
elementwise("Sqrt", _call("sqrt"), laws=UP, interval=_monotone(_sqrt))
elementwise("Exp", _call("exp"), laws=UP, interval=_monotone(_exp))
elementwise("Log", _call("log"), laws=UP, interval=_monotone(_log))
elementwise("Erf", _call("erf"), laws=UP | Law.ODD, interval=_minus_one_to_one)
elementwise("Sin", _call("sin"), laws=Law.ODD, interval=_minus_one_to_one)
elementwise("Cos", _call("cos"), laws=Law.EVEN, interval=_minus_one_to_one)
elementwise("Tan", _call("tan"), laws=Law.ODD)
elementwise("Asin", _call("asin"), laws=UP | Law.ODD)
elementwise("Acos", _call("acos"), laws=DOWN)
elementwise("Atan", _call("atan"), laws=UP | Law.ODD)
elementwise("Sinh", _call("sinh"), laws=UP | Law.ODD)
elementwise("Cosh", _call("cosh"), laws=Law.EVEN)
elementwise("Tanh", _call("tanh"), laws=UP | Law.ODD, interval=_minus_one_to_one)
elementwise("Asinh", _call("asinh"), laws=UP | Law.ODD)
elementwise("Acosh", _call("acosh"), laws=UP)
elementwise("Atanh", _call("atanh"), laws=UP | Law.ODD)
# Activations
elementwise("Relu", _call("relu"), laws=UP | Law.IDEMPOTENT, interval=_relu_interval)
elementwise("Sigmoid", _call("sigmoid"), laws=UP, interval=_unit)
elementwise("Softplus", _call("softplus"), laws=UP, interval=_nonnegative)
elementwise("Softsign", _softsign, laws=UP | Law.ODD, interval=_minus_one_to_one)
elementwise(
    "HardSigmoid", _hard_sigmoid, attrs=(_float("alpha", 0.2), _float("beta", 0.5)), interval=_unit
)
elementwise("HardSwish", _hard_swish)
elementwise("LeakyRelu", _leaky_relu, attrs=(_float("alpha", 0.01),))
elementwise("PRelu", _prelu, 2)
elementwise("Elu", _elu, attrs=(_float("alpha", 1.0),))
elementwise("Celu", _celu, attrs=(_float("alpha", 1.0),))
elementwise(
    "Selu",
    _selu,
    attrs=(_float("alpha", 1.67326319217681884765625), _float("gamma", 1.05070102214813232421875)),
)
elementwise("ThresholdedRelu", _thresholded_relu, attrs=(_float("alpha", 1.0),))
elementwise("Shrink", _shrink, attrs=(_float("lambd", 0.5), _float("bias", 0.0)))
elementwise("Mish", _mish)
elementwise("Gelu", _gelu, attrs=(Attr("approximate", "str", "none"),), per_element=5)
elementwise("Swish", _swish, attrs=(_float("alpha", 1.0),), per_element=3)
elementwise("Clip", _clip, (1, 3), result=_first_dtype, interval=_clip_interval)
# Comparison and logic
elementwise("Equal", _call("eq"), 2, laws=Law.COMMUTATIVE, result=_boolean)
elementwise("Less", _call("lt"), 2, result=_boolean)
elementwise("LessOrEqual", _call("le"), 2, result=_boolean)
elementwise("Greater", _call("gt"), 2, result=_boolean)
elementwise("GreaterOrEqual", _call("ge"), 2, result=_boolean)
elementwise("And", _call("logical_and"), 2, laws=AC | Law.IDEMPOTENT)
elementwise("Or", _call("logical_or"), 2, laws=AC | Law.IDEMPOTENT)
elementwise("Xor", _call("logical_xor"), 2, laws=AC)
elementwise("Not", _call("logical_not"), laws=Law.INVOLUTION)
elementwise("BitwiseAnd", _call("bit_and"), 2, laws=AC | Law.IDEMPOTENT)
elementwise("BitwiseOr", _call("bit_or"), 2, laws=AC | Law.IDEMPOTENT)
elementwise("BitwiseXor", _call("bit_xor"), 2, laws=AC)
elementwise("BitwiseNot", _call("bit_not"), laws=Law.INVOLUTION)
elementwise("BitShift", _shift, 2, attrs=(Attr("direction", "str"),))
elementwise("IsNaN", _call("isnan"), result=_boolean)
elementwise(
    "IsInf",
    _is_inf,
    attrs=(Attr("detect_negative", "int", 1), Attr("detect_positive", "int", 1)),
    result=_boolean,
)
elementwise("Where", _call("select"), 3, result=_branch_dtype, interval=_where_interval)
# Conversion and no-ops
elementwise("Cast", _cast, attrs=(Attr("to", "str"),), result=_cast_dtype)
elementwise("Identity", _identity, per_element=0, interval=lambda x, _a: x[0])
