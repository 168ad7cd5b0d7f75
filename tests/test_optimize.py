"""`optimize`: same meaning, never more work, names kept, whatever the graph holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NoReturn

import numpy as np
import pytest
import random_graphs
from hypothesis import given, settings
from onnx.reference import ReferenceEvaluator

from egraph_fusion import frontend
from egraph_fusion.egraph import foldable
from egraph_fusion.errors import OptimizeError, RuleError
from egraph_fusion.ir.build import GraphBuilder
from egraph_fusion.ir.graph import Array, Graph, Node
from egraph_fusion.ir.ops import OPERATORS
from egraph_fusion.ir.tensors import DType, TensorType
from egraph_fusion.ir.text import print_graph
from egraph_fusion.optimizer import Optimized, optimize
from egraph_fusion.rulesets import guards, ops, rule, tensors

F32 = DType.FLOAT32
RNG = np.random.default_rng(0)
Inputs = Mapping[str, Array]


def _f32(*shape: int) -> TensorType:
    return TensorType(F32, shape)


def _random(*shape: int) -> Array:
    return np.asarray(np.random.default_rng(sum(shape) + 1).normal(size=shape), np.float32)


def _inputs(graph: Graph) -> dict[str, Array]:
    found: dict[str, Array] = {}
    for v in graph.inputs:
        kind = graph.types[v]
        values = RNG.normal(size=kind.static_shape)
        found[v] = (np.abs(values) * 3 if kind.dtype.is_integer else values).astype(
            kind.dtype.numpy
        )
    return found


def _run(graph: Graph, inputs: Inputs) -> list[Array]:
    reference = ReferenceEvaluator(frontend.export(graph))
    with np.errstate(all="ignore"):
        return reference.run(None, dict(inputs))  # type: ignore[return-value]


def _optimized(graph: Graph, **options: object) -> Optimized:
    """Optimise, check the result against the original, and return it."""
    done = optimize(graph, **options)  # type: ignore[arg-type]
    done.graph.check()
    inputs = _inputs(graph)
    for before, after in zip(_run(graph, inputs), _run(done.graph, inputs), strict=True):
        assert before.shape == after.shape
        assert before.dtype == after.dtype
        np.testing.assert_allclose(after, before, rtol=2e-4, atol=2e-5)
    assert done.graph.inputs == graph.inputs
    assert done.graph.outputs == graph.outputs
    assert done.report.flops_after <= done.report.flops_before
    assert done.report.ops_after <= done.report.ops_before
    assert not done.report.notes
    return done


def _ops(done: Optimized) -> list[str]:
    return [n.op for n in done.graph.nodes]


def _norm(b: GraphBuilder, x: str, channels: int) -> str:
    scale, bias, mean = (b.const(_random(channels, k)[:, 0]) for k in (1, 2, 3))
    variance = b.const(np.abs(_random(channels)) + np.float32(0.5))
    return b.op("BatchNormalization", x, scale, bias, mean, variance)


def _conv_norm(bias: bool, group: int = 1) -> Graph:
    b = GraphBuilder("conv", opset=17)
    x = b.add_input("x", _f32(2, 4, 5, 5))
    weights = [b.const(_random(6, 4 // group, 3, 3))]
    if bias:
        weights.append(b.const(_random(6)))
    y = b.op("Conv", x, *weights, pads=(1, 1, 1, 1), group=group)
    b.output(b.op("Relu", _norm(b, y, 6)))
    return b.build()


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("group", [1, 2])
def test_batch_norm_vanishes_into_the_convolution(bias: bool, group: int) -> None:
    done = _optimized(_conv_norm(bias, group))
    assert _ops(done) == ["Conv", "Relu"]
    assert "batch-norm-affine" in done.report.rule_uses


def test_batch_norm_after_gemm_vanishes() -> None:
    b = GraphBuilder("gemm", opset=17)
    x = b.add_input("x", _f32(3, 4))
    y = b.op("Gemm", x, b.const(_random(5, 4)), b.const(_random(5)), transB=1)
    b.output(_norm(b, y, 5))
    assert _ops(_optimized(b.build())) == ["Gemm"]


def test_scale_vanishes_into_the_weights() -> None:
    b = GraphBuilder("scale", opset=17)
    x = b.add_input("x", _f32(3, 4))
    y = b.op("MatMul", x, b.const(_random(4, 5)))
    b.output(b.op("Div", y, b.const(np.array(8.0, np.float32))))
    assert _ops(_optimized(b.build())) == ["MatMul"]


def test_constants_past_the_limit_of_folding_stay_as_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(foldable, "FOLD_LIMIT", 10)
    b = GraphBuilder("big", opset=17)
    x = b.add_input("x", _f32(3, 4))
    weights = b.const(_random(4, 5))
    y = b.op("Relu", b.op("MatMul", x, weights))
    b.output(b.op("Mul", y, b.op("Exp", b.op("Sqrt", b.const(np.abs(_random(3, 5)))))))
    done = _optimized(b.build())
    assert _ops(done) == ["MatMul", "Relu", "Sqrt", "Exp", "Mul"]
    assert weights in done.graph.constants


def _sum_of_a_fill(dtype: DType, size: int) -> Graph:
    b = GraphBuilder("fill", opset=17)
    x = b.add_input("x", TensorType(dtype, (4,)))
    fill = b.op("Expand", b.const(np.array(2, dtype.numpy)), shape=(size,))
    b.output(b.op("Add", b.op("ReduceSum", fill, axes=(0,), keepdims=0), x))
    return b.build()


@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.INT64])
def test_nothing_past_the_limit_is_computed_on_the_way_to_a_small_constant(
    dtype: DType, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _ops(_optimized(_sum_of_a_fill(dtype, 20))) == ["Add"]
    vast = optimize(_sum_of_a_fill(dtype, 1 << 40))
    assert _ops(vast) == ["Expand", "ReduceSum", "Add"]
    assert vast.report.notes == []
    monkeypatch.setattr(foldable, "FOLD_LIMIT", 10)
    assert _ops(_optimized(_sum_of_a_fill(dtype, 20))) == ["Expand", "ReduceSum", "Add"]


def test_one_of_several_outputs_of_constants_stays_a_node() -> None:
    b = GraphBuilder("parts", opset=17)
    x = b.add_input("x", _f32(2))
    both = _random(4)
    first, _ = b.node("Split", (b.const(both),), 2, axis=0, split=(2, 2))
    b.output(b.op("Add", x, first))
    assert _ops(_optimized(b.build())) == ["Split", "Add"]


def test_folding_that_runs_out_of_memory_gives_up_the_graph_and_says_where(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(*_: object) -> NoReturn:
        raise MemoryError("Unable to allocate 8.00 TiB")

    b = GraphBuilder("full", opset=17)
    x = b.add_input("x", _f32(3))
    b.output(b.op("Mul", x, b.op("Exp", b.const(_random(3)))))
    graph = b.build()
    monkeypatch.setitem(OPERATORS, "Exp", replace(OPERATORS["Exp"], evaluate=full))
    done = optimize(graph)
    assert _ops(done) == ["Exp", "Mul"]
    assert any("folding Exp" in n and "8.00 TiB" in n for n in done.report.notes)


def test_constant_expressions_are_folded() -> None:
    b = GraphBuilder("fold", opset=17)
    x = b.add_input("x", _f32(3))
    k = b.op("Sqrt", b.op("Exp", b.const(_random(3))))
    b.output(b.op("Mul", x, k))
    assert _ops(_optimized(b.build())) == ["Mul"]


def test_whole_constant_output_is_folded() -> None:
    b = GraphBuilder("constant", opset=17)
    b.add_input("x", _f32(3))
    b.output(b.op("Exp", b.const(_random(3))))
    assert _ops(_optimized(b.build())) == []


def test_equal_subexpressions_are_computed_once() -> None:
    b = GraphBuilder("cse", opset=17)
    x = b.add_input("x", _f32(3))
    b.output(b.op("Add", b.op("Sin", b.op("Exp", x)), b.op("Cos", b.op("Exp", x))))
    assert _ops(_optimized(b.build())).count("Exp") == 1


def test_equal_outputs_keep_both_names() -> None:
    b = GraphBuilder("twice", opset=17)
    x = b.add_input("x", _f32(3))
    b.output(b.op("Exp", x))
    b.output(b.op("Exp", x))
    _optimized(b.build())


def test_output_that_equals_an_input_keeps_its_name() -> None:
    b = GraphBuilder("same", opset=17)
    x = b.add_input("x", _f32(3))
    b.output(b.op("Neg", b.op("Neg", x)))
    assert _ops(_optimized(b.build())) == ["Identity"]


def test_output_that_is_an_input_stays() -> None:
    b = GraphBuilder("through", opset=17)
    x = b.add_input("x", _f32(3))
    b.output(x)
    b.output(b.op("Relu", x))
    _optimized(b.build())


def test_unused_input_stays() -> None:
    b = GraphBuilder("unused", opset=17)
    x = b.add_input("x", _f32(3))
    b.add_input("y", _f32(2))
    b.output(b.op("Relu", x))
    _optimized(b.build())


def test_untouched_nodes_keep_name_and_attributes() -> None:
    b = GraphBuilder("kept", opset=17)
    x = b.add_input("x", _f32(1, 2, 4, 4))
    y = b.op("Conv", x, b.const(_random(3, 2, 3, 3)), out="y", pads=(1, 1, 1, 1))
    b.output(b.op("Relu", y, out="z"))
    graph = b.build()
    nodes = tuple(Node(n.op, n.inputs, n.outputs, n.attrs, f"node {i}") for i, n in graph.walk())
    named = graph.replace(nodes=nodes)
    assert optimize(named).graph.nodes == named.nodes


def test_split_outputs_are_used_apart() -> None:
    b = GraphBuilder("split", opset=17)
    x = b.add_input("x", _f32(4, 6))
    first, _, last = b.node("Split", [x], 3, axis=1, split=(2, 1, 3))
    b.output(b.op("Relu", last))
    b.output(b.op("Exp", first))
    _optimized(b.build())


def _with_opaque() -> Graph:
    b = GraphBuilder("opaque", opset=17)
    x = b.add_input("x", _f32(3, 4))
    y = b.op("Add", x, b.const(np.array(0.0, np.float32)), out="y")
    b.output(b.op("Neg", b.op("Neg", y), out="z"))
    graph = b.build()
    unknown = Node("det:Mystery", ("y",), ("m",), opaque=True)
    types = {**graph.types, "m": TensorType(F32, None)}
    return graph.replace(nodes=(*graph.nodes, unknown), types=types, outputs=("z", "m"))


def test_opaque_nodes_are_carried() -> None:
    done = optimize(_with_opaque())
    assert [n.op for n in done.graph.nodes].count("det:Mystery") == 1
    assert done.graph.producers["m"].inputs == ("x",)


def test_opaque_nodes_are_never_merged() -> None:
    graph = _with_opaque()
    twin = Node("det:Mystery", ("y",), ("m2",), opaque=True)
    types = {**graph.types, "m2": TensorType(F32, None)}
    graph = graph.replace(nodes=(*graph.nodes, twin), types=types, outputs=(*graph.outputs, "m2"))
    assert [n.op for n in optimize(graph).graph.nodes].count("det:Mystery") == 2


LOWEST = float(np.finfo(np.float32).min)


@pytest.mark.parametrize("lowest", [LOWEST, -np.inf])
def test_additive_masks_come_out_unchanged(lowest: float) -> None:
    b = GraphBuilder("mask", opset=17)
    scores, keep = b.add_input("scores", _f32(2, 4)), b.add_input("keep", _f32(2, 4))
    one = b.const(np.array(1.0, np.float32))
    masked = b.op("Mul", b.op("Sub", one, keep), b.const(np.array(lowest, np.float32)))
    b.output(b.op("Softmax", b.op("Add", scores, masked), axis=-1))
    graph = b.build()
    done = optimize(graph)
    inputs = {"scores": _random(2, 4), "keep": np.array([[1, 0, 1, 0], [0] * 4], np.float32)}
    for before, after in zip(_run(graph, inputs), _run(done.graph, inputs), strict=True):
        np.testing.assert_array_equal(after, before)


def test_result_is_the_same_every_time() -> None:
    graph = _conv_norm(bias=True)
    assert print_graph(optimize(graph).graph) == print_graph(optimize(graph).graph)


def test_new_nodes_record_their_rules() -> None:
    done = _optimized(_conv_norm(bias=False))
    assert any(n.rules for n in done.graph.nodes)


def test_without_a_rule_it_is_not_used() -> None:
    done = _optimized(_conv_norm(bias=True), without=["batch-norm-affine"])
    assert "BatchNormalization" in _ops(done)


def test_no_rules_change_nothing() -> None:
    graph = _conv_norm(bias=True)
    assert optimize(graph, rules=[]).graph.nodes == graph.nodes


def test_own_rules_are_used() -> None:
    a, c = tensors("a c")
    b = GraphBuilder("own", opset=17)
    x, y = b.add_input("x", _f32(3)), b.add_input("y", _f32(3))
    b.output(b.op("Sub", x, b.op("Sub", x, y)))
    mine = rule("mine", a - (a - c), c, when=[guards.same_shape(a, c)])
    done = _optimized(b.build(), rules=[mine])
    assert done.report.rule_uses == {"mine": 1}


def test_report_is_plain_values() -> None:
    report = optimize(_conv_norm(bias=True)).report.to_dict()
    assert report["stop_reason"] == "saturated"
    assert report["saturated"]
    assert report["flops_before"] == (
        report["contraction_flops_before"] + report["other_flops_before"]
    )


def test_level_real_lists_its_assumptions() -> None:
    b = GraphBuilder("real", opset=17)
    x, y = b.add_input("x", _f32(3)), b.add_input("y", _f32(3))
    b.output(b.op("Mul", b.op("Div", x, y), y))
    report = optimize(b.build(), numerics="real").report
    assert report.assumptions == ["quotient-times: nonzero(b)"]


def test_symbolic_shapes_are_optimised() -> None:
    from egraph_fusion.ir.dims import symbol

    b = GraphBuilder("symbolic", opset=17)
    x = b.add_input("x", TensorType(F32, (symbol("batch"), 4)))
    b.output(b.op("Relu", b.op("Relu", b.op("Add", x, b.const(np.array(0.0, np.float32))))))
    assert _ops(optimize(b.build())) == ["Relu"]


@pytest.mark.parametrize(
    ("option", "value"), [("numerics", "fast"), ("extractor", "best"), ("cost", "money")]
)
def test_unknown_option_is_refused(option: str, value: str) -> None:
    with pytest.raises(OptimizeError, match=f"{value!r}; there are"):
        optimize(_conv_norm(bias=True), **{option: value})  # type: ignore[arg-type]


def test_a_reversal_is_not_taken_for_a_slice_of_everything() -> None:
    b = GraphBuilder("reversed", opset=17)
    x = b.add_input("x", _f32(4, 3))
    turned = b.op("Slice", x, starts=(-1,), ends=(-5,), axes=(0,), steps=(-1,))
    b.output(b.op("Relu", turned))
    assert "Slice" in _ops(_optimized(b.build()))
    rest = b.op("Slice", x, starts=(0,), ends=(4,), axes=(0,), steps=(1,))
    b.output(b.op("Abs", rest))
    assert _ops(_optimized(b.build())).count("Slice") == 1


def test_unknown_rule_is_refused() -> None:
    with pytest.raises(RuleError, match="no rule is called"):
        optimize(_conv_norm(bias=True), without=["no-such-rule"])


@settings(max_examples=60)
@given(random_graphs.graphs())
def test_random_graphs_keep_their_meaning(graph: Graph) -> None:
    done = optimize(graph)
    inputs = _inputs(graph)
    for before, after in zip(_run(graph, inputs), _run(done.graph, inputs), strict=True):
        assert before.shape == after.shape
        usual = np.isfinite(before) & (np.abs(before) < 1e4)
        np.testing.assert_allclose(after[usual], before[usual], rtol=5e-3, atol=1e-3)
    assert done.report.flops_after <= done.report.flops_before
    assert done.report.ops_after <= done.report.ops_before


def test_forms_that_the_opset_lacks_are_not_extracted() -> None:
    (a,) = tensors("a")
    b = GraphBuilder("old", opset=17)
    x = b.add_input("x", _f32(3))
    b.output(b.op("Exp", b.op("Exp", x)))
    gelu = rule("wrong-on-purpose", ops.exp(ops.exp(a)), ops.gelu(a), level="exact")
    assert _ops(_optimized(b.build(), rules=[gelu], verify=False)) == ["Exp", "Exp"]
