"""Expressions of the loop IR as C or OpenCL C, with as few parentheses as C's own rules allow."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import assert_never

import numpy as np

from egraph_fusion.codegen import scalars
from egraph_fusion.codegen.identifiers import identifier
from egraph_fusion.codegen.index import Ranges, bounds
from egraph_fusion.codegen.loops import Call, Cast, Const, Expr, Load, Select, Var, dtype_of
from egraph_fusion.ir.tensors import DType

# Levels of C operators that are printed without parentheses; any other operator has level 1.
_LEVELS = {"+": 4, "-": 4, "*": 5, "/": 5, "%": 5}
_LOOSE, _TIGHT = 1, 9
_DIVISIONS = {"floordiv": "/", "div": "/", "floormod": "%", "fmod": "%"}
_EDGES = {
    DType.INT32: "(-2147483647 - 1)",
    DType.INT64: "(-9223372036854775807L - 1)",
}


@dataclass(frozen=True, slots=True)
class Expressions:
    """Prints expressions where the variables lie in `ranges`."""

    ranges: Ranges

    def __call__(self, expr: Expr) -> str:
        """Return `expr` as text."""
        return self.leveled(expr)[0]

    def tight(self, expr: Expr) -> str:
        """Return `expr` as text that can stand beside any operator."""
        return self.at(expr, _TIGHT)

    def at(self, expr: Expr, level: int) -> str:
        """Return `expr`, in parentheses if its operator binds weaker than `level`."""
        shown, own = self.leveled(expr)
        return shown if own >= level else f"({shown})"

    def leveled(self, expr: Expr) -> tuple[str, int]:
        """Return `expr` as text and the level of its outermost operator."""
        match expr:
            case Const(value, dtype):
                return literal(value, dtype), _TIGHT
            case Var(name):
                return identifier(name), _TIGHT
            case Load(buffer, index, dtype):
                return scalars.loaded(dtype, f"{identifier(buffer)}[{self(index)}]"), _TIGHT
            case Select(cond, yes, no):
                parts = (self.tight(cond), self.tight(yes), self.tight(no))
                return "{} ? {} : {}".format(*parts), _LOOSE
            case Cast(dtype, value):
                source = dtype_of(value)
                return scalars.converted(dtype, self.tight(value), source), _TIGHT
            case Call():
                return self.call(expr)
            case _:
                assert_never(expr)

    def call(self, expr: Call) -> tuple[str, int]:
        """Return an operator's application and its level."""
        dtype = dtype_of(expr.args[0])
        if expr.op in _DIVISIONS and self.plain_division(expr, dtype):
            return self.infix(_DIVISIONS[expr.op], *expr.args)
        if expr.op in ("min", "max") and dtype.is_float and (limit := self.limit(expr)):
            return limit, _TIGHT
        symbol = scalars.SCALARS[expr.op].infix
        if symbol in _LEVELS and not scalars.is_narrow(dtype) and _is_infix(expr.op, dtype):
            return self.infix(symbol, *expr.args)
        shown = scalars.expression(expr.op, dtype, self.operands(expr, dtype))
        return shown, _LOOSE if _is_infix(expr.op, dtype) else _TIGHT

    def operands(self, expr: Call, dtype: DType) -> list[str]:
        """Return the operands: bare inside a call, tight beside an operator."""
        tight = _is_infix(expr.op, dtype) or expr.op == "logical_not"
        return [self.tight(a) if tight else self(a) for a in expr.args]

    def infix(self, symbol: str, left: Expr, right: Expr) -> tuple[str, int]:
        """Return `left symbol right`; C groups equal levels from the left, as the tree does."""
        level = _LEVELS[symbol]
        first = self.at(left, level)
        if isinstance(left, Const) and isinstance(right, Const) and left.dtype is DType.INT64:
            first = f"{first.removesuffix('L')}L"
        return f"{first} {symbol} {self.at(right, level + 1)}", level

    def plain_division(self, expr: Call, dtype: DType) -> bool:
        """Whether C's own division gives the right result: nonnegative by positive."""
        if not dtype.is_integer or scalars.is_narrow(dtype):
            return False
        top, bottom = expr.args
        if isinstance(bottom, Const) and bottom.value > 0 and expr.op in ("div", "fmod"):
            return True
        if dtype is not DType.INT64:
            return isinstance(bottom, Const) and bottom.value > 0 and dtype.value.startswith("u")
        positive, _ = bounds(bottom, self.ranges)
        nonnegative, _ = bounds(top, self.ranges)
        return (positive or 0) > 0 and nonnegative is not None and nonnegative >= 0

    def limit(self, expr: Call) -> str | None:
        """Return min or max with a number, which needs no second test for NaN."""
        for one, other in (expr.args, expr.args[::-1]):
            if isinstance(one, Const) and not math.isnan(one.value):
                suffix = scalars.SUFFIXES[one.dtype]
                return f"ef_limit_{expr.op}_{suffix}({self(one)}, {self(other)})"
        return None


def _is_infix(op: str, dtype: DType) -> bool:
    scalar = scalars.SCALARS[op]
    return bool(scalar.infix) and bool(scalars.class_of(dtype) & scalar.infix_for)


def literal(value: bool | int | float, dtype: DType) -> str:
    """Return a constant as C: the nearest value of `dtype`, infinities and NaN by name."""
    if dtype is DType.BOOL:
        return "true" if value else "false"
    if dtype.is_float:
        return _float(float(value), dtype)
    if value == -(2 ** (8 * dtype.itemsize - 1)) and dtype in _EDGES:
        return _EDGES[dtype]
    if dtype in (DType.UINT32, DType.UINT64):
        return f"{value}{'U' if dtype is DType.UINT32 else 'UL'}"
    long = "" if -(2**31) < value < 2**31 else "L"
    return f"({value}{long})" if value < 0 else f"{value}{long}"


def _float(value: float, dtype: DType) -> str:
    suffix = "" if dtype is DType.FLOAT64 else "f"
    if math.isnan(value):
        return "(float)NAN" if suffix else "(double)NAN"
    if dtype is not DType.FLOAT64:
        with np.errstate(over="ignore"):
            rounded = np.asarray(value).astype(dtype.numpy).astype(np.float32)
        value, shown = float(rounded), str(np.float32(rounded))
    else:
        shown = repr(value)
    if math.isinf(value):
        return "INFINITY" if value > 0 else "(-INFINITY)"
    number = shown if any(c in shown for c in ".e") else f"{shown}.0"
    return f"({number}{suffix})" if number.startswith("-") else f"{number}{suffix}"
