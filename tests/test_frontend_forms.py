"""Every reader: the normal form means what onnxruntime says of the node, opset by opset."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.helper import make_node, np_dtype_to_tensor_dtype
from onnx_models import Array, info, meaning, model_of, runtime, state_ranks, without_payloads

from egraph_fusion.frontend import export, load


@dataclass(frozen=True)
class Case:
    """One node: operands that vary, operands that are constant, in order of `order`."""

    op: str
    opset: int
    x: Array
    constants: dict[str, Array] = field(default_factory=dict)
    attrs: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1
    operands: tuple[str, ...] | None = None
    becomes: str = ""

    def __str__(self) -> str:
        """Name the case in test reports."""
        form = "-".join([*self.constants, *self.attrs])
        return f"{self.op}-{self.opset}-{form}"

    def model(self) -> onnx.ModelProto:
        """Return the model of this one node."""
        names = self.operands or ("x", *self.constants)
        outputs = [f"y{i}" for i in range(self.outputs)]
        node = make_node(self.op, names, outputs, **self.attrs)
        code = np_dtype_to_tensor_dtype(self.x.dtype)
        kinds = self._output_codes(code)
        return model_of(
            [node],
            [info("x", self.x.shape, code)],
            [info(o, None, kinds) for o in outputs],
            self.constants,
            self.opset,
        )

    def _output_codes(self, code: int) -> int:
        if self.op.startswith("Arg"):
            return onnx.TensorProto.INT64
        return int(self.attrs.get("to", code)) if self.op == "Cast" else code


def ints(*values: int) -> Array:
    return np.array(values, np.int64)


def floats(*shape: int) -> Array:
    return np.random.default_rng(7).standard_normal(shape).astype(np.float32)


X = floats(2, 3, 4)
F = np.float32
CASES = [
    Case("Reshape", 13, X, {"shape": ints(0, -1)}),
    Case("Reshape", 13, X, {"shape": ints(6, 4)}),
    Case("Reshape", 14, np.zeros((0, 3), F), {"shape": ints(3, 0)}, {"allowzero": 1}),
    Case("Expand", 13, floats(3, 1), {"shape": ints(2, 1, 4)}),
    Case("Tile", 13, floats(2, 3), {"repeats": ints(2, 3)}),
    Case("Squeeze", 11, floats(1, 3, 1), {}, {"axes": [0, -1]}),
    Case("Squeeze", 11, floats(1, 3, 1)),
    Case("Squeeze", 13, floats(1, 3, 1), {"axes": ints(-1)}),
    Case("Squeeze", 13, floats(1, 3, 1)),
    Case("Unsqueeze", 11, floats(3), {}, {"axes": [0, 2]}),
    Case("Unsqueeze", 13, floats(3), {"axes": ints(-1, 0)}),
    Case("Slice", 9, X, {}, {"starts": [1, 0], "ends": [3, -1], "axes": [1, 2]}),
    Case("Slice", 9, X, {}, {"starts": [1], "ends": [100]}),
    Case("Slice", 13, X, {"starts": ints(1), "ends": ints(2)}),
    Case("Slice", 13, X, {"s": ints(0, 0), "e": ints(2, 9), "a": ints(-1, 0)}),
    Case("Slice", 13, X, {"s": ints(-1), "e": ints(-100), "a": ints(2), "t": ints(-2)}),
    Case("Split", 11, X, {}, {"axis": 1, "split": [1, 2]}, outputs=2),
    Case("Split", 11, X, {}, {"axis": 2}, outputs=2),
    Case("Split", 13, X, {"sizes": ints(1, 3)}, {"axis": -1}, outputs=2),
    Case("Split", 13, X, {}, {"axis": 0}, outputs=2),
    Case("Split", 18, X, {}, {"axis": 1, "num_outputs": 2}, outputs=2),
    Case("Pad", 10, floats(2, 3), {}, {"pads": [1, 0, 0, 2], "value": 1.5}),
    Case("Pad", 10, floats(2, 3), {}, {"pads": [1, 0, 0, 2], "mode": "reflect"}),
    Case("Pad", 13, floats(2, 3), {"pads": ints(0, 1, -1, 0)}),
    Case("Pad", 13, floats(2, 3), {"pads": ints(0, 1, 1, 0), "fill": np.array(2, F)}),
    Case(
        "Pad",
        18,
        floats(2, 3),
        {"pads": ints(1, 2), "axes": ints(-1)},
        operands=("x", "pads", "", "axes"),
    ),
    Case("ReduceSum", 11, X, {}, {"axes": [-1], "keepdims": 0}),
    Case("ReduceSum", 11, X),
    Case("ReduceSum", 13, X, {"axes": ints(0, 2)}),
    Case("ReduceSum", 13, X, {"axes": ints()}, {"noop_with_empty_axes": 1}),
    Case("ReduceSum", 13, X, {}, {"keepdims": 0}),
    Case("ReduceMean", 13, X, {}, {"axes": [1]}),
    Case("ReduceMean", 18, X, {"axes": ints(1)}),
    Case("ReduceMax", 18, X, {"axes": ints(-2)}, {"keepdims": 0}),
    Case("ReduceLogSumExp", 18, X, {"axes": ints(0)}),
    Case("CumSum", 11, X, {"axis": np.array(-1, np.int64)}, {"reverse": 1}),
    Case("CumSum", 14, X, {"axis": ints(1)}, {"exclusive": 1}),
    Case("ArgMax", 11, X, {}, {"axis": -1, "keepdims": 0}),
    Case("ArgMin", 13, X, {}, {"select_last_index": 1}),
    Case("Clip", 10, X, {}, {"min": -0.5, "max": 0.25}),
    Case("Clip", 10, X, {}, {"max": 0.25}),
    Case("Clip", 10, X),
    Case("Clip", 11, X, {"low": np.array(-0.5, F), "high": np.array(0.25, F)}),
    Case("Clip", 11, X, {"low": np.array([-0.5], F), "high": np.array(0.25, F)}),
    Case("Clip", 11, X, {"high": np.array(0.25, F)}, operands=("x", "", "high")),
    Case("Softmax", 11, floats(2, 5), {}, {"axis": 1}),
    Case("Softmax", 11, floats(2, 5, 1, 1)),
    Case("LogSoftmax", 11, X, {}, {"axis": -1}),
    Case("Softmax", 13, X, {}, {"axis": 1}),
    Case("Softmax", 13, X),
    Case("Cast", 13, X, {}, {"to": onnx.TensorProto.INT32}),
    Case("Cast", 13, X, {}, {"to": onnx.TensorProto.DOUBLE}),
    Case("CastLike", 15, X, {"like": np.zeros(1, np.float32)}, becomes="Cast"),
    Case("Dropout", 10, X, becomes="Identity"),
    Case("Dropout", 13, X, {"ratio": np.array(0.5, F)}, becomes="Identity"),
    Case(
        "Dropout",
        13,
        X,
        {"ratio": np.array(0.5, F), "training": np.array(False)},
        becomes="Identity",
    ),
    Case("Trilu", 14, floats(3, 4), {"k": np.array(1, np.int64)}, {"upper": 0}),
    Case("Trilu", 14, floats(3, 4)),
    Case("Flatten", 13, X, {}, {"axis": -1}),
    Case("Transpose", 13, X),
    Case("Gather", 13, X, {"indices": ints(0, -1)}, {"axis": -1}),
    Case("MaxPool", 12, floats(1, 2, 5, 5), {}, {"kernel_shape": [2, 2], "strides": [2, 2]}),
    Case("AveragePool", 11, floats(1, 2, 5, 5), {}, {"kernel_shape": [3, 3], "pads": [1] * 4}),
    Case("Conv", 11, floats(1, 2, 5, 5), {"w": floats(3, 2, 3, 3)}, {"kernel_shape": [3, 3]}),
    Case("Conv", 11, floats(1, 2, 5, 5), {"w": floats(3, 2, 3, 3)}, {"auto_pad": "SAME_UPPER"}),
    Case("EyeLike", 9, floats(3, 4), {}, {"k": 1}),
    Case("Mod", 13, X, {"y": np.array(0.75, F)}, {"fmod": 1}),
    Case("LeakyRelu", 13, X),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_form_is_read_as_onnx_means_it(case: Case) -> None:
    expected = runtime(case.model(), {"x": case.x})
    graph = load(case.model())
    assert [n.reason for n in graph.nodes if n.opaque] == []
    for ours, theirs in zip(meaning(graph, {"x": case.x}), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6, strict=True)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_normal_form_is_written_back_for_its_opset(case: Case) -> None:
    model = case.model()
    expected = runtime(model, {"x": case.x})
    state_ranks(model, expected)
    again = export(without_payloads(load(model)))
    onnx.checker.check_model(again)
    found = runtime(again, {"x": case.x})
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6, strict=True)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_an_untouched_node_goes_out_verbatim(case: Case) -> None:
    (before,) = case.model().graph.node
    graph = load(case.model())
    read = {v for n in graph.nodes for v in n.inputs}
    replaced = read - {*before.input} and {*before.input} - read
    if replaced or not all(n.payload for n in graph.nodes) or before.op_type == "CastLike":
        pytest.skip("read as more than one node, or with other operands")
    (after,) = export(graph).graph.node
    assert after.SerializeToString(deterministic=True) == before.SerializeToString(
        deterministic=True
    )


@pytest.mark.parametrize("case", [c for c in CASES if c.becomes], ids=str)
def test_a_node_without_effect_becomes_its_plain_operator(case: Case) -> None:
    assert [n.op for n in load(case.model()).nodes] == [case.becomes]


def test_an_old_softmax_over_several_axes_is_read_through_a_matrix() -> None:
    case = Case("Softmax", 11, X, {}, {"axis": 1})
    expected = runtime(case.model(), {"x": X})
    (found,) = meaning(load(case.model()), {"x": X})
    np.testing.assert_allclose(found, expected[0], rtol=1e-6)


RUN_TIME = {
    "Reshape": (1, "shape"),
    "Expand": (1, "shape"),
    "Tile": (1, "repeats"),
    "Unsqueeze": (1, "axes"),
    "ReduceSum": (1, "axes"),
    "CumSum": (1, "axis"),
}


@pytest.mark.parametrize("op", RUN_TIME)
def test_a_parameter_computed_at_run_time_makes_the_node_opaque(op: str) -> None:
    given = info("p", [] if op == "CumSum" else [2], onnx.TensorProto.INT64)
    model = model_of([make_node(op, ["x", "p"], ["y"])], [info("x", [2, 3]), given], ["y"])
    (node,) = load(model).nodes
    assert node.opaque
    assert "computed at run time" in node.reason


TRAINING = [
    make_node("Dropout", ["x", "ratio", "train"], ["y"]),
    make_node("BatchNormalization", ["x", *"sbmv"], ["y", "m2", "v2"], training_mode=1),
]


@pytest.mark.parametrize("node", TRAINING, ids=["dropout", "norm"])
def test_training_stays_opaque(node: onnx.NodeProto) -> None:
    one = np.ones(3, F)
    constants = {v: one for v in "sbmv" if v in node.input}
    if "train" in node.input:
        constants = {"ratio": np.array(0.5, F), "train": np.array(True)}
    used = [o for o in node.output if o != "y"]
    outputs = ["y", *(info(o, None, 9 if "Drop" in node.op_type else 1) for o in used)]
    (read,) = load(model_of([node], [info("x", [2, 3])], outputs, constants, 15)).nodes
    assert read.opaque


def test_the_used_mask_of_an_inference_dropout_needs_no_opaque_node() -> None:
    outputs = ["y", info("m2", None, onnx.TensorProto.BOOL)]
    dropout = make_node("Dropout", ["x"], ["y", "m2"])
    graph = load(model_of([dropout], [info("x", [2, 3])], outputs, {}, 15))
    assert not [n for n in graph.nodes if n.opaque]
