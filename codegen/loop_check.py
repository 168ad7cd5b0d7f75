"""Check that a loop IR kernel is well formed: names, types, scopes, and what each loop may hold."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import assert_never

from egraph_fusion.codegen.loop_text import expression
from egraph_fusion.codegen.loop_walk import expressions, operands, statements, subexpressions
from egraph_fusion.codegen.loops import (
    Alloc,
    Assign,
    Buffer,
    Call,
    Cast,
    Const,
    Declare,
    Expr,
    For,
    If,
    Kernel,
    Let,
    Load,
    LoopKind,
    MicroKernel,
    Pointer,
    PointerTable,
    Role,
    Select,
    SetPointer,
    Stmt,
    Store,
    Table,
    Var,
    dtype_of,
)
from egraph_fusion.codegen.nests import nests, shared_lets
from egraph_fusion.codegen.scalars import class_of
from egraph_fusion.errors import CompileError
from egraph_fusion.ir.tensors import DType

REDUCTIONS = ("add", "mul", "min", "max")
_WORDS = "parallel vector unroll let var alloc pointers point call zeros"
RESERVED = frozenset([*_WORDS.split(), *keyword.kwlist])
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z", re.ASCII)


def check(kernel: Kernel) -> None:
    """Raise CompileError, naming the kernel and the statement, if `kernel` is not well formed."""
    try:
        _check(kernel)
    except CompileError as error:
        raise CompileError(f"kernel {kernel.name}: {error}") from None


def _check(kernel: Kernel) -> None:
    _names([kernel.name])
    _names([*kernel.sizes, *(b.name for b in kernel.buffers)])
    sizes = Scope(dict.fromkeys(kernel.sizes, DType.INT64))
    for buffer in kernel.buffers:
        class_of(buffer.dtype)
        sizes.index(buffer.size, f"size of buffer {buffer.name}")
    scope = replace(sizes, buffers={b.name: b for b in kernel.buffers})
    scope.block(shared_lets(kernel))
    for nest in nests(kernel):
        inner = scope
        for let in nest.shared:
            inner = inner.after(let)
        inner.block(nest.body, top=True)


def _names(names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if not _NAME.match(name) or name in RESERVED:
            raise CompileError(f"{name!r} is no usable name")
        if name in seen:
            raise CompileError(f"name {name!r} is declared twice")
        seen.add(name)


@dataclass(frozen=True, slots=True)
class Scope:
    """What is visible at a statement, and the kind of loop around it."""

    variables: dict[str, DType]
    mutable: frozenset[str] = frozenset()
    buffers: dict[str, Buffer] | None = None
    tables: frozenset[str] = frozenset()
    in_vector: bool = False
    reductions: frozenset[str] = frozenset()

    def block(self, body: tuple[Stmt, ...], top: bool = False) -> None:
        """Check the statements of one body, in order."""
        scope = self
        for stmt in body:
            try:
                scope.statement(stmt, top)
            except CompileError as error:
                raise CompileError(f"{_show(stmt)}: {error}") from None
            scope = scope.after(stmt)

    def statement(self, stmt: Stmt, top: bool) -> None:
        """Check one statement."""
        match stmt:
            case Let(_, value):
                self.value(value)
            case Declare(_, dtype, init):
                self.typed(init, dtype)
            case Assign(name, value):
                self.assign(name, value)
            case For():
                self.loop(stmt, top)
            case If(cond, then, orelse):
                self.typed(cond, DType.BOOL)
                self.block(then)
                self.block(orelse)
            case Store(buffer, index, value):
                self.index(index, "index")
                self.typed(value, self.writable(buffer).dtype)
            case Alloc(_, dtype, size):
                class_of(dtype)
                self.scratch(size)
            case PointerTable(_, size):
                _require(size > 0 and not self.in_vector, "needs a size above 0, outside vectors")
            case SetPointer(table, index, source, offset):
                _require(table in self.tables, f"pointer table {table!r} is not declared")
                self.index(index, "index")
                self.address(source, offset)
            case MicroKernel(_, variant, arguments):
                _require(not self.in_vector, "a micro-kernel can not run inside a vector loop")
                _require(all(v > 0 for v in variant), "variant numbers must be positive")
                for argument in arguments:
                    self.argument(argument)
            case _:
                assert_never(stmt)

    def after(self, stmt: Stmt) -> Scope:
        """Return the scope of the statement after `stmt`."""
        match stmt:
            case Let(name, value):
                return self._with(name, dtype_of(value))
            case Declare(name, dtype, _):
                scope = self._with(name, dtype)
                return replace(scope, mutable=scope.mutable | {name})
            case Alloc(name, dtype, size):
                self._fresh(name)
                added = Buffer(name, dtype, Role.SCRATCH, size)
                return replace(self, buffers={**(self.buffers or {}), name: added})
            case PointerTable(name, _):
                self._fresh(name)
                return replace(self, tables=self.tables | {name})
            case _:
                return self

    def _with(self, name: str, dtype: DType) -> Scope:
        self._fresh(name)
        return replace(self, variables={**self.variables, name: dtype})

    def _fresh(self, name: str) -> None:
        _names([name])
        taken = name in self.variables or name in (self.buffers or {}) or name in self.tables
        _require(not taken, f"name {name!r} is already visible here")

    def loop(self, loop: For, top: bool) -> None:
        """Check a loop and its body."""
        self.index(loop.extent, "extent")
        parallel, vector = loop.kind is LoopKind.PARALLEL, loop.kind is LoopKind.VECTOR
        _require(top or not parallel, "only outermost loops can be parallel")
        _require(loop.grain > 0, f"grain {loop.grain} must be positive")
        _require(not (vector and self.in_vector), "vector loops do not nest")
        _require(vector or not loop.reductions, "only vector loops carry reductions")
        constant = isinstance(loop.extent, Const)
        _require(constant or loop.kind is not LoopKind.UNROLL, "unrolling needs a constant extent")
        inner = self._with(loop.var, DType.INT64)
        if parallel:
            inner = replace(inner, mutable=frozenset())
        if vector:
            for reduction in loop.reductions:
                self.reduction(*reduction, loop)
            carried = frozenset(name for name, _ in loop.reductions)
            inner = replace(inner, mutable=frozenset(), in_vector=True, reductions=carried)
        inner.block(loop.body)

    def reduction(self, name: str, op: str, loop: For) -> None:
        """Check that the loop's only use of `name` is `name = op(name, ...)`."""
        _require(name in self.mutable, f"reduction variable {name!r} is not a declared variable")
        _require(op in REDUCTIONS, f"reduction {op!r}: expected one of {', '.join(REDUCTIONS)}")
        uses = 0
        for stmt in statements(loop.body):
            reads = sum(_reads(e, name) for e in expressions(stmt))
            if isinstance(stmt, Assign) and stmt.name == name:
                own = Var(name, self.variables[name])
                _require(reads == 1 and _reduces(stmt.value, op, own), "no reduction")
            else:
                uses += reads
        _require(not uses, f"reduction variable {name!r} is read inside its vector loop")

    def assign(self, name: str, value: Expr) -> None:
        """Check an assignment: the variable is mutable here and has the value's dtype."""
        known = name in self.mutable or name in self.reductions
        _require(known, f"{name!r} is not assignable here: declare it, or list it as a reduction")
        self.typed(value, self.variables[name])

    def argument(self, argument: Pointer | Table | Expr) -> None:
        """Check an operand of a micro-kernel."""
        match argument:
            case Pointer(buffer, offset):
                self.address(buffer, offset)
            case Table(name, start):
                _require(name in self.tables, f"pointer table {name!r} is not declared")
                self.index(start, "start")
            case _:
                self.value(argument)

    def address(self, buffer: str | None, offset: Expr) -> None:
        """Check an address inside a buffer."""
        if buffer is not None:
            self.buffer(buffer)
        self.index(offset, "offset")

    def scratch(self, size: Expr) -> None:
        """Check the size of per-thread scratch: it is known before the kernel runs."""
        _require(not self.in_vector, "no scratch inside a vector loop")
        self.index(size, "size")
        _require(not any(isinstance(e, Load) for e in subexpressions(size)), "size reads memory")

    def buffer(self, name: str) -> Buffer:
        """Return the visible buffer `name`."""
        known = self.buffers or {}
        _require(name in known, f"buffer {name!r} is not declared")
        return known[name]

    def writable(self, name: str) -> Buffer:
        """Return the visible buffer `name`, which the kernel may write."""
        found = self.buffer(name)
        ok = found.role in (Role.OUT, Role.SCRATCH)
        _require(ok, f"buffer {name!r} is read only ({found.role.value})")
        return found

    def index(self, expr: Expr, what: str) -> None:
        """Check an int64 expression."""
        self.value(expr)
        found = dtype_of(expr)
        _require(found is DType.INT64, f"{what} {expression(expr)} is {found.value}, not int64")

    def typed(self, expr: Expr, dtype: DType) -> None:
        """Check an expression of type `dtype`."""
        self.value(expr)
        found = dtype_of(expr)
        _require(found is dtype, f"{expression(expr)} is {found.value}, expected {dtype.value}")

    def value(self, expr: Expr) -> None:
        """Check an expression and everything below it."""
        for operand in operands(expr):
            self.value(operand)
        match expr:
            case Const(value, dtype):
                _constant(value, dtype)
            case Var(name, dtype):
                found = self.variables.get(name)
                _require(found is not None, f"variable {name!r} is not visible here")
                _require(found is dtype, f"variable {name!r} is not {dtype.value}")
            case Load(buffer, index, dtype):
                self.index(index, "index")
                _require(
                    self.buffer(buffer).dtype is dtype, f"{buffer} does not hold {dtype.value}"
                )
            case Select(cond, yes, no):
                self.typed(cond, DType.BOOL)
                _require(dtype_of(yes) is dtype_of(no), "select: the sides differ in dtype")
            case Cast(dtype, value):
                class_of(dtype)
                class_of(dtype_of(value))
            case Call():
                dtype_of(expr)
            case _:
                assert_never(expr)


