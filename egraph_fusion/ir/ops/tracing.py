"""Bodies of composite operators, read three ways: types, operations counted, numpy values."""

from __future__ import annotations

from collections.abc import Sequence

from egraph_fusion.ir.dims import Dim
from egraph_fusion.ir.graph import Array, Attrs, AttrValue, Constant
from egraph_fusion.ir.ops.operator import OPERATORS, FlopRule, Operator, normalized
from egraph_fusion.ir.ops.reading import TypeRuleError, Types
from egraph_fusion.ir.tensors import TensorType


class Trace:
    """A builder that only keeps types and counts the operations that are not constant.

    `constant` says which operands are known at compile time; work on constants is free.
    """

    def __init__(self, types: Types, constant: Sequence[bool] = ()) -> None:
        self.operands = tuple("" if t is None else f"x{i}" for i, t in enumerate(types))
        self.types = {v: t for v, t in zip(self.operands, types, strict=True) if t is not None}
        self.free = {v for v, known in zip(self.operands, constant, strict=False) if known}
        self.flops: Dim = 0

    def type_of(self, value: str) -> TensorType:
        """Return the type of a value."""
        return self.types[value]

    def const(self, array: Array) -> str:
        """Return a constant value."""
        name = f"c{len(self.types)}"
        self.types[name] = Constant.of(array).type
        self.free.add(name)
        return name

    def op(self, name: str, *inputs: str, **attrs: AttrValue) -> str:
        """Infer the type of one application and count its operations."""
        operator = OPERATORS[name]
        types = tuple(self.types[v] if v else None for v in inputs)
        filled = normalized(operator, types, attrs)
        outs = operator.infer(types, filled)
        value = self._result(name, inputs, filled, outs[0])
        if self.free.issuperset(v for v in inputs if v):
            self.free.add(value)
        else:
            self.flops = self.flops + operator.flops(types, outs, filled)
        return value

    def _result(self, _op: str, _inputs: Sequence[str], _attrs: Attrs, out: TensorType) -> str:
        value = f"t{len(self.types)}"
        self.types[value] = out
        return value


class Interpreter(Trace):
    """A builder that evaluates what it builds with the registry's numpy meanings."""

    def __init__(self, types: Types, values: Sequence[Array | None]) -> None:
        super().__init__(types)
        self.values = {
            name: v for name, v in zip(self.operands, values, strict=True) if v is not None
        }

    def const(self, array: Array) -> str:
        """Return a constant value."""
        name = super().const(array)
        self.values[name] = array
        return name

    def _result(self, op: str, inputs: Sequence[str], attrs: Attrs, out: TensorType) -> str:
        value = super()._result(op, inputs, attrs, out)
        operands = [self.values[v] if v else None for v in inputs]
        self.values[value] = OPERATORS[op].evaluate(operands, attrs)[0]
        return value


def node_flops(
    operator: Operator,
    ins: Types,
    outs: Sequence[TensorType],
    attrs: Attrs,
    constant: Sequence[bool],
) -> Dim:
    """Return the operations of one node, where `constant` says which operands are known.

    A node of constants is free, and so is the part of a composite's body that reads only constants.
    """
    if ins and all(known for known, t in zip(constant, ins, strict=True) if t is not None):
        return 0
    if operator.body is None or any(t is not None and t.shape is None for t in ins):
        return operator.flops(ins, outs, attrs)
    trace = Trace(ins, constant)
    operator.body(trace, trace.operands, attrs)
    return trace.flops


def body_flops(name: str) -> FlopRule:
    """Return the FLOP rule of a composite: the operations of its body, constants free."""

    def flops(ins: Types, _outs: Sequence[TensorType], attrs: Attrs) -> Dim:
        body = OPERATORS[name].body
        if body is None or any(t is not None and t.shape is None for t in ins):
            return 0
        trace = Trace(ins)
        body(trace, trace.operands, attrs)
        return trace.flops

    return flops


def evaluate_body(
    name: str, types: Types, values: Sequence[Array | None], attrs: Attrs
) -> tuple[Array, ...]:
    """Evaluate a composite through its body; TypeRuleError if it has none."""
    body = OPERATORS[name].body
    if body is None:
        raise TypeRuleError(f"operator {name} has no body")
    interpreter = Interpreter(types, values)
    results = body(interpreter, interpreter.operands, attrs)
    return tuple(interpreter.values[r] for r in results)
