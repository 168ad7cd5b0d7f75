"""The elements of constants: from numbers, lists and arrays to an array of one dtype."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import numpy as np

from egraph_fusion.errors import ModelError
from egraph_fusion.ir.graph import Array
from egraph_fusion.ir.tensors import DType

USUAL = {
    complex: DType.COMPLEX128,
    float: DType.FLOAT32,
    int: DType.INT64,
    bool: DType.BOOL,
}
"""What Python's numbers become: the first that is among them decides."""


def dtype_named(dtype: object, whose: str) -> DType:
    """Return the dtype of that name; ModelError, beginning with `whose`, if there is none."""
    found = DType.named(dtype)
    if found is None:
        names = ", ".join(d.value for d in DType if DType.named(d))
        raise ModelError(f"{whose}: no dtype is called {dtype!r}; there are {names}")
    return found


def array_of(value: object, dtype: object, whose: str) -> Array:
    """Return `value` as an array of `dtype`; for None of its own, or the usual one of numbers.

    Raises ModelError, beginning with `whose`, if it cannot be.
    """
    wanted = None if dtype is None else dtype_named(dtype, whose)
    try:
        given: Array = np.asarray(value)
    except ValueError as e:
        raise ModelError(f"{whose}: {e}") from e
    if _are_numbers(value):
        given = np.asarray(value, object)
        wanted = wanted or _usual(given)
    elif DType.named(given.dtype) is None:
        raise ModelError(f"{whose} holds {given.dtype}; expected numbers or booleans")
    return given if wanted is None else _converted(given, wanted, whose)


def _are_numbers(value: object) -> bool:
    """Whether this is a number of Python, or lists of them: what has no dtype of its own."""
    if isinstance(value, list | tuple):
        return all(map(_are_numbers, cast("Sequence[object]", value)))
    return type(value) in USUAL


def _usual(given: Array) -> DType:
    kinds = set(map(type, given.reshape(-1).tolist()))
    return next((d for kind, d in USUAL.items() if kind in kinds), DType.FLOAT32)


def _converted(given: Array, wanted: DType, whose: str) -> Array:
    """Return the array in another dtype; ModelError names the first element that does not fit."""
    if given.dtype == wanted.numpy:
        return given
    for element in given.reshape(-1).tolist():
        if not _holds(wanted, element):
            raise ModelError(f"{whose}: {wanted.value} does not hold {element!r}")
    return given.astype(wanted.numpy)


def _holds(wanted: DType, element: complex) -> bool:
    """Whether a dtype holds a number: an integer exactly, a float to rounding, no real a complex.

    Python compares integers with floats exactly.
    """
    if isinstance(element, complex):
        return wanted in (DType.COMPLEX64, DType.COMPLEX128)
    if wanted is DType.BOOL:
        return element in (0, 1)
    if wanted.is_integer:
        limits = np.iinfo(wanted.numpy)
        return limits.min <= element <= limits.max and element == int(element)
    kind = wanted.numpy.type
    try:
        with np.errstate(over="ignore"):
            made = complex(kind(element)).real
    except OverflowError:
        return False
    if isinstance(element, int):
        return made == element
    return math.isfinite(made) or not math.isfinite(element)
