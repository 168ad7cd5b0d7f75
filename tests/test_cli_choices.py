"""Options with a few possible values: any other is wrong usage, and the message lists them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from small_models import dense, saved
from typer.main import get_command
from typer.testing import CliRunner

from egraph_fusion.cli import app
from egraph_fusion.extract import EXTRACTORS
from egraph_fusion.rulesets.rule import LEVELS
from egraph_fusion.runtime.targets import TARGETS

CHOICES = {
    "--numerics": LEVELS,
    "--extractor": tuple(EXTRACTORS),
    "--planner": ("extended", "dnnfusion"),
    "--against": ("onnxruntime",),
    "--target": tuple(TARGETS),
}
OF_BATCH = {"--target": ("onnx", "onnx-functions", "c"), "--fallback": ("copy",)}


def options(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str, Any]]:
    """Yield command, option and parameter of every option that the tables know."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from options(command, (*path, name))
            continue
        known = CHOICES | (OF_BATCH if name == "batch" else {})
        for parameter in command.params:
            for option in parameter.opts:
                if option in known:
                    yield (*path, name), option, (command, parameter, known[option])


FOUND = list(options(get_command(app)))
IDS = [" ".join((*path, option)) for path, option, _ in FOUND]


def test_every_table_belongs_to_an_option() -> None:
    assert {option for _, option, _ in FOUND} == {*CHOICES, *OF_BATCH}
    assert len(FOUND) >= 14


@pytest.mark.parametrize(("path", "option", "found"), FOUND, ids=IDS)
def test_an_unknown_choice_is_wrong_usage_and_brings_the_choices(
    path: tuple[str, ...],
    option: str,
    found: tuple[Any, Any, tuple[str, ...]],
    tmp_path: Path,
) -> None:
    command, _, choices = found
    output = [str(tmp_path / "o")] if any("-o" in p.opts for p in command.params) else []
    arguments = [*path, "m.onnx", *(["-o", *output] if output else []), option, "foo"]
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "300"})
    assert result.exit_code == 2
    text = " ".join(result.stderr.split())
    assert f"Invalid value for '{option}'" in text
    _, _, shown = text.partition("'foo' is not one of ")
    assert tuple(re.findall("'([^']+)'", shown)) == choices


NAMES: list[list[str]] = [
    ["rules", "show", "mul-ordr"],
    ["rules", "verify", "mul-ordr"],
    ["rules", "verify", "mul-ordr", "--jobs", "2"],
    ["optimize", "m.onnx", "-o", "out.onnx", "--without", "mul-ordr"],
    ["explore", "m.onnx", "--without", "mul-ordr"],
    ["explore", "m.onnx", "--why-not", "mul-ordr"],
    ["batch", "m.onnx", "-o", "out", "--without", "mul-ordr"],
    ["explore", "m.onnx", "--rules", "structral"],
    ["rules", "compare", "m.onnx", "--rules", "structral"],
]


@pytest.mark.parametrize("arguments", NAMES, ids=" ".join)
def test_a_wrong_name_of_a_rule_or_rule_set_is_wrong_usage_and_brings_a_right_one(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    saved(dense(), tmp_path / "m.onnx")
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "300"})
    assert result.exit_code == 2, result.output
    wanted = "structural" if "structral" in arguments else "mul-order"
    assert f"did you mean {wanted}" in " ".join(result.stderr.split())
    assert result.stdout == ""
    assert [p.name for p in tmp_path.iterdir()] == ["m.onnx"]


def test_a_missing_rule_file_is_no_wrong_usage(tmp_path: Path) -> None:
    model = str(saved(dense(), tmp_path / "m.onnx"))
    result = CliRunner().invoke(app, ["explore", model, "--rules", "none.py"])
    assert result.exit_code == 1
    assert "none.py: there is no such file" in result.stderr
