"""Every witness is a graph that the whole pipeline leaves dearer without the witness's rule."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx.reference import ReferenceEvaluator
from rightness import in_float64
from rule_derivation import derivable
from rule_witness import INSTANCES, Trial

from egraph_fusion import rulesets
from egraph_fusion.frontend import export
from egraph_fusion.ir.graph import Array, Graph
from egraph_fusion.rulesets.rule import Rule

FILES = Path(__file__).parent.parent / "rulesets" / "witnesses"


def _inputs(graph: Graph) -> dict[str, Array]:
    rng = np.random.default_rng(3)
    found: dict[str, Array] = {}
    for v in graph.inputs:
        kind = graph.types[v]
        shape = tuple(d if isinstance(d, int) else 3 for d in kind.shape or ())
        if kind.dtype.is_float:
            values = rng.normal(size=shape)
            found[v] = values if kind.dtype.itemsize == 4 else values.astype(kind.dtype.numpy)
        else:
            found[v] = rng.integers(0, 2, shape).astype(kind.dtype.numpy)
    return found


def _run(model: onnx.ModelProto, inputs: dict[str, Array]) -> list[Array]:
    with np.errstate(all="ignore"):
        return [np.asarray(y) for y in ReferenceEvaluator(in_float64(model)).run(None, inputs)]


def test_every_rule_has_a_witness_and_every_witness_a_rule() -> None:
    assert {f.stem for f in FILES.iterdir()} == {r.name for r in rulesets.ALL}
    assert all(r.witness for r in rulesets.ALL)


@pytest.mark.parametrize("r", rulesets.ALL, ids=lambda r: r.name)
def test_witness_costs_more_without_its_rule(r: Rule) -> None:
    trial = Trial.of(r)
    assert list(trial.problems()) == []
    inputs = _inputs(trial.graph)
    before = _run(onnx.parser.parse_model(r.witness), inputs)
    after = _run(export(trial.with_it.graph), inputs)
    for x, y in zip(before, after, strict=True):
        np.testing.assert_allclose(y, x, rtol=1e-5, atol=1e-6)


def test_only_printed_rules_are_judged_without_one_that_they_follow_from() -> None:
    for name, wider in INSTANCES.items():
        r = rulesets.find(name)
        assert r.source.startswith("DNNFusion")
        assert derivable(r, [rulesets.find(wider)])


def test_a_rule_of_the_users_keeps_its_own_witness() -> None:
    a, b = rulesets.tensors("a b")
    assert rulesets.rule("mine", a + b, b + a, witness="# text").witness == "# text"
