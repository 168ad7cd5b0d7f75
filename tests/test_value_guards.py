"""Guards on elements: what the e-graph knows is true of the elements that numpy computes."""

from __future__ import annotations

import math
from functools import cache
from typing import Any, cast

import numpy as np
import pytest
from expression_values import inputs_of, terms, value
from ml_dtypes import bfloat16
from numpy.typing import NDArray
from onnx.reference import ReferenceEvaluator

import egraph_fusion as ef
from egraph_fusion import rulesets
from egraph_fusion.egraph.ranges import graph_facts
from egraph_fusion.experiment.exploration import Exploration
from egraph_fusion.experiment.expressions import graph_of
from egraph_fusion.experiment.leaves import ABSENT, Leaf
from egraph_fusion.frontend import export
from egraph_fusion.rulesets import guards, ops
from egraph_fusion.rulesets.guards import GUARDS, Form
from egraph_fusion.rulesets.pattern import Pattern
from egraph_fusion.rulesets.rule import Rule

x = rulesets.tensors("x")[0]
VALUE = sorted(n for n, g in GUARDS.items() if g.form is Form.VALUE and g.arity == 1)
PROBES = {
    n: rulesets.rule(
        f"probe-{n}", ops.identity(x), x, [getattr(guards, n)(x)], level="exact", dtypes="any"
    )
    for n in VALUE
}
"""A rule for each guard, that fires where the guard is known to hold."""

C, D = ef.tensor("c", (2, 3)), ef.tensor("d", (2, 3))
WHOLE = ef.tensor("whole", (2, 3), integer=True)
FEW = ef.tensor("few", (2, 3), lo=1, hi=3, integer=True)
AT = ef.tensor("at", (2, 3), "int64")
HALF, TWO = ef.constant("half", 0.5), ef.constant("two", 2.0)
TENTH, TEN = ef.constant("tenth", 0.1), ef.constant("ten", 10.0)
steps, split = ops.floor(C), ops.split(ops.floor(C), axis=1, split=(1, 2))
as_float = ops.cast(AT, to="float32")
above_0 = {"nonneg", "positive", "nonzero"}

KNOWN: dict[str, tuple[Pattern, set[str]]] = {
    "an input": (C, set()),
    "bounds": (ef.tensor("b", (2, 3), lo=0.5, hi=4.0), above_0 | {"finite"}),
    "integers": (WHOLE, {"integer"}),
    "integers within bounds": (FEW, above_0 | {"finite", "integer"}),
    "an integer input": (AT, {"integer"}),
    "truth values": (ops.less(C, D), {"integer"}),
    "half": (ops.identity(HALF), above_0 | {"finite", "uniform"}),
    "two": (ops.identity(TWO), above_0 | {"finite", "uniform", "integer"}),
    "several": (ef.constant("s", [1.0, 2.0, 3.0]), above_0 | {"finite", "integer"}),
    "several fractions": (ef.constant("s", [1.0, 2.5]), above_0 | {"finite"}),
    "last a fraction": (ef.constant("s", [1.0] * 2000 + [2.5]), above_0 | {"finite"}),
    "infinite": (ef.constant("s", [np.inf, 2.0]), above_0 | {"integer"}),
    "a fold of a fraction": (TENTH * TEN, above_0 | {"finite", "integer", "uniform"}),
    "a fold to a fraction": (TWO * TENTH, above_0 | {"finite", "uniform"}),
    "relu": (ops.relu(C), {"nonneg"}),
    "one more than abs": (ops.abs(C) + 1.0, above_0),
    "sigmoid": (ops.sigmoid(C), {"nonneg", "finite"}),
    "sine": (ops.sin(C), {"finite"}),
    "floor": (steps, {"integer"}),
    "sign": (ops.sign(C), {"integer", "finite"}),
    "polynomial": (steps * WHOLE * 3.0 - ops.round(D), {"integer"}),
    "half of integers": (WHOLE * 0.5, set()),
    "quotient": (WHOLE / 2.0, set()),
    "more than integers": (steps + 0.25, set()),
    "conversion": (as_float, {"integer"}),
    "conversion of fractions": (ops.cast(C, to="float64"), set()),
    "conversion to integers": (ops.cast(C, to="int32"), {"integer"}),
    "to float16": (ops.cast(WHOLE * 3e4, to="float16"), {"integer"}),
    "chosen": (ops.where(ops.less(C, D), steps, ops.ceil(D)), {"integer"}),
    "chosen by halves": (ops.where(ops.less(C, D), steps, D), set()),
    "extrema": (ops.max(steps, WHOLE, 1.0), above_0 | {"integer"}),
    "extrema with a fraction": (ops.max(steps, WHOLE, 0.5), above_0),
    "clipped": (ops.clip(steps, ef.constant("l", 0.0), TEN), {"nonneg", "finite", "integer"}),
    "clipped above": (ops.clip(steps, ABSENT, TEN), {"integer"}),
    "clipped at a fraction": (ops.clip(steps, HALF, TEN), above_0 | {"finite"}),
    "sum": (ops.reduce_sum(steps, axes=(0, 1)), {"integer"}),
    "mean": (ops.reduce_mean(steps, axes=(0, 1)), set()),
    "product": (steps @ ops.transpose(WHOLE, perm=(1, 0)), {"integer"}),
    "product with fractions": (steps @ ops.transpose(C, perm=(1, 0)), set()),
    "linear map": (ops.gemm(steps, WHOLE, TWO, transB=1, alpha=3.0), {"integer"}),
    "linear map by halves": (ops.gemm(steps, WHOLE, TWO, transB=1, alpha=0.5), set()),
    "leaky": (ops.leaky_relu(steps, alpha=2.0), {"integer"}),
    "leaky by a hundredth": (ops.leaky_relu(steps), set()),
    "moved": (ops.reshape(ops.transpose(steps, perm=(1, 0)), shape=(6,)), {"integer"}),
    "joined": (ops.concat(steps, WHOLE, axis=0), {"integer"}),
    "joined with fractions": (ops.concat(steps, C, axis=0), set()),
    "first part": (split[0], {"integer"}),
    "second part": (split[1], {"integer"}),
    "padded by zeros": (ops.pad(steps, pads=(1, 0, 0, 1)), {"integer"}),
    "padded by twos": (ops.pad(steps, TWO, pads=(1, 0, 0, 1)), {"integer"}),
    "padded by halves": (ops.pad(steps, HALF, pads=(1, 0, 0, 1)), set()),
    "square as a power": (WHOLE**2.0, {"nonneg"}),
}


