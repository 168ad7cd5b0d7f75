"""Blocks of reductions that share their rows: softmax, layer norm and what surrounds them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod

from egraph_fusion.codegen.expand import Fragment, LoweringError
from egraph_fusion.codegen.index import stride_of
from egraph_fusion.codegen.layout import Layout, row_major
from egraph_fusion.codegen.loops import (
    Alloc,
    Assign,
    Call,
    Const,
    Declare,
    Expr,
    Let,
    Load,
    LoopKind,
    Stmt,
    Store,
    Var,
)
from egraph_fusion.codegen.lower_elements import Elements, Index, Source, offset
from egraph_fusion.codegen.lower_lets import hoisted, shared
from egraph_fusion.codegen.lower_meaning import terms_of
from egraph_fusion.codegen.lower_nests import Target, parallel, serial, stores_at
from egraph_fusion.codegen.lower_push import exactly, pushed, reached
from egraph_fusion.codegen.lower_reduce import reduce_to, reducing
from egraph_fusion.codegen.lower_space import Space, largest, plain_space
from egraph_fusion.codegen.lower_terms import Terms, ints, loads
from egraph_fusion.ir.graph import Node

LARGEST_ROW = 32_768
"""Elements of one row that are kept in a thread's scratch."""

_EXPENSIVE = frozenset(
    {
        *("Exp", "Log", "Pow", "Sin", "Cos", "Tan", "Erf", "Tanh", "Sigmoid", "Softplus", "Div"),
        *("Sqrt", "Reciprocal", "Gelu", "Mish", "Swish", "Elu", "Selu", "Celu"),
    }
)
"""Operators worth a store and a load instead of doing them again."""


