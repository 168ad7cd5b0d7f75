"""Print kernels of the loop IR as text, one statement a line, and parse that text back.

Expressions read as Python: `x[i * 4 + j] + float32(0.5)`.  Numbers without a type are int64.
"""

from __future__ import annotations

import json
from typing import assert_never

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
from egraph_fusion.ir.tensors import DType

# operator: (Python symbol, precedence); comparisons do not chain
INFIX = {
    "eq": ("==", 1), "ne": ("!=", 1), "lt": ("<", 1), "le": ("<=", 1), "gt": (">", 1),
    "ge": (">=", 1), "add": ("+", 2), "sub": ("-", 2), "mul": ("*", 3), "div": ("/", 3),
    "floordiv": ("//", 3), "floormod": ("%", 3),
}  # fmt: skip
_ATOM = 4


def text(kernel: Kernel) -> str:
    """Return `kernel` as text that `loop_parse.parse` reads back to an equal kernel."""
    head = f"kernel {kernel.name}({', '.join(kernel.sizes)}){_note(kernel.note)}"
    buffers = [f"  {_buffer(b)}" for b in kernel.buffers]
    return "\n".join([head, *buffers, *_block(kernel.body, "  ")]) + "\n"


def expression(expr: Expr) -> str:
    """Return `expr` as text."""
    return _expression(expr)[0]


def _buffer(buffer: Buffer) -> str:
    size = expression(buffer.size)
    return f"{buffer.role.value} {buffer.name}: {buffer.dtype.value}[{size}]"


def _note(note: str) -> str:
    return f"  # {json.dumps(note)}" if note else ""


def _block(body: tuple[Stmt, ...], indent: str) -> list[str]:
    lines: list[str] = []
    for stmt in body:
        lines += [indent + line for line in _lines(stmt)]
    return lines


def _lines(stmt: Stmt) -> list[str]:
    match stmt:
        case For():
            return [_loop_head(stmt), *_block(stmt.body, "  ")]
        case If(cond, body, orelse):
            then = [f"if {expression(cond)}:", *_block(body, "  ")]
            return [*then, "else:", *_block(orelse, "  ")] if orelse else then
        case _:
            return [_line(stmt)]


def _loop_head(loop: For) -> str:
    parts = [f"{loop.kind.value} {loop.var} < {expression(loop.extent)}"]
    if loop.grain != 1:
        parts.append(f"grain {loop.grain}")
    if loop.reductions:
        parts.append("reduce " + ", ".join(f"{op} {name}" for name, op in loop.reductions))
    return " ".join(parts) + ":" + _note(loop.note)


def _line(
    stmt: Let | Declare | Assign | Store | Alloc | PointerTable | SetPointer | MicroKernel,
) -> str:
    match stmt:
        case Let(name, value):
            return f"let {name} = {expression(value)}"
        case Declare(name, dtype, init):
            return f"var {name}: {dtype.value} = {expression(init)}"
        case Assign(name, value):
            return f"{name} = {expression(value)}"
        case Store(buffer, index, value):
            return f"{buffer}[{expression(index)}] = {expression(value)}"
        case Alloc(buffer, dtype, size):
            return f"alloc {buffer}: {dtype.value}[{expression(size)}]"
        case PointerTable(name, size):
            return f"pointers {name}[{size}]"
        case SetPointer(table, index, buffer, offset):
            return f"point {table}[{expression(index)}] = {buffer or 'zeros'}[{expression(offset)}]"
        case MicroKernel(name, variant, arguments):
            shown = f"[{', '.join(map(str, variant))}]" if variant else ""
            return f"call {name}{shown}({', '.join(map(_argument, arguments))})"
        case _:
            assert_never(stmt)


def _argument(argument: Pointer | Table | Expr) -> str:
    match argument:
        case Pointer(buffer, offset):
            return f"pointer({buffer}[{expression(offset)}])"
        case Table(name, start):
            return f"table({name}[{expression(start)}])"
        case _:
            return expression(argument)


def _expression(expr: Expr) -> tuple[str, int]:
    match expr:
        case Const():
            return _constant(expr), _ATOM
        case Var(name):
            return name, _ATOM
        case Load(buffer, index, _):
            return f"{buffer}[{expression(index)}]", _ATOM
        case Call(op, (left, right)) if op in INFIX:
            symbol, level = INFIX[op]
            inner = level + 1 if level == 1 else level
            return f"{_inside(left, inner)} {symbol} {_inside(right, level + 1)}", level
        case Call(op, args):
            return f"{op}({', '.join(map(expression, args))})", _ATOM
        case Select(cond, yes, no):
            return f"select({', '.join(map(expression, (cond, yes, no)))})", _ATOM
        case Cast(dtype, value):
            return f"cast({dtype.value}, {expression(value)})", _ATOM
        case _:
            assert_never(expr)


def _inside(expr: Expr, level: int) -> str:
    shown, own = _expression(expr)
    return shown if own >= level else f"({shown})"


def _constant(const: Const) -> str:
    if const.dtype in (DType.INT64, DType.BOOL):
        return repr(const.value)
    return f"{const.dtype.value}({const.value!r})"
