"""Model files: read with one clear error for every kind of broken input."""

from __future__ import annotations

from pathlib import Path

import onnx
from google.protobuf.message import DecodeError

from egraph_fusion.errors import ModelError

PROTOBUF_LIMIT = 2**31 - 1


def read_model(path: Path) -> onnx.ModelProto:
    """Read the ONNX file at `path`, external data not yet loaded; ModelError if it is none."""
    if path.is_dir():
        raise ModelError(f"{path} is a directory; expected an ONNX file")
    if not path.exists():
        raise ModelError(f"{path} does not exist")
    try:
        size = path.stat().st_size
        if size > PROTOBUF_LIMIT:
            raise ModelError(
                f"{path} has {size} bytes; an ONNX file holds at most 2 GB, "
                "larger weights belong into external data files"
            )
        data = path.read_bytes()
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}") from error
    return decode_model(data, str(path))


def decode_model(data: bytes, name: str) -> onnx.ModelProto:
    """Parse `data` as a ModelProto; ModelError, naming `name`, if it is cut off or no model."""
    if not data:
        raise ModelError(f"{name} is empty; expected an ONNX model")
    try:
        model: onnx.ModelProto = onnx.ModelProto.FromString(data)
    except DecodeError as error:
        raise ModelError(
            f"{name} is no ONNX model, or is damaged or cut off "
            f"(its {len(data)} bytes do not decode)"
        ) from error
    if not model.HasField("graph"):
        raise ModelError(f"{name} is no ONNX model: it holds no graph")
    return model
