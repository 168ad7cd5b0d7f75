"""The check of a converted model: what it compares, and what it says of a model it cannot check."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.helper import make_node
from onnx_models import info, model_of
from small_models import dense, saved, with_opaque

import egraph_fusion as ef
from egraph_fusion.convert.check import (
    CannotCheckError,
    CheckError,
    compare,
    difference,
    reference_runner,
    require,
)
from egraph_fusion.convert.single import convert
from egraph_fusion.frontend import inputs

NAN, INF = float("nan"), float("inf")


def custom() -> onnx.ModelProto:
    nodes = [
        make_node("Relu", ["x"], ["r"]),
        make_node("Frob", ["r"], ["y"], name="odd", domain="com.acme"),
    ]
    return model_of(nodes, [info("x", [2])], [info("y", [2])])


def hidden_custom() -> onnx.ModelProto:
    """The same inside a branch."""
    inner = make_node("Frob", ["x"], ["t"], name="odd", domain="com.acme")
    then, other = (
        helper.make_graph([node], node.op_type, [], [info(node.output[0], [2])])
        for node in (inner, make_node("Neg", ["x"], ["e"]))
    )
    inputs = [info("c", [], TensorProto.BOOL), info("x", [2])]
    choice = make_node("If", ["c"], ["y"], then_branch=then, else_branch=other)
    model = model_of([choice], inputs, [info("y", [2])])
    model.opset_import.append(helper.make_opsetid("com.acme", 1))
    return model


def one(op: str, kind: onnx.ValueInfoProto, **attributes: Any) -> onnx.ModelProto:
    return model_of([make_node(op, ["x"], ["y"], name="n", **attributes)], [kind], ["y"])


def reshaped() -> onnx.ModelProto:
    shape = {"s": np.array([3, 3], np.int64)}
    nodes = [make_node("Reshape", ["x", "s"], ["y"], name="square")]
    return model_of(nodes, [info("x", ["n", 3])], [info("y", [3, 3])], shape)


def dropped() -> onnx.ModelProto:
    training = {"r": np.array(0.5, np.float32), "t": np.array(True)}
    nodes = [make_node("Dropout", ["x", "r", "t"], ["y"], name="n")]
    return model_of(nodes, [info("x", [2])], [info("y", [2])], training)


SEQUENCE = helper.make_value_info(
    "x", helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, [2]))
)
MODELS: dict[str, tuple[Callable[[], onnx.ModelProto], str]] = {
    "custom operator": (
        custom,
        r"node 'odd' \(Frob of the domain 'com.acme'\) has no meaning that the reference knows; "
        "define it as a model-local function, or convert without a check",
    ),
    "custom operator in a branch": (hidden_custom, r"node 'odd' \(Frob of the domain"),
    "unknown operator of ONNX": (lambda: one("Frob", info("x", [2])), r"Frob of the domain 'ai.on"),
    "huge input": (
        lambda: one("Relu", info("x", [2**62, 4])),
        r"no inputs can be made up: input 'x': shape \[4611686018427387904, 4\] has more than",
    ),
    "text": (
        lambda: one("Identity", info("x", [2], TensorProto.STRING)),
        "input 'x': values of dtype text cannot be made up",
    ),
    "complex": (lambda: one("Identity", info("x", [2], TensorProto.COMPLEX64)), "complex64"),
    "unknown rank": (lambda: one("Relu", info("x", None)), "'x': expected a tensor of known rank"),
    "sequence": (
        lambda: model_of([make_node("SequenceLength", ["x"], ["y"])], [SEQUENCE], ["y"]),
        "'x': expected a tensor of known rank",
    ),
    "sizes that do not fit": (
        reshaped,
        r"does not run on random inputs of the shapes x=1,3 \(.*\); give other sizes \(--input-sh",
    ),
    "random numbers": (
        lambda: one("RandomNormalLike", info("x", [2])),
        r"node 'n' \(RandomNormalLike\) gives other values at every run; give it a seed",
    ),
    "training mode": (dropped, r"node 'n' \(Dropout\) gives other values"),
}


@pytest.mark.parametrize("kind", MODELS)
def test_a_model_that_cannot_be_checked_is_named_with_its_reason(kind: str, tmp_path: Path) -> None:
    make, words = MODELS[kind]
    path = saved(make(), tmp_path / "m.onnx")
    with pytest.raises(CannotCheckError, match=rf"m\.onnx cannot be checked.*{words}"):
        convert(str(path), tmp_path / "o.onnx", check=True)
    assert [p.name for p in tmp_path.iterdir()] == ["m.onnx"]


@pytest.mark.parametrize("kind", MODELS)
def test_the_same_model_is_converted_without_a_check(kind: str, tmp_path: Path) -> None:
    path = saved(MODELS[kind][0](), tmp_path / "m.onnx")
    convert(str(path), tmp_path / "o.onnx")
    assert (tmp_path / "o.onnx").exists()


def test_a_random_model_with_a_seed_is_checked(tmp_path: Path) -> None:
    path = saved(one("RandomNormalLike", info("x", [2]), seed=1.0), tmp_path / "m.onnx")
    assert convert(str(path), tmp_path / "o.onnx", check=True)["worst_difference"] == 0


def split_sequence() -> onnx.ModelProto:
    nodes = [make_node("SplitToSequence", ["x"], ["y"], keepdims=0)]
    tensor = helper.make_tensor_type_proto(TensorProto.FLOAT, None)
    y = helper.make_value_info("y", helper.make_sequence_type_proto(tensor))
    return model_of(nodes, [info("x", [3, 2])], [y])


def bfloat16() -> onnx.ModelProto:
    kind = TensorProto.BFLOAT16
    return model_of(
        [make_node("Add", ["x", "x"], ["y"])], [info("x", [3], kind)], [info("y", [3], kind)]
    )


@pytest.mark.parametrize(
    "make", [dense, with_opaque, split_sequence, bfloat16], ids=lambda f: f.__name__
)
def test_outputs_of_every_kind_are_compared(
    make: Callable[[], onnx.ModelProto], tmp_path: Path
) -> None:
    path = saved(make(), tmp_path / "m.onnx")
    assert convert(str(path), tmp_path / "o.onnx", check=True)["worst_difference"] < 1e-5


def test_it_works_without_onnxruntime(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    path = saved(dense(), tmp_path / "m.onnx")
    assert convert(str(path), tmp_path / "o.onnx", check=True)["worst_difference"] < 1e-5
    with pytest.raises(CannotCheckError, match="'odd'"):
        compare(custom(), reference_runner(custom()))


def test_a_result_that_does_not_run_fails_the_check() -> None:
    with pytest.raises(CheckError, match="runs, but its result does not: KeyError: 'gone'"):
        compare(dense(), _broken)


def _broken(_feeds: object) -> Sequence[Any]:
    raise KeyError("gone")


@pytest.mark.parametrize("tolerance", [-1.0, NAN])
def test_a_tolerance_that_is_none_is_refused_before_the_work(
    tolerance: float, tmp_path: Path
) -> None:
    with pytest.raises(ef.EgraphFusionError, match="no number that is 0 or more"):
        convert(str(tmp_path / "gone.onnx"), tmp_path / "o.onnx", tolerance=tolerance)


def test_the_worst_output_decides() -> None:
    found = [difference("a", np.ones(2), np.ones(2)), difference("b", np.ones(2), np.zeros(2))]
    require(found, 1.0)
    with pytest.raises(CheckError, match="output 'b' differs by 1 of its spread"):
        require(found, 0.9)


def test_an_input_as_big_as_allowed_is_made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "MOST_ELEMENTS", 4)
    assert inputs.example_inputs(one("Relu", info("x", [4])))["x"].shape == (4,)
    with pytest.raises(ef.ModelError, match=r"shape \[5\] has more than 4 elements"):
        inputs.example_inputs(one("Relu", info("x", [5])))


@pytest.mark.parametrize(
    ("want", "got", "worst"),
    [
        (np.array([NAN, INF, 1.0]), np.array([NAN, INF, 1.0]), 0.0),
        (np.array([NAN, 1.0]), np.array([1.0, NAN]), INF),
        (np.array([INF, 1.0]), np.array([-INF, 1.0]), INF),
        (np.array([0.0, 2.0]), np.array([0.0, 2.5]), 0.5),
        (np.ones(2, np.float32), np.ones(2), INF),
        (np.ones(2), np.ones(3), INF),
        (np.array([2**53, 0]), np.array([2**53 + 1, 0]), 0.0),
        (np.array([True, False]), np.array([True, True]), INF),
        (np.array(["a", "bc"]), np.array(["a", "bc"], object), 0.0),
        (np.array(["a"]), np.array(["b"]), INF),
        (np.array([1 + 1j, 1 - 1j]), np.array([1 + 2j, 1 - 1j]), 1.0),
        (np.array([2], ml_dtypes.bfloat16), np.array([3], ml_dtypes.bfloat16), 0.5),
        (np.zeros((0, 3)), np.zeros((0, 3)), 0.0),
        ([np.ones(2), np.zeros(2)], [np.ones(2), np.zeros(2)], 0.0),
        ([np.ones(2)], [np.ones(2), np.zeros(2)], INF),
        ([np.ones(2)], [np.zeros(2)], 1.0),
        (None, None, 0.0),
        (None, np.ones(2), INF),
        ({"a": np.ones(1)}, {"a": np.ones(1)}, 0.0),
        ({"a": np.ones(1)}, {"b": np.ones(1)}, INF),
    ],
)
def test_differences_are_relative_to_the_spread(want: Any, got: Any, worst: float) -> None:
    assert difference("y", want, got).worst == worst
