"""A graph as e-graph facts: one term per node, and what is known of every value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from egraph_fusion.egraph.demand import number_text
from egraph_fusion.egraph.interning import Interner
from egraph_fusion.egraph.language import OPAQUE, Constructor, attr_ids, expressible
from egraph_fusion.egraph.range_check import Values, is_calm
from egraph_fusion.egraph.ranges import Facts, graph_facts
from egraph_fusion.egraph.regrouping import open_values
from egraph_fusion.errors import REFUSALS
from egraph_fusion.ir.graph import Graph, Node
from egraph_fusion.ir.ops import declared
from egraph_fusion.ir.tensors import DType, TensorType


@dataclass(frozen=True, slots=True)
class Term:
    """How one node of the graph is written: `value` numbers the term itself.

    `operands` number the values it reads (-1: an absent one).
    """

    node: int
    value: int
    constructor: Constructor
    operands: tuple[int, ...]
    attrs: tuple[int, ...]


@dataclass(frozen=True)
class Loaded:
    """A graph as commands.  `values` numbers its values; bundles have numbers after those.

    `kinds` says what kinds of values it holds.
    """

    graph: Graph
    interner: Interner
    values: dict[str, int]
    terms: tuple[Term, ...]
    commands: tuple[str, ...]
    kinds: Values

    @property
    def constructors(self) -> frozenset[Constructor]:
        """The constructors that the graph uses."""
        return frozenset(t.constructor for t in self.terms)


def load_graph(
    graph: Graph, assumed: Mapping[str, Facts] | None = None, stepwise: bool = False
) -> Loaded:
    """Return `graph` as e-graph commands; `assumed` says what is claimed of its inputs.

    `stepwise` says that constants are computed operator by operator, not rounded once.
    """
    interner = Interner()
    values = _numbered(graph)
    terms = tuple(_terms(graph, interner, values))
    facts = graph_facts(graph, assumed, stepwise)
    commands = [
        *(f"(set (val {values[v]}) (Input {values[v]}))" for v in graph.inputs),
        *_constants(graph, values),
        *(line for t in terms for line in _term_commands(graph, values, t)),
        *(line for v, k in values.items() for line in _facts(graph, interner, v, k, facts[v])),
        *_opaque_facts(graph, values, terms),
        *(f"(open (val {values[v]}))" for v in open_values(graph)),
    ]
    known = [(v, facts[v]) for v in values]
    kinds = Values(
        wild=any(f.tame and not is_calm(f.interval, graph.types[v].dtype) for v, f in known),
        half=any(graph.types[v].dtype is DType.FLOAT16 for v in values),
    )
    return Loaded(graph, interner, values, terms, tuple(commands), kinds)


def _numbered(graph: Graph) -> dict[str, int]:
    read = {v for n in graph.nodes for v in n.reads} | set(graph.outputs)
    names = [*graph.inputs, *(v for v in graph.constants if v in read)]
    names += [o for n in graph.nodes for o in n.outputs if o]
    return {v: i for i, v in enumerate(dict.fromkeys(names))}


def _constants(graph: Graph, values: dict[str, int]) -> Iterator[str]:
    """Equal constants are one term: the first one's."""
    first: dict[str, int] = {}
    for v, c in graph.constants.items():
        if v in values:
            yield f"(set (val {values[v]}) (Const {first.setdefault(c.id, values[v])}))"


def _terms(graph: Graph, interner: Interner, values: dict[str, int]) -> Iterator[Term]:
    bundles = len(values)
    for i, n in graph.walk():
        outputs = _trimmed(n.outputs)
        if not participates(graph, n):
            operands = tuple(values[v] for v in n.reads)
            c = Constructor(OPAQUE, len(operands), max(len(outputs), 1))
            attrs: tuple[int, ...] = (i,)
        else:
            operator = declared(n)
            assert operator is not None
            plain = operator.outputs is not None and len(outputs) == 1
            operands = tuple(values[v] if v else -1 for v in _trimmed(n.inputs))
            c = Constructor(n.op, len(operands), 0 if plain else len(outputs))
            attrs = tuple(attr_ids(interner, c, dict(n.attrs)))
        if c.outputs:
            yield Term(i, bundles, c, operands, attrs)
            bundles += 1
        else:
            yield Term(i, values[outputs[0]], c, operands, attrs)


def _trimmed(names: tuple[str, ...]) -> tuple[str, ...]:
    count = len(names)
    while count and not names[count - 1]:
        count -= 1
    return names[:count]


def participates(graph: Graph, n: Node) -> bool:
    """Whether rules may look into a node: its declaration types it exactly as the graph does."""
    operator = declared(n)
    if operator is None or n.captures or not expressible(n.op) or not _trimmed(n.outputs):
        return False
    types = graph.in_types(n)
    if any(t is not None and t.shape is None for t in types):
        return False
    try:
        found = operator.infer(types[: len(_trimmed(n.inputs))], n.attrs)
    except REFUSALS:
        return False
    named = zip(n.outputs, found, strict=False)
    return len(found) >= len(_trimmed(n.outputs)) and all(
        t.shape is not None and graph.types[o] == t for o, t in named if o
    )


def _term_commands(graph: Graph, values: dict[str, int], t: Term) -> Iterator[str]:
    operands = ["(Absent)" if k < 0 else f"(val {k})" for k in t.operands]
    term = t.constructor.term(operands, t.attrs)
    yield f"(set (val {t.value}) {term})"
    yield f"(set (by-{term[1:]} -1)"
    if t.constructor.outputs:
        for i, o in enumerate(graph.nodes[t.node].outputs):
            if o:
                yield f"(set (val {values[o]}) (Out (val {t.value}) {i}))"


def _facts(graph: Graph, interner: Interner, name: str, key: int, f: Facts) -> Iterator[str]:
    kind: TensorType = graph.types[name]
    term = f"(val {key})"
    if kind.shape is not None:
        yield f"(set (ty {term}) {interner.types((kind,))})"
        low, high = f.interval
        yield f"(set (lo {term}) {number_text(low)})"
        yield f"(set (hi {term}) {number_text(high)})"
    if f.constant:
        yield f"(constant {term})"
    else:
        yield f"(varies {term})"
    if f.tame:
        yield f"(tame {term})"
    yield f"(set (calm {term}) {int(is_calm(f.interval, kind.dtype))})"
    if f.nonzero:
        yield f"(nonzero {term})"
    if f.integer:
        yield f"(integer {term})"
    if f.splat is not None:
        yield f"(set (splat {term}) {interner.number(f.splat)})"


def _opaque_facts(graph: Graph, values: dict[str, int], terms: tuple[Term, ...]) -> Iterator[str]:
    for t in terms:
        if t.constructor.op == OPAQUE:
            outputs = graph.nodes[t.node].outputs
            yield from (f"(tame (val {values[o]}))" for o in outputs if o)
