"""The fallback: operators without a native kernel, run one at a time by onnx.reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from egraph_fusion.errors import ModelError, RunError
from egraph_fusion.frontend.exporter import Exporter, inline_tensor
from egraph_fusion.frontend.weights import read_sparse
from egraph_fusion.frontend.writers import CannotWriteError
from egraph_fusion.ir.graph import Graph, Node

# Untyped value infos: the reference evaluator takes whatever array it is given.
_ANY = onnx.TypeProto()


def one_node_model(graph: Graph, n: Node) -> bytes:
    """Return a serialized ONNX model of `n` alone; its inputs are what `reads` lists.

    Operands that the importer turned into attributes become initializers.  Opset imports and
    model-local functions are those of the model that `n` came from.  Raises ModelError for a node
    that the model's opset cannot express.
    """
    alone = _alone(graph, n)
    exporter = Exporter(alone, None, inline_tensor)
    try:
        proto = _dense(exporter.node(n))
    except CannotWriteError as error:
        raise ModelError(f"the fallback cannot run node {n.label()}: {error}") from error
    header = onnx.ModelProto.FromString(graph.header) if graph.header else onnx.ModelProto()
    body = helper.make_graph(
        [proto],
        "fallback",
        [helper.make_value_info(v, _ANY) for v in reads(n)],
        [helper.make_value_info(v, _ANY) for v in proto.output if v],
        [inline_tensor(v, c) for v, c in exporter.initializers.items()],
    )
    imports = list(header.opset_import) or [helper.make_opsetid("", exporter.opset)]
    model = helper.make_model(body, opset_imports=imports, functions=list(header.functions))
    model.ir_version = header.ir_version or model.ir_version
    return bytes(model.SerializeToString())


def _dense(proto: onnx.NodeProto) -> onnx.NodeProto:
    """Return a Constant of a sparse tensor as one of the dense tensor: sessions give arrays."""
    held = [a for a in proto.attribute if a.HasField("sparse_tensor")]
    if proto.op_type != "Constant" or not held:
        return proto
    value = numpy_helper.from_array(read_sparse(held[0].sparse_tensor, None))
    return helper.make_node("Constant", [], list(proto.output), name=proto.name, value=value)


def reads(n: Node) -> tuple[str, ...]:
    """Return the values the one-node model is fed: its operands and captures, once each."""
    return tuple(dict.fromkeys(n.reads))


def _alone(graph: Graph, n: Node) -> Graph:
    types = {v: graph.types[v] for v in (*n.reads, *n.outputs) if v}
    constants = {v: graph.constants[v] for v in n.reads if v in graph.constants}
    return graph.replace(nodes=(n,), types=types, constants=constants, inputs=reads(n), outputs=())


def reference(model: onnx.ModelProto) -> Callable[[Mapping[str, NDArray[Any]]], list[Any]]:
    """Return a function that runs a whole model in onnx.reference: the oracle of checks.

    It raises RunError, naming the node, where one fails.
    """
    from onnx.reference import ReferenceEvaluator

    evaluator: Any = ReferenceEvaluator(model)
    for node in evaluator.rt_nodes_:
        _name_failures(node)
    return lambda feeds: list(evaluator.run(None, dict(feeds)))


def _name_failures(node: Any) -> None:
    """Let a node of the reference evaluator say who it is when it fails."""
    run, proto = node.run, node.onnx_node
    name = proto.name or next((v for v in proto.output if v), "")

    def named(*operands: Any, **options: Any) -> Any:
        try:
            return run(*operands, **options)
        except Exception as error:
            what = f"{type(error).__name__}: {error}"
            raise RunError(f"node {name!r} ({proto.op_type}): {what}") from error

    node.run = named


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
