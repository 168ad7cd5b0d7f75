"""Growth is bounded: rude graphs end by counts, not by the clock, and more rules never hurt."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator
from rude_graphs import RUDE, rude
from test_real_models import materialized

from egraph_fusion import frontend
from egraph_fusion.egraph import budgets, session
from egraph_fusion.egraph.saturate import Limits, saturate
from egraph_fusion.egraph.session import Worker
from egraph_fusion.frontend.example_models import EXAMPLES, example_path, materialize
from egraph_fusion.ir.build import GraphBuilder
from egraph_fusion.ir.graph import Array, Graph
from egraph_fusion.ir.tensors import DType, TensorType
from egraph_fusion.optimizer import Optimized, optimize
from egraph_fusion.rulesets import ops, rule, tensors

ROOT = Path(__file__).parent.parent
a, b = tensors("a b")
EXPLODING = rule("inflate", a + b, (ops.exp(a) + b) + (a - ops.exp(a)))
"""Right over the reals, and it makes two sums out of one, each new."""
SHRINKING = rule("undo", ops.neg(ops.neg(a)), a)


@pytest.fixture(scope="module")
def growth() -> ModuleType:
    """The benchmark that measures growth."""
    spec = importlib.util.spec_from_file_location("growth", ROOT / "benchmarks" / "growth.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _run(graph: Graph) -> list[Array]:
    rng = np.random.default_rng(0)
    shapes = {v: graph.types[v].static_shape for v in graph.inputs}
    feeds = {v: rng.uniform(0.5, 1.0, s or ()).astype(np.float32) for v, s in shapes.items()}
    with np.errstate(all="ignore"):
        found: Any = ReferenceEvaluator(frontend.export(graph)).run(None, feeds)
    return [np.asarray(r) for r in found]


def _check(graph: Graph, done: Optimized) -> None:
    assert done.report.flops_after <= done.report.flops_before
    assert done.report.ops_after <= done.report.ops_before
    for before, after in zip(_run(graph), _run(done.graph), strict=True):
        finite = np.isfinite(before)
        np.testing.assert_allclose(after[finite], before[finite], rtol=1e-3)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", RUDE)
def test_a_rude_graph_ends_by_counts(name: str) -> None:
    graph = rude(name)
    done = optimize(graph, time_limit=250)
    assert done.report.stop_reason in ("saturated", "iterations", "nodes", "matches")
    assert done.report.enodes < 40_000  # 10,000 and one step more
    assert not done.report.notes
    _check(graph, done)


def test_a_chain_of_doublings_becomes_a_product() -> None:
    assert optimize(rude("doubled sums")).report.flops_after <= 4 * 64


def test_a_chain_of_constants_becomes_one() -> None:
    report = optimize(rude("sum of scalars")).report
    assert report.ops_after == 1
    assert report.rule_uses.keys() <= {"add-constants", "add-constants-past"}


@pytest.mark.parametrize("name", ["long sum", "matrix squares", "powers"])
def test_budgets_are_deterministic(name: str) -> None:
    first, second = (optimize(rude(name), time_limit=250) for _ in range(2))
    assert first.graph.nodes == second.graph.nodes
    assert first.report.growth == second.report.growth


@pytest.mark.parametrize("name", EXAMPLES)
def test_more_rules_never_hurt_the_examples(name: str, growth: ModuleType) -> None:
    runs = growth.compared(frontend.load(materialize(example_path(name))))
    assert list(growth.complaints(name, runs)) == []


@pytest.mark.parametrize("name", ["residual", "tower", "shared factor", "sum of scalars"])
def test_more_rules_never_hurt_a_rude_graph(name: str, growth: ModuleType) -> None:
    assert list(growth.complaints(name, growth.compared(rude(name)))) == []


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["bert-base", "gpt2"])
def test_real_models_grow_little_and_more_rules_never_hurt(
    name: str, growth: ModuleType, shared_models: Path, tmp_path: Path
) -> None:
    runs = growth.compared(frontend.load(materialized(shared_models, name, tmp_path)))
    assert list(growth.complaints(name, runs)) == []
    assert runs["all"]["stop_reason"] != "time"
    assert runs["all"]["memory"] < 4 << 30


def test_an_exploding_rule_stops_at_the_limit_with_the_best_so_far() -> None:
    graph = _negated_sum()
    rules = [EXPLODING, SHRINKING]
    done = optimize(graph, rules=rules, verify=False, time_limit=250)
    assert done.report.stop_reason in ("nodes", "matches")
    assert "undo" in done.report.rule_uses
    assert not done.report.notes
    _check(graph, done)


def _negated_sum() -> Graph:
    """A long sum of values that are negated twice."""
    builder = GraphBuilder("negated", opset=21)
    kind = TensorType(DType.FLOAT32, (4, 8))
    total = builder.add_input("x", kind)
    for i in range(60):
        y = builder.op("Neg", builder.op("Neg", builder.add_input(f"y{i}", kind)))
        total = builder.op("Add", total, y)
    builder.output(total)
    return builder.build()


def _without_budgets(monkeypatch: pytest.MonkeyPatch) -> Limits:
    monkeypatch.setattr(budgets, "MATCH_LIMIT", 10**9)
    monkeypatch.setattr(budgets, "LEAST_MATCHES", 10**9)
    return Limits(nodes=10**9, iterations=50, seconds=250, growth=10**9)


@pytest.mark.timeout(300)
def test_the_memory_limit_ends_the_worker_and_the_best_so_far_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits = _without_budgets(monkeypatch)
    session.stop()
    monkeypatch.setattr(session, "MEMORY_LIMIT", 200 << 20)
    try:
        result = saturate(rude("long sum"), [EXPLODING], limits=limits)
    finally:
        session.stop()
    assert result.stop_reason == "memory"
    assert "0.2 GiB" in result.note
    assert result.memory < 200 << 20
    assert len(result.states) > 1


def _killed_after(requests: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kill the worker once it has answered this many requests."""
    ask, count = Worker.ask, iter(range(requests))

    def counted(self: Worker, request: dict[str, Any], deadline: float) -> dict[str, Any]:
        if next(count, None) is None:
            self.process.kill()
        return ask(self, request, deadline)

    monkeypatch.setattr(Worker, "ask", counted)


def test_a_killed_worker_leaves_the_best_so_far_and_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = _negated_sum()
    whole = optimize(graph)
    requests: list[object] = []
    ask = Worker.ask

    def counted(self: Worker, request: dict[str, Any], deadline: float) -> dict[str, Any]:
        requests.append(request)
        return ask(self, request, deadline)

    with monkeypatch.context() as m:
        m.setattr(Worker, "ask", counted)
        optimize(graph)
    with monkeypatch.context() as m:
        _killed_after(len(requests) - 1, m)
        done = optimize(graph)
    assert done.report.stop_reason == "crash"
    assert done.report.notes == ["the e-graph worker was ended by signal 9"]
    assert done.report.flops_after == whole.report.flops_after < done.report.flops_before
    _check(graph, done)


def test_a_worker_killed_at_once_leaves_the_graph_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph = _negated_sum()
    session.worker()
    with monkeypatch.context() as m:
        _killed_after(0, m)
        done = optimize(graph)
    assert done.graph.nodes == graph.nodes
    assert done.report.stop_reason == "crash"
    assert done.report.notes
    assert optimize(graph).report.stop_reason != "crash"


def test_the_clock_is_a_safety_net_that_says_so() -> None:
    graph = rude("long sum")
    done = optimize(graph, time_limit=0.05)
    assert done.report.stop_reason == "time"
    assert done.report.notes
    _check(graph, done)
