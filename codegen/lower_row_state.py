"""One row of a block of reductions: its statements, and what is known of its values so far."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod

from egraph_fusion.codegen.expand import Fragment, LoweringError
from egraph_fusion.codegen.layout import row_major
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
from egraph_fusion.codegen.lower_nests import serial
from egraph_fusion.codegen.lower_push import exactly
from egraph_fusion.codegen.lower_reduce import reduce_to, reducing
from egraph_fusion.codegen.lower_space import Space
from egraph_fusion.codegen.lower_terms import Terms


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
        lets, (element,) = shared(moved, f"v{number}_")
        one = Var(f"e{number}", self.fragment.types[value].dtype)
        buffer, place = self._room(value, str(number))
        given = known.given({value: exactly(value, self.full.index, one, known)})
        term = terms.term(given, here.index, self.reduced.index)
        total = Var(named, terms.accumulator)
        step = Assign(named, Call(terms.combine, (total, term)))
        body: tuple[Stmt, ...] = (
            *lets,
            Let(one.name, element),
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
