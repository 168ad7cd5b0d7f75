"""Concrete tensors: the leaves of expressions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import index
from typing import SupportsIndex, cast

import numpy as np

from egraph_fusion.arguments import fits
from egraph_fusion.egraph.ranges import Facts
from egraph_fusion.errors import EgraphFusionError, ModelError
from egraph_fusion.experiment.elements import array_of, dtype_named
from egraph_fusion.ir.dims import Dim
from egraph_fusion.ir.graph import Constant
from egraph_fusion.ir.parse import parse_dim
from egraph_fusion.ir.tensors import DType, TensorType
from egraph_fusion.rulesets.pattern import Pattern


@dataclass(frozen=True, slots=True)
class Leaf(Pattern):
    """A concrete tensor: an input, or a constant with a `value`.

    The elements of an input lie in [lo, hi], and have no fraction if they are `integer`.
    """

    name: str
    type: TensorType
    lo: float = -math.inf
    hi: float = math.inf
    value: Constant | None = None
    integer: bool = False

    def __str__(self) -> str:
        """Print the name."""
        return self.name or "_"

    @property
    def facts(self) -> Facts:
        """What is claimed of the elements."""
        nonzero = self.lo > 0 or self.hi < 0
        return Facts(interval=(self.lo, self.hi), nonzero=nonzero, integer=self.integer)


def tensor(
    name: str,
    shape: Sequence[int | str],
    dtype: str = "float32",
    lo: float | None = None,
    hi: float | None = None,
    *,
    integer: bool = False,
) -> Leaf:
    """Return an input called `name` for expressions, e.g. `tensor("a", (8, "n"), lo=0.0)`.

    A dimension is a size or the name of an unknown one; `dtype` is a numpy name or "bfloat16".
    `lo` and `hi` claim that every element is at least and at most that, and not NaN, `integer` that
    none has a fraction.  Raises ModelError for a name, shape, dtype or claim that cannot be.
    """
    kind = TensorType(dtype_named(dtype, f"tensor {name!r}"), _shape(shape, name))
    for what, bound in (("lo", lo), ("hi", hi)):
        if not fits(bound, float | None):
            raise ModelError(f"tensor {name!r}: {what} is {bound!r}; expected a number or None")
    if not fits(integer, bool):
        raise ModelError(f"tensor {name!r}: integer is {integer!r}; expected True or False")
    low, high = -math.inf if lo is None else float(lo), math.inf if hi is None else float(hi)
    bounded = lo is not None or hi is not None
    if bounded and not (kind.dtype.is_float or kind.dtype.is_integer):
        raise ModelError(f"tensor {name!r} of {kind} has no order, so it takes neither lo nor hi")
    if not low <= high:
        raise ModelError(f"tensor {name!r}: lo={low} must be at most hi={high}")
    if not _has_an_element(kind.dtype, low, high, integer):
        what = "integer" if integer else kind.dtype.value
        what += f" of {kind.dtype.value}" if integer else ""
        raise ModelError(f"tensor {name!r}: no {what} lies in [{low:g}, {high:g}]")
    return Leaf(_named(name), kind, low, high, integer=integer)


def _has_an_element(dtype: DType, low: float, high: float, integer: bool) -> bool:
    """Whether some number of a dtype lies within the bounds, an integer if one is asked for."""
    if dtype.is_integer:
        info = np.iinfo(dtype.numpy)
        return max(low, int(info.min)) <= math.floor(min(high, int(info.max)))
    if not dtype.is_float:
        return True
    ends = [v for bound in (low, high) for v in (bound, *_whole(bound))]
    with np.errstate(all="ignore"):
        near = np.array([0.0, *ends]).astype(dtype.numpy)
        around = [
            near,
            *(np.nextafter(near, np.array(end, near.dtype)) for end in (-np.inf, np.inf)),
        ]
    found = np.concatenate([a.astype(np.float64) for a in around])
    inside = found[(found >= low) & (found <= high)]
    return bool(len(inside)) and (not integer or bool((inside == np.floor(inside)).any()))


def _whole(bound: float) -> tuple[float, ...]:
    return (math.floor(bound), math.ceil(bound)) if math.isfinite(bound) else ()


def constant(name: str, value: object, dtype: str | None = None) -> Leaf:
    """Return a constant called `name` for expressions; `value` is an array or makes one.

    Without a `dtype` (a numpy name or "bfloat16"), an array keeps its own, and Python's numbers,
    alone or in lists, are as in `tensor`: floats are float32, integers int64.  Floats are rounded
    to the dtype.  Raises ModelError for a name, array or dtype that cannot be, an integer that the
    dtype does not hold, a float for an integer dtype that is none, and a finite one that would
    become infinite.
    """
    found = Constant.of(array_of(value, dtype, f"constant {_named(name)!r}"))
    return Leaf(name, found.type, value=found)


def _named(name: object) -> str:
    if not isinstance(name, str) or not name or not name.isprintable() or name != name.strip():
        raise ModelError(
            f"a tensor's name is a word to print, without space at its ends; got {name!r}"
        )
    return name


def _shape(shape: object, name: str) -> tuple[Dim, ...]:
    if isinstance(shape, str | bytes) or not isinstance(shape, Sequence):
        raise ModelError(f"tensor {name!r}: a shape is a tuple like (8, 16), got {shape!r}")
    return tuple(_dim(d, name) for d in cast("Sequence[object]", shape))


def _dim(dim: object, name: str) -> Dim:
    if isinstance(dim, SupportsIndex) and not isinstance(dim, bool) and index(dim) >= 0:
        return index(dim)
    if isinstance(dim, str):
        try:
            return parse_dim(dim)
        except EgraphFusionError as e:
            raise ModelError(f"tensor {name!r}: dimension {dim!r}: {e}") from e
    raise ModelError(f"tensor {name!r}: a dimension is a size or a name, got {dim!r}")


ABSENT = Leaf("", TensorType(DType.OTHER, None))
"""Stands for an optional operand that is not there."""
