"""Options with a few possible values: any other is wrong usage, and the message lists them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
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
