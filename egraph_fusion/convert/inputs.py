"""Seeded random inputs that a model accepts: what checks, benchmarks and the demo feed it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egraph_fusion.ir.graph import Graph
from egraph_fusion.ir.tensors import TensorType

# Indices are drawn below the smallest table that they could address through such an operator.
_LOOKUPS = frozenset({"Gather", "GatherElements", "GatherND"})
# What hands indices on unchanged.
_CARRIERS = frozenset({"Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"})


def random_inputs(
    graph: Graph, seed: int = 0, shapes: Mapping[str, tuple[int, ...]] | None = None
) -> dict[str, NDArray[Any]]:
    """Return one array per graph input, the same for the same seed.

    Floats are standard normal, bools fair coins; integers that index a table lie within it, other
    integers are 0 or 1 (masks).  A symbolic dim is 1 unless `shapes` says more.
    """
    rng = np.random.default_rng(seed)
    bounds = _index_bounds(graph)
    given = shapes or {}
    return {v: _draw(graph.types[v], given.get(v), bounds.get(v, 2), rng) for v in graph.inputs}


def _draw(
    kind: TensorType, shape: tuple[int, ...] | None, bound: int, rng: np.random.Generator
) -> NDArray[Any]:
    dims = shape or tuple(d if isinstance(d, int) else 1 for d in kind.shape or ())
    if kind.dtype.is_float:
        return rng.standard_normal(dims).astype(kind.dtype.numpy)
    return rng.integers(0, bound, dims).astype(kind.dtype.numpy)


def _index_bounds(graph: Graph) -> dict[str, int]:
    """Return, for integer inputs that reach a lookup's indices, the size of the smallest table."""
    bounds: dict[str, int] = {}
    origin = {v: v for v in graph.inputs}
    for n in graph.nodes:
        if (
            n.op in ("Cast", "Identity", "Reshape", "Unsqueeze", "Squeeze")
            and n.inputs[0] in origin
        ):
            origin[n.outputs[0]] = origin[n.inputs[0]]
        if n.op in _LOOKUPS and len(n.inputs) > 1 and n.inputs[1] in origin:
            table = graph.types[n.inputs[0]].shape or ()
            axis = n.attrs.get("axis", 0)
            size = table[axis] if isinstance(axis, int) and axis < len(table) else 1
            if isinstance(size, int):
                source = origin[n.inputs[1]]
                bounds[source] = min(bounds.get(source, size), size)
    return bounds
