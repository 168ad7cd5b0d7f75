"""The nest of a contraction: row pointers, micro-kernel calls and the fused epilogue."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, prod

from egraph_fusion.codegen.contraction_columns import Columns, columns_of
from egraph_fusion.codegen.contraction_form import Form
from egraph_fusion.codegen.contraction_rows import RowAddress, RowPointers, split_index
from egraph_fusion.codegen.contraction_tile import BUFFER, TileRows
from egraph_fusion.codegen.index import simplify
from egraph_fusion.codegen.loops import (
    Alloc,
    Call,
    Const,
    Expr,
    For,
    Let,
    Load,
    LoopKind,
    MicroKernel,
    Pointer,
    PointerTable,
    SetPointer,
    Stmt,
    Table,
    Var,
)
from egraph_fusion.codegen.lower_elements import Elements, Index
from egraph_fusion.codegen.lower_names import substituted
from egraph_fusion.codegen.lower_nests import Target
from egraph_fusion.codegen.lower_reduce import finish_into
from egraph_fusion.codegen.lower_space import Space
from egraph_fusion.codegen.lower_terms import Terms
from egraph_fusion.codegen.tiling import Tiling
from egraph_fusion.ir.tensors import DType

PanelAddress = Callable[[Expr, Expr], tuple[Pointer, int]]
"""Where a (flat batch, panel) of the right operand starts, and its row stride."""

UNIT_FLOPS = 100_000
"""Multiply-adds that are worth a turn of a thread."""


@dataclass(frozen=True)
class Operands:
    """How the nest reaches its operands: addresses of rows, or what computes them; and panels."""

    row: RowAddress | TileRows
    panel: PanelAddress


@dataclass(frozen=True)
class ContractionNest:
    """One contraction with its tiling; `body` writes it.

    `groups` is how many units share the panels of a block of rows, if panels are the inner loop.
    """

    form: Form
    terms: Terms
    elements: Elements
    targets: tuple[Target, ...]
    tiling: Tiling
    vl: int
    operands: Operands
    groups: int = 1

    @property
    def nr(self) -> int:
        """Columns of a panel."""
        return self.tiling.nv * self.vl

    @property
    def m(self) -> int:
        """Rows."""
        return prod(self.form.rows)

    @property
    def taps(self) -> int:
        """Taps."""
        return prod(self.form.taps)

    @property
    def tiles(self) -> int:
        """Row tiles of a unit."""
        return self.tiling.mc // self.tiling.mr

    @property
    def panels(self) -> int:
        """Panels of columns."""
        return ceil(self.form.columns / self.nr)

    @property
    def blocks(self) -> int:
        """Row blocks."""
        return ceil(self.m / self.tiling.mc)

    @property
    def split(self) -> bool:
        """Whether the reduction is cut, so that tiles accumulate."""
        return self.tiling.kc < self.form.depth or self.tiling.tc < self.taps

    def body(self) -> tuple[Stmt, ...]:
        """Return the nest."""
        batch = prod(self.form.batch)
        if self.tiling.order == "m_outer":
            groups = [("g", self.groups)] if self.groups > 1 else []
            sizes = [("b", batch), *groups, ("u", self.blocks)]
            before = (*self.computed_rows(), *self._pointers(), self._acc(self.tiling.mr))
            inner = (*before, self._panel_loop())
        else:
            sizes = [("b", batch), ("n", self.panels), ("u", self.blocks)]
            inner = self._panel_unit()
        flops = self.tiling.mc * self.nr * self.form.depth * self.taps
        flops *= ceil(self.panels / self.groups) if self.tiling.order == "m_outer" else 1
        return (_units(sizes, inner, max(1, UNIT_FLOPS // flops), self._note()),)

    def _note(self) -> str:
        f = self.form
        return f"{self.m} x {f.columns} x {self.taps} * {f.depth}"

    def _acc(self, rows: int) -> Stmt:
        return Alloc("acc", DType.FLOAT32, Const(rows * self.nr))

    def _panel_unit(self) -> tuple[Stmt, ...]:
        if not self.split:
            return (*self._pointers(), self._acc(self.tiling.mr), *self._tile_loop())
        return (*self._accumulated(), *self._epilogues())

    def _panel_loop(self) -> Stmt:
        """Run over the panels of the unit's group."""
        if self.groups == 1:
            return For("n", Const(self.panels), self._tile_loop())
        share = ceil(self.panels / self.groups)
        rest = Const(self.panels) - Var("g") * share
        count = Const(share) if self.panels % share == 0 else Call("min", (Const(share), rest))
        number = Let("n", Var("g") * share + Var("q"))
        return For("q", count, (number, *self._tile_loop()))

    # rows of a unit ------------------------------------------------------------------------------

    def _tile_count(self) -> Expr:
        """Return how many row tiles the unit has; the last one may have fewer."""
        if self.blocks * self.tiling.mc - self.m < self.tiling.mr:
            return Const(self.tiles)
        left = Const(ceil(self.m / self.tiling.mr)) - Var("u") * self.tiles
        return Call("min", (Const(self.tiles), left))

    def row(self, tile: Expr, i: Expr) -> Expr:
        """Return the number of row `i` of a tile of the unit."""
        return self._first_row(tile) + i

    def _first_row(self, tile: Expr) -> Expr:
        return (Var("u") * self.tiles + tile) * self.tiling.mr

    def _clamped(self, row: Expr) -> Expr:
        if self.m % self.tiling.mr == 0:
            return row
        return Call("min", (row, Const(self.m - 1)))

    def _batch_index(self) -> Index:
        return split_index(Var("b"), self.form.batch)

    def _pointers(self, depth: Expr | None = None) -> tuple[Stmt, ...]:
        """Set the row pointers of every tile of the unit, all taps."""
        mr = self.tiling.mr
        count = self.tiles * self.taps * mr
        body = self.pointer_row(Var("t"), depth)
        loop = For("t", self._tile_count(), (For("i", Const(mr), body),))
        return (PointerTable("rows", count), loop)

    def computed_rows(self) -> tuple[Stmt, ...]:
        """Compute the rows of the unit in scratch, if they do not lie in memory."""
        rows = self.operands.row
        if not isinstance(rows, TileRows):
            return ()
        size = self.tiling.mc
        first = Var("u") * size
        count = Const(size) if self.m % size == 0 else Call("min", (Const(size), self.m - first))
        number = Let("m", simplify(first + Var("i")))
        loop = For("i", count, (number, *rows.fill(Var("i"))))
        return (rows.alloc(size), loop)

    def pointer_row(self, tile: Expr, depth: Expr | None) -> tuple[Stmt, ...]:
        """Set the pointers of row `i` of a tile: one per tap."""
        mr = self.tiling.mr
        row = Let("m", simplify(self._clamped(self.row(tile, Var("i")))))

        def entry(tap: Expr) -> Expr:
            return (tile * self.taps + tap) * mr + Var("i")

        rows = self.operands.row
        if isinstance(rows, TileRows):
            inside = rows.place(Var("m") - Var("u") * self.tiling.mc)
            return (row, SetPointer("rows", simplify(entry(Const(0))), BUFFER, inside))
        pointers = RowPointers(self.form, rows)
        return (row, *pointers.point(entry, depth))

    # a tile and its epilogue ---------------------------------------------------------------------

    def _tile_loop(self) -> tuple[Stmt, ...]:
        """Compute each tile of a panel and store it at once."""
        pointer, stride = self.operands.panel(Var("b"), Var("n"))
        table = Table("rows", simplify(Var("t") * (self.taps * self.tiling.mr)))
        call = self._call(table, Const(self.taps), Const(self.form.depth), pointer, stride, 0)
        body = (call(Const(0)), *self.epilogue(Var("t"), Const(0)))
        return (For("t", self._tile_count(), body),)

    def _call(
        self, table: Table, taps: Expr, depth: Expr, pointer: Pointer, stride: int, tile_rows: int
    ) -> Callable[[Expr], Stmt]:
        def at(accumulate: Expr) -> Stmt:
            place = simplify(Var("t") * (tile_rows * self.nr))
            operands = (
                table,
                taps,
                depth,
                pointer,
                Const(stride),
                Pointer("acc", place),
                Const(self.nr),
                accumulate,
            )
            return MicroKernel("igemm", (self.tiling.mr, self.tiling.nv), operands)

        return at

    def epilogue(self, tile: Expr, place: Expr) -> tuple[Stmt, ...]:
        """Store what becomes of a tile whose accumulators start at `place`."""
        row = Let("m", simplify(self.row(tile, Var("i"))))
        space, index = self.result_space()
        parts: dict[Columns, list[Target]] = {}
        for t in self.targets:
            fragment, result = self.elements.fragment, self.terms.result
            part = columns_of(fragment, result, t.value, space, index)
            parts.setdefault(part, []).append(t)
        body = [s for part, found in parts.items() for s in self._stores(part, found, place)]
        return (For("i", self.row_count(tile), (row, *body)),)

    def _stores(self, part: Columns, targets: Sequence[Target], place: Expr) -> tuple[Stmt, ...]:
        """Store the targets that are made of a part of the columns."""
        space, index = self.result_space(part)
        known = self.elements.within(space.simplify)
        begin, count = part.within_panel(self.nr, self.panels)
        lane = begin + Var("j")
        stored = Load("acc", simplify(place + Var("i") * self.nr + lane), DType.FLOAT32)
        stores = finish_into(known, self.terms, targets, space, index, stored, limits=[])
        column = lane + Var("n") * self.nr if self.panels > 1 else lane
        ranges = {**space.ranges, "n": (0, self.panels - 1), "j": (0, self.nr - 1)}
        placed = tuple(substituted(s, {"c": column - part.start}, ranges) for s in stores)
        loop = For("j", count, placed, LoopKind.VECTOR)
        return part.guarded(loop, self.nr, self.form.columns)

    def row_count(self, tile: Expr) -> Expr:
        """Return how many rows of a tile exist."""
        mr = self.tiling.mr
        if self.m % mr == 0:
            return Const(mr)
        return Call("min", (Const(mr), Const(self.m) - self._first_row(tile)))

    def result_space(self, part: Columns | None = None) -> tuple[Space, Index]:
        """Return the variables of the epilogue (b, m, c) and the result's index in them.

        The column is one variable here, so that index maps are inverted over its whole range; it
        counts from the first column of `part`.
        """
        columns = part or Columns(0, self.form.columns)
        sizes = {"b": prod(self.form.batch), "m": self.m, "c": columns.stop - columns.start}
        rows = split_index(Var("m"), self.form.rows, {"m": (0, self.m - 1)})
        column: Expr = Const(0) if self.form.columns == 1 else Var("c") + columns.start
        index = self.form.result(self._batch_index(), rows, column)
        space = Space(tuple(sizes), tuple(Const(e) for e in sizes.values()), index)
        return space, tuple(space.simplify(i) for i in index)

    # a reduction cut into blocks -----------------------------------------------------------------

    def _accumulated(self) -> tuple[Stmt, ...]:
        """Accumulate every tile of the unit over blocks of taps and depth."""
        t = self.tiling
        tap_blocks, depth_blocks = ceil(self.taps / t.tc), ceil(self.form.depth / t.kc)
        taps = _part(self.taps, t.tc, "tb")
        depth = _part(self.form.depth, t.kc, "kb")
        pointer, stride = self.operands.panel(Var("b"), Var("n"))
        rows_before = Var("tb") * (t.tc * self.form.depth) + Var("kb") * t.kc
        panel = Pointer(pointer.buffer, simplify(pointer.offset + rows_before * stride))
        first = (Var("t") * self.taps + Var("tb") * t.tc) * t.mr
        call = self._call(Table("rows", simplify(first)), taps, depth, panel, stride, t.mr)
        tiles = For("t", self._tile_count(), (call(Var("tb") + Var("kb")),))
        inner = (*self._pointers(Var("kb") * t.kc)[1:], For("tb", Const(tap_blocks), (tiles,)))
        loop = For("kb", Const(depth_blocks), inner)
        table = PointerTable("rows", self.tiles * self.taps * t.mr)
        return (table, self._acc(t.mc), loop)

    def _epilogues(self) -> tuple[Stmt, ...]:
        size = self.tiling.mr * self.nr
        return (For("t", self._tile_count(), self.epilogue(Var("t"), Var("t") * size)),)


def _part(total: int, size: int, block: str) -> Expr:
    if total % size == 0:
        return Const(size)
    return Call("min", (Const(size), Const(total) - Var(block) * size))


def _units(sizes: Sequence[tuple[str, int]], body: tuple[Stmt, ...], grain: int, note: str) -> For:
    """Return the parallel loop over units, the first size outermost; sizes of 1 are constants."""
    total = prod(size for _, size in sizes)
    lets: list[Stmt] = []
    for position, (name, size) in enumerate(sizes):
        step = prod(s for _, s in sizes[position + 1 :])
        index: Expr = Var("p")
        if size == 1:
            index = Const(0)
        else:
            index = index if step == 1 else index // step
            index = index % size if prod(s for _, s in sizes[:position]) > 1 else index
        lets.append(Let(name, index))
    return For("p", Const(total), (*lets, *body), LoopKind.PARALLEL, grain=grain, note=note)