@dataclass
class RowState:
    """The statements of one row, and what is known of the row's values so far.

    `overwrite` is a row of scratch in which kept values replace one another, and how an index of
    the full shape is found in it; without it each kept value has scratch of its own.
    """

    fragment: Fragment
    elements: Elements
    shape: tuple[int, ...]
    axes: tuple[int, ...]
    space: Space
    reduced: Space
    sources: dict[str, Source] = field(default_factory=dict[str, Source])
    body: list[Stmt] = field(default_factory=list[Stmt])
    results: list[str] = field(default_factory=list[str])
    overwrite: tuple[str, Callable[[Index], Expr]] | None = None
    _held: list[str] = field(default_factory=list[str])
    _opened: tuple[Stmt, ...] = ()

    @property
    def full(self) -> Space:
        """Row and reduced loops together, over the full shape."""
        index = tuple(
            self.reduced.index[self.axes.index(d)] if d in self.axes else i
            for d, i in enumerate(self.space.index)
        )
        names = (*self.space.names, *self.reduced.names)
        return Space(names, (*self.space.extents, *self.reduced.extents), index)

    def known(self, space: Space) -> Elements:
        """Return the elements with what the row has computed."""
        return self.elements.given(self.sources).within(space.simplify)

    def reduce(self, terms: Terms, number: int, keep: Sequence[str] = ()) -> None:
        """Append the loop of one reduction and name its result; values to `keep` are stored before.

        If the reduction runs over a kept value, one loop does both.
        """
        last = terms.operands[0] if keep and keep[-1] == terms.operands[0] else ""
        for position, stored in enumerate(v for v in keep if v != last):
            self.keep(stored, f"{number}_{position}")
        index = self.result_index(terms.result)
        here = Space(self.space.names, self.space.extents, index)
        named = f"acc{number}"
        if last:
            self.body += self._reduce_kept(terms, last, here, number)
        else:
            known = self.elements.given(self.sources)
            self.body += reduce_to(known, terms, here, self.reduced, named)
        total = Var(named, terms.accumulator)
        value = terms.finish(self.known(self.space), total, index)
        result = Let(f"m{number}", value)
        self.body.append(result)
        dtype = self.fragment.types[terms.result].dtype
        known = self.known(self.space)
        self.results.append(terms.result)
        self.sources[terms.result] = exactly(terms.result, index, Var(result.name, dtype), known)

    def _reduce_kept(self, terms: Terms, value: str, here: Space, number: int) -> tuple[Stmt, ...]:
        """Store each element of `value` and combine it, in one loop."""
        named = f"acc{number}"
        known = self.known(self.full)
        outside, moved = hoisted(
            [known.at(value, self.full.index)], self.reduced.names, "h" + named
        )
        lets, (element,) = shared(moved, "v")
        one = Var("e", self.fragment.types[value].dtype)
        buffer, place = self._room(value, str(number))
        given = known.given({value: exactly(value, self.full.index, one, known)})
        term = terms.term(given, here.index, self.reduced.index)
        total = Var(named, terms.accumulator)
        step = Assign(named, Call(terms.combine, (total, term)))
        body: tuple[Stmt, ...] = (
            *lets,
            Let("e", element),
            Store(buffer, place(self.full.index), one),
            step,
        )
        start = Declare(named, terms.accumulator, terms.identity)
        inner = reducing(self.reduced, body, named, terms.combine)
        return (*self._opened, start, *outside, *inner)

    def result_index(self, result: str) -> Index:
        """Return the index of a reduction's result in the current row."""
        kept = tuple(i for d, i in enumerate(self.space.index) if d not in self.axes)
        same = len(self.fragment.shape(result)) == len(self.shape)
        return self.space.index if same else kept

    def keep(self, value: str, mark: str) -> None:
        """Append a loop that computes `value` for the whole row into scratch."""
        known = self.known(self.full)
        element = known.at(value, self.full.index)
        outside, moved = hoisted([element], self.reduced.names, f"h{mark}_")
        lets, (named,) = shared(moved, f"v{mark}_")
        buffer, place = self._room(value, mark)
        write = Store(buffer, place(self.full.index), named)
        self.body += (*self._opened, *outside)
        self.body += serial(self.reduced, (*lets, write), LoopKind.VECTOR)

    def _room(self, value: str, mark: str) -> tuple[str, Callable[[Index], Expr]]:
        """Give `value` a place in scratch, from where it is read from now on.

        With a row of scratch that is overwritten, what lay there can be read no more.
        """
        self._opened = ()
        if self.overwrite is not None:
            for lost in self._held:
                self.sources.pop(lost)
            self._held = [value]
            buffer, place = self.overwrite
        else:
            buffer, place = f"row{mark}", self.position
            dtype = self.fragment.types[value].dtype
            self._opened = (Alloc(buffer, dtype, Const(prod(self.row_shape))),)
        self.sources[value] = self._in_row(value, buffer, place)
        return buffer, place

    def hold(self, value: str, source: Source) -> None:
        """Note that the row of scratch that is overwritten holds `value` at first."""
        self._held = [value]
        self.sources[value] = source

    def loop(
        self, values: Sequence[Expr], writes: Callable[[tuple[Expr, ...]], tuple[Stmt, ...]]
    ) -> tuple[Stmt, ...]:
        """Return the loop over the row that computes `values` and does `writes` of them."""
        outside, moved = hoisted(values, self.reduced.names, "g")
        lets, named = shared(moved)
        inner = (*lets, *writes(named))
        return (*outside, *serial(self.reduced, inner, LoopKind.VECTOR))

    @property
    def row_shape(self) -> tuple[int, ...]:
        """Extents of the reduced axes."""
        return tuple(self.shape[a] for a in self.axes)

    def position(self, index: Index) -> Expr:
        """Return where an element of the full shape lies in the row's own scratch."""
        strides = row_major(len(self.axes)).strides(self.row_shape)
        return self.full.simplify(offset([index[a] for a in self.axes], strides))

    def _in_row(self, value: str, buffer: str, place: Callable[[Index], Expr]) -> Source:
        dtype = self.fragment.types[value].dtype
        row = [self.full.simplify(i) for i in self.space.index]

        def source(asked: Index) -> Expr:
            for d, i in enumerate(asked):
                if d not in self.axes and self.full.simplify(i) != row[d]:
                    raise LoweringError(f"an element of {value!r} in another row is needed")
            return Load(buffer, place(asked), dtype)

        return source


def rows(elements: Elements, heavy: Sequence[Node], targets: Sequence[Target]) -> tuple[Stmt, ...]:
    """Return one nest of the reductions `heavy` over the same axes of one shape, and the targets.

    Raises LoweringError if they do not, if a target needs several rows, or if the rows are not
    contiguous in memory.
    """
    fragment = elements.fragment
    state = _start(elements, heavy, targets)
    kept = worth_keeping(fragment, heavy, [t.value for t in targets], state.shape, state.row_shape)
    for number, n in enumerate(heavy):
        state.reduce(terms_of(fragment, n), number, kept.get(n.outputs[0], ()))
    _finish(state, targets)
    if not state.space.names:
        return tuple(state.body)
    work = 8 * max(1, state.reduced.size)
    return (parallel(state.space.names, state.space.extents, tuple(state.body), work),)


def _start(elements: Elements, heavy: Sequence[Node], targets: Sequence[Target]) -> RowState:
    fragment = elements.fragment
    shape = fragment.shape(heavy[0].inputs[0])
    axes = ints(heavy[0].attrs, "axes", ())
    for n in heavy[1:]:
        same = fragment.shape(n.inputs[0]) == shape and ints(n.attrs, "axes", ()) == axes
        if not same:
            raise LoweringError(f"{heavy[0].label()} and {n.label()} reduce different rows")
    layout = next((t.layout for t in targets if t.shape == shape), None)
    layout = layout or Layout(tuple(range(len(shape))))
    lines = [1 if d in axes else s for d, s in enumerate(shape)]
    row_order = Layout(tuple(sorted(range(len(axes)), key=lambda a: layout.order.index(axes[a]))))
    space = plain_space(lines, layout)
    reduced = plain_space([shape[a] for a in axes], row_order, prefix="r")
    state = RowState(fragment, elements, shape, axes, space, reduced)
    _expect_contiguous(state, heavy[0])
    return state


