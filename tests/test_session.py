"""Sessions: called as onnxruntime's are, right, repeatable, and safe beside threads and forks."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from onnx.helper import make_node
from onnx_models import info, model_of, runtime
from small_models import dense, dense_inputs, python, saved, with_opaque

import egraph_fusion as ef


@pytest.fixture(scope="module")
def session() -> Any:
    return ef.compile(dense(), threads=2)


@pytest.fixture(scope="module")
def symbolic() -> Any:
    return ef.compile(dense("rows"), threads=2)


def assert_as_runtime(session: Any, model: onnx.ModelProto, feeds: dict[str, Any]) -> None:
    for own, peer in zip(session.run(None, feeds), runtime(model, feeds), strict=True):
        assert own.dtype == peer.dtype
        np.testing.assert_allclose(own, peer, rtol=1e-5, atol=1e-6, strict=True)


def test_outputs_are_those_of_onnxruntime(session: Any) -> None:
    assert_as_runtime(session, dense(), dense_inputs())


def test_inputs_and_outputs_are_described_as_onnxruntime_does(symbolic: Any) -> None:
    described = [
        (a.name, a.shape, a.type) for a in (*symbolic.get_inputs(), *symbolic.get_outputs())
    ]
    assert described == [
        ("x", ["rows", 5], "tensor(float)"),
        ("y", ["rows", 4], "tensor(float)"),
        ("z", ["rows"], "tensor(float)"),
    ]


def test_outputs_come_in_the_order_asked_for(session: Any) -> None:
    y, z = session.run(None, dense_inputs())
    again = session.run(["z", "y"], dense_inputs())
    np.testing.assert_array_equal(again[0], z)
    np.testing.assert_array_equal(again[1], y)


def test_runs_repeat_bit_for_bit(session: Any) -> None:
    first, second = (session.run(None, dense_inputs()) for _ in range(2))
    assert [a.tobytes() for a in first] == [a.tobytes() for a in second]


def test_results_do_not_depend_on_the_number_of_threads(session: Any) -> None:
    alone = ef.compile(dense(), threads=1)
    for a, b in zip(
        alone.run(None, dense_inputs()), session.run(None, dense_inputs()), strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_an_earlier_result_survives_the_next_run(session: Any) -> None:
    y, _ = session.run(None, dense_inputs(seed=1))
    kept = y.copy()
    session.run(None, dense_inputs(seed=2))
    np.testing.assert_array_equal(y, kept)


def test_an_output_that_is_an_input_is_a_copy_of_it() -> None:
    model = model_of([make_node("Identity", ["x"], ["y"])], [info("x", [3])], [info("y", [3])])
    x = np.ones(3, np.float32)
    (y,) = ef.compile(model).run(None, {"x": x})
    y[:] = 7
    np.testing.assert_array_equal(x, np.ones(3))


def test_an_input_that_is_not_contiguous_is_taken(session: Any) -> None:
    x = dense_inputs()["x"]
    twisted = {"x": np.asfortranarray(x)}
    np.testing.assert_array_equal(session.run(None, twisted)[0], session.run(None, {"x": x})[0])


@pytest.mark.parametrize(
    ("feeds", "words"),
    [
        ({}, r"input 'x' \(float32\[3,5\]\) is missing"),
        ({**dense_inputs(), "q": np.ones(1)}, r"no input is called 'q'; the inputs are \['x'\]"),
        ({"x": np.ones((3, 5))}, r"input 'x': expected float32\[3,5\], got dtype float64"),
        ({"x": np.ones((5, 3), np.float32)}, r"expected float32\[3,5\], got shape \[5, 3\]"),
        ({"x": np.ones(5, np.float32)}, r"got shape \[5\]"),
    ],
    ids=["missing", "unknown", "dtype", "shape", "rank"],
)
def test_wrong_inputs_are_named(session: Any, feeds: dict[str, Any], words: str) -> None:
    with pytest.raises(ef.RunError, match=words):
        session.run(None, feeds)


def test_an_unknown_output_is_named(session: Any) -> None:
    with pytest.raises(ef.RunError, match=r"no output is called 'q'; the outputs are \['y', 'z'\]"):
        session.run(["q"], dense_inputs())


def test_an_empty_list_of_names_asks_for_all_outputs_as_in_onnxruntime(session: Any) -> None:
    feeds = dense_inputs()
    peer = onnxruntime.InferenceSession(dense().SerializeToString())
    wanted = peer.run([], feeds)
    found = session.run([], feeds)
    assert len(found) == len(wanted) == len(session.get_outputs())
    for own, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(own, np.asarray(other), rtol=1e-5, atol=1e-6)


def test_a_symbolic_size_is_compiled_once_per_shape(symbolic: Any) -> None:
    for rows in (2, 7, 2):
        assert_as_runtime(symbolic, dense("rows"), dense_inputs(rows))
    assert len(symbolic.programs) == 2


def test_shapes_fix_symbolic_sizes() -> None:
    fixed = ef.compile(dense("rows"), shapes={"x": (2, 5)})
    assert fixed.get_outputs()[0].shape == [2, 4]
    with pytest.raises(ef.RunError, match=r"got shape \[7, 5\]"):
        fixed.run(None, dense_inputs(7))


def two_inputs() -> onnx.ModelProto:
    nodes = [make_node("Add", ["a", "b"], ["y"])]
    return model_of(nodes, [info("a", ["n"]), info("b", ["n"])], [info("y", ["n"])])


def test_one_symbol_has_one_size_in_all_inputs() -> None:
    feeds = {"a": np.ones(2, np.float32), "b": np.ones(3, np.float32)}
    with pytest.raises(ef.RunError, match="dimension n is 3 here but 2 in input 'a'"):
        ef.compile(two_inputs()).run(None, feeds)


def test_an_input_with_a_default_may_be_left_out() -> None:
    nodes = [make_node("Add", ["x", "w"], ["y"])]
    inputs = [info("x", [2]), info("w", [2])]
    model = model_of(nodes, inputs, [info("y", [2])], {"w": np.array([10, 20], np.float32)})
    session = ef.compile(model)
    x = np.ones(2, np.float32)
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], [11, 21])
    np.testing.assert_array_equal(session.run(None, {"x": x, "w": x})[0], [2, 2])


def test_a_profile_lists_the_planned_blocks() -> None:
    graph = ef.optimize(ef.load(dense())).graph
    steps = ef.compile(graph, optimize=False).profile(dense_inputs(), runs=2)
    assert [len(b.nodes) for b in ef.plan(graph).blocks] == [len(s.nodes) for s in steps]
    assert {s.executor for s in steps} == {"native"}
    assert all(s.seconds > 0 and s.bytes > 0 for s in steps)


def test_an_opaque_operator_runs_in_the_fallback_and_is_counted() -> None:
    session = ef.compile(with_opaque())
    feeds = {"x": np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)}
    np.testing.assert_array_equal(
        session.run(None, feeds)[0], np.argwhere(np.abs(feeds["x"]) > 0.5).T
    )
    slow = [s for s in session.profile(feeds) if s.executor == "fallback"]
    assert [s.nodes for s in slow] == [("places (NonZero)",)]
    assert slow[0].reason


def branch(name: str, op: str) -> onnx.GraphProto:
    nodes = [make_node(op, ["x", "one"], [name])]
    one = helper.make_tensor("one", TensorProto.FLOAT, [], [1.0])
    return helper.make_graph(nodes, name, [], [info(name, [2])], [one])


def test_a_branch_that_captures_outer_values_is_right_both_ways() -> None:
    choose = make_node(
        "If", ["c"], ["y"], then_branch=branch("t", "Add"), else_branch=branch("e", "Sub")
    )
    inputs = [info("c", [], TensorProto.BOOL), info("x", [2])]
    session = ef.compile(model_of([choose], inputs, [info("y", [2])]))
    x = np.array([1, 2], np.float32)
    for condition, expected in ((True, [2, 3]), (False, [0, 1])):
        np.testing.assert_array_equal(
            session.run(None, {"c": np.array(condition), "x": x})[0], expected
        )


def test_a_loop_carries_its_state() -> None:
    body = helper.make_graph(
        [make_node("Add", ["s", "x"], ["t"]), make_node("Identity", ["go"], ["on"])],
        "body",
        [info("i", [], TensorProto.INT64), info("go", [], TensorProto.BOOL), info("s", [2])],
        [info("on", [], TensorProto.BOOL), info("t", [2])],
    )
    loop = make_node("Loop", ["n", "c", "x"], ["y"], body=body)
    inputs = [info("n", [], TensorProto.INT64), info("c", [], TensorProto.BOOL), info("x", [2])]
    session = ef.compile(model_of([loop], inputs, [info("y", [2])]))
    feeds = {"n": np.array(3), "c": np.array(True), "x": np.array([1, 2], np.float32)}
    np.testing.assert_array_equal(session.run(None, feeds)[0], [4, 8])


def test_threads_share_a_session(symbolic: Any) -> None:
    def one(seed: int) -> bytes:
        feeds = dense_inputs(rows=2 + seed % 3, seed=seed)
        return bytes(symbolic.run(None, feeds)[0].tobytes())

    expected = [one(seed) for seed in range(12)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(one, [*range(12)] * 8)) == expected * 8


def test_a_session_runs_in_a_forked_child(tmp_path: Path) -> None:
    path = tmp_path / "m.efz"
    ef.compile(dense(), threads=2).save(path)
    code = f"""
