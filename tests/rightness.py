"""Is a result right?  The oracle is the model in float64, the yardstick onnxruntime's own error.

The ONNX reference implementation runs the model with its float tensors cast up; our error (maximum
and root mean square, per output) may be four times onnxruntime's, or a millionth of the output's
standard deviation, whichever is larger.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx_models import runtime

Array = NDArray[Any]
FACTOR = 4.0
FLOOR = 1e-6
_SINGLE, _DOUBLE = TensorProto.FLOAT, TensorProto.DOUBLE


@dataclass(frozen=True)
class Oracle:
    """A model's outputs in float64 and onnxruntime's float32 outputs, on the same inputs."""

    exact: tuple[Array, ...]
    peer: tuple[Array, ...]

    @staticmethod
    def of(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> Oracle:
        """Run `model` both ways."""
        wide = {k: v.astype(np.float64) if v.dtype == np.float32 else v for k, v in feeds.items()}
        exact = ReferenceEvaluator(in_float64(model)).run(None, wide)
        return Oracle(tuple(map(np.asarray, exact)), tuple(runtime(model, feeds)))

    def complaints(self, outputs: Sequence[Array]) -> list[str]:
        """Say, per output, by how much it is further off than it may be."""
        return [
            f"output {i}: {complaint}"
            for i, (exact, peer, own) in enumerate(zip(self.exact, self.peer, outputs, strict=True))
            for complaint in _complaints(exact, peer, own)
        ]


def _complaints(exact: Array, peer: Array, own: Array) -> Iterator[str]:
    if own.shape != peer.shape or own.dtype != peer.dtype:
        yield f"{own.dtype}{own.shape} instead of {peer.dtype}{peer.shape}"
        return
    if exact.dtype.kind != "f":
        yield from () if np.array_equal(own, peer) else ("values differ",)
        return
    floor = FLOOR * float(exact.std())
    for name, error in (("maximum", _maximum), ("rms", _rms)):
        allowed = max(FACTOR * error(peer, exact), floor)
        found = error(own, exact)
        if not found <= allowed:
            yield f"{name} error {found:.3g}, allowed {allowed:.3g}"


def _maximum(array: Array, exact: Array) -> float:
    return float(np.abs(array.astype(np.float64) - exact).max(initial=0.0))


def _rms(array: Array, exact: Array) -> float:
    return float(np.sqrt(np.square(array.astype(np.float64) - exact).mean()))


def in_float64(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy of the model in which every float32 tensor is a float64 one."""
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    _widen_graph(wide.graph)
    for function in wide.functions:
        _widen_nodes(function.node)
    return wide


def _widen_graph(graph: onnx.GraphProto) -> None:
    for tensor in graph.initializer:
        _widen_tensor(tensor)
    for value in (*graph.input, *graph.output, *graph.value_info):
        if value.type.tensor_type.elem_type == _SINGLE:
            value.type.tensor_type.elem_type = _DOUBLE
    _widen_nodes(graph.node)


def _widen_nodes(nodes: Any) -> None:
    for node in nodes:
        for attribute in node.attribute:
            _widen_attribute(node.op_type, attribute)


def _widen_attribute(op: str, attribute: onnx.AttributeProto) -> None:
    if attribute.HasField("t"):
        _widen_tensor(attribute.t)
    if attribute.HasField("g"):
        _widen_graph(attribute.g)
    if op == "Cast" and attribute.name == "to" and attribute.i == _SINGLE:
        attribute.i = _DOUBLE
    if op == "Constant" and attribute.name in ("value_float", "value_floats"):
        values = [attribute.f] if attribute.name == "value_float" else list(attribute.floats)
        array = np.array(values, np.float64)
        scalar = attribute.name == "value_float"
        attribute.CopyFrom(
            onnx.helper.make_attribute(
                "value", numpy_helper.from_array(array[0] if scalar else array)
            )
        )


def _widen_tensor(tensor: onnx.TensorProto) -> None:
    if tensor.data_type == _SINGLE:
        array = numpy_helper.to_array(tensor).astype(np.float64)
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
