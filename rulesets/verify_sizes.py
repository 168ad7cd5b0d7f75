"""Extents of a rule's operands: usual ones, 0, and those that the rule speaks of."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import cast

from egraph_fusion.ir.ops import OPERATORS
from egraph_fusion.rulesets.pattern import Apply, AttrTerm, Computed, Pattern, walk
from egraph_fusion.rulesets.rule import Rule

LONGEST, VAST = 130, 10_000
"""The largest extents that are drawn because a rule speaks of them: beside others, and alone."""
UNBOUNDED = 2**31 - 1
"""Sizes from here on stand for the end of an axis, however long."""
USUAL = 3
USUAL_RANK, TALLEST = 4, 7
"""The largest rank that is usual, and the largest that is drawn because a rule speaks of it."""


@dataclass(frozen=True)
class Extents:
    """How single extents are drawn, how many elements an operand may have, and which are vectors.

    `special` ones are drawn with this probability, others from the usual ones.  `alike` is how
    often siblings have the same shape, `vectors` how often a matrix product has a vector.  Of
    settings with operands of the same ranks, `of_ranks` are kept at most.  `rank` is that of whole
    operands, if it is not drawn, and `at` the axis that has the first special extent.
    """

    special: tuple[int, ...] = ()
    probability: float = 0.0
    usual: tuple[int, ...] = (0, 1, 2, 3)
    weights: tuple[int, ...] = (1, 8, 14, 8)
    largest: int = 36
    alike: float = 0.6
    vectors: float = 0.15
    of_ranks: int | None = None
    rank: int | None = None
    at: int | None = None

    def drawn(self, rng: Random) -> int:
        """Return an extent."""
        if self.special and rng.random() < self.probability:
            return rng.choice(self.special)
        return rng.choices(self.usual, self.weights)[0]


PLAIN = Extents()
HOLLOW = Extents((0,), 0.3, (1, 2, 3), (3, 4, 2))
"""Those for empty groups, whose reduction is not empty."""
VECTORS = Extents(usual=(1, 2, 3), weights=(2, 6, 1), alike=0.2, vectors=0.5, of_ranks=2)
"""Those for products of vectors and matrices, of each rank beside the others."""
DEEP = Extents((19,), 0.4, (1, 2, 3), (1, 3, 2), 80)
"""Those for long sums, which numpy adds up in parts; 19 is no multiple of a part."""
WIDE = Extents((17, 18, 19), 0.9, (1, 2, 3), (1, 3, 2), 400)
"""Those for many long sums: how a library adds up those of a product can depend on all sizes."""


UNLIKE = Extents(alike=0.0)
"""Those where siblings rarely have the same shape."""


def tall(rank: int) -> Extents:
    """Return those of operands of a rank that is not usual."""
    return Extents(usual=(1, 2, 3), weights=(4, 6, 1), largest=96, rank=rank)


def long(size: int, others: Sequence[int]) -> Extents:
    """Return those where one large size is common, and others that a rule names occur."""
    return Extents((*[size] * 2 * len(others), *others), 0.45, (1, 2), (2, 1), 300)


def long_at(size: int, at: int) -> Extents:
    """Return those where one axis is long, however long, and hardly another one longer than 1."""
    return Extents((size,), 0.2, (1, 2), (8, 1), size + 2, at=at)


def vast_sizes(r: Rule) -> tuple[int, ...]:
    """Return the sizes at and next to those that a rule's attributes name, if these are vast."""
    around = {m for n in (*named_sizes(r), *_together(r)) for m in (n, n + 1)}
    return tuple(sorted(n for n in around if LONGEST < n <= VAST))


def named_sizes(r: Rule) -> tuple[int, ...]:
    """Return the sizes that a rule's attributes name, if these are larger than usual."""
    return tuple(sorted({abs(n) for n in _literals(r) if USUAL < abs(n) < UNBOUNDED}))


def written_sizes(r: Rule) -> tuple[int, ...]:
    """Return the sizes at and beside those that a rule's attributes name, if these are large."""
    return tuple(sorted({n for n in _sizes(r) if USUAL < n <= LONGEST}))


def named_ranks(r: Rule) -> tuple[int, ...]:
    """Return the unusual ranks for which a rule is tried: one, and those that it speaks of."""
    ranks = {USUAL_RANK + 1}
    for n in (*named_axes(r), *_guarded(r)):
        ranks |= {n, n + 1, n + 2} if n >= USUAL_RANK - 1 else {-n, 1 - n}
    for q in _applied(r):
        perms = [v for name, v in q.attrs if name == "perm" and isinstance(v, tuple)]
        ranks |= {len(v) + more for v in perms for more in (0, 1)}
    return tuple(sorted(n for n in ranks if USUAL_RANK < n <= TALLEST))


def named_axes(r: Rule) -> tuple[int, ...]:
    """Return the axes that a rule names."""
    terms = [v for q in _applied(r) for name, v in q.attrs if _is_axis(q.op, name)]
    found = (w for v in terms for w in _whole(v))
    return tuple(sorted({n for w in found for n in (w if isinstance(w, tuple) else (w,))}))


def _guarded(r: Rule) -> Iterator[int]:
    """Yield the integers that a rule's guards name."""
    for g in r.when:
        yield from (n for n in g.args if isinstance(n, int))


def _applied(r: Rule) -> Iterator[Apply]:
    for q in (*walk(r.lhs), *walk(r.rhs)):
        if isinstance(q, Apply) and q.op in OPERATORS:
            yield q


def _sizes(r: Rule) -> Iterator[int]:
    for n in _literals(r):
        yield from (abs(n) - 1, abs(n), abs(n) + 1, abs(n) + 2, 2 * abs(n))
    yield from _together(r)


def _together(r: Rule) -> Iterator[int]:
    """Yield what the integers of a tuple add up and multiply to."""
    for t in _tuples(r):
        yield from (sum(map(abs, t)), abs(math.prod(t)))


def _literals(r: Rule) -> Iterator[int]:
    for value in _values(r):
        yield from value if isinstance(value, tuple) else (value,)


def _tuples(r: Rule) -> Iterator[tuple[int, ...]]:
    yield from (v for v in _values(r) if isinstance(v, tuple) and len(v) > 1)


def _values(r: Rule) -> Iterator[int | tuple[int, ...]]:
    """Yield the integers and tuples of integers that are written in a rule and are no axes."""
    for q in _applied(r):
        for name, term in q.attrs:
            if name != "perm" and not _is_axis(q.op, name) and not _is_switch(q.op, name):
                yield from _whole(term)


def _is_axis(op: str, name: str) -> bool:
    return any(a.name == name and a.axis_of for a in OPERATORS[op].attrs)


def _is_switch(op: str, name: str) -> bool:
    return any(a.name == name and a.switch for a in OPERATORS[op].attrs)


def _whole(term: AttrTerm | Pattern) -> Iterator[int | tuple[int, ...]]:
    if isinstance(term, Computed):
        for a in term.args:
            yield from () if isinstance(a, Pattern) else _whole(a)
        return
    items = cast("tuple[object, ...]", term if isinstance(term, tuple) else (term,))
    whole = tuple(n for n in items if isinstance(n, int) and not isinstance(n, bool))
    if items and len(whole) == len(items):
        yield whole if isinstance(term, tuple) else whole[0]
