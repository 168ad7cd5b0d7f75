"""Laws read the other way: tried once an e-graph is saturated, where it is small."""

from __future__ import annotations

import numpy as np
import pytest

import egraph_fusion as ef
from egraph_fusion import rulesets
from egraph_fusion.egraph.saturate import APART, EXPANDED
from egraph_fusion.ir.build import GraphBuilder
from egraph_fusion.ir.graph import Graph
from egraph_fusion.ir.tensors import DType, TensorType
from egraph_fusion.rulesets import ops, rule, tensors
from egraph_fusion.rulesets.expansions import EXPANSIONS

DIM = 64
NAMES = [r.name for r in EXPANSIONS if r.expanding]


def _mixed() -> Graph:
    """Return tokens that are mixed, added to what they were and read out: (x + w x) v."""
    b = GraphBuilder("mixed", opset=21)
    sizes = {"x": (DIM, DIM), "w": (DIM, DIM), "v": (DIM, 1)}
    given = {n: b.add_input(n, TensorType(DType.FLOAT32, s)) for n, s in sizes.items()}
    mixed = b.op("Add", given["x"], b.op("MatMul", given["w"], given["x"]))
    b.output(b.op("MatMul", mixed, given["v"]))
    return b.build()


def test_a_product_of_a_sum_is_read_out_term_by_term() -> None:
    together = 2 * DIM**3 + DIM**2 + 2 * DIM**2
    apart = 2 * (2 * DIM**2) + DIM
    done = ef.optimize(_mixed()).report
    assert (done.flops_before, done.flops_after) == (together, apart)
    assert ef.optimize(_mixed(), without=NAMES).report.flops_after == together


def test_the_result_is_right() -> None:
    program = ef.compile(ef.optimize(_mixed()).graph)
    rng = np.random.default_rng(0)
    given = {n: rng.normal(size=(DIM, 1 if n == "v" else DIM)) for n in ("x", "w", "v")}
    (got,) = program.run(None, {n: a.astype(np.float32) for n, a in given.items()})
    x, w, v = given.values()
    np.testing.assert_allclose(got, (x + w @ x) @ v, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("name", NAMES)
def test_it_does_not_count_among_the_149(name: str) -> None:
    law = rulesets.find(name)
    assert law.expanding
    assert law.name not in {r.name for r in rulesets.ALL}


def test_a_large_graph_is_left_as_it_is() -> None:
    a, b, c = (ef.tensor(n, (4,)) for n in "abc")
    expression = a * (b + c)
    apart = a * b + a * c
    assert ef.explore(expression).contains(apart)
    for _ in range(EXPANDED):
        expression = ops.tanh(expression)
    assert not ef.explore(expression).contains(apart)


def test_rules_of_ones_own_can_expand() -> None:
    x, y = tensors("x y")
    split = rule("exp-of-sum", ops.exp(x + y), ops.exp(x) * ops.exp(y), expanding=True)
    a, b = (ef.tensor(n, (4,)) for n in "ab")
    found = ef.explore(ops.exp(a + b), rules=[split])
    assert found.contains(ops.exp(a) * ops.exp(b))
    assert found.stop_reason == "saturated"


def test_products_of_sums_stay_bounded() -> None:
    product = ef.tensor("x0", (4,)) + ef.tensor("y0", (4,))
    for k in range(1, 8):
        product = product * (ef.tensor(f"x{k}", (4,)) + ef.tensor(f"y{k}", (4,)))
    found = ef.explore(product)
    assert found.stop_reason == "saturated"
    assert found.growth[-1] < 10 * EXPANDED


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_terms_that_cancel_stay_bounded(dtype: str) -> None:
    total = ef.tensor("x", (3, 4), dtype) + ef.tensor("z", (3, 4), dtype)
    found = ef.explore(total * ef.constant("minus", -1.0, dtype) + total)
    assert found.stop_reason == "saturated"
    assert max(found.growth) < 2 * APART
    assert found.extract().cost == 12
