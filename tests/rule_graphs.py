"""Graphs in which a rule's left side occurs, for the tests of rules."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rule_meaning import Environment, attributes_of, outputs_of

from egraph_fusion.ir.build import GraphBuilder
from egraph_fusion.ir.graph import Graph
from egraph_fusion.ir.tensors import DType, TensorType
from egraph_fusion.rulesets.pattern import (
    Apply,
    Number,
    Output,
    Pattern,
    Tensor,
    tensor_names,
)
from egraph_fusion.rulesets.rule import Rule


def left_side(r: Rule, env: Environment) -> Graph:
    """Return a float32 graph that computes `r.lhs`, its guards on values provable."""
    return left_side_and_leaves(r, env)[0]


def left_side_and_leaves(r: Rule, env: Environment) -> tuple[Graph, dict[str, str]]:
    """Return the graph of `left_side`, and which of its values stands for which variable."""
    b = GraphBuilder("left", opset=21)
    named = {n: _leaf(b, r, env, n) for n in tensor_names(r.lhs)}
    b.output(_build(b, r.lhs, env, named))
    return b.build(), named


def guards_on(r: Rule, name: str) -> set[str]:
    return {g.name for g in r.when if g.args[:1] == (Tensor(name),)}


def _dtype(array: np.ndarray) -> DType:
    return DType.FLOAT32 if array.dtype == np.float64 else DType.of(array.dtype)


def _leaf(b: GraphBuilder, r: Rule, env: Environment, name: str) -> str:
    array = env.tensors[name]
    dtype = _dtype(array)
    guards = guards_on(r, name)
    if "constant" in guards:
        return b.const(array.astype(dtype.numpy), name)
    value = b.add_input(name, TensorType(dtype, array.shape))
    if "integer" in guards:
        value = b.op("Round", value)
    if "in_range_of" in guards:
        value = b.op("Clip", value, *(b.const(np.array(v, dtype.numpy)) for v in (0, 1)))
    if guards & {"nonneg", "positive", "nonzero"}:
        value = b.op("Abs", value)
    if guards & {"positive", "nonzero"}:
        value = b.op("Add", value, b.const(np.array(1, dtype.numpy)))
    return value


def _build(b: GraphBuilder, p: Pattern, env: Environment, named: dict[str, str]) -> str:
    match p:
        case Tensor(name):
            return named[name]
        case Number(value):
            dtype = next((b.type_of(v).dtype for v in named.values()), DType.FLOAT32)
            return b.const(np.array(value, dtype.numpy))
        case Apply():
            return _nodes(b, p, env, named)[0]
        case Output(of, index) if isinstance(of, Apply):
            return _nodes(b, of, env, named)[index]
        case _:
            raise AssertionError(f"{p} cannot be built")


def _nodes(b: GraphBuilder, p: Apply, env: Environment, named: dict[str, str]) -> Sequence[str]:
    """Apply the operator of `p` and return all its outputs."""
    operands = [_build(b, a, env, named) for a in p.args]
    return b.node(p.op, operands, len(outputs_of(p, env)), **attributes_of(p, env))
