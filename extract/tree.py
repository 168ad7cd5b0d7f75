"""Tree-optimal extraction: Knuth's generalisation of Dijkstra's algorithm (1977), exact."""

from __future__ import annotations

import heapq
import time
from collections.abc import Mapping

from egraph_fusion.egraph.snapshot import Snapshot
from egraph_fusion.errors import OptimizeError
from egraph_fusion.extract.choice import Choice, make_choice


def extract_tree(eg: Snapshot, time_limit: float = 60.0) -> Choice:
    """Return a choice of least tree cost (every use counted); fast, so no limit is needed.

    Raises OptimizeError if a root has no finite term.
    """
    del time_limit
    start = time.monotonic()
    nodes = cheapest_trees(eg)
    require_roots(eg, nodes)
    return make_choice(eg, nodes, extractor="tree", seconds=time.monotonic() - start)


def cheapest_trees(eg: Snapshot, given: Mapping[int, int] | None = None) -> dict[int, int]:
    """Return the node of the cheapest tree of every class that has a finite term.

    `given`, an acyclic choice closed under needs, is kept and costs its users nothing.  A class
    is settled after all classes that its node needs, so the result is acyclic; ties go to the
    lower node number.
    """
    owner = eg.node_class.tolist()
    waiting = [len(set(c)) for c in eg.children]
    prices = list(eg.costs)
    settled: dict[int, int] = {}
    queue = [(eg.costs[n], n) for n, left in enumerate(waiting) if not left]
    heapq.heapify(queue)

    def settle(eclass: int, node: int, price: int) -> None:
        settled[eclass] = node
        for user in eg.parents[eclass]:
            prices[user] += price * eg.children[user].count(eclass)
            waiting[user] -= 1
            if not waiting[user]:
                heapq.heappush(queue, (prices[user], user))

    for eclass, node in (given or {}).items():
        settle(eclass, node, 0)
    while queue:
        price, node = heapq.heappop(queue)
        if owner[node] not in settled:
            settle(owner[node], node, price)
    return settled


def require_roots(eg: Snapshot, nodes: dict[int, int]) -> None:
    """Raise OptimizeError if a root class is not in `nodes`: every term of it is infinite."""
    for root in eg.roots:
        if root not in nodes:
            raise OptimizeError(f"root class %{root} has no finite term: every node needs itself")
