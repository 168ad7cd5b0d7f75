"""The pages of docs/ agree with the tables and the tree."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from small_models import fresh
from typer.main import get_command

from egraph_fusion.cli import app, rules_app

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


def test_generated_pages_are_current() -> None:
    command = [sys.executable, str(ROOT / "docs" / "generate.py"), "--check"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#:]+)\)", page.read_text())
    assert [t for t in targets if not (page.parent / t).exists()] == []


def test_snippets_of_the_python_page_run(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "python_api.md").read_text()
    code = "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
    done = fresh([sys.executable, "-W", "error", "-c", code], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    names = {"optimized.onnx", "fused.onnx", "model.efz", "sources", "report.html"}
    assert {p.name for p in tmp_path.iterdir()} == names


def test_snippets_of_the_tutorial_run(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "tutorial.md").read_text()
    code = "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
    done = fresh([sys.executable, "-W", "error", "-c", code], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert {p.name for p in tmp_path.iterdir()} == {"squeezenet.html", "table.md", "my_rules.py"}


def test_the_readme_example_runs(tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    prepare = (
        "from egraph_fusion.frontend.example_models import *\n"
        "m = materialize(example_path('squeezenet1.1'))\n"
        "open('model.onnx', 'wb').write(m.SerializeToString())\n"
        "image = example_inputs(m)['input']\n"
    )
    done = fresh([sys.executable, "-W", "error", "-c", prepare + code], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "fusion blocks" in done.stdout


def test_the_readme_names_commands_that_exist() -> None:
    text = (ROOT / "README.md").read_text()
    named = re.findall(r"`egraph-fusion ([a-z]+)", text)
    assert named
    page = (ROOT / "docs" / "cli.md").read_text()
    assert [n for n in named if f"`egraph-fusion {n}" not in page] == []


def test_the_page_of_commands_has_every_option_also_of_the_program_itself() -> None:
    page = (ROOT / "docs" / "cli.md").read_text()
    for command in (app, rules_app):
        group: Any = get_command(command)
        for one in (group, *group.commands.values()):
            missing = [p.opts[0] for p in one.params if f"`{p.opts[0]}`" not in page]
            assert [o for o in missing if o.startswith("-") and o != "--help"] == []
