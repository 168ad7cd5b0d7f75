"""Numbers of left sides enlarge nothing: in the e-graph, in verification, and in near misses."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, numpy_helper, parser
from onnx.reference import ReferenceEvaluator

import egraph_fusion as ef
from egraph_fusion import rulesets
from egraph_fusion.rulesets import ops
from egraph_fusion.rulesets.number_sizes import unsaid
from egraph_fusion.rulesets.pattern import Pattern
from egraph_fusion.rulesets.rule import rule
from egraph_fusion.rulesets.verification import verify
from egraph_fusion.rulesets.verify_search import settings_of

a, b, c = rulesets.tensors("a b c")
(p,) = rulesets.attrs("p")
less, where = ops.less, ops.where


def total(x: Pattern, axis: int = 0, keepdims: int = 1) -> Pattern:
    """Return a sum along one axis."""
    return ops.reduce_sum(x, axes=(axis,), keepdims=keepdims)


TRIPLES = rule("triples", total(a * 3.0), total(a) * 3.0)
AS_AUTHORS_MEAN = {
    "sum": TRIPLES,
    "any sum": rule(
        "r",
        ops.reduce_sum(a * 3.0, axes=p, keepdims=1),
        ops.reduce_sum(a, axes=p, keepdims=1) * 3.0,
    ),
    "norm": rule(
        "r", total(ops.abs(a + 1.0), keepdims=0), ops.reduce_l1(a + 1.0, axes=(0,), keepdims=0)
    ),
    "lookup": rule("r", ops.gather(a * 2.0, b), ops.gather(a, b) * 2.0),
    "on the left": rule("r", total(1.0 - a, keepdims=0), total(-(a - 1.0), keepdims=0)),
    "of two operands": rule("r", total(ops.max(a, 0.0, b)), total(ops.relu(ops.max(a, b)))),
    "chosen": rule(
        "r", total(where(less(a, b), c, 0.0)), total(c * where(less(a, b), 1.0, 0.0)), level="real"
    ),
    "of numbers": rule("r", total(a * ops.sqrt(4.0)), total(a) * 2.0),
}


@pytest.mark.parametrize("name", AS_AUTHORS_MEAN)
@pytest.mark.parametrize("seed", range(3))
def test_a_number_stands_for_what_enlarges_nothing(name: str, seed: int) -> None:
    found = verify(AS_AUTHORS_MEAN[name], max_examples=60, seed=seed, check_guards=False)
    assert found.ok, str(found)


@pytest.mark.parametrize("seed", range(3))
def test_sizes_of_numbers_that_broadcast_are_still_tried(seed: int) -> None:

    r = rule("r", ops.softmax(a * 2.0, axis=-1), ops.softmax(a * ops.identity(2.0), axis=-1))
    shapes = [s.shapes for s in settings_of(r, seed)]
    numbers = {(len(n), n == s[a]) for s in shapes for q, n in s.items() if q != a}
    assert {(0, False), (2, True)} <= numbers


MODEL = """<ir_version: 8, opset_import: ["" : 18]>
g (float[{x}] x, float[{y}] y) => (float[{z}] z) <int64[1] axis = {{0}}> {{
  product = {product}
  z = ReduceSum <keepdims = 1> (product, axis)
}}"""
LARGEST = rule("largest", total(ops.max(a, 3.0, b)), total(ops.max(ops.max(a, b), 3.0)))
CASES = {
    "rank 0": (TRIPLES, "Mul(x, number)", (1, 4), (), (), True),
    "a row": (TRIPLES, "Mul(x, number)", (5, 4), (), (4,), True),
    "as large": (TRIPLES, "Mul(x, number)", (5, 4), (), (5, 4), True),
    "longer": (TRIPLES, "Mul(x, number)", (1, 4), (), (5, 4), False),
    "of higher rank": (TRIPLES, "Mul(x, number)", (4,), (), (2, 4), False),
    "of ones before": (TRIPLES, "Mul(x, number)", (4,), (), (1, 4), False),
    "two operands": (LARGEST, "Max(x, number, y)", (5, 1), (4,), (5, 4), True),
    "two operands, rank 0": (LARGEST, "Max(x, number, y)", (5, 1), (4,), (), True),
    "two operands, longer": (LARGEST, "Max(x, number, y)", (1, 1), (4,), (5, 4), False),
}


def model_of(product: str, *shapes: Sequence[int]) -> ModelProto:
    """Return a model that sums a product along its first axis; the number is 3."""
    z = (1, *np.broadcast_shapes(*map(tuple, shapes))[1:])
    texts = [",".join(map(str, s)) for s in (*shapes[:2], z)]
    text = MODEL.format(x=texts[0], y=texts[1], z=texts[2], product=product)
    m: ModelProto = parser.parse_model(text)
    number = np.full(shapes[2], 3, np.float32)
    m.graph.initializer.append(numpy_helper.from_array(number, "number"))
    return m


@pytest.mark.parametrize("name", CASES)
def test_the_e_graph_takes_numbers_that_enlarge_nothing(name: str) -> None:
    r, product, x, y, number, fires = CASES[name]
    m = model_of(product, x, y, number)
    found = ef.explore(ef.load(m), rules=[r])
    assert (r.name in found.hits) is fires
    if not fires:
        miss = found.why_not(r)
        assert (miss.kind, len(miss.reasons)) == ("guard", 1)
        assert "a number of a left side enlarges nothing" in miss.reasons[0]


@pytest.mark.parametrize("name", CASES)
def test_results_stay(name: str, tmp_path: Path) -> None:
    r, product, x, y, number, _ = CASES[name]
    m = model_of(product, x, y, number)
    rng = np.random.default_rng(0)
    feeds = {n: rng.standard_normal(s).astype(np.float32) for n, s in (("x", x), ("y", y))}
    ef.save(ef.optimize(ef.load(m), rules=[r]).graph, tmp_path / "out.onnx")
    models = (m, str(tmp_path / "out.onnx"))
    results: list[Any] = [ReferenceEvaluator(model).run(None, feeds) for model in models]
    before, after = (outputs[0] for outputs in results)
    np.testing.assert_allclose(after, before, rtol=1e-5)


@pytest.mark.parametrize(
    ("term", "said"),
    [
        (a * 2.0, ["unenlarged((a * 2.0), a)"]),
        (1.0 - ops.exp(a * b), ["unenlarged((1.0 - exp((a * b))), exp((a * b)))"]),
        (where(less(a, b), c, 0.0), ["unenlarged(where(less(a, b), c, 0.0), less(a, b), c)"]),
        (a * (ops.exp(2.0) + 1.0), ["unenlarged((a * (exp(2.0) + 1.0)), a)"]),
        (ops.sqrt(4.0) + 1.0, []),
        (ops.concat(a, 0.0, axis=0), []),
        (a * b, []),
    ],
)
def test_what_rules_have_unsaid(term: Pattern, said: list[str]) -> None:
    assert [str(g) for g in unsaid(term)] == said


def test_what_is_unsaid_may_be_said() -> None:
    spread = rulesets.guards.unenlarged(a + b, a)
    spoken = rule("r", total(a + b), total(b + a), when=[spread])
    assert verify(spoken, max_examples=40, check_guards=False).ok
