"""Iteration spaces: loop variables over a logical index, merged, split and cut into chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from egraph_fusion.codegen.index import Ranges, delinearize, simplify, stride_of
from egraph_fusion.codegen.layout import Layout
from egraph_fusion.codegen.loop_walk import subexpressions, substitute
from egraph_fusion.codegen.loops import (
    Call,
    Const,
    Expr,
    Select,
    Var,
)

Measure = Callable[["Space"], int]

CHUNK = 8192
"""Elements that are worth a turn of a thread."""


@dataclass(frozen=True)
class Space:
    """Loop variables, outermost first, and the logical index that they stand for.

    `extents` are constants, but for the innermost of a space cut into chunks that do not divide it.
    """

    names: tuple[str, ...]
    extents: tuple[Expr, ...]
    index: tuple[Expr, ...]

    @property
    def ranges(self) -> Ranges:
        """What the simplifier may know of the variables."""
        return {n: (0, e - 1) for n, e in zip(self.names, self.extents, strict=True)}

    @property
    def size(self) -> int:
        """How many points the space has (an upper bound when the last chunk is shorter)."""
        return prod(largest(e) for e in self.extents)

    def simplify(self, expr: Expr) -> Expr:
        """Return `expr` in normal form for the space's ranges."""
        return simplify(expr, self.ranges)

    def replaced(self, values: Mapping[str, Expr]) -> tuple[Expr, ...]:
        """Return the logical index with variables replaced."""
        return tuple(substitute(i, values) for i in self.index)


def largest(extent: Expr) -> int:
    """Return the constant extent, or the chunk size of min(chunk, rest)."""
    found = [e.value for e in subexpressions(extent) if isinstance(e, Const)]
    value = extent.value if isinstance(extent, Const) else found[0]
    return int(value)


def plain_space(shape: Sequence[int], layout: Layout, prefix: str = "i") -> Space:
    """Return one loop per dimension above 1, in memory order."""
    groups = tuple((d,) for d in layout.order if shape[d] != 1)
    return grouped_space(shape, groups, prefix)


def grouped_space(
    shape: Sequence[int], groups: Sequence[tuple[int, ...]], prefix: str = "i"
) -> Space:
    """Return one loop per group of dimensions; each group is neighbours in memory order."""
    index: list[Expr] = [Const(0)] * len(shape)
    names = tuple(f"{prefix}{n}" for n in range(len(groups)))
    extents = tuple(prod(shape[d] for d in g) for g in groups)
    ranges: Ranges = {n: (0, e - 1) for n, e in zip(names, extents, strict=True)}
    for name, group in zip(names, groups, strict=True):
        parts = delinearize(Var(name), [shape[d] for d in group], ranges)
        for d, part in zip(group, parts, strict=True):
            index[d] = part
    return Space(names, tuple(Const(e) for e in extents), tuple(index))


def merged_space(
    shape: Sequence[int], layout: Layout, measure: Measure, prefix: str = "i"
) -> Space:
    """Return the space over `shape` with as few loops as cost no division more.

    `measure` counts the divisions and remainders of a body over a space. Neighbours in memory
    merge, from the innermost outwards, while the count does not rise.
    """
    groups: list[tuple[int, ...]] = [(d,) for d in layout.order if shape[d] != 1]
    if len(groups) < 2:
        return grouped_space(shape, groups, prefix)
    best = measure(grouped_space(shape, groups, prefix))
    at = len(groups) - 1
    while at > 0:
        candidate = [*groups[: at - 1], groups[at - 1] + groups[at], *groups[at + 1 :]]
        found = measure(grouped_space(shape, candidate, prefix))
        if found <= best:
            groups, best = candidate, found
        at -= 1
    return grouped_space(shape, groups, prefix)


def divisions(exprs: Sequence[Expr]) -> int:
    """Return how many floor divisions and remainders the expressions contain."""
    each = (e for x in exprs for e in subexpressions(x))
    return sum(isinstance(e, Call) and e.op in ("floordiv", "floormod") for e in each)


def split_point(space: Space, exprs: Sequence[Expr]) -> tuple[str, int] | None:
    """Return a variable and a value at which a condition of some Select changes, if any."""
    for expr in exprs:
        for e in subexpressions(expr):
            if isinstance(e, Select):
                found = next(_borders(space, e.cond), None)
                if found:
                    return found
    return None


def _borders(space: Space, cond: Expr) -> Iterator[tuple[str, int]]:
    for e in subexpressions(cond):
        if not (isinstance(e, Call) and e.op in ("lt", "ge", "le", "gt")):
            continue
        difference = space.simplify(Call("sub", e.args))
        for name, extent in zip(space.names, space.extents, strict=True):
            border = _border(difference, e.op, name)
            if border is not None and 0 < border < largest(extent):
                yield name, border


def _border(difference: Expr, op: str, name: str) -> int | None:
    """Return the least value of the variable at which `difference op 0` has changed."""
    factor = stride_of(difference, name)
    if not isinstance(factor, Const) or factor.value == 0:
        return None
    rest = simplify(substitute(difference, {name: Const(0)}))
    if not isinstance(rest, Const):
        return None
    a, b = int(factor.value), int(rest.value)
    strict = op in ("lt", "ge")  # changes where a*v + b reaches 0 (from below), else exceeds 0
    if a > 0:
        return -(b // a) if strict else -b // a + 1
    return b // -a + 1 if strict else -(-b // -a)


def split(space: Space, name: str, at: int) -> tuple[Space, Space]:
    """Return the parts of `space` with variable `name` below `at`, and from `at` on."""
    position = space.names.index(name)
    extents = space.extents
    total = largest(extents[position])
    low = replace(space, extents=_with(extents, position, Const(at)))
    shifted = space.replaced({name: Var(name) + at})
    high = replace(space, extents=_with(extents, position, Const(total - at)), index=shifted)
    return low, replace(high, index=tuple(high.simplify(i) for i in shifted))


def _with(extents: tuple[Expr, ...], position: int, extent: Expr) -> tuple[Expr, ...]:
    return (*extents[:position], extent, *extents[position + 1 :])


def chunked(space: Space, chunk: int = CHUNK, always: bool = False) -> Space:
    """Cut the innermost loop into chunks where the outer loops alone would not occupy threads.

    With `always`, cut whatever is longer than a chunk.
    """
    if not space.names:
        return space
    inner = largest(space.extents[-1])
    outer = prod(largest(e) for e in space.extents[:-1])
    if inner <= chunk or (not always and (inner < 2 * chunk or outer >= 16)):
        return space
    size = chunk if always else _chunk_size(inner, chunk)
    count = -(-inner // size)
    name, block = space.names[-1], f"{space.names[-1]}b"
    rest: Expr = Const(size)
    if inner % size:
        rest = Call("min", (Const(size), inner - Var(block) * size))
    index = space.replaced({name: Var(block) * size + Var(name)})
    names = (*space.names[:-1], block, name)
    cut = Space(names, (*space.extents[:-1], Const(count), rest), index)
    return replace(cut, index=tuple(cut.simplify(i) for i in index))


def _chunk_size(inner: int, chunk: int) -> int:
    """Prefer a divisor of `inner` that is a multiple of 16 between half and twice `chunk`."""
    for size in range(chunk, 2 * chunk, 16):
        if inner % size == 0:
            return size
    for size in range(chunk, chunk // 2, -16):
        if inner % size == 0:
            return size
    return chunk
