"""Ranges of columns of a contraction: results that Split takes apart again."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from egraph_fusion.codegen.expand import Fragment, LoweringError
from egraph_fusion.codegen.index import stride_of
from egraph_fusion.codegen.loops import Call, Const, Expr, For, If, Stmt, Var
from egraph_fusion.codegen.lower_elements import Index
from egraph_fusion.codegen.lower_push import Limit, pushed
from egraph_fusion.codegen.lower_space import Space, largest
from egraph_fusion.codegen.lower_terms import conjunction


@dataclass(frozen=True)
class Columns:
    """Columns `start` up to `stop` of a contraction's result."""

    start: int
    stop: int

    def within_panel(self, nr: int, panels: int) -> tuple[Expr, Expr]:
        """Return the first lane of panel `n` that is one of these columns, and their number."""
        if panels == 1:
            return Const(self.start), Const(self.stop - self.start)
        first, last = Var("n") * nr, Const(self.stop) - Var("n") * nr
        if self.start % nr == 0:
            count = Const(nr) if self.stop % nr == 0 else Call("min", (Const(nr), last))
            return Const(0), count
        begin = Call("max", (Const(0), Const(self.start) - first))
        return begin, Call("min", (Const(nr), last)) - begin

    def guarded(self, loop: For, nr: int, columns: int) -> tuple[Stmt, ...]:
        """Return the loop, run for the panels that hold some of these columns."""
        found: list[Expr] = []
        if self.start // nr:
            found.append(Var("n") >= self.start // nr)
        if ceil(self.stop / nr) < ceil(columns / nr):
            found.append(Var("n") < ceil(self.stop / nr))
        return (If(conjunction(found), (loop,)),) if found else (loop,)


def columns_of(fragment: Fragment, result: str, target: str, space: Space, index: Index) -> Columns:
    """Return the columns of `result` that `target` is made of; LoweringError if they are no range.

    `index` is the result's index in terms of the space's variables, of which `c` is the column.
    """
    limits: list[Limit] = []
    pushed(fragment, result, target, space, index, limits)
    start, stop = 0, largest(dict(zip(space.names, space.extents, strict=True))["c"])
    for limit in limits:
        factor = stride_of(limit.index, "c", space.ranges)
        rest = space.simplify(limit.index - Var("c"))
        if factor != Const(1) or not isinstance(rest, Const):
            raise LoweringError(f"{target!r} is no range of the columns of {result!r}")
        start = max(start, limit.start - int(rest.value))
        stop = min(stop, limit.stop - int(rest.value))
    return Columns(start, stop)
