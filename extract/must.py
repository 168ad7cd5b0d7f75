"""Which classes every finite term of a class contains: dominators, on an e-graph."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping


def always_needed(options: Mapping[int, Iterable[frozenset[int]]]) -> dict[int, int]:
    """Return per class a bit set (bit c: class c) of the classes in every finite term of it.

    `options` lists what each node of a class needs.  It is the greatest solution of
    must(c) = {c} and, of the unions of must(needed) of its nodes, what all have in common;
    reached from above, with nodes whose classes were not seen yet left out.
    """
    listed = {c: tuple(o) for c, o in options.items()}
    users: dict[int, list[int]] = {c: [] for c in listed}
    for eclass, needs in listed.items():
        for d in sorted({d for n in needs for d in n}):
            users[d].append(eclass)
    must: dict[int, int] = {}
    queue = deque(c for c, needs in listed.items() if any(not n for n in needs))
    queued = set(queue)
    while queue:
        eclass = queue.popleft()
        queued.discard(eclass)
        common = -1
        for node in listed[eclass]:
            if all(d in must for d in node):
                common &= joined(must, node)
        found = common | 1 << eclass
        if must.get(eclass) == found:
            continue
        must[eclass] = found
        for user in users[eclass]:
            if user not in queued:
                queued.add(user)
                queue.append(user)
    return must


def joined(must: Mapping[int, int], needs: Iterable[int]) -> int:
    """Return the union of the bit sets of `needs`."""
    bits = 0
    for d in needs:
        bits |= must[d]
    return bits


def members(bits: int) -> list[int]:
    """Return the classes of a bit set, ascending.

    >>> members(0b1010)
    [1, 3]
    """
    found: list[int] = []
    while bits:
        lowest = bits & -bits
        found.append(lowest.bit_length() - 1)
        bits ^= lowest
    return found
