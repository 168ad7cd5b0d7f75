"""The settings in which a rule is tried: usual ones, and those in which rules go wrong."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from random import Random

from egraph_fusion.ir.ops import OPERATORS, Kind
from egraph_fusion.rulesets.guards import Guard
from egraph_fusion.rulesets.pattern import Apply, Pattern, operators_of, walk
from egraph_fusion.rulesets.rule import Rule
from egraph_fusion.rulesets.verify_settings import Setting, Sizes, dtypes_of, prepared, ranks_of
from egraph_fusion.rulesets.verify_shapes import Shapes
from egraph_fusion.rulesets.verify_sizes import (
    DEEP,
    HOLLOW,
    PLAIN,
    UNLIKE,
    VECTORS,
    WIDE,
    Extents,
    long,
    long_at,
    named_axes,
    named_ranks,
    named_sizes,
    tall,
    vast_sizes,
    written_sizes,
)
from egraph_fusion.rulesets.verify_windows import WINDOWS

SETTINGS = 80
"""How many settings of a rule are looked for."""
TRIES = 1500
VAIN = 100
"""Attempts to find a setting, and to find one with an empty group if there is none yet."""
HOLLOWS, MULTIPLIED, MIXED, TALL, DEEPS, WIDES, LONGS = 8, 20, 24, 5, 16, 4, 12
"""Settings with an empty group, with multiplied vectors, with windows over unlike operands, of each
unusual rank, with long sums, with many of them, and with sizes that the rule names, that are looked
for."""
ENDS = (0, -1, 1)
"""Axes that have each of these sizes once, beside those that the rule names."""

Wanted = Callable[[Setting], bool]


@lru_cache(maxsize=128)
def settings_of(
    rule: Rule, seed: int = 0, count: int = SETTINGS, violating: Guard | None = None
) -> tuple[Setting, ...]:
    """Return up to `count` settings of a rule without variables for operators, smallest first.

    With `violating`, only settings in which that guard does not hold.  They are the same for the
    same seed; none if no operands satisfy the left side and the guards.
    """
    search = _Search(rule, Random(f"{seed} settings"), violating)
    search.look(PLAIN, count, TRIES)
    hollow = sum(s.hollow for s in search.found.values())
    search.look_for(lambda s: s.hollow, HOLLOW, HOLLOWS - hollow)
    if "MatMul" in operators_of(rule.lhs):
        search.look_for(lambda s: s.multiplies_vectors, VECTORS, MULTIPLIED)
    if sum(isinstance(q, Apply) and q.op in WINDOWS for q in walk(rule.lhs)) > 1:
        search.look(UNLIKE, MIXED, TRIES, lambda s: s.mixes_windows)
    for rank in named_ranks(rule):
        search.look_for(lambda s: s.tall, tall(rank), TALL)
    if _order_matters(rule):
        search.look_for(lambda s: s.deep, DEEP, DEEPS)
        search.look_for(lambda s: s.deep, WIDE, WIDES)
    sizes = written_sizes(rule)
    for n in sizes:
        search.look(long(n, sizes), max(1, LONGS // len(sizes)), TRIES // len(sizes))
    for n in (*sizes, *vast_sizes(rule)):
        for at in sorted({*ENDS, *named_axes(rule)}):
            search.look(long_at(n, at), 1, VAIN)
    return tuple(sorted(search.found.values(), key=lambda s: s.size))


def unreached(rule: Rule, found: Sequence[Setting]) -> tuple[int, ...]:
    """Return the sizes that a rule names, but that no operand or part of its left side has."""
    shapes = (t.static_shape or () for s in found for t in s.left.types)
    longest = max((d for shape in shapes for d in shape), default=0)
    return tuple(n for n in named_sizes(rule) if n > longest)


def _order_matters(rule: Rule) -> bool:
    """Whether a rule claims of sums of floats that they are the same bit for bit."""
    used = operators_of(rule.lhs) | operators_of(rule.rhs)
    sums = any(OPERATORS[op].kind in (Kind.CONTRACTION, Kind.REDUCTION) for op in used)
    return sums and rule.level == "exact" and dtypes_of(rule)[0].is_float


@dataclass
class _Search:
    """The settings of a rule found so far."""

    rule: Rule
    rng: Random
    violating: Guard | None
    found: dict[str, Setting] = field(default_factory=dict[str, Setting])

    def look(
        self, extents: Extents, count: int, tries: int, wanted: Wanted = lambda _: True
    ) -> bool:
        """Look for `count` more settings with such extents; return whether there are as many."""
        dtype, enough = dtypes_of(self.rule)[0], len(self.found) + count
        for _ in range(tries):
            if len(self.found) >= enough:
                break
            shapes = self._shapes(extents)
            s = prepared(self.rule, shapes, dtype, self.rng, {}) if shapes is not None else None
            if s is None or not wanted(s):
                continue
            if self.violating is None or s.violates(self.violating):
                self.found.setdefault(str((list(s.shapes.values()), s.attributes)), s)
        return len(self.found) >= enough

    def look_for(self, wanted: Wanted, extents: Extents, count: int) -> None:
        """Look for `count` settings that are `wanted`, if the first is found soon."""
        if count > 0 and self.look(extents, 1, VAIN, wanted):
            self.look(extents, count - 1, TRIES, wanted)

    def _shapes(self, extents: Extents) -> Mapping[Pattern, Sizes] | None:
        """Return random shapes of the operands; None if they do not do."""
        shapes = Shapes(self.rng, extents).fit(self.rule.lhs)
        if extents.of_ranks is not None:
            ranks = ranks_of(shapes)
            if sum(s.ranks == ranks for s in self.found.values()) >= extents.of_ranks:
                return None
        fitting = all(math.prod(s) <= extents.largest for s in shapes.values())
        return shapes if fitting else None


def settings_like(rule: Rule, found: Sequence[Setting], seed: int = 0) -> tuple[Setting, ...]:
    """Return settings with the shapes of `found`, for the same rule with another operator.

    What an operator variable leaves open of its attributes is chosen anew.
    """
    rng = Random(f"{seed} like")
    again: list[Setting] = []
    for s in found:
        kept = {n: v for n, v in s.attributes.items() if not n.endswith("_attrs")}
        setting = prepared(rule, s.shapes, s.dtype, rng, kept)
        if setting is not None:
            again.append(setting)
    return tuple(again)
