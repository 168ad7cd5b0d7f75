"""Which sets of operators one kernel can run: the shapes of block that the extended planner forms.

A block is one of
* pointwise: elementwise, movement and lookup operators, read backwards from its results;
* rows: reductions and normalisations over the same axes of the same shape, with pointwise
  operators before and after; a row's inner values live in per-thread scratch;
* a contraction or a pooling: pointwise operators on its result (an epilogue), movement and cheap
  arithmetic on its operands (a prologue);
* attention: a matrix product, normalisation of its rows, and a product with these rows, of which a
  tile at a time lives in per-thread scratch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from egraph_fusion.ir.dims import Dim, Shape, product
from egraph_fusion.ir.graph import Graph, Node
from egraph_fusion.ir.ops.operator import Kind, declared

POINTWISE = {Kind.ELEMENTWISE, Kind.MOVEMENT, Kind.LOOKUP}
ROWS = {Kind.REDUCTION, Kind.NORMALIZATION}
ANCHORS = {Kind.CONTRACTION, Kind.POOLING}

# Scalar operators worth keeping rather than computing again for each reader.
COSTLY = frozenset(
    {"Exp", "Log", "Erf", "Tanh", "Sigmoid", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh"}
    | {"Cosh", "Asinh", "Acosh", "Atanh", "Pow", "Softplus", "Mish", "Gelu", "Swish", "Elu"}
    | {"Celu", "Selu"}
)
# Beyond these a block's elements are no longer one expression that a compiler takes well.
LARGEST_EXPRESSION, DEEPEST_EXPRESSION = 400, 60
# Movement that keeps the order of elements: what a rows block may do with its results.
KEEPS_ORDER = frozenset({"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity"})
# Movement whose index map can be run backwards: what may follow a contraction.
INVERTIBLE = KEEPS_ORDER | {"Transpose"}


@dataclass(frozen=True)
class RowSpace:
    """The iteration space of a rows block: its full shape and the axes that are reduced."""

    shape: Shape
    axes: tuple[int, ...]

    @property
    def kept(self) -> Shape:
        """The shape with the reduced axes of size one."""
        return tuple(1 if i in self.axes else d for i, d in enumerate(self.shape))


def kind_of(n: Node) -> Kind | None:
    """Return the family of a node, None for an opaque one."""
    operator = declared(n)
    if operator is None:
        return None
    # With its statistics known, batch normalisation is a scale and a shift (Table 2: One-to-One).
    return Kind.ELEMENTWISE if n.op == "BatchNormalization" else operator.kind


def row_space(graph: Graph, n: Node) -> RowSpace | None:
    """Return the row space of a reduction or normalisation, None if it has no such form."""
    shape = graph.types[n.inputs[0]].shape
    if shape is None:
        return None
    axes = n.attrs.get("axes", n.attrs.get("axis"))
    if isinstance(axes, int):
        first = axes % len(shape) if shape else 0
        span = range(first, len(shape)) if n.op in SPANNING else (first,)
        return RowSpace(shape, tuple(span))
    if isinstance(axes, tuple):
        return RowSpace(shape, tuple(int(a) % len(shape) for a in axes if not isinstance(a, str)))
    return None


# Normalisations whose `axis` attribute means this axis and all after it.
SPANNING = frozenset({"LayerNormalization", "RMSNormalization"})


def refusal(graph: Graph, nodes: Sequence[Node]) -> str | None:
    """Return why `nodes` (in graph order) cannot be one kernel, or None if they can."""
    kinds = [kind_of(n) for n in nodes]
    if any(k is None for k in kinds):
        return None if len(nodes) == 1 else "an opaque operator is a block of its own"
    if len(nodes) == 1:
        return None
    if Kind.OTHER in kinds:
        return "an operator of no fusible family is a block of its own"
    if any(graph.types[o].static_shape is None for n in nodes for o in n.outputs if o):
        return "a shape is not known"
    if (reason := _expression_refusal(nodes)) is not None:
        return reason
    anchors = [n for n, k in zip(nodes, kinds, strict=True) if k in ANCHORS]
    rows = [n for n, k in zip(nodes, kinds, strict=True) if k in ROWS]
    if len(anchors) == 2 and rows:
        return _attention_refusal(graph, nodes, anchors, rows)
    if len(anchors) > 1 and (at := _last_concat(graph, nodes)) is not None:
        return _concat_refusal(graph, nodes[: at + 1], anchors)
    if len(anchors) > 1:
        return f"two Many-to-Many operators in one kernel: {anchors[0].op} and {anchors[1].op}"
    if anchors and rows:
        return f"{anchors[0].op} and {rows[0].op} reduce over different index spaces"
    if anchors:
        return _anchor_refusal(graph, nodes, anchors[0])
    if rows:
        return _rows_refusal(graph, nodes, rows)
    return _pointwise_refusal(graph, nodes)


def _expression_refusal(nodes: Sequence[Node]) -> str | None:
    """Refuse what reads back to a huge expression: each use of an inner value counts it again."""
    sizes: dict[str, int] = {}
    depths: dict[str, int] = {}
    for n in nodes:
        size = 1 + sum(sizes.get(v, 0) for v in n.inputs)
        depth = 1 + max((depths.get(v, 0) for v in n.inputs), default=0)
        if size > LARGEST_EXPRESSION or depth > DEEPEST_EXPRESSION:
            return f"{n.label()} would be an expression of {size} operators, {depth} deep"
        kept = kind_of(n) not in POINTWISE
        for o in n.outputs:
            sizes[o], depths[o] = (0, 0) if kept else (size, depth)
    return None


def _pointwise_refusal(graph: Graph, nodes: Sequence[Node]) -> str | None:
    sizes = {_size(graph, o) for o in _results(graph, nodes)}
    if len(sizes) > 1:
        return "its results have different sizes"
    return _recompute_refusal(graph, nodes, sizes.pop())


def _recompute_refusal(graph: Graph, nodes: Sequence[Node], result: Dim) -> str | None:
    """Refuse if a costly inner value would be computed once per reader instead of once."""
    made = {o for n in nodes for o in n.outputs if o}
    for n in nodes:
        if n.op in COSTLY and n.outputs[0] in made:
            own = _size(graph, n.outputs[0])
            if isinstance(own, int) and isinstance(result, int) and result > own:
                return f"{n.label()} would be computed {result // max(own, 1)} times per element"
    return None


def _rows_refusal(graph: Graph, nodes: Sequence[Node], rows: Sequence[Node]) -> str | None:
    spaces = {row_space(graph, n) for n in rows}
    if len(spaces) > 1:
        return "its reductions run over different shapes or axes"
    space = spaces.pop()
    if space is None:
        return f"{rows[0].op} has no row form"
    after = _downstream(nodes, rows)
    for n in nodes:
        if n in rows or n not in after:
            continue
        if kind_of(n) is Kind.ELEMENTWISE:
            shape = graph.types[n.outputs[0]].shape
            if shape is None or not _fits_rows(shape, space):
                return f"{n.label()} leaves the rows' index space"
        elif n.op not in KEEPS_ORDER or any(c in nodes for c in _consumers(graph, n)):
            return f"{n.label()} moves elements between rows"
    return None


def _fits_rows(shape: Shape, space: RowSpace) -> bool:
    squeezed = tuple(d for i, d in enumerate(space.shape) if i not in space.axes)
    return shape in {space.shape, space.kept, squeezed}


def _anchor_refusal(graph: Graph, nodes: Sequence[Node], anchor: Node) -> str | None:
    after = _downstream(nodes, [anchor])
    before = [n for n in nodes if n is not anchor and n not in after]
    upstream = _upstream(graph, nodes, anchor)
    size = _size(graph, anchor.outputs[0])
    for n in before:
        feeds_anchor = n in upstream
        if feeds_anchor and kind_of(anchor) is Kind.POOLING:
            return f"{n.label()} would be computed once per window of {anchor.op}"
        if feeds_anchor and (reason := _prologue_refusal(graph, n, anchor)) is not None:
            return reason
    for n in after:
        if n is anchor:
            continue
        if kind_of(n) is Kind.ELEMENTWISE and _size(graph, n.outputs[0]) == size:
            continue
        if n.op in INVERTIBLE or (n.op == "Split" and anchor.op in {"MatMul", "Gemm"}):
            continue
        return f"{n.label()} after {anchor.op} has no inverse index map of the same size"
    results = set(_results(graph, nodes))
    for n in before:
        if n not in upstream and (n.op in COSTLY or results & set(n.outputs)):
            return f"{n.label()} would be computed again by every tile of {anchor.op}"
    return None


def _last_concat(graph: Graph, nodes: Sequence[Node]) -> int | None:
    """Return where the Concat is that makes the only result, through elementwise operators."""
    at = max((i for i, n in enumerate(nodes) if n.op == "Concat"), default=len(nodes))
    after = nodes[at:]
    shape = graph.types[after[0].outputs[0]].shape if after else None
    for n in after[1:]:
        if kind_of(n) is not Kind.ELEMENTWISE or graph.types[n.outputs[0]].shape != shape:
            return None
    return at if after and _results(graph, nodes) == [after[-1].outputs[0]] else None


def _concat_refusal(graph: Graph, nodes: Sequence[Node], anchors: Sequence[Node]) -> str | None:
    """Refuse unless each operand of the final Concat is one contraction's own result."""
    concat = nodes[-1]
    parts = [_upstream_of(graph, nodes, v) for v in concat.inputs]
    held = [[n for n in part if n in anchors] for part in parts]
    if any(len(found) != 1 for found in held) or len(anchors) != len(concat.inputs):
        return f"the operands of {concat.label()} are not made by one contraction each"
    for value, part, (anchor,) in zip(concat.inputs, parts, held, strict=True):
        if kind_of(anchor) is not Kind.CONTRACTION or len(graph.consumers[value]) > 1:
            return f"{value!r} has other readers than {concat.label()}"
        if (reason := _anchor_refusal(graph, part, anchor)) is not None:
            return reason
    if sum(map(len, parts)) != len(nodes) - 1:
        return f"the operands of {concat.label()} share what makes them"
    return None


