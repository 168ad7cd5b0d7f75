"""Naming what several expressions share, so that it is computed and written once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from egraph_fusion.codegen.expand import LoweringError
from egraph_fusion.codegen.loop_walk import operands, subexpressions, with_operands
from egraph_fusion.codegen.loops import (
    Call,
    Cast,
    Const,
    Expr,
    Let,
    Load,
    Select,
    Var,
    dtype_of,
)
from egraph_fusion.ir.tensors import DType

LARGEST_EXPRESSION = 20_000
"""Nodes of one written expression; beyond it the C compiler takes minutes."""


@dataclass
class _Sharing:
    """Counts how often each node of a DAG is read, and names those read twice."""

    prefix: str
    reads: dict[int, int] = field(default_factory=dict[int, int])
    certain: set[int] = field(default_factory=set[int])
    canonical: dict[Expr, Expr] = field(default_factory=dict[Expr, Expr])
    renamed: dict[int, Expr] = field(default_factory=dict[int, Expr])
    lets: list[Let] = field(default_factory=list[Let])
    size: int = 0

    def count(self, expr: Expr, certain: bool) -> None:
        """Count a read of `expr`; `certain` if it happens whatever the conditions are."""
        key = id(expr)
        self.reads[key] = self.reads.get(key, 0) + 1
        new_here = key not in self.certain and certain
        if certain:
            self.certain.add(key)
        if self.reads[key] > 1 and not new_here:
            return
        again = self.reads[key] > 1
        for position, operand in enumerate(operands(expr)):
            optional = isinstance(expr, Select) and position > 0
            if again:
                self._confirm(operand, not optional)
            else:
                self.count(operand, certain and not optional)

    def _confirm(self, expr: Expr, certain: bool) -> None:
        if certain and id(expr) not in self.certain:
            self.certain.add(id(expr))
            for position, operand in enumerate(operands(expr)):
                self._confirm(operand, not (isinstance(expr, Select) and position > 0))

    def rewritten(self, expr: Expr) -> Expr:
        """Return `expr` with shared parts replaced by the variables that name them."""
        key = id(expr)
        if key in self.renamed:
            return self.renamed[key]
        parts = tuple(self.rewritten(o) for o in operands(expr))
        new = with_operands(expr, parts) if parts else expr
        self.size += 1
        if self.size > LARGEST_EXPRESSION:
            raise LoweringError(f"the block's expressions exceed {LARGEST_EXPRESSION} operations")
        if self._worth(expr):
            name = f"{self.prefix}{len(self.lets)}"
            self.lets.append(Let(name, new))
            new = Var(name, dtype_of(expr))
        if self.reads.get(key, 0) > 1 and key in self.certain:
            self.renamed[key] = new
        return new

    def _worth(self, expr: Expr) -> bool:
        if self.reads.get(id(expr), 0) < 2 or id(expr) not in self.certain:
            return False
        if isinstance(expr, Const | Var):
            return False
        return isinstance(expr, Load | Select | Cast) or not _is_index(expr)


def _is_index(expr: Expr) -> bool:
    return isinstance(expr, Call) and dtype_of(expr) is DType.INT64


def shared(values: Sequence[Expr], prefix: str = "t") -> tuple[tuple[Let, ...], tuple[Expr, ...]]:
    """Return `Let`s for what the values share, and the values in terms of them.

    Sharing is by identity (`Elements` makes equal elements one object). What only the taken side of
    a Select may read is not named, since naming it would read it always.
    """
    sharing = _Sharing(prefix)
    for value in values:
        sharing.count(value, True)
    new = tuple(sharing.rewritten(v) for v in values)
    return tuple(sharing.lets), new


def hoisted(
    values: Sequence[Expr], inner: Sequence[str], prefix: str = "h"
) -> tuple[tuple[Let, ...], tuple[Expr, ...]]:
    """Return `Let`s for the parts that read no variable of `inner`, and the values in their terms.

    Only floating-point work that is always needed moves; index arithmetic is left to the compiler.
    """
    names = frozenset(inner)
    lets: dict[Expr, Let] = {}
    done: dict[int, Expr] = {}

    def varies(expr: Expr) -> bool:
        return any(isinstance(e, Var) and e.name in names for e in subexpressions(expr))

    def move(expr: Expr) -> Expr:
        if id(expr) in done:
            return done[id(expr)]
        worth = isinstance(expr, Load | Call | Cast) and dtype_of(expr).is_float
        if worth and not varies(expr):
            let = lets.setdefault(expr, Let(f"{prefix}{len(lets)}", expr))
            new: Expr = Var(let.name, dtype_of(expr))
        elif isinstance(expr, Const | Var | Load):
            new = expr
        elif isinstance(expr, Select):
            new = Select(move(expr.cond), expr.yes, expr.no)
        else:
            new = with_operands(expr, tuple(move(o) for o in operands(expr)))
        done[id(expr)] = new
        return new

    moved = tuple(move(v) for v in values)
    return tuple(lets.values()), moved
