"""Undeclared operators run through ONNX's function bodies, where all of these has kernels."""

import numpy as np
import onnx
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import egraph_fusion as ef
from egraph_fusion.frontend import export, load
from egraph_fusion.frontend.expansion import expand


def losses(rows: int | str = 3) -> onnx.ModelProto:
    """Two nodes without names of one undeclared operator."""
    loss = "NegativeLogLikelihoodLoss"
    body = helper.make_graph(
        [
            helper.make_node(loss, ["x", "labels"], ["sum"], reduction="sum"),
            helper.make_node(loss, ["x", "labels"], ["each"], reduction="none"),
            helper.make_node("Add", ["sum", "each"], ["y"]),
        ],
        "losses",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, 8]),
            helper.make_tensor_value_info("labels", TensorProto.INT64, [rows]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows])],
    )
    return helper.make_model(body, opset_imports=[helper.make_opsetid("", 18)])


def counting() -> onnx.ModelProto:
    """A node whose body holds a loop, which has no kernel."""
    numbers = [helper.make_tensor_value_info(v, TensorProto.INT64, []) for v in "abc"]
    node = helper.make_node("Range", ["a", "b", "c"], ["y"])
    outputs = [helper.make_tensor_value_info("y", TensorProto.INT64, ["n"])]
    body = helper.make_graph([node], "counting", numbers, outputs)
    return helper.make_model(body, opset_imports=[helper.make_opsetid("", 18)])


def test_an_expanded_graph_has_no_opaque_node() -> None:
    graph = load(losses())
    assert [n.opaque for n in graph.nodes] == [True, True, False]
    expanded = expand(graph)
    expanded.check()
    assert not any(n.opaque for n in expanded.nodes)


def test_expanded_graphs_compute_the_same() -> None:
    model = losses()
    x = np.random.default_rng(0).standard_normal((3, 8), np.float32)
    feeds = {"x": x, "labels": np.array([0, 7, 3])}
    session = ef.compile(model, threads=1)
    assert {s.executor for s in session.steps(feeds)} == {"native"}
    want = np.asarray(next(iter(ReferenceEvaluator(model).run(None, feeds))))
    np.testing.assert_allclose(session.run(None, feeds)[0], want, rtol=1e-5, atol=1e-6)


def test_bodies_that_hold_undeclared_operators_are_not_taken() -> None:
    graph = load(counting())
    assert graph.nodes[0].opaque
    assert expand(graph) is graph


def test_symbolic_operands_keep_their_operator() -> None:
    graph = load(losses("rows"))
    assert expand(graph) is graph


def test_exported_models_keep_the_operator() -> None:
    graph = ef.optimize(load(losses())).graph
    written = [n.op_type for n in export(graph).graph.node]
    assert written.count("NegativeLogLikelihoodLoss") == 2


def old_slope() -> onnx.ModelProto:
    """PRelu as before opset 7, with a slope for each channel."""
    body = helper.make_graph(
        [helper.make_node("PRelu", ["x", "slope"], ["y"])],
        "slope",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3, 4]),
            helper.make_tensor_value_info("slope", TensorProto.FLOAT, [3]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3, 4])],
    )
    return helper.make_model(body, opset_imports=[helper.make_opsetid("", 6)])


def test_a_slope_for_each_channel_runs_natively() -> None:
    rng = np.random.default_rng(0)
    x, slope = rng.standard_normal((2, 3, 4), np.float32), rng.random(3, np.float32)
    session = ef.compile(old_slope(), threads=1)
    assert {s.executor for s in session.steps()} == {"native"}
    want = np.where(x < 0, x * slope[:, None], x)
    np.testing.assert_allclose(session.run(None, {"x": x, "slope": slope})[0], want, rtol=1e-6)
