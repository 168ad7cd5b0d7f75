"""Strongly connected components of a small directed graph."""

from __future__ import annotations

from collections.abc import Collection, Mapping


def strong_components(successors: Mapping[int, Collection[int]]) -> dict[int, int]:
    """Return a component number for every vertex (Tarjan 1972, without recursion).

    Numbers rise from successors to predecessors: an edge between components leads downwards.

    >>> strong_components({0: [1], 1: [0, 2], 2: []})
    {2: 0, 1: 1, 0: 1}
    """
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    component: dict[int, int] = {}
    path: list[int] = []
    count = 0
    for start in successors:
        if start in index:
            continue
        work = [(start, iter(sorted(successors[start])))]
        index[start] = low[start] = len(index)
        path.append(start)
        while work:
            vertex, rest = work[-1]
            for follower in rest:
                if follower not in index:
                    index[follower] = low[follower] = len(index)
                    path.append(follower)
                    work.append((follower, iter(sorted(successors[follower]))))
                    break
                if follower not in component:
                    low[vertex] = min(low[vertex], index[follower])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[vertex])
                if low[vertex] == index[vertex]:
                    while True:
                        member = path.pop()
                        component[member] = count
                        if member == vertex:
                            break
                    count += 1
    return component
