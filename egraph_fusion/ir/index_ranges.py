"""The indices that operators read at: what constants may hold, and what inputs may hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from egraph_fusion.errors import EgraphFusionError, ModelError
from egraph_fusion.ir.graph import Graph, Node
from egraph_fusion.ir.tensors import DType

INDEX_CARRIERS = (
    "Cast", "Expand", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze",
)  # fmt: skip
"""Operators that hand all elements of their first operand on unchanged, but for narrow casts."""
_GATHERS = ("Gather", "GatherElements", "GatherND")
_HELD_BY = {
    DType.INT8: (DType.INT16, DType.INT32, DType.INT64),
    DType.INT16: (DType.INT32, DType.INT64),
    DType.INT32: (DType.INT64,),
    DType.UINT8: (DType.UINT16, DType.UINT32, DType.UINT64, DType.INT16, DType.INT32, DType.INT64),
    DType.UINT16: (DType.UINT32, DType.UINT64, DType.INT32, DType.INT64),
    DType.UINT32: (DType.UINT64, DType.INT64),
}
"""The other integers that hold every value of each."""


@dataclass(frozen=True, slots=True)
class IndexRange:
    """What an input may hold: each element, read as `dtype`, is from `low` to `high`.

    `node` is the label of the node that reads elements at these indices.
    """

    input: str
    dtype: DType
    low: int
    high: int
    node: str


_Carried = tuple[tuple[str, DType], ...]
"""Inputs that a value holds, each with the narrowest integers that they went through."""


def check_constant_indices(
    graph: Graph, error: type[EgraphFusionError] = ModelError, holder: str = "constant"
) -> None:
    """Raise `error` if a node of `graph` reads at an index that lies outside.

    Only indices that are constants can be seen; `holder` is what the message calls them.
    """
    for n in graph.nodes:
        array = graph.constant(n.inputs[1]) if _gathers(n) else None
        for column, size in enumerate(_sizes(graph, n) if array is not None else ()):
            assert array is not None
            at = array[..., column] if n.op == "GatherND" else array
            if size is None or not at.size:
                continue
            low, high = int(at.min()), int(at.max())
            if low < -size or high >= size:
                wrong = low if low < -size else high
                raise error(
                    f"node {n.label()} reads at {wrong}, which the {holder} {n.inputs[1]!r} holds: "
                    f"{_expected(size)}"
                )


def outside(found: IndexRange, value: int) -> str:
    """Return the message for an input that holds `value`."""
    return (
        f"input {found.input!r}: {value} is no index for node {found.node}: "
        f"{_expected(found.high + 1)}"
    )


def _expected(size: int) -> str:
    if not size:
        return "the axis is empty, so expected no index"
    return f"the axis has {size} elements, so expected {-size} to {size - 1}"


def input_index_ranges(graph: Graph) -> tuple[IndexRange, ...]:
    """Return what inputs may hold that nodes of `graph` use as indices.

    Followed are operators that hand every element on, so that one outside is one that the node
    reads at. Nodes in the bodies of control flow may never run and bound nothing.
    """
    carried: dict[str, _Carried] = {
        v: ((v, graph.types[v].dtype),) for v in graph.inputs if graph.types[v].dtype.is_integer
    }
    found: dict[tuple[str, DType], IndexRange] = {}
    for n in graph.nodes:
        if handed := _handed_on(graph, n, carried):
            carried[n.outputs[0]] = handed
        known = [s for s in _sizes(graph, n) if s is not None]
        if not known or len(known) < len(_sizes(graph, n)):
            continue
        for name, dtype in carried.get(n.inputs[1], ()):
            own = IndexRange(name, dtype, -max(known), max(known) - 1, n.label())
            former = found.setdefault((name, dtype), own)
            found[name, dtype] = min(former, own, key=lambda r: r.high)
    return tuple(found.values())


def _gathers(n: Node) -> bool:
    return n.op in _GATHERS and not n.opaque


def _sizes(graph: Graph, n: Node) -> tuple[int | None, ...]:
    """Return the sizes of the axes that `n` reads at run-time indices; None where not fixed."""
    if not _gathers(n):
        return ()
    shape, at = (graph.types[v].shape for v in n.inputs[:2])
    if shape is None or at is None:
        return ()
    axis, batch = n.attrs.get("axis", 0), n.attrs.get("batch_dims", 0)
    assert isinstance(axis, int)
    assert isinstance(batch, int)
    dims = shape[batch : batch + _depth(at)] if n.op == "GatherND" else (shape[axis],)
    return tuple(d if isinstance(d, int) else None for d in dims)


def _depth(indices: tuple[object, ...]) -> int:
    last = indices[-1]
    assert isinstance(last, int)
    return last


def _handed_on(graph: Graph, n: Node, carried: Mapping[str, _Carried]) -> _Carried:
    """Return the inputs all of whose elements the first result of `n` holds."""
    if n.op not in INDEX_CARRIERS and n.op != "Concat":
        return ()
    kind = graph.types[n.outputs[0]]
    if not isinstance(kind.size, int) or not kind.size or not kind.dtype.is_integer:
        return ()
    operands = n.inputs if n.op == "Concat" else n.inputs[:1]
    sources = dict.fromkeys(s for v in operands for s in carried.get(v, ()))
    return tuple(_as(graph, sources, kind.dtype))


def _as(
    graph: Graph, sources: Mapping[tuple[str, DType], None], dtype: DType
) -> Iterator[tuple[str, DType]]:
    """Yield what is left of `sources` when read as `dtype`: nothing of what is narrowed twice."""
    for name, former in sources:
        if dtype is former or dtype in _HELD_BY.get(former, ()):
            yield name, former
        elif former is graph.types[name].dtype:
            yield name, dtype
