"""Shape arithmetic at import: integers folded, symbolic sizes followed through them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from egraph_fusion.errors import REFUSALS, EgraphFusionError
from egraph_fusion.frontend.forms import Form
from egraph_fusion.ir.dims import Dim, Shape
from egraph_fusion.ir.graph import Array, Attrs
from egraph_fusion.ir.ops.operator import Operator
from egraph_fusion.ir.tensors import DType, TensorType

MAX_BYTES = 2**20
MAX_SHAPE_ELEMENTS = 64


def folded(
    operator: Operator,
    attrs: Attrs,
    outputs: Sequence[TensorType],
    operands: Sequence[Array | None],
    from_shape: bool,
) -> tuple[Array, ...] | None:
    """Return the values of a node whose operands are all constant, or None to leave it.

    Only integers and booleans are folded here, up to `MAX_BYTES`; floating-point steps only inside
    shape arithmetic (`from_shape`: an operand was computed from a shape) and on small vectors.
    """
    arrays = [v for v in operands if v is not None]
    dtypes = [DType.of(a.dtype) for a in arrays] + [t.dtype for t in outputs]
    exact = all(d.is_integer or d is DType.BOOL for d in dtypes)
    small = all(a.size <= MAX_SHAPE_ELEMENTS for a in arrays)
    floats = all(d.is_float or d.is_integer or d is DType.BOOL for d in dtypes)
    if not exact and not (from_shape and small and floats):
        return None
    if any(t.nbytes is None or t.nbytes > MAX_BYTES for t in outputs):
        return None
    try:
        return operator.evaluate(operands, attrs)
    except (*REFUSALS, MemoryError):
        return None


def shape_dims(form: Form) -> Shape | None:
    """Return the sizes that a Shape or Size node gives, or None if the rank is unknown."""
    kind = form.types[0] if form.types else None
    if kind is None or kind.shape is None:
        return None
    if form.op == "Size":
        size = kind.size
        return None if size is None else (size,)
    start, end = form.attr_int("start", 0), form.attr_int("end", len(kind.shape))
    return kind.shape[slice(start, end)]


Follow = Callable[[Form, Sequence[tuple[Dim, ...]]], tuple[Dim, ...] | None]


def followed(form: Form, known: Sequence[tuple[Dim, ...] | None]) -> Shape | None:
    """Return the entries of an integer scalar or vector as dimensions, or None if not decided.

    `known` holds the operands' entries.  Only steps that keep entries whole are followed.
    """
    step = _STEPS.get(form.op)
    data = known[: _OPERANDS.get(form.op, len(known))]
    entries = [k for k in data if k is not None]
    if step is None or len(entries) < len(data) or not entries:
        return None
    try:
        return step(form, entries)
    except (EgraphFusionError, IndexError, ValueError):
        return None


def _gather(form: Form, x: Sequence[tuple[Dim, ...]]) -> tuple[Dim, ...] | None:
    picked = form.array(1, "indices")
    return tuple(x[0][int(i)] for i in picked.reshape(-1)) if picked.ndim <= 1 else None


def _slice(form: Form, x: Sequence[tuple[Dim, ...]]) -> tuple[Dim, ...] | None:
    starts = form.ints(1, "starts") if form.has(1) else form.attr_ints("starts")
    ends = form.ints(2, "ends") if form.has(2) else form.attr_ints("ends")
    steps = form.ints(4, "steps") if form.has(4) else (1,)
    if starts is None or ends is None or len(starts) != 1 or len(ends) != 1:
        return None
    return x[0][slice(starts[0], ends[0], steps[0])] if steps[0] > 0 else None


def _concat(_form: Form, x: Sequence[tuple[Dim, ...]]) -> tuple[Dim, ...] | None:
    return tuple(d for part in x for d in part)


def _kept(_form: Form, x: Sequence[tuple[Dim, ...]]) -> tuple[Dim, ...] | None:
    return x[0]


def _cast(form: Form, x: Sequence[tuple[Dim, ...]]) -> tuple[Dim, ...] | None:
    from onnx import TensorProto

    return x[0] if form.attr_int("to", 0) in (TensorProto.INT64, TensorProto.INT32) else None


def _arithmetic(function: Callable[[Dim, Dim], Dim]) -> Follow:
    def step(_form: Form, x: Sequence[tuple[Dim, ...]]) -> tuple[Dim, ...] | None:
        a, b = x
        if len(a) != len(b) and 1 not in (len(a), len(b)):
            return None
        count = max(len(a), len(b))
        left, right = (v * count if len(v) == 1 else v for v in (a, b))
        return tuple(function(p, q) for p, q in zip(left, right, strict=True))

    return step


_STEPS: Mapping[str, Follow] = {
    "Gather": _gather,
    "Slice": _slice,
    "Concat": _concat,
    "Unsqueeze": _kept,
    "Squeeze": _kept,
    "Identity": _kept,
    "Cast": _cast,
    "Add": _arithmetic(lambda p, q: p + q),
    "Sub": _arithmetic(lambda p, q: p - q),
    "Mul": _arithmetic(lambda p, q: p * q),
}
_OPERANDS = {"Gather": 1, "Slice": 1, "Unsqueeze": 1, "Squeeze": 1, "Cast": 1}


def constant_range(numbers: Sequence[Array]) -> Array | None:
    """Return the numbers of a Range from constant start, limit and step, or None to leave it.

    Floats are computed in float64 and rounded once.
    """
    if len(numbers) != 3 or any(n.size != 1 for n in numbers):
        return None
    dtype = DType.of(numbers[0].dtype)
    if not (dtype.is_integer or dtype.is_float):
        return None
    kind = int if dtype.is_integer else float
    start, limit, step = (kind(n.reshape(())) for n in numbers)
    count = _count(start, limit, step)
    if count is None or count * dtype.itemsize > MAX_BYTES:
        return None
    if dtype.is_integer:
        return np.array(range(int(start), int(limit), int(step)), dtype.numpy)
    return (start + step * np.arange(count, dtype=np.float64)).astype(dtype.numpy)


def _count(start: float, limit: float, step: float) -> int | None:
    """Return how many numbers a Range gives, or None if that is not defined."""
    if step == 0 or not all(map(math.isfinite, (start, limit, step))):
        return None
    if isinstance(start, int) and isinstance(limit, int) and isinstance(step, int):
        return len(range(start, limit, step))
    return max(0, math.ceil((limit - start) / step))


def entries_of(array: Array) -> Shape | None:
    """Return an integer scalar or vector's entries as dimensions, or None for any other array."""
    if array.ndim > 1 or array.dtype.kind not in "iu" or array.size > MAX_SHAPE_ELEMENTS:
        return None
    return tuple(int(v) for v in np.atleast_1d(array))
