"""A batch resumed: what is done is not done again, and nothing else is taken for done."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import time
import zipfile
from pathlib import Path
from typing import Any

import onnx
import pytest
from batch_folders import (
    by_name,
    contents,
    external,
    impossible,
    manifest,
    rewritable,
    saved_to,
    settled,
)

import egraph_fusion as ef
from egraph_fusion.convert.batch import file_states
from egraph_fusion.convert.batch.file_states import FileState
from egraph_fusion.convert.batch.ledger import read_results
from egraph_fusion.convert.batch.results import BatchResult


@pytest.fixture(autouse=True)
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Conversions that copy: what is tested is whether they are made."""
    monkeypatch.setattr("egraph_fusion.convert.batch.run.CONVERT", "executor_tasks:copy")


@pytest.fixture
def models(tmp_path: Path) -> Path:
    folder = tmp_path / "models"
    for n in range(3):
        saved_to(folder / f"m{n}.onnx", rewritable(n))
    return folder


def statuses(sources: Any, out: Path, **options: Any) -> dict[str, str]:
    found = by_name(ef.batch(sources, out, jobs=1, **options))
    return {name.removesuffix(".onnx"): str(r.status) for name, r in sorted(found.items())}


DONE = {"m0": "unchanged", "m1": "unchanged", "m2": "unchanged"}
NEW = {"m0": "ok", "m1": "ok", "m2": "ok"}


