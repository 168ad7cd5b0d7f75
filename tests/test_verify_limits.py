"""Time limits that come too soon for a verdict, and numbers that cannot be."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import pytest
import typer
from typer.testing import CliRunner

import egraph_fusion
from egraph_fusion import rulesets
from egraph_fusion.cli import app
from egraph_fusion.errors import EgraphFusionError, RuleError
from egraph_fusion.rulesets import mutation, strategies
from egraph_fusion.rulesets.prove import prove
from egraph_fusion.rulesets.rule import rule
from egraph_fusion.rulesets.verification import verify
from egraph_fusion.rulesets.verify_running import Search
from egraph_fusion.rulesets.verify_search import settings_of

a, b, c = rulesets.tensors("a b c")
ORDER = rule("r", a + b, b + a)


@pytest.mark.parametrize("seconds", [0.0, 0.05, 0.3])
@pytest.mark.parametrize("seed", range(2))
def test_what_is_cut_short_is_undecided(seconds: float, seed: int) -> None:
    products = rule("r", a * c + b * c, (a + b) * c)
    found = verify(products, 10**6, seed, seconds, check_guards=False)
    assert (found.status, found.ok, found.counterexample) == ("undecided", False, None)
    assert found.checked.cut
    assert found.note in ("the time limit came before each setting was tried", "out of time")
    assert "undecided" in str(found)


def test_what_is_stopped_after_each_setting_had_its_turn_is_a_verdict() -> None:
    settings = settings_of(ORDER)[:3]
    late = Search(ORDER, time.monotonic() - 1, shrink=False)
    late.refuted(ORDER, settings, 8, 0)
    assert (late.timed_out, late.cut) == (True, True)
    enough = Search(ORDER, time.monotonic() + 600, shrink=False)
    enough.refuted(ORDER, settings, 8, 0)
    assert (enough.timed_out, enough.cut) == (False, False)
    assert sum(enough.outcomes.values()) >= 8


def test_operators_that_were_not_come_to_leave_a_schema_undecided() -> None:
    schema = next(r for r in rulesets.ALL if r.name == "concat-over-unary")
    found = verify(schema, time_limit=0.5, check_guards=False)
    assert (found.status, found.checked.cut) == ("undecided", True)


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "seed": (lambda: verify(ORDER, seed=-1), "verify: seed is -1; expected 0 or more"),
    "examples": (lambda: verify(ORDER, 0), "max_examples is 0; expected 1 or more"),
    "time limit": (lambda: verify(ORDER, time_limit=float("nan")), "time_limit is nan"),
    "seed of a proof": (lambda: prove(ORDER, -1), "prove: seed is -1"),
    "shapes of a proof": (lambda: prove(ORDER, shapes=0), "prove: shapes is 0"),
    "rank": (lambda: strategies.shapes(-1), "shapes: max_rank is -1"),
    "size": (lambda: strategies.shapes(2, -1), "shapes: max_size is -1"),
    "extent": (lambda: strategies.arrays("float32", (2, -1)), "arrays: shape is"),
    "leaves": (lambda: strategies.terms([a], max_leaves=0), "terms: max_leaves is 0"),
    "seed of environments": (
        lambda: strategies.environments(ORDER, -3),
        "environments: seed is -3",
    ),
    "kind of seed": (lambda: verify(ORDER, seed=0.5), r"seed is 0.5 \(float\); expected int"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", WRONG)
def test_numbers_that_cannot_be_are_refused(name: str) -> None:
    call, words = WRONG[name]
    with pytest.raises(RuleError, match=words):
        call()


@pytest.mark.parametrize("seeds", [(), (-1,), (0, -2), (0.5,)])
def test_seeds_of_a_batch(seeds: Any, tmp_path: Any) -> None:
    with pytest.raises(EgraphFusionError, match="seeds"):
        list(egraph_fusion.batch([str(tmp_path)], tmp_path / "out", seeds=seeds))


@pytest.mark.parametrize(
    "arguments",
    [
        ["rules", "verify", "add-order", "--seed", "-1"],
        ["rules", "verify", "add-order", "--max-examples", "0"],
        ["rules", "verify", "add-order", "--time-limit", "-1"],
        ["rules", "verify", "add-order", "--time-limit", "nan"],
        ["rules", "verify", "add-order", "--jobs", "0"],
        ["batch", ".", "-o", "out", "--seed", "-1"],
        ["batch", ".", "-o", "out", "--timeout", "-1"],
        ["batch", ".", "-o", "out", "--tolerance", "nan"],
        ["optimize", "m.onnx", "-o", "out.onnx", "--opset", "0"],
    ],
    ids=" ".join,
)
def test_options_that_cannot_be_are_wrong_usage(arguments: list[str]) -> None:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert "Invalid value" in result.output


def _options(of: typer.Typer) -> Iterator[tuple[str, Any, Any]]:
    """Yield name, type and declaration of every option of every command."""
    for group in of.registered_groups:
        assert group.typer_instance is not None
        yield from _options(group.typer_instance)
    for command in of.registered_commands:
        assert command.callback is not None
        for name, hint in get_type_hints(command.callback, include_extras=True).items():
            if get_origin(hint) is Annotated:
                kind, declared = get_args(hint)
                yield f"{command.callback.__name__} {name}", kind, declared


NUMBERS = {
    name: declared
    for name, kind, declared in _options(app)
    if {int, float} & {kind, *get_args(kind), *(q for k in get_args(kind) for q in get_args(k))}
}


def test_options_that_are_numbers_are_found() -> None:
    assert len(NUMBERS) > 20
    assert "rules_verify seed" in NUMBERS
    assert "batch seed" in NUMBERS


@pytest.mark.parametrize("name", NUMBERS)
def test_options_that_are_numbers_have_bounds(name: str) -> None:
    assert NUMBERS[name].min is not None


@pytest.mark.parametrize("option", ["--seed", "--count", "--jobs"])
def test_options_of_the_mutation_run(option: str) -> None:
    with pytest.raises(SystemExit) as refused:
        mutation.main([option, "-1"])
    assert refused.value.code == 2
