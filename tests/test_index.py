"""Index arithmetic: simplified expressions mean the same, and the usual index maps vanish."""

import itertools
from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loop_strategies import index_expressions, value_of

from egraph_fusion.codegen.index import (
    bounds,
    delinearize,
    linearize,
    ranges_of,
    simplify,
    stride_of,
)
from egraph_fusion.codegen.loop_text import expression
from egraph_fusion.codegen.loop_walk import subexpressions
from egraph_fusion.codegen.loops import (
    Const,
    Expr,
    For,
    Load,
    Select,
    Var,
    call,
)
from egraph_fusion.ir.tensors import DType

H, J, K, N, M, P = (Var(v) for v in "ijknmp")
EXTENTS = {"i": 5, "j": 4, "k": 12}
RANGES = {name: (0, extent - 1) for name, extent in EXTENTS.items()}
SYMBOLIC = ranges_of([For("i", M, ()), For("j", N, ())], {"n": (1, None), "m": (1, None)})


@settings(max_examples=400)
@given(index_expressions(("i", "j", "k")), st.data())
def test_simplified_means_the_same(expr: Expr, data: st.DataObject) -> None:
    simple = simplify(expr, RANGES)
    for _ in range(5):
        values = {n: data.draw(st.integers(0, e - 1)) for n, e in EXTENTS.items()}
        assert value_of(simple, values) == value_of(expr, values), expression(simple)


@settings(max_examples=200)
@given(index_expressions(("i", "j", "n")), st.data())
def test_simplified_means_the_same_for_symbolic_extents(expr: Expr, data: st.DataObject) -> None:
    ranges = {"n": (1, None), "i": (0, N - 1), "j": (0, H)}
    simple = simplify(expr, ranges)
    for _ in range(5):
        n = data.draw(st.integers(1, 9))
        i = data.draw(st.integers(0, n - 1))
        values = {"n": n, "i": i, "j": data.draw(st.integers(0, i))}
        assert value_of(simple, values) == value_of(expr, values), expression(simple)


@settings(max_examples=200)
@given(index_expressions(("i", "j", "k")), st.data())
def test_bounds_hold(expr: Expr, data: st.DataObject) -> None:
    low, high = bounds(expr, RANGES)
    values = {n: data.draw(st.integers(0, e - 1)) for n, e in EXTENTS.items()}
    found = value_of(expr, values)
    assert low is None or low <= found
    assert high is None or found <= high


@given(index_expressions(("i", "j", "k")))
def test_simplifying_twice_changes_nothing(expr: Expr) -> None:
    once = simplify(expr, RANGES)
    assert simplify(once, RANGES) == once


@given(index_expressions(("i", "j", "k"), 2), index_expressions(("i", "j", "k"), 2))
def test_normal_form_does_not_depend_on_order(a: Expr, b: Expr) -> None:
    assert simplify(a + b, RANGES) == simplify(b + a, RANGES)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=4), st.data())
def test_delinearize_inverts_linearize(shape: list[int], data: st.DataObject) -> None:
    indices = [Var(f"v{axis}") for axis in range(len(shape))]
    ranges = {v.name: (0, extent - 1) for v, extent in zip(indices, shape, strict=True)}
    found = delinearize(linearize(indices, shape), shape, ranges)
    expected = [i if extent > 1 else Const(0) for i, extent in zip(indices, shape, strict=True)]
    assert [simplify(e, ranges) for e in found] == [simplify(e, ranges) for e in expected]


@given(st.lists(st.integers(1, 6), min_size=1, max_size=4))
def test_linearize_inverts_delinearize(shape: list[int]) -> None:
    ranges = {"p": (0, prod(shape) - 1)}
    assert simplify(linearize(delinearize(P, shape, ranges), shape), ranges) == simplify(P, ranges)


CASES: list[tuple[Expr, str]] = [
    ((H * 4 + J) // 4, "i"),
    ((H * 4 + J) % 4, "j"),
    ((H * 8 + J * 2 + 1) // 2, "i * 4 + j"),
    ((H * 4 + J) // 8, "i // 2"),
    ((K // 2) // 3, "k // 6"),
    ((K % 6) % 3, "k % 3"),
    ((K // 4) * 4 + K % 4, "k"),
    ((K // 12) * 12 + ((K // 4) % 3) * 4 + K % 4, "k"),
    (call("min", J, Const(3)), "j"),
    (call("max", H, Const(7)), "7"),
    (H - H + 3, "3"),
    (2 * (H + J) - J, "i * 2 + j"),
    (Select(call("lt", J, Const(4)), H, K), "i"),
    (call("div", K, Const(4)), "k // 4"),
    ((H - 5) // 5, "-1"),
    ((H * N + J) // N, "i"),
    ((H * N + J) % N, "j"),
    (((H * N + J) // N) % M, "i"),
]


@pytest.mark.parametrize(("expr", "expected"), CASES, ids=[expression(e) for e, _ in CASES])
def test_rule(expr: Expr, expected: str) -> None:
    ranges = SYMBOLIC if N in list(subexpressions(expr)) else RANGES
    assert expression(simplify(expr, ranges)) == expected


def test_symbolic_linearize_is_inverted() -> None:
    offset = linearize([H, J], [M, N])
    assert delinearize(offset, [M, N], SYMBOLIC) == (H, J)


def test_loads_keep_their_buffer_and_simplify_their_index() -> None:
    load = Load("x", (H * 4 + J) // 4, DType.FLOAT32)
    assert simplify(load * 2.0, RANGES) == Load("x", H, DType.FLOAT32) * 2.0


def test_float_arithmetic_is_left_alone() -> None:
    x = Var("x", DType.FLOAT32)
    assert simplify(x + x - x, RANGES) == x + x - x


@pytest.mark.parametrize(
    ("expr", "stride"), [(H * 8 + J, 8), (J, 0), (H * N, None), (K * 3 + H - H, 0)]
)
def test_stride(expr: Expr, stride: int | None) -> None:
    assert stride_of(expr, "i") == (N if stride is None else Const(stride))


@pytest.mark.parametrize("expr", [H * H, H // 2, Load("x", H, DType.INT64) + H])
def test_no_stride_unless_affine(expr: Expr) -> None:
    assert stride_of(expr, "i") is None


def test_every_offset_is_reached_once() -> None:
    shape = (3, 4, 2)
    offset = linearize([Var("a"), Var("b"), Var("c")], shape)
    seen = [
        value_of(offset, {"a": a, "b": b, "c": c})
        for a, b, c in itertools.product(*map(range, shape))
    ]
    assert seen == list(range(24))
