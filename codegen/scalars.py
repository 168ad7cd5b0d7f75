"""Scalar operators of the loop IR: name, arity, operand classes and result type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Flag, auto

from egraph_fusion.errors import CompileError
from egraph_fusion.ir.tensors import DType


class Class(Flag):
    """What kinds of element an operator is defined on."""

    BOOL = auto()
    INT = auto()
    FLOAT = auto()
    NUMERIC = INT | FLOAT
    ANY = INT | FLOAT | BOOL


@dataclass(frozen=True, slots=True)
class Scalar:
    """One scalar operator; the operands share one dtype, `predicate` makes the result a bool."""

    name: str
    arity: int
    accepts: Class
    predicate: bool = False


def _scalars(names: str, arity: int, accepts: Class, predicate: bool = False) -> list[Scalar]:
    return [Scalar(name, arity, accepts, predicate) for name in names.split()]


SCALARS: dict[str, Scalar] = {
    s.name: s
    for s in (
        *_scalars("add sub mul div pow fmod min max", 2, Class.NUMERIC),
        *_scalars("floordiv floormod", 2, Class.NUMERIC),
        *_scalars("fma", 3, Class.FLOAT),
        *_scalars("neg abs sign", 1, Class.NUMERIC),
        *_scalars("floor ceil round trunc sqrt rsqrt reciprocal", 1, Class.FLOAT),
        *_scalars("exp log log1p expm1 sin cos tan asin acos atan", 1, Class.FLOAT),
        *_scalars("sinh cosh tanh asinh acosh atanh", 1, Class.FLOAT),
        *_scalars("erf sigmoid softplus", 1, Class.FLOAT),
        *_scalars("eq ne lt le gt ge", 2, Class.ANY, predicate=True),
        *_scalars("isnan isinf", 1, Class.FLOAT, predicate=True),
        *_scalars("logical_and logical_or logical_xor", 2, Class.BOOL, predicate=True),
        *_scalars("logical_not", 1, Class.BOOL, predicate=True),
        *_scalars("bit_and bit_or bit_xor shift_left shift_right", 2, Class.INT),
        *_scalars("bit_not", 1, Class.INT),
    )
}


def class_of(dtype: DType) -> Class:
    """Return the operand class of `dtype`; CompileError for strings, complex and float8."""
    if dtype is DType.BOOL:
        return Class.BOOL
    if dtype.is_integer:
        return Class.INT
    if dtype.is_float:
        return Class.FLOAT
    raise CompileError(f"element type {dtype.value}: kernels compute on bool, integers and floats")


def result_dtype(name: str, operands: Sequence[DType]) -> DType:
    """Return the dtype of operator `name` on `operands`.

    Raises CompileError for an unknown name, a wrong number of operands, mixed dtypes, or a class
    of elements that the operator is not defined on.
    """
    scalar = SCALARS.get(name)
    if scalar is None:
        raise CompileError(f"scalar operator {name!r} is unknown; known: {', '.join(SCALARS)}")
    shown = ", ".join(d.value for d in operands)
    if len(operands) != scalar.arity:
        raise CompileError(f"{name}({shown}): expected {scalar.arity} operands")
    if len(set(operands)) != 1:
        raise CompileError(f"{name}({shown}): operands must share one dtype; cast them first")
    if not class_of(operands[0]) & scalar.accepts:
        raise CompileError(f"{name}({shown}): defined on {scalar.accepts.name} elements only")
    return DType.BOOL if scalar.predicate else operands[0]
