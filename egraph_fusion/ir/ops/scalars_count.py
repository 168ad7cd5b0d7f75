"""The counting reading of scalar expressions: how many scalar operations an expression performs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class CountingScalars:
    """Builds nothing; counts every operator applied (literals are free)."""

    def __init__(self) -> None:
        self.count = 0
        self.leaf: Any = object()

    def const(self, value: float) -> Any:
        """Return a literal, which costs nothing."""
        return self.leaf

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Return a constructor that counts one operation."""

        def apply(*_operands: Any) -> Any:
            self.count += 1
            return self.leaf

        return apply


def scalar_count(expression: Callable[[CountingScalars], Any]) -> int:
    """Return how many scalar operations `expression` applies."""
    counter = CountingScalars()
    expression(counter)
    return counter.count
