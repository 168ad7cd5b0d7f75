"""How a kernel falls apart into nests, which run one after another with a barrier between."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from egraph_fusion.codegen.loop_walk import subexpressions
from egraph_fusion.codegen.loops import (
    For,
    Kernel,
    Let,
    Load,
    LoopKind,
    Stmt,
    Var,
)


@dataclass(frozen=True, slots=True)
class Nest:
    """Statements that one launch runs: a PARALLEL loop, or what one thread does alone.

    `shared` are the top-level `Let`s, before its end, that read only sizes: each nest repeats them.
    """

    shared: tuple[Let, ...]
    body: tuple[Stmt, ...]

    @property
    def parallel(self) -> For | None:
        """The PARALLEL loop, or None for a serial nest."""
        first = self.body[0]
        return first if isinstance(first, For) and first.kind is LoopKind.PARALLEL else None


def shared_lets(kernel: Kernel) -> tuple[Let, ...]:
    """Return the top-level `Let`s of `kernel` that read only sizes, in order."""
    known = set(kernel.sizes)
    out: list[Let] = []
    for stmt in kernel.body:
        if isinstance(stmt, Let) and _reads_only(stmt, known):
            known.add(stmt.name)
            out.append(stmt)
    return tuple(out)


def nests(kernel: Kernel) -> tuple[Nest, ...]:
    """Split the top level of `kernel` into nests, in order."""
    out: list[Nest] = []
    shared: list[Let] = []
    serial: list[Stmt] = []
    sized = set(shared_lets(kernel))
    for stmt in kernel.body:
        if isinstance(stmt, For) and stmt.kind is LoopKind.PARALLEL:
            _flush(out, shared, serial)
            out.append(Nest(tuple(shared), (stmt,)))
        elif isinstance(stmt, Let) and stmt in sized:
            shared.append(stmt)
        else:
            serial.append(stmt)
    _flush(out, shared, serial)
    return tuple(out)


def _flush(out: list[Nest], shared: list[Let], serial: list[Stmt]) -> None:
    if serial:
        out.append(Nest(tuple(shared), tuple(serial)))
        serial.clear()


def _reads_only(stmt: Let, known: Collection[str]) -> bool:
    parts = list(subexpressions(stmt.value))
    return all(e.name in known for e in parts if isinstance(e, Var)) and not any(
        isinstance(e, Load) for e in parts
    )
