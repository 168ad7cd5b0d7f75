"""Local search on a choice: flip one class to another node, keep it if cheaper and acyclic."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import NamedTuple

from egraph_fusion.egraph.snapshot import Snapshot
from egraph_fusion.extract.choice import reachable
from egraph_fusion.extract.tree import cheapest_trees

FLIP_LIMIT = 400_000
"""Flips that may be tried in one search; the search is deterministic unless the clock ends it."""


class Improved(NamedTuple):
    """A choice for every class, its exact DAG cost, and why the search stopped."""

    nodes: dict[int, int]
    cost: int
    stop_reason: str


def improve(eg: Snapshot, nodes: Mapping[int, int], deadline: float) -> Improved:
    """Return `nodes` (acyclic, roots included) after flips that lower its DAG cost.

    In each round every class outside the choice first takes the node that is cheapest given
    what the choice already pays for; then each active class tries its other nodes; then several
    classes try together to share a class that none of them would pay for alone.
    """
    search = _Search(eg, nodes)
    tried = 0
    while True:
        before = search.cost
        search.adopt_cheap_defaults()
        for eclass in search.active():
            if time.monotonic() > deadline:
                return search.result("time")
            if tried > FLIP_LIMIT:
                return search.result("work")
            tried += search.flip_to_best(eclass)
        for wanted, flips in search.shareable().items():
            if time.monotonic() > deadline:
                return search.result("time")
            if tried > FLIP_LIMIT:
                return search.result("work")
            tried += search.share(wanted, flips)
        if search.cost == before:
            return search.result("done")


class _Search:
    """A choice with use counts, so that a flip is priced by what it adds and drops."""

    def __init__(self, eg: Snapshot, nodes: Mapping[int, int]) -> None:
        self.eg = eg
        self.nodes = dict(nodes)
        self.uses = [0] * eg.n_classes
        self.cost = 0
        for root in eg.roots:
            self.cost += self._use(root)

    def active(self) -> list[int]:
        """Return the classes that the roots need, users before what they use."""
        return reachable(self.eg, self.nodes)[::-1]

    def adopt_cheap_defaults(self) -> None:
        """Let inactive classes take the cheapest tree given that active ones are paid for."""
        active = {c: self.nodes[c] for c in reachable(self.eg, self.nodes)}
        self.nodes = cheapest_trees(self.eg, active)

    def flip_to_best(self, eclass: int) -> int:
        """Keep the cheapest acyclic node of an active class; return the number of nodes tried."""
        members = self.eg.class_nodes[eclass]
        if len(members) == 1 or not self.uses[eclass]:
            return 0
        for node in members:
            old = self.nodes[eclass]
            if node == old or self._makes_cycle(eclass, node):
                continue
            delta = self._swap(eclass, node)
            if delta >= 0:
                self._swap(eclass, old)
                continue
            self.cost += delta
        return len(members)

    def shareable(self) -> dict[int, list[tuple[int, int]]]:
        """Return, per inactive class that two active ones could use, their (class, node) pairs."""
        found: dict[int, list[tuple[int, int]]] = {}
        for eclass in self.active():
            for node in self.eg.class_nodes[eclass]:
                if node != self.nodes[eclass]:
                    for wanted in self._inactive_below(node):
                        found.setdefault(wanted, []).append((eclass, node))
        return {w: f for w, f in found.items() if len({c for c, _ in f}) > 1}

    def share(self, wanted: int, flips: list[tuple[int, int]]) -> int:
        """Pay for `wanted`, flip all that then gain; keep if cheaper.  Return the flips tried."""
        if self.uses[wanted] or wanted not in self.nodes:
            return 0
        delta = self._use(wanted)
        undo: list[tuple[int, int]] = []
        for eclass, node in flips:
            old = self.nodes[eclass]
            if not self.uses[eclass] or node == old or self._makes_cycle(eclass, node):
                continue
            change = self._swap(eclass, node)
            if change >= 0:
                self._swap(eclass, old)
                continue
            delta += change
            undo.append((eclass, old))
        delta -= self._drop(wanted)
        if delta >= 0:
            for eclass, old in reversed(undo):
                delta += self._swap(eclass, old) if self.uses[eclass] else self._set(eclass, old)
        else:
            self.cost += delta
        return len(flips)

    def result(self, stop_reason: str) -> Improved:
        """Return the present choice."""
        return Improved(self.nodes, self.cost, stop_reason)

    def _set(self, eclass: int, node: int) -> int:
        """Give an inactive class another node, which changes no cost."""
        self.nodes[eclass] = node
        return 0

    def _inactive_below(self, node: int) -> set[int]:
        """Return the inactive classes that a node would make active; none if one has no term."""
        seen: set[int] = set()
        stack = list(self.eg.children[node])
        while stack:
            top = stack.pop()
            if top not in self.nodes:
                return set()
            if top not in seen and not self.uses[top]:
                seen.add(top)
                stack.extend(self.eg.children[self.nodes[top]])
        return seen

    def _swap(self, eclass: int, node: int) -> int:
        """Give an active class another node; return what that adds to the cost."""
        eg, old = self.eg, self.nodes[eclass]
        self.nodes[eclass] = node
        delta = eg.costs[node] - eg.costs[old]
        for child in eg.children[node]:
            delta += self._use(child)
        for child in eg.children[old]:
            delta -= self._drop(child)
        return delta

    def _use(self, eclass: int) -> int:
        """Count one more use of a class; return the cost of all classes that become active."""
        added, stack = 0, [eclass]
        while stack:
            top = stack.pop()
            self.uses[top] += 1
            if self.uses[top] == 1:
                node = self.nodes[top]
                added += self.eg.costs[node]
                stack.extend(self.eg.children[node])
        return added

    def _drop(self, eclass: int) -> int:
        """Count one use less of a class; return the cost of all classes that fall away."""
        saved, stack = 0, [eclass]
        while stack:
            top = stack.pop()
            self.uses[top] -= 1
            if not self.uses[top]:
                node = self.nodes[top]
                saved += self.eg.costs[node]
                stack.extend(self.eg.children[node])
        return saved

    def _makes_cycle(self, eclass: int, node: int) -> bool:
        """Whether `eclass` is needed by what `node` needs, or a needed class has no term."""
        seen: set[int] = set()
        stack = list(self.eg.children[node])
        while stack:
            top = stack.pop()
            if top == eclass or top not in self.nodes:
                return True
            if top not in seen:
                seen.add(top)
                stack.extend(self.eg.children[self.nodes[top]])
        return False
