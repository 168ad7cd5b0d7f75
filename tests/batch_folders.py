"""Folders of models for tests of batches, and what is true of every batch."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.helper import make_node
from onnx_models import Array, info, model_of

from egraph_fusion.convert.batch.results import BatchResult


def rewritable(scale: float = 1.0, rows: int | str = 3) -> onnx.ModelProto:
    """Model of y = x * w + x * v with constants: one product less after rewriting."""
    nodes = [
        make_node("Mul", ["x", "w"], ["a"], name="left"),
        make_node("Mul", ["x", "v"], ["b"], name="right"),
        make_node("Add", ["a", "b"], ["y"], name="sum"),
    ]
    constants = {"w": np.full(4, scale, np.float32), "v": np.arange(4, dtype=np.float32)}
    return model_of(nodes, [info("x", [rows, 4])], [info("y", [rows, 4])], constants)


def settled() -> onnx.ModelProto:
    """Model that nothing can improve."""
    act = make_node("Relu", ["x"], ["y"], name="act")
    return model_of([act], [info("x", [2, 3])], [info("y", [2, 3])])


def half() -> onnx.ModelProto:
    """The rewritable model in float16."""
    model = rewritable()
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = TensorProto.FLOAT16
    for tensor in model.graph.initializer:
        array = numpy_helper.to_array(tensor).astype(np.float16)
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    return model


def quantised() -> onnx.ModelProto:
    """A product between QuantizeLinear and DequantizeLinear, int8."""
    nodes = [
        make_node("QuantizeLinear", ["x", "s", "z"], ["q"], name="quantise"),
        make_node("DequantizeLinear", ["q", "s", "z"], ["d"], name="back"),
        make_node("MatMul", ["d", "w"], ["m"], name="product"),
        make_node("QuantizeLinear", ["m", "s", "z"], ["p"], name="again"),
        make_node("DequantizeLinear", ["p", "s", "z"], ["y"], name="end"),
    ]
    constants: dict[str, Array] = {
        "s": np.array(0.05, np.float32),
        "z": np.array(3, np.int8),
        "w": np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32),
    }
    return model_of(nodes, [info("x", [3, 4])], [info("y", [3, 4])], constants)


def foreign() -> onnx.ModelProto:
    """A model with an operator of a domain that nobody here knows."""
    nodes = [
        make_node("Relu", ["x"], ["r"], name="act"),
        make_node("Secret", ["r"], ["y"], name="unknown", domain="example.org"),
    ]
    return model_of(nodes, [info("x", [2, 3])], ["y"])


def impossible() -> onnx.ModelProto:
    """A model whose product cannot be."""
    constants = {"w": np.ones((4, 5), np.float32)}
    return model_of(
        [make_node("MatMul", ["x", "w"], ["y"], name="bad_product")],
        [info("x", [2, 3])],
        ["y"],
        constants,
    )


def external(folder: Path, name: str, data: str) -> Path:
    """Write the rewritable model with its constants in the file `data` beside it."""
    model = rewritable(7.0)
    offset, parts = 0, list[bytes]()
    for tensor in model.graph.initializer:
        raw = numpy_helper.to_array(tensor).tobytes()
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", data), ("offset", offset), ("length", len(raw))):
            tensor.external_data.add(key=key, value=str(value))
        offset += len(raw)
        parts.append(raw)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / data).parent.mkdir(parents=True, exist_ok=True)
    (folder / data).write_bytes(b"".join(parts))
    return saved_to(folder / name, model)


def saved_to(path: Path, model: onnx.ModelProto) -> Path:
    """Write a model, and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(model.SerializeToString(deterministic=True))
    return path


def contents(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every regular file below a folder, by relative path."""
    return {
        str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in sorted(folder.rglob("*"))
        if p.is_file()
    }


def by_name(results: Iterable[BatchResult]) -> dict[str, BatchResult]:
    """Return results by the file names of their sources; no name comes twice."""
    found: dict[str, BatchResult] = {}
    for result in results:
        name = Path(result.source).name
        assert name not in found
        found[name] = result
    return found


def manifest(out: Path) -> list[dict[str, Any]]:
    """Return the lines of a batch's manifest."""
    return [json.loads(line) for line in (out / "manifest.jsonl").read_text().splitlines()]


def opsets(path: Path) -> dict[str, int]:
    """Return the opsets that a model file imports."""
    model = onnx.load(path)
    return {helper.make_opsetid(e.domain, e.version).domain: e.version for e in model.opset_import}
