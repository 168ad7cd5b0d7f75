"""What expressions of concrete tensors mean, by numpy in float64; and rules applied to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from onnx.reference import ReferenceEvaluator

from egraph_fusion.experiment.chains import Step
from egraph_fusion.experiment.leaves import Leaf
from egraph_fusion.frontend import export
from egraph_fusion.ir.graph import Graph
from egraph_fusion.rulesets.pattern import (
    Apply,
    Attribute,
    Computed,
    Number,
    Output,
    Pattern,
    Scalar,
    Tensor,
    children,
)

Array = NDArray[Any]
Bindings = dict[str, object]


def _reduced(f: Callable[..., Any]) -> Callable[..., Any]:
    def reduce(x: Array, axes: tuple[int, ...] | None = None, keepdims: int = 1) -> Array:
        return np.asarray(f(x, axis=axes, keepdims=bool(keepdims)))

    return reduce


def _clip(x: Array, low: Array | None = None, high: Array | None = None) -> Array:
    return np.asarray(np.clip(x, low, high))


def _relu(x: Array) -> Array:
    return np.maximum(x, 0.0)


def _max(*xs: Array) -> Array:
    return np.asarray(np.max(np.stack(np.broadcast_arrays(*xs)), axis=0))


def _concat(*xs: Array, axis: int) -> Array:
    return np.concatenate(xs, axis)


def _split(x: Array, axis: int = 0, split: tuple[int, ...] = ()) -> list[Array]:
    return list(np.split(x, np.cumsum(split)[:-1], axis))


def _transpose(x: Array, perm: tuple[int, ...]) -> Array:
    return np.transpose(x, perm)


def _sum(*xs: Array) -> Array:
    return np.asarray(sum(xs))


MEANINGS: Mapping[str, Callable[..., Any]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": np.divide,
    "Pow": np.power,
    "Neg": np.negative,
    "Abs": np.abs,
    "Sqrt": np.sqrt,
    "Exp": np.exp,
    "Log": np.log,
    "Reciprocal": np.reciprocal,
    "Relu": _relu,
    "Max": _max,
    "Clip": _clip,
    "MatMul": np.matmul,
    "Transpose": _transpose,
    "Concat": _concat,
    "Split": _split,
    "Sum": _sum,
    "ReduceSum": _reduced(np.sum),
    "ReduceMean": _reduced(np.mean),
    "ReduceMax": _reduced(np.max),
}
"""By numpy, not by the registry: the operators that tests of expressions use."""


def reference(graph: Graph, feeds: Mapping[str, Array]) -> list[Array]:
    """Run a graph in float32 by onnx.reference."""
    narrow = {v: feeds[v].astype(np.float32) for v in graph.inputs}
    found = ReferenceEvaluator(export(graph)).run(None, narrow)
    return [np.asarray(x) for x in cast("list[Any]", found)]


def value(p: Pattern, inputs: Mapping[str, Array]) -> Any:
    """Return the value of an expression; several outputs are a list."""
    match p:
        case Leaf(name, value=None):
            return inputs[name] if name else None
        case Leaf(value=constant) if constant is not None:
            return constant.array.astype(np.float64)
        case Number(number):
            return np.asarray(number)
        case Output(of, index):
            return value(of, inputs)[index]
        case Apply(op, args, attrs):
            operands = [value(a, inputs) for a in args]
            with np.errstate(all="ignore"):
                return MEANINGS[op](*operands, **dict(attrs))
        case _:
            raise AssertionError(f"{p} has no value")


def inputs_of(*leaves: Leaf, seed: int = 0) -> dict[str, Array]:
    """Draw values that keep what is claimed of each leaf."""
    rng = np.random.default_rng(seed)
    found: dict[str, Array] = {}
    for leaf in leaves:
        shape = leaf.type.static_shape
        low, high = max(leaf.lo, -3.0), min(leaf.hi, 3.0)
        assert shape is not None
        drawn = rng.uniform(low, max(high, low), shape)
        found[leaf.name] = np.clip(np.rint(drawn), np.ceil(low), high) if leaf.integer else drawn
    return found


def part(p: Pattern, place: tuple[int, ...]) -> Pattern:
    """Return what stands at a place."""
    for i in place:
        p = children(p)[i]
    return p


def same_outside(p: Pattern, q: Pattern, place: tuple[int, ...]) -> bool:
    """Whether two terms differ at a place at most."""
    if not place:
        return True
    ps, qs = children(p), children(q)
    if type(p) is not type(q) or len(ps) != len(qs):
        return False
    others = (ps[i] == qs[i] for i in range(len(ps)) if i != place[0])
    return all(others) and same_outside(ps[place[0]], qs[place[0]], place[1:])


def applies(s: Step) -> bool:
    """Whether a step is what it says: its rule, once, at its place, and nothing else changed."""
    before, after = part(s.before, s.place), part(s.after, s.place)
    left, right = (before, after) if s.forward else (after, before)
    if not same_outside(s.before, s.after, s.place):
        return False
    found = _unified(s.instance.lhs, left, {})
    return found is not None and _unified(s.instance.rhs, right, found) is not None


def _unified(p: Pattern, term: Pattern, known: Bindings) -> Bindings | None:
    """Match a side of a rule against a term; computed attributes may be anything."""
    match p:
        case Tensor(name):
            return known if known.setdefault(name, term) == term else None
        case Scalar():
            return known if isinstance(term, Number) else None
        case Number(number):
            alike = isinstance(term, Number) and term.value == number
            splat = isinstance(term, Leaf) and term.value is not None
            return known if alike or splat else None
        case Output(of, index):
            fits = isinstance(term, Output) and term.index == index
            return _unified(of, term.of, known) if fits and isinstance(term, Output) else None
        case Apply(op, args, attrs):
            if not isinstance(term, Apply) or term.op != op or len(term.args) != len(args):
                return None
            if not _attributes_fit(dict(attrs), dict(term.attrs), known):
                return None
            for operand, child in zip(args, term.args, strict=True):
                if _unified(operand, child, known) is None:
                    return None
            return known
        case _:
            return None


def _attributes_fit(
    wanted: Mapping[str, object], have: Mapping[str, object], known: Bindings
) -> bool:
    for name, term in wanted.items():
        if isinstance(term, Computed):
            continue
        if isinstance(term, Attribute):
            if known.setdefault(f"attribute {term.name}", have.get(name)) != have.get(name):
                return False
        elif name in have and have[name] != term and not _negative(term):
            return False
    return True


def _negative(term: object) -> bool:
    """Whether an axis counts from the back, so that the term has it in another form."""
    values = term if isinstance(term, tuple) else (term,)
    return any(isinstance(v, int) and v < 0 for v in values)


def close(x: Any, y: Any) -> bool:
    """Whether two float64 results agree to rounding where both are finite."""
    x, y = np.asarray(x), np.asarray(y)
    if x.shape != y.shape:
        return False
    finite = np.isfinite(x) & np.isfinite(y)
    return bool(np.allclose(x[finite], y[finite], rtol=1e-9, atol=1e-9)) and bool(
        (np.isfinite(x) == np.isfinite(y)).all()
    )


def terms(depth: int, leaves: tuple[Leaf, ...], rng: np.random.Generator) -> Pattern:
    """Draw an expression of a few operators over leaves of one shape."""
    if depth == 0 or rng.random() < 0.15:
        return leaves[rng.integers(len(leaves))]
    kind = rng.integers(8)
    left = terms(depth - 1, leaves, rng)
    if kind == 0:
        return -left
    if kind == 1:
        return Apply("Abs", (left,))
    if kind == 2:
        return left * float(rng.choice([0.5, 2.0, -1.0, 1.0]))
    right = terms(depth - 1, leaves, rng)
    return (left + right, left - right, left * right, left + right, left * right)[kind - 3]
