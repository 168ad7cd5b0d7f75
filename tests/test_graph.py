"""Graphs: constants by content, checks, topological order and the builder."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from egraph_fusion.errors import ModelError
from egraph_fusion.ir.build import GraphBuilder
from egraph_fusion.ir.graph import Constant, Graph, Node, node, topological
from egraph_fusion.ir.tensors import DType, TensorType

VECTOR = TensorType(DType.FLOAT32, (3,))


def small_graph() -> Graph:
    b = GraphBuilder("small", opset=17)
    x = b.add_input("x", VECTOR)
    y = b.op("Add", x, b.const(np.ones(3, np.float32)), out="y")
    b.output(b.op("Relu", y, out="z"))
    return b.build()


def test_equal_content_is_one_constant() -> None:
    assert Constant.of(np.zeros(3)) == Constant.of(np.zeros(3))


@pytest.mark.parametrize(
    "other", [np.zeros((3, 1)), np.zeros(3, np.float32), np.array([0.0, -0.0, 0.0])]
)
def test_dtype_shape_and_sign_of_zero_tell_constants_apart(other: np.ndarray) -> None:
    assert Constant.of(np.zeros(3)) != Constant.of(other)


def test_a_constant_does_not_follow_its_source() -> None:
    source = np.zeros(3)
    constant = Constant.of(source)
    source[0] = 1.0
    assert constant.array[0] == 0.0


def test_a_constant_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="read-only"):
        Constant.of(np.zeros(3)).array[0] = 1.0


def test_producers_and_consumers() -> None:
    g = small_graph()
    assert g.producers["y"].op == "Add"
    assert [n.op for n in g.consumers["y"]] == ["Relu"]
    assert "x" not in g.producers


def test_types_of_a_node() -> None:
    g = small_graph()
    assert g.in_types(g.nodes[0]) == (VECTOR, VECTOR)
    assert g.out_types(g.nodes[0]) == (VECTOR,)


def test_unknown_value_is_named() -> None:
    with pytest.raises(ModelError, match="'nothing'"):
        small_graph().type_of("nothing")


def test_node_is_labelled_by_its_name_or_output() -> None:
    assert node("Relu", ["x"], ["y"]).label() == "y (Relu)"
    assert node("Relu", ["x"], ["y"], "act").label() == "act (Relu)"


def test_captures_are_read() -> None:
    assert Node("If", ("c", ""), ("y",), captures=("w",)).reads == ("c", "w")


def test_check_refuses_use_before_definition() -> None:
    g = small_graph()
    with pytest.raises(ModelError, match="before it is defined"):
        g.replace(nodes=g.nodes[::-1]).check()


def test_check_refuses_two_definitions() -> None:
    g = small_graph()
    with pytest.raises(ModelError, match="defined twice"):
        g.replace(nodes=(*g.nodes, g.nodes[0])).check()


def test_check_refuses_an_untyped_value() -> None:
    g = small_graph()
    types = {v: t for v, t in g.types.items() if v != "y"}
    with pytest.raises(ModelError, match="has no type"):
        g.replace(types=types).check()


def test_check_refuses_an_undefined_output() -> None:
    with pytest.raises(ModelError, match="graph output"):
        small_graph().replace(outputs=("w",)).check()


def test_check_refuses_a_constant_of_another_type() -> None:
    g = small_graph()
    (name,) = g.constants
    with pytest.raises(ModelError, match="constant"):
        g.replace(constants={name: Constant.of(np.zeros(4))}).check()


def test_check_refuses_a_default_without_input() -> None:
    with pytest.raises(ModelError, match="default"):
        small_graph().replace(defaults={"y": Constant.of(np.zeros(3, np.float32))}).check()


def chain(count: int) -> list[Node]:
    return [node("Relu", [f"v{i}"], [f"v{i + 1}"]) for i in range(count)]


@given(st.permutations(range(8)))
def test_any_order_of_a_chain_is_sorted(order: list[int]) -> None:
    nodes = chain(8)
    assert topological([nodes[i] for i in order], ["v0"]) == tuple(nodes)


def test_a_sorted_graph_keeps_its_order() -> None:
    nodes = [node("Relu", ["a"], [f"b{i}"]) for i in range(5)]
    assert topological(nodes, ["a"]) == tuple(nodes)


def test_a_long_chain_needs_no_recursion() -> None:
    nodes = chain(5000)
    assert topological(nodes[::-1], ["v0"]) == tuple(nodes)


def test_unwanted_nodes_are_left_out() -> None:
    nodes = [*chain(3), node("Neg", ["v1"], ["side"])]
    assert topological(nodes, ["v0"], ["v2"]) == tuple(nodes[:2])


def test_a_cycle_is_refused() -> None:
    with pytest.raises(ModelError, match="cycle"):
        topological([node("Add", ["a", "c"], ["b"]), node("Relu", ["b"], ["c"])], ["a"])


def test_a_value_from_nowhere_is_refused() -> None:
    with pytest.raises(ModelError, match="nothing defines"):
        topological(chain(1), [])


def test_builder_fills_attributes_and_types() -> None:
    b = GraphBuilder()
    x = b.add_input("x", TensorType(DType.FLOAT32, (1, 2, 5, 5)))
    w = b.const(np.ones((3, 2, 3, 3), np.float32))
    y = b.op("Conv", x, w, pads=(1, 1, 1, 1))
    assert b.type_of(y).shape == (1, 3, 5, 5)
    assert b.nodes[-1].attrs["strides"] == (1, 1)


def test_builder_makes_fresh_names_beside_given_ones() -> None:
    b = GraphBuilder()
    x = b.add_input("relu_1", VECTOR)
    y = b.op("Relu", x)
    z = b.op("Relu", y)
    assert len({x, y, z}) == 3


def test_builder_gives_several_outputs() -> None:
    b = GraphBuilder()
    x = b.add_input("x", TensorType(DType.FLOAT32, (4,)))
    parts = b.node("Split", [x], 2, axis=0, split=(1, 3))
    assert [b.type_of(p).shape for p in parts] == [(1,), (3,)]


def test_builder_shares_equal_constants() -> None:
    b = GraphBuilder()
    assert b.const(np.zeros(3)) == b.const(np.zeros(3))


def test_builder_refuses_a_taken_name() -> None:
    b = GraphBuilder()
    b.add_input("x", VECTOR)
    with pytest.raises(ModelError, match="taken"):
        b.add_input("x", VECTOR)


def test_builder_refuses_an_unknown_operator() -> None:
    with pytest.raises(ModelError, match="'Foo' is not declared"):
        GraphBuilder().op("Foo")


def test_builder_refuses_a_wrong_arity() -> None:
    b = GraphBuilder()
    x = b.add_input("x", VECTOR)
    with pytest.raises(ModelError, match="takes 2 to 2 operands"):
        b.op("Add", x)


def test_builder_names_the_operator_that_refuses() -> None:
    b = GraphBuilder()
    x = b.add_input("x", VECTOR)
    y = b.add_input("y", TensorType(DType.FLOAT32, (4,)))
    with pytest.raises(ModelError, match=r"Add\(float32\[3\], float32\[4\]\)"):
        b.op("Add", x, y)
