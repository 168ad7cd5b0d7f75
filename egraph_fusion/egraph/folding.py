"""Evaluating expressions of constants once.

In float64, rounded at the end; at level "exact" operator by operator in the operands' own dtype, as
at run time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from egraph_fusion.egraph.computed import as_operand
from egraph_fusion.egraph.demand import attrs_of
from egraph_fusion.egraph.facts import Loaded
from egraph_fusion.egraph.language import Constructor
from egraph_fusion.egraph.state import OUT, ENode
from egraph_fusion.errors import OptimizeError
from egraph_fusion.ir.graph import Array, frozen_attrs
from egraph_fusion.ir.ops import OPERATORS
from egraph_fusion.ir.tensors import DType, TensorType

Step = tuple[str, Sequence["int | None"], Mapping[str, Any]]
"""An operator, its operands as class numbers, its attributes."""


class NotFiniteError(OptimizeError):
    """A class of constants holds what is not finite, made of operands that are."""

    def __init__(self, eclass: int) -> None:
        super().__init__("folding constants gave a value that is not finite")
        self.eclass = eclass


def _finite(array: Array) -> bool:
    return not DType.of(array.dtype).is_float or bool(np.isfinite(array.astype(np.float64)).all())


@dataclass
class Folds:
    """What was computed at compile time, by expression: the states of one saturation share it.

    `stepwise` rounds the result of every operator to its dtype.
    """

    stepwise: bool = False
    numbers: dict[Hashable, int] = field(default_factory=dict[Hashable, int])
    wide: dict[int, Array] = field(default_factory=dict[int, Array])
    rounded: dict[int, Array] = field(default_factory=dict[int, Array])

    def number(self, expression: Hashable) -> int:
        """Return the number of an expression, the same for equal ones."""
        return self.numbers.setdefault(expression, len(self.numbers))


@dataclass
class Expressions:
    """How the chosen e-nodes compute classes of constants."""

    loaded: Loaded
    chosen: Mapping[int, ENode]
    numbers: dict[int, int] = field(default_factory=dict[int, int])

    def __post_init__(self) -> None:
        """Find the graph's constants by number."""
        self.names = {k: v for v, k in self.loaded.values.items()}

    def number(self, folds: Folds, eclass: int) -> int:
        """Return the number that `folds` gives the expression of a class."""
        if eclass not in self.numbers:
            n = self.chosen[eclass]
            operands = tuple(self.number(folds, k) for k in n.children)
            self.numbers[eclass] = folds.number((n.constructor, n.attrs, operands))
        return self.numbers[eclass]

    def leaf(self, eclass: int) -> Array | None:
        """Return the tensor of a class that is not computed, else None."""
        n = self.chosen[eclass]
        if n.constructor == "Const":
            return self.loaded.graph.constants[self.names[n.attrs[0]]].array
        if n.constructor == "Num":
            value = self.loaded.interner.value
            return np.asarray(value(n.attrs[0]), value(n.attrs[1]).numpy)
        return None

    def step(self, eclass: int) -> Step:
        """Return how a class is computed from others."""
        n = self.chosen[eclass]
        if n.constructor == OUT:
            raise OptimizeError("folding one of several outputs is not supported")
        assert isinstance(n.constructor, Constructor)
        operands = [None if self.chosen[k].constructor == "Absent" else k for k in n.children]
        attrs = attrs_of(self.loaded.interner, n.constructor, n.attrs)
        return n.constructor.op, operands, attrs


class Folder:
    """Evaluates classes of constants, by the expressions chosen for them."""

    def __init__(
        self, folds: Folds, expressions: Expressions, type_of: Callable[[int], TensorType]
    ) -> None:
        self.folds = folds
        self.leaf = expressions.leaf
        self.step = expressions.step
        self.type_of = type_of
        self.number = partial(expressions.number, folds)

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
        """Return the tensor of a class; floats in float64 unless each step is to be rounded."""
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
        kind = self.type_of(eclass)
        return as_operand(op, self._wide(eclass), kind.dtype, self.folds.stepwise)

    def _require_wild(self, eclass: int) -> None:
        known = self.leaf(eclass)
        if known is not None:
            return
        _, operands, _ = self.step(eclass)
        for k in operands:
            if k is not None and not _finite(self._wide(k)):
                return
        raise NotFiniteError(eclass)
