"""Every kind of output file: whole or not at all, and never in the place of something else."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_models import dense, saved
from typer.testing import CliRunner

import egraph_fusion as ef
from egraph_fusion.cli import app
from egraph_fusion.output_files import write_file

Write = Callable[[Path], None]


def command(*arguments: str | Path | int) -> None:
    """Run a command; its error as an exception."""
    done = CliRunner().invoke(app, [str(a) for a in arguments])
    if done.exit_code:
        raise ef.EgraphFusionError(done.stderr.replace("\n", " "))


@pytest.fixture(params=["onnx", "efz", "npz", "html", "junit", "text"])
def write(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Write:
    """What writes an output of one kind to a path."""
    model = saved(dense(), tmp_path_factory.mktemp("model") / "m.onnx")
    writers: dict[str, Write] = {
        "onnx": lambda path: ef.save(ef.load(model), path),
        "efz": lambda path: ef.compile(model).save(path),
        "npz": lambda path: command("run", model, "--output", path),
        "html": lambda path: command("report", model, "--no-measure", "-o", path),
        "junit": lambda path: command(
            "rules", "verify", "add-order", "--max-examples", 2, "--junit", path
        ),
        "text": lambda path: write_file(path, lambda file: file.write(b"text")),
    }
    return writers[request.param]


def test_a_pipe_stays_a_pipe(write: Write, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ef.EgraphFusionError, match=r"pipe is a device or a pipe; expected"):
        write(tmp_path / "pipe")
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.parametrize("device", ["/dev/null", "/dev/full"])
def test_a_device_stays_a_device(device: str, write: Write, tmp_path: Path) -> None:
    if not Path(device).exists():
        pytest.skip(f"this system has no {device}")
    link = tmp_path / "link"
    link.symlink_to(device)
    for path in (Path(device), link):
        with pytest.raises(ef.EgraphFusionError, match="is a device or a pipe"):
            write(path)
    assert Path(device).is_char_device()
    assert link.is_symlink()


def test_a_link_is_written_through(write: Write, tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(b"old")
    for target in ("old", "new"):
        link = tmp_path / f"link to {target}"
        link.symlink_to(tmp_path / target)
        write(link)
        assert link.is_symlink()
        assert (tmp_path / target).read_bytes() not in (b"", b"old")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "is a directory"),
        ("none/file", "there is no folder"),
        ("file/below", "there is no folder"),
        ("loop", "cannot be written"),
        ("n" * 300, "cannot be written: File name too long"),
    ],
    ids=["directory", "no folder", "below a file", "loop", "long name"],
)
def test_a_place_that_cannot_be_is_named(
    name: str, words: str, write: Write, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(b"old")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(ef.EgraphFusionError, match=words):
        write(tmp_path / name)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "loop"]


def test_a_null_byte_in_a_name_is_refused() -> None:
    with pytest.raises(ef.EgraphFusionError, match="null byte"):
        write_file("a\0b", lambda file: file.write(b"text"))


def test_a_file_that_only_the_owner_reads_stays_so(write: Write, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(0o600)
    write(path)
    assert path.read_bytes() != b"old"
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_new_file_has_the_mode_that_the_user_chose(write: Write, tmp_path: Path) -> None:
    mask = os.umask(0o027)
    try:
        write(tmp_path / "file")
    finally:
        os.umask(mask)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_what_is_read_only_is_refused(write: Write, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_bytes(b"old")
    kept.chmod(0o400)
    folder = tmp_path / "folder"
    folder.mkdir(mode=0o500)
    for path in (kept, folder / "file"):
        with pytest.raises(ef.EgraphFusionError, match="is read-only"):
            write(path)
    assert kept.read_bytes() == b"old"


def test_a_write_that_fails_leaves_the_older_file(tmp_path: Path) -> None:
    def broken(file: Any) -> None:
        file.write(b"half")
        raise OSError(28, "No space left on device")

    (tmp_path / "file").write_bytes(b"old")
    with pytest.raises(ef.EgraphFusionError, match="cannot be written: No space left on device"):
        write_file(tmp_path / "file", broken)
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("file", b"old")]


def test_a_folder_for_sources_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"old")
    with pytest.raises(ef.CompileError, match="file cannot be made a folder"):
        ef.emit_c(dense(), tmp_path / "file")


def test_sources_replace_no_device(tmp_path: Path) -> None:
    path, *_ = ef.emit_c(dense(), tmp_path)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(ef.CompileError, match="is a device or a pipe"):
        ef.emit_c(dense(), tmp_path)


def test_arrays_come_back_as_they_were(tmp_path: Path) -> None:
    model = saved(dense(), tmp_path / "m.onnx")
    command("run", model, "--output", tmp_path / "y.npz")
    with np.load(tmp_path / "y.npz") as found:
        assert {k: v.shape for k, v in found.items()} == {"y": (3, 4), "z": (3,)}
