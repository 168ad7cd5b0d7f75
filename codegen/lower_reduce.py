"""Loop nests of one reduction-like operator with what follows it in the block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from egraph_fusion.codegen.index import stride_of
from egraph_fusion.codegen.layout import Layout
from egraph_fusion.codegen.loop_walk import subexpressions
from egraph_fusion.codegen.loops import (
    Alloc,
    Assign,
    Call,
    Const,
    Declare,
    Expr,
    For,
    If,
    Load,
    LoopKind,
    Stmt,
    Store,
    Var,
)
from egraph_fusion.codegen.lower_elements import Elements, Index
from egraph_fusion.codegen.lower_lets import shared
from egraph_fusion.codegen.lower_names import substituted
from egraph_fusion.codegen.lower_nests import Target, parallel, serial, stores_at
from egraph_fusion.codegen.lower_push import Limit, exactly, pushed
from egraph_fusion.codegen.lower_space import (
    Space,
    chunked,
    divisions,
    largest,
    merged_space,
    plain_space,
)
from egraph_fusion.codegen.lower_terms import Terms, conjunction, guarded, loads

LANES = 512
"""Accumulators that one thread keeps in scratch at a time."""

LINE = 16
"""Floats of a cache line, which threads should not share."""


@dataclass(frozen=True)
class _Nest:
    """One result space with the reduced loops inside it."""

    elements: Elements
    terms: Terms
    targets: tuple[Target, ...]
    space: Space
    reduced: Space

    @property
    def both(self) -> Space:
        """All loops, for simplifying with every range known."""
        names = (*self.space.names, *self.reduced.names)
        return Space(names, (*self.space.extents, *self.reduced.extents), self.space.index)

    def parts(self) -> tuple[Expr, tuple[Expr, ...]]:
        """Return the term and the conditions under which it counts."""
        known = self.elements.within(self.both.simplify)
        term = self.terms.term(known, self.space.index, self.reduced.index)
        conditions = self.terms.guard(self.space.index, self.reduced.index)
        simple = (known.simplify(c) for c in conditions)
        return term, tuple(c for c in simple if not (isinstance(c, Const) and c.value))

    def finished(self, total: Expr) -> tuple[Stmt, ...]:
        """Return the statements that store the targets, given the total of the space's index."""
        known = self.elements.within(self.space.simplify)
        return finish_into(known, self.terms, self.targets, self.space, self.space.index, total)


def finish_into(
    elements: Elements,
    terms: Terms,
    targets: Sequence[Target],
    space: Space,
    index: Index,
    total: Expr,
    prefix: str = "t",
    limits: list[Limit] | None = None,
) -> tuple[Stmt, ...]:
    """Store what becomes of one result element of `terms` in every target.

    With `limits` given, targets may be parts of the result: the caller sees to their limits.
    Raises LoweringError if a target needs other elements of the result than the one at hand.
    """
    value = terms.finish(elements, total, index)
    known = elements.given({terms.result: exactly(terms.result, index, value, elements)})
    out: list[Stmt] = []
    for number, group in enumerate(_by_place(known, terms.result, targets, space, index, limits)):
        where, members = group
        out += stores_at(known, members, where, prefix if not number else f"{prefix}{number}_")
    return tuple(out)


def _by_place(
    elements: Elements,
    result: str,
    targets: Sequence[Target],
    space: Space,
    index: Index,
    limits: list[Limit] | None,
) -> list[tuple[Index, list[Target]]]:
    groups: dict[Index, list[Target]] = {}
    for t in targets:
        where = pushed(elements.fragment, result, t.value, space, index, limits)
        groups.setdefault(tuple(space.simplify(i) for i in where), []).append(t)
    return list(groups.items())


def reduce_nest(elements: Elements, terms: Terms, targets: Sequence[Target]) -> tuple[Stmt, ...]:
    """Return the nest that computes `terms` and stores targets made of its result.

    The vector loop runs over the contiguous dimension: of the result if the operands are contiguous
    there, else of the reduced elements.
    """
    shape = elements.fragment.shape(terms.result)
    layout = _natural(elements, terms, targets)
    reduced = _reduced_space(elements, terms, shape, layout)
    plain = _Nest(elements, terms, tuple(targets), plain_space(shape, layout), reduced)
    if _kept_is_contiguous(plain):
        return _over_kept(plain)
    return _over_reduced(plain)


def _natural(elements: Elements, terms: Terms, targets: Sequence[Target]) -> Layout:
    shape = elements.fragment.shape(terms.result)
    same = (t.layout for t in targets if t.shape == shape)
    return next(same, Layout(tuple(range(len(shape)))))


def _reduced_space(elements: Elements, terms: Terms, shape: Sequence[int], layout: Layout) -> Space:
    """Return the reduced loops in the operand's memory order, merged where that is free."""
    space = plain_space(shape, layout)
    order = _memory_order(elements, terms, space)

    def measure(candidate: Space) -> int:
        nest = _Nest(elements, terms, (), space, candidate)
        term, conditions = nest.parts()
        return divisions([term, *conditions])

    return merged_space(terms.extents, order, measure, prefix="r")


def _memory_order(elements: Elements, terms: Terms, space: Space) -> Layout:
    rank = len(terms.extents)
    plain = plain_space(terms.extents, Layout(tuple(range(rank))), prefix="r")
    term, _ = _Nest(elements, terms, (), space, plain).parts()
    found = loads(term)
    names = iter(plain.names)
    strides: dict[int, int] = {}
    for d, extent in enumerate(terms.extents):
        name = next(names) if extent != 1 else ""
        strides[d] = _stride(found[0], name) if found and name else 0
    return Layout(tuple(sorted(range(rank), key=lambda d: -strides[d])))


