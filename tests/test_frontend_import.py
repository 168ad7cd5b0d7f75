"""Reading whole models: names, order, defaults, captures, symbolic sizes, shape arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.helper import make_node
from onnx_models import info, meaning, model_of

from egraph_fusion.frontend import load, opaque_reasons
from egraph_fusion.ir.dims import Shape, symbol
from egraph_fusion.ir.graph import Graph
from egraph_fusion.ir.tensors import DType

F = np.float32
X = info("x", ["batch", 3])


def known(graph: Graph, value: str) -> Shape:
    """Return the shape of a value of known rank."""
    shape = graph.types[value].shape
    assert shape is not None
    return shape


def test_dimensions_keep_their_names_and_unnamed_ones_get_fresh_symbols() -> None:
    model = model_of(
        [make_node("Add", ["x", "z"], ["y"])],
        [info("x", ["batch", None]), info("z", ["batch", 1])],
        ["y"],
    )
    graph = load(model)
    batch, other = known(graph, "x")
    assert batch == symbol("batch") == known(graph, "z")[0]
    assert graph.types["y"].shape == (batch, other)


def test_a_dimension_name_that_is_no_identifier_becomes_one() -> None:
    model = model_of([make_node("Relu", ["x"], ["y"])], [info("x", ['a*/"b\n'])], ["y"])
    (dim,) = known(load(model), "x")
    assert str(dim).isidentifier()


def test_unsorted_nodes_are_sorted() -> None:
    nodes = [make_node("Relu", ["a"], ["y"]), make_node("Neg", ["x"], ["a"])]
    assert [n.op for n in load(model_of(nodes, [X], ["y"])).nodes] == ["Neg", "Relu"]


def test_sorted_nodes_keep_their_order() -> None:
    ops = ["Neg", "Abs", "Exp", "Sqrt"]
    nodes = [make_node(op, ["x"], [op]) for op in ops]
    assert [n.op for n in load(model_of(nodes, [X], ops[::-1])).nodes] == ops


def test_dead_nodes_are_left_out_and_unused_inputs_kept() -> None:
    nodes = [make_node("Neg", ["x"], ["dead"]), make_node("Relu", ["x"], ["y"])]
    graph = load(model_of(nodes, [X, info("unused", [1])], ["y"]))
    assert ([n.op for n in graph.nodes], graph.inputs) == (["Relu"], ("x", "unused"))


@pytest.mark.parametrize(("ir_version", "inputs"), [(3, ("x",)), (4, ("x", "w"))])
def test_a_weight_that_is_an_input_can_be_overridden_from_ir_version_4_on(
    ir_version: int, inputs: tuple[str, ...]
) -> None:
    weights = {"w": np.ones(3, F)}
    model = model_of(
        [make_node("Add", ["x", "w"], ["y"])],
        [X, info("w", [3])],
        ["y"],
        weights,
        opset=9,
        ir_version=ir_version,
    )
    graph = load(model)
    assert graph.inputs == inputs
    assert set(graph.defaults) == set(inputs) - {"x"}
    assert set(graph.constants) == {"x", "w"} - set(inputs)


CONSTANTS: dict[str, Any] = {
    "value": numpy_helper.from_array(np.array([[1, 2]], np.int8)),
    "value_int": 3,
    "value_ints": [3, 4],
    "value_float": 0.5,
    "value_floats": [0.5, 0.25],
    "value_string": b"text",
    "value_strings": [b"a", b"b"],
}


@pytest.mark.parametrize("form", CONSTANTS)
def test_every_form_of_constant_node_is_a_constant(form: str) -> None:
    node = make_node("Constant", [], ["c"], **{form: CONSTANTS[form]})
    use = make_node("Identity", ["c"], ["y"])
    graph = load(model_of([node, use], [], ["y"]))
    assert set(graph.constants) <= {"c", "y"}
    assert len(graph.constants) == 1


def test_a_sparse_initializer_becomes_dense() -> None:
    sparse = helper.make_sparse_tensor(
        numpy_helper.from_array(np.array([5, 6], F), "w"),
        numpy_helper.from_array(np.array([[0, 1], [2, 0]]), "at"),
        [3, 2],
    )
    model = model_of([make_node("Neg", ["w"], ["y"])], [], ["y"])
    model.graph.sparse_initializer.append(sparse)
    np.testing.assert_array_equal(load(model).constants["w"].array, [[0, 5], [0, 0], [6, 0]])


def branch(name: str, inner: str) -> onnx.GraphProto:
    """Return a branch that reads the outer `x` and defines `inner`, an outer name, itself."""
    nodes = [make_node("Neg", ["x"], [inner]), make_node("Add", [inner, "w"], [name])]
    return helper.make_graph(nodes, name, [], [info(name, None)])


def test_captures_follow_scoping_rules() -> None:
    nodes = [
        make_node("Relu", ["x"], ["v"]),
        make_node("If", ["c"], ["y"], then_branch=branch("t", "v"), else_branch=branch("e", "u")),
    ]
    model = model_of(nodes, [X, info("c", [], TensorProto.BOOL)], ["y", "v"], {"w": np.ones(3, F)})
    *_, node = load(model).nodes
    assert (node.opaque, node.captures) == (True, ("x", "w"))


def test_a_node_of_a_custom_domain_is_opaque_with_its_reason() -> None:
    graph = load(model_of([make_node("Magic", ["x"], ["y"], domain="own", name="m")], [X], ["y"]))
    assert graph.nodes[0].op == "own:Magic"
    assert opaque_reasons(graph) == {"m (own:Magic)": "it belongs to the domain 'own'"}


def test_a_local_function_is_inlined() -> None:
    body = [make_node("Neg", ["a"], ["t"]), make_node("Exp", ["t"], ["b"])]
    function = helper.make_function("own", "f", ["a"], ["b"], body, [helper.make_opsetid("", 17)])
    call = make_node("f", ["x"], ["y"], domain="own")
    graph = load(model_of([call], [X], ["y"], functions=[function]))
    assert [n.op for n in graph.nodes] == ["Neg", "Exp"]
    assert not onnx.ModelProto.FromString(graph.header).functions


def shape_chain(last: str) -> onnx.ModelProto:
    """Return Reshape(x) to (batch, 1, 3) by a computed shape, as exporters write it."""
    nodes = [
        make_node("Shape", ["x"], ["s"]),
        make_node("Gather", ["s", "zero"], ["n"]),
        make_node("Unsqueeze", ["n", "axis"], ["n1"]),
        make_node("Concat", ["n1", "rest"], ["t"], axis=0),
        make_node("Reshape", ["x", "t"], [last]),
    ]
    constants = {"zero": np.array(0), "axis": np.array([0]), "rest": np.array([1, 3])}
    return model_of(nodes, [X], [last], constants)


def test_a_symbolic_size_is_followed_into_reshape() -> None:
    graph = load(shape_chain("y"))
    assert [n.op for n in graph.nodes] == ["Reshape"]
    assert graph.types["y"].shape == (symbol("batch"), 1, 3)


def test_static_shape_arithmetic_is_folded() -> None:
    model = shape_chain("y")
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 5
    (node,) = load(model).nodes
    assert node.attrs["shape"] == (5, 1, 3)


def test_float_computation_on_constants_is_left_to_the_optimiser() -> None:
    model = model_of([make_node("Exp", ["w"], ["y"])], [], ["y"], {"w": np.ones(3, F)})
    assert [n.op for n in load(model).nodes] == ["Exp"]


def test_a_folded_value_that_is_an_output_keeps_its_node() -> None:
    nodes = [make_node("Shape", ["x"], ["s"]), make_node("Reshape", ["z", "s"], ["y"])]
    outputs = [info("s", [2], TensorProto.INT64), "y"]
    model = model_of(nodes, [info("x", [2, 3]), info("z", [6])], outputs)
    graph = load(model)
    assert [n.op for n in graph.nodes] == ["Shape", "Reshape"]
    zeros = {"x": np.zeros((2, 3), F), "z": np.zeros(6, F)}
    assert meaning(graph, zeros)[1].shape == (2, 3)


def test_a_false_declared_shape_is_not_believed() -> None:
    model = model_of([make_node("Relu", ["x"], ["y"])], [X], [info("y", [7, 7, 7])])
    assert load(model).types["y"].shape == (symbol("batch"), 3)


def test_random_nodes_stay_apart() -> None:
    nodes = [make_node("RandomNormal", [], [v], shape=[2]) for v in ("a", "b")]
    graph = load(model_of(nodes, [], ["a", "b"]))
    assert [n.opaque for n in graph.nodes] == [True, True]


def test_values_that_are_no_tensors_are_carried() -> None:
    nodes = [
        make_node("SequenceConstruct", ["x", "x"], ["q"]),
        make_node("SequenceAt", ["q", "zero"], ["y"]),
    ]
    graph = load(model_of(nodes, [info("x", [2])], ["y"], {"zero": np.array(0)}))
    assert graph.types["q"].dtype is DType.OTHER
    assert graph.types["y"].dtype is DType.FLOAT32


def test_every_node_has_a_type_for_each_output() -> None:
    graph = load(shape_chain("y"))
    graph.check()