import os, sys, numpy as np, egraph_fusion as ef
session = ef.load_compiled({str(path)!r}, threads=2)
feeds = {{"x": np.ones((3, 5), np.float32)}}
before = session.run(None, feeds)[0].tobytes()
child = os.fork()
if not child:
    os._exit(0 if session.run(None, feeds)[0].tobytes() == before else 3)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert session.run(None, feeds)[0].tobytes() == before
"""
    done = python(code)
    assert done.returncode == 0, done.stderr


def test_unknown_targets_and_levels_are_refused() -> None:
    with pytest.raises(ef.CompileError, match=r"target is one of \['c', 'opencl'\], not 'gpu'"):
        ef.compile(dense(), target="gpu")
    for rows in (3, "rows"):
        with pytest.raises(ef.OptimizeError, match="'loose'; there are exact, finite, real"):
            ef.compile(dense(rows), numerics="loose")
        with pytest.raises(ef.OptimizeError, match="'loose'; there are exact, finite, real"):
            ef.compile(dense(rows), numerics="loose", optimize=False)
        with pytest.raises(ef.CompileError, match="threads is 0; expected 1 or more"):
            ef.compile(dense(rows), threads=0)


def test_a_path_is_taken_as_text_or_path(tmp_path: Path) -> None:
    path = saved(dense(), tmp_path / "m.onnx")
    a, b = (ef.compile(p).run(None, dense_inputs())[0] for p in (path, str(path)))
    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("rest", ["", "CumSum", "Unique"])
def test_memory_that_runs_out_is_said_of_the_node(rest: str) -> None:
    constants = {"size": np.array([1 << 41]), "axis": np.array(0)}
    nodes = [make_node("Expand", ["x", "size"], ["vast"], name="big")]
    operands = ["vast", "axis"] if rest == "CumSum" else ["vast"]
    nodes += [make_node(rest, operands, ["y"])] if rest else []
    result = info("y" if rest else "vast", ["n"] if rest == "Unique" else [1 << 41])
    model = model_of(nodes, [info("x", [1])], [result], constants)
    session = ef.compile(model)
    with pytest.raises(ef.RunError, match=r"not enough memory to run big \(Expand\).*8.00 TiB"):
        session.run(None, {"x": np.ones(1, np.float32)})