def _stride(load: Load, name: str) -> int:
    found = stride_of(load.index, name)
    return abs(int(found.value)) if isinstance(found, Const) else 1 << 40


def _kept_is_contiguous(nest: _Nest) -> bool:
    if not nest.space.names or not nest.reduced.names:
        return bool(nest.space.names)
    term, _ = nest.parts()
    kept = [_stride(x, nest.space.names[-1]) for x in loads(term)]
    inner = [_stride(x, nest.reduced.names[-1]) for x in loads(term)]
    wide = largest(nest.space.extents[-1]) >= 4
    return wide and (all(s in (0, 1) for s in kept) or not all(s in (0, 1) for s in inner))


def _over_reduced(nest: _Nest) -> tuple[Stmt, ...]:
    """One result element at a time; vectors along the reduced elements."""
    body = reduce_to(nest.elements, nest.terms, nest.space, nest.reduced, "acc")
    body = (*body, *nest.finished(Var("acc", nest.terms.accumulator)))
    if not nest.space.names:
        return body
    work = max(1, nest.reduced.size)
    return (parallel(nest.space.names, nest.space.extents, body, work),)


def reduce_to(
    elements: Elements, terms: Terms, space: Space, reduced: Space, name: str
) -> tuple[Stmt, ...]:
    """Return statements that leave the total of `terms` at the space's index in variable `name`."""
    term, conditions = _Nest(elements, terms, (), space, reduced).parts()
    prefix = "u" if reduced.names else f"{name}_"
    lets, (value,) = shared([guarded(conditions, term, terms.identity)], prefix)
    carried = Var(name, terms.accumulator)
    step = Assign(name, Call(terms.combine, (carried, value)))
    start = Declare(name, terms.accumulator, terms.identity)
    if not reduced.names:
        return (start, *lets, step)
    return (start, *reducing(reduced, (*lets, step), name, terms.combine))


def reducing(reduced: Space, body: tuple[Stmt, ...], name: str, combine: str) -> tuple[Stmt, ...]:
    """Return the loops over `reduced` that carry variable `name`, the innermost with vectors."""
    if not reduced.names:
        return body
    wide = largest(reduced.extents[-1]) >= 4
    kind = LoopKind.VECTOR if wide else LoopKind.SERIAL
    clause = ((name, combine),) if wide else ()
    inner = For(reduced.names[-1], reduced.extents[-1], body, kind, clause)
    outer = Space(reduced.names[:-1], reduced.extents[:-1], ())
    return serial(outer, (inner,))


def _over_kept(nest: _Nest) -> tuple[Stmt, ...]:
    """Accumulators for a run of neighbouring results; vectors along them."""
    space = chunked(nest.space, _lanes(nest.space), always=True)
    cut = _Nest(nest.elements, nest.terms, nest.targets, space, nest.reduced)
    lane, extent = space.names[-1], space.extents[-1]
    total = Load("acc", Var(lane), nest.terms.accumulator)
    term, conditions = cut.parts()
    inside = [c for c in conditions if _mentions(c, lane)]
    outside = [c for c in conditions if not _mentions(c, lane)]
    lets, (value,) = shared([term], prefix="u")
    step = guarded(inside, nest.terms.combined(total, value), total)
    if inside:
        lets, step = (), guarded(inside, nest.terms.combined(total, term), total)
    update: tuple[Stmt, ...] = (
        For(lane, extent, (*lets, Store("acc", Var(lane), step)), LoopKind.VECTOR),
    )
    if outside:
        update = (If(conjunction(outside), update),)
    start = For(lane, extent, (Store("acc", Var(lane), nest.terms.identity),), LoopKind.VECTOR)
    finish = For(lane, extent, _finished_lanes(nest, space, total), LoopKind.VECTOR)
    scratch = Alloc("acc", nest.terms.accumulator, Const(largest(extent)))
    body = (scratch, start, *serial(nest.reduced, update), finish)
    if len(space.names) == 1:
        return body
    work = largest(extent) * max(1, nest.reduced.size)
    return (parallel(space.names[:-1], space.extents[:-1], body, work),)


def _finished_lanes(nest: _Nest, space: Space, total: Expr) -> tuple[Stmt, ...]:
    """Return the statements that store the targets for one lane of the run.

    The lane is a variable over the whole dimension while index maps are inverted: of the last run,
    which may be shorter, the simplifier would not know where it ends.
    """
    lane = nest.space.names[-1]
    index = nest.space.replaced({lane: Var("c")})
    names = (*nest.space.names[:-1], "c")
    stored = replace(nest, space=replace(nest.space, names=names, index=index)).finished(total)
    position: Expr = Var(lane)
    if len(space.names) > len(nest.space.names):
        position = Var(space.names[-2]) * largest(space.extents[-1]) + position
    return tuple(substituted(s, {"c": position}, space.ranges) for s in stored)


def _lanes(space: Space) -> int:
    """Return how many neighbours to take at a time: fewer where that alone occupies threads."""
    outer = prod(largest(e) for e in space.extents[:-1])
    inner = largest(space.extents[-1])
    if outer >= 8:
        return LANES
    most = min(LANES, max(2 * LINE, inner * outer // 4))
    even = (n for n in range(most - most % LINE, 0, -LINE) if inner % n == 0)
    return next(even, most - most % LINE)


def _mentions(expr: Expr, name: str) -> bool:
    return any(isinstance(e, Var) and e.name == name for e in subexpressions(expr))