def _fired(found: Exploration) -> set[str]:
    """Return the guards that the e-graph knows; what it does not know, it says of each other."""
    fired: set[str] = set()
    for n, r in PROBES.items():
        miss = found.why_not(r.name)
        if not miss:
            fired.add(n)
            continue
        assert miss.kind == "guard", str(miss)
        assert miss.reasons[0].startswith(f"{n}(x) is not known: "), str(miss)
    return fired


def _values(p: Pattern, seed: int) -> NDArray[Any]:
    """Return what onnx.reference computes of drawn operands."""
    made = graph_of([p])
    inputs = [leaf for leaf in made.leaves.values() if leaf.value is None]
    rng = np.random.default_rng(seed)
    feeds: dict[str, NDArray[Any]] = {}
    for leaf in inputs:
        drawn = inputs_of(leaf, seed=seed)[leaf.name] * (1 if leaf.lo > 0 else rng.choice([1, 1e7]))
        whole = leaf.integer or leaf.type.dtype.is_integer
        feeds[leaf.name] = (np.rint(drawn) if whole else drawn).astype(leaf.type.dtype.numpy)
    with np.errstate(all="ignore"):
        found = ReferenceEvaluator(export(made.graph)).run(None, feeds)
    return np.asarray(cast("list[Any]", found)[0])


@pytest.mark.parametrize("name", KNOWN)
def test_what_is_known_holds_of_the_elements(name: str) -> None:
    p, expected = KNOWN[name]
    fired = _fired(ef.explore(ops.identity(p), rules=list(PROBES.values())))
    assert fired == expected
    for seed in range(20):
        elements = _values(ops.identity(p), seed)
        assert all(GUARDS[n].test(elements) for n in fired)


@pytest.mark.parametrize("guard", VALUE)
def test_every_guard_is_known_somewhere_and_elsewhere_not(guard: str) -> None:
    known = [guard in expected for _, expected in KNOWN.values()]
    assert any(known)
    assert not all(known)


BY_FOLDING = {"a fold of a fraction"}
"""What is not known before constants are computed."""


@pytest.mark.parametrize("name", sorted({*KNOWN} - BY_FOLDING))
def test_integers_are_known_before_saturation(name: str) -> None:
    term, expected = KNOWN[name]
    made = graph_of([term])
    facts = graph_facts(made.graph, made.assumed)[made.values[0]]
    assert facts.integer == ("integer" in expected)


