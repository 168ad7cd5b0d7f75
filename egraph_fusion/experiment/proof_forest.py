"""A union-find that remembers why: classes of numbered things as trees of reasons.

Nieuwenhuis and Oliveras, "Proof-producing congruence closure", RTA 2005, section 2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

CONGRUENCE = -1
"""Justifies an edge between two applications of one operator to equal operands."""
FOLDING = -2
"""Justifies an edge from a term of constants to its value."""


@dataclass(frozen=True, slots=True)
class Edge:
    """`old` and `new` are equal by `why`: the number of a rule, CONGRUENCE or FOLDING.

    `forward` is false where the rule leads from `new` to `old`.
    """

    old: int
    new: int
    why: int
    forward: bool


@dataclass
class Forest:
    """Things numbered from 0.

    `parents` is the union-find, `classes` the members of each root; `via` is the proof forest:
    another thing of the same class and why the two are equal.  `changed` holds the classes that are
    new or grew since somebody emptied it.
    """

    parents: list[int] = field(default_factory=list[int])
    classes: dict[int, list[int]] = field(default_factory=dict[int, list[int]])
    via: dict[int, tuple[int, int, bool]] = field(default_factory=dict[int, tuple[int, int, bool]])
    changed: set[int] = field(default_factory=set[int])

    def grow(self) -> int:
        """Return the number of a new thing, which is equal to no other."""
        number = len(self.parents)
        self.parents.append(number)
        self.classes[number] = [number]
        self.changed.add(number)
        return number

    def find(self, member: int) -> int:
        """Return the number of a class: that of its oldest member."""
        while self.parents[member] != member:
            self.parents[member] = self.parents[self.parents[member]]
            member = self.parents[member]
        return member

    def union(self, a: int, b: int, why: int, forward: bool = True) -> bool:
        """Note that two things are equal, and why; return whether that is news."""
        high, low = self.find(a), self.find(b)
        if high == low:
            return False
        self._reroot(a)
        self.via[a] = (b, why, forward)
        keep, drop = min(high, low), max(high, low)
        self.parents[drop] = keep
        self.classes[keep] += self.classes.pop(drop)
        self.changed.add(keep)
        return True

    def path(self, a: int, b: int) -> Iterator[Edge]:
        """Yield the edges that lead from one thing to an equal one."""
        up, down = self._ancestors(a), self._ancestors(b)
        above = set(down)
        common = next(t for t in up if t in above)
        for t in up[: up.index(common)]:
            other, why, forward = self.via[t]
            yield Edge(t, other, why, forward)
        for t in reversed(down[: down.index(common)]):
            other, why, forward = self.via[t]
            yield Edge(other, t, why, not forward)

    def _ancestors(self, member: int) -> list[int]:
        found = [member]
        while found[-1] in self.via:
            found.append(self.via[found[-1]][0])
        return found

    def _reroot(self, member: int) -> None:
        """Turn the edges from a thing to the root of its proof tree around."""
        path = self._ancestors(member)
        edges = [self.via[t] for t in path[:-1]]
        for (below, above), (_, why, forward) in zip(pairwise(path), edges, strict=True):
            self.via[above] = (below, why, not forward)
        self.via.pop(member, None)
