"""ONNX to the graph: weights, names and order resolved, then every node read in turn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import onnx
from google.protobuf.message import Error as ProtobufError

from egraph_fusion.arguments import checked
from egraph_fusion.errors import EgraphFusionError, ModelError
from egraph_fusion.frontend import (
    opsets,
    opsets_contraction,
    opsets_legacy,
    opsets_movement,
    opsets_quantization,
    opsets_resize,
)
from egraph_fusion.frontend.constants import constant_value
from egraph_fusion.frontend.files import read_model
from egraph_fusion.frontend.inference import Inference
from egraph_fusion.frontend.reading import read_node
from egraph_fusion.frontend.scopes import captures, mentioned, shell_of
from egraph_fusion.frontend.skeleton import (
    check_text,
    default_domain,
    header_of,
    inlined,
    opsets_of,
)
from egraph_fusion.frontend.types import DimNames, read_input
from egraph_fusion.frontend.versions import check_versions
from egraph_fusion.frontend.weights import read_sparse, read_tensor
from egraph_fusion.frontend.workspace import Workspace
from egraph_fusion.ir.graph import Array, Constant, Graph, Node, topological
from egraph_fusion.ir.tensors import TensorType

# Importing these enters the readers.
READER_MODULES = (
    opsets,
    opsets_contraction,
    opsets_legacy,
    opsets_movement,
    opsets_quantization,
    opsets_resize,
)
LISTS_WEIGHTS_AS_INPUTS = 4  # IR versions below this one have to
_UNREADABLE = (
    ArithmeticError,
    AttributeError,
    KeyError,
    IndexError,
    MemoryError,
    ProtobufError,
    RecursionError,
    RuntimeError,
    TypeError,
    ValueError,
)


@checked(ModelError)
def load(source: str | Path | onnx.ModelProto, values: Mapping[str, Array] | None = None) -> Graph:
    """Read an ONNX model into a graph.

    With `values` of some inputs, the graph is right for these values only: what depends on nothing
    else may be folded.
    Initializers that are also inputs are inputs with a default (`Graph.defaults`); in files of IR
    version 3 and older, where every initializer has to be listed as an input, they are constants.
    Raises ModelError, naming the file or model, for anything that is not a well-formed model.
    """
    name = "the model" if isinstance(source, onnx.ModelProto) else str(source)
    try:
        if isinstance(source, onnx.ModelProto):
            return _graph_of(source, None, values or {})
        path = Path(source)
        return _graph_of(read_model(path), path.resolve().parent, values or {})
    except EgraphFusionError as error:
        text = str(error)
        raise ModelError(text if text.startswith(name) else f"{name}: {text}") from error
    except _UNREADABLE as error:
        kind = type(error).__name__
        raise ModelError(f"{name} is malformed and cannot be read ({kind}: {error})") from error


def _graph_of(model: onnx.ModelProto, folder: Path | None, values: Mapping[str, Array]) -> Graph:
    check_text(model)
    versions = opsets_of(model)
    header = header_of(model)
    weights = _weights(model.graph, folder)
    nodes = [_plain_domain(n) for n in inlined(model, header)]
    check_versions(model, versions, nodes)
    versions.setdefault("", 0)
    space = _workspace(model, header, versions, nodes, weights)
    inputs, defaults = _inputs(model, space, weights)
    _assume(space, inputs, values)
    for value, array in weights.items():
        if value not in defaults:
            _declare(space, value, "an initializer")
            space.define(value, array)
    ordered = _ordered(_constants(space, nodes, folder), space)
    read = [node for proto in ordered for node in read_node(space, proto)]
    outputs = tuple(o.name for o in model.graph.output)
    graph = _assemble(model, header, space, inputs, outputs, read, defaults)
    graph.check()
    return graph


def _plain_domain(proto: onnx.NodeProto) -> onnx.NodeProto:
    if default_domain(proto.domain) == proto.domain:
        return proto
    plain = onnx.NodeProto()
    plain.CopyFrom(proto)
    plain.domain = default_domain(proto.domain)
    return plain


def _weights(graph: onnx.GraphProto, folder: Path | None) -> dict[str, Array]:
    found: dict[str, Array] = {}
    for tensor in graph.initializer:
        if tensor.name in found or not tensor.name:
            raise ModelError(f"initializer {tensor.name!r} has no name, or another one's")
        found[tensor.name] = read_tensor(tensor, folder)
    for sparse in graph.sparse_initializer:
        if sparse.values.name in found:
            raise ModelError(f"initializer {sparse.values.name!r} is defined twice")
        found[sparse.values.name] = read_sparse(sparse, folder)
    return found


def _workspace(
    model: onnx.ModelProto,
    header: onnx.ModelProto,
    versions: Mapping[str, int],
    nodes: Sequence[onnx.NodeProto],
    weights: Iterable[str],
) -> Workspace:
    outputs = [o.name for o in model.graph.output]
    claims = {i.name: i.type for i in (*model.graph.value_info, *model.graph.output)}
    read = [v for n in nodes for v in (*n.input, *captures(n))]
    made = [v for n in nodes for v in (*n.output, *mentioned(n))]
    inputs = [i.name for i in header.graph.input]
    return Workspace(
        opset=versions[""],
        inference=Inference(versions, model.ir_version, DimNames(), claims),
        used=frozenset([*read, *outputs]),
        graph_outputs=frozenset(outputs),
        taken={*read, *made, *outputs, *inputs, *weights},
    )


def _declare(space: Workspace, value: str, what: str) -> None:
    if not value:
        raise ModelError(f"{what} has no name")
    if value in space.types:
        raise ModelError(f"value {value!r} is defined twice, the second time by {what}")


def _inputs(
    model: onnx.ModelProto, space: Workspace, weights: Mapping[str, Array]
) -> tuple[tuple[str, ...], dict[str, Constant]]:
    overridable = model.ir_version >= LISTS_WEIGHTS_AS_INPUTS
    inputs: list[str] = []
    defaults: dict[str, Constant] = {}
    for info in model.graph.input:
        if info.name in weights and not overridable:
            continue
        _declare(space, info.name, "an input")
        space.types[info.name] = read_input(info, space.inference.names)
        if info.type.WhichOneof("value") != "tensor_type":
            space.inference.exact[info.name] = info.type
        inputs.append(info.name)
        if info.name in weights:
            defaults[info.name] = _default(info.name, weights[info.name], space.types[info.name])
    return tuple(inputs), defaults


def _assume(space: Workspace, inputs: Sequence[str], values: Mapping[str, Array]) -> None:
    """Enter the values of inputs as if they had been computed from shapes."""
    for name, array in values.items():
        if name not in inputs:
            raise ModelError(f"no input is called {name!r}; the inputs are {list(inputs)}")
        space.arrays[name] = Constant.of(array).array
        space.from_shape.add(name)


def _default(name: str, array: Array, kind: TensorType) -> Constant:
    constant = Constant.of(array)
    if constant.type.dtype is not kind.dtype:
        raise ModelError(f"input {name!r} is {kind}, but its default is {constant.type}")
    return constant


def _constants(
    space: Workspace, nodes: Sequence[onnx.NodeProto], folder: Path | None
) -> list[onnx.NodeProto]:
    """Enter the Constant nodes' values; return the other nodes."""
    rest: list[onnx.NodeProto] = []
    for proto in nodes:
        array = constant_value(proto, folder, space.graph_outputs)
        if array is None:
            rest.append(proto)
            continue
        _declare(space, proto.output[0], f"a Constant node {proto.name!r}")
        space.define(proto.output[0], array)
    return rest


