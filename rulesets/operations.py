"""`ops`: every declared operator as a function that builds patterns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from egraph_fusion.errors import RuleError
from egraph_fusion.ir.graph import AttrValue
from egraph_fusion.ir.ops import OPERATORS
from egraph_fusion.rulesets.pattern import (
    Apply,
    Attribute,
    AttrTerm,
    Computed,
    Pattern,
    pattern,
    snake,
)


class Operations:
    """Operator functions by snake_case ONNX name; a trailing underscore avoids keywords."""

    def __getattr__(self, name: str) -> Callable[..., Apply]:
        """Return the function that applies the operator `name`; RuleError if none is declared."""
        if name.startswith("__"):
            raise AttributeError(name)
        key = name.replace("_", "").lower()
        found = next((op for op in OPERATORS if op.lower() == key), None)
        if found is None:
            raise RuleError(f"no operator is called {name!r}; see rulesets.ops for those there are")

        def apply(*args: Pattern | float, attrs: Attribute | None = None, **given: object) -> Apply:
            return Apply(found, tuple(map(pattern, args)), attribute_pairs(given), attrs)

        return apply

    def __dir__(self) -> list[str]:
        """List the operators."""
        return sorted(map(snake, OPERATORS))


def attribute_pairs(given: dict[str, object]) -> tuple[tuple[str, AttrTerm], ...]:
    """Return attributes sorted by name; booleans become integers and lists tuples."""
    return tuple((k, attribute_value(k, v)) for k, v in sorted(given.items()))


def attribute_value(name: str, value: object) -> AttrTerm:
    """Return `value` as an attribute; RuleError if it cannot be one."""
    match value:
        case Attribute() | Computed() | float() | str() | bytes():
            return value
        case int():
            return int(value)
        case list() | tuple():
            return _tuple(name, tuple(cast("Sequence[object]", value)))
        case _:
            raise RuleError(f"attribute {name} cannot be {value!r}")


def _tuple(name: str, values: tuple[object, ...]) -> AttrValue:
    ints = tuple(v for v in values if isinstance(v, int))
    floats = tuple(float(v) for v in values if isinstance(v, int | float))
    texts = tuple(v for v in values if isinstance(v, str))
    for kept in (ints, floats, texts):
        if len(kept) == len(values):
            return kept
    raise RuleError(f"attribute {name} must hold numbers or strings of one kind, got {values!r}")


ops = Operations()