def _upstream_of(graph: Graph, nodes: Sequence[Node], value: str) -> list[Node]:
    """Return the nodes that make `value`, in graph order."""
    wanted = {value}
    found: list[Node] = []
    for n in reversed(nodes):
        if wanted & set(n.outputs):
            found.append(n)
            wanted |= set(n.reads)
    return found[::-1]


def _attention_refusal(
    graph: Graph, nodes: Sequence[Node], anchors: Sequence[Node], rows: Sequence[Node]
) -> str | None:
    """Refuse unless rows of the first product feed the second, whole and to it alone."""
    first, second = anchors
    if first.op != "MatMul" or second.op != "MatMul":
        return f"two Many-to-Many operators in one kernel: {first.op} and {second.op}"
    head = nodes[: nodes.index(second)]
    scores = _downstream(head, [first])
    operands = _upstream(graph, head, first)
    if any(n not in scores for n in rows) or any(n not in (*scores, *operands) for n in head):
        return f"something beside {first.label()} and {second.label()} would join them"
    reasons = (_prologue_refusal(graph, n, first) for n in operands)
    if (reason := next((r for r in reasons if r is not None), None)) is not None:
        return reason
    space = {row_space(graph, n) for n in rows}
    shape = graph.types[first.outputs[0]].shape
    if shape is None or space != {RowSpace(shape, (len(shape) - 1,))}:
        return f"{rows[0].label()} does not reduce the rows of {first.label()}"
    readers = {id(c) for n in scores for c in _consumers(graph, n)}
    inner = _values(scores)
    seen = readers - {id(n) for n in nodes} or inner & set(graph.outputs)
    if seen or not set(second.inputs[:1]) & inner:
        return f"what lies between {first.label()} and {second.label()} has other readers"
    tail = [second, *nodes[nodes.index(second) + 1 :]]
    return _anchor_refusal(graph, tail, second)


