"""Indices that lie outside: what onnxruntime refuses is refused, and what it takes is right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper
from onnx.helper import make_node
from onnx.reference import ReferenceEvaluator
from onnx_models import info, model_of, runtime

import egraph_fusion as ef

Array = NDArray[Any]
INT64, INT32 = TensorProto.INT64, TensorProto.INT32
TABLE = np.arange(10, 14, dtype=np.float32)
GRID = np.arange(12, dtype=np.float32).reshape(3, 4)


def lookup(
    op: str,
    table: Array,
    shape: Sequence[int | str],
    steps: Sequence[onnx.NodeProto] = (),
    code: int = INT64,
    constants: Mapping[str, Array] | None = None,
    **attrs: Any,
) -> onnx.ModelProto:
    """Return a model that looks up `table` at what `steps` make `at` of the input `i`."""
    last = "at" if steps else "i"
    nodes = [*steps, make_node(op, ["table", last], ["y"], name="look", **attrs)]
    held = {"table": table, **(constants or {})}
    return model_of(nodes, [info("i", shape, code)], ["y"], held)


def peer_refuses(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> bool:
    try:
        runtime(model, feeds)
    except Exception:  # onnxruntime raises several classes that it does not name
        return True
    return False


def sessions(model: onnx.ModelProto, folder: Path) -> list[Any]:
    """Return the compiled model, and the same from a file."""
    own = ef.compile(model, threads=1)
    own.save(folder / "m.efz")
    return [own, ef.load_compiled(folder / "m.efz")]


EDGES = [-(2**40), -5, -4, -1, 0, 3, 4, 2**32, 10**12]


@pytest.mark.parametrize("value", EDGES)
@pytest.mark.parametrize("op", ["Gather", "GatherElements"])
def test_an_index_is_refused_exactly_where_onnxruntime_refuses_it(
    op: str, value: int, tmp_path: Path
) -> None:
    model = lookup(op, TABLE, [3])
    feeds = {"i": np.array([0, value, -1])}
    for session in sessions(model, tmp_path):
        if peer_refuses(model, feeds):
            with pytest.raises(ef.RunError, match=rf"'i': {value} .*look \({op}\).*-4 to 3"):
                session.run(None, feeds)
        else:
            np.testing.assert_array_equal(session.run(None, feeds), runtime(model, feeds))


WAYS: dict[str, list[onnx.NodeProto]] = {
    "identity": [make_node("Identity", ["i"], ["at"])],
    "reshaped": [make_node("Reshape", ["i", "dims"], ["at"])],
    "flattened": [make_node("Flatten", ["i"], ["at"])],
    "squeezed": [
        make_node("Unsqueeze", ["i", "zero"], ["a"]),
        make_node("Squeeze", ["a", "zero"], ["at"]),
    ],
    "turned": [make_node("Transpose", ["i"], ["at"])],
    "spread": [make_node("Expand", ["i", "wide"], ["at"])],
    "joined": [make_node("Concat", ["i", "more"], ["at"], axis=0)],
    "narrowed": [make_node("Cast", ["i"], ["at"], to=INT32)],
    "there and back": [
        make_node("Cast", ["i"], ["a"], to=INT32),
        make_node("Cast", ["a"], ["at"], to=INT64),
    ],
}


@pytest.mark.parametrize("value", [-5, -4, 3, 4, 2**32, 2**32 + 4, 10**12])
@pytest.mark.parametrize("way", WAYS)
def test_indices_are_followed_through_what_hands_them_on(way: str, value: int) -> None:
    constants = {
        "dims": np.array([4]),
        "zero": np.array([0]),
        "wide": np.array([3, 2, 2]),
        "more": np.array([[0, -4]]),
    }
    model = lookup("Gather", TABLE, [2, 2], WAYS[way], constants=constants)
    session = ef.compile(model, threads=1)
    feeds = {"i": np.array([[0, 1], [value, -1]])}
    if peer_refuses(model, feeds):
        with pytest.raises(ef.RunError, match=rf"'i': {value} .*look \(Gather\)"):
            session.run(None, feeds)
    else:
        np.testing.assert_array_equal(session.run(None, feeds), runtime(model, feeds))


def test_a_part_of_an_input_bounds_only_that_part() -> None:
    constants = {"a": np.array([0]), "b": np.array([2])}
    model = lookup(
        "Gather", TABLE, [3], [make_node("Slice", ["i", "a", "b"], ["at"])], INT64, constants
    )
    feeds = {"i": np.array([1, -4, 99])}
    np.testing.assert_array_equal(ef.compile(model).run(None, feeds), runtime(model, feeds))


@pytest.mark.parametrize("value", [(0, 3), (2, -4), (-3, 0), (0, 4), (-5, 0), (7, 7)])
def test_an_index_of_several_axes_is_refused_where_it_fits_none(value: tuple[int, int]) -> None:
    model = lookup("GatherND", GRID, [1, 2])
    feeds = {"i": np.array([value])}
    if peer_refuses(model, feeds):
        with pytest.raises(ef.RunError, match=r"look \(GatherND\).*-4 to 3"):
            ef.compile(model).run(None, feeds)
    else:
        np.testing.assert_array_equal(ef.compile(model).run(None, feeds), runtime(model, feeds))


def test_the_smallest_of_several_tables_bounds_an_input(tmp_path: Path) -> None:
    nodes = [
        make_node("Gather", ["grid", "i"], ["a"], name="wide", axis=-1),
        make_node("Gather", ["grid", "i"], ["b"], name="short"),
    ]
    model = model_of(nodes, [info("i", [2], INT64)], ["a", "b"], {"grid": GRID})
    for session in sessions(model, tmp_path):
        with pytest.raises(ef.RunError, match=r"'i': 3 .*short \(Gather\).*-3 to 2"):
            session.run(None, {"i": np.array([0, 3])})
        for own, peer in zip(
            session.run(None, {"i": np.array([-3, 2])}),
            runtime(model, {"i": np.array([-3, 2])}),
            strict=True,
        ):
            np.testing.assert_array_equal(own, peer)


def test_a_lookup_that_a_rule_leaves_out_still_bounds_its_indices() -> None:
    steps = [
        make_node("Gather", ["table", "i"], ["rows"], name="rows"),
        make_node("Gather", ["rows", "first"], ["y"]),
    ]
    model = model_of(steps, [info("i", [3], INT64)], ["y"], {"table": GRID, "first": np.array([0])})
    session, bad = ef.compile(model), {"i": np.array([0, 0, 3])}
    assert peer_refuses(model, bad)
    with pytest.raises(ef.RunError, match=r"'i': 3 .*rows \(Gather\)"):
        session.run(None, bad)


def test_no_indices_at_all_pass(tmp_path: Path) -> None:
    model = lookup("Gather", GRID, [0])
    for session in sessions(model, tmp_path):
        (y,) = session.run(None, {"i": np.zeros(0, np.int64)})
        assert y.shape == (0, 4)


def test_indices_of_a_symbolic_size_are_checked() -> None:
    session = ef.compile(lookup("Gather", TABLE, ["n"]))
    np.testing.assert_array_equal(session.run(None, {"i": np.array([-4, 3])})[0], [10, 13])
    with pytest.raises(ef.RunError, match="'i': 4 "):
        session.run(None, {"i": np.array([0, 4, 1])})


def test_a_branch_that_does_not_run_bounds_nothing() -> None:
    look = helper.make_graph(
        [make_node("Gather", ["table", "i"], ["t"], name="look")], "t", [], [info("t", [2])]
    )
    keep = helper.make_graph([make_node("Identity", ["pair"], ["e"])], "e", [], [info("e", [2])])
    model = model_of(
        [make_node("If", ["c"], ["y"], then_branch=look, else_branch=keep)],
        [info("c", [], TensorProto.BOOL), info("i", [2], INT64)],
        [info("y", [2])],
        {"table": TABLE, "pair": np.array([1, 2], np.float32)},
    )
    session, bad = ef.compile(model), np.array([0, 4])
    np.testing.assert_array_equal(session.run(None, {"c": np.array(False), "i": bad})[0], [1, 2])
    with pytest.raises(ef.RunError, match=r"'i': 4 .*look"):
        session.run(None, {"c": np.array(True), "i": bad})


def fixed(op: str, value: Sequence[Any], table: Array = TABLE) -> onnx.ModelProto:
    nodes = [make_node(op, ["table", "i"], ["t"], name="look"), make_node("Add", ["t", "x"], ["y"])]
    return model_of(nodes, [info("x", [1])], ["y"], {"table": table, "i": np.array(value)})


@pytest.mark.parametrize("value", [-5, -4, 3, 4, 10**12])
@pytest.mark.parametrize("op", ["Gather", "GatherElements", "GatherND"])
def test_a_constant_index_is_refused_exactly_where_onnxruntime_refuses_it(
    op: str, value: int
) -> None:
    model = fixed(op, [[value]] if op == "GatherND" else [value])
    feeds = {"x": np.array([1], np.float32)}
    if peer_refuses(model, feeds):
        with pytest.raises(ef.ModelError, match=rf"look \({op}\).* {value}, .*'i'.*4 elements"):
            ef.compile(model)
    else:
        np.testing.assert_array_equal(ef.compile(model).run(None, feeds), runtime(model, feeds))


@pytest.mark.parametrize("value", [(2, 3), (-3, -4), (3, 0), (0, -5)])
def test_constant_indices_are_checked_axis_by_axis(value: tuple[int, int]) -> None:
    model, feeds = fixed("GatherND", [value], GRID), {"x": np.array([1], np.float32)}
    if peer_refuses(model, feeds):
        with pytest.raises(ef.ModelError, match=r"look \(GatherND\)"):
            ef.compile(model)
    else:
        np.testing.assert_array_equal(ef.compile(model).run(None, feeds), runtime(model, feeds))


@pytest.mark.parametrize("op", ["Gather", "GatherElements", "GatherND"])
def test_optimising_never_folds_what_lies_outside(op: str, tmp_path: Path) -> None:
    model = fixed(op, [[-5]] if op == "GatherND" else [-5])
    done = ef.optimize(model)
    assert [n.op for n in done.graph.nodes] == [op, "Add"]
    ef.save(done.graph, tmp_path / "m.onnx")
    assert peer_refuses(onnx.load(tmp_path / "m.onnx"), {"x": np.array([1], np.float32)})


def test_an_index_outside_in_a_body_that_never_runs_is_no_fault() -> None:
    look = helper.make_graph(
        [make_node("Gather", ["table", "far"], ["t"], name="look")], "t", [], [info("t", [1])]
    )
    keep = helper.make_graph([make_node("Identity", ["one"], ["e"])], "e", [], [info("e", [1])])
    model = model_of(
        [make_node("If", ["c"], ["y"], then_branch=look, else_branch=keep)],
        [info("c", [], TensorProto.BOOL)],
        [info("y", [1])],
        {"table": TABLE, "one": np.array([1], np.float32), "far": np.array([9])},
    )
    session = ef.compile(model)
    np.testing.assert_array_equal(session.run(None, {"c": np.array(False)})[0], [1])
    with pytest.raises(ef.EgraphFusionError, match=r"look \(Gather\).* 9"):
        session.run(None, {"c": np.array(True)})


@pytest.mark.parametrize(
    ("step", "told"),
    [("Identity", r"look \(Gather\) reads at 5"), ("Neg", r"look \(Gather\) reads at -5")],
)
def test_a_value_that_also_decides_a_shape_is_refused_when_the_model_runs(
    step: str, told: str
) -> None:
    nodes = [
        make_node(step, ["i"], ["at"]),
        make_node("Gather", ["table", "at"], ["t"], name="look"),
        make_node("ConstantOfShape", ["i"], ["z"]),
    ]
    model = model_of(nodes, [info("i", [1], INT64)], ["t", "z"], {"table": TABLE})
    session = ef.compile(model)
    right = ReferenceEvaluator(model).run(None, {"i": np.array([3])})
    for own, wanted in zip(session.run(None, {"i": np.array([3])}), right, strict=True):
        np.testing.assert_array_equal(own, wanted)
    with pytest.raises(ef.RunError, match=told + ", .*'at'"):
        session.run(None, {"i": np.array([5])})


def test_made_up_inputs_fit_an_axis_of_one_element() -> None:
    session = ef.compile(lookup("Gather", TABLE[:1], [8]))
    assert session.random_feeds()["i"].tolist() == [0] * 8
    assert session.profile(runs=1)
