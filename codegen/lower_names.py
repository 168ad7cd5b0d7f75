"""The buffers that a kernel's statements name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

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
    rewrite,
    statements,
    subexpressions,
)


def expressions(stmt: Stmt) -> tuple[Expr, ...]:
    """Return the expressions that a statement holds itself, its body left out."""
    match stmt:
        case Let(_, value) | Assign(_, value) | Declare(_, _, value):
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
        case MicroKernel(_, _, operands):
            return tuple(_operand(o) for o in operands)
        case PointerTable():
            return ()


def _operand(operand: Pointer | Table | Expr) -> Expr:
    match operand:
        case Pointer(_, offset):
            return offset
        case Table(_, start):
            return start
        case _:
            return operand


def used_buffers(body: tuple[Stmt, ...]) -> set[str]:
    """Return the names of the buffers that statements read, write or point to."""
    found: set[str] = set()
    for stmt in statements(body):
        for expr in expressions(stmt):
            found |= {e.buffer for e in subexpressions(expr) if isinstance(e, Load)}
        match stmt:
            case Store(buffer):
                found.add(buffer)
            case SetPointer(_, _, buffer) if buffer is not None:
                found.add(buffer)
            case MicroKernel(_, _, operands):
                found |= {o.buffer for o in operands if isinstance(o, Pointer)}
            case _:
                pass
    return found


def renamed_buffers(body: tuple[Stmt, ...], names: Mapping[str, str]) -> tuple[Stmt, ...]:
    """Return the statements with buffers renamed; others keep their names."""
    return tuple(_renamed(s, names) for s in body)


def _renamed(stmt: Stmt, names: Mapping[str, str]) -> Stmt:
    def expr(e: Expr) -> Expr:
        return rewrite(e, one)

    def one(e: Expr) -> Expr:
        if isinstance(e, Load):
            return Load(names.get(e.buffer, e.buffer), e.index, e.dtype)
        return e

    def operand(o: Pointer | Table | Expr) -> Pointer | Table | Expr:
        match o:
            case Pointer(buffer, offset):
                return Pointer(names.get(buffer, buffer), expr(offset))
            case Table(name, start):
                return Table(name, expr(start))
            case _:
                return expr(o)

    match stmt:
        case Let(name, value):
            return Let(name, expr(value))
        case Assign(name, value):
            return Assign(name, expr(value))
        case Declare(name, dtype, value):
            return Declare(name, dtype, expr(value))
        case For():
            return replace(stmt, extent=expr(stmt.extent), body=renamed_buffers(stmt.body, names))
        case If(cond, body, orelse):
            return If(expr(cond), renamed_buffers(body, names), renamed_buffers(orelse, names))
        case Store(buffer, index, value):
            return Store(names.get(buffer, buffer), expr(index), expr(value))
        case SetPointer(table, index, buffer, offset):
            new = None if buffer is None else names.get(buffer, buffer)
            return SetPointer(table, expr(index), new, expr(offset))
        case MicroKernel(name, variant, operands):
            return MicroKernel(name, variant, tuple(operand(o) for o in operands))
        case Alloc() | PointerTable():
            return stmt
