"""Activations: elementwise functions of neural networks, from their scalar meanings."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from egraph_fusion.ir.graph import Attrs
from egraph_fusion.ir.ops.elementwise import call, elementwise, first_dtype, is_float
from egraph_fusion.ir.ops.intervals import (
    clip_interval,
    minus_one_to_one,
    nonnegative,
    relu_interval,
    unit,
)
from egraph_fusion.ir.ops.operator import Attr, Body, Builder, Law, Scalar, Scalars
from egraph_fusion.ir.ops.reading import (
    TypeRuleError,
    Types,
    known_shape,
    must_broadcast_into,
    number,
)

UP, ZERO, INTEGERS = Law.INCREASING, Law.ZERO_PRESERVING, Law.INTEGER_PRESERVING


def _float(name: str, default: float) -> Attr:
    return Attr(name, "float", default)


def _clip(b: Scalars, x: Sequence[Any], _a: Attrs) -> Any:
    low = x[0] if len(x) < 2 or x[1] is None else b.max(x[0], x[1])
    return low if len(x) < 3 or x[2] is None else b.min(low, x[2])


def _affine(b: Scalars, x: Any, scale: float, shift: float) -> Any:
    return b.add(b.mul(x, b.const(scale)), b.const(shift))


def _hard_sigmoid(b: Scalars, x: Sequence[Any], a: Attrs) -> Any:
    line = _affine(b, x[0], number(a, "alpha"), number(a, "beta"))
    return b.max(b.const(0.0), b.min(b.const(1.0), line))


def _hard_swish(b: Scalars, x: Sequence[Any], _a: Attrs) -> Any:
    line = _affine(b, x[0], 1.0 / 6.0, 0.5)
    return b.mul(x[0], b.max(b.const(0.0), b.min(b.const(1.0), line)))


def _leaky_relu(b: Scalars, x: Sequence[Any], a: Attrs) -> Any:
    return b.select(b.lt(x[0], b.const(0.0)), b.mul(b.const(number(a, "alpha")), x[0]), x[0])


def _prelu(b: Scalars, x: Sequence[Any], _a: Attrs) -> Any:
    return b.select(b.lt(x[0], b.const(0.0)), b.mul(x[1], x[0]), x[0])


def _elu(b: Scalars, x: Sequence[Any], a: Attrs) -> Any:
    bent = b.mul(b.const(number(a, "alpha")), b.sub(b.exp(x[0]), b.const(1.0)))
    return b.select(b.lt(x[0], b.const(0.0)), bent, x[0])


def _celu(b: Scalars, x: Sequence[Any], a: Attrs) -> Any:
    alpha = b.const(number(a, "alpha"))
    bent = b.mul(alpha, b.sub(b.exp(b.div(x[0], alpha)), b.const(1.0)))
    return b.add(b.max(b.const(0.0), x[0]), b.min(b.const(0.0), bent))


def _selu(b: Scalars, x: Sequence[Any], a: Attrs) -> Any:
    alpha, gamma = b.const(number(a, "alpha")), b.const(number(a, "gamma"))
    bent = b.sub(b.mul(alpha, b.exp(x[0])), alpha)
    return b.mul(gamma, b.select(b.gt(x[0], b.const(0.0)), x[0], bent))


def _thresholded_relu(b: Scalars, x: Sequence[Any], a: Attrs) -> Any:
    return b.select(b.gt(x[0], b.const(number(a, "alpha"))), x[0], b.const(0.0))


def _shrink(b: Scalars, x: Sequence[Any], a: Attrs) -> Any:
    lambd, bias = b.const(number(a, "lambd")), b.const(number(a, "bias"))
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
    alpha = number(a, "alpha")
    inner = x[0] if alpha == 1.0 else b.mul(b.const(alpha), x[0])
    return b.mul(x[0], b.sigmoid(inner))


_NODE_OF = {
    "add": "Add",
    "erf": "Erf",
    "mul": "Mul",
    "sigmoid": "Sigmoid",
    "softplus": "Softplus",
    "tanh": "Tanh",
}


class _NodeScalars:
    """Reads a scalar meaning as nodes: each scalar operator becomes one elementwise operator."""

    def __init__(self, builder: Builder, like: str) -> None:
        self.builder = builder
        self.dtype = builder.type_of(like).dtype.numpy

    def const(self, value: float) -> str:
        """Return a constant of the operand's dtype."""
        return self.builder.const(np.asarray(value, self.dtype))

    def __getattr__(self, name: str) -> Callable[..., str]:
        """Return the constructor of the node that computes the scalar operator `name`."""
        return partial(self.builder.op, _NODE_OF[name])


