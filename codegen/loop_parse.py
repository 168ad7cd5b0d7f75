"""Parse the text of a loop IR kernel; expressions are read by Python's own parser."""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from egraph_fusion.codegen.loop_text import INFIX
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
from egraph_fusion.codegen.scalars import SCALARS
from egraph_fusion.errors import CompileError
from egraph_fusion.ir.tensors import DType

_AST_NAMES: dict[type[ast.AST], str] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%",
}  # fmt: skip
_OP_OF_SYMBOL = {symbol: op for op, (symbol, _) in INFIX.items()}
_SPECIAL = {"inf": math.inf, "nan": math.nan}
_DTYPES = {d.value: d for d in DType}
_HEAD = re.compile(r"kernel (\w+)\((.*?)\)$")
_BUFFER = re.compile(r"(in|out|const|scratch) (\w+): (\w+)\[(.*)\]$")
_LOOP = re.compile(
    r"(for|parallel|vector|unroll) (\w+) < (.*?)(?: grain (\d+))?(?: reduce ([\w, ]+))?:$"
)


def parse(source: str) -> Kernel:
    """Return the kernel that `source` (as `loop_text.text` prints it) describes.

    Raises CompileError naming the line that cannot be read.
    """
    lines = [_split(n, raw) for n, raw in enumerate(source.splitlines(), 1) if raw.strip()]
    if not lines:
        raise CompileError("loop IR: expected `kernel NAME(SIZES)`, got nothing")
    head = lines[0]
    found = _HEAD.match(head.text)
    if not found:
        raise head.error("expected `kernel NAME(SIZES)`")
    sizes = tuple(s.strip() for s in found[2].split(",") if s.strip())
    reader = _Reader(lines[1:], dict.fromkeys(sizes, DType.INT64))
    buffers = reader.buffers()
    body = reader.block(1)
    if reader.rest:
        raise reader.rest[0].error("indentation matches no open block")
    return Kernel(found[1], buffers, sizes, body, head.note)


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    depth: int
    text: str
    note: str

    def error(self, why: str) -> CompileError:
        return CompileError(f"loop IR line {self.number}: {self.text!r}: {why}")


def _split(number: int, raw: str) -> _Line:
    code, _, note = raw.partition("  # ")
    depth = (len(code) - len(code.lstrip())) // 2
    return _Line(number, depth, code.strip(), json.loads(note) if note else "")


