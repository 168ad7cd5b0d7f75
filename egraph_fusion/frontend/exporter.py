"""The graph to ONNX: untouched nodes verbatim, new ones in the opset's form, names as they were."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import onnx
from onnx import numpy_helper
from onnx.helper import find_min_ir_version_for, make_attribute, make_opsetid

from egraph_fusion.errors import ModelError
from egraph_fusion.frontend.declarations import declare_inputs, reconcile
from egraph_fusion.frontend.forms_alike import alike, alike_for
from egraph_fusion.frontend.inference import dtype_complaint, schema_of
from egraph_fusion.frontend.scopes import captures, mentioned, rename_captures, subgraphs
from egraph_fusion.frontend.skeleton import default_domain
from egraph_fusion.frontend.types import ELEMENT_CODES
from egraph_fusion.frontend.versions import NEWEST_OPSET
from egraph_fusion.frontend.writers import CannotWriteError, Target, written
from egraph_fusion.ir.graph import Array, AttrValue, Constant, Graph, Node
from egraph_fusion.ir.tensors import DType

RULES_KEY = "egraph_fusion.rules"
DEFAULT_OPSET = 21
Store = Callable[[str, Constant], onnx.TensorProto]


def inline_tensor(name: str, constant: Constant) -> onnx.TensorProto:
    """Return the constant as a TensorProto that holds its bytes."""
    array = constant.array
    if constant.type.dtype is DType.STRING:
        tensor = onnx.TensorProto(name=name, dims=array.shape, data_type=onnx.TensorProto.STRING)
        tensor.string_data.extend(_encoded(v) for v in array.reshape(-1))
        return tensor
    return numpy_helper.from_array(array, name)


def _encoded(value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogateescape")


def export(graph: Graph, opset: int | None = None) -> onnx.ModelProto:
    """Return the graph as an ONNX model, in its own opset unless `opset` says another.

    Nodes that came in untouched go out as they came; new ones are written in the opset's form, with
    the rules that made them in their metadata.  Raises ModelError if the opset cannot express one.
    """
    return Exporter(graph, opset, inline_tensor).model()


class Exporter:
    """Writes one graph; `store` turns constants into (inline or external) tensors."""

    def __init__(self, graph: Graph, opset: int | None, store: Store) -> None:
        if opset is not None and not 1 <= opset <= NEWEST_OPSET:
            raise ModelError(f"opset {opset} cannot be written; expected 1 to {NEWEST_OPSET}")
        self.graph = graph
        self.store = store
        self.header = onnx.ModelProto.FromString(graph.header)
        self.opset = opset or graph.opset or DEFAULT_OPSET
        self.initializers: dict[str, Constant] = {}
        self.by_content: dict[str, str] = {}
        self.node_names = {n.name for n in graph.nodes if n.opaque}
        self.taken = set(graph.types) | set(_names_inside(graph.nodes))
        self.target = Target(self.opset, graph.types, graph.constant, self.constant)

    def model(self) -> onnx.ModelProto:
        """Return the whole model."""
        self._own_constants()
        nodes = [self.node(n) for n in self.graph.nodes]
        model: onnx.ModelProto = self.header
        body = model.graph
        body.name = body.name or self.graph.name or "graph"
        body.node.extend(nodes)
        self._set_versions(model)
        initializers = {**self.initializers, **self.graph.defaults}
        body.initializer.extend(self.store(v, c) for v, c in initializers.items())
        declare_inputs(model, self.graph, initializers)
        reconcile(model, self.graph)
        return model

    def constant(self, array: Array, hint: str) -> str:
        """Return the name of an initializer that holds `array`."""
        constant = Constant.of(array)
        if constant.id not in self.by_content:
            self._enter(self._fresh(hint), constant)
        return self.by_content[constant.id]

    def node(self, node: Node) -> onnx.NodeProto:
        """Return one node as ONNX."""
        proto = self._verbatim(node) if node.payload else None
        if proto is None:
            if node.opaque:
                raise CannotWriteError(
                    f"node {node.label()} cannot be written for opset {self.opset}: "
                    f"{node.op} has another form there, or does not take its dtypes"
                )
            proto = self._rewritten(node)
        if node.rules:
            proto.metadata_props.add(key=RULES_KEY, value=", ".join(node.rules))
        return proto

    def _own_constants(self) -> None:
        read = {v for n in self.graph.nodes for v in n.reads} | set(self.graph.outputs)
        for value, constant in self.graph.constants.items():
            if value in read:
                self._enter(value, constant)

    def _enter(self, value: str, constant: Constant) -> None:
        self.initializers[value] = constant
        self.by_content.setdefault(constant.id, value)

    def _fresh(self, hint: str) -> str:
        name, count = hint, 1
        while name in self.taken:
            name, count = f"{hint}_{count}", count + 1
        self.taken.add(name)
        return name

    def _verbatim(self, node: Node) -> onnx.NodeProto | None:
        """Return the node as it came in with today's names; None if it no longer fits."""
        proto: onnx.NodeProto = onnx.NodeProto.FromString(node.payload)
        if not self._same_meaning(node, proto):
            return None
        if node.opaque:
            proto.input[:] = node.inputs
        elif not self._fill_operands(node, proto):
            return None
        proto.output[:] = node.outputs
        self._connect_captures(node, proto)
        return proto

    def _fill_operands(self, node: Node, proto: onnx.NodeProto) -> bool:
        count = len(proto.input)
        while count and not proto.input[count - 1]:
            count -= 1
        moving = [i for i in range(count) if i not in node.absorbed]
        operands = list(node.inputs)
        names = [operands.pop(0) if operands and i in moving else "" for i in range(count)]
        if operands:
            return False
        if any(not names[i] and proto.input[i] for i in moving):
            return False
        for i, constant in node.absorbed.items():
            names[i] = self._named(constant, proto.input[i])
        proto.input[:] = names
        return True

    def _named(self, constant: Constant, original: str) -> str:
        """Return an initializer for a constant, under its original name if that is free."""
        if self.initializers.get(original) == constant:
            return original
        if original not in self.taken:
            self.taken.add(original)
            self._enter(original, constant)
            return original
        return self.constant(constant.array, original)

    def _connect_captures(self, node: Node, proto: onnx.NodeProto) -> None:
        original = captures(proto)
        if len(original) == len(node.captures):
            rename_captures(proto, dict(zip(original, node.captures, strict=True)))

    def _same_meaning(self, node: Node, proto: onnx.NodeProto) -> bool:
        """Whether the operator (and all inside subgraphs) means the same in the target's opset.

        What the registry declares is written in the target's form, so the version has to be the
        same; of the rest it is enough that the form is, and that it takes the dtypes at hand.
        """
        if self.opset == self.graph.opset:
            return True
        ours = [p for p in _all_nodes(proto) if not default_domain(p.domain)]
        if not node.opaque:
            return all(self._same_version(p.op_type) for p in ours)
        versions = (self.graph.opset, self.opset)
        types = [self.graph.types[v] if v else None for v in (*node.inputs, *node.outputs)]
        return all(
            alike(p.op_type, *versions) or (p is proto and alike_for(proto, types, *versions))
            for p in ours
        )

    def _same_version(self, op: str) -> bool:
        old, new = schema_of(op, "", self.graph.opset), schema_of(op, "", self.opset)
        return old is not None and new is not None and old.since_version == new.since_version

    def _rewritten(self, node: Node) -> onnx.NodeProto:
        form = written(node, self.target)
        proto = onnx.NodeProto()
        if node.payload:
            old = onnx.NodeProto.FromString(node.payload)
            if old.doc_string:
                proto.doc_string = old.doc_string
            proto.metadata_props.extend(old.metadata_props)
        proto.op_type = node.op
        if node.name and node.name not in self.node_names:
            proto.name = node.name
            self.node_names.add(node.name)
        proto.input.extend(form.inputs)
        proto.output.extend(node.outputs)
        proto.attribute.extend(_attribute(k, v) for k, v in sorted(form.attrs.items()))
        self._check_dtypes(node, proto)
        return proto

    def _check_dtypes(self, node: Node, proto: onnx.NodeProto) -> None:
        schema = schema_of(node.op, "", self.opset)
        complaint = "" if schema is None else dtype_complaint(proto, schema, self.graph.types)
        if complaint:
            raise CannotWriteError(f"node {node.label()}: in opset {self.opset}, {complaint}")

    def _set_versions(self, model: onnx.ModelProto) -> None:
        imports = {default_domain(e.domain): e for e in model.opset_import}
        needed = not imports or any(":" not in n.op for n in self.graph.nodes)
        if "" in imports:
            imports[""].version = self.opset
        elif needed:
            model.opset_import.append(make_opsetid("", self.opset))
        changed = self.opset != self.graph.opset
        if not model.ir_version or changed:
            least = find_min_ir_version_for(list(model.opset_import), ignore_unknown=True)
            model.ir_version = max(model.ir_version, least)


