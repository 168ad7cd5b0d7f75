"""An e-graph as extractors see it: immutable classes, nodes, children and exact integer costs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from egraph_fusion.errors import OptimizeError

Ints = npt.NDArray[np.int64]


class Node(NamedTuple):
    """One e-node to be put into a snapshot; `payload` is the producer's own key (-1: none)."""

    eclass: int
    children: tuple[int, ...]
    cost: int
    op: str
    payload: int = -1


@dataclass(frozen=True, eq=False)
class Snapshot:
    """An immutable e-graph: nodes are numbered 0.., classes 0..n_classes-1.

    The children of node `n` are `child_classes[child_offsets[n]:child_offsets[n + 1]]` (class
    ids).  `costs` are exact integers; one cost unit is worth `unit` in the terms of whoever
    priced the nodes (1 unless fractional costs were scaled up to integers).
    """

    n_classes: int
    node_class: Ints
    child_offsets: Ints
    child_classes: Ints
    costs: tuple[int, ...]
    ops: tuple[str, ...]
    payloads: tuple[int, ...]
    roots: tuple[int, ...]
    unit: Fraction = Fraction(1)

    @staticmethod
    def build(nodes: Iterable[Node], roots: Iterable[int], unit: Fraction | int = 1) -> Snapshot:
        """Return the checked snapshot of `nodes`; class ids are dense integers from 0.

        Raises OptimizeError if the result would be malformed (see `check`).
        """
        listed = tuple(nodes)
        wanted = tuple(roots)
        offsets = np.zeros(len(listed) + 1, np.int64)
        offsets[1:] = np.cumsum([len(n.children) for n in listed])
        classes = [n.eclass for n in listed]
        flat = [c for n in listed for c in n.children]
        snapshot = Snapshot(
            n_classes=1 + max((*classes, *flat, *wanted), default=-1),
            node_class=_frozen(classes),
            child_offsets=_frozen(offsets),
            child_classes=_frozen(flat),
            costs=tuple(n.cost for n in listed),
            ops=tuple(n.op for n in listed),
            payloads=tuple(n.payload for n in listed),
            roots=wanted,
            unit=Fraction(unit),
        )
        snapshot.check()
        return snapshot

    @property
    def n_nodes(self) -> int:
        """Number of e-nodes."""
        return len(self.costs)

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """The child classes of every node, in operand order and with repetitions."""
        flat, ends = self.child_classes.tolist(), self.child_offsets.tolist()
        return tuple(tuple(flat[a:b]) for a, b in pairwise(ends))

    @cached_property
    def class_nodes(self) -> tuple[tuple[int, ...], ...]:
        """The nodes of every class, ascending."""
        members = [list[int]() for _ in range(self.n_classes)]
        owners: list[int] = self.node_class.tolist()
        for node, eclass in enumerate(owners):
            members[eclass].append(node)
        return tuple(map(tuple, members))

    @cached_property
    def parents(self) -> tuple[tuple[int, ...], ...]:
        """For every class the nodes that have it as a child, ascending, each once."""
        users = [list[int]() for _ in range(self.n_classes)]
        for node, children in enumerate(self.children):
            for child in sorted(set(children)):
                users[child].append(node)
        return tuple(map(tuple, users))

    def check(self) -> None:
        """Raise OptimizeError if sizes disagree, an id is out of range or a cost is negative."""
        n = self.n_nodes
        sizes = {
            "node_class": len(self.node_class),
            "child_offsets": len(self.child_offsets) - 1,
            "ops": len(self.ops),
            "payloads": len(self.payloads),
        }
        for name, size in sizes.items():
            _require(size == n, f"{name} describes {size} nodes, expected {n}")
        _require(self.unit > 0, f"the cost unit is {self.unit}, expected a positive number")
        ends = self.child_offsets
        rising = ends[0] == 0 and bool((np.diff(ends) >= 0).all())
        _require(
            rising and ends[-1] == len(self.child_classes),
            "child_offsets must rise from 0 to the number of children",
        )
        for what, ids in (
            ("a node's class", self.node_class),
            ("a child class", self.child_classes),
            ("a root", np.array(self.roots, np.int64)),
        ):
            wrong = ids[(ids < 0) | (ids >= self.n_classes)]
            _require(not len(wrong), f"{what} is {wrong[:1]}, expected 0..{self.n_classes - 1}")
        for node, cost in enumerate(self.costs):
            _require(cost >= 0, f"node {node} ({self.ops[node]}) costs {cost}, expected >= 0")

    def in_units(self, cost: int) -> int | float:
        """Return a cost in the producer's own terms: an int if the unit is whole, else a float."""
        value = cost * self.unit
        if self.unit.denominator == 1:
            return value.numerator
        try:
            return float(value)
        except OverflowError:
            return float("inf")

    def __str__(self) -> str:
        """Print one line per node, grouped by class: `%2 = Add %0 %1 ; cost 12 node 5`."""
        lines = ["roots " + " ".join(f"%{r}" for r in self.roots)]
        if self.unit != 1:
            lines.append(f"unit {self.unit}")
        for eclass, members in enumerate(self.class_nodes):
            lines.extend(f"%{eclass} = {self.node_text(n)}" for n in members)
        return "\n".join(lines)

    def node_text(self, node: int) -> str:
        """Return `Add %0 %1 ; cost 12 node 5`, with ` payload 7` if the producer gave one."""
        parts = [self.ops[node], *(f"%{c}" for c in self.children[node])]
        payload = self.payloads[node]
        tail = "" if payload < 0 else f" payload {payload}"
        return f"{' '.join(parts)} ; cost {self.costs[node]} node {node}{tail}"


def _require(holds: object, message: str) -> None:
    if not holds:
        raise OptimizeError(f"malformed e-graph snapshot: {message}")


def _frozen(values: Ints | list[int]) -> Ints:
    array = np.array(values, np.int64)
    array.setflags(write=False)
    return array
