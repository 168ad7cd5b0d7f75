"""An If whose condition is known at compile time is its branch."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import egraph_fusion as ef
from egraph_fusion.frontend import load


def info(name: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, [2])


def branching(condition: bool | None) -> onnx.ModelProto:
    """One output made inside, one captured, one an initializer; None: an input decides."""
    weight = numpy_helper.from_array(np.array([2, 3], np.float32), "w")
    then = helper.make_graph(
        [helper.make_node("Mul", ["x", "w"], ["inner"])],
        "then",
        [],
        [info("inner"), info("x"), info("w")],
        [weight],
    )
    other = helper.make_graph(
        [
            helper.make_node("Constant", [], ["w"], value=weight),
            helper.make_node("Sub", ["x", "w"], ["inner"]),
        ],
        "else",
        [],
        [info("inner"), info("inner"), info("w")],
    )
    node = helper.make_node("If", ["c"], ["a", "b", "d"], then_branch=then, else_branch=other)
    inputs, tensors = [info("x")], []
    if condition is None:
        inputs.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
    else:
        tensors.append(numpy_helper.from_array(np.array(condition), "c"))
    body = helper.make_graph(
        [node], "branching", inputs, [info("a"), info("b"), info("d")], tensors
    )
    return helper.make_model(body, opset_imports=[helper.make_opsetid("", 18)])


@pytest.mark.parametrize("condition", [True, False])
def test_a_known_condition_leaves_no_if(condition: bool) -> None:
    assert "If" not in [n.op for n in load(branching(condition)).nodes]


def test_an_unknown_condition_stays() -> None:
    assert [n.op for n in load(branching(None)).nodes] == ["If"]


@pytest.mark.parametrize("condition", [True, False])
@pytest.mark.parametrize("known", [True, False])
def test_the_branch_computes_the_same(condition: bool, known: bool) -> None:
    model = branching(condition if known else None)
    feeds = {"x": np.array([5, 7], np.float32)}
    if not known:
        feeds["c"] = np.array(condition)
    session = ef.compile(model, threads=1)
    found = session.run(None, feeds)
    assert {s.executor for s in session.steps(feeds)} == {"native"}
    for have, want in zip(found, ReferenceEvaluator(model).run(None, feeds), strict=True):
        np.testing.assert_array_equal(have, want)
