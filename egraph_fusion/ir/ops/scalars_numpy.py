"""The numpy reading of scalar expressions: what evaluation hands to an operator's `scalar`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from egraph_fusion.ir.graph import Array
from egraph_fusion.ir.tensors import DType


class NumpyScalars:
    """Builds numpy arrays; literals take the dtype of the first floating operand."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype

    @staticmethod
    def for_operands(values: Sequence[Array | None]) -> NumpyScalars:
        """Return the builder for an operator applied to `values`."""
        dtypes = [v.dtype for v in values if v is not None]
        floats = [d for d in dtypes if DType.of(d).is_float]
        return NumpyScalars((floats or dtypes)[0])

    def const(self, value: float) -> Array:
        """Return a literal."""
        return np.asarray(value, dtype=self.dtype)

    def cast(self, to: str, x: Array) -> Array:
        """Convert to the dtype named `to`; float to integer truncates."""
        return np.asarray(x).astype(DType(to).numpy)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Return the numpy function of the scalar operator `name`."""
        try:
            return NUMPY_SCALARS[name]
        except KeyError:
            raise AttributeError(f"no scalar operator is called {name!r}") from None


def accumulator(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype that sums run in: float32 for 16-bit floats, else the dtype itself."""
    narrow = dtype.itemsize == 2 and DType.of(dtype).is_float
    return np.dtype(np.float32) if narrow else dtype


def _float_work(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compute 16-bit floats in float32 and round once, as the generated code does."""

    def wrapped(*values: Array) -> Array:
        dtype = values[0].dtype
        wide = np.float32 if dtype.itemsize == 2 and DType.of(dtype).is_float else dtype
        return np.asarray(function(*(v.astype(wide) for v in values))).astype(dtype)

    return wrapped


def _div(a: Array, b: Array) -> Array:
    if not DType.of(a.dtype).is_integer:
        return np.asarray(a / b)
    quotient = np.floor_divide(a, b)
    inexact = quotient * b != a
    upward = inexact & ((a < 0) != (b < 0))
    return np.asarray(quotient + upward, dtype=a.dtype)


def _erf(x: Array) -> Array:
    return np.asarray(np.vectorize(math.erf, otypes=[np.float64])(x), dtype=x.dtype)


def _sigmoid(x: Array) -> Array:
    small = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1 / (1 + small), small / (1 + small)))


def _softplus(x: Array) -> Array:
    return np.asarray(np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))))


def _reciprocal(x: Array) -> Array:
    return np.asarray(np.asarray(1, dtype=x.dtype) / x)


def _relu(x: Array) -> Array:
    return np.asarray(np.maximum(x, np.asarray(0, dtype=x.dtype)))


def _pow(a: Array, b: Array) -> Array:
    if a.dtype.kind not in "iu":
        return np.asarray(np.power(a, b.astype(a.dtype)))
    if b.dtype.kind == "f":
        return np.asarray(np.power(a.astype(np.float64), b.astype(np.float64))).astype(a.dtype)
    # Integers wrap around, so the wider of two dtypes gives the narrower's result.
    wide = a.dtype if a.dtype.itemsize > b.dtype.itemsize else b.dtype
    whole = np.power(a.astype(wide), np.maximum(b, 0).astype(wide)).astype(a.dtype)
    sign = np.where(np.abs(a) == 1, np.where(b % 2 == 0, 1, a), 0)
    return np.where(b < 0, sign, whole).astype(a.dtype)


def _shift_left(a: Array, b: Array) -> Array:
    """Shift, with 0 where the amount reaches the width of the dtype."""
    width = a.dtype.itemsize * 8
    return np.asarray(np.where(b < width, np.left_shift(a, np.minimum(b, width - 1)), 0))


def _shift_right(a: Array, b: Array) -> Array:
    """Shift, with the sign (0 if unsigned) where the amount reaches the width of the dtype."""
    width = a.dtype.itemsize * 8
    shifted = np.right_shift(a, np.minimum(b, width - 1))
    return np.asarray(np.where(b < width, shifted, np.right_shift(shifted, 1)))


NUMPY_SCALARS: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": _div,
    "pow": _pow,
    "mod": np.mod,
    "fmod": np.fmod,
    "max": np.maximum,
    "min": np.minimum,
    "neg": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "reciprocal": _reciprocal,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "sqrt": np.sqrt,
    "relu": _relu,
    "sigmoid": _float_work(_sigmoid),
    "softplus": _float_work(_softplus),
    "erf": _float_work(_erf),
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
    "logical_not": np.logical_not,
    "bit_and": np.bitwise_and,
    "bit_or": np.bitwise_or,
    "bit_xor": np.bitwise_xor,
    "bit_not": np.invert,
    "shl": _shift_left,
    "shr": _shift_right,
    "isnan": np.isnan,
    "select": np.where,
    **{
        name: _float_work(
            getattr(
                np,
                {
                    "asin": "arcsin",
                    "acos": "arccos",
                    "atan": "arctan",
                    "asinh": "arcsinh",
                    "acosh": "arccosh",
                    "atanh": "arctanh",
                }.get(name, name),
            )
        )
        for name in (
            [
                "exp",
                "log",
                "sin",
                "cos",
                "tan",
                "asin",
                "acos",
                "atan",
                "sinh",
                "cosh",
                "tanh",
                "asinh",
                "acosh",
                "atanh",
            ]
        )
    },
}
