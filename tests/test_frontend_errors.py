"""Bad input: one clear ModelError each, whatever is wrong, and nothing written."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from onnx.helper import make_node
from onnx_models import info, model_of

from egraph_fusion.errors import ModelError
from egraph_fusion.frontend import export, load, reading, save
from egraph_fusion.frontend.files import decode_model
from egraph_fusion.ir.ops import OPERATORS

X = info("x", [2, 3])


def relu() -> onnx.ModelProto:
    return model_of([make_node("Relu", ["x"], ["y"], name="act")], [X], ["y"])


FILES: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "empty"),
    "text": (b"hello, this is no model\n" * 9, "no ONNX model"),
    "random": (bytes(np.random.default_rng(0).integers(0, 256, 999, np.uint8)), "no ONNX model"),
    "cut off": (relu().SerializeToString()[:-9], "cut off"),
    "zeros": (bytes(100), "no ONNX model"),
}


@pytest.mark.parametrize("kind", FILES)
def test_a_file_that_is_no_model_is_named_and_refused(kind: str, tmp_path: Path) -> None:
    data, words = FILES[kind]
    path = tmp_path / "bad.onnx"
    path.write_bytes(data)
    with pytest.raises(ModelError, match=rf"bad\.onnx .*{words}"):
        load(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"none\.onnx does not exist"):
        load(tmp_path / "none.onnx")


def test_a_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="is a directory"):
        load(tmp_path)


def _node(op: str, inputs: list[str], *outputs: str, **attrs: Any) -> onnx.NodeProto:
    return make_node(op, inputs, outputs or ("y",), name="n1", **attrs)


def _bad_type(code: int) -> onnx.ModelProto:
    model = relu()
    model.graph.input[0].type.tensor_type.elem_type = code
    return model


def _untyped() -> onnx.ModelProto:
    model = relu()
    model.graph.input[0].ClearField("type")
    return model


def _short_weight() -> onnx.ModelProto:
    model = model_of([_node("Add", ["x", "w"])], [X], ["y"], {"w": np.ones(3, np.float32)})
    model.graph.initializer[0].dims[0] = 4
    return model


def _same_weight_twice() -> onnx.ModelProto:
    model = model_of([_node("Add", ["x", "w"])], [X], ["y"], {"w": np.ones(3, np.float32)})
    model.graph.initializer.append(model.graph.initializer[0])
    return model


def _without_opset() -> onnx.ModelProto:
    model = relu()
    del model.opset_import[:]
    return model


def _recursive_function() -> onnx.ModelProto:
    call = make_node("f", ["a"], ["b"], domain="own")
    function = helper.make_function(
        "own", "f", ["a"], ["b"], [call], [helper.make_opsetid("own", 1)]
    )
    return model_of([make_node("f", ["x"], ["y"], domain="own")], [X], ["y"], functions=[function])


MODELS: dict[str, tuple[Callable[[], onnx.ModelProto], str]] = {
    "cycle": (
        lambda: model_of([_node("Add", ["x", "b"], "a"), _node("Neg", ["a"], "b")], [X], ["b"]),
        "cycle",
    ),
    "undefined value": (lambda: model_of([_node("Relu", ["z"])], [X], ["y"]), "'z'"),
    "value twice": (
        lambda: model_of([_node("Relu", ["x"]), _node("Neg", ["x"])], [X], ["y"]),
        "'y' is defined twice",
    ),
    "input overwritten": (lambda: model_of([_node("Relu", ["x"], "x")], [X], ["x"]), "twice"),
    "undefined output": (lambda: model_of([_node("Relu", ["x"], "z")], [X], ["y"]), "'y'"),
    "input twice": (lambda: model_of([_node("Relu", ["x"])], [X, X], ["y"]), "twice"),
    "negative size": (lambda: model_of([_node("Relu", ["x"])], [info("x", [-3])], ["y"]), "-3"),
    "element type 99": (lambda: _bad_type(99), "element type 99"),
    "element type 0": (lambda: _bad_type(0), "element type 0"),
    "input without type": (_untyped, "'x' has no type"),
    "matmul mismatch": (
        lambda: model_of([_node("MatMul", ["x", "x"])], [X], ["y"]),
        r"node 'n1': MatMul\(x: float32\[2,3\], x: float32\[2,3\]\)",
    ),
    "broadcast mismatch": (
        lambda: model_of([_node("Add", ["x", "z"])], [X, info("z", [4])], ["y"]),
        r"Add\(x: float32\[2,3\], z: float32\[4\]\)",
    ),
    "reshape mismatch": (
        lambda: model_of([_node("Reshape", ["x", "s"])], [X], ["y"], {"s": np.array([4, 4])}),
        "Reshape",
    ),
    "channels mismatch": (
        lambda: model_of(
            [_node("Conv", ["i", "w"])],
            [info("i", [1, 3, 8, 8])],
            ["y"],
            {"w": np.ones((4, 2, 3, 3), np.float32)},
        ),
        "Conv",
    ),
    "mixed dtypes": (
        lambda: model_of([_node("Add", ["x", "z"])], [X, info("z", [3], TensorProto.INT32)], ["y"]),
        "int32",
    ),
    "dtype not taken": (
        lambda: model_of([_node("Sqrt", ["z"])], [info("z", [3], TensorProto.INT32)], ["y"]),
        "does not take",
    ),
    "too many operands": (lambda: model_of([_node("Relu", ["x", "x"])], [X], ["y"]), "operands"),
    "too few operands": (lambda: model_of([_node("Add", ["x"])], [X], ["y"]), "operands"),
    "axis out of range": (lambda: model_of([_node("Concat", ["x"], axis=7)], [X], ["y"]), "axis"),
    "short weight": (_short_weight, r"'w' of shape \[4\] needs 16 bytes, but holds 12"),
    "same weight twice": (_same_weight_twice, "'w'"),
    "no opset": (_without_opset, "opset"),
    "recursive function": (_recursive_function, "'f' calls itself"),
}


@pytest.mark.parametrize("kind", MODELS)
def test_an_impossible_model_is_refused_with_its_reason(kind: str) -> None:
    build, words = MODELS[kind]
    with pytest.raises(ModelError, match=words):
        load(build())


def external_model(folder: Path, location: str, **fields: object) -> Path:
    """Write a model whose weight lies in the external file `location`."""
    model = model_of([_node("Add", ["x", "w"])], [X], ["y"], {"w": np.ones(3, np.float32)})
    weight = model.graph.initializer[0]
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **fields}.items():
        weight.external_data.add(key=key, value=str(value))
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


@pytest.mark.parametrize("location", ["../w.bin", "/etc/hostname", "", "a/../../w.bin", "gone.bin"])
def test_external_data_outside_the_folder_or_missing_is_refused(
    location: str, tmp_path: Path
) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(12))
    inner = tmp_path / "inner"
    inner.mkdir()
    with pytest.raises(ModelError, match="'w'"):
        load(external_model(inner, location))


@pytest.mark.parametrize("location", [".", "weights"])
def test_an_external_file_that_is_a_directory_is_called_one(location: str, tmp_path: Path) -> None:
    (tmp_path / "weights").mkdir()
    with pytest.raises(ModelError, match=r"tensor 'w'.* is a directory; expected a file"):
        load(external_model(tmp_path, location))


def test_external_data_behind_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(12))
    inner = tmp_path / "inner"
    inner.mkdir()
    os.symlink(tmp_path / "w.bin", inner / "w.bin")
    with pytest.raises(ModelError, match="leads out"):
        load(external_model(inner, "w.bin"))


@pytest.mark.parametrize(
    "fields", [{"offset": 8}, {"length": 4}, {"offset": "x"}, {"offset": -1}], ids=str
)
def test_external_data_that_does_not_fit_is_refused(
    fields: dict[str, object], tmp_path: Path
) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(12))
    with pytest.raises(ModelError, match="'w'"):
        load(external_model(tmp_path, "w.bin", **fields))


def test_external_data_inside_the_folder_is_read(tmp_path: Path) -> None:
    values = np.array([1, 2, 3], np.float32)
    (tmp_path / "w.bin").write_bytes(bytes(64) + values.tobytes())
    graph = load(external_model(tmp_path, "w.bin", offset=64, length=12))
    np.testing.assert_array_equal(graph.constants["w"].array, values)


def test_a_model_proto_with_external_data_has_no_folder_to_look_in(tmp_path: Path) -> None:
    path = external_model(tmp_path, "w.bin")
    with pytest.raises(ModelError, match="no folder"):
        load(onnx.load(path, load_external_data=False))


def _out_of_memory(*_: object) -> NoReturn:
    raise MemoryError("Unable to allocate 8.00 TiB")


def test_a_constant_without_room_stays_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OPERATORS, "Add", replace(OPERATORS["Add"], evaluate=_out_of_memory))
    ones = np.ones(3, np.int64)
    model = model_of([_node("Add", ["a", "b"])], [X], ["y"], {"a": ones, "b": ones})
    assert [n.op for n in load(model).nodes] == ["Add"]


def test_memory_that_runs_out_in_reading_is_said_of_the_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reading, "shape_arithmetic", _out_of_memory)
    with pytest.raises(ModelError, match=r"node 'act': Relu\(x: .*\): .*8.00 TiB"):
        load(relu())


def test_messages_show_no_foreign_traceback() -> None:
    with pytest.raises(ModelError) as caught:
        load(MODELS["matmul mismatch"][0]())
    assert "Traceback" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_saving_into_a_missing_folder_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"cannot be written"):
        save(load(relu()), tmp_path / "none" / "out.onnx")


def test_a_failed_save_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "out.onnx"
    path.write_bytes(b"old")
    with pytest.raises(ModelError):
        save(load(relu()), path, opset=1)
    assert [path.read_bytes(), os.listdir(tmp_path)] == [b"old", ["out.onnx"]]


def busy_model() -> onnx.ModelProto:
    """Return a model with many kinds of node, for mutation."""
    branch = helper.make_graph(
        [make_node("Add", ["r", "r"], ["o1"])], "b", [], [info("o1", [2, 3])]
    )
    nodes = [
        make_node("Reshape", ["x", "shape"], ["r"]),
        make_node("Softmax", ["r"], ["s"], axis=-1),
        make_node("Slice", ["s", "first", "last"], ["l"]),
        make_node("If", ["c"], ["o"], then_branch=branch, else_branch=branch),
        make_node("Shape", ["r"], ["d"]),
        make_node("ConstantOfShape", ["d"], ["k"]),
        make_node("Tile", ["r", "shape"], ["t"]),
        make_node("ReduceSum", ["t", "first"], ["u"]),
    ]
    constants = {
        "shape": np.array([2, 3]),
        "first": np.array([0]),
        "last": np.array([1]),
    }
    inputs = [info("x", ["N", 3]), info("c", [], TensorProto.BOOL)]
    return model_of(nodes, inputs, ["o", "k", "u", "l"], constants)


DATA = busy_model().SerializeToString()
EDITS = st.lists(
    st.tuples(st.integers(0, len(DATA) - 1), st.binary(max_size=3), st.integers(0, 3)),
    min_size=1,
    max_size=4,
)


@settings(max_examples=300, deadline=None)
@given(EDITS)
def test_damaged_bytes_raise_nothing_but_model_errors(
    edits: list[tuple[int, bytes, int]],
) -> None:
    data = bytearray(DATA)
    for place, new, dropped in edits:
        data[place : place + dropped] = new
    with suppress(ModelError):
        export(load(decode_model(bytes(data), "damaged")))


def test_numpy_helper_agrees_on_every_element_type() -> None:
    for code in (1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15, 16):
        dtype = helper.tensor_dtype_to_np_dtype(code)
        array = np.array([[0, 1], [1, 0]]).astype(dtype)
        tensor = numpy_helper.from_array(array, "w")
        model = model_of([make_node("Shape", ["w"], ["y"])], [], [info("y", [2], 7)])
        model.graph.initializer.append(tensor)
        model.graph.output.append(info("w", [2, 2], code))
        np.testing.assert_array_equal(load(model).constants["w"].array, array)
