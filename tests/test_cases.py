"""Collected models and repros of public bug reports are optimised, run and written back right."""

from __future__ import annotations

import importlib
import json
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, numpy_helper
from onnx.helper import make_node
from onnx.reference import ReferenceEvaluator
from onnx_models import info, model_of, runtime
from rightness import Oracle

import egraph_fusion as ef
from egraph_fusion.frontend import export

Array = NDArray[Any]
CASES = Path(__file__).resolve().parents[2] / "shared" / "cases"
MANY_NODES = 30
"""Bigger models take long to compile: benchmarks/cases.py runs them, not this suite."""
NEEDS_A_RUNTIME = {"text2tashkeel-0.1.0__rawi.int8.onnx": "DynamicQuantizeLSTM"}
"""Models that hold operators of onnxruntime's own, which onnx.reference does not have."""


# The collected models -------------------------------------------------------------------------


def entries(folder: str, key: str) -> list[str]:
    """Return the models that the manifest of a folder lists and that are small."""
    manifest = CASES / folder / "manifest.json"
    if not manifest.exists():
        return []
    listed = json.loads(manifest.read_text())
    return [f"{folder}/{e[key]}" for e in listed if e.get("nodes_all", 0) <= MANY_NODES]


COLLECTED = [*entries("models", "path"), *entries("ort", "file")]


def collected(path: str) -> Any:
    """Return a case: its path, inputs, and what onnxruntime makes of them."""
    folder, name = path.split("/", 1)
    manifest = json.loads((CASES / folder / "manifest.json").read_text())
    entry = next(e for e in manifest if name in (e.get("path"), e.get("file")))
    return shared_module(CASES, "material").Case(str(CASES / path), entry)


def shared_module(folder: Path, name: str) -> Any:
    """Import a module of the collected cases."""
    sys.path.insert(0, str(folder))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(folder))


@pytest.mark.parametrize("path", COLLECTED)
@pytest.mark.filterwarnings("ignore:input .* is declared:UserWarning")
def test_a_collected_model_is_optimised_and_runs_right(path: str) -> None:
    case = collected(path)
    feeds, expected = case.feeds(), [dense(v) for v in case.expected()]
    graph = ef.optimize(ef.load(case.path)).graph
    assert_close(runtime(export(graph), feeds), expected)
    session = ef.compile(graph, optimize=False)
    if Path(path).name in NEEDS_A_RUNTIME:
        with pytest.raises(ef.EgraphFusionError, match=NEEDS_A_RUNTIME[Path(path).name]):
            session.run(None, feeds)
        return
    assert_close(session.run(None, feeds), expected)


def dense(value: Any) -> Any:
    """Return an expected output; None for onnxruntime's sparse tensors, which hide their values."""
    return None if type(value).__name__ == "SparseTensor" else np.asarray(value)


def assert_close(found: Sequence[Any], expected: Sequence[Array | None]) -> None:
    """Compare outputs: dtype, shape and values, floats to a few steps of their dtype."""
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        if theirs is None:
            continue
        ours = np.asarray(ours)
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        if theirs.dtype.kind != "f":
            np.testing.assert_array_equal(ours, theirs)
            continue
        step = max(2e-5, 4 * float(np.finfo(theirs.dtype).eps))
        spread = float(np.where(np.isfinite(theirs), theirs, 0).std()) if theirs.size else 1.0
        np.testing.assert_allclose(ours, theirs, rtol=50 * step, atol=max(step * spread, 1e-6))


# The repros -----------------------------------------------------------------------------------


def repros() -> dict[str, Any]:
    """Return the builders by name: small models, one per class of fault."""
    folder = CASES / "repros"
    return {r["name"]: r for r in shared_module(folder, "repros").REPROS} if folder.exists() else {}


REPROS = repros()


@pytest.mark.parametrize("name", REPROS)
@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
def test_a_repro_is_optimised_and_runs_right(name: str) -> None:
    repro = REPROS[name]
    model, given, expected = repro["build"]()
    feeds = {k: np.asarray(v) for k, v in given.items()}
    graph = ef.optimize(ef.load(model)).graph
    written = export(graph)
    onnx.checker.check_model(written, full_check=True)
    assert [o.name for o in written.graph.output] == [o.name for o in model.graph.output]
    assert repro["keep"] is None or repro["keep"](model, written)
    found = ef.compile(graph, optimize=False).run(None, feeds)
    if repro["run"] == "none":
        return
    by_reference = expected is None
    wanted = list(ReferenceEvaluator(model).run(None, feeds)) if by_reference else expected
    tolerance = max(repro["tol"], 1e-7)
    assert_within(found, wanted, tolerance)
    if repro["run"] != "ref":
        assert_within(runtime(written, feeds), wanted, tolerance)


