"""Contractions through micro-kernels: how the operands are reached, and what is copied for that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import ceil, prod
from typing import Protocol

import numpy as np

from egraph_fusion.codegen.contraction_form import Form, form_of
from egraph_fusion.codegen.contraction_nest import (
    ContractionNest,
    Operands,
    PanelAddress,
)
from egraph_fusion.codegen.contraction_rows import RowAddress, split_index, tap_space
from egraph_fusion.codegen.contraction_tile import TileRows, moves_only, tile_tiling
from egraph_fusion.codegen.depthwise import depthwise_nest, is_depthwise
from egraph_fusion.codegen.expand import LoweringError
from egraph_fusion.codegen.index import Ranges, linearize, simplify, stride_of
from egraph_fusion.codegen.layout import Layout
from egraph_fusion.codegen.loops import (
    Call,
    Const,
    Expr,
    Load,
    Pointer,
    Stmt,
    Var,
    constant,
)
from egraph_fusion.codegen.lower_elements import Elements, Index
from egraph_fusion.codegen.lower_meaning import terms_of
from egraph_fusion.codegen.lower_nests import Target, filled
from egraph_fusion.codegen.lower_space import Space
from egraph_fusion.codegen.lower_terms import chosen, guarded
from egraph_fusion.codegen.lower_windows import Window
from egraph_fusion.codegen.microkernels import pack_panels
from egraph_fusion.codegen.schedule import TargetInfo
from egraph_fusion.codegen.tiling import Tiling
from egraph_fusion.ir.graph import Array, Node
from egraph_fusion.ir.tensors import DType

ZERO = constant(0, DType.FLOAT32)


class Arguments(Protocol):
    """Adds buffers to the kernel that is being written."""

    def scratch(self, dtype: DType, size: int, holds: str = "") -> str:
        """Add scratch that the nests share and return its name; `holds` is a computed value."""
        ...

    def constant(self, value: str, form: str, size: int, pack: Callable[[Array], Array]) -> str:
        """Add a constant in packed form and return its name."""
        ...


def contract(
    elements: Elements,
    n: Node,
    targets: Sequence[Target],
    arguments: Arguments,
    target: TargetInfo,
) -> tuple[Stmt, ...]:
    """Return the nests of a float32 contraction; LoweringError if no micro-kernel can run it."""
    fragment = elements.fragment
    terms = terms_of(fragment, n)
    if is_depthwise(fragment, n):
        return depthwise_nest(elements, n, terms, targets, arguments)
    form = form_of(fragment, n)
    before, form, row = left_rows(elements, form, arguments)
    tiling, groups = _tiling(form, row, target)
    packing, panel = right_panels(elements, n, form, tiling.nv * target.vl, arguments)
    nest = ContractionNest(
        form, terms, elements, tuple(targets), tiling, target.vl, Operands(row, panel), groups
    )
    return (*before, *packing, *nest.body())


def _tiling(form: Form, row: RowAddress | TileRows, target: TargetInfo) -> tuple[Tiling, int]:
    """Return how the contraction is cut, and into how many groups its panels."""
    if isinstance(row, TileRows):
        return tile_tiling(form, target)
    sizes = (prod(form.rows), form.columns, form.depth, prod(form.taps), prod(form.batch))
    return target.tiling(*sizes), 1


def left_rows(
    elements: Elements, form: Form, arguments: Arguments
) -> tuple[tuple[Stmt, ...], Form, RowAddress | TileRows]:
    """Return how rows are reached, and what runs before.

    They lie in place where the depth is contiguous. Otherwise each unit computes its own, but an
    image that a window slides over is copied with its padding.
    """
    if _is_direct(elements, form):
        return (), form, _in_place(elements, form)
    if form.window is not None and prod(form.taps) > 1:
        return _padded_copy(elements, form, form.window, arguments)
    return (), form, TileRows(form, elements)


def _known(form: Form) -> Ranges:
    """Return the ranges of the variables that rows, batch and taps are indexed with."""
    sizes = {f"m{d}": size for d, size in enumerate(form.rows)}
    sizes |= {"m": prod(form.rows), "b": prod(form.batch)}
    return {**{v: (0, size - 1) for v, size in sizes.items()}, **tap_space(form.taps).ranges}


def _in_place(elements: Elements, form: Form) -> RowAddress:
    known = elements.within(lambda e: simplify(e, _known(form)))

    def row(b: Index, m: Index, t: Index) -> Load:
        found = form.left(known, b, m, t, Const(0))
        assert isinstance(found, Load)
        return found

    return row


def _is_direct(elements: Elements, form: Form) -> bool:
    ranges = {**_known(form), "d": (0, form.depth - 1)}
    known = elements.within(lambda e: simplify(e, ranges))
    rows = tuple(Const(0) if s == 1 else Var(f"m{d}") for d, s in enumerate(form.rows))
    taps = tap_space(form.taps).index
    batch = split_index(Var("b"), form.batch)
    if form.depth == 1:
        return isinstance(form.left(known, batch, rows, taps, Const(0)), Load)
    found = form.left(known, batch, rows, taps, Var("d"))
    if not isinstance(found, Load) or found.dtype is not DType.FLOAT32:
        return False
    return stride_of(found.index, "d", ranges) == Const(1)


def _padded_copy(
    elements: Elements, form: Form, window: Window, arguments: Arguments
) -> tuple[tuple[Stmt, ...], Form, RowAddress]:
    """Copy an image channels last with its padding; neighbouring taps of a line become one row."""
    pads = tuple(max(0, p) for p in window.pads)
    if pads != window.pads:
        raise LoweringError(f"{form.left_value!r} is cropped by a convolution's negative pads")
    size = [i + p + max(0, e) for i, p, e in zip(window.inside, pads, window.ends, strict=True)]
    shape = (form.rows[0], *size, form.depth)
    buffer = arguments.scratch(DType.FLOAT32, prod(shape), _computed(elements, form.left_value))

    def value(space: Space) -> Expr:
        i = space.index
        where = tuple(p - pad for p, pad in zip(i[1:-1], pads, strict=True))
        known = elements.within(space.simplify)
        element = known.at(form.left_value, (i[0], i[-1], *where))
        inside = zip(where, window.inside, size, strict=True)
        conditions = [c for w, n, s in inside if s != n for c in (w >= 0, w < n)]
        simple = [space.simplify(c) for c in conditions]
        if any(isinstance(c, Const) and not c.value for c in simple):
            return ZERO
        return guarded([c for c in simple if not isinstance(c, Const)], element, ZERO)

    merged = window.dilations[-1] == 1
    steps, dilations = window.strides, window.dilations

    def row(_b: Index, m: Index, t: Index) -> Load:
        taps = (*t, Const(0)) if merged else t
        parts = zip(m[1:], taps, steps, dilations, strict=True)
        where = [p * s + q * d for p, q, s, d in parts]
        return Load(buffer, linearize([m[0], *where, Const(0)], shape), DType.FLOAT32)

    if merged:
        form = _merged_line(form)
    return filled(shape, buffer, value), replace(form, guard=_everywhere), row


def _computed(elements: Elements, value: str) -> str:
    """Return `value` if its elements are computed in the block, "" if they are only moved."""
    index = tuple(Var(f"i{d}") for d in range(len(elements.fragment.shape(value))))
    return "" if moves_only(elements.at(value, index)) else value


def _everywhere(_m: Index, _t: Index) -> tuple[Expr, ...]:
    return ()


def _merged_line(form: Form) -> Form:
    """Return the form in which the taps of a line and the channels are one depth."""
    channels = form.depth

    def right(elements: Elements, b: Index, t: Index, k: Expr, j: Expr) -> Expr:
        return form.right(elements, b, (*t, k // channels), k % channels, j)

    return replace(form, taps=form.taps[:-1], depth=form.taps[-1] * channels, right=right)


def right_panels(
    elements: Elements, n: Node, form: Form, nr: int, arguments: Arguments
) -> tuple[tuple[Stmt, ...], PanelAddress]:
    """Return how panels are reached: packed before, in place, or packed now."""
    panels = ceil(form.columns / nr)
    rows = prod(form.taps) * form.depth
    size = prod(form.batch) * panels * rows * nr
    if form.right_value in elements.fragment.constants:
        buffer = _packed(n, form, nr, size, arguments)
        return (), _panels_of(buffer, panels, rows, nr)
    direct = _direct_panels(elements, form, nr)
    if direct is not None:
        return (), direct
    buffer = arguments.scratch(DType.FLOAT32, size, _computed(elements, form.right_value))
    shape = (prod(form.batch), panels, *form.taps, form.depth, nr)
    taps = len(form.taps)

    def value(space: Space) -> Expr:
        b, p, *inner = space.index
        column = p * nr + inner[-1]
        known = elements.within(space.simplify)
        index = split_index(b, form.batch, dict(space.ranges))
        element = form.right(known, index, tuple(inner[:taps]), inner[taps], column)
        if form.columns % nr == 0:
            return element
        return chosen(space.simplify(column < form.columns), element, ZERO)

    order = _reading_order(elements, form, len(shape))
    return filled(shape, buffer, value, order), _panels_of(buffer, panels, rows, nr)


def _reading_order(elements: Elements, form: Form, rank: int) -> Layout:
    """Loop over columns outside the depth where the operand is contiguous along its depth."""
    ranges = {**_known(form), "d": (0, form.depth - 1), "j": (0, form.columns - 1)}
    known = elements.within(lambda e: simplify(e, ranges))
    taps = (Const(0),) * len(form.taps)
    found = form.right(known, split_index(Var("b"), form.batch), taps, Var("d"), Var("j"))
    deep = isinstance(found, Load) and stride_of(found.index, "d", ranges) == Const(1)
    order = tuple(range(rank))
    return Layout((*order[:-2], rank - 1, rank - 2) if deep and form.depth >= 8 else order)


def _packed(n: Node, form: Form, nr: int, size: int, arguments: Arguments) -> str:
    def pack(array: Array) -> Array:
        return np.stack([pack_panels(matrix, nr) for matrix in form.matrix(array)])

    turned = n.op == "Gemm" and bool(n.attrs.get("transB", 0))
    how = f"{n.op}{int(turned)}:{form.batch}:panels{nr}"
    return arguments.constant(form.right_value, how, size, pack)


def _panels_of(buffer: str, panels: int, rows: int, nr: int) -> PanelAddress:
    def panel(batch: Expr, number: Expr) -> tuple[Pointer, int]:
        place = Call("add", (batch * panels, number)) * (rows * nr)
        return Pointer(buffer, simplify(place)), nr

    return panel


def _direct_panels(elements: Elements, form: Form, nr: int) -> PanelAddress | None:
    """Return panels in place: columns contiguous, rows at a constant stride, no column missing."""
    if form.columns % nr or prod(form.taps) != 1:
        return None
    ranges = {**_known(form), "d": (0, form.depth - 1), "j": (0, form.columns - 1)}
    known = elements.within(lambda e: simplify(e, ranges))
    taps = (Const(0),) * len(form.taps)
    batch = split_index(Var("b"), form.batch)
    found = form.right(known, batch, taps, Var("d"), Var("j"))
    if not isinstance(found, Load) or stride_of(found.index, "j", ranges) != Const(1):
        return None
    stride = stride_of(found.index, "d", ranges) if form.depth > 1 else Const(0)
    if not isinstance(stride, Const):
        return None
    row = int(stride.value)

    def panel(_batch: Expr, number: Expr) -> tuple[Pointer, int]:
        start = form.right(known, batch, taps, Const(0), Const(0))
        assert isinstance(start, Load)
        return Pointer(start.buffer, simplify(start.index + number * nr)), row

    return panel
