"""Which names a nest mentions, so that only those are declared."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from egraph_fusion.codegen.loop_walk import buffers, expressions, statements, subexpressions
from egraph_fusion.codegen.loops import (
    Expr,
    Load,
    Var,
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


def _names(expr: Expr) -> Iterator[str]:
    for part in subexpressions(expr):
        if isinstance(part, Var):
            yield part.name
        elif isinstance(part, Load):
            yield part.buffer
