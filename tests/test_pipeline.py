"""The two example models through the public API: right, repeatable, and all on our own kernels."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from rightness import Oracle
from small_models import dense, saved

import egraph_fusion as ef
from egraph_fusion import pipeline
from egraph_fusion.frontend.example_models import (
    EXAMPLES,
    example_inputs,
    example_path,
    materialize,
)

SEEDS = (0, 1, 2)


@cache
def model_of_example(name: str) -> onnx.ModelProto:
    return materialize(example_path(name))


@cache
def oracle(name: str, seed: int) -> Oracle:
    model = model_of_example(name)
    return Oracle.of(model, example_inputs(model, seed))


@cache
def optimized(name: str) -> Any:
    return ef.optimize(ef.load(model_of_example(name)))


@cache
def compiled(name: str) -> Any:
    return ef.compile(model_of_example(name), threads=2)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", EXAMPLES)
def test_compiled_model_is_right(name: str, seed: int) -> None:
    feeds = example_inputs(model_of_example(name), seed)
    assert oracle(name, seed).complaints(compiled(name).run(None, feeds)) == []


@pytest.mark.parametrize("name", EXAMPLES)
def test_optimized_model_is_right_in_onnxruntime(name: str, tmp_path: Path) -> None:
    ef.save(optimized(name).graph, tmp_path / "o.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "o.onnx"))
    feeds = example_inputs(model_of_example(name), 0)
    outputs = [np.asarray(a) for a in session.run(None, feeds)]
    assert oracle(name, 0).complaints(outputs) == []


@pytest.mark.parametrize("name", EXAMPLES)
def test_fused_functions_are_right_in_onnxruntime(name: str, tmp_path: Path) -> None:
    graph = optimized(name).graph
    ef.save(graph, tmp_path / "f.onnx", functions=ef.plan(graph))
    model = onnx.load(str(tmp_path / "f.onnx"))
    assert len(model.functions) > 3
    session = onnxruntime.InferenceSession(str(tmp_path / "f.onnx"))
    outputs = session.run(None, example_inputs(model_of_example(name), 0))
    assert oracle(name, 0).complaints([np.asarray(a) for a in outputs]) == []


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_launch_is_native(name: str) -> None:
    assert {s.executor for s in compiled(name).steps()} == {"native"}


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_run_launches_the_planned_blocks(name: str) -> None:
    assert len(compiled(name).steps()) == len(ef.plan(optimized(name).graph).blocks)


def test_symbolic_sizes_are_planned_as_fixed_ones_are(tmp_path: Path) -> None:
    dynamic = onnx.ModelProto()
    dynamic.CopyFrom(model_of_example("squeezenet1.1"))
    for value in dynamic.graph.input:
        value.type.tensor_type.shape.dim[0].dim_param = "batch"
    found, fixed = (ef.plan(ef.load(m)) for m in (dynamic, model_of_example("squeezenet1.1")))
    found.check()
    blocks = [{tuple(n.outputs for n in b.nodes) for b in p.blocks} for p in (found, fixed)]
    assert blocks[0] == blocks[1]
    assert "batch" in str(found.graph.types[found.blocks[0].outputs[0]])
    ef.save(found.graph, tmp_path / "f.onnx", functions=found)
    session = onnxruntime.InferenceSession(str(tmp_path / "f.onnx"))
    for batch in (1, 3):
        x = np.random.default_rng(batch).standard_normal((batch, 3, 224, 224)).astype(np.float32)
        functions = session.run(None, {"input": x})
        plain = onnxruntime.InferenceSession(dynamic.SerializeToString()).run(None, {"input": x})
        both = (np.asarray(functions[0]), np.asarray(plain[0]))
        np.testing.assert_allclose(*both, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", EXAMPLES)
def test_work_and_nodes_never_grow(name: str) -> None:
    report = optimized(name).report
    assert report.flops_after <= report.flops_before
    assert report.ops_after <= report.ops_before


def test_a_transformer_needs_less_than_a_third_of_its_nodes_in_blocks() -> None:
    nodes = len(ef.load(model_of_example("tinybert")).nodes)
    assert len(compiled("tinybert").steps()) < nodes / 3


@pytest.mark.parametrize("name", EXAMPLES)
def test_optimizing_twice_gives_the_same_bytes(name: str, tmp_path: Path) -> None:
    again = ef.optimize(ef.load(model_of_example(name))).graph
    for path, graph in (("a", optimized(name).graph), ("b", again)):
        ef.save(graph, tmp_path / path)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("name", EXAMPLES)
def test_runs_repeat_bit_for_bit(name: str) -> None:
    feeds = example_inputs(model_of_example(name), 0)
    first, second = (compiled(name).run(None, feeds) for _ in range(2))
    assert [a.tobytes() for a in first] == [a.tobytes() for a in second]


def test_compiling_twice_gives_the_same_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        monkeypatch.setenv("EGRAPH_FUSION_CACHE", str(tmp_path / f"cache-{name}"))
        ef.compile(dense(), threads=2).save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_the_stages_have_names_in_the_order_of_the_pipeline() -> None:
    names = [s.name for s in pipeline.PIPELINE if s.name != "expand"]
    assert names == ["rewrite", "plan", "lower", "build"]


def test_generated_sources_can_be_written(tmp_path: Path) -> None:
    paths = ef.emit_c(saved(dense(), tmp_path / "m.onnx"), tmp_path / "c")
    assert [p.suffix for p in paths] == [".c"] * len(paths)
    assert "ef_segment_0" in "".join(p.read_text() for p in paths)


def test_sources_of_a_model_with_open_shapes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ef.CompileError, match="symbolic"):
        ef.emit_c(dense("n"), tmp_path)


def test_the_literal_planner_fuses_less_than_the_extended_one() -> None:
    graph = optimized("tinybert").graph
    literal, extended = (ef.plan(graph, planner=p) for p in ("dnnfusion", "extended"))
    assert len(extended.blocks) < len(literal.blocks)


def test_an_unknown_planner_is_refused() -> None:
    with pytest.raises(ef.EgraphFusionError, match="'extended' or 'dnnfusion', not 'best'"):
        ef.plan(dense(), planner="best")
