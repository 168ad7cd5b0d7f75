"""The loop IR: frozen nodes for expressions, statements and kernels, and how to walk them.

Expressions are typed: `dtype_of(expr)`.  Indices are int64 and flat (element offsets).  Building a
node never simplifies it.  `loop_text` prints and parses kernels, `loop_check` checks them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import assert_never

from egraph_fusion.codegen.scalars import result_dtype
from egraph_fusion.ir.tensors import DType


class _Arithmetic:
    """Python operators that build `Call`s; a plain number takes the other operand's dtype."""

    __slots__ = ()

    def __add__(self, other: Operand) -> Call:
        return _binary("add", self, other)

    def __radd__(self, other: Operand) -> Call:
        return _binary("add", other, self)

    def __sub__(self, other: Operand) -> Call:
        return _binary("sub", self, other)

    def __rsub__(self, other: Operand) -> Call:
        return _binary("sub", other, self)

    def __mul__(self, other: Operand) -> Call:
        return _binary("mul", self, other)

    def __rmul__(self, other: Operand) -> Call:
        return _binary("mul", other, self)

    def __truediv__(self, other: Operand) -> Call:
        return _binary("div", self, other)

    def __floordiv__(self, other: Operand) -> Call:
        return _binary("floordiv", self, other)

    def __mod__(self, other: Operand) -> Call:
        return _binary("floormod", self, other)

    def __lt__(self, other: Operand) -> Call:
        return _binary("lt", self, other)

    def __le__(self, other: Operand) -> Call:
        return _binary("le", self, other)

    def __gt__(self, other: Operand) -> Call:
        return _binary("gt", self, other)

    def __ge__(self, other: Operand) -> Call:
        return _binary("ge", self, other)


@dataclass(frozen=True, slots=True, eq=False)
class Const(_Arithmetic):
    """A number; equal only if bits print alike, so 0.0 and -0.0 differ and NaN equals NaN."""

    value: bool | int | float
    dtype: DType = DType.INT64

    def __eq__(self, other: object) -> bool:
        """Compare by printed value and dtype."""
        return isinstance(other, Const) and self._key() == other._key()

    def __hash__(self) -> int:
        """Hash by printed value and dtype."""
        return hash(self._key())

    def _key(self) -> tuple[str, DType]:
        return (repr(self.value), self.dtype)


@dataclass(frozen=True, slots=True)
class Var(_Arithmetic):
    """A loop variable, a size, a `Let` or a `Declare`d variable."""

    name: str
    dtype: DType = DType.INT64


@dataclass(frozen=True, slots=True)
class Load(_Arithmetic):
    """Element `index` (flat, int64) of `buffer`, whose element type is `dtype`."""

    buffer: str
    index: Expr
    dtype: DType


@dataclass(frozen=True, slots=True)
class Call(_Arithmetic):
    """A scalar operator of `scalars.SCALARS` applied to operands of one dtype."""

    op: str
    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Select(_Arithmetic):
    """`yes` if `cond` (bool) else `no`; only the taken side need be in bounds."""

    cond: Expr
    yes: Expr
    no: Expr


@dataclass(frozen=True, slots=True)
class Cast(_Arithmetic):
    """`value` converted to `dtype` as ONNX Cast does; rounds to float16/bfloat16."""

    dtype: DType
    value: Expr


Expr = Const | Var | Load | Call | Select | Cast
Operand = Expr | _Arithmetic | int | float


class LoopKind(Enum):
    """How the iterations of a loop run."""

    SERIAL = "for"
    PARALLEL = "parallel"  # outermost only; iterations are independent
    VECTOR = "vector"  # iterations are independent up to `reductions`
    UNROLL = "unroll"  # constant extent


@dataclass(frozen=True, slots=True)
class Let:
    """Name a value for the rest of the enclosing body."""

    name: str
    value: Expr


@dataclass(frozen=True, slots=True)
class Declare:
    """A mutable variable (carried reduction state), visible to the end of the enclosing body."""

    name: str
    dtype: DType
    init: Expr


@dataclass(frozen=True, slots=True)
class Assign:
    """Give a declared variable a new value."""

    name: str
    value: Expr


