"""A growing partition of a graph's nodes that stays acyclic as a graph of groups."""

from __future__ import annotations

from collections.abc import Iterable

from egraph_fusion.ir.graph import Graph, Node


class Grouping:
    """Nodes by position in `graph.nodes`, each in a group; `convex` says which groups may merge."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.group = list(range(len(graph.nodes)))
        self.members: dict[int, list[int]] = {i: [i] for i in self.group}
        makes = {o: i for i, n in graph.walk() for o in n.outputs if o}
        self.sources: list[tuple[int, ...]] = [
            tuple(dict.fromkeys(makes[v] for v in n.reads if v in makes)) for n in graph.nodes
        ]
        self.users: list[list[int]] = [[] for _ in graph.nodes]
        for i, sources in enumerate(self.sources):
            for s in sources:
                self.users[s].append(i)

    def nodes(self, group: int) -> list[Node]:
        """Return a group's nodes in graph order."""
        return [self.graph.nodes[i] for i in sorted(self.members[group])]

    def groups(self) -> list[list[Node]]:
        """Return all groups."""
        return [self.nodes(g) for g in self.members]

    def predecessors(self, group: int) -> list[int]:
        """Return the groups whose values `group` reads, in graph order."""
        found = {self.group[s] for i in self.members[group] for s in self.sources[i]}
        return sorted(found - {group}, key=lambda g: min(self.members[g]))

    def successors(self, group: int) -> list[int]:
        """Return the groups that read a value of `group`, in graph order."""
        found = {self.group[u] for i in self.members[group] for u in self.users[i]}
        return sorted(found - {group}, key=lambda g: min(self.members[g]))

    def convex(self, merged: Iterable[int]) -> bool:
        """Whether no path leaves the union of the groups `merged` and comes back to it."""
        inside = set(merged)
        last = max(max(self.members[g]) for g in inside)
        start = [s for g in inside for s in self.successors(g) if s not in inside]
        seen: set[int] = set()
        while start:
            g = start.pop()
            if g in seen or min(self.members[g]) > last:
                continue
            seen.add(g)
            for s in self.successors(g):
                if s in inside:
                    return False
                start.append(s)
        return True

    def merge(self, a: int, b: int) -> int:
        """Merge group `b` into group `a` and return the group that is left."""
        for i in self.members[b]:
            self.group[i] = a
        self.members[a] += self.members.pop(b)
        return a
