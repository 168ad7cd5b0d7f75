"""Writing models: nothing lost, names kept, opsets respected, files replaced atomically."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.helper import make_node
from onnx.reference import ReferenceEvaluator
from onnx_models import info, model_of, runtime, without_payloads

from egraph_fusion.errors import ModelError
from egraph_fusion.frontend import export, expressible, load, save, saving
from egraph_fusion.ir.build import GraphBuilder
from egraph_fusion.ir.graph import Graph, Node, node
from egraph_fusion.ir.tensors import DType, TensorType

F = np.float32
X = np.random.default_rng(3).standard_normal((2, 3)).astype(F)


def rich_model() -> onnx.ModelProto:
    """Return a model with everything that an export could lose."""
    branches: dict[str, Any] = {
        name: helper.make_graph(
            [make_node(op, ["a"], [f"{name}_o"])], name, [], [info(f"{name}_o", [2, 3])]
        )
        for name, op in (("then_branch", "Neg"), ("else_branch", "Abs"))
    }
    nodes = [
        make_node("Add", ["x", "w"], ["a"], name="plus", doc_string="why"),
        make_node("Reshape", ["a", "shape"], ["r"], name="form"),
        make_node("If", ["c"], ["i"], **branches),
        make_node("Clip", ["r", "", "high"], ["y 1"]),
    ]
    constants = {
        "w": np.array([1, 2, 3], F),
        "shape": np.array([0, -1]),
        "high": np.array(0.5, F),
        "spare": np.ones(4, F),
    }
    inputs = [info("x", ["n", 3]), info("c", [], TensorProto.BOOL), info("w", [3])]
    outputs = [info("y 1", ["n", "m"]), info("i", ["n", 3]), info("a", ["n", 3])]
    model = model_of(nodes, inputs, outputs, constants, producer_name="tests")
    helper.set_model_props(model, {"key": "value"})
    model.graph.doc_string = "a graph"
    model.graph.value_info.append(info("r", ["n", 3]))
    return model


@pytest.fixture
def pair() -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """Return a model and what becomes of it."""
    return rich_model(), export(load(rich_model()))


def test_nodes_go_out_byte_for_byte(pair: tuple[onnx.ModelProto, onnx.ModelProto]) -> None:
    before, after = pair
    assert list(after.graph.node) == list(before.graph.node)


@pytest.mark.parametrize("part", ["input", "output", "value_info", "doc_string", "name"])
def test_the_graphs_declarations_are_kept(
    part: str, pair: tuple[onnx.ModelProto, onnx.ModelProto]
) -> None:
    before, after = pair
    assert getattr(after.graph, part) == getattr(before.graph, part)


@pytest.mark.parametrize("part", ["ir_version", "opset_import", "metadata_props", "producer_name"])
def test_the_models_header_is_kept(
    part: str, pair: tuple[onnx.ModelProto, onnx.ModelProto]
) -> None:
    before, after = pair
    assert getattr(after, part) == getattr(before, part)


def test_only_weights_that_nothing_reads_are_dropped(
    pair: tuple[onnx.ModelProto, onnx.ModelProto],
) -> None:
    before, after = pair
    names = {i.name for i in before.graph.initializer}
    assert {i.name for i in after.graph.initializer} == names - {"spare"}


def test_the_exported_model_is_valid_and_computes_the_same(
    pair: tuple[onnx.ModelProto, onnx.ModelProto],
) -> None:
    before, after = pair
    onnx.checker.check_model(after, full_check=True)
    feeds = {"x": X, "c": np.array(True)}
    for found, expected in zip(runtime(after, feeds), runtime(before, feeds), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_export_is_a_fixed_point() -> None:
    once = export(load(rich_model()))
    assert export(load(once)) == once


def test_load_leaves_the_callers_model_alone() -> None:
    model = rich_model()
    load(model)
    assert model == rich_model()


def test_a_renamed_operand_reaches_node_and_subgraph() -> None:
    graph = load(rich_model())
    renamed = export(_renamed(graph, "a", "a new"))
    onnx.checker.check_model(renamed)
    feeds = {"x": X, "c": np.array(False)}
    np.testing.assert_array_equal(runtime(renamed, feeds)[1], runtime(rich_model(), feeds)[1])


def _renamed(graph: Graph, old: str, new: str) -> Graph:
    def swap(values: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(new if v == old else v for v in values)

    nodes = tuple(
        replace(n, inputs=swap(n.inputs), outputs=swap(n.outputs), captures=swap(n.captures))
        for n in graph.nodes
    )
    types = {new if v == old else v: t for v, t in graph.types.items()}
    return graph.replace(nodes=nodes, types=types, outputs=graph.outputs[:2])


def test_a_constant_that_an_attribute_replaced_survives_a_name_clash() -> None:
    model = model_of(
        [make_node("Reshape", ["x", "shape"], ["y"])],
        [info("x", [2, 3])],
        ["y"],
        {"shape": np.array([3, 2])},
    )
    graph = load(model)
    taken = replace(node("Relu", ["x"], ["shape"]))
    types = {**graph.types, "shape": graph.types["x"]}
    again = export(graph.replace(nodes=(taken, *graph.nodes), types=types))
    assert runtime(again, {"x": X})[0].shape == (3, 2)


def test_new_nodes_record_the_rules_that_made_them() -> None:
    graph = load(model_of([make_node("Relu", ["x"], ["y"])], [info("x", [2])], ["y"]))
    born = tuple(replace(n, payload=b"", rules=("one", "two")) for n in graph.nodes)
    (proto,) = export(graph.replace(nodes=born)).graph.node
    assert {p.key: p.value for p in proto.metadata_props} == {"egraph_fusion.rules": "one, two"}


def _clip(opset: int) -> Graph:
    attrs: dict[str, Any] = {"max": 0.5} if opset < 11 else {}
    constants = {} if opset < 11 else {"high": np.array(0.5, F)}
    inputs = ["x"] if opset < 11 else ["x", "", "high"]
    clip = make_node("Clip", inputs, ["y"], **attrs)
    return load(model_of([clip], [info("x", [2, 3])], ["y"], constants, opset))


@pytest.mark.parametrize(("old", "new"), [(9, 13), (13, 9), (13, 21)])
def test_another_opset_is_written_in_its_own_forms(old: int, new: int) -> None:
    model = export(_clip(old), opset=new)
    assert [e.version for e in model.opset_import] == [new]
    np.testing.assert_array_equal(runtime(model, {"x": X})[0], np.minimum(X, F(0.5)))


def _gelu(opset: int) -> Graph:
    graph = load(
        model_of([make_node("Relu", ["x"], ["y"])], [info("x", [2, 3])], ["y"], opset=opset)
    )
    return graph.replace(nodes=(node("Gelu", ["x"], ["y"], approximate="none"),))


def test_a_node_that_the_opset_lacks_is_refused_with_the_one_it_needs() -> None:
    with pytest.raises(ModelError, match="opset 17 has no Gelu; it needs opset 20"):
        export(_gelu(17))


def test_expressible_says_beforehand_what_export_would() -> None:
    graph = _gelu(17)
    assert "needs opset 20" in expressible(graph.nodes[0], graph)
    assert expressible(graph.nodes[0], graph, 20) == ""


def test_a_graph_without_header_can_be_exported() -> None:
    graph = load(model_of([make_node("Relu", ["x"], ["y"])], [info("x", ["n", 3])], ["y"]))
    bare = without_payloads(graph).replace(header=b"", opset=0)
    model = export(bare)
    onnx.checker.check_model(model)
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "n"


def test_ir_version_3_lists_every_weight_as_an_input() -> None:
    model = model_of(
        [make_node("Reshape", ["x", "s"], ["r"]), make_node("Add", ["r", "w"], ["y"])],
        [info("x", [3, 2]), info("w", [3]), info("s", [2], TensorProto.INT64)],
        [info("y", [2, 3])],
        {"w": np.ones(3, F), "s": np.array([2, 3])},
        opset=9,
        ir_version=3,
    )
    again = export(without_payloads(load(model)))
    onnx.checker.check_model(again)
    assert {i.name for i in again.graph.initializer} < {i.name for i in again.graph.input}


def test_a_wrong_declared_output_shape_is_corrected() -> None:
    model = model_of([make_node("Relu", ["x"], ["y"])], [info("x", [2, 3])], [info("y", [2, 9])])
    (output,) = export(load(model)).graph.output
    assert [d.dim_value for d in output.type.tensor_type.shape.dim] == [2, 3]


def test_save_writes_what_export_gives(tmp_path: Path) -> None:
    save(load(rich_model()), tmp_path / "out.onnx")
    assert onnx.load(tmp_path / "out.onnx") == export(load(rich_model()))
    assert os.listdir(tmp_path) == ["out.onnx"]


def test_big_weights_go_into_a_data_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saving, "EXTERNAL_ABOVE", 1)
    weight = np.random.default_rng(1).standard_normal((400, 3)).astype(F)
    model = model_of(
        [make_node("MatMul", ["x", "w"], ["m"]), make_node("Add", ["m", "b"], ["y"])],
        [info("x", [2, 400])],
        [info("y", [2, 3])],
        {"w": weight, "b": np.ones(3, F)},
    )
    save(load(model), tmp_path / "big.onnx")
    assert sorted(os.listdir(tmp_path)) == ["big.onnx", "big.onnx.data"]
    onnx.checker.check_model(str(tmp_path / "big.onnx"))
    np.testing.assert_array_equal(load(tmp_path / "big.onnx").constants["w"].array, weight)


def chain(*ops: str) -> Graph:
    """Return a chain of unary operators on `x`."""
    values = ["x", *(f"v{i}" for i in range(len(ops)))]
    nodes = [make_node(op, [values[i]], [values[i + 1]]) for i, op in enumerate(ops)]
    return load(model_of(nodes, [info("x", [2, 3])], [info(values[-1], [2, 3])]))


def groups(graph: Graph, *picked: tuple[int, ...]) -> list[list[Node]]:
    return [[graph.nodes[i] for i in group] for group in picked]


def test_groups_become_functions_and_compute_the_same(tmp_path: Path) -> None:
    graph = chain("Neg", "Exp", "Tanh", "Abs")
    save(graph, tmp_path / "f.onnx", functions=groups(graph, (0, 1), (2, 3)))
    model = onnx.load(tmp_path / "f.onnx")
    assert [len(f.node) for f in model.functions] == [2, 2]
    onnx.checker.check_model(model)
    np.testing.assert_allclose(runtime(model, {"x": X})[0], np.abs(np.tanh(np.exp(-X))), rtol=1e-6)


def test_functions_are_inlined_again_on_reading(tmp_path: Path) -> None:
    graph = chain("Neg", "Exp", "Tanh")
    save(graph, tmp_path / "f.onnx", functions=groups(graph, (1, 2)))
    assert [n.op for n in load(tmp_path / "f.onnx").nodes] == ["Neg", "Exp", "Tanh"]


def test_a_group_that_is_not_convex_is_refused(tmp_path: Path) -> None:
    graph = chain("Neg", "Exp", "Tanh")
    with pytest.raises(ModelError, match="cycle"):
        save(graph, tmp_path / "f.onnx", functions=groups(graph, (0, 2)))


def test_a_pipe_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    graph = load(model_of([make_node("Relu", ["x"], ["y"])], [info("x", [2])], ["y"]))
    with pytest.raises(ModelError, match="a device or a pipe"):
        save(graph, pipe)
    assert pipe.is_fifo()


def test_a_link_is_written_through(tmp_path: Path) -> None:
    real, link = tmp_path / "real.onnx", tmp_path / "link.onnx"
    real.write_bytes(b"old")
    link.symlink_to(real)
    graph = load(model_of([make_node("Relu", ["x"], ["y"])], [info("x", [2])], ["y"]))
    save(graph, link)
    assert link.is_symlink()
    assert onnx.load(real).graph.node[0].op_type == "Relu"


def test_a_transposed_scalar_is_written() -> None:
    b = GraphBuilder("scalar", opset=18)
    b.output(b.op("Transpose", b.add_input("x", TensorType(DType.FLOAT32, ())), perm=()))
    model = export(b.build())
    onnx.checker.check_model(model, full_check=True)
    (y,) = ReferenceEvaluator(model).run(None, {"x": np.float32(2.5)})
    assert (np.shape(y), float(y)) == ((), 2.5)


def _branching(inner: str, opset: int) -> Graph:
    """Return y = inner(x) if c else x; the operator is inside a branch."""
    then = helper.make_graph([make_node(inner, ["x"], ["t"])], "then", [], [info("t", None)])
    other = helper.make_graph([make_node("Identity", ["x"], ["e"])], "else", [], [info("e", None)])
    choice = make_node("If", ["c"], ["y"], then_branch=then, else_branch=other)
    c = helper.make_tensor_value_info("c", TensorProto.BOOL, [])
    return load(model_of([choice], [info("x", [2, 3]), c], [info("y", [2, 3])], {}, opset))


@pytest.mark.parametrize(("old", "new"), [(11, 21), (13, 19), (16, 23)])
def test_a_branch_goes_into_another_opset_where_only_dtypes_have_changed(
    old: int, new: int
) -> None:
    model = export(_branching("Abs", old), opset=new)
    onnx.checker.check_model(model)
    assert [e.version for e in model.opset_import] == [new]
    x = np.array([[-1.0, 2.0, -3.0], [0.0, 5.0, -6.0]], np.float32)
    for flag, right in ((True, np.abs(x)), (False, x)):
        (y,) = ReferenceEvaluator(model).run(None, {"x": x, "c": np.array(flag)})
        np.testing.assert_array_equal(y, right)


def test_a_branch_whose_operator_means_something_else_there_is_refused() -> None:
    with pytest.raises(ModelError, match=r"If.* cannot be written for opset 13"):
        export(_branching("Softmax", 11), opset=13)


def test_texts_go_into_a_newer_opset_and_back_only_where_it_takes_them() -> None:
    text = helper.make_tensor_value_info("x", TensorProto.STRING, [2])
    out = helper.make_tensor_value_info("y", TensorProto.STRING, [2])
    graph = helper.make_graph([make_node("Identity", ["x"], ["y"])], "g", [text], [out])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 7)], ir_version=8)
    newer = export(load(model), opset=21)
    onnx.checker.check_model(newer)
    assert export(load(newer), opset=7).graph.node[0].op_type == "Identity"
    equal = make_node("Equal", ["x", "x"], ["y"])
    same = helper.make_tensor_value_info("y", TensorProto.BOOL, [2])
    compared = helper.make_graph([equal], "g", [text], [same])
    model = helper.make_model(compared, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    with pytest.raises(ModelError, match=r"cannot be written for opset 13|does not take"):
        export(load(model), opset=13)
