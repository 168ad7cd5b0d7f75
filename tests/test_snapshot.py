"""A snapshot checks itself, cannot be changed, and prints as text."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from egraph_fusion.egraph.snapshot import Node, Snapshot
from egraph_fusion.errors import OptimizeError


def small() -> Snapshot:
    """X + x, or 2 * x; the second came as the producer's record 9."""
    return Snapshot.build(
        [Node(0, (), 0, "x"), Node(1, (0, 0), 4, "Add"), Node(1, (0,), 4, "Double", 9)], [1]
    )


def test_prints_every_node_by_class() -> None:
    assert str(small()) == "\n".join(
        [
            "roots %1",
            "%0 = x ; cost 0 node 0",
            "%1 = Add %0 %0 ; cost 4 node 1",
            "%1 = Double %0 ; cost 4 node 2 payload 9",
        ]
    )


def test_indexes_members_and_parents() -> None:
    eg = small()
    assert eg.class_nodes == ((0,), (1, 2))
    assert eg.parents == ((1, 2), ())
    assert eg.children == ((), (0, 0), (0,))


def test_arrays_are_read_only() -> None:
    with pytest.raises(ValueError, match="read-only"):
        small().node_class[0] = 1


def test_an_empty_egraph_is_valid() -> None:
    assert Snapshot.build([], []).n_classes == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"roots": (2,)}, "a root is"),
        ({"n_classes": 1}, "a node's class is"),
        ({"costs": (0, -1, 0)}, "costs -1, expected >= 0"),
        ({"ops": ("x",)}, "ops describes 1 nodes, expected 3"),
        ({"child_offsets": np.array([0, 2, 1, 3])}, "must rise"),
        ({"unit": 0}, "the cost unit is 0"),
    ],
)
def test_malformed_snapshots_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(OptimizeError, match=message):
        replace(small(), **changes).check()  # type: ignore[arg-type]
