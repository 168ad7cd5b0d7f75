"""ONNX's own type inference and schemas, asked about one node at a time."""

from __future__ import annotations

from collections.abc import Mapping

import onnx
from onnx import numpy_helper
from onnx.checker import ValidationError
from onnx.defs import OpSchema, SchemaError, get_schema
from onnx.shape_inference import InferenceError, infer_node_outputs

from egraph_fusion.frontend.scopes import captures, subgraphs
from egraph_fusion.frontend.types import ELEMENT_TYPES, UNKNOWN, DimNames, read_inferred, write_type
from egraph_fusion.ir.graph import Array
from egraph_fusion.ir.tensors import DType, TensorType

_SMALL = 4096  # elements: bigger constants hold no shapes


def schema_of(op: str, domain: str, opset: int) -> OpSchema | None:
    """Return ONNX's declaration of an operator as of `opset`, or None if it has none."""
    try:
        return get_schema(op, opset, domain)
    except SchemaError:
        return None


class Inference:
    """Infers output types of nodes that the registry does not know, from the types of operands.

    Values that are no tensors (sequences, optionals) keep their ONNX type here, since the IR only
    carries them.
    """

    def __init__(
        self,
        opsets: Mapping[str, int],
        ir_version: int,
        names: DimNames,
        claims: Mapping[str, onnx.TypeProto],
    ) -> None:
        self.opsets = dict(opsets)
        self.claims = claims
        self.ir_version = ir_version
        self.names = names
        self.exact: dict[str, onnx.TypeProto] = {}

    def infer(
        self,
        node: onnx.NodeProto,
        types: Mapping[str, TensorType],
        constants: Mapping[str, Array],
    ) -> tuple[dict[str, TensorType], str]:
        """Return the types of the node's outputs, and a complaint if the node is impossible."""
        schema = schema_of(node.op_type, node.domain, self.opsets.get(node.domain, 0))
        if schema is None:
            return self._typed(node, {}), ""
        complaint = arity_complaint(node, schema) or dtype_complaint(node, schema, types)
        if complaint:
            return self._typed(node, {}), complaint
        inputs = {v: self._proto(v, types[v]) for v in node.input if v}
        data = {
            v: numpy_helper.from_array(constants[v], v)
            for v in inputs
            if v in constants and constants[v].size <= _SMALL and constants[v].dtype != object
        }
        try:
            found = self._outputs(schema, self._with_captured(node, types), inputs, data)
        except ValidationError as error:
            return self._typed(node, {}), _first_line(error)
        except InferenceError as error:
            known = all(v in self.exact or types[v].dtype is not DType.OTHER for v in inputs)
            return self._typed(node, {}), _first_line(error) if known else ""
        except (RuntimeError, ValueError, TypeError):
            found = {}
        return self._typed(node, found or _branch_types(node)), ""

    def _outputs(
        self,
        schema: OpSchema,
        node: onnx.NodeProto,
        inputs: dict[str, onnx.TypeProto],
        data: dict[str, onnx.TensorProto],
    ) -> dict[str, onnx.TypeProto]:
        imports = [onnx.helper.make_opsetid(d, v) for d, v in self.opsets.items()]
        return infer_node_outputs(
            schema, node, inputs, data, {}, opset_imports=imports, ir_version=self.ir_version
        )

    def _proto(self, value: str, kind: TensorType) -> onnx.TypeProto:
        return self.exact[value] if value in self.exact else write_type(kind, self.names)

    def _typed(
        self, node: onnx.NodeProto, found: Mapping[str, onnx.TypeProto]
    ) -> dict[str, TensorType]:
        typed: dict[str, TensorType] = {}
        for value in node.output:
            if value and value in found:
                typed[value] = read_inferred(found[value], value, self.names)
                if typed[value].dtype is DType.OTHER:
                    self.exact[value] = found[value]
            elif value:
                typed[value] = self._claimed(value)
        return typed

    def _claimed(self, value: str) -> TensorType:
        """Return the declared element type; declared shapes are often wrong and never believed."""
        claim = self.claims.get(value)
        if claim is None or claim.WhichOneof("value") != "tensor_type":
            return UNKNOWN
        return TensorType(ELEMENT_TYPES.get(claim.tensor_type.elem_type, DType.OTHER), None)

    def _with_captured(
        self, node: onnx.NodeProto, types: Mapping[str, TensorType]
    ) -> onnx.NodeProto:
        """Return the node with the types of captured values stated inside its subgraphs."""
        outer = captures(node)
        if not outer:
            return node
        informed = onnx.NodeProto()
        informed.CopyFrom(node)
        for graph in subgraphs(informed):
            for value in outer:
                info = graph.value_info.add(name=value)
                info.type.CopyFrom(self._proto(value, types[value]))
        return informed


def _branch_types(node: onnx.NodeProto) -> dict[str, onnx.TypeProto]:
    """Return an If node's output types as its first branch declares them, shapes left out."""
    if node.op_type != "If":
        return {}
    branch = next(subgraphs(node), None)
    if branch is None or len(branch.output) != len(node.output):
        return {}
    found: dict[str, onnx.TypeProto] = {}
    for value, info in zip(node.output, branch.output, strict=True):
        if info.type.WhichOneof("value") == "tensor_type":
            found[value] = onnx.helper.make_tensor_type_proto(info.type.tensor_type.elem_type, None)
    return found


def _first_line(error: Exception) -> str:
    lines = str(error).rsplit("] ", 1)[-1].splitlines()
    return lines[0] if lines else "inference failed"


def arity_complaint(node: onnx.NodeProto, schema: OpSchema) -> str:
    """Return what is wrong with the number of operands or results, "" if nothing is."""
    if not schema.min_input <= len(node.input) <= schema.max_input:
        span = f"{schema.min_input} to {schema.max_input}"
        return f"it has {len(node.input)} operands, {schema.name} takes {span}"
    if len(node.output) > schema.max_output:
        return f"it has {len(node.output)} outputs, {schema.name} gives at most {schema.max_output}"
    return ""


def dtype_complaint(node: onnx.NodeProto, schema: OpSchema, types: Mapping[str, TensorType]) -> str:
    """Return which operand has a dtype that the schema forbids, "" if none has."""
    allowed = {c.type_param_str: set(c.allowed_type_strs) for c in schema.type_constraints}
    bound: dict[str, str] = {}
    for i, value in enumerate(node.input):
        kind = types.get(value)
        if kind is None or kind.dtype is DType.OTHER:
            continue
        formal = schema.inputs[min(i, len(schema.inputs) - 1)]
        name = onnx_name(kind.dtype)
        if name not in allowed.get(formal.type_str, {formal.type_str, name}):
            return f"{value!r} is {kind}, which {schema.name} does not take"
        same = formal.type_str in allowed and formal.is_homogeneous
        if same and bound.setdefault(formal.type_str, name) != name:
            return f"{value!r} is {kind}, but another operand is {bound[formal.type_str]}"
    return ""


def onnx_name(dtype: DType) -> str:
    """Return what schemas call a tensor of this dtype."""
    other = {DType.FLOAT32: "float", DType.FLOAT64: "double"}
    return f"tensor({other.get(dtype, dtype.value)})"
