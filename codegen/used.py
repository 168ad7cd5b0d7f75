"""Which names a nest mentions, so that only those are declared."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import assert_never

from egraph_fusion.codegen.loops import (
    Alloc,
    Assign,
    Declare,
    Expr,
    For,
    If,
    Let,
    Load,
    MicroKernel,
    Pointer,
    PointerTable,
    SetPointer,
    Stmt,
    Store,
    Table,
    Var,
    statements,
    subexpressions,
)
from egraph_fusion.codegen.nests import Nest


@lru_cache(maxsize=64)
def used_names(nest: Nest) -> frozenset[str]:
    """Return the buffers and variables that `nest` mentions, through its shared `Let`s too."""
    found: set[str] = set()
    for stmt in statements(nest.body):
        found |= {name for expr in expressions(stmt) for name in _names(expr)}
        found |= set(buffers(stmt))
    for let in reversed(nest.shared):
        if let.name in found:
            found |= set(_names(let.value))
    return frozenset(found)


def expressions(stmt: Stmt) -> tuple[Expr, ...]:
    """Return the expressions that `stmt` itself holds (not those of its body)."""
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


def _names(expr: Expr) -> Iterator[str]:
    for part in subexpressions(expr):
        if isinstance(part, Var):
            yield part.name
        elif isinstance(part, Load):
            yield part.buffer