def _attribute(name: str, value: AttrValue) -> onnx.AttributeProto:
    """Return an attribute; an empty list is one of integers, the only kind that may be empty."""
    empty = onnx.AttributeProto.INTS if value == () else None
    return make_attribute(name, value, attr_type=empty)


def _all_nodes(proto: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
    yield proto
    for graph in subgraphs(proto):
        for inner in graph.node:
            yield from _all_nodes(inner)


def _names_inside(nodes: Sequence[Node]) -> Iterator[str]:
    for node in nodes:
        if node.opaque and node.payload:
            yield from mentioned(onnx.NodeProto.FromString(node.payload))


def expressible(node: Node, graph: Graph, opset: int | None = None) -> str:
    """Return why `opset` (the graph's own by default) cannot express a declared node, "" if it can.

    `graph` supplies the types and constants of the node's operands.
    """
    names: Callable[[Array, str], str] = lambda _array, hint: hint  # noqa: E731
    target = Target(opset or graph.opset or DEFAULT_OPSET, graph.types, graph.constant, names)
    try:
        written(node, target)
    except CannotWriteError as error:
        return str(error)
    known = all(graph.types[v].dtype in ELEMENT_CODES for v in node.inputs if v)
    return "" if known else f"node {node.label()}: an operand is no tensor of a known type"


def check_opset(opset: int | None) -> None:
    """Raise ModelError for an opset that the installed onnx does not have."""
    newest = onnx.defs.onnx_opset_version()
    if opset is not None and not 1 <= opset <= newest:
        raise ModelError(f"opset {opset} does not exist; expected 1 to {newest}")
