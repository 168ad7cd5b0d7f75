"""Rules from a user's file: read in a process of its own, verified before use, errors by line."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest
from small_models import dense, fresh, saved
from typer.testing import CliRunner

import egraph_fusion as ef
from egraph_fusion import rulesets
from egraph_fusion.cli import app
from egraph_fusion.experiment.expressions import graph_of
from egraph_fusion.rulesets import ops, rule_files
from egraph_fusion.rulesets.rule_files import rules_in_file

HEAD = """from egraph_fusion import rulesets
from egraph_fusion.rulesets import guards, ops
a, b, c = rulesets.tensors("a b c")
"""
GOOD = f"{HEAD}factor = rulesets.rule('factor', a * c + b * c, (a + b) * c)\n"
WRONG = f"{HEAD}wrong = rulesets.rule('wrong', a * c + b * c, a * (b + c))\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "my_rules.py"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    a, b, c = (ef.tensor(n, (2, 3)) for n in "abc")
    ef.save(graph_of([a * c + b * c]).graph, tmp_path / "sum.onnx")
    return tmp_path / "sum.onnx"


def test_rules_come_back_equal_to_what_the_file_says(file: Path) -> None:
    file.write_text(f"{GOOD}more = [rulesets.find('add-order'), (1, 2)]\n")
    a, b, c = rulesets.tensors("a b c")
    mine = rulesets.rule("factor", a * c + b * c, (a + b) * c)
    assert rules_in_file(file) == (mine, rulesets.find("add-order"))


MALFORMED = [
    ("rulesets.rule('r', a + 1.0, b)", "rule 'r': .*uses b, which the left side does not bind"),
    ("rulesets.rule('r', ops.sqrt(a, b), a)", "rule 'r': Sqrt takes 1 to 1 operands, got 2"),
    (
        "rulesets.rule('r', ops.square_root(a), a)",
        "RuleError: rule 'r': no operator is called 'square_root'",
    ),
    ("rulesets.rule('r', a * b, b * a, [guards.nonneg(c)])", r"rule 'r': guard nonneg\(c\): c is"),
    (
        "rulesets.rule('r', a * b, b * a, [guards.nonneg()])",
        "rule 'r': guard nonneg takes 1 arguments, got 0",
    ),
    ("rulesets.rule('r', a * b, b * a, level='sure')", "rule 'r': level 'sure' is none of exact"),
    ("rulesets.rule('r', ops.relu(a, axis=1), a)", "rule 'r': Relu has no attribute 'axis'"),
    ("raise ValueError('my own')", "ValueError: my own"),
    ("import sys; sys.exit('no')", "SystemExit: no"),
    ("x = bytearray(1 << 40)", "takes more than 4 GiB of memory"),
    ("def f(n): return f(n + 1)\nf(0)", "RecursionError"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "message"), MALFORMED)
def test_an_error_names_the_file_the_line_and_the_rule(file: Path, line: str, message: str) -> None:
    file.write_text(f"{HEAD}\n{line}\n")
    place = 5 if "def f" in line else 5 + line.count("\n")
    with pytest.raises(ef.RuleError, match=rf"my_rules.py:{place}: .*{message}"):
        rules_in_file(file)


NAMES = [
    ("good = rulesets.rule('g', a * b, b * a); ops.root(a)", ""),
    ("for name in ('r', 's'):\n    rulesets.rule(name, ops.root(a), a)", ""),
    ("rulesets.rule(lhs=ops.root(a), name='r', rhs=a)", "rule 'r': "),
    ("x = [rulesets.rule('r', a * b, b * a), rulesets.rule('s', ops.root(a), a)]", "rule 's': "),
    (
        "from egraph_fusion.rulesets import rule as rule\ndef f(x): return ops.root(x)\n"
        "rule('r', f(rulesets.rule('s', a * b, b * a).lhs), a)",
        "rule 'r': ",
    ),
]


@pytest.mark.parametrize(("text", "rule"), NAMES)
def test_an_error_names_the_rule_that_was_being_made_if_one_was(
    file: Path, text: str, rule: str
) -> None:
    file.write_text(f"{HEAD}\n{text}\n")
    with pytest.raises(ef.RuleError, match=rf"py:\d+: RuleError: {rule}no operator is called"):
        rules_in_file(file)


def test_a_folder_is_no_rule_file(tmp_path: Path) -> None:
    (tmp_path / "rules.py").mkdir()
    with pytest.raises(ef.RuleError, match=r"rules.py: it is a folder"):
        rules_in_file(tmp_path / "rules.py")


LOOPS = [
    "while True:\n    pass\n",
    "while True:\n    try:\n        x = 1\n    except BaseException:\n        pass\n",
    "import time\ntime.sleep(60)\n",
]


@pytest.mark.parametrize("text", LOOPS)
def test_a_loop_is_stopped_whatever_it_catches(file: Path, text: str) -> None:
    file.write_text(text)
    with pytest.raises(ef.RuleError, match=r"my_rules.py:[1-5]: still running after 0.3 s"):
        rules_in_file(file, time_limit=0.3)


def test_a_loop_in_native_code_is_stopped_too(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rule_files, "GRACE", 3.0)
    file.write_text("sum(range(10 ** 12))\n")
    with pytest.raises(ef.RuleError, match=r"my_rules.py: still running after 0.2 s"):
        rules_in_file(file, time_limit=0.2)


def test_a_file_that_ends_its_process_ends_only_that(file: Path) -> None:
    file.write_text("import os\nos._exit(7)\n")
    with pytest.raises(ef.RuleError, match="ended with exit code 7"):
        rules_in_file(file)


def test_what_a_file_starts_ends_with_it(file: Path, tmp_path: Path) -> None:
    marker = tmp_path / "alive"
    code = f"import time; time.sleep(2); open({str(marker)!r}, 'w')"
    file.write_text(
        f"import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', {code!r}])\n{GOOD}"
    )
    assert len(rules_in_file(file)) == 1
    done = subprocess.run([sys.executable, "-c", "import time; time.sleep(3)"], check=False)
    assert done.returncode == 0
    assert not marker.exists()


def test_a_file_cannot_change_this_process(file: Path) -> None:
    file.write_text(f"{GOOD}rulesets.ALL = ()\nprint('said', flush=True)\n")
    assert len(rules_in_file(file)) == 1
    assert len(rulesets.ALL) == 149


def test_a_file_is_read_from_any_thread(file: Path) -> None:
    file.write_text("while True: pass\n")
    caught: list[Exception] = []

    def work() -> None:
        try:
            rules_in_file(file, time_limit=0.3)
        except ef.RuleError as e:
            caught.append(e)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert "still running" in str(caught[0])


def test_a_right_rule_is_used_after_verification(file: Path, model: Path) -> None:
    file.write_text(GOOD)
    found = ef.optimize(ef.load(model), rules=file)
    assert found.report.rule_uses == {"factor": 2}
    assert found.report.flops_after == 2 * 6


def test_a_wrong_rule_is_refused_with_a_program_that_shows_it(file: Path, model: Path) -> None:
    file.write_text(WRONG)
    with pytest.raises(ef.RuleError, match="rule 'wrong' is wrong") as caught:
        ef.optimize(ef.load(model), rules=file)
    assert "a = np.array(" in str(caught.value)
    found = ef.optimize(ef.load(model), rules=file, verify=False)
    assert found.report.rule_uses == {"wrong": 2}


def test_rules_as_values_are_verified_too(model: Path) -> None:
    a, b = rulesets.tensors("a b")
    with pytest.raises(ef.RuleError, match="rule 'swapped' is wrong"):
        ef.optimize(ef.load(model), rules=[rulesets.rule("swapped", a - b, b - a)])


def test_verification_leaves_nothing_behind(tmp_path: Path) -> None:
    code = (
        "from egraph_fusion import rulesets\n"
        "a, b = rulesets.tensors('a b')\n"
        "print(rulesets.verify(rulesets.rule('r', a * b, b * a), max_examples=20).ok)"
    )
    done = fresh([sys.executable, "-c", code], cwd=tmp_path)
    assert done.stdout == "True\n"
    assert list(tmp_path.iterdir()) == []


def test_a_rule_that_fits_no_operands_cannot_be_verified(model: Path) -> None:
    a, b = rulesets.tensors("a b")
    never = rulesets.rule("never", a + b, b + a, when=[rulesets.guards.rank_at_least(a, 9)])
    with pytest.raises(ef.RuleError, match="rule 'never' cannot be verified"):
        ef.optimize(ef.load(model), rules=[never])


def test_the_command_refuses_a_wrong_file_and_writes_nothing(
    file: Path, model: Path, tmp_path: Path
) -> None:
    file.write_text(WRONG)
    out = tmp_path / "out.onnx"
    arguments = ["optimize", str(model), "-o", str(out), "--rules", str(file)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 1
    assert "rule 'wrong' is wrong" in result.output
    assert not out.exists()
    assert CliRunner().invoke(app, [*arguments, "--no-verify"]).exit_code == 0
    assert out.exists()


def test_a_rule_that_makes_the_e_graph_explode_stops_at_the_limit(tmp_path: Path) -> None:
    a = rulesets.tensors("a")[0]
    more = ops.relu(ops.max(a, a - 1.0))
    blow = rulesets.rule("blow-up", ops.relu(a), more, growing=True)
    path = saved(dense(), tmp_path / "m.onnx")
    found = ef.optimize(ef.load(path), rules=[blow], node_limit=500, iter_limit=30)
    assert found.report.stop_reason in ("nodes", "iterations", "matches")
    assert found.report.ops_after <= found.report.ops_before


def test_the_command_prints_the_program_of_a_wrong_rule_so_that_it_runs(
    file: Path, model: Path, tmp_path: Path
) -> None:
    file.write_text(WRONG)
    command = [sys.executable, "-m", "egraph_fusion", "optimize", str(model)]
    command += ["--rules", str(file), "-o", str(tmp_path / "out.onnx")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    first, _, program = done.stderr.partition("\n")
    assert done.returncode == 1
    assert first.startswith("error: rule 'wrong' is wrong: ")
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert shown.returncode == 0, shown.stderr


def test_a_comparison_says_in_a_line_what_is_wrong(file: Path, model: Path) -> None:
    file.write_text(WRONG)
    (row,) = ef.compare_rulesets({"mine": file}, model).rows
    assert row.error.startswith("rule 'wrong' is wrong: ")
    assert "verify" not in row.error
    assert "import" not in row.error


def test_rules_in_a_mapping_are_found_and_imported_ones_are_not_the_files(file: Path) -> None:
    file.write_text(f'from egraph_fusion.rulesets import ALL\n{GOOD}\nmine = {{"x": [factor]}}\n')
    assert len(rules_in_file(file)) == 1
    file.write_text(
        "from egraph_fusion import rulesets\na, b = rulesets.tensors('a b')\n"
        "kept = {'x': [rulesets.rule('one', a + b, b + a)],\n"
        "        'y': rulesets.rule('two', a * b, b * a)}"
    )
    assert [r.name for r in rules_in_file(file)] == ["one", "two"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("class E(Exception):\n    def __str__(self): raise ValueError\nraise E", "py:3: E: (its"),
        ("x\0y", "py: source code string cannot contain null bytes"),
    ],
)
def test_errors_without_a_text_or_a_line(file: Path, text: str, said: str) -> None:
    file.write_text(text)
    with pytest.raises(ef.RuleError) as caught:
        rules_in_file(file)
    assert said in str(caught.value)
