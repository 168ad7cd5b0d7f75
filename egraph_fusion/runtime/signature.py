"""Inputs and outputs as onnxruntime describes them."""

from __future__ import annotations

from dataclasses import dataclass

from egraph_fusion.ir.tensors import DType
from egraph_fusion.runtime.program import Port

_ONNX_NAMES = {DType.FLOAT32: "float", DType.FLOAT64: "double"}


@dataclass(frozen=True, slots=True)
class NodeArg:
    """Name, shape and ONNX type string of an input or output, as onnxruntime describes them."""

    name: str
    shape: list[int | str | None]
    type: str


def node_arg(port: Port) -> NodeArg:
    """Describe an input or output."""
    shape = port.type.shape
    dims: list[int | str | None] = [d if isinstance(d, int) else str(d) for d in shape or ()]
    dtype = port.type.dtype
    return NodeArg(port.name, dims, f"tensor({_ONNX_NAMES.get(dtype, dtype.value)})")
