"""Every command: what it prints and writes, its JSON, and its exit code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from small_models import cli, dense, dense_inputs, saved, with_opaque
from typer.testing import CliRunner, Result

import egraph_fusion as ef
from egraph_fusion import rulesets
from egraph_fusion.cli import app
from egraph_fusion.convert import check

COMMANDS = ("optimize", "plan", "compile", "run", "bench", "profile", "rules", "demo", "doctor")


def run(*arguments: str | Path, code: int = 0) -> Result:
    """Run a command in this process; it must end with `code`."""
    result = CliRunner().invoke(app, [str(a) for a in arguments], env={"COLUMNS": "200"})
    assert result.exit_code == code, result.output + repr(result.exception)
    return result


def data_of(*arguments: str | Path) -> Any:
    """Return the JSON that a command prints."""
    return json.loads(run(*arguments, "--json").stdout)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return saved(dense(), tmp_path / "model.onnx")


@pytest.fixture
def open_model(tmp_path: Path) -> Path:
    return saved(dense("rows"), tmp_path / "open.onnx")


def test_help_names_every_command() -> None:
    text = run("--help").stdout
    assert [c for c in COMMANDS if c not in text] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_help_text(command: str) -> None:
    assert "--help" in run(command, "--help").stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("nonsense",),
        ("optimize",),
        ("optimize", "m.onnx"),
        ("compile", "m.onnx"),
        ("rules", "show"),
    ],
    ids=" ".join,
)
def test_wrong_usage_ends_with_2(arguments: tuple[str, ...]) -> None:
    run(*arguments, code=2)


def test_a_malformed_shape_is_wrong_usage(open_model: Path, tmp_path: Path) -> None:
    for shape in ("x", "x=two", "=3"):
        run("compile", open_model, "-o", tmp_path / "m.efz", "--input-shape", shape, code=2)


def test_optimize_writes_a_model_and_reports(model: Path, tmp_path: Path) -> None:
    report = data_of("optimize", model, "-o", tmp_path / "o.onnx")
    assert report["flops_after"] <= report["flops_before"]
    onnx.checker.check_model(str(tmp_path / "o.onnx"))


def test_optimize_shows_a_table(model: Path, tmp_path: Path) -> None:
    assert "FLOPs" in run("optimize", model, "-o", tmp_path / "o.onnx").stdout


def test_optimize_leaves_out_rules(model: Path, tmp_path: Path) -> None:
    rest = data_of("optimize", model, "-o", tmp_path / "o.onnx", "--without", "add-order")
    assert "add-order" not in rest["rule_hits"]


def test_optimize_refuses_an_unknown_rule(model: Path, tmp_path: Path) -> None:
    result = run("optimize", model, "-o", tmp_path / "o.onnx", "--without", "add-ordre", code=2)
    assert "no rule is called 'add-ordre'" in result.stderr


def test_optimize_fixes_shapes(open_model: Path, tmp_path: Path) -> None:
    run("optimize", open_model, "-o", tmp_path / "o.onnx", "--input-shape", "x=2,5")
    (x,) = onnx.load(str(tmp_path / "o.onnx")).graph.input
    assert [d.dim_value for d in x.type.tensor_type.shape.dim] == [2, 5]


def test_optimize_writes_functions(model: Path, tmp_path: Path) -> None:
    run("optimize", model, "-o", tmp_path / "o.onnx", "--functions")
    assert onnx.load(str(tmp_path / "o.onnx")).functions


def test_optimize_raises_the_opset(model: Path, tmp_path: Path) -> None:
    run("optimize", model, "-o", tmp_path / "o.onnx", "--opset", "20")
    assert onnx.load(str(tmp_path / "o.onnx")).opset_import[0].version == 20


def test_optimize_uses_rules_of_a_file(model: Path, tmp_path: Path) -> None:
    rules = tmp_path / "rules.py"
    rules.write_text(
        "from egraph_fusion import rulesets\n"
        "(a,) = rulesets.tensors('a')\n"
        "r = rulesets.rule('my-twice', a * 2.0, a + a)\n"
    )
    report = data_of("optimize", model, "-o", tmp_path / "o.onnx", "--rules", rules)
    assert set(report["rule_hits"]) <= {"my-twice"}


def test_check_reports_the_worst_difference(model: Path, tmp_path: Path) -> None:
    report = data_of("optimize", model, "-o", tmp_path / "o.onnx", "--check")
    assert 0 <= report["worst_difference"] < 1e-5


def test_a_failed_check_writes_nothing(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def far(name: str, want: Any, got: Any) -> check.Difference:
        return check.Difference(name, 0.5)

    monkeypatch.setattr(check, "difference", far)
    result = run("optimize", model, "-o", tmp_path / "o.onnx", "--check", code=1)
    assert result.stderr.startswith("error: output 'y' differs by 0.5 of its spread")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.onnx"]


def test_plan_lists_the_blocks(model: Path) -> None:
    found = data_of("plan", model)
    assert sum(len(b["nodes"]) for b in found["blocks"]) == found["nodes"]
    assert "Many-to-Many" in run("plan", model, "--planner", "dnnfusion").stdout


def test_plan_explains_why_two_nodes_are_apart(model: Path) -> None:
    assert "are in one block" in data_of("plan", model, "--explain", "product", "act")["why_not"]
    run("plan", model, "--explain", "product", "nobody", code=1)


def test_compile_then_run(model: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", **dense_inputs())  # type: ignore[arg-type]
    made = data_of("compile", model, "-o", tmp_path / "m.efz", "--emit-c", tmp_path / "c")
    assert made["programs"][0]["fallback"] == 0
    assert list((tmp_path / "c").glob("*.c"))
    run("run", tmp_path / "m.efz", "--input", tmp_path / "x.npz", "--output", tmp_path / "y.npz")
    expected = ef.compile(dense()).run(None, dense_inputs())
    with np.load(tmp_path / "y.npz") as outputs:
        for name, value in zip(("y", "z"), expected, strict=True):
            np.testing.assert_array_equal(outputs[name], value)


def test_compile_names_the_shape_that_is_open(open_model: Path, tmp_path: Path) -> None:
    result = run("compile", open_model, "-o", tmp_path / "m.efz", code=1)
    assert "the shapes of x are symbolic" in result.stderr
    run("compile", open_model, "-o", tmp_path / "m.efz", "--input-shape", "x=2,5")


def test_compile_for_any_machine_of_the_family(model: Path, tmp_path: Path) -> None:
    from egraph_fusion.codegen.build import baseline_march

    run("compile", model, "-o", tmp_path / "m.efz", "--march", baseline_march())
    (program,) = ef.load_compiled(tmp_path / "m.efz").programs
    assert "avx2" not in program.features


def test_compile_refuses_an_unknown_march(model: Path, tmp_path: Path) -> None:
    result = run("compile", model, "-o", tmp_path / "m.efz", "--march", "pdp11", code=1)
    assert "refuses --march 'pdp11'" in result.stderr


def test_run_makes_up_inputs(model: Path) -> None:
    assert data_of("run", model)["y"]["shape"] == [3, 4]
    assert "float32" in run("run", model).stdout


def test_run_refuses_inputs_that_are_none(model: Path, tmp_path: Path) -> None:
    (tmp_path / "x.npz").write_text("hello")
    result = run("run", model, "--input", tmp_path / "x.npz", code=1)
    assert "cannot read arrays" in result.stderr


def test_bench_measures_both_sides(model: Path) -> None:
    found = data_of("bench", model, "--rounds", "2", "--threads", "1", "--against", "onnxruntime")
    assert found["milliseconds"] > 0
    assert found["peer_milliseconds"] > 0
    assert found["worst_difference"] < 1e-5


def test_bench_refuses_an_unknown_peer(model: Path) -> None:
    with pytest.raises(ef.EgraphFusionError, match="'onnxruntime', not 'tvm'"):
        ef.bench(str(model), against="tvm")


def test_profile_counts_the_fallback(model: Path, tmp_path: Path) -> None:
    slow = saved(with_opaque(), tmp_path / "slow.onnx")
    found = data_of("profile", model, slow)
    assert [s["executor"] for s in found[str(slow)]] == ["native", "fallback"]
    assert "fallback: 1" in run("profile", slow).stdout


def test_rules_are_listed() -> None:
    assert [r["name"] for r in data_of("rules", "list")] == [r.name for r in rulesets.ALL]


@pytest.mark.parametrize("name", [rulesets.ALL[0].name, rulesets.STRUCTURAL[0].name])
def test_a_rule_is_shown(name: str) -> None:
    assert data_of("rules", "show", name)["name"] == name


def test_a_rule_is_shown_with_its_witness() -> None:
    witness = data_of("rules", "show", "exp-product")["witness"]
    assert onnx.parser.parse_model(witness).graph.node
    assert witness.strip() in run("rules", "show", "exp-product").stdout


def test_an_unknown_rule_brings_names_like_it() -> None:
    result = run("rules", "show", "add-ordre", code=2)
    assert "did you mean add-order" in " ".join(result.stderr.split())


def test_doctor_says_what_works() -> None:
    found = data_of("doctor")
    assert found["ok"]
    assert {c["what"]: c["ok"] for c in found["checks"]}["C compiler"]


def test_doctor_fails_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "/no/such/compiler")
    assert "/no/such/compiler" in run("doctor", code=1).stdout


def test_a_surprise_is_one_line(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("surprise")

    monkeypatch.setattr("egraph_fusion.convert.single.run_model", broken)
    lines = run("run", model, code=1).stderr.splitlines()
    assert lines == ["error: unexpected KeyError: 'surprise' (a bug; --debug shows where)"]


def test_debug_shows_the_traceback(tmp_path: Path) -> None:
    done = cli("plan", tmp_path / "none.onnx", "--debug")
    assert done.returncode == 1
    assert "Traceback" in done.stderr


def test_the_module_and_its_exit_code(model: Path, tmp_path: Path) -> None:
    done = cli("optimize", model, "-o", tmp_path / "o.onnx", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["stop_reason"]


def test_the_demo_compares_both_models() -> None:
    done = cli("demo")
    assert done.returncode == 0, done.stderr
    assert "squeezenet1.1" in done.stdout
    assert "0 fallback" in done.stdout