def _expect_contiguous(state: RowState, n: Node) -> None:
    """Raise LoweringError if vectors should rather run over neighbouring rows."""
    if not state.reduced.names or not state.space.names:
        return
    element = state.known(state.full).at(n.inputs[0], state.full.index)
    found = loads(element)
    inner = [_unit(x, state.reduced.names[-1]) for x in found]
    outer = [_unit(x, state.space.names[-1]) for x in found]
    wide = largest(state.space.extents[-1]) >= 8
    if not any(inner) and any(outer) and wide:
        raise LoweringError(f"{n.label()}: its rows are not contiguous")


def _unit(load: Load, name: str) -> bool:
    return stride_of(load.index, name) == Const(1)


def worth_keeping(
    fragment: Fragment,
    heavy: Sequence[Node],
    ends: Sequence[str],
    shape: tuple[int, ...],
    row: tuple[int, ...],
) -> dict[str, list[str]]:
    """Return, per reduction, the expensive full-shape values that later stages read again."""
    if prod(row) > LARGEST_ROW:
        return {}
    stages = [(n.outputs[0], reached(fragment, n.inputs[0])) for n in heavy]
    last = set[str]().union(*(reached(fragment, v) for v in ends))
    kept: dict[str, list[str]] = {}
    taken: set[str] = set()
    for position, (result, members) in enumerate(stages):
        later = [m for _, m in stages[position + 1 :]] + [last]
        for n in fragment.nodes:
            value = n.outputs[0]
            if value in taken or value not in members or fragment.shape(value) != shape:
                continue
            again = _needed_again(fragment, value, result, later)
            if again and _is_expensive(fragment, n):
                taken.add(value)
                kept.setdefault(result, []).append(value)
    return kept


def _needed_again(fragment: Fragment, value: str, result: str, later: Sequence[set[str]]) -> bool:
    """Whether some later stage reads `value` otherwise than through the reduction's result."""
    readers = [n for n in fragment.nodes if value in n.inputs and result not in n.outputs]
    through = reached(fragment, result)
    outside = [n for n in readers if n.outputs[0] not in through]
    return bool(outside) and any(value in members for members in later)


def _is_expensive(fragment: Fragment, n: Node) -> bool:
    return fragment.operator(n).scalar is not None and n.op in _EXPENSIVE


def _finish(state: RowState, targets: Sequence[Target]) -> None:
    size, lines = prod(state.shape), prod(state.shape) // max(1, prod(state.row_shape))
    full = [t for t in targets if prod(t.shape) == size]
    rest = [t for t in targets if prod(t.shape) != size]
    for number, t in enumerate(rest):
        if prod(t.shape) != lines:
            raise LoweringError(f"{t.value!r} is neither one element per row nor the full shape")
        where = _row_place(state, t)
        state.body += stores_at(state.known(state.space), [t], where, f"o{number}_")
    if not full:
        return
    state.body += _full_stores(state, full)


def _full_stores(state: RowState, targets: Sequence[Target]) -> tuple[Stmt, ...]:
    known = state.known(state.full)
    places = [_full_place(state, t) for t in targets]
    values = [known.at(t.value, p) for t, p in zip(targets, places, strict=True)]

    def writes(named: tuple[Expr, ...]) -> tuple[Stmt, ...]:
        rows = zip(targets, places, named, strict=True)
        return tuple(Store(t.buffer, known.simplify(t.place(p)), v) for t, p, v in rows)

    return state.loop(values, writes)


def _row_place(state: RowState, target: Target) -> Index:
    fragment = state.fragment
    for result in state.results:
        if result in reached(fragment, target.value):
            index = state.result_index(result)
            return pushed(fragment, result, target.value, state.space, index)
    raise LoweringError(f"{target.value!r} does not depend on the block's reductions")


def _full_place(state: RowState, target: Target) -> Index:
    fragment = state.fragment
    if target.shape == state.shape:
        return state.full.index
    ancestors = reached(fragment, target.value)
    for value in (*(n.outputs[0] for n in reversed(fragment.nodes)), *fragment.inputs):
        if value in ancestors and fragment.shape(value) == state.shape:
            return pushed(fragment, value, target.value, state.full, state.full.index)
    raise LoweringError(f"{target.value!r} is not made of rows of the block's reductions")
