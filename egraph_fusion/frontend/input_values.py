"""Inputs whose values decide shapes, axes and the like: which they are, and fixing their values."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from egraph_fusion.frontend.exporter import export
from egraph_fusion.frontend.importer import load
from egraph_fusion.ir.graph import Array, Graph, Node
from egraph_fusion.ir.tensors import DType, TensorType

MAX_ELEMENTS = 64
"""Inputs with more elements are data, not parameters."""
_MAX_STEPS = 64
_SHAPES = ("Shape", "Size")
_REDUCTIONS = (
    "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean",
    "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare",
)  # fmt: skip

VALUE_OPERANDS: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {
        **dict.fromkeys(_REDUCTIONS, (1,)),
        "AffineGrid": (1,),
        "BlackmanWindow": (0,),
        "CenterCropPad": (1,),
        "ConstantOfShape": (0,),
        "CumProd": (1,),
        "CumSum": (1,),
        "Dropout": (1, 2),
        "Expand": (1,),
        "HammingWindow": (0,),
        "HannWindow": (0,),
        "If": (0,),
        "OneHot": (1,),
        "Pad": (1, 3),
        "Range": (0, 1, 2),
        "Reshape": (1,),
        "Resize": (1, 2, 3),
        "Slice": (1, 2, 3, 4),
        "Split": (1,),
        "Squeeze": (1,),
        "Tile": (1,),
        "TopK": (1,),
        "Trilu": (1,),
        "Unsqueeze": (1,),
        "Upsample": (1,),
    }
)
"""Operands, by position, that become attributes: they must be known when a model is compiled."""


def value_inputs(graph: Graph) -> tuple[str, ...]:
    """Return the inputs whose values would give some opaque node of `graph` a normal form.

    They hold at most `MAX_ELEMENTS` numbers each, as far as their size is known, and reach such a
    node only through steps that can be computed beforehand.
    """
    found: set[str] = set()
    for n in graph.nodes:
        for i in VALUE_OPERANDS.get(n.op, ()) if n.opaque else ():
            if i < len(n.inputs) and n.inputs[i]:
                found |= _sources(graph, n.inputs[i])
    return tuple(v for v in graph.inputs if v in found)


def fix_input_values(graph: Graph, values: Mapping[str, Array]) -> Graph:
    """Return `graph` read again for given values of some inputs, which it keeps as inputs.

    The result is right for these values only.  Raises ModelError for a name that is no input.
    """
    return load(export(graph), values)


def _sources(graph: Graph, value: str) -> set[str]:
    """Return the inputs that `value` is computed from; none if it depends on data too."""
    pending, seen = [value], {value}
    found: set[str] = set()
    while pending:
        v = pending.pop()
        n = graph.producers.get(v)
        if len(seen) > _MAX_STEPS or (n is None and not _is_small(graph.types[v])):
            return set()
        if n is None and v in graph.inputs:
            found.add(v)
        if n is not None and not _computable(n):
            return set()
        steps = () if n is None or n.op in _SHAPES else n.reads
        pending += [s for s in steps if s not in seen]
        seen.update(steps)
    return found


def _computable(n: Node) -> bool:
    return not n.opaque or n.op in VALUE_OPERANDS


def _is_small(kind: TensorType) -> bool:
    if not (kind.dtype.is_float or kind.dtype.is_integer or kind.dtype is DType.BOOL):
        return False
    if isinstance(kind.size, int):
        return kind.size <= MAX_ELEMENTS
    return kind.shape is None or len(kind.shape) <= 1
