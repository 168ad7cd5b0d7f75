"""Walking over loop IR: what an expression or a statement holds, and rewriting it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import assert_never

from egraph_fusion.codegen.loops import (
    Alloc,
    Assign,
    Call,
    Cast,
    Const,
    Declare,
    Expr,
    For,
    If,
    Let,
    Load,
    MicroKernel,
    Pointer,
    PointerTable,
    Select,
    SetPointer,
    Stmt,
    Store,
    Table,
    Var,
)


def operands(expr: Expr) -> tuple[Expr, ...]:
    """Return the sub-expressions of `expr`, in order."""
    match expr:
        case Const() | Var():
            return ()
        case Load(index=index):
            return (index,)
        case Call(args=args):
            return args
        case Select(cond, yes, no):
            return (cond, yes, no)
        case Cast(value=value):
            return (value,)
        case _:
            assert_never(expr)


def with_operands(expr: Expr, new: tuple[Expr, ...]) -> Expr:
    """Return `expr` with its sub-expressions replaced by `new` (as many as `operands` gives)."""
    match expr:
        case Const() | Var():
            return expr
        case Load(buffer, _, dtype):
            return Load(buffer, new[0], dtype)
        case Call(op, _):
            return Call(op, new)
        case Select():
            return Select(*new)
        case Cast(dtype, _):
            return Cast(dtype, new[0])
        case _:
            assert_never(expr)


def rewrite(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """Return `expr` with `change` applied to every node, leaves first."""
    return change(with_operands(expr, tuple(rewrite(e, change) for e in operands(expr))))


def substitute(expr: Expr, values: Mapping[str, Expr]) -> Expr:
    """Return `expr` with the variables in `values` replaced."""
    return rewrite(expr, lambda e: values.get(e.name, e) if isinstance(e, Var) else e)


def subexpressions(expr: Expr) -> Iterator[Expr]:
    """Yield `expr` and everything below it."""
    yield expr
    for operand in operands(expr):
        yield from subexpressions(operand)


def statements(body: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """Yield every statement of `body`, outer before inner."""
    for stmt in body:
        yield stmt
        if isinstance(stmt, For):
            yield from statements(stmt.body)
        elif isinstance(stmt, If):
            yield from statements(stmt.body + stmt.orelse)


def expressions(stmt: Stmt) -> tuple[Expr, ...]:
    """Return the expressions that `stmt` itself holds, those of its body left out."""
    match stmt:
        case Let(_, value) | Declare(_, _, value) | Assign(_, value):
            return (value,)
        case For(extent=extent):
            return (extent,)
        case If(cond=cond):
            return (cond,)
        case Store(_, index, value):
            return (index, value)
        case SetPointer(_, index, _, offset):
            return (index, offset)
        case Alloc(_, _, size):
            return (size,)
        case PointerTable():
            return ()
        case MicroKernel(_, _, arguments):
            return tuple(_argument(a) for a in arguments)
        case _:
            assert_never(stmt)


def buffers(stmt: Stmt) -> tuple[str, ...]:
    """Return the buffers that `stmt` itself stores to or takes addresses of."""
    match stmt:
        case Store(buffer=name):
            return (name,)
        case SetPointer(buffer=str() as name):
            return (name,)
        case MicroKernel(_, _, arguments):
            return tuple(a.buffer for a in arguments if isinstance(a, Pointer))
        case _:
            return ()


def _argument(operand: Pointer | Table | Expr) -> Expr:
    match operand:
        case Pointer(_, offset):
            return offset
        case Table(_, start):
            return start
        case _:
            return operand
