"""If, Loop and Scan run on the host, and their bodies natively, as onnxruntime runs them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx_models import runtime

import egraph_fusion as ef

Array = NDArray[Any]
X = np.array([1, -2, 3], np.float32)
ROWS = np.arange(6, dtype=np.float32).reshape(2, 3)
COUNT = np.array(3)
YES = np.array(True)


def model_from(signature: str, body: str, opset: int = 17) -> onnx.ModelProto:
    """Return the model of a graph in ONNX's text form."""
    head = f'<ir_version: 8, opset_import: ["" : {opset}]> g '
    return onnx.parser.parse_model(f"{head}{signature} {{ {body} }}")


def loop(operands: str, body: str, results: str = "y") -> str:
    return f"{results} = Loop ({operands}) <body = b {body}>"


LOOP_INPUTS = "(int64 n, bool c, float[3] x)"
COUNTING = "(int64 i, bool g, float[3] s) => (bool g2, float[3] t) "
KEPT = "g2 = Identity (g)"
STACKING = "(int64 i, bool g, float[3] s) => (bool g2, float[3] t, float[3] u) "
LOOP_FEEDS = {"n": COUNT, "c": YES, "x": X}

CASES: dict[str, tuple[onnx.ModelProto, dict[str, Array]]] = {
    "loop_carries_a_value": (
        model_from(
            f"{LOOP_INPUTS} => (float[3] y)",
            loop("n, c, x", f"{COUNTING} {{ {KEPT} t = Add (s, x) }}"),
        ),
        LOOP_FEEDS,
    ),
    "loop_without_trips_gives_what_it_got": (
        model_from(
            f"{LOOP_INPUTS} => (float[3] y)",
            loop("n, c, x", f"{COUNTING} {{ {KEPT} t = Add (s, x) }}"),
        ),
        {**LOOP_FEEDS, "n": np.array(0)},
    ),
    "loop_that_must_not_start": (
        model_from(
            f"{LOOP_INPUTS} => (float[3] y)",
            loop("n, c, x", f"{COUNTING} {{ {KEPT} t = Add (s, x) }}"),
        ),
        {**LOOP_FEEDS, "c": np.array(False)},
    ),
    "loop_without_a_condition": (
        model_from(
            "(int64 n, float[3] x) => (float[3] y)",
            loop('n, "", x', f"{COUNTING} {{ {KEPT} t = Add (s, x) }}"),
        ),
        {"n": COUNT, "x": X},
    ),
    "loop_that_only_its_condition_ends": (
        model_from(
            "(bool c, float[3] x) => (float[3] y)",
            loop(
                '"", c, x',
                f"{COUNTING} {{ t = Add (s, x) m = ReduceSum <keepdims = 0> (t) "
                "k = Constant <value = float {10.0}> () g2 = Less (m, k) }",
            ),
        ),
        {"c": YES, "x": X},
    ),
    "loop_counts_in_vectors_of_one": (
        model_from(
            "(int64[1] n, bool[1] c, float[3] x) => (float[3] y)",
            loop(
                "n, c, x",
                "(int64[1] i, bool[1] g, float[3] s) => (bool[1] g2, float[3] t) "
                f"{{ {KEPT} f = Cast <to = 1> (i) t = Add (s, f) }}",
            ),
        ),
        {"n": np.array([3]), "c": np.array([True]), "x": X},
    ),
    "loop_stacks_what_each_turn_gives": (
        model_from(
            f"{LOOP_INPUTS} => (float[3] y, float[n, 3] z)",
            loop("n, c, x", f"{STACKING} {{ {KEPT} t = Add (s, x) u = Neg (s) }}", "y, z"),
        ),
        LOOP_FEEDS,
    ),
    "loop_without_trips_stacks_nothing": (
        model_from(
            f"{LOOP_INPUTS} => (float[3] y, float[n, 3] z)",
            loop("n, c, x", f"{STACKING} {{ {KEPT} t = Add (s, x) u = Neg (s) }}", "y, z"),
        ),
        {**LOOP_FEEDS, "n": np.array(0)},
    ),
    "loop_whose_value_grows": (
        model_from(
            "(int64 n, bool c, float[k] x) => (float[m] y)",
            loop(
                "n, c, x",
                "(int64 i, bool g, float[j] s) => (bool g2, float[l] t) "
                f"{{ {KEPT} t = Concat <axis = 0> (s, x) }}",
            ),
        ),
        LOOP_FEEDS,
    ),
    "names_inside_hide_names_outside": (
        model_from(
            f"{LOOP_INPUTS} => (float[3] y)",
            loop(
                "n, c, x",
                "(int64 n, bool c, float[3] x) => (bool c2, float[3] t) "
                "{ c2 = Identity (c) t = Add (x, x) }",
            ),
        ),
        LOOP_FEEDS,
    ),
    "if_on_a_computed_condition": (
        model_from(
            "(float[3] x) => (float[3] y)",
            "m = ReduceSum <keepdims = 0> (x) z = Constant <value = float {0.0}> () "
            "c = Greater (m, z) "
            "y = If (c) <then_branch = a () => (float[3] t) { t = Exp (x) }, "
            "else_branch = b () => (float[3] e) { e = Neg (x) }>",
        ),
        {"x": X},
    ),
    "if_inside_a_loop": (
        model_from(
            f"{LOOP_INPUTS} => (float[3] y)",
            loop(
                "n, c, x",
                f"{COUNTING} {{ {KEPT} one = Constant <value = int64 {{1}}> () "
                "late = Less (one, i) "
                "t = If (late) <then_branch = a () => (float[3] p) { p = Add (s, x) }, "
                "else_branch = b () => (float[3] q) { q = Neg (s) }> }",
            ),
        ),
        LOOP_FEEDS,
    ),
    "scan_along_the_first_axis": (
        model_from(
            "(float[3] s, float[2, 3] r) => (float[3] t, float[2, 3] y)",
            "t, y = Scan <num_scan_inputs = 1, body = b (float[3] a, float[3] v) => "
            "(float[3] w, float[3] u) { w = Add (a, v) u = Mul (w, v) }> (s, r)",
        ),
        {"s": X, "r": ROWS},
    ),
    "scan_along_other_axes_and_backward": (
        model_from(
            "(float[2] s, float[2, 3] r) => (float[2] t, float[2, 3] y)",
            "t, y = Scan <num_scan_inputs = 1, scan_input_axes = [1], "
            "scan_input_directions = [1], scan_output_axes = [-1], scan_output_directions = [1], "
            "body = b (float[2] a, float[2] v) => (float[2] w, float[2] u) "
            "{ w = Sub (v, a) u = Identity (w) }> (s, r)",
        ),
        {"s": X[:2], "r": ROWS},
    ),
}


