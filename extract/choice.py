"""A choice: one e-node for every e-class that the roots need, and what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from egraph_fusion.egraph.snapshot import Snapshot
from egraph_fusion.errors import OptimizeError


@dataclass(frozen=True)
class Choice:
    """What an extractor chose: `nodes` maps each reachable class to its node.

    Costs are in the producer's terms (`Snapshot.in_units`); `cost` is the exact DAG cost in the
    snapshot's integer units.  `bound` is what no choice can beat (None: unknown); `gap` is
    (cost - bound) / cost: 0 is proven optimal, None unknown.  `stop_reason` is "done", or
    "time" or "work" if the clock or a work limit ended the search.
    """

    nodes: Mapping[int, int]
    cost: int
    dag_cost: int | float
    tree_cost: int | float
    bound: int | float | None
    gap: float | None
    seconds: float
    extractor: str
    stop_reason: str = "done"

    def check(self, eg: Snapshot) -> None:
        """Raise OptimizeError if the choice is incomplete, cyclic, outside a class or mispriced."""
        for eclass, node in self.nodes.items():
            if not 0 <= node < eg.n_nodes or eg.node_class[node] != eclass:
                raise OptimizeError(f"choice for class %{eclass}: node {node} is not in the class")
        order = reachable(eg, self.nodes)
        if len(order) != len(self.nodes):
            extra = min(self.nodes.keys() - set(order))
            raise OptimizeError(f"choice has class %{extra}, which no root needs")
        found = dag_cost(eg, self.nodes, order)
        if found != self.cost or eg.in_units(found) != self.dag_cost:
            raise OptimizeError(f"choice states cost {self.cost}, its nodes cost {found}")
        if self.bound is not None and self.bound > self.dag_cost:
            raise OptimizeError(f"choice costs {self.dag_cost}, below its bound {self.bound}")

    def order(self, eg: Snapshot) -> list[int]:
        """Return the chosen classes, every class after the classes it needs."""
        return reachable(eg, self.nodes)


def make_choice(
    eg: Snapshot,
    nodes: Mapping[int, int],
    *,
    extractor: str,
    seconds: float,
    bound: int | None = None,
    stop_reason: str = "done",
) -> Choice:
    """Return the Choice of `nodes` cut down to what the roots need, priced exactly.

    `bound` is in the snapshot's units.  Raises OptimizeError if `nodes` is incomplete or cyclic.
    """
    order = reachable(eg, nodes)
    cost = dag_cost(eg, nodes, order)
    return Choice(
        nodes={c: nodes[c] for c in sorted(order)},
        cost=cost,
        dag_cost=eg.in_units(cost),
        tree_cost=eg.in_units(_tree_cost(eg, nodes, order)),
        bound=None if bound is None else eg.in_units(bound),
        gap=None if bound is None else _gap(eg, cost, bound),
        seconds=seconds,
        extractor=extractor,
        stop_reason=stop_reason,
    )


def _gap(eg: Snapshot, cost: int, bound: int) -> float:
    """Return the relative gap; 0 if cost and bound are one number in the producer's terms."""
    return 0.0 if eg.in_units(cost) == eg.in_units(bound) else (cost - bound) / cost


def reachable(eg: Snapshot, nodes: Mapping[int, int]) -> list[int]:
    """Return the classes that the roots need under `nodes`, children first.

    Raises OptimizeError if a needed class has no node or the choice has a cycle.
    """
    done: dict[int, bool] = {}  # False: on the current path
    order: list[int] = []
    stack = list(reversed(eg.roots))
    while stack:
        eclass = stack[-1]
        if eclass not in nodes:
            raise OptimizeError(f"choice is incomplete: class %{eclass} has no node")
        if eclass in done:
            stack.pop()
            if not done[eclass]:
                done[eclass] = True
                order.append(eclass)
            continue
        done[eclass] = False
        for child in eg.children[nodes[eclass]]:
            if done.get(child) is False:
                raise OptimizeError(f"choice is cyclic: class %{child} needs itself")
            if child not in done:
                stack.append(child)
    return order


def dag_cost(eg: Snapshot, nodes: Mapping[int, int], order: list[int]) -> int:
    """Return the exact cost of the chosen nodes of `order`, each counted once."""
    return sum(eg.costs[nodes[c]] for c in order)


def _tree_cost(eg: Snapshot, nodes: Mapping[int, int], order: list[int]) -> int:
    """Return the exact cost with every use of a class counted anew (may be astronomic)."""
    cost: dict[int, int] = {}
    for eclass in order:
        node = nodes[eclass]
        cost[eclass] = eg.costs[node] + sum(cost[c] for c in eg.children[node])
    return sum(cost[r] for r in eg.roots)
