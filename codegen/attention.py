"""Contraction, reductions of its rows, contraction: a tile of rows stays in a thread's scratch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, prod

from egraph_fusion.codegen.contraction import Arguments, left_rows, right_panels
from egraph_fusion.codegen.contraction_form import Form, form_of
from egraph_fusion.codegen.contraction_nest import ContractionNest, Operands
from egraph_fusion.codegen.contraction_rows import split_index
from egraph_fusion.codegen.expand import LoweringError
from egraph_fusion.codegen.index import simplify
from egraph_fusion.codegen.loops import (
    Alloc,
    Const,
    Expr,
    For,
    Let,
    Load,
    MicroKernel,
    Pointer,
    PointerTable,
    SetPointer,
    Stmt,
    Store,
    Table,
    Var,
)
from egraph_fusion.codegen.lower_elements import Elements, Index, Source, is_reduction
from egraph_fusion.codegen.lower_meaning import terms_of
from egraph_fusion.codegen.lower_nests import Target, parallel
from egraph_fusion.codegen.lower_push import depends
from egraph_fusion.codegen.lower_row_state import RowState
from egraph_fusion.codegen.lower_rows import worth_keeping
from egraph_fusion.codegen.lower_space import Space
from egraph_fusion.codegen.lower_terms import Terms, ints
from egraph_fusion.codegen.schedule import TargetInfo
from egraph_fusion.codegen.tiling import Tiling
from egraph_fusion.ir.graph import Node
from egraph_fusion.ir.tensors import DType


@dataclass(frozen=True)
class _Attention:
    """The first product, the reductions of its rows, the second product, and their tiling."""

    elements: Elements
    first: ContractionNest
    reductions: tuple[Node, ...]
    second: ContractionNest

    @property
    def keys(self) -> int:
        """Columns of the first product: what the rows are reduced over."""
        return self.first.form.columns

    @property
    def stride(self) -> int:
        """Floats between rows of the tile in scratch: whole panels."""
        return self.first.panels * self.first.nr

    @property
    def rows(self) -> int:
        """Rows of a tile."""
        return self.first.tiling.mr

    def body(self) -> tuple[Stmt, ...]:
        """Return the parallel loop over batch and row tiles."""
        batch, tiles = prod(self.first.form.batch), ceil(self.first.m / self.rows)
        unit = (
            *self.first.computed_rows(),
            PointerTable("rows", self.rows),
            For("i", Const(self.rows), self.first.pointer_row(Const(0), None)),
            Alloc("s", DType.FLOAT32, Const(self.rows * self.stride)),
            For("n", Const(self.first.panels), (self._scores(),)),
            For("i", self.first.row_count(Const(0)), self._row()),
            For("i", Const(self.rows), (self._row_pointer(),)),
            Alloc("acc", DType.FLOAT32, Const(self.rows * self.second.nr)),
            For("n", Const(self.second.panels), self._results()),
        )
        work = 2 * self.rows * self.keys * (self.first.form.depth + self.second.form.columns) // 16
        sizes = [("b", batch), ("u", tiles)]
        names, extents = [n for n, _ in sizes], [Const(e) for _, e in sizes]
        return (parallel(names, extents, unit, work, note="attention"),)

    def _scores(self) -> Stmt:
        place = Pointer("s", simplify(Var("n") * self.first.nr))
        return self._call(self.first, self.first.form.depth, place, self.stride)

    def _results(self) -> tuple[Stmt, ...]:
        call = self._call(self.second, self.keys, Pointer("acc"), self.second.nr)
        return (call, *self.second.epilogue(Const(0), Const(0)))

    def _call(self, nest: ContractionNest, depth: int, place: Pointer, stride: int) -> Stmt:
        pointer, step = nest.operands.panel(Var("b"), Var("n"))
        sizes = (Const(1), Const(depth), pointer, Const(step))
        variant = (self.rows, nest.tiling.nv)
        operands = (Table("rows"), *sizes, place, Const(stride), Const(0))
        return MicroKernel("igemm", variant, operands)

    def _row_pointer(self) -> Stmt:
        return SetPointer("rows", Var("i"), "s", Var("i") * self.stride)

    def _row(self) -> tuple[Stmt, ...]:
        """Reduce one row of scores and replace it by the second product's left operand."""
        state = self._state()
        fragment, shape = self.elements.fragment, state.shape
        ends = (self.second.form.left_value,)
        kept = worth_keeping(fragment, self.reductions, ends, shape, state.row_shape)
        for number, n in enumerate(self.reductions):
            values = kept.get(n.outputs[0], [])
            if not number and not values and n.inputs[0] != self.first.terms.result:
                values = [n.inputs[0]]
            state.reduce(terms_of(fragment, n), number, values)
        row = Let("m", simplify(self.first.row(Const(0), Var("i"))))
        return (row, *state.body, *self._weights(state))

    def _state(self) -> RowState:
        fragment, form, terms = self.elements.fragment, self.first.form, self.first.terms
        shape = fragment.shape(terms.result)
        sizes = {"b": prod(form.batch), "m": prod(form.rows)}
        index = self._index(Const(0))
        space = Space(tuple(sizes), tuple(Const(e) for e in sizes.values()), index)
        space = Space(space.names, space.extents, tuple(space.simplify(i) for i in index))
        reduced = Space(("r0",), (Const(self.keys),), (Var("r0"),))
        axes = (len(shape) - 1,)
        state = RowState(fragment, self.elements, shape, axes, space, reduced)
        state.overwrite = ("s", lambda index: self._place(state, index[-1]))
        state.hold(terms.result, self._score_source(state))
        return state

    def _place(self, state: RowState, column: Expr) -> Expr:
        return state.full.simplify(Var("i") * self.stride + column)

    def _index(self, column: Expr) -> Index:
        form = self.first.form
        ranges = {"m": (0, prod(form.rows) - 1)}
        rows = split_index(Var("m"), form.rows, ranges)
        return form.result(split_index(Var("b"), form.batch), rows, column)

    def _score_source(self, state: RowState) -> Source:
        terms = self.first.terms
        here = [state.full.simplify(i) for i in state.space.index[:-1]]

        def source(asked: Index) -> Expr:
            if [state.full.simplify(i) for i in asked[:-1]] != here:
                raise LoweringError(f"an element of {terms.result!r} in another row is needed")
            stored = Load("s", self._place(state, asked[-1]), DType.FLOAT32)
            return terms.finish(self.elements, stored, asked)

        return source

    def _weights(self, state: RowState) -> tuple[Stmt, ...]:
        """Store the left operand of the second product over the row of scores."""
        form, column = self.second.form, Var("r0")
        ranges = {"m": (0, prod(form.rows) - 1)}
        rows = split_index(Var("m"), form.rows, ranges)
        batch = split_index(Var("b"), form.batch)
        known = state.known(state.full)
        value = form.left(known, batch, rows, (Const(0),) * len(form.taps), column)
        place = self._place(state, column)
        return state.loop([value], lambda named: (Store("s", place, named[0]),))


