"""Guards on operands: their values, shapes, dtypes and attributes."""

from __future__ import annotations

import numpy as np

from egraph_fusion.ir.dims import Shape
from egraph_fusion.ir.graph import Array, AttrValue
from egraph_fusion.ir.tensors import DType, broadcast
from egraph_fusion.rulesets.guard_kinds import Form, declare_guard, ints


@declare_guard(Form.VALUE, 1)
def nonneg(x: Array) -> bool:
    """Every element is ≥ 0."""
    return bool((x >= 0).all())


@declare_guard(Form.VALUE, 1)
def positive(x: Array) -> bool:
    """Every element is > 0."""
    return bool((x > 0).all())


@declare_guard(Form.VALUE, 1)
def nonzero(x: Array) -> bool:
    """No element is 0."""
    return bool((x != 0).all())


@declare_guard(Form.VALUE, 1)
def finite(x: Array) -> bool:
    """Every element is finite."""
    return bool(np.isfinite(x).all())


@declare_guard(Form.VALUE, 1)
def integer(x: Array) -> bool:
    """No element has a fraction: each is an integer, or else infinite or NaN.

    So much is kept by integers that are added, multiplied and converted until they overflow, too.
    """
    if DType.of(x.dtype).is_whole:
        return True
    with np.errstate(invalid="ignore"):
        return bool(((x == np.trunc(x)) | np.isnan(x)).all())


@declare_guard(Form.VALUE, 2)
def in_range_of(x: Array, t: Array) -> bool:
    """Elements of `x` are at least the first integer of `t`'s type and less than one past the last.

    In types that hold fractions, too, none is.
    """
    return bool(inside_range_of(DType.of(t.dtype), x).all())


@declare_guard(Form.VALUE, 1)
def uniform(x: Array) -> bool:
    """All elements are the same known number."""
    return bool(x.size > 0 and (x == x.reshape(-1)[0]).all())


@declare_guard(Form.GRAPH, 1)
def constant(_x: Array) -> bool:
    """The tensor is known at compile time."""
    return True


@declare_guard(Form.GRAPH, 1)
def varying(_x: Array) -> bool:
    """The tensor depends on an input."""
    return True


@declare_guard(Form.GRAPH, 1)
def one_consumer(_x: Array) -> bool:
    """Only one node reads the tensor, so computing it differently duplicates nothing."""
    return True


@declare_guard(Form.DTYPE, 2)
def same_dtype(a: object, b: object) -> bool:
    """Both tensors have the same element type."""
    return a == b


@declare_guard(Form.TYPE, 2)
def same_shape(a: Shape, b: Shape) -> bool:
    """Both tensors have the same shape."""
    return a == b


@declare_guard(Form.TYPE, None)
def unenlarged(a: Shape, *operands: Shape) -> bool:
    """`a` has the shape that these of its operands broadcast to: the others do not enlarge it."""
    return broadcast(*operands) == a


@declare_guard(Form.TYPE, 1)
def one_element(a: Shape) -> bool:
    """Every dimension of the tensor is 1."""
    return all(d == 1 for d in a)


@declare_guard(Form.TYPE, 1)
def scalar(a: Shape) -> bool:
    """The tensor has rank 0."""
    return not a


@declare_guard(Form.TYPE, 2)
def rank_at_least(a: Shape, rank: int) -> bool:
    """The tensor has at least this rank."""
    return len(a) >= rank


@declare_guard(Form.TYPE, 2)
def rank_is(a: Shape, rank: int) -> bool:
    """The tensor has this rank."""
    return len(a) == rank


@declare_guard(Form.TYPE, 2)
def same_rank(a: Shape, b: Shape) -> bool:
    """Both tensors have the same rank."""
    return len(a) == len(b)


@declare_guard(Form.TYPE, 2)
def same_batch(a: Shape, b: Shape) -> bool:
    """Both tensors hold matrices and agree in all dimensions before the last two."""
    return len(a) == len(b) >= 2 and a[:-2] == b[:-2]


@declare_guard(Form.TYPE, 3)
def same_except(a: Shape, b: Shape, axis: int) -> bool:
    """Both tensors have the same rank and, save along this axis, the same shape."""
    if len(a) != len(b) or not -len(a) <= axis < len(a):
        return False
    at = axis % len(a)
    return a[:at] + a[at + 1 :] == b[:at] + b[at + 1 :]


@declare_guard(Form.TYPE, 3)
def same_along(a: Shape, b: Shape, axis: int) -> bool:
    """Both tensors have the same rank and the same size along this axis."""
    return len(a) == len(b) and -len(a) <= axis < len(a) and a[axis] == b[axis]


@declare_guard(Form.TYPE, 2)
def broadcasts_into(a: Shape, b: Shape) -> bool:
    """Broadcasting `a` with `b` gives the shape of `b`."""
    return broadcast(a, b) == b


@declare_guard(Form.TYPE, 3)
def size_one_along(k: Shape, x: Shape, axes: AttrValue) -> bool:
    """`k` broadcasts into `x` and has size 1 along these axes of `x`."""
    return size_one_along_shapes(k, x, axes)


