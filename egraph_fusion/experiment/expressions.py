"""Graphs of the expressions that are written with concrete tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from egraph_fusion.egraph.ranges import Facts
from egraph_fusion.errors import REFUSALS, ModelError
from egraph_fusion.experiment.leaves import Leaf
from egraph_fusion.ir.build import GraphBuilder
from egraph_fusion.ir.graph import AttrValue, Graph, frozen_attrs
from egraph_fusion.ir.ops import OPERATORS
from egraph_fusion.ir.ops.operator import normalized
from egraph_fusion.ir.tensors import DType, TensorType
from egraph_fusion.rulesets.pattern import (
    Apply,
    Attribute,
    Computed,
    Number,
    Output,
    Pattern,
    children,
)

OPSET = 21
"""The opset of graphs of expressions: what they are written in as ONNX."""


@dataclass(frozen=True)
class Expressions:
    """A graph of expressions: `values` names that of each, `leaves` the tensors they use."""

    graph: Graph
    values: tuple[str, ...]
    leaves: Mapping[str, Leaf]

    @property
    def assumed(self) -> dict[str, Facts]:
        """What is claimed of the inputs."""
        return {v: leaf.facts for v, leaf in self.leaves.items() if leaf.value is None}


def graph_of(expressions: Sequence[Pattern], name: str = "expression") -> Expressions:
    """Return the graph that computes `expressions`, whose types the registry's rules give.

    A number takes the dtype that the operator needs beside its other operands, float32 if there
    are none.  Raises ModelError, naming the part, where shapes or dtypes do not fit or a pattern
    variable stands.
    """
    build = _Build(GraphBuilder(name, OPSET))
    for p in expressions:
        build.declare_leaves(p)
        for q in distinct(p):
            if isinstance(q, Apply):
                build.outputs(q)
    values = tuple(build.value(p) for p in expressions)
    for v in dict.fromkeys(values):
        build.builder.output(v)
    return Expressions(build.builder.build(), values, build.leaves)


@dataclass
class _Build:
    """The graph so far; terms are told apart by identity first, since they may share parts."""

    builder: GraphBuilder
    leaves: dict[str, Leaf] = field(default_factory=dict[str, Leaf])
    made: dict[int, tuple[str, ...]] = field(default_factory=dict[int, tuple[str, ...]])
    nodes: dict[object, tuple[str, ...]] = field(default_factory=dict[object, tuple[str, ...]])
    kept: list[Pattern] = field(default_factory=list[Pattern])
    indexed: dict[int, int] = field(default_factory=dict[int, int])

    def declare_leaves(self, p: Pattern) -> None:
        """Name the leaves before anything else, so that no made-up name takes one of theirs."""
        for q in distinct(p):
            if isinstance(q, Output):
                self.indexed[id(q.of)] = max(self.indexed.get(id(q.of), 0), q.index)
            if isinstance(q, Leaf) and q.name and self.leaves.setdefault(q.name, q) != q:
                other = self.leaves[q.name]
                raise ModelError(
                    f"two tensors are called {q.name!r}: {_claims(other)} and {_claims(q)}"
                )
        for leaf in self.leaves.values():
            if leaf.name not in self.builder.types:
                _declare(self.builder, leaf)

    def value(self, p: Pattern) -> str:
        """Return the value that `p` is."""
        match p:
            case Leaf(name):
                return name
            case Apply():
                return self.outputs(p)[0]
            case Output(of, index) if isinstance(of, Apply):
                found = self.outputs(of)
                if not 0 <= index < len(found):
                    raise ModelError(f"{shown(of)} has {len(found)} outputs, none number {index}")
                return found[index]
            case Number(number):
                return self.builder.const(np.asarray(number, np.float32))
            case _:
                raise ModelError(
                    f"{p} is a variable of patterns; an expression needs concrete tensors, "
                    f'e.g. tensor("{p}", (8, 16))'
                )

    def outputs(self, p: Apply) -> tuple[str, ...]:
        """Return the values of an operator's outputs."""
        if id(p) not in self.made:
            self.made[id(p)] = self._applied(p)
            self.kept.append(p)  # an identity stays taken
        return self.made[id(p)]

    def _applied(self, p: Apply) -> tuple[str, ...]:
        if p.op not in OPERATORS:
            raise ModelError(f"{p.op} is a variable of operators; an expression needs an operator")
        attrs = _attributes(p)
        values = [None if isinstance(a, Number) else self.value(a) for a in p.args]
        types = [self.builder.type_of(v) if v else None for v in values]
        operands = [
            self._number(p, i, types, attrs) if v is None else v for i, v in enumerate(values)
        ]
        count = self._count(p, operands, attrs)
        key = (p.op, tuple(operands), repr(sorted(attrs.items())), count)
        if key not in self.nodes:
            self.nodes[key] = self._appended(p, operands, count, attrs)
        return self.nodes[key]

    def _appended(
        self, p: Apply, operands: Sequence[str], count: int, attrs: Mapping[str, AttrValue]
    ) -> tuple[str, ...]:
        try:
            return self.builder.node(p.op, operands, count, **attrs)
        except ModelError as e:
            raise ModelError(f"{shown(p)} cannot be: {e}") from e

    def _count(self, p: Apply, operands: Sequence[str], attrs: Mapping[str, AttrValue]) -> int:
        if OPERATORS[p.op].outputs is not None:
            return 1 + self.indexed.get(id(p), 0)
        types = [self.builder.type_of(v) if v else None for v in operands]
        try:
            filled = frozen_attrs(normalized(OPERATORS[p.op], types, attrs))
            return len(OPERATORS[p.op].infer(types, filled))
        except REFUSALS:
            return 1  # the builder says what is wrong

    def _number(
        self,
        p: Apply,
        place: int,
        types: Sequence[TensorType | None],
        attrs: Mapping[str, AttrValue],
    ) -> str:
        number = p.args[place]
        assert isinstance(number, Number)
        near = [t.dtype for t in types if t is not None]
        candidates = [*dict.fromkeys(near), *([] if near else [DType.FLOAT32])]
        dtype = next((d for d in candidates if _accepts(p, types, attrs, d)), candidates[0])
        array = np.asarray(number.value).astype(dtype.numpy)
        if not dtype.is_float and float(array) != number.value:
            raise ModelError(f"{shown(p)}: {number.value} is no {dtype.value}")
        return self.builder.const(array)


