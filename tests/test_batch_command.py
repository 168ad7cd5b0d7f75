"""`egraph-fusion batch` as a user meets it: lines, tables, exit codes, Ctrl-C, configuration."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import typer
from batch_folders import contents, impossible, manifest, rewritable, saved_to, settled
from rich.console import Console
from small_models import ROOT, cli
from typer.testing import CliRunner

from egraph_fusion.cli import app
from egraph_fusion.commands import batch_display, config
from egraph_fusion.convert.batch import run as batch_run
from egraph_fusion.convert.batch.results import Progress


@pytest.fixture
def models(tmp_path: Path) -> Path:
    saved_to(tmp_path / "m" / "good.onnx", rewritable())
    saved_to(tmp_path / "m" / "sub" / "same.onnx", settled())
    return tmp_path / "m"


def test_a_folder_is_converted_with_a_line_a_model_and_a_table(
    models: Path, tmp_path: Path
) -> None:
    done = cli("batch", models, "-o", tmp_path / "o", "--jobs", "2")
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == 2
    assert {line.split()[0] for line in lines} == {"[1/2]", "[2/2]"}
    assert any(f"ok {models}/good.onnx (" in line for line in lines)
    assert "36 → 12" in done.stdout
    assert "│ sub/same.onnx │" in done.stdout
    assert "2 models: 2 ok" in done.stdout
    again = cli("batch", models, "-o", tmp_path / "o", "--jobs", "2")
    assert again.returncode == 0
    assert "2 models: 2 unchanged" in again.stdout


def test_a_failure_is_exit_code_1_and_names_the_node(models: Path, tmp_path: Path) -> None:
    saved_to(models / "bad.onnx", impossible())
    done = cli("batch", models, "-o", tmp_path / "o", "--json", "--no-check")
    assert done.returncode == 1
    assert done.stderr == ""
    data = json.loads(done.stdout)
    assert data["counts"] == {"ok": 2, "failed": 1}
    (bad,) = [r for r in data["results"] if r["status"] == "failed"]
    assert "bad_product" in bad["reason"]
    copied = cli("batch", models, "-o", tmp_path / "o", "--fallback", "copy", "--no-check")
    assert copied.returncode == 0
    assert "1 copied" in copied.stdout
    assert "copied" in copied.stdout
    assert "bad_product" in copied.stdout


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--target", "cuda"], 2, "onnx-functions"),
        (["--jobs", "0"], 2, "--jobs"),
        (["--fallback", "hope"], 2, "copy"),
        (["--memory", "much"], 1, "expected bytes"),
        (["--input-shape", "nonsense"], 2, "NAME=DIMS"),
        (["--cluster", "tcp://127.0.0.1:9"], 1, "no Dask scheduler"),
        (["--rules", "absent.py"], 1, "absent.py"),
    ],
)
def test_wrong_usage(
    options: list[str], code: int, words: str, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("egraph_fusion.convert.executors.cluster.PATIENCE", 1.0)
    if "--cluster" in options:
        pytest.importorskip("distributed")
    result = CliRunner().invoke(app, ["batch", str(models), "-o", f"{models}-out", *options])
    assert result.exit_code == code
    assert words in result.output
    assert "Traceback" not in result.output


def test_two_models_with_one_output_are_an_error_before_anything_is_done(tmp_path: Path) -> None:
    saved_to(tmp_path / "a" / "x.onnx", settled())
    saved_to(tmp_path / "b" / "x.onnx", settled())
    done = cli("batch", tmp_path / "a", tmp_path / "b", "-o", tmp_path / "o")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "would both become 'x.onnx'" in line
    assert not (tmp_path / "o").exists()


def test_a_terminal_sees_a_bar_the_counts_and_what_is_in_work() -> None:
    progress = Progress(
        total=500,
        counts={"ok": 120, "failed": 3},
        working={"models/a.onnx": "optimise", "models/b\x1b[2J.onnx": "check"},
        seconds=60.0,
        eta=3725.0,
    )
    console = Console(record=True, width=100, file=io.StringIO(), force_terminal=True)
    console.print(batch_display.live_view(progress))
    text = console.export_text()
    assert "123/500 120 ok, 3 failed about 1:02:05 left" in text
    assert "optimise: models/a.onnx" in text
    assert "check: models/b\\x1b[2J.onnx" in text


# Ctrl-C


def started(folder: Path, out: Path, seconds: str) -> subprocess.Popen[str]:
    """Start a batch of which every model takes `seconds`, in a process group of its own."""
    code = (
        "from egraph_fusion.convert.batch import run\n"
        "run.CONVERT = 'batch_tasks:convert_or_crash'\n"
        "from egraph_fusion.cli import main\n"
        "main()\n"
    )
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    return subprocess.Popen(
        [sys.executable, "-c", code, "batch", str(folder), "-o", str(out), "--jobs", "1"],
        env={**os.environ, "PYTHONPATH": path, "SLOW_SECONDS": seconds},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_for(path: Path, lines: int = 1) -> None:
    for _ in range(1200):
        if path.exists() and len(path.read_text().splitlines()) >= lines:
            return
        time.sleep(0.1)
    raise AssertionError(f"{path} has not got {lines} lines")


def test_ctrl_c_ends_in_good_order_and_a_later_run_goes_on(tmp_path: Path) -> None:
    folder, out = tmp_path / "m", tmp_path / "o"
    saved_to(folder / "a.onnx", settled())
    for name in ("b_slow", "c_slow"):
        saved_to(folder / f"{name}.onnx", settled())
    process = started(folder, out, "300")
    wait_for(out / "manifest.jsonl")
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "stopping" in stderr
    assert "Traceback" not in stderr
    assert "1 ok, 2 skipped" in stdout
    assert [x["place"] for x in manifest(out)] == ["a.onnx"]
    assert {n for n in contents(out) if n.endswith(".onnx")} == {"a.onnx"}
    assert not (out / ".egraph-fusion-work").exists()
    process = started(folder, out, "0")
    stdout, stderr = process.communicate(timeout=120)
    assert process.returncode == 0, stderr
    assert "1 unchanged, 2 ok" in stdout


def test_a_second_ctrl_c_ends_at_once_and_harms_nothing(tmp_path: Path) -> None:
    folder, out = tmp_path / "m", tmp_path / "o"
    saved_to(folder / "a.onnx", settled())
    saved_to(folder / "b_slow.onnx", settled())
    process = started(folder, out, "300")
    wait_for(out / "manifest.jsonl")
    start = time.monotonic()
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert time.monotonic() - start < 20
    process = started(folder, out, "0")
    stdout, stderr = process.communicate(timeout=120)
    assert process.returncode == 0, stderr
    assert "1 unchanged, 1 ok" in stdout


def test_workers_end_when_the_batch_is_killed(tmp_path: Path) -> None:
    folder, out = tmp_path / "m", tmp_path / "o"
    saved_to(folder / "a.onnx", settled())
    saved_to(folder / "b_slow.onnx", settled())
    process = started(folder, out, "300")
    wait_for(out / "manifest.jsonl")
    time.sleep(0.5)
    listed = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True, text=True, check=True
    )
    workers = [int(pid) for pid in listed.stdout.split()]
    assert workers
    folders = {Path(os.fsdecode(f)) for w in workers for f in _temporary(w)}
    assert folders
    process.kill()
    process.communicate(timeout=60)
    for _ in range(100):
        if not any(Path(f"/proc/{pid}/cmdline").exists() for pid in workers):
            break
        time.sleep(0.1)
    assert not any(
        "egraph_fusion" in (Path(f"/proc/{pid}/cmdline").read_text() if _alive(pid) else "")
        for pid in workers
    )
    assert not [f for f in folders if f.exists()]


def _temporary(pid: int) -> list[bytes]:
    """Return the folder that takes a process's temporary files."""
    variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return [v.removeprefix(b"TMPDIR=") for v in variables if v.startswith(b"TMPDIR=")]


