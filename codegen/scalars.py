"""Scalar operators of the loop IR: name, arity, operand classes, result type and C expression.

The expressions serve C and OpenCL alike: whatever is not a C operator is a function `ef_NAME_TYPE`
of the preludes scalar_ops.h and vector_math.h.  float16 and bfloat16 are computed on in float32 and
rounded to nearest even where they are stored or cast.
"""

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
    """One scalar operator; the operands share one dtype, `predicate` makes the result a bool.

    `infix` is its C operator for operands of the classes `infix_for`; else a function is called.
    """

    name: str
    arity: int
    accepts: Class
    predicate: bool = False
    infix: str = ""
    infix_for: Class = Class.ANY


def _functions(
    names: str, arity: int, accepts: Class, predicate: bool = False
) -> tuple[Scalar, ...]:
    return tuple(Scalar(name, arity, accepts, predicate) for name in names.split())


def _operators(
    table: str, accepts: Class, predicate: bool = False, infix_for: Class = Class.ANY
) -> tuple[Scalar, ...]:
    pairs = (pair.split("=", 1) for pair in table.split())
    return tuple(Scalar(name, 2, accepts, predicate, c, infix_for) for name, c in pairs)


SCALARS: dict[str, Scalar] = {
    s.name: s
    for s in (
        *_operators("add=+ sub=- mul=*", Class.NUMERIC),
        *_operators("div=/", Class.NUMERIC, infix_for=Class.FLOAT),
        *_functions("pow fmod min max floormod", 2, Class.NUMERIC),
        *_functions("floordiv", 2, Class.INT),
        *_functions("fma", 3, Class.FLOAT),
        *_functions("neg abs sign", 1, Class.NUMERIC),
        *_functions("floor ceil round trunc sqrt rsqrt reciprocal", 1, Class.FLOAT),
        *_functions("exp log log1p expm1 sin cos tan asin acos atan", 1, Class.FLOAT),
        *_functions("sinh cosh tanh asinh acosh atanh", 1, Class.FLOAT),
        *_functions("erf sigmoid softplus", 1, Class.FLOAT),
        *_operators("eq=== ne=!= lt=< le=<= gt=> ge=>=", Class.ANY, predicate=True),
        *_functions("isnan isinf", 1, Class.FLOAT, predicate=True),
        *_operators("logical_and=&& logical_or=|| logical_xor=!=", Class.BOOL, predicate=True),
        *_functions("logical_not", 1, Class.BOOL, predicate=True),
        *_operators("bit_and=& bit_or=| bit_xor=^", Class.INT),
        *_functions("shift_left shift_right", 2, Class.INT),
        *_functions("bit_not", 1, Class.INT),
    )
}

SUFFIXES = {
    DType.BOOL: "b", DType.INT8: "i8", DType.INT16: "i16", DType.INT32: "i32", DType.INT64: "i64",
    DType.UINT8: "u8", DType.UINT16: "u16", DType.UINT32: "u32", DType.UINT64: "u64",
    DType.FLOAT16: "f32", DType.BFLOAT16: "f32", DType.FLOAT32: "f32", DType.FLOAT64: "f64",
}  # fmt: skip
"""The last part of a function's name, by the dtype that is computed on."""

VALUE_TYPES = {
    "b": "bool", "i8": "int8_t", "i16": "int16_t", "i32": "int32_t", "i64": "int64_t",
    "u8": "uint8_t", "u16": "uint16_t", "u32": "uint32_t", "u64": "uint64_t",
    "f32": "float", "f64": "double",
}  # fmt: skip
"""C types of values, by suffix."""

_NARROW = {DType.INT8, DType.INT16, DType.UINT8, DType.UINT16}


def class_of(dtype: DType) -> Class:
    """Return the operand class of `dtype`; CompileError for strings, complex and float8."""
    if dtype is DType.BOOL:
        return Class.BOOL
    if dtype.is_integer:
        return Class.INT
    if dtype.is_float:
        return Class.FLOAT
    raise CompileError(f"element type {dtype.value}: kernels compute on bool, integers and floats")


def value_type(dtype: DType) -> str:
    """Return the C type in which values of `dtype` are held: float for the 16-bit floats."""
    return VALUE_TYPES[SUFFIXES[dtype]]


def storage_type(dtype: DType) -> str:
    """Return the C type of one element of `dtype` in memory."""
    if dtype is DType.BOOL:
        return "uint8_t"
    return "uint16_t" if dtype in (DType.FLOAT16, DType.BFLOAT16) else value_type(dtype)


def loaded(dtype: DType, element: str) -> str:
    """Return the C value of `element`, an lvalue of the storage type."""
    if dtype is DType.BOOL:
        return f"({element} != 0)"
    if dtype in (DType.FLOAT16, DType.BFLOAT16):
        return f"ef_load_{_short(dtype)}({element})"
    return element


def stored(dtype: DType, value: str) -> str:
    """Return the element that stores the C value `value`."""
    if dtype in (DType.FLOAT16, DType.BFLOAT16):
        return f"ef_store_{_short(dtype)}({value})"
    return f"({storage_type(dtype)})({value})" if dtype in _NARROW | {DType.BOOL} else value


def converted(to: DType, value: str, source: DType) -> str:
    """Return the C expression of ONNX Cast from `source` to `to`; `value` binds tightly.

    Floats truncate towards zero; NaN and what is out of range become the lowest int32 or int64,
    cut to the narrower type: as numpy does on x86.  Anything but zero becomes true.
    """
    if to is source:
        return value
    if to is DType.BOOL:
        return f"({value} != 0)"
    if to in (DType.FLOAT16, DType.BFLOAT16):
        return f"ef_round_{_short(to)}((float)({value}))"
    if to.is_integer and source.is_float:
        return f"ef_{SUFFIXES[to]}_of_{SUFFIXES[source]}({value})"
    return f"({value_type(to)}){value}"


def expression(name: str, dtype: DType, operands: Sequence[str]) -> str:
    """Return the C expression of operator `name` on C operands of `dtype` (not parenthesised)."""
    scalar = SCALARS[name]
    if scalar.infix and class_of(dtype) & scalar.infix_for:
        shown = f"{operands[0]} {scalar.infix} {operands[1]}"
        narrow = dtype in _NARROW and not scalar.predicate
        return f"({value_type(dtype)})({shown})" if narrow else shown
    if name == "logical_not":
        return f"!{operands[0]}"
    return f"ef_{name}_{SUFFIXES[dtype]}({', '.join(operands)})"


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


def is_narrow(dtype: DType) -> bool:
    """Whether C computes on `dtype` in int, so that results must be cut back."""
    return dtype in _NARROW


def _short(dtype: DType) -> str:
    return "f16" if dtype is DType.FLOAT16 else "bf16"
