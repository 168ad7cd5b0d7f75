"""The numpy meaning of patterns, guards and computed attributes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from egraph_fusion.errors import RuleError
from egraph_fusion.ir.graph import Array, AttrValue, frozen_attrs
from egraph_fusion.ir.ops import OPERATORS
from egraph_fusion.ir.ops.operator import normalized
from egraph_fusion.ir.ops.reading import types_of
from egraph_fusion.ir.tensors import DType
from egraph_fusion.rulesets.functions import call
from egraph_fusion.rulesets.guards import Form, Guard
from egraph_fusion.rulesets.pattern import (
    Apply,
    Attribute,
    AttrTerm,
    Computed,
    Number,
    Output,
    Pattern,
    Scalar,
    Tensor,
)


@dataclass(frozen=True)
class Environment:
    """What the variables of a rule stand for.

    `attrs` holds single attributes by variable, `rests` all attributes of a node by variable.
    Numbers take the dtype `dtype`.
    """

    tensors: Mapping[str, Array]
    attrs: Mapping[str, AttrValue]
    rests: Mapping[str, Mapping[str, AttrValue]]
    dtype: np.dtype[Any]


def evaluate(p: Pattern, env: Environment) -> Array:
    """Return the value of a term.

    Raises EgraphFusionError if an operator refuses its operands or a variable is not bound.
    """
    match p:
        case Tensor(name):
            return env.tensors[name]
        case Number(value):
            return np.asarray(value, env.dtype)
        case Scalar(value):
            return np.asarray(env.attrs[value.name], env.dtype)
        case Apply():
            return outputs_of(p, env)[0]
        case Output(of, index) if isinstance(of, Apply):
            return outputs_of(of, env)[index]
        case _:
            raise RuleError(f"{p} has no value")


def outputs_of(p: Apply, env: Environment) -> tuple[Array, ...]:
    """Return all outputs of a node."""
    values = [evaluate(a, env) for a in p.args]
    operator = OPERATORS[p.op]
    given = attributes_of(p, env)
    attrs = normalized(operator, types_of(values), given)
    operator.infer(types_of(values), frozen_attrs(attrs))
    with np.errstate(all="ignore"):
        return operator.evaluate(values, frozen_attrs(attrs))


def attributes_of(p: Apply, env: Environment) -> dict[str, AttrValue]:
    """Return the attributes of a node, variables replaced."""
    rest = dict(env.rests.get(p.rest.name, {})) if p.rest is not None else {}
    return {**rest, **{name: attribute(term, env) for name, term in p.attrs}}


def attribute(term: AttrTerm, env: Environment) -> AttrValue:
    """Return the value of an attribute term."""
    if isinstance(term, Attribute):
        return env.attrs[term.name]
    if isinstance(term, Computed):
        return call(term.function, tuple(_argument(a, env) for a in term.args))
    return term


def holds(g: Guard, env: Environment) -> bool:
    """Whether a guard holds of an environment."""
    if g.kind.form is Form.GRAPH:
        return True
    if g.kind.form is Form.VALUE:
        return g.kind.test(*(evaluate(p, env) for p in g.patterns))
    if g.kind.form is Form.DTYPE:
        return g.kind.test(*(DType.of(evaluate(p, env).dtype) for p in g.patterns))
    return g.kind.test(*(_argument(a, env) for a in g.args))


def _argument(a: Pattern | AttrTerm, env: Environment) -> Any:
    return evaluate(a, env).shape if isinstance(a, Pattern) else attribute(a, env)
