"""Loop nests over iteration spaces: pointwise stores, split at the borders of pieces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from egraph_fusion.codegen.layout import Layout, row_major
from egraph_fusion.codegen.loops import (
    Const,
    Expr,
    For,
    Let,
    LoopKind,
    Stmt,
    Store,
    Var,
)
from egraph_fusion.codegen.lower_elements import Elements, offset
from egraph_fusion.codegen.lower_lets import shared
from egraph_fusion.codegen.lower_space import (
    CHUNK,
    Space,
    chunked,
    divisions,
    largest,
    merged_space,
    split,
    split_point,
)

Body = Callable[[Space], tuple[Stmt, ...]]

LARGEST_SPLIT = 40
"""Parts that one nest may be split into before conditions stay in the loop."""


@dataclass(frozen=True)
class Target:
    """Where a value is stored: a buffer, where it begins, and strides per logical dimension.

    A value may be a part of a wider one that lies in the buffer (`whole` is that one's shape).
    """

    value: str
    buffer: str
    shape: tuple[int, ...]
    layout: Layout
    whole: tuple[int, ...] = ()
    start: int = 0

    @property
    def strides(self) -> tuple[int, ...]:
        """Element strides of the logical dimensions."""
        return self.layout.strides(self.whole or self.shape)

    def place(self, index: Sequence[Expr]) -> Expr:
        """Return the flat position of a logical index."""
        inside = offset(index, self.strides)
        return inside + self.start if self.start else inside

    @property
    def group(self) -> tuple[object, ...]:
        """Targets of equal groups are stored by one nest."""
        return (self.shape, self.layout.order)

    def parts(self, values: Sequence[str], sizes: Sequence[int], axis: int) -> list[Target]:
        """Return targets for values that lie one after another along `axis` of this one."""
        found: list[Target] = []
        begin = self.start
        for value, size in zip(values, sizes, strict=True):
            shape = (*self.shape[:axis], size, *self.shape[axis + 1 :])
            whole = self.whole or self.shape
            found.append(Target(value, self.buffer, shape, self.layout, whole, begin))
            begin += size * self.strides[axis]
        return found


def stores(
    elements: Elements, targets: Sequence[Target], space: Space, prefix: str = "t"
) -> tuple[Stmt, ...]:
    """Return the statements that store every target's element at the space's index."""
    known = elements.within(space.simplify)
    return stores_at(known, targets, space.index, prefix)


def stores_at(
    elements: Elements, targets: Sequence[Target], index: Sequence[Expr], prefix: str = "t"
) -> tuple[Stmt, ...]:
    """Return the statements that store every target's element at one logical index."""
    values = [elements.at(t.value, index) for t in targets]
    lets, named = shared(values, prefix)
    places = [elements.simplify(t.place(index)) for t in targets]
    writes = [Store(t.buffer, place, v) for t, place, v in zip(targets, places, named, strict=True)]
    return (*lets, *writes)


def pointwise(elements: Elements, targets: Sequence[Target]) -> list[Stmt]:
    """Return the nests that compute targets of one shape and layout."""

    def built(space: Space) -> list[Expr]:
        known = elements.within(space.simplify)
        values = [known.at(t.value, space.index) for t in targets]
        return [*values, *(space.simplify(t.place(space.index)) for t in targets)]

    def measure(space: Space) -> int:
        return divisions(built(space))

    space = merged_space(targets[0].shape, targets[0].layout, measure)
    parts = split_spaces(space, built)
    return [s for part in parts for s in _nest(elements, targets, part)]


def _nest(elements: Elements, targets: Sequence[Target], space: Space) -> tuple[Stmt, ...]:
    cut = chunked(space)
    return loops(cut, lambda s: stores(elements, targets, s))


def filled(
    shape: Sequence[int],
    buffer: str,
    value: Callable[[Space], Expr],
    order: Layout | None = None,
) -> tuple[Stmt, ...]:
    """Return the nests that store `value` at each index of a dense row-major buffer of `shape`.

    Loops run in the order of memory, or in the given one.
    """
    layout = order or row_major(len(shape))
    strides = row_major(len(shape)).strides(shape)

    def built(space: Space) -> list[Expr]:
        return [value(space), space.simplify(offset(space.index, strides))]

    def body(space: Space) -> tuple[Stmt, ...]:
        lets, (element,) = shared([value(space)])
        return (*lets, Store(buffer, space.simplify(offset(space.index, strides)), element))

    space = merged_space(shape, layout, lambda s: divisions(built(s)))
    return tuple(s for part in split_spaces(space, built) for s in loops(chunked(part), body))


def split_spaces(space: Space, built: Callable[[Space], list[Expr]]) -> list[Space]:
    """Split `space` until no Select asks for a border inside it, or parts become too many."""
    done: list[Space] = []
    work = [space]
    while work:
        part = work.pop()
        found = split_point(part, built(part)) if len(done) + len(work) < LARGEST_SPLIT else None
        if found is None:
            done.append(part)
            continue
        low, high = split(part, *found)
        work += [high, low]
    return done


def loops(space: Space, body: Body, work: int = 1, vector: bool = True) -> tuple[Stmt, ...]:
    """Return a nest over `space`: parallel over all outer loops together, vectors innermost.

    `work` is the cost of one point in scalar operations; it sets the grain.
    """
    inner = body(space)
    if not space.names:
        return inner
    last = len(space.names) - 1
    name, extent = space.names[last], space.extents[last]
    wide = vector and largest(extent) >= 4
    kind = LoopKind.VECTOR if wide else LoopKind.SERIAL
    row = For(name, extent, inner, kind)
    if last == 0:
        return (row,)
    return (parallel(space.names[:last], space.extents[:last], (row,), largest(extent) * work),)


def parallel(
    names: Sequence[str], extents: Sequence[Expr], body: tuple[Stmt, ...], work: int, note: str = ""
) -> For:
    """Return one PARALLEL loop over several constant extents; `work` is the cost of its body."""
    grain = max(1, CHUNK // max(work, 1))
    if len(names) == 1:
        return For(names[0], extents[0], body, LoopKind.PARALLEL, grain=grain, note=note)
    sizes = [largest(e) for e in extents]
    lets: list[Stmt] = []
    rest: Expr = Var("p")
    for position, name in enumerate(names):
        step = prod(sizes[position + 1 :])
        index: Expr = rest if step == 1 else rest // step
        if position:
            index = index % sizes[position]
        lets.append(Let(name, index))
    flat = Const(prod(sizes))
    return For("p", flat, (*lets, *body), LoopKind.PARALLEL, grain=grain, note=note)


def scoped(nests: Sequence[Stmt]) -> list[Stmt]:
    """Return nests whose serial parts keep their names to themselves."""
    out: list[Stmt] = []
    alone: list[Stmt] = []
    for stmt in nests:
        if isinstance(stmt, For) and stmt.kind is LoopKind.PARALLEL:
            out += _enclosed(alone)
            alone = []
            out.append(stmt)
        else:
            alone.append(stmt)
    return [*out, *_enclosed(alone)]


def _enclosed(body: Sequence[Stmt]) -> list[Stmt]:
    if all(isinstance(s, For | Store) for s in body):
        return [*body]
    return [For("once", Const(1), tuple(body))]


def serial(
    space: Space, body: tuple[Stmt, ...], kind: LoopKind = LoopKind.SERIAL
) -> tuple[Stmt, ...]:
    """Return nested serial loops over `space`, the innermost of `kind`."""
    for position in reversed(range(len(space.names))):
        last = position == len(space.names) - 1
        wide = kind if last and largest(space.extents[position]) >= 4 else LoopKind.SERIAL
        body = (For(space.names[position], space.extents[position], body, wide),)
    return body