def _alive(pid: int) -> bool:
    return Path(f"/proc/{pid}/cmdline").exists()


# Configuration


def asked(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> tuple[int, str, dict[str, Any]]:
    """Run the command; return exit code, output and what `batch` was asked."""
    seen: dict[str, Any] = {}

    def stub(_sources: object, _out: object, jobs: object, *_rest: object, **options: Any) -> Any:
        seen.update(options, jobs=jobs)
        return iter(())

    monkeypatch.setattr(batch_run, "batch", stub)
    result = CliRunner().invoke(app, arguments)
    return result.exit_code, result.output, seen


PROJECT = """
[tool.egraph_fusion]
numerics = "exact"

[tool.egraph_fusion.batch]
jobs = 3
time-limit = 7.5
without = ["add-zero"]
fallback = "copy"

[tool.egraph_fusion.rules.verify]
max_examples = 5
"""


def test_defaults_come_from_the_nearest_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "deep" / "er").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "deep" / "er")
    _, _, seen = asked(["batch", "x", "-o", "y"], monkeypatch)
    assert (seen["jobs"], seen["time_limit"], seen["numerics"]) == (3, 7.5, "exact")
    assert (seen["without"], seen["fallback"]) == (("add-zero",), "copy")
    _, _, seen = asked(["batch", "x", "-o", "y", "--jobs", "1", "--numerics", "real"], monkeypatch)
    assert (seen["jobs"], seen["numerics"]) == (1, "real")


