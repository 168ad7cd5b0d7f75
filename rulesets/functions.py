"""Named functions that compute attributes on the right sides of rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from egraph_fusion.errors import RuleError
from egraph_fusion.ir.dims import Shape, product, without_leading_ones
from egraph_fusion.ir.graph import AttrValue
from egraph_fusion.ir.ops.reading import normal_axis
from egraph_fusion.rulesets.pattern import Attribute, Computed, Pattern

FUNCTIONS: dict[str, Callable[..., AttrValue]] = {}


def _function(meaning: Callable[..., AttrValue]) -> Callable[..., Computed]:
    name = meaning.__name__
    FUNCTIONS[name] = meaning

    def build(*args: Attribute | Pattern | AttrValue) -> Computed:
        return Computed(name, args)

    build.__name__, build.__doc__ = name, meaning.__doc__
    return build


def call(name: str, values: tuple[Any, ...]) -> AttrValue:
    """Apply the function `name` to attribute values and shapes."""
    return FUNCTIONS[name](*values)


@_function
def composed(outer: AttrValue, inner: AttrValue) -> AttrValue:
    """The permutation that does `inner`, then `outer`."""
    return tuple(_ints(inner)[i] for i in _ints(outer))


@_function
def inverse(perm: AttrValue) -> AttrValue:
    """The permutation that undoes `perm`."""
    p = _ints(perm)
    return tuple(p.index(i) for i in range(len(p)))


@_function
def axes_before(axes: AttrValue, perm: AttrValue) -> AttrValue:
    """The axes that a transposition by `perm` brings to `axes`."""
    p = _ints(perm)
    return tuple(sorted(p[a] for a in _ints(axes)))


@_function
def perm_reduced(perm: AttrValue, axes: AttrValue, keepdims: AttrValue) -> AttrValue:
    """What is left of `perm` when the result is reduced along `axes`."""
    p = _ints(perm)
    if keepdims:
        return p
    gone = {p[a] for a in _ints(axes)}
    left = [q for i, q in enumerate(p) if i not in _ints(axes)]
    return tuple(q - sum(g < q for g in gone) for q in left)


@_function
def axis_before(axis: AttrValue, perm: AttrValue) -> AttrValue:
    """The axis that a transposition by `perm` brings to `axis`."""
    return _ints(perm)[_int(axis)]


@_function
def united(axes: AttrValue, others: AttrValue) -> AttrValue:
    """The axes in either, ascending."""
    return tuple(sorted({*_ints(axes), *_ints(others)}))


@_function
def reduced_twice(x: Shape, inner: AttrValue, outer: AttrValue, keepdims: AttrValue) -> AttrValue:
    """The axes of `x` that reducing along `inner`, then the result along `outer`, reduces."""
    left = [a for a in range(len(x)) if keepdims or a not in _ints(inner)]
    return tuple(sorted({*_ints(inner), *(left[a] for a in _ints(outer))}))


@_function
def unsqueezed_twice(x: Shape, inner: AttrValue, outer: AttrValue) -> AttrValue:
    """The axes that inserting `inner` into `x`, then `outer` into the result, inserts."""
    rank = len(x) + len(_ints(inner)) + len(_ints(outer))
    left = [a for a in range(rank) if a not in _ints(outer)]
    return tuple(sorted({*_ints(outer), *(left[a] for a in _ints(inner))}))


@_function
def counted_from(axes: AttrValue, start: AttrValue) -> AttrValue:
    """The axes, counted from axis `start`."""
    return tuple(a - _int(start) for a in _ints(axes))


@_function
def after_channels(x: Shape) -> AttrValue:
    """The axes that make a per-channel vector broadcast into `x`: 1, ... for rank - 2 of them."""
    return tuple(range(1, len(x) - 1))


@_function
def beyond_channels(x: Shape) -> AttrValue:
    """The axes of `x` after the batch and the channels."""
    return tuple(range(2, len(x)))


@_function
def flat(c: Shape) -> AttrValue:
    """The shape of the same elements as a vector."""
    return (_size(c),)


@_function
def leading(c: Shape, w: Shape) -> AttrValue:
    """The shape that makes a per-channel tensor vary along the first axis of `w` only."""
    return (_size(c), *(1 for _ in w[1:]))


@_function
def by_input(k: Shape, w: Shape, group: AttrValue) -> AttrValue:
    """The shape that makes a per-channel tensor scale the weights that read the channel.

    They lie along the second axis of `w`, or along the first where a filter reads one channel.
    """
    size, ones = _size(k), tuple(1 for _ in w[2:])
    return (1, size, *ones) if size == 1 or group == 1 else (size, 1, *ones)


@_function
def after_first(w: Shape) -> AttrValue:
    """All axes of `w` but the first."""
    return tuple(range(1, len(w)))


@_function
def as_matrix(w: Shape) -> AttrValue:
    """The shape of the same elements as a matrix with the first axis of `w` as rows."""
    return (_size(w[:1]), _size(w[1:]))


@_function
def filters(outer: Shape, inner: Shape) -> AttrValue:
    """The shape of a kernel with as many filters as `outer` that read what `inner` reads."""
    return tuple(_size((d,)) for d in (outer[0], *inner[1:]))


@_function
def vector_of(w: Shape) -> AttrValue:
    """The shape of a vector with one element for each index of the first axis of `w`."""
    return (_known(w[0]),)


@_function
def column(k: Shape) -> AttrValue:
    """The shape of the same elements as a matrix of one column."""
    return (_size(k), 1)


@_function
def last_but_one(w: Shape) -> AttrValue:
    """The axis of `w` along which a matrix product from the left sums."""
    return (len(w) - 2,)


@_function
def rows(a: Shape, b: Shape) -> AttrValue:
    """The axis of the product of two matrices (or stacks of them) that counts its rows."""
    return max(len(a), len(b)) - 2


@_function
def in_rank_of(k: Shape, x: Shape) -> AttrValue:
    """The shape of `k` with leading axes of size 1 that bring it to the rank of `x`."""
    return (*(1 for _ in x[len(k) :]), *(_size((d,)) for d in k))


@_function
def flipped(flag: AttrValue) -> AttrValue:
    """1 for a flag that is 0, else 0."""
    return 0 if _int(flag) else 1


@_function
def second(w: Shape) -> AttrValue:
    """The shape of a vector with one element for each index of the second axis of `w`."""
    return (_known(w[1]),)


@_function
def shape_of(x: Shape) -> AttrValue:
    """The shape of a tensor without a 0 (which Reshape would copy), for Reshape to make it.

    One dimension may be unknown: Reshape infers it.
    """
    return _to_make(x)


@_function
def turned_back(k: Shape, x: Shape, perm: AttrValue) -> AttrValue:
    """The shape of `k`, brought to the rank of `x` and then out of `perm`.

    Axes of size 1 before all others are left out, as broadcasting does not need them.
    """
    wide, order = (1,) * (len(x) - len(k)) + k, _ints(perm)
    return _to_make(without_leading_ones(tuple(wide[order.index(n)] for n in range(len(order)))))


def _to_make(x: Shape) -> tuple[int, ...]:
    unknown = [n for n, d in enumerate(x) if not isinstance(d, int)]
    return tuple(-1 if [n] == unknown else _size((d,)) for n, d in enumerate(x))


@_function
def group_size(x: Shape, axes: AttrValue) -> AttrValue:
    """The number of elements that a reduction along `axes` combines."""
    return float(_known(product(x[a] for a in _ints(axes))))


@_function
def counted(axes: AttrValue, added: AttrValue, *shapes: Shape) -> AttrValue:
    """Axes counted from the front, of a tensor of `added` more dimensions than any of `shapes`."""
    rank = max(map(len, shapes), default=0) + _int(added)
    found = tuple(normal_axis(a, rank) for a in _ints(axes))
    if len(set(found)) < len(found):
        raise RuleError(f"{axes!r} names an axis of rank {rank} twice")
    return found[0] if isinstance(axes, int) else found


@_function
def zeros_around(inner: AttrValue, outer: AttrValue, dilations: AttrValue) -> AttrValue:
    """The pads of a kernel that make up for pads `inner` of a convolution instead of `outer`."""
    steps = _ints(dilations)
    wider = zip(_ints(outer), _ints(inner), steps * 2, strict=True)
    margins = tuple((o - i) // d for o, i, d in wider)
    return (0, 0, *margins[: len(steps)], 0, 0, *margins[len(steps) :])


@_function
def padded_more(pads: AttrValue, around: AttrValue) -> AttrValue:
    """Pads of a convolution whose image is no longer padded `around` its positions before."""
    begins, ends = _halves(_ints(around))
    return tuple(p + a for p, a in zip(_ints(pads), begins[2:] + ends[2:], strict=True))


@_function
def summed(first: AttrValue, second: AttrValue) -> AttrValue:
    """The sums of two lists of integers."""
    return tuple(a + b for a, b in zip(_ints(first), _ints(second), strict=True))


@_function
def doubled(count: AttrValue) -> AttrValue:
    """Twice an integer."""
    return 2 * _int(count)


@_function
def times(a: AttrValue, b: AttrValue) -> AttrValue:
    """The product of two numbers."""
    return _number(a) * _number(b)


def _halves(values: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return values[: len(values) // 2], values[len(values) // 2 :]


def _size(shape: Shape) -> int:
    size = _known(product(shape))
    if size == 0:
        raise RuleError(f"a tensor of shape {shape} is empty")
    return size


def _known(dim: Any) -> int:
    if not isinstance(dim, int):
        raise RuleError(f"dimension {dim} is not known")
    return dim


def _int(value: AttrValue) -> int:
    if not isinstance(value, int):
        raise RuleError(f"{value!r} is not an integer")
    return value


def _number(value: AttrValue) -> float:
    if not isinstance(value, int | float):
        raise RuleError(f"{value!r} is not a number")
    return float(value)


def _ints(value: AttrValue) -> tuple[int, ...]:
    if isinstance(value, int):
        return (value,)
    if isinstance(value, tuple):
        return tuple(v for v in value if isinstance(v, int))
    raise RuleError(f"{value!r} does not hold integers")
