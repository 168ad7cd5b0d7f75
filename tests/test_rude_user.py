"""Every command under a rude user: odd files, odd names, narrow terminals, closed pipes."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from onnx.helper import make_node
from onnx_models import info, model_of
from small_models import ROOT, cli, dense, dense_inputs, saved
from typer.testing import CliRunner, Result

import egraph_fusion as ef
from egraph_fusion.cli import app

ODD_NAME = "[bold]a\nb[/] :smile: 'q\" \x1b[31m"


def run(*arguments: str | Path, code: int = 0, columns: int = 200) -> Result:
    """Run a command in this process; it must end with `code` and no traceback."""
    env = {"COLUMNS": str(columns)}
    result = CliRunner().invoke(app, [str(a) for a in arguments], env=env)
    assert result.exit_code == code, result.output + repr(result.exception)
    return result


def refusal(*arguments: str | Path) -> str:
    """Return the one line of error of a command that must fail."""
    (line,) = run(*arguments, code=1).stderr.splitlines()
    assert line.startswith("error: ")
    assert "a bug" not in line
    return line


def relu(shape: Any, code: int = TensorProto.FLOAT) -> onnx.ModelProto:
    kind = info("x", shape, code)
    return model_of([make_node("Relu", ["x"], ["y"])], [kind], [info("y", shape, code)])


def custom() -> onnx.ModelProto:
    nodes = [
        make_node("Frob", ["x"], ["f"], name="odd", domain="own"),
        make_node("Relu", ["f"], ["y"], name="act"),
    ]
    return model_of(nodes, [info("x", [2])], ["y"])


def oddly_named() -> onnx.ModelProto:
    nodes = [
        make_node("Relu", ["x"], [f"{ODD_NAME}y"], name=ODD_NAME),
        make_node("NonZero", [f"{ODD_NAME}y"], ["[/red]z"], name="[/red]"),
    ]
    return model_of(nodes, [info("x", [2, 2])], ["[/red]z"])


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return saved(dense(), tmp_path / "m.onnx")


@pytest.fixture
def compiled(model: Path, tmp_path: Path) -> Path:
    ef.compile(model).save(tmp_path / "m.efz")
    return tmp_path / "m.efz"


def arrays(folder: Path, kind: str) -> Path:
    path = folder / "x.npz"
    if kind == "one array":
        np.save(folder / "x.npy", np.ones(3))
        return folder / "x.npy"
    if kind == "objects":
        np.savez(path, x=np.array([None, 1], object))
    elif kind == "directory":
        path.mkdir()
    elif kind == "zip":
        with zipfile.ZipFile(path, "w") as file:
            file.writestr("notes.txt", "hello")
    elif kind != "missing":
        np.savez(path, **dense_inputs())  # type: ignore[arg-type]
        whole = path.read_bytes()
        path.write_bytes({"empty": b"", "cut off": whole[:100], "text": b"hello"}[kind])
    return path


@pytest.mark.parametrize(
    "kind", ["one array", "objects", "directory", "missing", "empty", "cut off", "text", "zip"]
)
def test_inputs_that_are_no_arrays_are_refused(kind: str, model: Path, tmp_path: Path) -> None:
    line = refusal("run", model, "--input", arrays(tmp_path, kind))
    assert "cannot read arrays from" in line
    assert "pickle" not in line
    if kind in ("one array", "text", "empty", "cut off"):
        assert "this is no .npz file; it holds " in line
    if kind == "one array":
        assert "holds one array without a name" in line
    if kind == "zip":
        assert "its entry 'notes.txt' is no array" in line


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: relu([2**62, 4]), "input 'x': shape [4611686018427387904, 4] has more than"),
        (lambda: relu([2**40]), "has more than"),
        (lambda: relu([2], TensorProto.STRING), "Relu"),
        (lambda: relu(None), "m.onnx: no inputs can be made up (input 'x': expected a tensor of"),
        (custom, "node odd (own:Frob): the fallback (onnx.reference) failed"),
    ],
    ids=["huge", "big", "text", "rank", "custom"],
)
def test_a_model_that_cannot_run_is_refused(
    make: Callable[[], onnx.ModelProto], words: str, tmp_path: Path
) -> None:
    path = saved(make(), tmp_path / "m.onnx")
    line = refusal("run", path)
    assert words in line or "more bytes than memory can ever hold" in line


@pytest.mark.parametrize("command", ["compile", "bench", "profile"])
def test_a_value_beyond_all_memory_is_named(command: str, tmp_path: Path) -> None:
    path = saved(relu([2**62, 4]), tmp_path / "m.onnx")
    rest = ["-o", str(tmp_path / "m.efz")] if command == "compile" else []
    assert "float32[4611686018427387904,4]) has more bytes than" in refusal(command, path, *rest)


@pytest.mark.parametrize("shape", [[0, 4], [-1, 4], []])
def test_empty_negative_and_scalar_shapes_run(shape: list[int], tmp_path: Path) -> None:
    path = saved(relu(shape), tmp_path / "m.onnx")
    assert json.loads(run("run", path, "--json").stdout)["y"]["dtype"] == "float32"
    run("plan", path)


def test_the_command_line_speaks_of_its_own_option_for_shapes(tmp_path: Path) -> None:
    path = saved(dense("rows"), tmp_path / "m.onnx")
    for option, out in (("-o", "m.efz"), ("--emit-c", "c")):
        line = refusal("compile", path, option, tmp_path / out)
        assert "m.onnx: the shapes of x are symbolic; fix them with --input-shape NAME=DIMS" in line
        assert line.endswith("as in --input-shape x=1,5")
    assert [p.name for p in tmp_path.iterdir()] == ["m.onnx"]


@pytest.mark.parametrize("shape", ["x=1,,5", "x=1,", "x=a", "x", "=1"])
def test_a_malformed_shape_is_wrong_usage(shape: str, model: Path) -> None:
    run("plan", model, "--input-shape", shape, code=2)


def test_two_shapes_for_one_input_are_wrong_usage(tmp_path: Path) -> None:
    path = saved(dense("rows"), tmp_path / "m.onnx")
    run("plan", path, "--input-shape", "x=2,5", "--input-shape", "x=3,5", code=2)


@pytest.mark.parametrize("size", [-2, 2**70])
def test_an_impossible_size_is_refused(size: int, tmp_path: Path) -> None:
    path = saved(dense("rows"), tmp_path / "m.onnx")
    assert "cannot be" in refusal("plan", path, "--input-shape", f"x={size},5")


def test_options_that_a_compiled_file_cannot_follow_are_refused(compiled: Path) -> None:
    assert "compiled already" in refusal("run", compiled, "--input-shape", "x=1,5")
    assert "compiled already" in refusal("run", compiled, "--target", "opencl")


@pytest.mark.parametrize(
    "option", ["--tolerance=-1", "--time-limit=-1", "--node-limit=0", "--iter-limit=-5"]
)
def test_limits_below_their_least_are_wrong_usage(option: str, model: Path, tmp_path: Path) -> None:
    run("optimize", model, "-o", tmp_path / "o.onnx", option, code=2)


def test_a_peer_that_refuses_the_model_is_quoted(tmp_path: Path) -> None:
    own = model_of([make_node("Relu", ["x"], ["y"])], [info("x", [2])], [info("y", [2])])
    own.graph.node.append(make_node("Frob", ["x"], ["unused"], domain="own"))
    own.opset_import.append(onnx.helper.make_opsetid("own", 1))
    path = saved(own, tmp_path / "m.onnx")
    line = refusal("bench", path, "--against", "onnxruntime", "--rounds", "1")
    assert "onnxruntime does not take this model" in line


@pytest.mark.parametrize("columns", [40, 80])
def test_names_print_as_they_are_on_any_terminal(columns: int, tmp_path: Path) -> None:
    path = saved(oddly_named(), tmp_path / "m.onnx")
    for command in ("plan", "profile", "run"):
        text = run(command, path, columns=columns).stdout
        assert "\x1b" not in text
        assert all(len(line) <= columns for line in text.splitlines() if "│" in line)
        assert "😄" not in text


def test_names_are_never_read_as_markup_or_emoji(tmp_path: Path) -> None:
    path = saved(oddly_named(), tmp_path / "m.onnx")
    shown = run("plan", path, "--explain", "[/red]", f"{ODD_NAME}y").stdout
    assert "[/red] (NonZero)" in shown
    assert "[bold]a" in shown
    assert ":smile:" in shown


def test_a_reason_is_one_line_however_narrow_the_terminal(model: Path) -> None:
    text = run("plan", model, "--explain", "product", "act", columns=40).stdout
    assert len(text.splitlines()) == 1


def test_a_plan_says_what_it_does_not_know(tmp_path: Path) -> None:
    path = saved(dense("rows"), tmp_path / "m.onnx")
    assert "bytes between kernels unknown: 3 values" in run("plan", path, "--no-optimize").stdout
    data = json.loads(run("plan", path, "--no-optimize", "--json").stdout)
    assert data["values_of_unknown_size"] == ["m", "a", "r"]


def test_an_opaque_block_says_why(tmp_path: Path) -> None:
    path = saved(custom(), tmp_path / "m.onnx")
    text = run("plan", path).stdout
    assert "opaque: odd (own:Frob): it belongs to the domain 'own'" in text
    assert "opaque: act (Relu): " in text
    blocks = json.loads(run("plan", path, "--json").stdout)["blocks"]
    assert all(b["reason"] for b in blocks if b["opaque"])


def test_rules_fit_a_narrow_terminal() -> None:
    text = run("rules", "list", columns=80).stdout
    assert all(len(line) <= 80 for line in text.splitlines())
    for rule in ef.rulesets.ALL:
        assert f" {rule.name} " in text


@pytest.mark.parametrize("rule", [ef.rulesets.ALL[0], ef.rulesets.STRUCTURAL[0]])
def test_a_shown_rule_has_no_empty_fields(rule: Any) -> None:
    lines = run("rules", "show", rule.name).stdout.splitlines()
    assert not [
        line for line in lines if line.rstrip().endswith((":", "[]")) and "witness" not in line
    ]
    guards = ", ".join(map(str, rule.guards)) or "none"
    assert f"guards: {guards}" in lines
    assert f"family: {rule.family or 'structural'}" in lines


@pytest.mark.parametrize("arguments", [("rules", "list"), ("rules", "list", "--json")])
def test_a_closed_pipe_ends_quietly(arguments: tuple[str, ...]) -> None:
    program = [sys.executable, "-m", "egraph_fusion", *arguments]
    with subprocess.Popen(
        program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.readline()
        child.stdout.close()
        assert child.stderr.read() == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize(
    "arguments",
    [("rules", "list"), ("rules", "list", "--json"), ("rules", "verify", "add-order"), ("--help",)],
    ids=" ".join,
)
def test_a_standard_output_that_is_full_is_named(arguments: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "egraph_fusion", *arguments]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    assert done.returncode == 1
    assert done.stderr == ("error: standard output cannot be written: No space left on device\n")


def test_a_terminal_of_few_characters_shows_names_escaped(tmp_path: Path) -> None:
    path = saved(relu([2]), tmp_path / "ünï.onnx")
    done = cli("profile", path, env={"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0, done.stderr
    assert "\\xfcn\\xef.onnx" in done.stdout


@pytest.mark.parametrize(
    "arguments",
    [("--debug", "plan", "none.onnx"), ("plan", "none.onnx", "--debug")],
    ids=["before", "after"],
)
def test_debug_stands_before_or_after_the_command(arguments: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, arguments)
    assert isinstance(result.exception, ef.ModelError)


def test_json_stands_before_or_after_the_command() -> None:
    before, after = (
        ("--json", "rules", "show", "add-order"),
        ("rules", "show", "add-order", "--json"),
    )
    assert json.loads(run(*before).stdout) == json.loads(run(*after).stdout)


@pytest.mark.parametrize(
    "arguments", [("plan",), ("profile",), ("run",), ("bench", "--rounds", "1")], ids=" ".join
)
def test_standard_output_is_one_json_object(arguments: tuple[str, ...], model: Path) -> None:
    command, *rest = arguments
    done = run(command, model, *rest, "--json")
    assert isinstance(json.loads(done.stdout), dict)
    assert done.stderr == ""