def _values(nodes: Sequence[Node]) -> set[str]:
    return {o for n in nodes for o in n.outputs if o}


def _prologue_refusal(graph: Graph, n: Node, anchor: Node) -> str | None:
    if len(graph.consumers.get(n.outputs[0], ())) > 1 or n.outputs[0] in graph.outputs:
        return f"{n.label()} has another reader, and {anchor.op} would compute it again"
    if n.op == "Transpose" or n.op in KEEPS_ORDER:
        return None if anchor.op in {"MatMul", "Gemm"} else f"{anchor.op} wants its input in place"
    if kind_of(n) is Kind.ELEMENTWISE and n.op not in COSTLY and _pointlike(graph, anchor):
        return None
    return f"{n.label()} would be computed once per tile of {anchor.op}"


def _pointlike(graph: Graph, anchor: Node) -> bool:
    """Whether each operand element is read by one tile row: MatMul, or a 1 x 1 convolution."""
    if anchor.op in {"MatMul", "Gemm"}:
        return True
    weight = graph.types[anchor.inputs[1]].shape or (0,)
    ones = all(d == 1 for d in weight[2:])
    return anchor.op == "Conv" and ones and anchor.attrs.get("group", 1) == 1


def _downstream(nodes: Sequence[Node], roots: Sequence[Node]) -> list[Node]:
    reached = {o for r in roots for o in r.outputs if o}
    found = list(roots)
    for n in nodes:
        if n not in found and reached & set(n.reads):
            found.append(n)
            reached |= {o for o in n.outputs if o}
    return found


def _upstream(graph: Graph, nodes: Sequence[Node], root: Node) -> list[Node]:
    wanted = set(root.reads)
    found: list[Node] = []
    for n in reversed(nodes):
        if n is not root and wanted & set(n.outputs):
            found.append(n)
            wanted |= set(n.reads)
    return found


def _consumers(graph: Graph, n: Node) -> list[Node]:
    return [c for o in n.outputs for c in graph.consumers.get(o, ())]


def _results(graph: Graph, nodes: Sequence[Node]) -> list[str]:
    ids = {id(n) for n in nodes}
    return [
        o
        for n in nodes
        for o in n.outputs
        if o
        and (
            o in graph.outputs
            or not graph.consumers.get(o)
            or any(id(c) not in ids for c in graph.consumers[o])
        )
    ]


def _size(graph: Graph, value: str) -> Dim:
    shape = graph.types[value].shape
    return -1 if shape is None else product(shape)
