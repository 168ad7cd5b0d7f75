"""Sums of linear maps that share an operand become one map, whatever form exports give them."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest
from onnx.reference import ReferenceEvaluator

from egraph_fusion.frontend import export, load
from egraph_fusion.optimizer import optimize

KNOWN = """float[4] b = {1.0, -2.0, 0.5, 3.0}, float[4] c = {0.25, 1.0, -1.0, 2.0},
float[4,2] known = {1.0, 2.0, -1.0, 0.0, 3.0, 1.0, 2.0, -2.0}"""
SUMS = {
    "gemm, shared operand": (
        "(float[8,4] x, float[4,4] w, float[4,4] v) => (float[8,4] z)",
        "p = Gemm(x, w, b) q = Gemm(x, v, c)",
    ),
    "gemm, shared weights": (
        "(float[8,2] x, float[8,2] y) => (float[8,4] z)",
        "p = Gemm<transB = 1>(x, known, b) q = Gemm<transB = 1>(y, known, c)",
    ),
    "conv, shared operand": (
        "(float[1,2,6,6] x, float[4,2,3,3] w, float[4,2,3,3] v) => (float[1,4,4,4] z)",
        "p = Conv(x, w, b) q = Conv(x, v, c)",
    ),
    "conv, unlike kernels": (
        "(float[1,2,6,6] x, float[4,2,3,3] w, float[4,2,1,1] v) => (float[1,4,6,6] z)",
        "p = Conv<pads = [1, 1, 1, 1]>(x, w, b) q = Conv(x, v, c)",
    ),
    "conv, shared weights": (
        "(float[1,2,6,6] x, float[1,2,6,6] y, float[4,2,3,3] w) => (float[1,4,4,4] z)",
        "p = Conv(x, w, b) q = Conv(y, w, c)",
    ),
}


@pytest.mark.parametrize("name", SUMS)
def test_a_sum_of_two_contractions_with_biases_is_one_contraction(name: str) -> None:
    signature, body = SUMS[name]
    head = f'<ir_version: 8, opset_import: ["" : 18]> sum {signature} <{KNOWN}>'
    model = onnx.parser.parse_model(f"{head} {{ {body} z = Add(p, q) }}")
    graph = load(model)
    found = optimize(graph)
    assert sum(n.op in ("Gemm", "MatMul", "Conv") for n in found.graph.nodes) == 1
    assert found.report.flops_after < found.report.flops_before
    rng = np.random.default_rng(5)
    given = {v: rng.integers(-4, 5, graph.types[v].static_shape) for v in graph.inputs}
    inputs = {v: a.astype(np.float32) for v, a in given.items()}
    (before,) = ReferenceEvaluator(model).run(None, inputs)
    (after,) = ReferenceEvaluator(export(found.graph)).run(None, inputs)
    np.testing.assert_array_equal(np.asarray(after), np.asarray(before))
