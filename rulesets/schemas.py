"""Operator variables: rules over every operator of a class are one rule, not one per operator."""

from __future__ import annotations

from collections.abc import Callable

from egraph_fusion.errors import RuleError
from egraph_fusion.ir.ops import OPERATORS, Kind, Law, Operator
from egraph_fusion.rulesets.pattern import Apply, Attribute, Pattern, pattern


def _elementwise(arity: int) -> list[Operator]:
    found = (o for o in OPERATORS.values() if o.kind is Kind.ELEMENTWISE)
    return [o for o in found if o.arity == (arity, arity) and o.outputs == 1]


def _names(operators: list[Operator]) -> tuple[str, ...]:
    return tuple(sorted(o.name for o in operators))


PARTIAL = ("Log", "Sqrt", "Acosh", "Atanh", "Asin", "Acos", "Reciprocal", "Cast")
"""Not everywhere defined, or changing the dtype."""
TYPED = ("Cast", "IsNaN", "IsInf", "Not", "BitwiseNot")

OPERATOR_CLASSES: dict[str, tuple[str, ...]] = {
    "unary": _names([o for o in _elementwise(1) if o.name not in TYPED]),
    "binary": tuple(
        sorted(n for n in ("Add", "Sub", "Mul", "Div", "Max", "Min", "Pow") if n in OPERATORS)
    ),
    # With attributes (Selu's alpha and gamma) an operator may fall for some values of them.
    "increasing": _names(
        [
            o
            for o in _elementwise(1)
            if Law.INCREASING in o.laws and o.name not in PARTIAL and not o.attrs
        ]
    ),
    "even": _names([o for o in _elementwise(1) if Law.EVEN in o.laws]),
    "odd": _names([o for o in _elementwise(1) if Law.ODD in o.laws and o.name != "Neg"]),
    "additive": ("ReduceSum", "ReduceMean"),
    "extremal": ("ReduceMax", "ReduceMin"),
    "selecting": ("Max", "Min"),
    "logical": ("And", "Or", "Xor"),
    "multiplicative": ("Abs", "Reciprocal"),
    "averaging": ("AveragePool", "GlobalAveragePool"),
    "peaking": ("MaxPool", "GlobalMaxPool"),
    "adding": ("Add", "Sub"),
    "viewing": ("Flatten", "Squeeze", "Unsqueeze"),
    "gathering": ("Add", "Mul", "Max", "Min"),  # a constant's difference, quotient are sum, product
    "associative": ("ReduceSum", "ReduceMean", "ReduceProd", "ReduceMax", "ReduceMin"),
    "nesting": (
        *("ReduceSum", "ReduceMean", "ReduceProd", "ReduceMax", "ReduceMin"),
        *("ReduceL1", "ReduceL2", "ReduceLogSumExp"),
    ),
}


def operators(name: str, of: str) -> Callable[..., Apply]:
    """Return an operator variable over the class `of`; its applications share their attributes."""
    if of not in OPERATOR_CLASSES:
        raise RuleError(f"no class of operators is called {of!r}: {sorted(OPERATOR_CLASSES)}")
    variable = f"?{name}:{of}"

    def apply(*args: Pattern | float, **given: Attribute) -> Apply:
        attrs = tuple(sorted(given.items()))
        return Apply(variable, tuple(map(pattern, args)), attrs, Attribute(f"{name}_attrs"))

    return apply
