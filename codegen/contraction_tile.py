"""Rows of a contraction's left operand that a thread computes, a tile at a time, in its scratch."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod

from egraph_fusion.codegen.contraction_form import Form
from egraph_fusion.codegen.contraction_rows import named_index, split_index
from egraph_fusion.codegen.expand import LoweringError
from egraph_fusion.codegen.index import Ranges, simplify
from egraph_fusion.codegen.loops import (
    Alloc,
    Const,
    Expr,
    For,
    Load,
    LoopKind,
    Select,
    Stmt,
    Store,
    Var,
    constant,
)
from egraph_fusion.codegen.lower_elements import Elements, Index
from egraph_fusion.codegen.lower_lets import shared
from egraph_fusion.codegen.lower_nests import split_spaces
from egraph_fusion.codegen.lower_space import Space, divisions
from egraph_fusion.codegen.lower_terms import guarded
from egraph_fusion.codegen.schedule import TargetInfo
from egraph_fusion.codegen.tiling import LATE_UNITS, MEMORY_BYTES_PER_CYCLE, Tiling
from egraph_fusion.ir.tensors import DType

PACKING_CYCLES = 0.25
"""Cycles to compute one element of a row, most of it vectorised arithmetic."""

MOST_TILES = 16
"""Row tiles of a unit at most."""

BUFFER = "left"


@dataclass(frozen=True)
class TileRows:
    """The rows of a form with one tap, computed where a unit of work begins."""

    form: Form
    elements: Elements

    def alloc(self, rows: int) -> Stmt:
        """Return the scratch for `rows` rows."""
        return Alloc(BUFFER, DType.FLOAT32, Const(rows * self.form.depth))

    def place(self, row: Expr) -> Expr:
        """Return where a row of the unit begins in scratch."""
        return simplify(row * self.form.depth)

    def fill(self, row: Expr) -> tuple[Stmt, ...]:
        """Return the statements that compute row number `row` of the unit, given `Let` m and b."""
        whole = split_index(Var("m"), self.form.rows, self._ranges)
        lets, named = named_index(whole)
        depth = Space(("k",), (Const(self.form.depth),), (Var("k"),))
        index = named
        if not divisions([self._element(whole, depth)]):
            lets, index = (), whole
        parts = split_spaces(depth, lambda space: [self._element(index, space)])
        return (*lets, *(self._loop(index, row, part) for part in parts))

    def _loop(self, index: Index, row: Expr, part: Space) -> Stmt:
        lets, (element,) = shared([self._element(index, part)])
        store = Store(BUFFER, simplify(self.place(row) + part.index[0]), element)
        return For("k", part.extents[0], (*lets, store), LoopKind.VECTOR)

    def _element(self, index: Index, space: Space) -> Expr:
        form = self.form
        ranges: Ranges = {**self._ranges, **space.ranges}
        known = self.elements.within(lambda e: simplify(e, ranges))
        tap = (Const(0),) * len(form.taps)
        batch = split_index(Var("b"), form.batch)
        element = form.left(known, batch, index, tap, space.index[0])
        conditions = [simplify(c, ranges) for c in form.guard(index, tap)]
        open_ones = [c for c in conditions if not (isinstance(c, Const) and c.value)]
        return guarded(open_ones, element, constant(0, DType.FLOAT32)) if open_ones else element

    @property
    def _ranges(self) -> Ranges:
        sizes = {f"m{d}": size for d, size in enumerate(self.form.rows)}
        sizes |= {"m": prod(self.form.rows), "b": prod(self.form.batch)}
        return {v: (0, size - 1) for v, size in sizes.items()}


def moves_only(element: Expr) -> bool:
    """Whether an element is read or is a constant: nothing is computed."""
    if isinstance(element, Select):
        return moves_only(element.yes) and moves_only(element.no)
    return isinstance(element, Load | Const)


def tile_tiling(form: Form, target: TargetInfo) -> tuple[Tiling, int]:
    """Return how to cut a contraction whose rows are computed per unit, and its groups of panels.

    Units are a block of rows times a group of panels. Each computes its rows once, at most half the
    L2 cache of them; more groups occupy more threads and compute rows more often. Raises
    LoweringError if not even one row fits.
    """
    rows = prod(form.rows)
    found = target.tiling(rows, form.columns, form.depth, 1, prod(form.batch))
    mr = min(found.mr, target.l2 // 2 // (4 * form.depth))
    if mr == 0:
        raise LoweringError(f"{form.left_value!r}: one row is too long for a thread's scratch")
    panels = ceil(form.columns / (found.nv * target.vl))
    room = max(1, min(target.l2 // 2 // (4 * form.depth * mr), MOST_TILES, ceil(rows / mr)))
    shares = {ceil(panels / g) for g in range(1, min(panels, 32) + 1)}
    cuts = [(t, ceil(panels / share)) for t in range(1, room + 1) for share in shares]
    cost = _Cost(form, target, mr, panels * found.nv * target.vl)
    tiles, groups = min(cuts, key=lambda cut: (cost.cycles(*cut), cut))
    return Tiling(mr, found.nv, form.depth, 1, mr * tiles, "m_outer"), groups


@dataclass(frozen=True)
class _Cost:
    """Cycles of the units that a contraction is cut into."""

    form: Form
    target: TargetInfo
    mr: int
    columns: int

    def cycles(self, tiles: int, groups: int) -> float:
        """Estimate the cycles until the last thread is done."""
        batch, rows, depth = prod(self.form.batch), prod(self.form.rows), self.form.depth
        blocks = ceil(rows / (tiles * self.mr))
        units, threads = batch * blocks * groups, self.target.threads
        padded = batch * ceil(rows / self.mr) * self.mr
        weights = 4 * depth * self.columns
        work = padded * depth * (self.columns / (2 * self.target.vl) + groups * PACKING_CYCLES)
        if weights > self.target.l2 // 2:
            work += batch * blocks * weights / MEMORY_BYTES_PER_CYCLE
        late = LATE_UNITS if threads > 1 else 0.0
        return work / units * (ceil(units / threads) + late)
