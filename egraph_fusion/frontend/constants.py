"""The values of Constant nodes, in all their forms."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import numpy as np
import onnx

from egraph_fusion.frontend.weights import read_sparse, read_tensor
from egraph_fusion.ir.graph import Array


def constant_value(
    proto: onnx.NodeProto, folder: Path | None, outputs: Collection[str]
) -> Array | None:
    """Return the value of a Constant node, None for others and for a sparse graph output."""
    if proto.op_type != "Constant" or proto.domain:
        return None
    if len(proto.attribute) != 1 or len(proto.output) != 1:
        return None
    (attribute,) = proto.attribute
    if attribute.HasField("sparse_tensor"):
        return None if proto.output[0] in outputs else read_sparse(attribute.sparse_tensor, folder)
    match attribute.name:
        case "value":
            return read_tensor(attribute.t, folder)
        case "value_int":
            return np.array(attribute.i, np.int64)
        case "value_ints":
            return np.array(list(attribute.ints), np.int64)
        case "value_float":
            return np.array(attribute.f, np.float32)
        case "value_floats":
            return np.array(list(attribute.floats), np.float32)
        case "value_string":
            return np.array(attribute.s.decode(), dtype=object)
        case "value_strings":
            return np.array([s.decode() for s in attribute.strings], dtype=object)
        case _:
            return None