def assert_within(found: Sequence[Any], wanted: Sequence[Any], tolerance: float) -> None:
    """Compare outputs: shape, dtype (an oracle may work in float64) and values."""
    for ours, theirs in zip(found, map(np.asarray, wanted), strict=True):
        assert np.shape(ours) == np.shape(theirs)
        assert theirs.dtype in (np.asarray(ours).dtype, np.float64)
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


# Classes of faults that these models showed, on models of our own ------------------------------

NEUTRAL = [
    (op, value, shape)
    for op, value in (("Add", 0), ("Sub", 0), ("Mul", 1), ("Div", 1), ("Pow", 1), ("Mul", -1))
    for shape in ((), (1,), (1, 3))
]


@pytest.mark.parametrize(("op", "value", "shape"), NEUTRAL)
def test_neutral_constants_do_not_make_the_egraph_grow(
    op: str, value: float, shape: tuple[int, ...]
) -> None:
    nodes = [make_node(op, [f"y{i}" if i else "x", "c"], [f"y{i + 1}"]) for i in range(4)]
    model = model_of(nodes, [info("x", ["n", 3])], ["y4"], {"c": np.full(shape, value, np.float32)})
    report = ef.optimize(ef.load(model)).report
    assert report.stop_reason == "saturated"
    assert report.enodes < 60


KERNELS = [(1, 3), (3, 1), (1, 1), (2, 2)]


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("channels", [1, 2, 8])
def test_thin_kernels_are_right(kernel: tuple[int, int], channels: int) -> None:
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((5, channels, *kernel)).astype(np.float32)
    node = make_node("Conv", ["x", "w"], ["y"], strides=[1, 2])
    model = model_of([node], [info("x", [1, channels, 4, 41])], ["y"], {"w": weights})
    feeds = {"x": rng.standard_normal((1, channels, 4, 41)).astype(np.float32)}
    assert Oracle.of(model, feeds).complaints(ef.compile(model).run(None, feeds)) == []


def test_negative_declared_sizes_are_unknown_ones() -> None:
    node = make_node("Add", ["x", "x"], ["y"])
    model = model_of([node], [info("x", [-1, 3])], ["y"])
    session = ef.compile(model)
    for rows in (1, 4):
        x = np.ones((rows, 3), np.float32)
        np.testing.assert_array_equal(session.run(None, {"x": x})[0], x + x)


def square() -> Any:
    """Session of a model whose input claims to be square."""
    node = make_node("Exp", ["x"], ["y"])
    return ef.compile(model_of([node], [info("x", ["n", "n"])], [info("y", ["n", "n"])]))


def test_a_dimension_name_with_two_sizes_in_one_input_is_a_wrong_claim() -> None:
    x = np.zeros((2, 3), np.float32)
    with pytest.warns(UserWarning, match="n is 2 and 3"):
        (found,) = square().run(None, {"x": x})
    np.testing.assert_array_equal(found, np.ones((2, 3), np.float32))


def test_a_dimension_name_that_holds_is_not_warned_of() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        square().run(None, {"x": np.zeros((2, 2), np.float32)})


def test_a_sparse_output_comes_as_a_dense_array() -> None:
    values = numpy_helper.from_array(np.array([5, 7], np.float32), "v")
    places = numpy_helper.from_array(np.array([1, 4], np.int64), "p")
    sparse = onnx.helper.make_sparse_tensor(values, places, [2, 3])
    node = make_node("Constant", [], ["y"], sparse_value=sparse)
    output = onnx.ValueInfoProto(name="y")
    output.type.sparse_tensor_type.elem_type = TensorProto.FLOAT
    (found,) = ef.compile(model_of([node], [], [output])).run(None, {})
    np.testing.assert_array_equal(found, [[0, 5, 0], [0, 7, 0]])


def test_operands_of_a_node_that_updates_them_stay_apart() -> None:
    names = ["x", "scale", "bias", "mean", "variance"]
    node = make_node("BatchNormalization", names, ["y", "m", "v"], training_mode=1)
    one, zero = np.ones(2, np.float32), np.zeros(2, np.float32)
    weights = {"scale": one, "bias": zero, "mean": zero, "variance": one}
    model = model_of([node], [info("x", [3, 2])], ["y"], weights)
    (kept,) = export(ef.optimize(ef.load(model)).graph).graph.node
    assert list(kept.input) == names


RANDOM: Mapping[str, Mapping[str, Any]] = {
    "RandomNormalLike": {},
    "RandomUniformLike": {},
    "Bernoulli": {},
}


@pytest.mark.parametrize("op", RANDOM)
def test_two_random_draws_stay_two(op: str) -> None:
    nodes = [make_node(op, ["x"], ["a"]), make_node(op, ["x"], ["b"])]
    model = model_of([*nodes, make_node("Sub", ["a", "b"], ["y"])], [info("x", [8])], ["y"])
    graph = ef.optimize(ef.load(model)).graph
    assert [n.op for n in graph.nodes].count(op) == 2
