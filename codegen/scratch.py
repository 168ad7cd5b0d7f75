"""Where per-thread scratch lies: on the stack if small, else at an offset of the thread's block."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from egraph_fusion.codegen.index import Ranges, simplify
from egraph_fusion.codegen.loop_walk import statements, substitute
from egraph_fusion.codegen.loops import (
    Alloc,
    Const,
    Expr,
    Kernel,
    Let,
    MicroKernel,
    Pointer,
    SetPointer,
    Stmt,
    call,
)
from egraph_fusion.codegen.nests import Nest, nests
from egraph_fusion.codegen.targets import Target

_ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class Placement:
    """Byte offsets of the `Alloc`s of one nest that do not lie on the stack, and their total."""

    offsets: Mapping[Alloc, Expr]
    total: Expr


def scratch_bytes(kernel: Kernel, target: Target) -> Expr:
    """Return how many bytes of scratch each thread (OpenCL: work-item) needs, from the sizes."""
    sizes: Ranges = dict.fromkeys(kernel.sizes, (0, None))
    total: Expr = Const(0)
    for nest in nests(kernel):
        values = _values(nest)
        total = call("max", total, substitute(placed(nest, target).total, values))
    return simplify(total, sizes)


def placed(nest: Nest, target: Target) -> Placement:
    """Return where the scratch of `nest` lies: one place for each, equal ones share theirs."""
    pointed = frozenset(_pointed(nest.body)) if target.space else frozenset[str]()
    offsets: dict[Alloc, Expr] = {}
    total: Expr = Const(0)
    for alloc in dict.fromkeys(s for s in statements(nest.body) if isinstance(s, Alloc)):
        # A private array has no address that an OpenCL micro-kernel could take.
        if stack_elements(alloc, target) is None or alloc.buffer in pointed:
            offsets[alloc] = total
            total = simplify(total + _padded_bytes(alloc))
    return Placement(offsets, total)


def stack_elements(alloc: Alloc, target: Target) -> int | None:
    """Return the elements of `alloc` if it is small enough for the stack, else None."""
    size = simplify(alloc.size)
    if not isinstance(size, Const):
        return None
    count = int(size.value)
    return count if count * alloc.dtype.itemsize <= target.stack_bytes else None


def _padded_bytes(alloc: Alloc) -> Expr:
    wide = alloc.size * alloc.dtype.itemsize + (_ALIGNMENT - 1)
    return (wide // _ALIGNMENT) * _ALIGNMENT


def _pointed(body: tuple[Stmt, ...]) -> list[str]:
    found: list[str] = []
    for stmt in statements(body):
        if isinstance(stmt, SetPointer) and stmt.buffer is not None:
            found.append(stmt.buffer)
        elif isinstance(stmt, MicroKernel):
            found += [o.buffer for o in stmt.operands if isinstance(o, Pointer)]
    return found


def _values(nest: Nest) -> dict[str, Expr]:
    values: dict[str, Expr] = {}
    for let in (*nest.shared, *(s for s in nest.body if isinstance(s, Let))):
        values[let.name] = substitute(let.value, values)
    return values
