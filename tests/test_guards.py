"""Guards and functions on axes say just what numpy's reductions need, in every small case."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, permutations, product

import numpy as np
import pytest

from egraph_fusion.ir.graph import Array
from egraph_fusion.rulesets.functions import call
from egraph_fusion.rulesets.guards import GUARDS

Sizes = tuple[int, ...]
SHAPES: list[Sizes] = [s for rank in range(4) for s in product((1, 2, 3), repeat=rank)]
fits_reduced = GUARDS["fits_reduced"].test


def _axes(rank: int) -> Iterator[Sizes]:
    for count in range(rank + 1):
        yield from combinations(range(rank), count)


def _computed(name: str, *values: object) -> Sizes:
    """Apply a function of the rules that gives axes."""
    found = call(name, values)
    assert isinstance(found, tuple)
    return tuple(a for a in found if isinstance(a, int))


def _same(x: Array, y: Array) -> bool:
    return x.shape == y.shape and bool((x == y).all())


def _broadcasts(shape: Sizes, into: Sizes) -> bool:
    try:
        return np.broadcast_shapes(shape, into) == into
    except ValueError:
        return False


def _scales_after(x: Array, k: Array, axes: Sizes, keep: bool) -> bool:
    """Whether numpy gives the same sum when `x` is scaled after it."""
    total = x.sum(axes, keepdims=keep)
    try:
        return _same((x * k).sum(axes, keepdims=keep), total * k)
    except ValueError:
        return False


@pytest.mark.parametrize("keep", [True, False])
def test_fits_reduced_is_what_scaling_a_sum_needs(keep: bool) -> None:
    rng = np.random.default_rng(0)
    wrong: list[tuple[Sizes, Sizes, Sizes]] = []
    for shape, scale in product(SHAPES, SHAPES):
        x, k = rng.integers(1, 1000, shape), rng.integers(2, 1000, scale)
        for axes in _axes(len(shape)):
            expected = _broadcasts(scale, shape) and _scales_after(x, k, axes, keep)
            if fits_reduced(scale, shape, axes, int(keep)) != expected:
                wrong.append((scale, shape, axes))
    assert wrong == []


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("perm", [p for rank in range(4) for p in permutations(range(rank))])
def test_reducing_a_transposed_tensor_transposes_the_reduced_one(perm: Sizes, keep: bool) -> None:
    x = np.random.default_rng(0).integers(0, 1000, (2, 3, 4)[: len(perm)])
    for axes in _axes(len(perm)):
        inner = _computed("axes_before", axes, perm)
        outer = _computed("perm_reduced", perm, axes, int(keep))
        total = np.asarray(x.sum(inner, keepdims=keep))
        expected = np.asarray(np.transpose(x, perm).sum(axes, keepdims=keep))
        assert _same(np.transpose(total, outer), expected), axes


def test_same_except_is_what_joining_along_an_axis_needs() -> None:
    shapes = [s for s in SHAPES if len(s) < 3]
    wrong: list[tuple[Sizes, Sizes, int]] = []
    for a, b, axis in product(shapes, shapes, (-2, -1, 0, 1)):
        try:
            np.concatenate([np.zeros(a), np.zeros(b)], axis)
            joins = True
        except ValueError:
            joins = False
        if GUARDS["same_except"].test(a, b, axis) != joins:
            wrong.append((a, b, axis))
    assert wrong == []


def _reshapes() -> Iterator[tuple[Sizes, Sizes]]:
    """Yield pairs of shapes of as many elements."""
    yield from ((a, y) for a, y in product(SHAPES, SHAPES) if np.prod(a) == np.prod(y))


def test_keeps_last_is_what_a_matrix_product_past_a_reshape_needs() -> None:
    rng = np.random.default_rng(0)
    for a, y in _reshapes():
        x = rng.integers(1, 1000, a)
        kept = GUARDS["keeps_last"].test(a, y)
        assert kept == bool(a and y and a[-1] == y[-1])
        if kept:
            w = rng.integers(1, 1000, (a[-1], 2))
            after = x.reshape(y) @ w
            assert _same(after, (x @ w).reshape(after.shape)), (a, y)
    assert not GUARDS["keeps_last"].test((3, 0), (5, 0))


def test_a_matrix_product_with_a_constant_sum_adds_a_row_of_constants() -> None:
    rng = np.random.default_rng(0)
    x, w, b = rng.integers(1, 9, (2, 4, 3)), rng.integers(1, 9, (3, 5)), rng.integers(1, 9, 3)
    column = b.reshape(_computed("column", b.shape))
    total = (column * w).sum(_computed("last_but_one", w.shape), keepdims=True)
    assert _same((x + b) @ w, x @ w + total)
    assert call("in_rank_of", ((2, 3), (5, 4, 2, 3))) == (1, 1, 2, 3)
    assert (call("flipped", (0,)), call("flipped", (1,))) == (1, 0)
