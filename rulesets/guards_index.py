"""Guards on axes, indices, broadcasts and element types of operators that move elements."""

from __future__ import annotations

import numpy as np

from egraph_fusion.ir.dims import Shape, without_leading_ones
from egraph_fusion.ir.graph import AttrValue
from egraph_fusion.ir.tensors import DType, broadcast
from egraph_fusion.rulesets.guard_kinds import Form, declare_guard, ints

INTEGERS = (*(DType(f"{s}int{n}") for s in ("", "u") for n in (8, 16, 32, 64)), DType.BOOL)
FRACTIONS = {DType.BFLOAT16: 8, DType.FLOAT16: 11, DType.FLOAT32: 24, DType.FLOAT64: 53}
"""Bits of the significand, the hidden one included."""


def has_all(t: DType, a: DType) -> bool:
    """Whether every value of the second dtype is one of the first's."""
    if a not in (*INTEGERS, *FRACTIONS) or t in (a, DType.BOOL):
        return t == a
    if t in FRACTIONS:
        wider = a not in FRACTIONS or t.itemsize > a.itemsize
        return wider and FRACTIONS[t] >= (FRACTIONS[a] if a in FRACTIONS else _bits(a))
    if t not in INTEGERS or a in FRACTIONS:
        return False
    unsigned = t.value.startswith("u")
    return _bits(t) >= _bits(a) and not (unsigned and a.value.startswith("int"))


@declare_guard(Form.DTYPE, 2)
def holds_all_of(t: DType, a: DType) -> bool:
    """Every value of the second tensor's element type is one of the first's."""
    return has_all(t, a)


def _bits(integer: DType) -> int:
    """Bits without the sign's."""
    return int(np.iinfo(integer.numpy).max).bit_length() if integer is not DType.BOOL else 1


@declare_guard(Form.DTYPE, 2)
def cuts_nothing_off(u: DType, t: DType) -> bool:
    """To turn the second tensor's elements into the first's, no fraction is cut off."""
    known = {u, t} <= {*INTEGERS, *FRACTIONS}
    return known and (u in FRACTIONS or u is DType.BOOL or t in INTEGERS)


@declare_guard(Form.TYPE, 3)
def dropped_among(i: Shape, axis: AttrValue, axes: AttrValue) -> bool:
    """Of what Gather reads along `axis` at indices `i`, these axes are all axes of `i`."""
    (start,) = ints(axis)
    return all(start <= a < start + len(i) for a in ints(axes))


@declare_guard(Form.TYPE, 3)
def inserted_among(i: Shape, axis: AttrValue, axes: AttrValue) -> bool:
    """Axes inserted into what Gather reads along `axis` at indices `i` lie among those of `i`."""
    (start,), new = ints(axis), ints(axes)
    return all(start <= a < start + len(i) + len(new) for a in new)


@declare_guard(Form.TYPE, 3)
def fits_between(e: Shape, a: Shape, b: Shape) -> bool:
    """`e` broadcasts into the shape that broadcasting `a` with `b` gives."""
    together = broadcast(a, b)
    return together is not None and broadcast(e, together) == together


@declare_guard(Form.TYPE, 3)
def same_beside(k: Shape, a: Shape, b: Shape) -> bool:
    """`k` broadcasts into `a` and `b`, and both have the same sizes from its first axis on.

    Axes of size 1 before all others do not count as axes of `k`.
    """
    rank = len(without_leading_ones(k))
    if broadcast(k, a) != a or broadcast(k, b) != b:
        return False
    return a[len(a) - rank :] == b[len(b) - rank :]


@declare_guard(Form.TYPE, 4)
def sizes_of(sizes: AttrValue, a: Shape, b: Shape, axis: AttrValue) -> bool:
    """`a` and `b` have these two sizes along the axis."""
    (n,) = ints(axis)
    return ints(sizes) == (a[n], b[n])


@declare_guard(Form.TYPE, 3)
def keeps_axes(y: Shape, a: Shape, axes: AttrValue) -> bool:
    """`y` has the shape of `a` reduced along these axes, which stay with size 1."""
    gone = ints(axes)
    return y == tuple(1 if n in gone else d for n, d in enumerate(a))


@declare_guard(Form.TYPE, 2)
def among(axis: AttrValue, axes: AttrValue) -> bool:
    """The axis is one of these axes."""
    return set(ints(axis)) <= set(ints(axes))