@dataclass(frozen=True, slots=True)
class For:
    """`var` from 0 to `extent` - 1.

    `reductions`, of a VECTOR loop: pairs (declared variable, "add" | "mul" | "min" | "max"), each
    updated in the body only by `Assign(v, Call(op, (Var(v), ...)))`, or for "add" by an "fma" whose
    last operand is Var(v); the order of updates is free then.
    `grain`, of a PARALLEL loop: how many iterations are worth one hand-over to a thread.
    `note` is a comment in the generated text.
    """

    var: str
    extent: Expr
    body: tuple[Stmt, ...]
    kind: LoopKind = LoopKind.SERIAL
    reductions: tuple[tuple[str, str], ...] = ()
    grain: int = 1
    note: str = ""


@dataclass(frozen=True, slots=True)
class If:
    """Run `body` if `cond` (bool), else `orelse`."""

    cond: Expr
    body: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...] = ()


@dataclass(frozen=True, slots=True)
class Store:
    """Write `value` to element `index` of `buffer`; same dtype (float16/bfloat16 are rounded)."""

    buffer: str
    index: Expr
    value: Expr


@dataclass(frozen=True, slots=True)
class Alloc:
    """Uninitialised per-thread scratch, visible to the end of the enclosing body.

    `size` (elements) may read sizes and constants only.
    """

    buffer: str
    dtype: DType
    size: Expr


@dataclass(frozen=True, slots=True)
class PointerTable:
    """A per-thread array of `size` pointers to float32 rows, operand of a micro-kernel."""

    name: str
    size: int


@dataclass(frozen=True, slots=True)
class SetPointer:
    """Entry `index` of `table` := `&buffer[offset]`; no buffer: a row of 65536 zeros."""

    table: str
    index: Expr
    buffer: str | None
    offset: Expr = Const(0)


@dataclass(frozen=True, slots=True)
class Pointer:
    """Micro-kernel operand: the address of element `offset` of `buffer`."""

    buffer: str
    offset: Expr = Const(0)


@dataclass(frozen=True, slots=True)
class Table:
    """Micro-kernel operand: a pointer table, from entry `start` on."""

    name: str
    start: Expr = Const(0)


@dataclass(frozen=True, slots=True)
class MicroKernel:
    """Call of the hand-written function `{name}_{A}x{B}` for variant (A, B)."""

    name: str
    variant: tuple[int, ...]
    operands: tuple[Pointer | Table | Expr, ...]


Stmt = Let | Declare | Assign | For | If | Store | Alloc | PointerTable | SetPointer | MicroKernel


class Role(Enum):
    """What a kernel does with a buffer."""

    IN = "in"
    OUT = "out"
    CONST = "const"  # never written, known at compile time (weights)
    SCRATCH = "scratch"  # shared by the nests and threads of one kernel run


@dataclass(frozen=True, slots=True)
class Buffer:
    """A parameter of a kernel: `size` elements (an expression of the kernel's sizes)."""

    name: str
    dtype: DType
    role: Role
    size: Expr


@dataclass(frozen=True, slots=True)
class Kernel:
    """One block: nests that run one after another.

    Each PARALLEL loop of `body` is a nest; the statements between two of them form a serial nest.
    Of the top level only `Let`s that read nothing but sizes are visible in other nests.
    """

    name: str
    buffers: tuple[Buffer, ...]
    sizes: tuple[str, ...]
    body: tuple[Stmt, ...]
    note: str = ""


def call(op: str, *args: Expr) -> Call:
    """Return `Call(op, args)`."""
    return Call(op, args)


def constant(value: bool | int | float, dtype: DType = DType.INT64) -> Const:
    """Return a constant whose Python value has the class of `dtype` (1 → 1.0 for floats)."""
    if dtype is DType.BOOL:
        return Const(bool(value), dtype)
    return Const(float(value) if dtype.is_float else int(value), dtype)


def dtype_of(expr: Expr) -> DType:
    """Return the element type of `expr`; CompileError if an operator gets wrong operands."""
    match expr:
        case Const(dtype=dtype) | Var(dtype=dtype) | Load(dtype=dtype) | Cast(dtype=dtype):
            return dtype
        case Select(yes=yes):
            return dtype_of(yes)
        case Call(op, args):
            return result_dtype(op, [dtype_of(a) for a in args])
        case _:
            assert_never(expr)


def _binary(op: str, left: Operand, right: Operand) -> Call:
    if isinstance(left, int | float):
        assert not isinstance(right, int | float)
        return Call(op, (constant(left, dtype_of(_expr(right))), _expr(right)))
    first = _expr(left)
    second = constant(right, dtype_of(first)) if isinstance(right, int | float) else _expr(right)
    return Call(op, (first, second))


def _expr(value: object) -> Expr:
    assert isinstance(value, Const | Var | Load | Call | Select | Cast)
    return value
