"""Dimensions: canonical polynomials compute as the integers that are substituted into them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egraph_fusion.errors import ModelError
from egraph_fusion.ir.dims import (
    Dim,
    Poly,
    floordiv,
    product,
    static,
    substitute,
    symbol,
    symbols,
)

N, M = symbol("n"), symbol("m")
Evaluated = tuple[Dim, Callable[[int, int], int]]


def _combined(children: st.SearchStrategy[Evaluated]) -> st.SearchStrategy[Evaluated]:
    def add(a: Evaluated, b: Evaluated) -> Evaluated:
        return a[0] + b[0], lambda n, m: a[1](n, m) + b[1](n, m)

    def sub(a: Evaluated, b: Evaluated) -> Evaluated:
        return a[0] - b[0], lambda n, m: a[1](n, m) - b[1](n, m)

    def mul(a: Evaluated, b: Evaluated) -> Evaluated:
        return a[0] * b[0], lambda n, m: a[1](n, m) * b[1](n, m)

    def div(a: Evaluated, by: int) -> Evaluated:
        return a[0] // by, lambda n, m: a[1](n, m) // by

    pairs = [st.builds(f, children, children) for f in (add, sub, mul)]
    return st.one_of(*pairs, st.builds(div, children, st.integers(1, 7)))


def _number(k: int) -> Evaluated:
    return k, lambda n, m: k


_FIRST: Evaluated = (N, lambda n, m: n)
_SECOND: Evaluated = (M, lambda n, m: m)
LEAVES = st.one_of(st.integers(-9, 9).map(_number), st.just(_FIRST), st.just(_SECOND))
DIMS = st.recursive(LEAVES, _combined, max_leaves=8)


@given(DIMS, st.integers(1, 40), st.integers(1, 40))
def test_arithmetic_agrees_with_integers(dim: Evaluated, n: int, m: int) -> None:
    value, meaning = dim
    assert substitute(value, {"n": n, "m": m}) == meaning(n, m)


@given(DIMS, DIMS, st.integers(1, 40), st.integers(1, 40))
def test_equal_dims_are_equal_everywhere(a: Evaluated, b: Evaluated, n: int, m: int) -> None:
    if a[0] == b[0]:
        assert a[1](n, m) == b[1](n, m)


@given(DIMS)
def test_partial_substitution_leaves_the_other_symbol(dim: Evaluated) -> None:
    assert "n" not in symbols(substitute(dim[0], {"n": 3}))


@given(DIMS, DIMS)
def test_sum_minus_one_term_is_the_other(a: Evaluated, b: Evaluated) -> None:
    assert (a[0] + b[0]) - b[0] == a[0]


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (N + M, M + N),
        (N * M * 2, 2 * (M * N)),
        (N - N, 0),
        ((N + 1) * (N - 1), N * N - 1),
        ((2 * N + 4) // 2, N + 2),
        ((N * M) // N, M),
        ((N - 1) // 2 + 1, (N + 1) // 2),
        (((N + 1) // 2) // 2, (N + 1) // 4),
        ((2 * N) // 4, N // 2),
        ((2 * N + 1) // 4, N // 2),
        ((4 * N + 3) // 4, N),
        (floordiv(0, N), 0),
        (floordiv(N, N), 1),
    ],
)
def test_equal_forms_are_one_form(found: Dim, wanted: Dim) -> None:
    assert found == wanted


def test_undecided_equality_is_inequality() -> None:
    assert N != M


def test_division_by_zero_is_refused() -> None:
    with pytest.raises(ModelError, match="undefined"):
        floordiv(3, 0)


def test_substitution_that_divides_by_zero_is_refused() -> None:
    with pytest.raises(ModelError, match="undefined"):
        substitute(floordiv(5, N), {"n": 0})


def test_product_of_nothing_is_one() -> None:
    assert product(()) == 1


def test_static_needs_every_dimension() -> None:
    assert static((2, 3)) == (2, 3)
    assert static((2, N)) is None


def test_symbols_look_into_divisions() -> None:
    assert symbols((N * 3 + 1) // M) == {"n", "m"}


@pytest.mark.parametrize(
    ("dim", "text"),
    [
        (2 * N * M + 1, "2*m*n + 1"),
        (N * N - 3, "n*n + -3"),
        (N // 2, "(n)//(2)"),
        (symbol("batch size"), '"batch size"'),
    ],
)
def test_printed_form(dim: Dim, text: str) -> None:
    assert isinstance(dim, Poly)
    assert str(dim) == text
