"""`rules verify` and rule files: verdicts as text, JSON and JUnit; errors name the line."""

from __future__ import annotations

import contextlib
import io
import json
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from egraph_fusion import rulesets
from egraph_fusion.cli import app
from egraph_fusion.convert.executors.local import LocalProcesses
from egraph_fusion.convert.verification import verify_on
from egraph_fusion.errors import RuleError
from egraph_fusion.rulesets.rule_files import rules_in_file
from egraph_fusion.rulesets.verify_report import Row, named_rules, verify_all

RULES = """
from egraph_fusion import rulesets
a, b = rulesets.tensors("a b")
right = rulesets.rule("right", a * b, b * a)
wrong = [rulesets.rule("wrong", a - b, b - a)]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "my_rules.py"
    path.write_text(RULES)
    return path


def _run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["rules", "verify", *map(str, arguments)])
    return result.exit_code, result.output


def test_right_rules_give_exit_code_0() -> None:
    code, text = _run("add-order", "neg-neg", "--max-examples", 10)
    assert code == 0
    assert "2 rules, 2 ok, 0 wrong" in text


def test_a_wrong_rule_gives_exit_code_1_and_a_snippet(file: Path) -> None:
    code, text = _run(file, "--max-examples", 10)
    assert code == 1
    assert "wrong wrong" in text
    assert "a = np.array([" in text


def test_json_holds_every_verdict(file: Path) -> None:
    code, text = _run(file, "add-order", "--max-examples", 10, "--json")
    data = json.loads(text)
    assert code == 1
    assert [r["status"] for r in data["results"]] == ["ok", "wrong", "ok"]
    assert not data["all_ok"]


def test_junit_has_a_case_for_each_rule(file: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    _run(file, "--max-examples", 10, "--junit", report)
    suite = ElementTree.parse(report).getroot()
    assert [c.get("name") for c in suite] == ["right", "wrong"]
    assert suite.get("failures") == "1"
    assert [len(c.findall("failure")) for c in suite] == [0, 1]


def test_unknown_names_are_refused() -> None:
    code, text = _run("no-such-rule")
    assert code == 2
    assert "no rule is called 'no-such-rule'" in text


def _without_seconds(rows: list[Row]) -> list[tuple[str, str, str]]:
    return [(r.name, r.status, r.detail) for r in rows]


def test_verdicts_do_not_depend_on_who_computes_them(file: Path) -> None:
    alone = list(verify_all(rules_in_file(file), max_examples=10))
    processes = LocalProcesses(2)
    try:
        shared = list(verify_on(processes, [str(file)], max_examples=10))
    finally:
        processes.close()
    assert len(alone) > 1
    assert _without_seconds(alone) == _without_seconds(shared)


def test_no_name_stands_for_all_rules() -> None:
    assert named_rules([]) == rulesets.default_rules()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\n\ny = x / 0\n", r"my_rules.py:3: ZeroDivisionError"),
        ("x = 1\ny = (\n", r"my_rules.py:2: "),
        ("import sys\nsys.exit(3)\n", r"my_rules.py:2: SystemExit"),
        ("x = 1\n", r"defines no rule"),
        ("from no_such_module import x\n", r"my_rules.py:1: ModuleNotFoundError"),
        (f"{RULES}\nbad = rulesets.rule('bad', a + 1.0, b)\n", r":7: .*uses b"),
        (f"{RULES}\ntwice = rulesets.rule('right', a + b, b + a)\n", r"two rules called 'right'"),
    ],
)  # fmt: skip
def test_errors_of_rule_files_name_the_line(file: Path, text: str, message: str) -> None:
    file.write_text(text)
    with pytest.raises(RuleError, match=message):
        rules_in_file(file)


def test_a_file_that_loops_is_stopped(file: Path) -> None:
    file.write_text("x = 1\nwhile True:\n    x += 1\n")
    with pytest.raises(RuleError, match=r"my_rules.py:[23]: still running after 0.2 s"):
        rules_in_file(file, time_limit=0.2)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(RuleError, match=r"none.py: there is no such file"):
        rules_in_file(tmp_path / "none.py")


def test_the_snippets_of_the_page_run(tmp_path: Path) -> None:
    page = Path(__file__).parent.parent / "docs" / "verification.md"
    first, own = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(first, {})
    assert "undefined" in printed.getvalue()
    mine = tmp_path / "test_my_rules.py"
    mine.write_text(own)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(mine)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stdout
