"""Statements rewritten: buffers found and renamed, variables replaced."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from egraph_fusion.codegen.index import Ranges, simplify
from egraph_fusion.codegen.loop_walk import (
    buffers,
    expressions,
    rewrite,
    statements,
    subexpressions,
    substitute,
)
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
)


def used_buffers(body: tuple[Stmt, ...]) -> set[str]:
    """Return the names of the buffers that statements read, write or point to."""
    found: set[str] = set()
    for stmt in statements(body):
        for expr in expressions(stmt):
            found |= {e.buffer for e in subexpressions(expr) if isinstance(e, Load)}
        found |= set(buffers(stmt))
    return found


def renamed_buffers(body: tuple[Stmt, ...], names: Mapping[str, str]) -> tuple[Stmt, ...]:
    """Return the statements with buffers renamed; others keep their names."""

    def one(e: Expr) -> Expr:
        return Load(names.get(e.buffer, e.buffer), e.index, e.dtype) if isinstance(e, Load) else e

    return tuple(_mapped(s, lambda e: rewrite(e, one), names) for s in body)


def substituted(stmt: Stmt, values: Mapping[str, Expr], ranges: Ranges) -> Stmt:
    """Return a statement with variables replaced and its index arithmetic in normal form."""
    return _mapped(stmt, lambda e: simplify(substitute(e, values), ranges), {})


def _mapped(stmt: Stmt, expr: Callable[[Expr], Expr], names: Mapping[str, str]) -> Stmt:
    """Return `stmt` with every expression mapped and buffers renamed."""

    def operand(o: Pointer | Table | Expr) -> Pointer | Table | Expr:
        match o:
            case Pointer(buffer, offset):
                return Pointer(names.get(buffer, buffer), expr(offset))
            case Table(name, start):
                return Table(name, expr(start))
            case _:
                return expr(o)

    def block(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        return tuple(_mapped(s, expr, names) for s in body)

    match stmt:
        case Let(name, value):
            return Let(name, expr(value))
        case Assign(name, value):
            return Assign(name, expr(value))
        case Declare(name, dtype, value):
            return Declare(name, dtype, expr(value))
        case For():
            return replace(stmt, extent=expr(stmt.extent), body=block(stmt.body))
        case If(cond, body, orelse):
            return If(expr(cond), block(body), block(orelse))
        case Store(buffer, index, value):
            return Store(names.get(buffer, buffer), expr(index), expr(value))
        case SetPointer(table, index, buffer, offset):
            new = None if buffer is None else names.get(buffer, buffer)
            return SetPointer(table, expr(index), new, expr(offset))
        case MicroKernel(name, variant, operands):
            return MicroKernel(name, variant, tuple(operand(o) for o in operands))
        case Alloc() | PointerTable():
            return stmt
