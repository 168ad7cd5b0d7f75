"""An If whose condition is known while the model is read: the branch that runs takes its place."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import TensorProto, helper

from egraph_fusion.frontend.constants import constant_value
from egraph_fusion.frontend.scopes import captures, rename_captures, subgraphs
from egraph_fusion.frontend.weights import read_tensor
from egraph_fusion.frontend.workspace import Workspace


def taken_branch(space: Workspace, proto: onnx.NodeProto) -> list[onnx.NodeProto] | None:
    """Return the nodes of an If's branch that runs, under fresh names, its constants entered.

    None for other nodes, for a condition that is known at run time only, and for branches whose
    weights lie outside the model.
    """
    if proto.op_type != "If" or proto.domain or len(proto.input) != 1:
        return None
    condition = space.arrays.get(proto.input[0])
    if condition is None or condition.size != 1:
        return None
    wanted = "then_branch" if np.all(condition) else "else_branch"
    branch = next((a.g for a in proto.attribute if a.name == wanted), None)
    if branch is None or not _is_plain(branch) or len(branch.output) != len(proto.output):
        return None
    return _spliced(space, proto, branch)


def _is_plain(branch: onnx.GraphProto) -> bool:
    return (
        not branch.input
        and not branch.sparse_initializer
        and all(t.data_location != TensorProto.EXTERNAL for t in branch.initializer)
    )


def _spliced(
    space: Workspace, proto: onnx.NodeProto, branch: onnx.GraphProto
) -> list[onnx.NodeProto]:
    prefix = proto.name or next((o for o in proto.output if o), "if")
    results = _results(proto, branch)
    names: dict[str, str] = {}
    for tensor in branch.initializer:
        names[tensor.name] = space.fresh(f"{prefix}_{tensor.name}")
        space.define(names[tensor.name], read_tensor(tensor, None))
    nodes: list[onnx.NodeProto] = []
    for inner in branch.node:
        copy = _renamed(space, inner, names, results, prefix)
        array = constant_value(copy, None, ())
        if array is None:
            nodes.append(copy)
        else:
            space.define(copy.output[0], array)
    for value, info in zip(proto.output, branch.output, strict=True):
        result = names.get(info.name, info.name)
        if value and result != value:
            nodes.append(helper.make_node("Identity", [result], [value]))
    space.used |= {v for n in nodes for v in (*n.input, *captures(n))}
    return nodes


def _results(proto: onnx.NodeProto, branch: onnx.GraphProto) -> dict[str, str]:
    """Return which of the If's outputs each value made in the branch becomes, if any."""
    made = {v for n in branch.node for v in n.output if v}
    found: dict[str, str] = {}
    for value, info in zip(proto.output, branch.output, strict=True):
        if value and info.name in made:
            found.setdefault(info.name, value)
    return found


def _renamed(
    space: Workspace,
    inner: onnx.NodeProto,
    names: dict[str, str],
    results: Mapping[str, str],
    prefix: str,
) -> onnx.NodeProto:
    """Return a copy that reads what `names` says, entering the names of its results."""
    copy = onnx.NodeProto()
    copy.CopyFrom(inner)
    copy.input[:] = [names.get(v, v) for v in inner.input]
    if any(subgraphs(copy)):
        rename_captures(copy, _captured(copy, names))
    for i, value in enumerate(inner.output):
        if value:
            names[value] = results.get(value) or space.fresh(f"{prefix}_{value}")
            copy.output[i] = names[value]
    return copy


def _captured(node: onnx.NodeProto, names: Mapping[str, str]) -> dict[str, str]:
    return {v: names[v] for v in captures(node) if v in names}
