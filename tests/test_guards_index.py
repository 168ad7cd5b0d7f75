"""Guards on indices and broadcasts say just what numpy needs, in every small case."""

from __future__ import annotations

from itertools import combinations, product
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from egraph_fusion import rulesets
from egraph_fusion.errors import RuleError
from egraph_fusion.ir.build import GraphBuilder
from egraph_fusion.ir.dims import Dim, symbol
from egraph_fusion.ir.graph import Array
from egraph_fusion.ir.tensors import DType, TensorType
from egraph_fusion.optimizer import optimize
from egraph_fusion.rulesets.functions import call
from egraph_fusion.rulesets.guards import GUARDS

Sizes = tuple[int, ...]
SHAPES: list[Sizes] = [s for rank in range(4) for s in product((1, 2), repeat=rank)]
OPERANDS: list[Sizes] = [(2, 3), (1, 3, 2), (2, 1, 3), (2, 2, 1), (4,), (1,), ()]


def _holds(name: str, *values: object) -> bool:
    assert name in rulesets.guards.GUARDS
    return GUARDS[name].test(*values)


def _same(x: Array, y: Array) -> bool:
    return x.shape == y.shape and bool((x == y).all())


def _from(axes: Sizes, start: int) -> Sizes:
    found = call("counted_from", (axes, start))
    assert isinstance(found, tuple)
    return tuple(int(a) for a in found)


@pytest.mark.parametrize("indices", [(), (1,), (2,), (1, 1), (2, 1)])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_axes_dropped_or_inserted_among_those_of_the_indices(indices: Sizes, axis: int) -> None:
    x = np.arange(27).reshape(3, 3, 3)
    i = np.arange(int(np.prod(indices))).reshape(indices)
    read = np.take(x, i, axis=axis)
    for count in range(3):
        for axes in combinations(range(read.ndim), count):
            inside = all(axis <= a < axis + i.ndim for a in axes)
            assert _holds("dropped_among", indices, axis, axes) == inside
            if inside and all(read.shape[a] == 1 for a in axes):
                smaller = np.squeeze(i, _from(axes, axis))
                assert _same(np.squeeze(read, axes), np.take(x, smaller, axis=axis))
        for axes in combinations(range(read.ndim + count), count):
            wider = np.expand_dims(read, axes)
            if _holds("inserted_among", indices, axis, axes):
                larger = np.expand_dims(i, _from(axes, axis))
                assert _same(wider, np.take(x, larger, axis=axis))
            else:
                assert any(not axis <= a < axis + i.ndim + count for a in axes)


def test_fits_between_is_what_a_broadcast_that_adds_nothing_needs() -> None:
    for e, a, b in product(SHAPES, SHAPES, SHAPES):
        try:
            fits = np.broadcast_shapes(e, a, b) == np.broadcast_shapes(a, b)
        except ValueError:
            fits = False
        assert _holds("fits_between", e, a, b) == fits


def _factorised(size: int) -> list[Sizes]:
    shapes = [s for rank in range(4) for s in product((1, 2, 3, 4, 6), repeat=rank)]
    return [s for s in shapes if int(np.prod(s)) == size]


def test_an_operand_same_beside_two_shapes_meets_the_same_elements() -> None:
    fired = 0
    for size, k in product((1, 4, 6), OPERANDS):
        for a, b in product(_factorised(size), repeat=2):
            if not _holds("same_beside", k, a, b):
                continue
            fired += 1
            x, y = np.arange(size).reshape(a), 1 + np.arange(int(np.prod(k))).reshape(k)
            assert _same((x * y).reshape(b), x.reshape(b) * y), (k, a, b)
    assert fired > 100
    assert _holds("same_beside", (3,), (2, 3), (1, 2, 3))
    assert not _holds("same_beside", (2, 1), (1, 2, 2), (2, 2, 1))
    assert not _holds("same_beside", (1, 1), (4,), (2, 2))


def test_an_operand_turned_back_has_no_leading_axes_of_size_one() -> None:
    shapes = {(): (), (5,): (5,), (3, 1): (3, 1, 1), (4, 1, 1): (4, 1), (1, 1, 5): (5,)}
    for k, turned in shapes.items():  # beside an operand of shape (2, 4, 3, 5), turned
        assert call("turned_back", (k, (2, 3, 4, 5), (0, 2, 1, 3))) == turned
    batch: Dim = symbol("batch")
    assert call("turned_back", ((batch, 1), (2, batch), (1, 0))) == (-1,)


