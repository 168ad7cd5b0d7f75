"""Evaluating expressions of constants once, in float64, rounded at the end."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from egraph_fusion.errors import OptimizeError
from egraph_fusion.ir.graph import Array, frozen_attrs
from egraph_fusion.ir.ops import OPERATORS
from egraph_fusion.ir.tensors import DType, TensorType

Step = tuple[str, Sequence["int | None"], Mapping[str, Any]]
"""An operator, its operands as class numbers, its attributes."""
ROUNDS_ITSELF = ("Cast", "QuantizeLinear", "DequantizeLinear", "Shape", "Size", "BitShift")


def _finite(array: Array) -> bool:
    return not DType.of(array.dtype).is_float or bool(np.isfinite(array.astype(np.float64)).all())


@dataclass
class Folds:
    """What was computed at compile time, by expression: the states of one saturation share it."""

    numbers: dict[Hashable, int] = field(default_factory=dict[Hashable, int])
    wide: dict[int, Array] = field(default_factory=dict[int, Array])
    rounded: dict[int, Array] = field(default_factory=dict[int, Array])

    def number(self, expression: Hashable) -> int:
        """Return the number of an expression, the same for equal ones."""
        return self.numbers.setdefault(expression, len(self.numbers))


class Folder:
    """Evaluates classes of constants; `step` says how a class is computed, `leaf` what it is.

    `number` names the expression that a class is computed by.
    """

    def __init__(
        self,
        folds: Folds,
        number: Callable[[int], int],
        leaf: Callable[[int], Array | None],
        step: Callable[[int], Step],
        type_of: Callable[[int], TensorType],
    ) -> None:
        self.folds = folds
        self.number = number
        self.leaf = leaf
        self.step = step
        self.type_of = type_of

    def value(self, eclass: int) -> Array:
        """Return the tensor of a class, in the class's own dtype.

        Raises OptimizeError if its operands are finite and it is not.
        """
        number = self.number(eclass)
        if number not in self.folds.rounded:
            self.folds.rounded[number] = self._rounded(eclass)
        return self.folds.rounded[number]

    def _rounded(self, eclass: int) -> Array:
        wide = self._wide(eclass)
        kind = self.type_of(eclass)
        with np.errstate(over="ignore"):
            value = np.asarray(wide.astype(kind.dtype.numpy))
        if kind.dtype.is_float and not np.isfinite(value.astype(np.float32)).all():
            self._require_wild(eclass)
        if kind.static_shape != value.shape:
            raise OptimizeError(f"folding gave shape {value.shape}, expected {kind}")
        return value

    def _wide(self, eclass: int) -> Array:
        """Return the tensor of a class; floats in float64 unless an operator must see its dtype."""
        number = self.number(eclass)
        if number not in self.folds.wide:
            self.folds.wide[number] = self._computed(eclass)
        return self.folds.wide[number]

    def _computed(self, eclass: int) -> Array:
        known = self.leaf(eclass)
        if known is not None:
            return known
        op, operands, attrs = self.step(eclass)
        values = [None if k is None else self._operand(op, k) for k in operands]
        try:
            (value, *_) = OPERATORS[op].evaluate(values, frozen_attrs(attrs))
        except (MemoryError, IndexError) as error:
            raise OptimizeError(
                f"folding {op} into a constant {self.type_of(eclass)}: {error}"
            ) from error
        return value

    def _operand(self, op: str, eclass: int) -> Array:
        value = self._wide(eclass)
        dtype = self.type_of(eclass).dtype
        if not dtype.is_float:
            return value
        with np.errstate(over="ignore"):
            return value.astype(dtype.numpy if op in ROUNDS_ITSELF else np.float64)

    def _require_wild(self, eclass: int) -> None:
        known = self.leaf(eclass)
        if known is not None:
            return
        _, operands, _ = self.step(eclass)
        for k in operands:
            if k is not None and not _finite(self._wide(k)):
                return
        raise OptimizeError("folding constants gave a value that is not finite")
