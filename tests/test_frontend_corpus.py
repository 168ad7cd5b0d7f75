"""Models of others: ONNX's own backend tests, and collected cases where they are at hand."""

from __future__ import annotations

import importlib
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper
from onnx.backend.test.case.node import collect_testcases
from onnx_models import Array, meaning, runtime, without_payloads

from egraph_fusion.errors import ModelError
from egraph_fusion.frontend import export, load
from egraph_fusion.frontend.files import decode_model
from egraph_fusion.ir.graph import Graph

SHARED = Path(__file__).resolve().parents[2] / "shared"
CASES = SHARED / "cases"
HALF = {"float16", "bfloat16"}


@pytest.fixture(scope="module")
def node_tests() -> list[Any]:
    """Return ONNX's node tests: name, model, inputs and outputs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of numpy, while onnx computes what it expects
        return list(collect_testcases(None))


def test_every_onnx_node_test_loads_and_goes_out_unchanged(node_tests: list[Any]) -> None:
    changed: list[str] = []
    for case in node_tests:
        before = list(case.model.graph.node)
        graph = load(case.model)
        after = list(export(graph).graph.node)
        untouched = len(graph.nodes) == len(before) and all(n.payload for n in graph.nodes)
        retyped = any(n.op_type == "CastLike" for n in before)  # goes out as Cast
        if (
            untouched
            and not retyped
            and not case.model.functions
            and _sorted(after) != _sorted(before)
        ):
            changed.append(case.name)
    assert changed == []


def _sorted(nodes: list[onnx.NodeProto]) -> list[bytes]:
    """Return the nodes as bytes, trailing absent operands and unused outputs aside."""
    plain: list[bytes] = []
    for node in nodes:
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        while copy.input and not copy.input[-1]:
            copy.input.pop()
        del copy.output[1:]
        plain.append(copy.SerializeToString(deterministic=True))
    return sorted(plain)


def test_declared_nodes_of_onnx_tests_mean_what_the_tests_expect(node_tests: list[Any]) -> None:
    wrong: list[str] = []
    seen = 0
    for case in node_tests:
        graph = load(case.model)
        if any(n.opaque for n in graph.nodes) or not case.data_sets:
            continue
        inputs, outputs = ([_array(v) for v in side] for side in case.data_sets[0])
        seen += 1
        if not _agrees(graph, inputs, outputs):
            wrong.append(case.name)
    assert wrong == []
    assert seen > 700


def _array(value: Any) -> Array:
    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else np.asarray(value)


def _agrees(graph: Graph, inputs: list[Array], outputs: list[Array]) -> bool:
    found = meaning(graph, dict(zip(graph.inputs, inputs, strict=False)))
    return all(map(_close, found, outputs))


def _close(found: Array, expected: Array) -> bool:
    if found.dtype != expected.dtype or found.shape != expected.shape:
        return False
    if found.dtype.kind in "biu":
        return bool(np.array_equal(found, expected))
    tolerance = 2e-2 if found.dtype.name in HALF else 1e-3
    a, b = found.astype(np.float64), expected.astype(np.float64)
    return bool(np.allclose(a, b, rtol=tolerance, atol=tolerance / 100, equal_nan=True))


def _material() -> Any:
    if not (CASES / "material.py").exists():
        pytest.skip("the collected cases are not at hand")
    sys.path.insert(0, str(CASES))
    try:
        return importlib.import_module("material")
    finally:
        sys.path.remove(str(CASES))


def _paths() -> list[str]:
    found: list[str] = []
    for folder, key in (("models", "path"), ("ort", "file")):
        manifest = CASES / folder / "manifest.json"
        if manifest.exists():
            found += [f"{folder}/{entry[key]}" for entry in json.loads(manifest.read_text())]
    return found


def _case_of(path: str) -> Any:
    folder, name = path.split("/", 1)
    manifest = json.loads((CASES / folder / "manifest.json").read_text())
    entry = next(e for e in manifest if name in (e.get("path"), e.get("file")))
    return _material().Case(str(CASES / path), entry)


@pytest.mark.parametrize("path", _paths())
def test_a_collected_model_computes_the_same_after_reading_and_writing(path: str) -> None:
    case = _case_of(path)
    expected = case.expected()
    found = runtime(export(load(case.path)), case.feeds())
    for ours, theirs in zip(found, expected, strict=True):
        theirs = np.asarray(theirs)
        if theirs.dtype == object:
            assert str(type(ours)) == str(type(theirs))
        elif theirs.dtype.kind == "f":
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
        else:
            np.testing.assert_array_equal(ours, theirs)


SMALL = ("squeezenet1.1", "tinybert", "mobilenetv2", "mobilenetv3-large", "efficientnet-b0")


@pytest.mark.parametrize("name", SMALL)
def test_a_model_zoo_graph_is_declared_throughout_and_can_be_rewritten(name: str) -> None:
    path = SHARED / "models" / f"{name}.onnx"
    if not path.exists():
        pytest.skip("the collected models are not at hand")
    graph = load(_with_weights(onnx.load(path)))
    assert [n.reason for n in graph.nodes if n.opaque] == []
    assert all(t.static_shape is not None for t in graph.types.values())
    onnx.checker.check_model(export(without_payloads(graph)))


def _with_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """Put zeros where the skeleton left weights out."""
    recipes = json.loads({p.key: p.value for p in model.metadata_props}["skeleton.initializers"])
    for entry in recipes["removed"]:
        code = TensorProto.DataType.Value(entry["dtype"])
        dtype = onnx.helper.tensor_dtype_to_np_dtype(code)
        zeros = np.zeros(entry["dims"], dtype)
        model.graph.initializer.append(numpy_helper.from_array(zeros, entry["name"]))
    return model


def test_a_model_that_protobuf_reads_but_onnx_forbids_is_refused() -> None:
    data = onnx.ModelProto(ir_version=8).SerializeToString()
    with pytest.raises(ModelError, match="no graph"):
        decode_model(data, "m")
