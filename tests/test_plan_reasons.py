"""`why_not` gives the real reason between two blocks; plans say which sizes they do not know."""

from __future__ import annotations

import itertools

import numpy as np
import onnx
import pytest
from onnx.helper import make_node
from onnx_models import info, model_of
from small_models import dense

import egraph_fusion as ef
from egraph_fusion.fusion.legal import refusal
from egraph_fusion.ir.graph import Node

PLANNERS = ("extended", "dnnfusion")


def layers() -> onnx.ModelProto:
    """Two products, each with a head and a tail, and a product beside them."""
    nodes = [
        make_node("MatMul", ["x", "v"], ["p"], name="first"),
        make_node("Relu", ["p"], ["r"], name="relu"),
        make_node("MatMul", ["r", "w"], ["q"], name="second"),
        make_node("Tanh", ["q"], ["y"], name="tanh"),
        make_node("MatMul", ["x", "w"], ["z"], name="beside"),
    ]
    weights = {n: np.ones((4, 4), np.float32) * s for n, s in (("v", 1), ("w", 2))}
    outputs = [info("y", [4, 4]), info("z", [4, 4])]
    return model_of(nodes, [info("x", [4, 4])], outputs, weights)


def test_blocks_that_meet_at_other_nodes_have_the_reason_of_these() -> None:
    plan = ef.plan(ef.load(layers()))
    assert plan.block_of["p"] == plan.block_of["r"] != plan.block_of["q"] == plan.block_of["y"]
    for a, b in (("first", "tanh"), ("tanh", "first")):
        said = plan.why_not(a, b)
        assert "which meet at relu (Relu) and second (MatMul): " in said
        assert "Many-to-Many" in said


@pytest.mark.parametrize("planner", PLANNERS)
def test_blocks_without_a_common_value_are_said_to_have_none(planner: str) -> None:
    plan = ef.plan(ef.load(layers()), planner)
    assert "neither of which reads what the other makes" in plan.why_not("first", "beside")


def test_the_reason_is_that_of_the_blocks_as_they_are_now() -> None:
    graph = ef.load(layers())
    plan = ef.plan(graph)
    joined = [n for n in graph.nodes if n.name != "beside"]
    assert plan.why_not("first", "tanh").endswith(refusal(graph, joined) or "?")


@pytest.mark.parametrize("planner", PLANNERS)
def test_every_pair_of_neighbours_has_a_reason(planner: str) -> None:
    graph = ef.load(dense())
    for model in (graph, ef.load(layers()), ef.optimize(graph).graph):
        plan = ef.plan(model, planner)
        for a, b in itertools.combinations(model.nodes, 2):
            said = plan.why_not(a, b)
            assert "not merged" not in said
            assert ": " in said or "in one block" in said or "neither of which" in said


def test_a_node_of_another_graph_is_refused() -> None:
    plan = ef.plan(ef.load(dense()))
    with pytest.raises(ef.EgraphFusionError, match=r"node beside .* is none of this plan's"):
        plan.why_not(stranger(), "y")


def stranger() -> Node:
    model = model_of([make_node("Neg", ["i"], ["o"], name="beside")], [info("i", [2])], ["o"])
    return ef.load(model).nodes[0]


def test_a_plan_names_the_values_whose_bytes_it_does_not_know() -> None:
    assert ef.plan(dense()).unsized == ()
    assert ef.plan(dense("rows")).unsized == ("m", "a", "r")