def test_a_second_run_has_nothing_to_do(models: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert statuses(models, out) == NEW
    before = contents(out)
    assert statuses(models, out) == DONE
    after = contents(out)
    assert len(manifest(out)) == 3
    for name in ("m0.onnx", "m1.onnx", "m2.onnx", "manifest.jsonl"):
        assert before[name] == after[name]


def test_without_resume_all_is_done_again(models: Path, tmp_path: Path) -> None:
    statuses(models, tmp_path / "out")
    assert statuses(models, tmp_path / "out", resume=False) == NEW
    assert len(manifest(tmp_path / "out")) == 6


def test_a_changed_model_is_done_again(models: Path, tmp_path: Path) -> None:
    statuses(models, tmp_path / "out")
    saved_to(models / "m1.onnx", rewritable(9.0))
    assert statuses(models, tmp_path / "out") == {**DONE, "m1": "ok"}
    assert (tmp_path / "out" / "m1.onnx").read_bytes() == (models / "m1.onnx").read_bytes()


def test_a_change_that_keeps_size_and_time_is_seen(models: Path, tmp_path: Path) -> None:
    path = models / "m1.onnx"
    long_ago = time.time() - 1000
    for p in models.iterdir():
        os.utime(p, (long_ago, long_ago))
    statuses(models, tmp_path / "out")
    size = path.stat().st_size
    saved_to(path, rewritable(8.0))
    os.utime(path, (long_ago, long_ago))
    assert path.stat().st_size == size
    assert statuses(models, tmp_path / "out") == {**DONE, "m1": "ok"}


def test_a_touched_model_is_not_done_again(models: Path, tmp_path: Path) -> None:
    statuses(models, tmp_path / "out")
    os.utime(models / "m1.onnx")
    shutil.copy(models / "m2.onnx", models / "copy")
    (models / "copy").replace(models / "m2.onnx")
    assert statuses(models, tmp_path / "out") == DONE


@pytest.mark.parametrize("how", ["remove", "change", "cut"])
def test_a_result_that_is_not_ours_any_more_is_made_again(
    how: str, models: Path, tmp_path: Path
) -> None:
    statuses(models, tmp_path / "out")
    result = tmp_path / "out" / "m2.onnx"
    data = result.read_bytes()
    if how == "remove":
        result.unlink()
    else:
        result.write_bytes(b"other" if how == "change" else data[:-1])
    assert statuses(models, tmp_path / "out") == {**DONE, "m2": "ok"}
    assert result.read_bytes() == data


@pytest.mark.parametrize(
    "options",
    [
        {"numerics": "exact"},
        {"check": False},
        {"seeds": (7,)},
        {"opset": 20},
        {"without": ("add-zero",)},
        {"input_shapes": {"x": (3, 4)}},
        {"tolerance": 0.5},
    ],
)
def test_other_options_are_another_result(
    options: dict[str, Any], models: Path, tmp_path: Path
) -> None:
    statuses(models, tmp_path / "out")
    assert statuses(models, tmp_path / "out", **options) == NEW
    assert statuses(models, tmp_path / "out", **options) == DONE


def test_limits_and_helpers_are_no_other_result(models: Path, tmp_path: Path) -> None:
    statuses(models, tmp_path / "out")
    assert statuses(models, tmp_path / "out", timeout=77.0, memory="2G") == DONE
    assert statuses(str(models / "m*.onnx"), tmp_path / "out") == DONE


def test_another_version_is_another_result(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    statuses(models, tmp_path / "out")
    monkeypatch.setattr("egraph_fusion.convert.batch.options.code_digest", lambda: "other")
    assert statuses(models, tmp_path / "out") == NEW


def test_the_rules_of_a_file_count_by_their_content(models: Path, tmp_path: Path) -> None:
    rules = tmp_path / "rules.py"
    text = (
        "from egraph_fusion.rulesets import ops, rule, tensors\n"
        "a, b = tensors('a b')\n"
        "mine = rule('mine', a + b, b + a)\n"
    )
    rules.write_text(text)
    statuses(models, tmp_path / "out", rules=rules)
    assert statuses(models, tmp_path / "out", rules=rules) == DONE
    rules.write_text(text.replace("'mine'", "'other'"))
    assert statuses(models, tmp_path / "out", rules=rules) == NEW


@pytest.mark.parametrize("how", ["lost", "damaged", "of another kind"])
def test_the_index_is_made_again_from_the_manifest(how: str, models: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    statuses(models, out)
    path = out / "index.sqlite"
    if how == "lost":
        path.unlink()
    elif how == "damaged":
        path.write_bytes(b"rubbish" * 100)
    else:
        with sqlite3.connect(path) as index:
            index.execute("pragma user_version=99")
        index.close()
    assert statuses(models, out) == DONE


def test_a_manifest_that_was_cut_off_loses_only_its_last_line(models: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    statuses(models, out)
    (out / "index.sqlite").unlink()
    lines = (out / "manifest.jsonl").read_bytes()
    (out / "manifest.jsonl").write_bytes(lines[:-40])
    found = statuses(models, out)
    assert sorted(found.values()) == ["ok", "unchanged", "unchanged"]
    whole = [line for line in (out / "manifest.jsonl").read_text().splitlines() if line]
    assert len(whole) == 4
    assert json.loads(whole[-1])["status"] == "ok"
    assert len(read_results(out)) == 3


def test_an_archive_is_known_without_unpacking(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / "pack.zip"
    external(models / "sub", "outside.onnx", "w.bin")
    with zipfile.ZipFile(archive, "w") as file:
        for path in sorted(models.rglob("*.*")):
            file.write(path, str(path.relative_to(models)))
    out = tmp_path / "out"
    monkeypatch.setattr(
        "egraph_fusion.convert.batch.run.CONVERT", "egraph_fusion.convert.batch.one_model:convert"
    )
    first = list(ef.batch(archive, out, jobs=1))
    assert [str(r.status) for r in first] == ["ok"] * 4
    assert first[0].source == f"{archive}:m0.onnx"
    assert {n for n in contents(out) if n.startswith("pack/")} == {
        "pack/m0.onnx", "pack/m1.onnx", "pack/m2.onnx", "pack/sub/outside.onnx",
    }  # fmt: skip
    assert "pack/sub/outside.onnx" not in str(first[-1].reason)
    monkeypatch.setattr("egraph_fusion.convert.batch.unpacking.unpack", None)
    assert [str(r.status) for r in ef.batch(archive, out, jobs=1)] == ["unchanged"] * 4


def test_a_broken_archive_fails_alone(models: Path, tmp_path: Path) -> None:
    (tmp_path / "pack.zip").write_bytes(b"PK no archive")
    found = by_name(ef.batch([models, tmp_path / "pack.zip"], tmp_path / "out", jobs=1))
    assert str(found["pack.zip"].status) == "failed"
    assert "cannot be unpacked" in found["pack.zip"].reason
    assert sum(r.ok for r in found.values()) == 3


# Where it matters what the conversion is


@pytest.fixture
def real(cheap: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Conversions as they are, but for names that say otherwise."""
    monkeypatch.setattr("egraph_fusion.convert.batch.run.CONVERT", "batch_tasks:convert_or_crash")


@pytest.mark.usefixtures("real")
def test_external_data_is_part_of_the_content(tmp_path: Path) -> None:
    external(tmp_path / "m", "outside.onnx", "data/w.bin")
    assert statuses(tmp_path / "m", tmp_path / "out") == {"outside": "ok"}
    assert statuses(tmp_path / "m", tmp_path / "out") == {"outside": "unchanged"}
    data = tmp_path / "m" / "data" / "w.bin"
    data.write_bytes(bytes(reversed(data.read_bytes())))
    assert statuses(tmp_path / "m", tmp_path / "out") == {"outside": "ok"}


@pytest.mark.usefixtures("real")
def test_a_big_model_has_a_data_file_which_belongs_to_its_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("egraph_fusion.convert.batch.run.CONVERT", "batch_tasks:convert_as_if_big")
    external(tmp_path / "m", "outside.onnx", "data/w.bin")
    out = tmp_path / "out"
    assert statuses(tmp_path / "m", out) == {"outside": "ok"}
    weights = onnx.load(out / "outside.onnx", load_external_data=False).graph.initializer
    assert any(t.data_location == onnx.TensorProto.EXTERNAL for t in weights)
    onnx.checker.check_model(out / "outside.onnx")
    entry = manifest(out)[-1]
    names = [Path(s["path"]).name for s in entry["outputs"]]
    assert names == ["outside.onnx.data", "outside.onnx"]
    assert statuses(tmp_path / "m", out) == {"outside": "unchanged"}
    (out / "outside.onnx.data").unlink()
    assert statuses(tmp_path / "m", out) == {"outside": "ok"}


@pytest.mark.usefixtures("real")
def test_a_refused_model_stays_refused_until_asked_again(tmp_path: Path) -> None:
    saved_to(tmp_path / "m" / "bad.onnx", impossible())

    def run(**options: Any) -> BatchResult:
        (result,) = ef.batch(tmp_path / "m", tmp_path / "out", jobs=1, **options)
        return result

    first, second = run(), run()
    assert (first.status, first.resumed) == ("failed", False)
    assert (second.status, second.resumed) == ("failed", True)
    assert second.reason == first.reason
    assert run(retry_failed=True).resumed is False
    copied = run(fallback="copy")
    assert (copied.status, copied.resumed) == ("copied", False)
    saved_to(tmp_path / "m" / "bad.onnx", settled())
    assert str(run().status) == "ok"


@pytest.mark.usefixtures("real")
def test_a_crash_is_tried_again_by_the_next_run(tmp_path: Path) -> None:
    saved_to(tmp_path / "m" / "crash.onnx", settled())
    for _ in range(2):
        (result,) = ef.batch(tmp_path / "m", tmp_path / "out", jobs=1)
        assert (result.status, result.resumed) == ("failed", False)


@pytest.mark.usefixtures("real")
def test_a_stale_result_goes_when_its_model_turns_bad(tmp_path: Path) -> None:
    saved_to(tmp_path / "m" / "a.onnx", settled())
    assert statuses(tmp_path / "m", tmp_path / "out") == {"a": "ok"}
    saved_to(tmp_path / "m" / "a.onnx", impossible())
    assert statuses(tmp_path / "m", tmp_path / "out") == {"a": "failed"}
    assert not (tmp_path / "out" / "a.onnx").exists()


@pytest.mark.usefixtures("real")
def test_copies_of_shared_data_stay_while_someone_needs_them(tmp_path: Path) -> None:
    for name in ("late1.onnx", "late2.onnx"):
        external(tmp_path / "m", name, "w.bin")
    data = tmp_path / "out" / "w.bin"
    assert set(statuses(tmp_path / "m", tmp_path / "out", fallback="copy").values()) == {"copied"}
    assert data.exists()
    saved_to(tmp_path / "m" / "late1.onnx", settled())
    statuses(tmp_path / "m", tmp_path / "out", fallback="copy")
    assert data.exists()
    saved_to(tmp_path / "m" / "late2.onnx", settled())
    statuses(tmp_path / "m", tmp_path / "out", fallback="copy")
    assert not data.exists()


# The state of a file


def test_a_settled_file_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"content")
    state = FileState.of(path)
    monkeypatch.setattr(file_states, "SETTLED_NS", -(1 << 60))
    monkeypatch.setattr(FileState, "of", None)
    assert state.still() is state


def test_a_fresh_file_is_read_again_since_its_clocks_say_nothing_yet(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"content")
    state = FileState.of(path)
    again = state.still()
    assert again is not None
    assert again is not state
    assert again.sha256 == state.sha256


def test_the_clocks_can_be_distrusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"content")
    state = FileState.of(path)
    monkeypatch.setattr(file_states, "SETTLED_NS", -(1 << 60))
    forged = FileState(state.path, "0" * 64, *state.clocks, state.hashed_at)
    assert forged.still() is forged
    assert forged.still(rehash=True) is None


def test_five_hundred_models_are_known_within_two_seconds(tmp_path: Path) -> None:
    for n in range(500):
        saved_to(tmp_path / "m" / f"{n % 10}" / f"{n}.onnx", rewritable(n))
    assert all(r.ok for r in ef.batch(tmp_path / "m", tmp_path / "out", jobs=2))
    times: list[float] = []
    for _ in range(3):
        start = time.monotonic()
        found = [str(r.status) for r in ef.batch(tmp_path / "m", tmp_path / "out", jobs=2)]
        times.append(time.monotonic() - start)
        assert found == ["unchanged"] * 500
    assert min(times) < 2
