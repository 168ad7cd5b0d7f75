"""What a caller feeds a model: checked against the declared inputs, or made up."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from egraph_fusion.errors import RunError
from egraph_fusion.ir.dims import Dim
from egraph_fusion.ir.index_ranges import IndexRange, outside
from egraph_fusion.ir.tensors import DType
from egraph_fusion.runtime.program import Port

_ANY_SIZE = (-1, "")

Array = NDArray[Any]
Extents = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Request:
    """What a program is compiled for: the shape of each input, and values of some small ones.

    Inputs that are no tensors have shape ().
    """

    extents: Extents
    values: Mapping[str, Array] = field(default_factory=dict[str, Array])

    @property
    def key(self) -> tuple[Extents, tuple[bytes, ...]]:
        """Equal for requests that one program serves."""
        return self.extents, tuple(v.tobytes() for v in self.values.values())


def accept(ports: Sequence[Port], feeds: Mapping[str, Any]) -> list[Array]:
    """Return the arrays of `feeds` in the inputs' order, contiguous.

    Raises RunError for a missing or unknown input, a wrong dtype or shape.
    """
    known = {p.name for p in ports}
    if not isinstance(cast(object, feeds), Mapping):
        wanted = ", ".join(f"{p.name!r}: {p.type}" for p in ports)
        raise RunError(
            f"the inputs are given as a {type(feeds).__name__}; expected a dict of arrays by name: "
            f"{{{wanted}}}"
        )
    unknown = [n for n in feeds if n not in known]
    if unknown:
        raise RunError(f"no input is called {unknown[0]!r}; the inputs are {sorted(known)}")
    bound: dict[str, tuple[int, str]] = {}
    # None is a value of its own where an input is optional.
    return [
        _accept_one(p, feeds.get(p.name), bound)
        if is_tensor(p) or p.name not in feeds
        else cast(Array, feeds[p.name])
        for p in ports
    ]


def extents(ports: Sequence[Port], arrays: Sequence[Array]) -> Extents:
    """Return the shape of each input, () for one that is no tensor."""
    return tuple(a.shape if is_tensor(p) else () for p, a in zip(ports, arrays, strict=True))


def fixed_extents(ports: Sequence[Port]) -> Extents | None:
    """Return the declared shape of each input, () for what is no tensor; None if one is open."""
    shapes = [p.type.static_shape if is_tensor(p) else () for p in ports]
    known = tuple(s for s in shapes if s is not None)
    return known if len(known) == len(shapes) else None


def _accept_one(port: Port, value: Any, bound: dict[str, tuple[int, str]]) -> Array:
    if value is None and port.default is None:
        raise RunError(f"input {port.name!r} ({port.type}) is missing")
    try:
        array = np.asarray(port.default if value is None else value)
    except Exception as error:  # whatever the value's own conversion raises
        raise RunError(
            f"input {port.name!r}: expected {port.type}, got a {type(value).__name__} that is no "
            f"array: {error}"
        ) from error
    if DType.of(array.dtype) is not port.type.dtype:
        raise RunError(f"input {port.name!r}: expected {port.type}, got dtype {array.dtype}")
    if port.type.shape is not None:
        _check_shape(port, port.type.shape, array.shape, bound)
    return array if _is_plain(array) else np.array(array, port.type.dtype.numpy, order="C")


def _is_plain(array: Array) -> bool:
    """Whether a kernel can read it: in order, aligned, in this machine's order of bytes."""
    return array.flags.c_contiguous and array.flags.aligned and array.dtype.isnative


def is_tensor(port: Port) -> bool:
    """Whether an input is a tensor; sequences and the like pass as they are."""
    return port.type.shape is not None or port.type.dtype is not DType.OTHER


def _check_shape(
    port: Port, want: tuple[Dim, ...], got: tuple[int, ...], bound: dict[str, tuple[int, str]]
) -> None:
    wrong = len(want) != len(got) or any(
        isinstance(w, int) and w != g for w, g in zip(want, got, strict=True)
    )
    if wrong:
        raise RunError(f"input {port.name!r}: expected {port.type}, got shape {list(got)}")
    for name, sizes in _named_sizes(want, got).items():
        if len(sizes) > 1:
            warnings.warn(
                f"input {port.name!r} is declared as {port.type}, but {name} is "
                f"{' and '.join(map(str, sizes))} in its shape {list(got)}: the name is ignored",
                stacklevel=5,
            )
            bound[name] = _ANY_SIZE
        size, by = bound.setdefault(name, (sizes[0], port.name))
        if (size, by) != _ANY_SIZE and size != sizes[0]:
            raise RunError(
                f"input {port.name!r}: dimension {name} is {sizes[0]} here but {size} in "
                f"input {by!r}"
            )


def _named_sizes(want: tuple[Dim, ...], got: tuple[int, ...]) -> dict[str, list[int]]:
    """Return the sizes that each symbol of a shape has, each once."""
    found: dict[str, list[int]] = {}
    for w, g in zip(want, got, strict=True):
        if not isinstance(w, int) and g not in found.setdefault(str(w), []):
            found[str(w)].append(g)
    return found


def check_indices(
    ranges: Sequence[IndexRange], ports: Sequence[Port], arrays: Sequence[Array]
) -> None:
    """Raise RunError for an input that holds an index outside of what it is read from."""
    for r in ranges:
        array = next(a for p, a in zip(ports, arrays, strict=True) if p.name == r.input)
        if not array.size:
            continue
        # A narrow cast before the lookup wraps, as it does in the model.
        read = array.astype(r.dtype.numpy, copy=False)
        low, high = int(read.min()), int(read.max())
        if low < r.low or high > r.high:
            at = int(read.argmin() if low < r.low else read.argmax())
            raise RunError(outside(r, int(array.reshape(-1)[at])))


def within(ranges: Sequence[IndexRange], feeds: Mapping[str, Array]) -> dict[str, Array]:
    """Return `feeds` with made-up indices moved into the range of what they are read from."""
    fitting = dict(feeds)
    for r in ranges:
        if r.input in fitting:
            array = fitting[r.input]
            fitting[r.input] = np.minimum(array, max(r.high, 0)).astype(array.dtype)
    return fitting


def random_array(port: Port, rng: np.random.Generator) -> Array:
    """Return normal floats, or other values 0 and 1; symbolic dims are 1."""
    dims = [d if isinstance(d, int) else 1 for d in port.type.shape or ()]
    if port.type.dtype.is_float:
        return rng.standard_normal(dims).astype(port.type.dtype.numpy)
    return rng.integers(0, 2, dims).astype(port.type.dtype.numpy)
