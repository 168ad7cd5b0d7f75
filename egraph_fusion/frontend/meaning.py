"""What a model computes that nobody can compute twice: operators without meaning, random ones."""

from __future__ import annotations

import onnx

from egraph_fusion.frontend.inference import schema_of
from egraph_fusion.frontend.scopes import all_nodes
from egraph_fusion.frontend.skeleton import default_domain, opsets_of

_RANDOM = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike"}
    | {"RandomUniform", "RandomUniformLike"}
)
TRAINING_MODE = 2
"""Dropout's operand that says that it drops."""


def unknown_nodes(model: onnx.ModelProto) -> list[str]:
    """Return the nodes of operators that neither ONNX nor the model itself defines, as labels."""
    own = {(default_domain(f.domain), f.name) for f in model.functions}
    opsets = opsets_of(model)
    nodes = all_nodes([*model.graph.node, *(n for f in model.functions for n in f.node)])
    return [
        f"{_name(n)!r} ({n.op_type} of the domain {n.domain or 'ai.onnx'!r})"
        for n in nodes
        if (default_domain(n.domain), n.op_type) not in own
        and schema_of(n.op_type, default_domain(n.domain), opsets.get(default_domain(n.domain), 1))
        is None
    ]


def random_nodes(model: onnx.ModelProto) -> list[str]:
    """Return the nodes that give other values at every run, as labels."""
    return [f"{_name(n)!r} ({n.op_type})" for n in all_nodes(model.graph.node) if _is_random(n)]


def _is_random(node: onnx.NodeProto) -> bool:
    if default_domain(node.domain) or any(a.name == "seed" for a in node.attribute):
        return False
    drops = node.op_type == "Dropout" and any(node.input[TRAINING_MODE:])
    return drops or node.op_type in _RANDOM


def _name(node: onnx.NodeProto) -> str:
    return node.name or next(filter(None, node.output), "")
