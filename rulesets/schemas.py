"""Operator variables: rules over every operator of a class are one rule, not one per operator.

A class of pairs serves rules in which two operators change places, such as maximum and minimum.
"""

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
    "logical": ("And", "Or", "Xor", "BitwiseAnd", "BitwiseOr", "BitwiseXor"),
    "bitwise": ("BitwiseAnd", "BitwiseOr", "BitwiseXor"),
    "multiplicative": ("Abs", "Reciprocal"),
    "averaging": ("AveragePool", "GlobalAveragePool"),
    "rounding": ("Ceil", "Floor", "Round"),
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

OPERATOR_PAIRS: dict[str, tuple[tuple[str, str], ...]] = {
    "lattices": (
        *(("Max", "Min"), ("Min", "Max"), ("And", "Or"), ("Or", "And")),
        *(("BitwiseAnd", "BitwiseOr"), ("BitwiseOr", "BitwiseAnd")),
    ),
    "orders": (("Less", "Greater"), ("LessOrEqual", "GreaterOrEqual")),
    "extrema": (("ReduceMax", "ReduceMin"), ("ReduceMin", "ReduceMax")),
    "selections": (("ReduceMax", "Max"), ("ReduceMin", "Min")),
    "accumulations": (
        *(("ReduceSum", "Add"), ("ReduceL1", "Add"), ("ReduceSumSquare", "Add")),
        ("ReduceProd", "Mul"),
    ),
}


def members(variable: str) -> tuple[dict[str, str], ...]:
    """Return what the operator variables that belong to `variable` stand for, case by case."""
    base, _, place = variable.partition(".")
    of = base.partition(":")[2]
    if not place:
        return tuple({variable: op} for op in OPERATOR_CLASSES[of])
    return tuple(dict(zip((f"{base}.0", f"{base}.1"), p, strict=True)) for p in OPERATOR_PAIRS[of])


def operators(name: str, of: str) -> Callable[..., Apply]:
    """Return an operator variable over the class `of`; its applications share their attributes."""
    if of not in OPERATOR_CLASSES:
        raise RuleError(f"no class of operators is called {of!r}: {sorted(OPERATOR_CLASSES)}")
    return _variable(f"?{name}:{of}", name)


def operator_pairs(name: str, of: str) -> tuple[Callable[..., Apply], Callable[..., Apply]]:
    """Return the two operator variables of a pair of the class `of`; they share attributes."""
    if of not in OPERATOR_PAIRS:
        raise RuleError(f"no class of pairs is called {of!r}: {sorted(OPERATOR_PAIRS)}")
    return _variable(f"?{name}:{of}.0", name), _variable(f"?{name}:{of}.1", name)


def _variable(variable: str, name: str) -> Callable[..., Apply]:
    def apply(*args: Pattern | float, **given: Attribute) -> Apply:
        attrs = tuple(sorted(given.items()))
        return Apply(variable, tuple(map(pattern, args)), attrs, Attribute(f"{name}_attrs"))

    return apply
