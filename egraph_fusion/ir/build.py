"""Building graphs: declared operators applied to values, with types inferred on the way."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

import numpy as np

from egraph_fusion.errors import ModelError
from egraph_fusion.ir.graph import Array, AttrValue, Constant, Graph, Node, frozen_attrs
from egraph_fusion.ir.ops import OPERATORS
from egraph_fusion.ir.ops.operator import Operator, normalized
from egraph_fusion.ir.ops.reading import TypeRuleError
from egraph_fusion.ir.tensors import TensorType


class GraphBuilder:
    """Collects nodes, constants and types, and builds a checked `Graph` of them.

    Values are names; "" is an absent operand.  Satisfies the `Builder` that bodies are written for.
    """

    def __init__(self, name: str = "", opset: int = 0) -> None:
        self.name = name
        self.opset = opset
        self.inputs: list[str] = []
        self.outputs: list[str] = []
        self.nodes: list[Node] = []
        self.types: dict[str, TensorType] = {}
        self.constants: dict[str, Constant] = {}
        self._interned: dict[str, str] = {}

    def add_input(self, name: str, type: TensorType) -> str:
        """Declare a graph input; ModelError if the name is taken."""
        self._claim(name)
        self.types[name] = type
        self.inputs.append(name)
        return name

    def const(self, array: Array, name: str | None = None) -> str:
        """Return a constant value; equal unnamed constants are one value."""
        constant = Constant.of(np.asarray(array))
        if name is None and constant.id in self._interned:
            return self._interned[constant.id]
        value = self.fresh("c") if name is None else name
        self._claim(value)
        self.constants[value] = constant
        self.types[value] = constant.type
        self._interned.setdefault(constant.id, value)
        return value

    def op(self, opname: str, *inputs: str, out: str | None = None, **attrs: AttrValue) -> str:
        """Apply a declared operator of one output and return its value, fresh or named `out`.

        Raises ModelError if the operator is not declared or refuses its operands.
        """
        return self._append(opname, inputs, [out], attrs)[0]

    def node(
        self, opname: str, inputs: Sequence[str], n_outputs: int, **attrs: AttrValue
    ) -> tuple[str, ...]:
        """Apply a declared operator and return its first `n_outputs` values, as `op` does."""
        return self._append(opname, inputs, [None] * n_outputs, attrs)

    def _append(
        self,
        opname: str,
        inputs: Sequence[str],
        outputs: Sequence[str | None],
        attrs: dict[str, AttrValue],
    ) -> tuple[str, ...]:
        operator = OPERATORS.get(opname)
        if operator is None:
            raise ModelError(f"operator {opname!r} is not declared")
        types = tuple(self.type_of(v) if v else None for v in inputs)
        filled, found = _applied(operator, types, attrs)
        if len(found) < len(outputs):
            raise ModelError(f"{opname} has {len(found)} outputs here, not {len(outputs)}")
        values: list[str] = []
        for given, kind in zip(outputs, found, strict=False):
            value = self.fresh(f"{opname.lower()}_") if given is None else given
            self._claim(value)
            self.types[value] = kind
            values.append(value)
        self.nodes.append(Node(opname, tuple(inputs), tuple(values), frozen_attrs(filled)))
        return tuple(values)

    def output(self, value: str) -> str:
        """Mark a value as the next graph output."""
        self.type_of(value)
        self.outputs.append(value)
        return value

    def type_of(self, value: str) -> TensorType:
        """Return the type of a value; ModelError if there is none of that name."""
        if value not in self.types:
            raise ModelError(f"there is no value named {value!r}")
        return self.types[value]

    def fresh(self, prefix: str) -> str:
        """Return a value name that is not taken."""
        count = len(self.types)
        while f"{prefix}{count}" in self.types:
            count += 1
        return f"{prefix}{count}"

    def build(self) -> Graph:
        """Return the graph, checked."""
        graph = Graph(
            name=self.name,
            inputs=tuple(self.inputs),
            outputs=tuple(self.outputs),
            nodes=tuple(self.nodes),
            types=MappingProxyType(dict(self.types)),
            constants=MappingProxyType(dict(self.constants)),
            opset=self.opset,
        )
        graph.check()
        return graph

    def _claim(self, name: str) -> None:
        if not name or name in self.types:
            raise ModelError(f"value name {name!r} is empty or already taken")


def _applied(
    operator: Operator, types: Sequence[TensorType | None], attrs: dict[str, AttrValue]
) -> tuple[dict[str, AttrValue], tuple[TensorType, ...]]:
    least, most = operator.arity
    shown = ", ".join(str(t) if t else "-" for t in types)
    if len(types) < least or (most is not None and len(types) > most):
        raise ModelError(f"{operator.name}({shown}) takes {least} to {most} operands")
    try:
        filled = normalized(operator, types, attrs)
        return filled, operator.infer(types, filled)
    except TypeRuleError as error:
        raise ModelError(f"{operator.name}({shown}): {error}") from error