@declare_guard(Form.TYPE, 4)
def fits_reduced(k: Shape, x: Shape, axes: AttrValue, keepdims: AttrValue) -> bool:
    """`k` broadcasts into `x`, and in the same way into `x` reduced along these axes."""
    if not size_one_along_shapes(k, x, axes):
        return False
    left = len(x) - len(ints(axes))
    # Without the reduced axes, those before them stand further right, where `k` has others.
    moved = k[: max((a + 1 + len(k) - len(x) for a in ints(axes)), default=0)]
    return bool(keepdims) or (len(k) <= left and all(d == 1 for d in moved))


@declare_guard(Form.TYPE, 2)
def different(a: AttrValue, b: AttrValue) -> bool:
    """The two attributes differ."""
    return a != b


@declare_guard(Form.TYPE, 2)
def disjoint(axes: AttrValue, others: AttrValue) -> bool:
    """The two attributes have no axis in common; both count from the front."""
    return not {*ints(axes)} & {*ints(others)}


@declare_guard(Form.TYPE, 5)
def lies_within(
    v: Shape, w: Shape, inner: AttrValue, outer: AttrValue, dilations: AttrValue
) -> bool:
    """With zeros around it, kernel `v` under pads `inner` is one like `w` under pads `outer`."""
    steps = ints(dilations)
    wider = [o - i for o, i in zip(ints(outer), ints(inner), strict=True)]
    if v[:2] != w[:2] or any(e < 0 or e % d for e, d in zip(wider, steps * 2, strict=True)):
        return False
    sides = zip(v[2:], wider[: len(steps)], wider[len(steps) :], steps, strict=True)
    return w[2:] == tuple(n + (before + after) // d for n, before, after, d in sides)


@declare_guard(Form.TYPE, 1)
def identity_perm(perm: AttrValue) -> bool:
    """The permutation leaves every axis where it is."""
    return ints(perm) == tuple(range(len(ints(perm))))


@declare_guard(Form.TYPE, 1)
def all_zero(amounts: AttrValue) -> bool:
    """Every number of the attribute is 0."""
    return not any(ints(amounts))


@declare_guard(Form.TYPE, 1)
def forwards(steps: AttrValue) -> bool:
    """No step of the attribute is negative: no axis is reversed."""
    return all(s > 0 for s in ints(steps))


@declare_guard(Form.TYPE, 1)
def swaps_last_two(perm: AttrValue) -> bool:
    """The permutation exchanges the last two axes and nothing else."""
    p = ints(perm)
    n = len(p)
    return n > 1 and p == (*range(n - 2), n - 1, n - 2)


@declare_guard(Form.TYPE, 2)
def per_channel(c: Shape, x: Shape) -> bool:
    """`c` broadcasts into `x` and varies along axis 1 of `x` at most."""
    return per_channel_shapes(c, x)


@declare_guard(Form.TYPE, 2)
def along_last(c: Shape, x: Shape) -> bool:
    """`c` broadcasts into `x` and varies along its last axis at most."""
    return broadcasts_into_shapes(c, x) and len(x) > 0 and all(d == 1 for d in c[:-1])


@declare_guard(Form.TYPE, 2)
def keeps_last(x: Shape, y: Shape) -> bool:
    """Both tensors have the same size, not 0, along their last axes."""
    return len(x) > 0 and len(y) > 0 and x[-1] == y[-1] != 0


def range_of_integers(dtype: DType) -> tuple[int, int] | None:
    """Return the first integer of a type that holds integers alone, and the first beyond them.

    Every float type but float16 holds both; the last integer it may not.
    """
    if dtype is DType.BOOL:
        return (0, 2)
    if not dtype.is_integer:
        return None
    limits = np.iinfo(dtype.numpy)
    return int(limits.min), int(limits.max) + 1


def inside_range_of(dtype: DType, x: Array) -> Array:
    """Return which elements are at least a type's first integer and less than one past the last."""
    found = range_of_integers(dtype)
    if found is None:
        return np.zeros(x.shape, np.bool_)
    wide = x.astype(object if DType.of(x.dtype).is_whole else np.float64)
    return np.asarray((wide >= found[0]) & (wide < found[1]), np.bool_)


def per_channel_shapes(c: Shape, x: Shape) -> bool:
    """Whether shape `c` broadcasts into `x` and varies along axis 1 of `x` at most."""
    shift = len(x) - len(c)
    varies = {i + shift for i, d in enumerate(c) if d != 1}
    return broadcasts_into_shapes(c, x) and len(x) > 1 and varies <= {1}


def broadcasts_into_shapes(a: Shape, b: Shape) -> bool:
    """Whether broadcasting shape `a` with `b` gives `b`."""
    return broadcast(a, b) == b


def size_one_along_shapes(k: Shape, x: Shape, axes: AttrValue) -> bool:
    """Whether shape `k` broadcasts into `x` and has size 1 along these axes of `x`."""
    shift = len(x) - len(k)
    along = [a - shift for a in ints(axes) if a >= shift]
    return broadcasts_into_shapes(k, x) and all(k[a] == 1 for a in along)
