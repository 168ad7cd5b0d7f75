"""What one result element of a reduction, pooling or contraction combines, and how."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from egraph_fusion.codegen.expand import Fragment
from egraph_fusion.codegen.loop_walk import subexpressions
from egraph_fusion.codegen.loops import (
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Select,
    constant,
    dtype_of,
)
from egraph_fusion.codegen.lower_elements import Elements, Index
from egraph_fusion.ir.graph import Attrs, Node
from egraph_fusion.ir.tensors import DType

Term = Callable[[Elements, Index, Index], Expr]
Guard = Callable[[Index, Index], tuple[Expr, ...]]
Finish = Callable[[Elements, Expr, Index], Expr]


@dataclass(frozen=True)
class Terms:
    """Result element `i` = finish(combine of term(i, r) over the reduced `r` where guard(i, r)).

    `extents` bounds the reduced index, outermost first; `accumulator` is the dtype of the terms.
    `operands` lists the values that the terms read, the widest first.
    """

    node: Node
    extents: tuple[int, ...]
    combine: str
    accumulator: DType
    term: Term
    guard: Guard
    finish: Finish
    operands: tuple[str, ...]

    @property
    def result(self) -> str:
        """The value that is computed."""
        return self.node.outputs[0]

    @property
    def identity(self) -> Const:
        """What the combination starts from."""
        return identity_of(self.combine, self.accumulator)

    def combined(self, total: Expr, term: Expr) -> Expr:
        """Return the next total; products summed in float32 and wider use one rounding."""
        product = self.combine == "add" and len(self.operands) == 2
        if product and isinstance(term, Call) and term.op == "mul" and self.accumulator.is_float:
            return Call("fma", (*term.args, total))
        return Call(self.combine, (total, term))


def identity_of(combine: str, dtype: DType) -> Const:
    """Return the neutral element of `add`, `mul`, `max` or `min`."""
    if combine in ("add", "mul"):
        return constant(0 if combine == "add" else 1, dtype)
    if dtype is DType.BOOL:
        return Const(combine == "min", dtype)
    if dtype.is_float:
        return constant(-math.inf if combine == "max" else math.inf, dtype)
    limits = np.iinfo(dtype.numpy)
    return constant(int(limits.min if combine == "max" else limits.max), dtype)


def accumulator_of(dtype: DType) -> DType:
    """Return the dtype that totals of `dtype` are kept in: float32 for 16-bit floats.

    Booleans are kept as 0 and 1, whose maximum is "any" and whose minimum is "all".
    """
    if dtype is DType.BOOL:
        return DType.UINT8
    return DType.FLOAT32 if dtype in (DType.FLOAT16, DType.BFLOAT16) else dtype


def ints(attrs: Attrs, name: str, default: Sequence[int]) -> tuple[int, ...]:
    """Return an attribute of integers, or `default` where it is absent or empty."""
    found = attrs.get(name) or ()
    assert isinstance(found, tuple)
    return tuple(int(v) for v in found) or tuple(default)


def unguarded(_i: Index, _r: Index) -> tuple[Expr, ...]:
    """Every term counts."""
    return ()


def cast(dtype: DType, value: Expr) -> Expr:
    """Return `value` in `dtype`."""
    return value if dtype_of(value) is dtype else Cast(dtype, value)


def to_result(fragment: Fragment, n: Node) -> Finish:
    """Return the finish that only converts to the result's dtype."""
    dtype = fragment.types[n.outputs[0]].dtype
    return lambda _elements, total, _i: cast(dtype, total)


def guarded(conditions: Sequence[Expr], value: Expr, otherwise: Expr) -> Expr:
    """Return `value` where every condition holds, else `otherwise`."""
    return value if not conditions else Select(conjunction(conditions), value, otherwise)


def chosen(cond: Expr, yes: Expr, no: Expr) -> Expr:
    """Return `yes` where `cond` holds, else `no`; a known condition decides now."""
    if isinstance(cond, Const):
        return yes if cond.value else no
    return Select(cond, yes, no)


def conjunction(conditions: Sequence[Expr]) -> Expr:
    """Return the conjunction of at least one condition."""
    total = conditions[0]
    for c in conditions[1:]:
        total = Call("logical_and", (total, c))
    return total


def loads(expr: Expr) -> list[Load]:
    """Return the distinct loads of an expression."""
    return list(dict.fromkeys(e for e in subexpressions(expr) if isinstance(e, Load)))


def integer(attrs: Attrs, name: str, default: int) -> int:
    """Return an integer attribute, or `default` where it is absent."""
    found = attrs.get(name, default)
    assert isinstance(found, int)
    return found


def number(attrs: Attrs, name: str, default: float) -> float:
    """Return a numeric attribute, or `default` where it is absent."""
    found = attrs.get(name, default)
    assert isinstance(found, int | float)
    return float(found)