p = rulesets.attrs("p")[0]
converted = ops.cast(x, attrs=p)
IN_RANGE = rulesets.rule(
    "probe",
    converted,
    ops.identity(converted),
    [guards.in_range_of(x, converted)],
    level="exact",
    dtypes="any",
)
EDGE = 2.0**31
RANGES: dict[str, tuple[Pattern, str, str]] = {
    "an input": (C, "", "int8 uint8 int64 bool float64"),
    "relu": (ops.relu(C), "", "uint8 uint64"),
    "sine": (ops.sin(C), "int8 int16 int64", "uint8 bool float64"),
    "sigmoid": (ops.sigmoid(C), "int8 uint8 bool", "float16"),
    "few": (FEW, "int8 uint64", "bool"),
    "bytes": (ops.clip(C, ef.constant("l", 0.0), ef.constant("h", 255.0)), "uint8 int16", "int8"),
    "below a byte": (ef.tensor("x", (2,), lo=-1, hi=255), "int16 int32", "uint8 int8"),
    "above a byte": (ef.tensor("x", (2,), lo=0, hi=256), "uint16 int32", "uint8"),
    "all of int8": (ef.tensor("x", (2,), lo=-128, hi=127), "int8", "uint8"),
    "all of int32": (ef.tensor("x", (2,), "float64", lo=-EDGE, hi=EDGE - 1), "int32", "uint32"),
    "beyond int32": (ef.tensor("x", (2,), lo=-EDGE, hi=EDGE), "int64", "int32 uint32"),
    "all of uint32": (ef.tensor("x", (2,), lo=0, hi=EDGE), "uint32 int64 uint64", "int32"),
    "beyond int64": (ef.tensor("x", (2,), lo=0, hi=EDGE * EDGE * 2), "uint64", "int64"),
    "beyond uint64": (ef.tensor("x", (2,), lo=0, hi=EDGE * EDGE * 4), "", "uint64 int64"),
    "integers": (AT, "", "int64 int32"),
}


@pytest.mark.parametrize("name", RANGES)
def test_ranges_of_integers_are_known_as_far_as_bounds_are(name: str) -> None:
    term, inside, outside = RANGES[name]
    for to in (*inside.split(), *outside.split()):
        found = ef.explore(ops.cast(term, to=to), rules=[IN_RANGE])
        miss = found.why_not("probe")
        assert (not miss) == (to in inside.split()), to
        if miss:
            assert miss.reasons[0].startswith("in_range_of(x, cast(x, attrs=p)) is not known: ")


LIMITS = {"int8": (-128, 127), "uint8": (0, 255), "int64": (-(2**63), 2**63 - 1), "bool": (0, 1)}
HOLDS = GUARDS["in_range_of"].test


@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize("given", [np.float16, bfloat16, np.float32, np.float64])
def test_a_range_is_that_of_the_integers(given: Any, dtype: str) -> None:
    t = np.zeros(1, dtype)
    first, last = LIMITS[dtype]
    with np.errstate(over="ignore"):
        near = [
            np.array([v], np.float64).astype(given) for v in (first - 1, first, 0, last, last + 1)
        ]
        near += [np.nextafter(v, np.array(0, v.dtype)) for v in near if given is not bfloat16]
    for v in near:
        (element,) = v.astype(np.float64).tolist()
        inside = math.isfinite(element) and first <= math.floor(element) <= last
        assert HOLDS(v, t) == inside, element
    assert not any(HOLDS(np.array([v], given), t) for v in (np.inf, -np.inf, np.nan))
    assert not HOLDS(np.zeros(1, given), np.zeros(1, np.float32))


def test_a_range_among_integers_is_exact() -> None:
    large = np.array([2**63 - 1], np.int64)
    assert HOLDS(large, np.zeros(1, np.int64))
    assert not HOLDS(large.astype(np.uint64) + np.uint64(1), np.zeros(1, np.int64))
    assert HOLDS(np.array([True]), np.zeros(1, np.int8))


SEEDS = range(40)
LEAVES = (ef.tensor("u", (2, 2)), ef.tensor("v", (2, 2), integer=True))
RULES: list[Rule] = [*rulesets.select(rulesets.default_rules(), ["identity"]), *PROBES.values()]


def _dyadic(leaf: Leaf, seed: int) -> NDArray[Any]:
    """Draw elements on which short sums and products are exact."""
    drawn = np.random.default_rng(seed).integers(-12, 13, (2, 2)) / 4
    return np.rint(drawn) if leaf.integer else drawn


@cache
def _known(seed: int) -> tuple[Pattern, frozenset[str]]:
    """Return a term, and the guards that are known to hold of it after some rewriting."""
    p = terms(4, LEAVES, np.random.default_rng(seed))
    found = ef.explore(ops.identity(p), rules=RULES, iter_limit=4)
    return p, frozenset(n for n, r in PROBES.items() if not found.why_not(r.name))


@pytest.mark.parametrize("seed", SEEDS)
def test_what_a_class_knows_holds_of_every_member(seed: int) -> None:
    p, known = _known(seed)
    for n in range(10):
        elements = value(p, {leaf.name: _dyadic(leaf, n) for leaf in LEAVES})
        assert all(GUARDS[g].test(np.asarray(elements)) for g in known)


@pytest.mark.parametrize("guard", ["integer", "nonneg"])
def test_some_rewritten_terms_satisfy_a_guard(guard: str) -> None:
    assert sum(guard in _known(seed)[1] for seed in SEEDS) >= 3