def attention_nest(
    elements: Elements,
    heavy: Sequence[Node],
    targets: Sequence[Target],
    arguments: Arguments,
    target: TargetInfo,
) -> tuple[Stmt, ...]:
    """Return the nests of contraction, reductions of its rows and contraction.

    Raises LoweringError if `heavy` is not of that form, if something else reads what lies between
    them, or if a tile of rows does not fit into half the L2 cache.
    """
    fragment = elements.fragment
    first, *reductions, last = heavy
    if not reductions or not all(is_reduction(fragment, n) for n in reductions):
        raise LoweringError(f"{first.label()} and {last.label()} have no reductions between them")
    shape = fragment.shape(first.outputs[0])
    for n in reductions:
        if fragment.shape(n.inputs[0]) != shape or ints(n.attrs, "axes", ()) != (len(shape) - 1,):
            raise LoweringError(f"{n.label()} does not reduce the rows of {first.label()}")
    if not all(depends(fragment, t.value, last.outputs[0]) for t in targets):
        raise LoweringError(f"an output is not made of {last.label()}")
    forms = form_of(fragment, first), form_of(fragment, last)
    _expect_same_rows(heavy, *forms)
    before, form, row = left_rows(elements, forms[0], arguments)
    tiling = _tiling(form, forms[1], target)
    packing, panel = right_panels(elements, first, form, tiling.nv * target.vl, arguments)
    narrow = replace(tiling, nv=min(tiling.nv, ceil(forms[1].columns / target.vl)))
    repacking, values = right_panels(elements, last, forms[1], narrow.nv * target.vl, arguments)
    one = _nest(elements, first, form, (), tiling, target, Operands(row, panel))
    two = _nest(elements, last, forms[1], targets, narrow, target, Operands(row, values))
    body = _Attention(elements, one, tuple(reductions), two)
    tile = body.rows * max(body.stride, form.depth) * 4
    if tile > target.l2 // 2:
        raise LoweringError(
            f"{first.label()}: a tile of rows of {body.keys} is too large for scratch"
        )
    return (*before, *packing, *repacking, *body.body())


def _expect_same_rows(heavy: Sequence[Node], one: Form, two: Form) -> None:
    same = prod(one.batch) == prod(two.batch) and prod(one.rows) == prod(two.rows)
    if not same or one.columns != two.depth or prod(one.taps) * prod(two.taps) != 1:
        raise LoweringError(f"{heavy[0].label()} and {heavy[-1].label()} have different rows")


def _tiling(one: Form, two: Form, target: TargetInfo) -> Tiling:
    """Choose the register tile of the first product; the second has as many rows."""
    found = target.tiling(prod(one.rows), one.columns, one.depth, 1, prod(one.batch))
    return Tiling(found.mr, found.nv, max(one.depth, two.depth), 1, found.mr, "m_outer")


def _nest(
    elements: Elements,
    n: Node,
    form: Form,
    targets: Sequence[Target],
    tiling: Tiling,
    target: TargetInfo,
    operands: Operands,
) -> ContractionNest:
    terms: Terms = terms_of(elements.fragment, n)
    return ContractionNest(form, terms, elements, tuple(targets), tiling, target.vl, operands)
