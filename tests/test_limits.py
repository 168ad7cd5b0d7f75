"""Limits of runs: none at all, negative ones and what is no number; in Python and in commands."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_models import dense, saved
from typer.main import get_command
from typer.testing import CliRunner

import egraph_fusion
from egraph_fusion import rulesets
from egraph_fusion.cli import app
from egraph_fusion.experiment.expressions import graph_of
from egraph_fusion.rulesets import ops

# Type checkers would refuse some of these calls as well.
ef: Any = egraph_fusion
X = ef.tensor("x", (4, 6))
SUM = ops.neg(-X) * 2.0 + X
GRAPH = graph_of([SUM]).graph
a, b = rulesets.tensors("a b")
RULE = rulesets.rule("twice-negated", ops.neg(-a), a)
verify: Any = rulesets.verify
explored: Any = ef.explore(SUM, rules=["neg-neg"])

RUNS: dict[str, Callable[..., Any]] = {
    "explore": partial(ef.explore, SUM, rules=["neg-neg"]),
    "optimize": partial(ef.optimize, GRAPH, ["neg-neg"]),
    "compare_rulesets": partial(ef.compare_rulesets, {"one": ["neg-neg"]}, GRAPH),
}
LEAST: dict[str, float] = {"time_limit": 0, "node_limit": 1, "iter_limit": 0}
CALLS: list[tuple[str, str, Callable[..., Any], float]] = [
    *((f, name, run, n) for f, run in RUNS.items() for name, n in LEAST.items()),
    ("verify", "max_examples", partial(verify, RULE), 1),
    ("verify", "least", partial(verify, RULE), 1),
    ("verify", "time_limit", partial(verify, RULE), 0),
    ("extract", "time_limit", explored.extract, 0),
    ("why", "time_limit", partial(explored.why, SUM, X * 2.0 + X), 0),
]
IDS = [f"{function} {name}" for function, name, _, _ in CALLS]


@pytest.mark.parametrize(("function", "name", "call", "least"), CALLS, ids=IDS)
def test_a_limit_that_cannot_be_is_named(
    function: str, name: str, call: Callable[..., Any], least: float
) -> None:
    too_few = (least - 1, -(2**70), *([math.nan, -math.inf] if name == "time_limit" else []))
    for value in too_few:
        with pytest.raises(
            ef.EgraphFusionError, match=f"{function}: {name} is .*; expected {least} or"
        ):
            call(**{name: value})
    for other in (True, "3", [3], *([] if name == "time_limit" else [2.5, math.nan, math.inf])):
        with pytest.raises(ef.EgraphFusionError, match=rf"{function}: {name} is .*\); expected"):
            call(**{name: other})


@pytest.mark.parametrize(("function", "name", "call", "least"), CALLS, ids=IDS)
def test_numpy_numbers_and_ones_beyond_every_clock_are_taken(
    function: str, name: str, call: Callable[..., Any], least: float
) -> None:
    del function, least
    assert call(**{name: np.int64(5)})
    if name in LEAST:
        assert call(**{name: 2**70})
    if name == "time_limit":
        assert call(time_limit=math.inf)
        assert call(time_limit=10**400)
        assert call(time_limit=np.float32(20))


def test_a_seed_is_an_integer() -> None:
    with pytest.raises(ef.RuleError, match="verify: seed is nan"):
        verify(RULE, seed=math.nan)
    assert verify(RULE, seed=np.int64(3), max_examples=5).ok


def test_no_iteration_leaves_the_input_as_it_is() -> None:
    found = ef.explore(SUM, iter_limit=0)
    assert (found.iterations, found.stop_reason, found.growth) == (0, "iterations", ())
    assert found.hits == {}
    assert not found.saturated
    best = found.extract()
    assert (str(best.expression), best.uses) == (str(SUM), {})
    optimized = ef.optimize(GRAPH, iter_limit=0)
    assert optimized.graph.nodes == GRAPH.nodes
    assert (optimized.report.iterations, optimized.report.rule_hits) == (0, {})
    (row,) = ef.compare_rulesets({"all": None}, GRAPH, iter_limit=0).rows
    assert (row.flops, row.nodes) == (row.flops_before, row.nodes_before)


def test_every_phase_has_the_iterations_that_are_left_to_it() -> None:
    simplified = ef.explore(ops.neg(ops.neg(ops.neg(-X))) + X, rules=["neg-neg"], iter_limit=1)
    assert simplified.iterations <= 2  # rules that only simplify may take twice as many
    grown = ef.explore(SUM, rules=["add-order", "neg-neg"], iter_limit=1)
    assert grown.iterations <= 3


def test_no_time_is_told_by_the_name_of_the_limit() -> None:
    with pytest.raises(ef.OptimizeError, match="by its time_limit of 0 s before its first"):
        ef.explore(SUM, time_limit=0)
    report = ef.optimize(GRAPH, time_limit=0).report
    assert (report.stop_reason, report.ops_after) == ("time", report.ops_before)
    assert verify(RULE, time_limit=0).note == "out of time"


COMMANDS: dict[tuple[str, ...], list[str]] = {
    ("optimize",): ["-o", "out.onnx"],
    ("explore",): [],
    ("rules", "compare"): [],
    ("rules", "verify"): [],
    ("batch",): ["-o", "out"],
}


def limits() -> Iterator[tuple[tuple[str, ...], str, float]]:
    """Yield command, option and least value of every option that limits a run."""
    known = {"--time-limit": 0, "--node-limit": 1, "--iter-limit": 0, "--max-examples": 1}
    for path in COMMANDS:
        command: Any = get_command(app)
        for part in path:
            command = command.commands[part]
        for parameter in command.params:
            for option in set(parameter.opts) & set(known):
                yield path, option, known[option]


FOUND = sorted(limits())


def test_every_command_with_a_limit_is_tried() -> None:
    assert len(FOUND) == 4 * 3 + 2


@pytest.mark.parametrize(("path", "option", "least"), FOUND, ids=lambda v: str(v))
def test_an_impossible_limit_is_wrong_usage(
    path: tuple[str, ...],
    option: str,
    least: float,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    model = [] if path == ("rules", "verify") else [str(saved(dense(), tmp_path / "m.onnx"))]
    for value in (str(least - 1), "nan", "many"):
        arguments = [*path, *model, *COMMANDS[path], option, value]
        result = CliRunner().invoke(app, arguments, env={"COLUMNS": "300"})
        assert result.exit_code == 2, (value, result.output)
        assert f"Invalid value for '{option}'" in " ".join(result.stderr.split())
        assert {p.name for p in tmp_path.iterdir()} <= {"m.onnx"}
