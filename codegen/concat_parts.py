"""Elementwise operators on a concatenation, done on the parts instead of the whole.

What makes a part can then go on to its results and store them where they belong; the concatenation
itself is never written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from egraph_fusion.codegen.expand import Fragment
from egraph_fusion.codegen.lower_elements import is_pointwise
from egraph_fusion.ir.graph import Node, node
from egraph_fusion.ir.tensors import TensorType


def by_parts(fragment: Fragment) -> Fragment:
    """Return the fragment with elementwise operators moved before the Concats that they follow.

    Only Concats are passed that nothing else reads and whose operands the fragment makes, with two
    operators or more that are not pointwise.
    """
    if sum(not is_pointwise(fragment, n) for n in fragment.nodes) < 2:
        return fragment
    for n in fragment.nodes:
        followers = _followers(fragment, n) if n.op == "Concat" else []
        if followers:
            return by_parts(_Moving(fragment, n, followers).run())
    return fragment


def _followers(fragment: Fragment, concat: Node) -> list[Node]:
    """Return the elementwise operators made of `concat`, or none if something else reads it."""
    if not all(v in fragment.producers for v in concat.inputs):
        return []
    shape = fragment.shape(concat.outputs[0])
    within = {concat.outputs[0]}
    found: list[Node] = []
    for n in fragment.nodes:
        if not within & set(n.inputs):
            continue
        if fragment.operator(n).scalar is None or fragment.shape(n.outputs[0]) != shape:
            return []
        within.add(n.outputs[0])
        found.append(n)
    inner = within - {n.outputs[0] for n in found if not _readers(fragment, n.outputs[0])}
    return [] if inner & set(fragment.outputs) else found


def _readers(fragment: Fragment, value: str) -> int:
    return fragment.uses.get(value, 0)


@dataclass
class _Moving:
    """The rewriting of one Concat and what follows it."""

    fragment: Fragment
    concat: Node
    followers: Sequence[Node]
    types: dict[str, TensorType] = field(default_factory=dict[str, TensorType])
    nodes: list[Node] = field(default_factory=list[Node])

    def run(self) -> Fragment:
        """Return the rewritten fragment."""
        self.types = dict(self.fragment.types)
        parts: dict[str, tuple[str, ...]] = {self.concat.outputs[0]: self.concat.inputs}
        for n in self.fragment.nodes:
            if n is self.concat:
                continue
            if n not in self.followers:
                self.nodes.append(n)
                continue
            parts[n.outputs[0]] = self._follow(n, parts)
            if n.outputs[0] in self.fragment.outputs:
                self.nodes.append(
                    replace(self.concat, inputs=parts[n.outputs[0]], outputs=n.outputs)
                )
        return replace(self.fragment, nodes=tuple(self.nodes), types=self.types)

    def _follow(self, n: Node, parts: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
        """Append `n` once per part and return its results."""
        results: list[str] = []
        for number in range(len(self.concat.inputs)):
            operands = tuple(self._operand(n, v, number, parts) for v in n.inputs)
            result = self._fresh(self._part_type(n.outputs[0], number))
            self.nodes.append(replace(n, inputs=operands, outputs=(result,)))
            results.append(result)
        return tuple(results)

    def _operand(
        self, n: Node, value: str, number: int, parts: Mapping[str, tuple[str, ...]]
    ) -> str:
        if value in parts:
            return parts[value][number]
        if not value:
            return value
        missing = len(self.fragment.shape(n.outputs[0])) - len(self.fragment.shape(value))
        axis = self._axis - missing
        if axis < 0 or self.fragment.shape(value)[axis] == 1:
            return value
        return self._slice(value, axis, number)

    def _slice(self, value: str, axis: int, number: int) -> str:
        sizes = [self.fragment.shape(v)[self._axis] for v in self.concat.inputs]
        start = sum(sizes[:number])
        shape = list(self.fragment.shape(value))
        shape[axis] = sizes[number]
        part = self._fresh(TensorType(self.types[value].dtype, tuple(shape)))
        ends = (start + sizes[number],)
        moved = node(
            "Slice", (value,), (part,), axes=(axis,), steps=(1,), starts=(start,), ends=ends
        )
        self.nodes.append(moved)
        return part

    @property
    def _axis(self) -> int:
        axis = self.concat.attrs["axis"]
        assert isinstance(axis, int)
        return axis

    def _part_type(self, value: str, number: int) -> TensorType:
        shape = self.fragment.shape(self.concat.inputs[number])
        return TensorType(self.types[value].dtype, shape)

    def _fresh(self, kind: TensorType) -> str:
        name = f"%{len(self.types)}"
        self.types[name] = kind
        return name
