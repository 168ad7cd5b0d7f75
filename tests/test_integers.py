"""Integers as floats: rules that need them, where they fire, and what is left of a graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from numpy.typing import NDArray
from onnx import TensorProto, helper
from onnx_models import info, model_of, runtime

import egraph_fusion as ef
from egraph_fusion import rulesets
from egraph_fusion.frontend import export
from egraph_fusion.ir.build import GraphBuilder
from egraph_fusion.ir.graph import Graph
from egraph_fusion.ir.tensors import DType, TensorType
from egraph_fusion.rulesets import guards, ops
from egraph_fusion.rulesets.rule import Rule, rule
from egraph_fusion.rulesets.strategies import Environment, environments
from egraph_fusion.rulesets.verification import verify

a, b = rulesets.tensors("a b")
FLOATS = (DType.FLOAT16, DType.FLOAT32, DType.FLOAT64)
Build = Callable[[GraphBuilder, str, str, DType], str]
Array = NDArray[Any]


def _number(g: GraphBuilder, value: float, dtype: DType) -> str:
    return g.const(np.array(value, dtype.numpy))


def _of(g: GraphBuilder, i: str, dtype: DType) -> str:
    return g.op("Cast", i, to=dtype.value)


def graph(build: Build, dtype: DType = DType.FLOAT32) -> Graph:
    """Return a graph over x, of floats, and i, of integers."""
    g = GraphBuilder("integers", opset=21)
    x = g.add_input("x", TensorType(dtype, (3, 4)))
    i = g.add_input("i", TensorType(DType.INT64, (3, 4)))
    g.output(build(g, x, i, dtype))
    return g.build()


def _ops(g: Graph) -> list[str]:
    return sorted(n.op for n in g.nodes)


def _run(g: Graph, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    x = (rng.normal(size=(3, 4)) * 9).astype(g.types["x"].dtype.numpy)
    (found,) = runtime(export(g), {"x": x, "i": rng.integers(-99, 99, (3, 4))})
    return found


LESS: dict[str, tuple[Build, list[str]]] = {
    "floor of a conversion": (lambda g, x, i, d: g.op("Floor", _of(g, i, d)), ["Cast"]),
    "round of a floor": (lambda g, x, i, d: g.op("Round", g.op("Floor", x)), ["Floor"]),
    "ceil of a difference of products": (
        lambda g, x, i, d: g.op(
            "Ceil",
            g.op(
                "Sub",
                g.op("Mul", _of(g, i, d), _number(g, 3.0, d)),
                g.op("Floor", x),
            ),
        ),
        ["Cast", "Floor", "Mul", "Sub"],
    ),
    "round of a sum of truth values": (
        lambda g, x, i, d: g.op(
            "Round",
            g.op(
                "ReduceSum",
                g.op("Cast", g.op("Less", x, _number(g, 1.0, d)), to=d.value),
                axes=(0,),
                keepdims=1,
            ),
        ),
        ["Cast", "Less", "ReduceSum"],
    ),
    "floor of one part": (
        lambda g, x, i, d: g.op(
            "Floor", g.node("Split", [g.op("Ceil", x)], 2, axis=1, split=(1, 3))[1]
        ),
        ["Ceil", "Split"],
    ),
}
KEPT: dict[str, Build] = {
    "floor of a half": lambda g, x, i, d: g.op(
        "Floor", g.op("Mul", _of(g, i, d), _number(g, 0.5, d))
    ),
    "round of an input": lambda g, x, i, d: g.op("Round", x),
    "ceil of a mean": lambda g, x, i, d: g.op(
        "Ceil", g.op("ReduceMean", g.op("Floor", x), axes=(1,), keepdims=1)
    ),
    "floor of integers and a fraction": lambda g, x, i, d: g.op(
        "Floor", g.op("Max", _of(g, i, d), _number(g, 0.25, d))
    ),
    "floor of integers beside others": lambda g, x, i, d: g.op(
        "Floor", g.op("Concat", _of(g, i, d), x, axis=0)
    ),
}


@pytest.mark.parametrize("numerics", ["exact", "finite"])
@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.value)
@pytest.mark.parametrize("name", LESS)
def test_integers_are_not_rounded(name: str, dtype: DType, numerics: str) -> None:
    build, left = LESS[name]
    before = graph(build, dtype)
    after = ef.optimize(before, numerics=numerics).graph
    assert {"Floor", "Ceil", "Round"} & {*_ops(after)} == {"Floor", "Ceil", "Round"} & {*left}
    assert len(after.nodes) <= len(left)
    np.testing.assert_array_equal(_run(after), _run(before))


@pytest.mark.parametrize("name", KEPT)
def test_what_may_be_a_fraction_is_rounded(name: str) -> None:
    before = graph(KEPT[name])
    after = ef.optimize(before).graph
    assert {"Floor", "Ceil", "Round"} & {*_ops(after)}
    np.testing.assert_array_equal(_run(after), _run(before))


def _there_and_back(
    low: float, high: float, narrow: str, step: str = "Round", wide: str = ""
) -> Build:
    """Return what converts clipped integers to integers of another type and back."""

    def build(g: GraphBuilder, x: str, i: str, d: DType) -> str:
        whole = g.op(step, g.op("Mul", x, _number(g, 30.0, d)))
        found = g.op("Clip", whole, _number(g, low, d), _number(g, high, d))
        found = g.op("Cast", found, to=narrow)
        return g.op("Cast", g.op("Cast", found, to=wide) if wide else found, to=d.value)

    return build


BACK: dict[str, tuple[Build, int]] = {
    "bytes": (_there_and_back(0, 255, "uint8"), 0),
    "bytes by way of wider ones": (_there_and_back(0, 255, "uint8", wide="int32"), 0),
    "signed bytes": (_there_and_back(-128, 127, "int8", "Floor"), 0),
    "truth values": (_there_and_back(0, 1, "bool", "Ceil"), 0),
    "below the bytes": (_there_and_back(-1, 255, "int16"), 0),
    "clipped at a fraction": (_there_and_back(0.5, 255, "uint8"), 2),
    "fractions": (_there_and_back(0, 255, "uint8", "Abs"), 2),
}


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.value)
@pytest.mark.parametrize("name", BACK)
def test_integers_that_fit_are_not_converted_and_back(name: str, dtype: DType) -> None:
    build, casts = BACK[name]
    before = graph(build, dtype)
    after = ef.optimize(before).graph
    assert _ops(after).count("Cast") == casts
    np.testing.assert_array_equal(_run(after), _run(before))
    exact = ef.optimize(before, numerics="exact").graph  # -0 comes back as 0
    assert _ops(exact).count("Cast") >= 2


@pytest.mark.parametrize(
    ("low", "high", "narrow"),
    [(0, 256, "uint8"), (-1, 9, "uint8"), (0, 128, "int8"), (0, 2, "bool")],
)
def test_integers_that_may_not_fit_are_converted(low: float, high: float, narrow: str) -> None:
    after = ef.optimize(graph(_there_and_back(low, high, narrow))).graph
    assert _ops(after).count("Cast") == 2


def _thirds(g: GraphBuilder, x: str, i: str, d: DType) -> str:
    three = _number(g, 3.0, d)
    return g.op("Floor", g.op("Mul", g.op("Div", _of(g, i, d), three), three))


def test_a_class_holds_integers_if_one_member_does() -> None:
    before = graph(_thirds)
    assert _ops(ef.optimize(before).graph) == ["Cast"]
    assert "Floor" in _ops(ef.optimize(before, numerics="exact").graph)


def test_level_real_assumes_integers_and_says_so() -> None:
    done = ef.optimize(graph(KEPT["round of an input"]), numerics="real")
    assert done.report.assumptions == ["rounding-integer: integer(a)"]


def test_integers_of_an_operator_that_is_not_declared_are_known() -> None:
    model = model_of(
        [
            helper.make_node("NonZero", ["x"], ["at"]),
            helper.make_node("Cast", ["at"], ["f"], to=TensorProto.FLOAT),
            helper.make_node("Floor", ["f"], ["y"]),
        ],
        [info("x", (3, 4))],
        [info("y", (2, "n"))],
    )
    assert "Floor" not in _ops(ef.optimize(ef.load(model)).graph)


def test_why_a_rounding_stays() -> None:
    x = ef.tensor("x", (4,))
    found = ef.explore(ops.floor(x * 0.5)).why_not("rounding-integer")
    assert found.reasons == (
        "integer(a) is not known: (x * 0.5) may hold fractions, as far as is known",
    )


def test_a_claim_on_an_input() -> None:
    x = ef.tensor("x", (4,), integer=True)
    assert ef.explore(ops.floor(x + 2.0)).extract().flops == 4
    assert ef.explore(ops.floor(x + 2.5)).extract().flops == 8


@pytest.mark.parametrize(
    ("claims", "message"),
    [
        ({"lo": 0.25, "hi": 0.75}, r"tensor 'x': no integer of float32 lies in \[0.25, 0.75\]"),
        ({"lo": 0.5, "hi": 0.5}, r"no integer of float32 lies in \[0.5, 0.5\]"),
    ],
)
def test_a_claim_that_no_element_satisfies_is_refused(
    claims: dict[str, float], message: str
) -> None:
    with pytest.raises(ef.ModelError, match=message):
        ef.tensor("x", (2,), lo=claims["lo"], hi=claims["hi"], integer=True)
    with pytest.raises(ef.ModelError, match="integer is 1; expected True or False"):
        ef.tensor("x", (2,), integer=1)  # type: ignore[arg-type]


def test_two_claims_on_one_tensor_are_told_apart() -> None:
    x, y = ef.tensor("x", (2,)), ef.tensor("x", (2,), integer=True)
    with pytest.raises(ef.ModelError, match=r"float32\[2\] in .* and float32\[2\] of integers in"):
        ef.explore(x + y)


OURS = {r.name: r for r in rulesets.default_rules() if "integer" in {g.name for g in r.when}}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", OURS)
def test_rules_that_need_integers_hold(name: str, seed: int) -> None:
    found = verify(OURS[name], max_examples=200, seed=seed)
    assert found.ok, str(found)
    assert found.unneeded_guards == ()


p, q = rulesets.attrs("p q")
narrow = ops.cast(a, attrs=p)
back = ops.cast(narrow, attrs=q)
WRONG: dict[str, Rule] = {
    "beyond the range": rule("r", back, a, [guards.integer(a), guards.same_dtype(back, a)]),
    "cut off": rule("r", back, a, [guards.in_range_of(a, narrow), guards.same_dtype(back, a)]),
    "zeros of both signs": replace(OURS["cast-back"], name="r", level="exact"),
    "no guard": rule("r", ops.floor(a), a),
    "half of integers": rule("r", ops.floor(a * 0.5), a * 0.5, [guards.integer(a)]),
    "the other operand": rule("r", ops.round(a * b), a * b, [guards.integer(b)]),
    "another operator": rule("r", ops.floor(a), a + 1.0, [guards.integer(a)]),
    "exact sum": rule("r", (a + b) - b, a, [guards.integer(a)], level="exact"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_rules_with_integers_fall(name: str) -> None:
    assert verify(WRONG[name], shrink=False, check_guards=False).counterexample is not None


def test_a_needless_guard_is_reported() -> None:
    loose = rule("r", a + b, b + a, [guards.integer(a)])
    assert verify(loose, max_examples=30).unneeded_guards == ("integer(a)",)


def test_what_is_drawn_lies_within_a_range() -> None:
    large: list[bool] = []

    @settings(max_examples=400, database=None, derandomize=True)
    @given(environments(OURS["cast-back"]))
    def holds(e: Environment) -> None:
        kind, given = e.setting.dtype_of(narrow), e.tensors["a"]
        if kind.is_whole:
            assert guards.GUARDS["in_range_of"].test(given, np.zeros(1, kind.numpy))
            large.append(bool((np.abs(given.astype(np.float64)) > 3).any()))

    holds()
    assert any(large)
    assert not all(large)


DRAWN = rule("r", ops.floor(a * b), a * b, [guards.integer(a)], level="exact")


def test_what_is_drawn_satisfies_the_guard() -> None:
    whole = rulesets.guards.GUARDS["integer"].test
    found: list[tuple[bool, bool]] = []

    @settings(max_examples=60, database=None, derandomize=True)
    @given(environments(DRAWN))
    def holds(e: Environment) -> None:
        assert whole(e.tensors["a"])
        finite = bool(np.isfinite(e.tensors["a"].astype(np.float64)).all())
        found.append((whole(e.tensors["b"]), finite))

    holds()
    assert not all(other for other, _ in found)
    assert not all(finite for _, finite in found)


@pytest.mark.parametrize(
    ("dtype", "claims", "possible"),
    [
        ("uint8", {"lo": -5, "hi": -1}, False),
        ("uint8", {"lo": -5, "hi": 0}, True),
        ("int8", {"lo": 200}, False),
        ("int8", {"lo": 126.5, "hi": 126.9}, False),
        ("int64", {"lo": 2.0**62}, True),
        ("float16", {"lo": 70000, "hi": 80000}, False),
        ("float16", {"lo": 70000}, True),  # infinity
        ("float16", {"lo": 2049, "hi": 2049}, False),
        ("float16", {"lo": 2048.5, "hi": 2051, "integer": True}, True),
        ("bfloat16", {"lo": 257, "hi": 257, "integer": True}, False),
        ("float32", {"lo": 0.1, "hi": 0.1}, False),
        ("float64", {"lo": 0.1, "hi": 0.1}, True),
    ],
)
def test_claims_that_no_element_of_the_dtype_satisfies_are_refused(
    dtype: str, claims: dict[str, Any], possible: bool
) -> None:
    if possible:
        ef.tensor("x", (2,), dtype, **claims)
        return
    with pytest.raises(ef.ModelError, match=f"no .*{dtype} lies in"):
        ef.tensor("x", (2,), dtype, **claims)


@pytest.mark.parametrize("step", [ops.floor, ops.ceil, ops.round], ids=["floor", "ceil", "round"])
def test_what_is_rounded_within_a_range_is_not_converted_and_back(step: Any) -> None:
    x, low = ef.tensor("x", (4,)), ef.constant("low", 0.0)
    within = step(ops.clip(x, low, ef.constant("high", 255.0)))
    beyond = step(ops.clip(x, low, ef.constant("higher", 256.0)))
    found = [ops.cast(ops.cast(p, to="uint8"), to="float32") for p in (within, beyond)]
    assert ef.explore(found[0]).contains(within)
    assert ef.explore(found[0]).equal(found[0], within)
    assert not ef.explore(found[1]).equal(found[1], beyond)
