"""The fallback: operators without a native kernel, run one at a time by onnx.reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from egraph_fusion.errors import ModelError, RunError
from egraph_fusion.ir.graph import Graph, Node

# Untyped value infos: the reference evaluator takes whatever array it is given.
_ANY = onnx.TypeProto()


def one_node_model(graph: Graph, n: Node) -> bytes:
    """Return a serialized ONNX model of `n` alone, its operands and captures as inputs.

    Opset imports and model-local functions are those of the model that `n` came from.  Raises
    ModelError for a node that did not come from an ONNX model.
    """
    if not n.payload:
        raise ModelError(f"node {n.label()} carries no ONNX form, so the fallback cannot run it")
    proto = _proto(n)
    header = onnx.ModelProto.FromString(graph.header) if graph.header else onnx.ModelProto()
    feeds = dict.fromkeys([*(v for v in proto.input if v), *n.captures])
    body = helper.make_graph(
        [proto],
        "fallback",
        [helper.make_value_info(v, _ANY) for v in feeds],
        [helper.make_value_info(v, _ANY) for v in proto.output if v],
    )
    imports = list(header.opset_import) or [helper.make_opsetid("", graph.opset)]
    model = helper.make_model(body, opset_imports=imports, functions=list(header.functions))
    model.ir_version = header.ir_version or model.ir_version
    return bytes(model.SerializeToString())


def reads(n: Node) -> tuple[str, ...]:
    """Return the values the one-node model is fed: its ONNX operands and captures, once each."""
    return tuple(dict.fromkeys([*(v for v in _proto(n).input if v), *n.captures]))


def _proto(n: Node) -> onnx.NodeProto:
    """Return the ONNX form of `n`; an opaque node's operands stand where ONNX has them."""
    proto: onnx.NodeProto = onnx.NodeProto.FromString(n.payload)
    if n.opaque:
        del proto.input[:], proto.output[:]
        proto.input.extend(n.inputs)
        proto.output.extend(n.outputs)
    return proto


@lru_cache(maxsize=256)
def _evaluator(model: bytes) -> Any:
    # onnx.reference takes a quarter of a second to import, and most models never need it.
    from onnx.reference import ReferenceEvaluator

    return ReferenceEvaluator(onnx.ModelProto.FromString(model))


def run(model: bytes, feeds: Mapping[str, NDArray[Any]], label: str) -> Sequence[Any]:
    """Run a one-node model; RunError names the node `label` if onnx.reference cannot."""
    try:
        with np.errstate(all="ignore"):
            return list(_evaluator(model).run(None, dict(feeds)))
    except Exception as error:
        shapes = ", ".join(f"{k}: {_describe(v)}" for k, v in feeds.items())
        raise RunError(
            f"node {label}: the fallback (onnx.reference) failed on {shapes}: "
            f"{type(error).__name__}: {error}"
        ) from error


def _describe(value: Any) -> str:
    return f"{getattr(value, 'dtype', type(value).__name__)}{list(np.shape(value))}"