@cache
def compiled(name: str) -> Any:
    """Return the session of a case, compiled once."""
    return ef.compile(CASES[name][0])


@pytest.mark.parametrize("name", CASES)
def test_control_flow_is_that_of_onnxruntime(name: str) -> None:
    model, feeds = CASES[name]
    expected = runtime(model, feeds)
    for found, wanted in zip(compiled(name).run(None, feeds), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("name", CASES)
def test_control_flow_needs_no_fallback(name: str) -> None:
    feeds, session = CASES[name][1], compiled(name)
    session.run(None, feeds)
    assert [s.reason for s in session.steps(feeds) if s.executor == "fallback"] == []


@pytest.mark.parametrize("name", CASES)
def test_control_flow_is_written_back_as_it_came(name: str, tmp_path: Path) -> None:
    model, feeds = CASES[name]
    ef.save(ef.optimize(ef.load(model)).graph, tmp_path / "m.onnx")
    written = onnx.load(tmp_path / "m.onnx")
    _assert_equal(runtime(written, feeds), runtime(model, feeds))


def test_a_saved_program_runs_bodies_without_a_compiler(tmp_path: Path) -> None:
    model, feeds = CASES["if_on_a_computed_condition"]
    session = ef.compile(model)
    session.run(None, feeds)
    session.save(tmp_path / "m.efz")
    loaded = ef.load_compiled(tmp_path / "m.efz")
    _assert_equal(loaded.run(None, feeds), session.run(None, feeds), places=6)
    assert [s.reason for s in loaded.steps(feeds) if s.executor == "fallback"] == [
        "its bodies run without a compiler"
    ]


def test_an_undeclared_operator_in_a_body_counts_as_the_fallback() -> None:
    model = model_from(
        "(float[3] x) => (int64[1, k] y)",
        "m = ReduceSum <keepdims = 0> (x) z = Constant <value = float {0.0}> () "
        "c = Greater (m, z) "
        "y = If (c) <then_branch = a () => (int64[1, p] t) { t = NonZero (x) }, "
        "else_branch = b () => (int64[1, q] e) { w = Neg (x) e = NonZero (w) }>",
    )
    (reason,) = [s.reason for s in ef.compile(model).steps({"x": X}) if s.executor == "fallback"]
    assert "NonZero" in reason


def test_a_condition_of_many_elements_is_refused() -> None:
    model = model_from(
        "(float[3] x) => (float[3] y)",
        "z = Constant <value = float {0.0}> () c = Greater (x, z) "
        "y = If (c) <then_branch = a () => (float[3] t) { t = Exp (x) }, "
        "else_branch = b () => (float[3] e) { e = Neg (x) }>",
    )
    with pytest.raises(ef.EgraphFusionError, match="condition"):
        ef.compile(model).run(None, {"x": X})


def _assert_equal(found: list[Array], expected: list[Array], places: int | None = None) -> None:
    for one, other in zip(found, expected, strict=True):
        if places is None:
            np.testing.assert_array_equal(one, other)
        else:
            np.testing.assert_allclose(one, other, rtol=10.0**-places)