def _constant(value: bool | int | float, dtype: DType) -> None:
    wanted = bool if dtype is DType.BOOL else float if dtype.is_float else int
    class_of(dtype)
    _require(type(value) is wanted, f"constant {value!r} is no {dtype.value}")
    if dtype.is_integer:
        bits = 8 * dtype.itemsize
        low = 0 if dtype.value.startswith("u") else -(2 ** (bits - 1))
        _require(low <= value < low + 2**bits, f"constant {value!r} is no {dtype.value}")


def _reduces(value: Expr, op: str, own: Var) -> bool:
    match value:
        case Call("fma", (_, _, last)):
            return op == "add" and last == own
        case Call(name, args):
            return name == op and own in args
        case _:
            return False


def _reads(expr: Expr, name: str) -> int:
    return sum(isinstance(e, Var) and e.name == name for e in subexpressions(expr))


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise CompileError(message)


def _show(stmt: Stmt) -> str:
    match stmt:
        case For(var, extent):
            return f"{stmt.kind.value} {var} < {expression(extent)}"
        case If(cond):
            return f"if {expression(cond)}"
        case Let(name) | Declare(name) | Assign(name) | PointerTable(name) | MicroKernel(name):
            return f"{type(stmt).__name__.lower()} {name}"
        case Store(name) | Alloc(name) | SetPointer(name):
            return f"{type(stmt).__name__.lower()} {name}"
        case _:
            assert_never(stmt)