def test_the_documented_configuration_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (ROOT / "docs" / "batch.md").read_text()
    (text,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "pyproject.toml").write_text(text)
    monkeypatch.chdir(tmp_path)
    code, output, seen = asked(["batch", "x", "-o", "y"], monkeypatch)
    assert code == 0, output
    assert (seen["jobs"], seen["timeout"], seen["numerics"]) == (4, 300.0, "exact")


def test_a_file_of_its_own_needs_no_heading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.toml").write_text('numerics = "exact"\n[batch]\ncheck = false\ntarget = "c"\n')
    _, _, seen = asked(["--config", "mine.toml", "batch", "x", "-o", "y"], monkeypatch)
    assert (seen["numerics"], seen["target"]) == ("exact", "c")


def test_a_project_without_our_table_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pyproject.toml").write_text("[tool.other]\njobs = 3\n")
    code, _, seen = asked(["batch", "x", "-o", "y"], monkeypatch)
    assert (code, seen["jobs"]) == (0, None)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nope = 1", "unknown key 'nope'"),
        ("[batch]\nnope = 1", "unknown key 'nope'"),
        ("[nope]\njobs = 1", "unknown key 'nope'"),
        ("[rules.verify]\nnope = 1", "unknown key 'nope'"),
        ("[batch]\njobs = 'many'", "--jobs"),
        ("[batch]\ntarget = 'cuda'", "--target"),
        ("jobs =", "cannot be read"),
        (None, "cannot be read"),
    ],
)
def test_a_wrong_configuration_is_wrong_usage(
    text: str | None, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if text is not None:
        Path("mine.toml").write_text(text)
    code, output, _ = asked(["--config", "mine.toml", "batch", "x", "-o", "y"], monkeypatch)
    assert code == 2
    assert words in output.replace("\n", " ")


def test_every_option_of_every_command_can_be_configured() -> None:
    group = typer.main.get_command(app)
    names = {
        p.opts[0].removeprefix("--")
        for c in group.commands.values()  # type: ignore[attr-defined]  # a group has commands
        for p in c.params
        if p.param_type_name == "option" and p.opts[0].startswith("--") and p.name != "help"
    }
    known = config.all_options(group)
    assert len(names) > 20
    assert names <= set(known)


def test_completion_is_offered() -> None:
    result = CliRunner().invoke(app, ["--help"])
    assert "--install-completion" in result.output