def _ordered(nodes: Sequence[onnx.NodeProto], space: Workspace) -> list[onnx.NodeProto]:
    """Sort the nodes topologically; ModelError on a cycle, undefined or twice defined value."""
    shells: list[Node] = []
    defined = set(space.types)
    for proto in nodes:
        label = proto.name or next(iter(proto.output), "")
        for value in filter(None, proto.output):
            if value in defined:
                raise ModelError(
                    f"value {value!r} is defined twice, the second time by node {label!r}"
                )
            defined.add(value)
        shells.append(shell_of(proto, label))
    place = {id(shell): i for i, shell in enumerate(shells)}
    return [nodes[place[id(shell)]] for shell in topological(shells, space.types)]


def _assemble(
    model: onnx.ModelProto,
    header: onnx.ModelProto,
    space: Workspace,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    nodes: Sequence[Node],
    defaults: Mapping[str, Constant],
) -> Graph:
    """Keep what the outputs need, in order."""
    wanted = set(outputs)
    live: list[Node] = []
    for node in reversed(nodes):
        if wanted.intersection(filter(None, node.outputs)):
            live.append(node)
            wanted.update(node.reads)
    live.reverse()
    constants = {v: c for v, c in space.constants.items() if v in wanted}
    produced = [v for n in live for v in n.outputs if v]
    types = {v: space.types[v] for v in (*inputs, *constants, *produced)}
    return Graph(
        name=model.graph.name,
        inputs=inputs,
        outputs=outputs,
        nodes=tuple(live),
        types=MappingProxyType(types),
        constants=MappingProxyType(constants),
        header=header.SerializeToString(deterministic=True),
        opset=space.opset,
        defaults=MappingProxyType(dict(defaults)),
    )