def test_keeps_axes_is_what_a_reduction_leaves() -> None:
    for shape in SHAPES:
        x = np.zeros(shape)
        for count in range(len(shape) + 1):
            for axes in combinations(range(len(shape)), count):
                kept = x.sum(axes, keepdims=True).shape
                assert [s for s in SHAPES if _holds("keeps_axes", s, shape, axes)] == [kept]


@pytest.mark.parametrize("name", ["dropped_among", "inserted_among", "fits_between", "same_beside"])
def test_guards_are_documented(name: str) -> None:
    assert GUARDS[name].test.__doc__


def test_one_dimension_of_a_shape_to_make_may_be_unknown() -> None:
    batch: Dim = symbol("batch")
    assert call("shape_of", ((2, 3),)) == (2, 3)
    assert call("shape_of", ((batch, 3),)) == (-1, 3)
    for shape in ((batch, batch), (batch, 0), (2, 0)):
        with pytest.raises(RuleError):
            call("shape_of", (shape,))


def test_axes_beyond_the_channels() -> None:
    assert [call("beyond_channels", (s,)) for s in ((2, 3), (2, 3, 4), (2, 3, 4, 5))] == [
        (),
        (2,),
        (2, 3),
    ]


TYPES = [d for d in DType if d.is_float or d.is_integer or d is DType.BOOL]


def _edges(d: DType) -> Array:
    """Values at which a cast shows what it loses."""
    if d is DType.BOOL:
        return np.array([False, True])
    if d.is_integer:
        limits = np.iinfo(d.numpy)
        odd = [2**n + 1 for n in range(limits.bits) if 2**n + 1 < limits.max]
        return np.array([limits.min, *odd, limits.max], d.numpy)
    info: Any = ml_dtypes.finfo(d.numpy)  # type: ignore[no-untyped-call]
    few = np.array([0.5, 1 / 3, -1.5, 0.0, -0.0, np.inf, -np.inf]).astype(d.numpy)
    return np.concatenate([few, np.array([info.max, info.smallest_subnormal], d.numpy)])


def _back_and_forth(a: DType, t: DType) -> bool:
    """Whether all edges of `a` come back from `t`, as Python sees them."""
    values = _edges(a)
    with np.errstate(all="ignore"):
        there = values.astype(t.numpy)
    return [complex(v) for v in there.tolist()] == [complex(v) for v in values.tolist()] and all(
        int(v) == int(w)
        for v, w in zip(there.tolist(), values.tolist(), strict=True)
        if a.is_integer
    )


@pytest.mark.parametrize("a", TYPES)
def test_holds_all_of_is_what_a_cast_without_loss_needs(a: DType) -> None:
    # Casting to booleans keeps booleans only, whatever happens to be 0 or 1.
    expected = [t for t in TYPES if _back_and_forth(a, t)]
    assert [t for t in TYPES if _holds("holds_all_of", t, a)] == expected


def test_only_casts_of_fractions_to_integers_cut_something_off() -> None:
    cut = [p for p in product(TYPES, TYPES) if not _holds("cuts_nothing_off", *p)]
    assert cut == [(u, t) for u, t in product(TYPES, TYPES) if u.is_integer and t.is_float]
    assert not _holds("cuts_nothing_off", DType.STRING, DType.INT8)
    assert not _holds("holds_all_of", DType.STRING, DType.INT8)


def test_casts_are_composed_in_the_e_graph_where_nothing_is_lost() -> None:
    def nodes(kinds: str) -> int:
        first, inner, outer = kinds.split()
        x = TensorType(DType(first), (3,))
        b = GraphBuilder("casts", opset=21)
        there = b.op("Cast", b.add_input("x", x), to=inner)
        b.output(b.op("Cast", there, to=outer))
        return len(optimize(b.build(), rules=["cast-nested"]).graph.nodes)

    assert [nodes(k) for k in ("bool int64 float32", "int8 float32 float16")] == [1, 1]
    assert [nodes(k) for k in ("float32 float16 float32", "float64 float32 float64")] == [2, 2]
    assert [nodes(k) for k in ("int64 float32 float64", "int8 float32 uint8")] == [2, 2]
