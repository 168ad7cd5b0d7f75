"""What of a model is kept beside the graph for export, and what of it is checked before reading."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping

import onnx
import onnx.inliner
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from egraph_fusion.errors import ModelError
from egraph_fusion.frontend.scopes import all_nodes, subgraphs

MAX_INLINED_NODES = 1_000_000
Key = tuple[str, str, str]
_WEIGHTS = ("initializer", "sparse_initializer")


def default_domain(domain: str) -> str:
    """Return the domain's name; ONNX's own has two spellings."""
    return "" if domain == "ai.onnx" else domain


def check_text(model: onnx.ModelProto) -> None:
    """Raise ModelError if a name is not UTF-8 (protobuf hands such text out as bytes)."""
    graph = model.graph
    _check_names([e.domain for e in model.opset_import])
    _check_names([i.name for i in (*graph.initializer, *graph.input, *graph.output)])
    for function in model.functions:
        _check_names([function.domain, function.name, function.overload])
        _check_names([*function.input, *function.output, *function.attribute])
    for node in all_nodes([*graph.node, *(n for f in model.functions for n in f.node)]):
        _check_names([node.domain, node.op_type, node.overload, node.name])
        _check_names([*node.input, *node.output, *(a.name for a in node.attribute)])
        for inner in subgraphs(node):
            _check_names([i.name for i in (*inner.initializer, *inner.input, *inner.output)])


def _check_names(texts: Collection[str | bytes]) -> None:
    for text in texts:
        if isinstance(text, bytes):
            raise ModelError(f"the name {text!r} is not UTF-8 text")


def opsets_of(model: onnx.ModelProto) -> dict[str, int]:
    """Return the opset version of every domain; ModelError if one is stated twice, differently."""
    found: dict[str, int] = {}
    for entry in model.opset_import:
        domain = default_domain(entry.domain)
        if found.setdefault(domain, entry.version) != entry.version:
            raise ModelError(f"the model imports domain {domain!r} in two versions")
    return found


def header_of(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy of the model without nodes and initializers."""
    header = onnx.ModelProto()
    _copy(model, header, ("graph",))
    _copy(model.graph, header.graph, ("node", *_WEIGHTS))
    return header


def _copy(source: Message, target: Message, without: Collection[str]) -> None:
    for field, value in source.ListFields():
        if field.name in without:
            continue
        if isinstance(value, str | bytes | int | float):
            setattr(target, field.name, value)
        elif field.type == FieldDescriptor.TYPE_MESSAGE and isinstance(value, Message):
            getattr(target, field.name).CopyFrom(value)
        else:
            getattr(target, field.name).extend(value)


def inlined(model: onnx.ModelProto, header: onnx.ModelProto) -> list[onnx.NodeProto]:
    """Return the model's nodes with calls of model-local functions replaced by their bodies.

    Calls that ONNX's inliner leaves stay; then the header keeps their functions.  ModelError for
    functions that call themselves or expand without bounds.
    """
    if not model.functions:
        return list(model.graph.node)
    _check_expansion(model)
    bare = onnx.ModelProto()
    bare.CopyFrom(header)
    bare.graph.node.extend(model.graph.node)
    try:
        flat = onnx.inliner.inline_local_functions(bare)
    except (RuntimeError, ValueError, TypeError):
        return list(model.graph.node)
    left = {_key(n) for n in all_nodes(flat.graph.node)}
    kept = [f for f in model.functions if (default_domain(f.domain), f.name, f.overload) in left]
    if kept:
        return list(model.graph.node)
    header.ClearField("functions")
    return list(flat.graph.node)


def _key(node: onnx.NodeProto) -> Key:
    return (default_domain(node.domain), node.op_type, node.overload)


def _check_expansion(model: onnx.ModelProto) -> None:
    bodies = {(default_domain(f.domain), f.name, f.overload): f for f in model.functions}
    sizes: dict[Key, int] = {}

    def size(key: Key, callers: tuple[Key, ...]) -> int:
        if key in callers:
            raise ModelError(f"model-local function {key[1]!r} calls itself")
        if key not in sizes:
            called = Counter(_key(n) for n in all_nodes(bodies[key].node))
            sizes[key] = _total(called, lambda k: size(k, (*callers, key)), bodies)
        return sizes[key]

    calls = Counter(_key(n) for n in all_nodes(model.graph.node))
    for key in bodies:
        size(key, ())
    if _total(calls, lambda k: sizes[k], bodies) > MAX_INLINED_NODES:
        raise ModelError(f"model-local functions expand to more than {MAX_INLINED_NODES} nodes")


def _total(called: Mapping[Key, int], size: Callable[[Key], int], bodies: Collection[Key]) -> int:
    return sum(n * (size(k) if k in bodies else 1) for k, n in called.items())