@dataclass(slots=True)
class _Reader:
    """The lines still to read, and the dtypes of the names seen so far."""

    rest: list[_Line]
    names: dict[str, DType]
    elements: dict[str, DType] = field(default_factory=dict[str, DType])

    def buffers(self) -> tuple[Buffer, ...]:
        out: list[Buffer] = []
        while self.rest and (found := _BUFFER.match(self.rest[0].text)):
            line = self.rest.pop(0)
            dtype = self.dtype(found[3], line)
            out.append(Buffer(found[2], dtype, Role(found[1]), self.parsed(found[4], line)))
            self.elements[found[2]] = dtype
        return tuple(out)

    def block(self, depth: int) -> tuple[Stmt, ...]:
        out: list[Stmt] = []
        while self.rest and self.rest[0].depth == depth:
            line = self.rest.pop(0)
            try:
                out.append(self.statement(line, depth))
            except (SyntaxError, KeyError, ValueError, IndexError, TypeError) as error:
                raise line.error(f"cannot be read ({error})") from error
        return tuple(out)

    def statement(self, line: _Line, depth: int) -> Stmt:
        word, _, tail = line.text.partition(" ")
        special: dict[str, Callable[[str, _Line], Stmt]] = {
            "let": self.let,
            "var": self.declare,
            "alloc": self.alloc,
            "pointers": self.pointers,
            "point": self.point,
            "call": self.micro_kernel,
        }
        if found := _LOOP.match(line.text):
            return self.loop(found, line, depth)
        if word == "if":
            return self.conditional(tail, line, depth)
        return special[word](tail, line) if word in special else self.write(line)

    def loop(self, found: re.Match[str], line: _Line, depth: int) -> For:
        extent = self.parsed(found[3], line)
        self.names[found[2]] = DType.INT64
        pairs = [r.split() for r in (found[5] or "").split(",") if r]
        return For(
            found[2],
            extent,
            self.block(depth + 1),
            LoopKind(found[1]),
            tuple((name, op) for op, name in pairs),
            int(found[4] or 1),
            line.note,
        )

    def conditional(self, tail: str, line: _Line, depth: int) -> If:
        cond = self.parsed(tail.removesuffix(":"), line)
        body = self.block(depth + 1)
        if self.rest and self.rest[0].depth == depth and self.rest[0].text == "else:":
            self.rest.pop(0)
            return If(cond, body, self.block(depth + 1))
        return If(cond, body)

    def let(self, tail: str, line: _Line) -> Let:
        name, _, value = tail.partition(" = ")
        expr = self.parsed(value, line)
        self.names[name] = dtype_of(expr)
        return Let(name, expr)

    def declare(self, tail: str, line: _Line) -> Declare:
        left, _, value = tail.partition(" = ")
        name, _, kind = left.partition(": ")
        self.names[name] = self.dtype(kind, line)
        return Declare(name, self.names[name], self.parsed(value, line))

    def alloc(self, tail: str, line: _Line) -> Alloc:
        name, _, kind = tail.partition(": ")
        dtype, _, size = kind.partition("[")
        self.elements[name] = self.dtype(dtype, line)
        return Alloc(name, self.elements[name], self.parsed(size.removesuffix("]"), line))

    def pointers(self, tail: str, line: _Line) -> PointerTable:
        name, _, size = tail.partition("[")
        return PointerTable(name, int(size.removesuffix("]")))

    def point(self, tail: str, line: _Line) -> SetPointer:
        target, value = _assignment(tail)
        table, index = self.subscript(target, line)
        buffer, offset = self.subscript(value, line)
        return SetPointer(table, index, None if buffer == "zeros" else buffer, offset)

    def micro_kernel(self, tail: str, line: _Line) -> MicroKernel:
        node = ast.parse(tail, mode="eval").body
        if not isinstance(node, ast.Call):
            raise line.error("expected a call")
        name, _, variant = ast.unparse(node.func).removesuffix("]").partition("[")
        numbers = tuple(int(v) for v in variant.strip("()").split(",") if v.strip())
        return MicroKernel(name, numbers, tuple(self.argument(a, line) for a in node.args))

    def argument(self, node: ast.expr, line: _Line) -> Pointer | Table | Expr:
        match node:
            case ast.Call(func=ast.Name(id="pointer"), args=[inner]):
                return Pointer(*self.subscript(inner, line))
            case ast.Call(func=ast.Name(id="table"), args=[inner]):
                return Table(*self.subscript(inner, line))
            case _:
                return self.expr(node, line)

    def write(self, line: _Line) -> Assign | Store:
        target, value = _assignment(line.text)
        if isinstance(target, ast.Name):
            return Assign(target.id, self.expr(value, line))
        buffer, index = self.subscript(target, line)
        return Store(buffer, index, self.expr(value, line))

    def subscript(self, node: ast.expr, line: _Line) -> tuple[str, Expr]:
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
            return node.value.id, self.expr(node.slice, line)
        raise line.error("expected NAME[INDEX]")

    def dtype(self, name: str, line: _Line) -> DType:
        if name not in _DTYPES:
            raise line.error(f"{name!r} is no element type")
        return _DTYPES[name]

    def parsed(self, source: str, line: _Line) -> Expr:
        return self.expr(ast.parse(source.strip(), mode="eval").body, line)

    def expr(self, node: ast.expr, line: _Line) -> Expr:
        match node:
            case ast.Name(id=name):
                return Var(name, self.names[name])
            case ast.Subscript(value=ast.Name(id=name), slice=index):
                return Load(name, self.expr(index, line), self.elements[name])
            case ast.BinOp(left=left, op=op, right=right):
                return self.infix(type(op), left, right, line)
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return self.infix(type(op), left, right, line)
            case ast.Call(func=ast.Name(id=name), args=args):
                return self.function(name, args, line)
            case _:
                return _literal(_number(node), DType.INT64)

    def infix(self, op: type[ast.AST], left: ast.expr, right: ast.expr, line: _Line) -> Call:
        name = _OP_OF_SYMBOL[_AST_NAMES[op]]
        return Call(name, (self.expr(left, line), self.expr(right, line)))

    def function(self, name: str, args: list[ast.expr], line: _Line) -> Expr:
        if name in _DTYPES:
            return _literal(_number(args[0]), _DTYPES[name])
        if name == "cast":
            return Cast(self.dtype(ast.unparse(args[0]), line), self.expr(args[1], line))
        parts = tuple(self.expr(a, line) for a in args)
        if name == "select":
            return Select(*parts)
        if name not in SCALARS:
            raise line.error(f"{name!r} is no scalar operator")
        return Call(name, parts)


def _literal(value: bool | int | float, dtype: DType) -> Const:
    return Const(value, DType.BOOL if isinstance(value, bool) else dtype)


def _assignment(source: str) -> tuple[ast.expr, ast.expr]:
    match ast.parse(source).body:
        case [ast.Assign(targets=[target], value=value)]:
            return target, value
        case _:
            raise ValueError("expected TARGET = VALUE")


def _number(node: ast.expr) -> bool | int | float:
    match node:
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_number(operand)
        case ast.Name(id=name):
            return _SPECIAL[name]
        case ast.Constant(value=bool() | int() | float() as value):
            return value
        case _:
            raise ValueError(f"{ast.unparse(node)}: expected a number")