def _accepts(
    p: Apply, types: Sequence[TensorType | None], attrs: Mapping[str, AttrValue], dtype: DType
) -> bool:
    """Whether the operator accepts its operands with numbers of this dtype."""
    number = TensorType(dtype, ())
    pairs = zip(p.args, types, strict=True)
    filled = [number if isinstance(a, Number) else t for a, t in pairs]
    try:
        OPERATORS[p.op].infer(filled, frozen_attrs(normalized(OPERATORS[p.op], filled, attrs)))
    except REFUSALS:
        return False
    return True


def _declare(builder: GraphBuilder, leaf: Leaf) -> None:
    if leaf.value is None:
        builder.add_input(leaf.name, leaf.type)
    else:
        builder.const(leaf.value.array, leaf.name)


def _claims(leaf: Leaf) -> str:
    if leaf.value is not None:
        return f"a constant {leaf.type}"
    return f"{leaf.type}{' of integers' * leaf.integer} in [{leaf.lo}, {leaf.hi}]"


def _attributes(p: Apply) -> dict[str, AttrValue]:
    variables = [t for _, t in p.attrs if isinstance(t, Attribute | Computed)]
    if p.rest is not None or variables:
        shown_as = p.rest if p.rest is not None else variables[0]
        raise ModelError(f"{p.op}: {shown_as} is a variable; an expression needs values")
    return {k: v for k, v in p.attrs if not isinstance(v, Attribute | Computed)}


def distinct(p: Pattern) -> Iterator[Pattern]:
    """Yield a term and its parts, operands first, each object once."""
    seen: set[int] = set()
    stack = [(p, False)]
    while stack:
        q, done = stack.pop()
        if done:
            yield q
        elif id(q) not in seen:
            seen.add(id(q))
            stack.append((q, True))
            stack.extend((c, False) for c in reversed(children(q)))


def shown(p: Pattern, limit: int = 160) -> str:
    """Return the text of a term, its inner parts left out where it would grow long."""
    texts = (str(_cut(p, depth)) for depth in (8, 6, 5, 4, 3, 2))
    fitting = next((t for t in texts if len(t) <= limit), None)
    return f"{str(_cut(p, 2))[: limit - 1]}…" if fitting is None else fitting


def _cut(p: Pattern, depth: int) -> Pattern:
    if not children(p):
        return p
    if not depth:
        return _REST
    match p:
        case Output(of, index):
            return Output(_cut(of, depth), index)
        case Apply():
            return replace(p, args=tuple(_cut(a, depth - 1) for a in p.args))
        case _:
            return p


_REST = Leaf("…", TensorType(DType.OTHER, None))
