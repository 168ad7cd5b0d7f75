"""Input files are never changed: no output takes the place of a file that its command reads."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from small_models import dense, dense_inputs, saved
from typer.testing import CliRunner

import egraph_fusion as ef
from egraph_fusion.cli import app

RULES = """
from egraph_fusion.rulesets import ops, rule, tensors
a, b = tensors("a b")
RULES = [rule("own-order", a + b, b + a)]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with every kind of input: models, data beside one, arrays, rules, links."""
    monkeypatch.chdir(tmp_path)
    saved(dense(), tmp_path / "m.onnx")
    saved(dense(), tmp_path / "plain")
    onnx.save_model(
        dense(), "apart.onnx", save_as_external_data=True, location="w.data", size_threshold=0
    )
    np.savez("x.npz", x=dense_inputs()["x"])
    (tmp_path / "rules.py").write_text(RULES)
    ef.compile("m.onnx").save("m.efz")
    os.symlink("m.onnx", "link.onnx")
    os.link("m.onnx", "hard.onnx")
    (tmp_path / "sub").mkdir()
    saved(dense(), tmp_path / "sub" / "s.onnx")
    return tmp_path


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.mark.parametrize(
    "line",
    [
        "optimize m.onnx -o m.onnx",
        "optimize m.onnx -o sub/../m.onnx",
        "optimize m.onnx -o link.onnx",
        "optimize link.onnx -o m.onnx",
        "optimize m.onnx -o hard.onnx",
        "optimize plain -o plain",
        "optimize apart.onnx -o w.data",
        "optimize apart.onnx -o w",
        "optimize m.onnx --rules rules.py -o rules.py",
        "compile m.onnx -o m.onnx",
        "compile apart.onnx -o w.data",
        "run m.onnx --output m.onnx",
        "run m.efz --output m.efz",
        "run m.onnx --input x.npz --output x.npz",
        "report m.onnx --no-measure -o m.onnx",
        "explore m.onnx --html m.onnx",
        "explore m.onnx --rules rules.py --html rules.py",
        "rules compare m.onnx --csv m.onnx",
        "rules compare sub --markdown sub/s.onnx",
        "rules verify rules.py --junit rules.py",
    ],
)
def test_an_output_in_the_place_of_an_input_is_refused(line: str, folder: Path) -> None:
    before = contents(folder)
    done = CliRunner().invoke(app, line.split())
    assert done.exit_code == 1, done.output
    assert "this command reads it, and inputs are never changed" in done.stderr
    assert contents(folder) == before


def test_the_function_for_reports_refuses_it_too(folder: Path) -> None:
    with pytest.raises(ef.ModelError, match=r"m\.onnx cannot be written: this command reads it"):
        ef.report("m.onnx", "link.onnx", measure=False)


def test_an_older_output_is_replaced(folder: Path) -> None:
    for _ in range(2):
        done = CliRunner().invoke(app, ["optimize", "m.onnx", "-o", "o.onnx"])
        assert done.exit_code == 0, done.output
    assert CliRunner().invoke(app, ["optimize", "apart.onnx", "-o", "o.onnx"]).exit_code == 0
