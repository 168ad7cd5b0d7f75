"""Which classes of constants are computed at compile time, and how."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping

from egraph_fusion.egraph.state import ENode, EState

FOLD_LIMIT = 1 << 26
"""Elements of the largest tensor that is computed at compile time, be it on the way to another."""


def folded_choice(
    state: EState, small: Callable[[int], bool], usable: Callable[[int, ENode], bool]
) -> dict[int, ENode]:
    """Return how each class that is folded is computed: with the fewest steps.

    A class is folded if it is a `small` constant and one of its `usable` nodes reads only such
    classes: nothing larger is ever computed on the way.  Nodes of the graph itself win ties.
    """
    inside = {c for c in state.classes if small(c) or _absent(state, c)}
    users: dict[int, list[tuple[int, int]]] = {}
    waiting: dict[tuple[int, int], int] = {}
    queue: list[tuple[int, int, int, int]] = []
    for eclass in sorted(inside):
        for i, n in enumerate(state.classes[eclass]):
            if not set(n.children) <= inside or not usable(eclass, n):
                continue
            waiting[eclass, i] = len(set(n.children))
            for k in set(n.children):
                users.setdefault(k, []).append((eclass, i))
            if not n.children:
                queue.append((0, 0, eclass, i))
    return _settled(state, users, waiting, queue)


def _settled(
    state: EState,
    users: Mapping[int, list[tuple[int, int]]],
    waiting: dict[tuple[int, int], int],
    queue: list[tuple[int, int, int, int]],
) -> dict[int, ENode]:
    """Settle classes in order of cost, as Knuth's algorithm does."""
    settled: dict[int, ENode] = {}
    steps: dict[int, int] = {}
    heapq.heapify(queue)
    while queue:
        cost, _, eclass, i = heapq.heappop(queue)
        if eclass in settled:
            continue
        settled[eclass], steps[eclass] = state.classes[eclass][i], cost
        for user, j in users.get(eclass, ()):
            waiting[user, j] -= 1
            if not waiting[user, j]:
                n = state.classes[user][j]
                total = 1 + sum(steps[k] for k in n.children)
                heapq.heappush(queue, (total, int(n.made_by >= 0), user, j))
    return settled


def _absent(state: EState, eclass: int) -> bool:
    return any(n.constructor == "Absent" for n in state.classes[eclass])
