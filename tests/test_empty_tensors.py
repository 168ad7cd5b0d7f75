"""Tensors without elements, and shapes that only the data tells."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx.helper import make_node
from onnx.reference import ReferenceEvaluator
from onnx_models import info, model_of

import egraph_fusion as ef
from egraph_fusion.ir.build import GraphBuilder
from egraph_fusion.ir.tensors import DType, TensorType
from egraph_fusion.optimizer import optimize

Array = NDArray[Any]
WEIGHTS: dict[str, Array] = {
    "w": np.ones((8, 4), np.float32),
    "k": np.ones((2, 3, 3, 3), np.float32),
    "s": np.ones(8, np.float32),
    "first": np.array([0], np.int64),
}
PRODUCT = make_node("MatMul", ["x", "w"], ["m"])
CASES: dict[str, tuple[list[onnx.NodeProto], list[str], tuple[int | str, ...]]] = {
    "product": ([make_node("MatMul", ["x", "w"], ["y"])], ["y"], ("n", 8)),
    "product and relu": ([PRODUCT, make_node("Relu", ["m"], ["y"])], ["y"], ("n", 8)),
    "product and softmax": ([PRODUCT, make_node("Softmax", ["m"], ["y"])], ["y"], ("n", 8)),
    "a sum of nothing": (
        [PRODUCT, make_node("ReduceSum", ["m", "first"], ["y"], keepdims=0)],
        ["y"],
        ("n", 8),
    ),
    "a sum of nothing beside it": (
        [PRODUCT, make_node("ReduceSum", ["m", "first"], ["y"], keepdims=0)],
        ["y", "m"],
        ("n", 8),
    ),
    "convolution": (
        [make_node("Conv", ["x", "k"], ["c"]), make_node("Relu", ["c"], ["y"])],
        ["y"],
        ("n", 3, 6, 6),
    ),
    "pooling": ([make_node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2])], ["y"], ("n", 3, 6, 6)),
    "layer norm": ([make_node("LayerNormalization", ["x", "s"], ["y"])], ["y"], ("n", 8)),
}


def _model(nodes: list[onnx.NodeProto], outputs: list[str], shape: tuple[int | str, ...]) -> Any:
    read = {v for n in nodes for v in n.input}
    constants = {k: v for k, v in WEIGHTS.items() if k in read}
    return model_of(nodes, [info("x", shape)], [info(o, None) for o in outputs], constants)


@pytest.mark.parametrize("optimize", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_an_empty_batch_gives_what_the_reference_gives(name: str, optimize: bool) -> None:
    model = _model(*CASES[name])
    session = ef.compile(model, optimize=optimize, threads=2)
    for rows in (2, 0):
        rest = [d for d in CASES[name][2] if isinstance(d, int)]
        x = np.ones((rows, *rest), np.float32)
        expected = ReferenceEvaluator(model).run(None, {"x": x})
        for own, right in zip(session.run(None, {"x": x}), expected, strict=True):
            assert own.shape == np.shape(right)
            np.testing.assert_allclose(own, np.asarray(right), rtol=1e-5)


FOLLOWERS: dict[str, list[onnx.NodeProto]] = {
    "cast": [make_node("Transpose", ["i"], ["t"]), make_node("Cast", ["t"], ["y"], to=1)],
    "product": [
        make_node("Cast", ["i"], ["f"], to=1),
        make_node("Transpose", ["f"], ["t"], perm=[1, 0]),
        make_node("Mul", ["t", "t"], ["y"]),
    ],
}


@pytest.mark.parametrize("optimize", [True, False])
@pytest.mark.parametrize("name", FOLLOWERS)
def test_operators_after_a_size_that_comes_out_of_the_data(name: str, optimize: bool) -> None:
    nodes = [make_node("NonZero", ["x"], ["i"]), *FOLLOWERS[name]]
    model = _model(nodes, ["y"], (6,))
    session = ef.compile(model, optimize=optimize, threads=2)
    for x in (np.array([1, 0, 2, 0, 0, 3], np.float32), np.zeros(6, np.float32)):
        (right,) = ReferenceEvaluator(model).run(None, {"x": x})
        np.testing.assert_array_equal(session.run(None, {"x": x})[0], right)


def test_an_output_that_is_an_operand_after_all_is_made_once() -> None:
    b = GraphBuilder("empty", opset=21)
    x = b.add_input("x", TensorType(DType.FLOAT32, (0,)))
    for part in b.node("Split", [x], 3, axis=0, split=(0, 0, 0)):
        b.output(part)
    made = optimize(b.build()).graph
    made.check()
    assert [o for n in made.nodes for o in n.outputs if o in made.outputs] == list(made.outputs)
