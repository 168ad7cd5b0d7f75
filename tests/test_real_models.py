"""The seven models the project is first judged by: rewritten, exported, compiled and right."""

import gc
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from lowered import reference
from numpy.typing import NDArray
from rightness import Oracle

import egraph_fusion as ef
from egraph_fusion.frontend.inputs import example_inputs
from egraph_fusion.ir.graph import Graph

Array = NDArray[Any]
TRANSFORMERS = ("tinybert", "bert-base", "gpt2")
CONVOLUTIONAL = ("squeezenet1.1", "resnet18", "mobilenetv2", "efficientnet-b0")


def materialized(folder: Path, name: str, out: Path) -> Path:
    """Fill in the weights of a skeleton with the script that lies beside it."""
    spec = importlib.util.spec_from_file_location("materialize", folder / "materialize.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    model = script.materialize(onnx.load(folder / f"{name}.onnx"))
    path = out / f"{name}.onnx"
    onnx.save(model, path)
    return path


def feeds_of(graph: Graph, seed: int) -> dict[str, Array]:
    return {k: np.asarray(v) for k, v in example_inputs(graph, seed).items()}


def peer(path: Path) -> Callable[[dict[str, Array]], list[Array]]:
    """Return onnxruntime on the model in `path`."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options)
    return lambda feeds: [np.asarray(r) for r in session.run(None, feeds)]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", [*CONVOLUTIONAL, *TRANSFORMERS])
def test_a_real_model_is_rewritten_exported_compiled_and_right(
    name: str, shared_models: Path, tmp_path: Path
) -> None:
    path = materialized(shared_models, name, tmp_path)
    graph = ef.load(path)
    found = ef.optimize(graph)
    report = found.report
    assert report.flops_after <= report.flops_before
    assert report.ops_after <= report.ops_before
    exported = tmp_path / "optimised.onnx"
    ef.save(found.graph, exported)
    session = ef.compile(found.graph, optimize=False)
    blocks = len(ef.plan(found.graph).blocks)
    if name in TRANSFORMERS:
        assert blocks < report.ops_before / 3
    original, rewritten = peer(path), peer(exported)
    for seed in range(3):
        feeds = feeds_of(graph, seed)
        exact = tuple(reference(graph, feeds).values())
        oracle = Oracle(exact, tuple(original(feeds)))
        first, second = session.run(None, feeds), session.run(None, feeds)
        assert oracle.complaints(first) == []
        assert oracle.complaints(rewritten(feeds)) == []
        assert all(a.tobytes() == b.tobytes() for a, b in zip(first, second, strict=True))
    steps = session.steps(feeds_of(graph, 0))
    assert [s.executor for s in steps] == ["native"] * blocks
    del session, original, rewritten, graph, found
    gc.collect()
