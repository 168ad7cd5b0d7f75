"""Iteration spaces: every point once, whatever is merged, split or cut."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egraph_fusion.codegen.index import simplify
from egraph_fusion.codegen.layout import Layout
from egraph_fusion.codegen.loop_walk import substitute
from egraph_fusion.codegen.loops import (
    Call,
    Const,
    Expr,
    Select,
    Var,
)
from egraph_fusion.codegen.lower_space import (
    Space,
    chunked,
    divisions,
    grouped_space,
    merged_space,
    plain_space,
    split,
    split_point,
)

SHAPES = st.lists(st.integers(1, 5), min_size=1, max_size=4)


def value(expr: Expr, at: dict[str, Expr]) -> int:
    """Evaluate an index expression."""
    found = simplify(substitute(expr, at))
    assert isinstance(found, Const)
    return int(found.value)


def points(space: Space) -> Iterator[tuple[int, ...]]:
    """Yield the logical index of every point, in order."""
    yield from _points(space, {})


def _points(space: Space, at: dict[str, Expr]) -> Iterator[tuple[int, ...]]:
    if len(at) == len(space.names):
        yield tuple(value(i, at) for i in space.index)
        return
    name, extent = space.names[len(at)], space.extents[len(at)]
    for i in range(value(extent, at)):
        yield from _points(space, {**at, name: Const(i)})


def everything(shape: list[int]) -> set[tuple[int, ...]]:
    """All indices of a shape."""
    return set(product(*map(range, shape)))


@given(SHAPES, st.data())
def test_plain_space_visits_every_index_in_memory_order(
    shape: list[int], data: st.DataObject
) -> None:
    layout = Layout(tuple(data.draw(st.permutations(range(len(shape))))))
    found = list(points(plain_space(shape, layout)))
    strides = layout.strides(shape)
    places = [sum(i * s for i, s in zip(index, strides, strict=True)) for index in found]
    assert places == list(range(prod(shape)))


@given(SHAPES)
def test_merged_space_visits_every_index_once(shape: list[int]) -> None:
    layout = Layout(tuple(range(len(shape))))
    found = list(points(merged_space(shape, layout, lambda s: 0)))
    assert len(found) == prod(shape)
    assert set(found) == everything(shape)


def test_a_dense_walk_merges_into_one_loop() -> None:
    shape, layout = (4, 5, 6), Layout((0, 1, 2))

    def measure(space: Space) -> int:
        return divisions(
            [space.simplify(space.index[0] * 30 + space.index[1] * 6 + space.index[2])]
        )

    assert merged_space(shape, layout, measure).names == ("i0",)


@given(st.integers(1, 200), st.integers(1, 40))
def test_chunks_cover_a_loop_once(length: int, chunk: int) -> None:
    space = chunked(plain_space([length], Layout((0,))), chunk, always=True)
    assert list(points(space)) == [(i,) for i in range(length)]


@given(st.integers(2, 30), st.data())
def test_split_parts_cover_a_loop_once(length: int, data: st.DataObject) -> None:
    at = data.draw(st.integers(1, length - 1))
    low, high = split(plain_space([length], Layout((0,))), "i0", at)
    assert [*points(low), *points(high)] == [(i,) for i in range(length)]


@pytest.mark.parametrize("op", ["lt", "le", "gt", "ge"])
@given(st.sampled_from([-3, -2, -1, 1, 2, 3]), st.integers(-20, 20), st.integers(2, 9))
def test_split_point_is_where_the_condition_changes(
    op: str, factor: int, shift: int, length: int
) -> None:
    space = grouped_space([length], [(0,)])
    cond = Call(op, (Var("i0") * factor, Const(shift)))
    holds = [value_of(cond, i) for i in range(length)]
    changes = [i for i in range(1, length) if holds[i] != holds[i - 1]]
    found = split_point(space, [Select(cond, Const(1), Const(0))])
    assert ([] if found is None else [found[1]]) == changes


def value_of(cond: Expr, i: int) -> bool:
    """Evaluate a condition on the loop variable."""
    found = simplify(substitute(cond, {"i0": Const(i)}))
    assert isinstance(found, Const)
    return bool(found.value)
