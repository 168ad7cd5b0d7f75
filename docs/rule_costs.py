"""FLOPs of both sides of a rule on one standard instance: matrices and images of one size."""

from __future__ import annotations

from dataclasses import dataclass, field

from egraph_fusion.ir.dims import nominal
from egraph_fusion.ir.graph import AttrValue, frozen_attrs
from egraph_fusion.ir.ops import OPERATORS, Kind
from egraph_fusion.ir.ops.operator import normalized
from egraph_fusion.ir.ops.tracing import node_flops
from egraph_fusion.ir.tensors import DType, TensorType
from egraph_fusion.rulesets.functions import call
from egraph_fusion.rulesets.pattern import (
    Apply,
    Attribute,
    AttrTerm,
    Computed,
    Number,
    Pattern,
    Tensor,
    walk,
)
from egraph_fusion.rulesets.rule import Rule

Dims = tuple[int, ...]
N = 64
MATRIX, COLUMN, IMAGE, FILTERS = (N, N), (N, 1), (1, 8, 16, 16), (8, 8, 3, 3)
GUARDED: dict[str, Dims] = {"one_element": (1,), "fits_reduced": COLUMN}
"""Shapes of tensors that a guard asks to be small."""
PLACED: dict[tuple[str, int], Dims] = {
    ("Conv", 0): IMAGE,
    ("Conv", 1): FILTERS,
    ("MaxPool", 0): IMAGE,
    ("AveragePool", 0): IMAGE,
    ("GlobalMaxPool", 0): IMAGE,
    ("GlobalAveragePool", 0): IMAGE,
    ("Gather", 1): (N // 2,),
    ("Expand", 0): COLUMN,
    ("Squeeze", 0): (N, 1, N),
}
ATTRIBUTES: dict[tuple[str, str], AttrValue] = {
    ("Reshape", "shape"): (N * N,),
    ("Expand", "shape"): MATRIX,
    ("Tile", "repeats"): (2, 2),
    ("Slice", "starts"): (0,),
    ("Slice", "ends"): (N // 2,),
    ("Slice", "axes"): (0,),
    ("Squeeze", "axes"): (1,),
    ("Unsqueeze", "axes"): (0,),
    ("Conv", "pads"): (1, 1, 1, 1),
    ("MaxPool", "kernel_shape"): (2, 2),
    ("MaxPool", "strides"): (2, 2),
    ("AveragePool", "kernel_shape"): (2, 2),
    ("AveragePool", "strides"): (2, 2),
    ("Transpose", "perm"): (1, 0),
}
VARIABLES: dict[str, tuple[AttrValue, ...]] = {
    "axes": ((1,), (0,)),
    "axis": (1,),
    "keepdims": (1,),
    "perm": ((1, 0),),
    "pads": ((1, 1, 1, 1),),
    "dilations": ((1, 1),),
}
"""Values of attribute variables by what they stand for: the first one met, the second."""


@dataclass
class _Instance:
    """One rule with its variables bound; terms are typed once, so shared ones count once."""

    rule: Rule
    tensors: dict[str, TensorType] = field(default_factory=dict[str, TensorType])
    attrs: dict[str, AttrValue] = field(default_factory=dict[str, AttrValue])

    def bind(self, p: Pattern, place: tuple[str, int]) -> None:
        """Bind the variables of a left side, whose operand position is `place`."""
        if isinstance(p, Tensor) and p.name not in self.tensors:
            self.tensors[p.name] = self._tensor(p, place)
        if not isinstance(p, Apply):
            return
        for i, a in enumerate(p.args):
            elementwise = OPERATORS[p.op].kind is Kind.ELEMENTWISE and (p.op, i) not in SELECTORS
            self.bind(a, place if elementwise else (p.op, i))
        for name, term in p.attrs:
            if isinstance(term, Attribute) and term.name not in self.attrs:
                values = VARIABLES[name]
                same = sum(v in values for v in self.attrs.values())
                self.attrs[term.name] = values[min(same, len(values) - 1)]

    def _tensor(self, p: Tensor, place: tuple[str, int]) -> TensorType:
        guards = [g.name for g in self.rule.when if g.args and g.args[0] == p]
        shape = next((GUARDED[g] for g in guards if g in GUARDED), PLACED.get(place, MATRIX))
        return TensorType(self._dtype(place), shape)

    def _dtype(self, place: tuple[str, int]) -> DType:
        if place in SELECTORS:
            return SELECTORS[place]
        kinds = {"bool": DType.BOOL, "uint": DType.UINT32, "int": DType.INT32}
        return kinds.get(self.rule.dtypes, DType.FLOAT32)

    def typed(self, p: Pattern) -> TensorType:
        """Return the type of a term."""
        match p:
            case Tensor(name):
                return self.tensors[name]
            case Apply():
                attrs = frozen_attrs(self._attributes(p))
                return OPERATORS[p.op].infer([self.typed(a) for a in p.args], attrs)[0]
            case _:
                return TensorType(DType.FLOAT32, ())

    def flops(self, side: Pattern) -> int:
        """Return the FLOPs of all distinct nodes of a side."""
        return sum(self._node(q) for q in dict.fromkeys(walk(side)) if isinstance(q, Apply))

    def _node(self, p: Apply) -> int:
        types = [self.typed(a) for a in p.args]
        known = [isinstance(a, Number) for a in p.args]
        attrs = frozen_attrs(self._attributes(p))
        return nominal(node_flops(OPERATORS[p.op], types, [self.typed(p)], attrs, known))

    def _attributes(self, p: Apply) -> dict[str, AttrValue]:
        operator = OPERATORS[p.op]
        types = [self.typed(a) for a in p.args]
        standard = {n: v for (op, n), v in ATTRIBUTES.items() if op == p.op}
        given = {n: self._attribute(t) for n, t in p.attrs}
        return normalized(operator, types, {**standard, **given})

    def _attribute(self, term: AttrTerm) -> AttrValue:
        if isinstance(term, Attribute):
            return self.attrs[term.name]
        if isinstance(term, Computed):
            return call(term.function, tuple(self._argument(a) for a in term.args))
        return term

    def _argument(self, a: Attribute | Pattern | AttrValue) -> object:
        return self.typed(a).shape if isinstance(a, Pattern) else self._attribute(a)


SELECTORS = {("Where", 0): DType.BOOL, ("Gather", 1): DType.INT64}
"""Operands that are not numbers of the rule's dtype."""


def flops(rule: Rule) -> tuple[int, int]:
    """Return the FLOPs of the left and the right side, equal terms counted once.

    Of a schema, the first operator counts.
    """
    first = next(rule.instances())
    instance = _Instance(first)
    instance.bind(first.lhs, ("", 0))
    return instance.flops(first.lhs), instance.flops(first.rhs)