def body_of(scalar: Scalar) -> Body:
    """Return a body of elementwise operators, one for each step of a scalar meaning."""

    def body(b: Builder, x: Sequence[str], a: Attrs) -> tuple[str, ...]:
        return (str(scalar(_NodeScalars(b, x[0]), x, a)),)

    return body


def _hard_swish_body(b: Builder, x: Sequence[str], _a: Attrs) -> tuple[str, ...]:
    return (b.op("Mul", x[0], b.op("HardSigmoid", x[0], alpha=1.0 / 6.0, beta=0.5)),)


def _slope_into_operand(types: Types) -> None:
    must_broadcast_into("PRelu", known_shape(types, 1), known_shape(types, 0))


def _bounds_are_numbers(types: Types) -> None:
    for bound in (known_shape(types, i) for i in (1, 2)):
        if bound:
            raise TypeRuleError(f"Clip: a bound of shape {bound}, expected one of rank 0")


# Activations
elementwise(
    "Relu", call("relu"), laws=ZERO | UP | Law.IDEMPOTENT | INTEGERS, interval=relu_interval
)
elementwise("Sigmoid", call("sigmoid"), laws=UP, interval=unit, takes=is_float)
elementwise("Softplus", call("softplus"), laws=UP, interval=nonnegative, takes=is_float)
elementwise(
    "Softsign", _softsign, laws=ZERO | UP | Law.ODD, interval=minus_one_to_one, takes=is_float
)
elementwise(
    "HardSigmoid",
    _hard_sigmoid,
    attrs=(_float("alpha", 0.2), _float("beta", 0.5)),
    interval=unit,
    takes=is_float,
)
elementwise("HardSwish", _hard_swish, laws=ZERO, body=_hard_swish_body, takes=is_float)
elementwise(
    "LeakyRelu",
    _leaky_relu,
    laws=ZERO | INTEGERS,
    attrs=(_float("alpha", 0.01),),
    takes=is_float,
)
elementwise("PRelu", _prelu, 2, laws=INTEGERS, check=_slope_into_operand)
elementwise("Elu", _elu, laws=ZERO, attrs=(_float("alpha", 1.0),), takes=is_float)
elementwise("Celu", _celu, laws=ZERO, attrs=(_float("alpha", 1.0),), takes=is_float)
elementwise(
    "Selu",
    _selu,
    laws=ZERO | UP,
    attrs=(_float("alpha", 1.67326319217681884765625), _float("gamma", 1.05070102214813232421875)),
    takes=is_float,
)
elementwise(
    "ThresholdedRelu",
    _thresholded_relu,
    laws=INTEGERS,
    attrs=(_float("alpha", 1.0),),
    takes=is_float,
)
elementwise("Shrink", _shrink, attrs=(_float("lambd", 0.5), _float("bias", 0.0)))
elementwise("Mish", _mish, laws=ZERO, body=body_of(_mish), takes=is_float)
elementwise(
    "Gelu",
    _gelu,
    laws=ZERO,
    attrs=(Attr("approximate", "str", "none", values=("none", "tanh")),),
    body=body_of(_gelu),
    takes=is_float,
)
elementwise(
    "Swish", _swish, laws=ZERO, attrs=(_float("alpha", 1.0),), body=body_of(_swish), takes=is_float
)
elementwise(
    "Clip",
    _clip,
    (1, 3),
    laws=INTEGERS,
    dtype_of=first_dtype,
    interval=clip_interval,
    check=_bounds_are_numbers,
)
