"""Sources of a batch: files, folders, globs, archives; where results go; what is refused."""

from __future__ import annotations

import io
import os
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from egraph_fusion.convert.batch.archives import ArchiveError, members, unpack
from egraph_fusion.convert.batch.options import BatchError, bytes_of
from egraph_fusion.convert.batch.sources import collect


def tree(folder: Path, *names: str) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())
    return folder


def outputs(*sources: str | Path, out: Path, target: str = "onnx") -> list[str]:
    return [i.output for i in collect(sources, out, target)]


def test_a_folder_is_mirrored_at_any_depth(tmp_path: Path) -> None:
    models = tree(tmp_path / "m", "b.onnx", "a/x.onnx", "a/deep/er/y.ONNX", "notes.txt", "w.bin")
    assert outputs(models, out=tmp_path / "out") == ["b.onnx", "a/x.onnx", "a/deep/er/y.ONNX"]


def test_hidden_folders_and_links_to_folders_are_left_out(tmp_path: Path) -> None:
    models = tree(tmp_path / "m", "a.onnx", ".git/b.onnx")
    (models / "loop").symlink_to(models)
    assert outputs(models, out=tmp_path / "out") == ["a.onnx"]


def test_an_output_folder_among_the_sources_is_left_out(tmp_path: Path) -> None:
    models = tree(tmp_path / "m", "a.onnx", "out/a.onnx")
    assert outputs(models, out=models / "out") == ["a.onnx"]
    assert outputs(f"{models}/**/*.onnx", out=models / "out") == ["a.onnx"]


def test_a_file_keeps_its_name_and_may_have_any(tmp_path: Path) -> None:
    models = tree(tmp_path, "one.onnx", "two.pb")
    found = outputs(models / "one.onnx", models / "two.pb", out=tmp_path / "out")
    assert found == ["one.onnx", "two.pb"]


def test_a_glob_is_mirrored_below_its_fixed_part(tmp_path: Path) -> None:
    tree(tmp_path / "m", "a/x1.onnx", "b/x2.onnx", "b/y.onnx", "b/x3.txt")
    assert outputs(f"{tmp_path}/m/*/x*", out=tmp_path / "o") == ["a/x1.onnx", "b/x2.onnx"]
    assert outputs(f"{tmp_path}/m/**/*.onnx", out=tmp_path / "o")[0] == "a/x1.onnx"


def test_a_relative_glob_counts_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree(tmp_path, "a/x.onnx")
    monkeypatch.chdir(tmp_path)
    assert outputs("*/*.onnx", out=tmp_path / "o") == ["a/x.onnx"]


def test_an_archive_without_a_model_costs_only_itself(tmp_path: Path) -> None:
    models = tree(tmp_path, "a.onnx")
    with zipfile.ZipFile(tmp_path / "none.zip", "w") as archive:
        archive.writestr("notes.txt", "nothing here")
    found = collect([models / "a.onnx", tmp_path / "none.zip"], tmp_path / "o", "onnx")
    assert [bool(i.fault) for i in found] == [False, True]
    assert "none.zip holds no .onnx file" in found[1].fault


def test_compiled_results_get_their_suffix(tmp_path: Path) -> None:
    models = tree(tmp_path / "m", "a.onnx", "b.v2.ONNX")
    assert outputs(models, out=tmp_path / "o", target="c") == ["a.efz", "b.v2.efz"]


def test_a_source_given_twice_counts_once(tmp_path: Path) -> None:
    models = tree(tmp_path / "m", "a.onnx")
    assert outputs(models, models, out=tmp_path / "o") == ["a.onnx"]


@pytest.mark.parametrize(
    ("sources", "words"),
    [
        (["m", "n"], "would both become 'a.onnx'"),
        (["m/a.onnx", "m/a.ONNX"], None),
        (["absent"], "there is no file or folder 'absent'"),
        (["absent/*.onnx"], "holds no .onnx file"),
        (["empty"], "holds no .onnx file"),
        ([], "no sources"),
        (["m", "m.tar/a.onnx"], "no file or folder"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_done(
    sources: list[str], words: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tree(tmp_path, "m/a.onnx", "m/a.ONNX", "n/a.onnx", "empty/x.txt"))
    if words is None:
        assert outputs(*sources, out=tmp_path / "o") == ["a.onnx", "a.ONNX"]
        return
    with pytest.raises(BatchError, match=words):
        collect(sources, tmp_path / "o", "onnx")
    assert not (tmp_path / "o").exists()


def test_an_output_never_replaces_a_source(tmp_path: Path) -> None:
    models = tree(tmp_path / "m", "a.onnx", "b/c.onnx")
    with pytest.raises(BatchError, match="would replace"):
        collect([models / "a.onnx"], models, "onnx")
    (tmp_path / "link").symlink_to(models)
    with pytest.raises(BatchError, match="would replace"):
        collect([models / "a.onnx"], tmp_path / "link", "onnx")


def test_compiled_results_that_would_meet_are_refused(tmp_path: Path) -> None:
    tree(tmp_path, "m/a.onnx", "m/a.ONNX")
    with pytest.raises(BatchError, match="would both become"):
        collect([tmp_path / "m"], tmp_path / "o", "c")


def test_a_result_cannot_be_file_and_folder(tmp_path: Path) -> None:
    tree(tmp_path, "m/x.onnx", "n/x.onnx/y.onnx")
    with pytest.raises(BatchError, match="needs a folder of this name"):
        collect([tmp_path / "m", tmp_path / "n"], tmp_path / "o", "onnx")


# Archives


def zipped(path: Path, files: Mapping[str, bytes], compression: int = 0) -> Path:
    with zipfile.ZipFile(path, "w", compression) as file:
        for name, data in files.items():
            file.writestr(name, data)
    return path


def tarred(path: Path, files: Mapping[str, bytes], mode: str = "w") -> Path:
    with tarfile.open(path, mode) as file:  # type: ignore[call-overload]  # "w:gz" and so on
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            file.addfile(entry, io.BytesIO(data))
    return path


FILES = {"a.onnx": b"one", "deep/b.onnx": b"two", "deep/b.data": b"weights"}
MAKERS: dict[str, Callable[[Path], Path]] = {
    "x.zip": lambda p: zipped(p, FILES),
    "x.tar": lambda p: tarred(p, FILES),
    "x.tar.gz": lambda p: tarred(p, FILES, "w:gz"),
    "x.tgz": lambda p: tarred(p, FILES, "w:gz"),
    "x.tar.bz2": lambda p: tarred(p, FILES, "w:bz2"),
    "x.tar.xz": lambda p: tarred(p, FILES, "w:xz"),
}


@pytest.mark.parametrize("name", MAKERS)
def test_an_archive_stands_for_a_folder_of_its_name(name: str, tmp_path: Path) -> None:
    path = MAKERS[name](tmp_path / name)
    assert outputs(path, out=tmp_path / "o") == ["x/a.onnx", "x/deep/b.onnx"]
    unpack(path, tmp_path / "u")
    found = {
        str(p.relative_to(tmp_path / "u")): p.read_bytes() for p in (tmp_path / "u").rglob("*.*")
    }
    assert found == FILES


def link_in_tar(path: Path) -> Path:
    with tarfile.open(path, "w") as file:
        entry = tarfile.TarInfo("a.onnx")
        entry.type, entry.linkname = tarfile.SYMTYPE, "/etc/passwd"
        file.addfile(entry)
    return path


def hard_link_in_tar(path: Path) -> Path:
    with tarfile.open(path, "w") as file:
        entry = tarfile.TarInfo("a.onnx")
        entry.type, entry.linkname = tarfile.LNKTYPE, "../../secret"
        file.addfile(entry)
    return path


def device_in_tar(path: Path) -> Path:
    with tarfile.open(path, "w") as file:
        entry = tarfile.TarInfo("a.onnx")
        entry.type = tarfile.FIFOTYPE
        file.addfile(entry)
    return path


def link_in_zip(path: Path) -> Path:
    entry = zipfile.ZipInfo("a.onnx")
    entry.external_attr = 0o120777 << 16
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(entry, "/etc/passwd")
    return path


def twice_in_zip(path: Path) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("a.onnx", "1")
        with pytest.warns(UserWarning, match="Duplicate"):
            file.writestr("a.onnx", "2")
    return path


BAD: dict[str, tuple[str, Callable[[Path], Path], str]] = {
    "climbs": ("x.zip", lambda p: zipped(p, {"../a.onnx": b""}), "leads out"),
    "climbs within": ("x.tar", lambda p: tarred(p, {"a/../../a.onnx": b""}), "leads out"),
    "absolute": ("x.tar", lambda p: tarred(p, {"/a.onnx": b""}), "leads out"),
    "absolute in zip": ("x.zip", lambda p: zipped(p, {"/a.onnx": b""}), "leads out"),
    "backslashes": ("x.tar", lambda p: tarred(p, {"..\\a.onnx": b""}), "leads out"),
    "link": ("x.tar", link_in_tar, "a link or a device"),
    "hard link": ("x.tar", hard_link_in_tar, "a link or a device"),
    "pipe": ("x.tar", device_in_tar, "a link or a device"),
    "link in zip": ("x.zip", link_in_zip, "a link or a device"),
    "twice": ("x.zip", twice_in_zip, "twice"),
    "twice in tar": ("x.tar", lambda p: tarred(p, {"a.onnx": b"", "./a.onnx": b""}), "twice"),
    "no archive": ("x.zip", lambda p: tree(p.parent, p.name) / p.name, "cannot be unpacked"),
    "no tar": ("x.tar.gz", lambda p: tree(p.parent, p.name) / p.name, "cannot be unpacked"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_dangerous_or_broken_archive_is_refused(kind: str, tmp_path: Path) -> None:
    name, make, words = BAD[kind]
    path = make(tmp_path / name)
    with pytest.raises(ArchiveError, match=words):
        members(path)
    (tmp_path / "deep" / "er").mkdir(parents=True)
    with pytest.raises(ArchiveError, match=words):
        unpack(path, tmp_path / "deep" / "er")
    assert not list((tmp_path / "deep" / "er").iterdir())
    (item,) = collect([path], tmp_path / "o", "onnx")
    assert words in item.fault


@pytest.mark.parametrize("cut", [10, 60, 100])
def test_a_cut_off_archive_is_refused(cut: int, tmp_path: Path) -> None:
    for name, make in MAKERS.items():
        path = make(tmp_path / name)
        path.write_bytes(path.read_bytes()[:cut])
        with pytest.raises(ArchiveError):
            unpack(path, tmp_path / f"u{name}")


@pytest.mark.parametrize("cut", [600, 1000, 2000, 3000])
def test_a_tar_that_lacks_its_end_is_refused(cut: int, tmp_path: Path) -> None:
    path = MAKERS["x.tar"](tmp_path / "x.tar")
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(ArchiveError):
        members(path)


def test_bytes_are_counted_as_they_come(tmp_path: Path) -> None:
    """An archive of 20 kB that unpacks to 20 MB, whose directory states one byte."""
    path = zipped(tmp_path / "bomb.zip", {"a.onnx": bytes(20 << 20)}, compression=8)
    data = path.read_bytes()
    size = (20 << 20).to_bytes(4, "little")
    path.write_bytes(data.replace(size, (1).to_bytes(4, "little")))
    assert path.stat().st_size < 30_000
    with pytest.raises(ArchiveError):
        unpack(path, tmp_path / "u", limit=1 << 20)
    assert sum(p.stat().st_size for p in (tmp_path / "u").rglob("*") if p.is_file()) <= 1 << 20
    tar = tarred(tmp_path / "bomb.tar.gz", {"a.onnx": bytes(20 << 20)}, "w:gz")
    with pytest.raises(ArchiveError, match="more than 1,048,576 bytes"):
        unpack(tar, tmp_path / "v", limit=1 << 20)


def test_too_many_members_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("egraph_fusion.convert.batch.archives.MEMBERS", 3)
    with pytest.raises(ArchiveError, match="more than 3 files"):
        members(zipped(tmp_path / "x.zip", {f"{n}.onnx": b"" for n in range(5)}))


def test_stated_sizes_beyond_the_limit_are_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("egraph_fusion.convert.batch.archives.BYTES", 10)
    with pytest.raises(ArchiveError, match="more than 10 bytes"):
        members(zipped(tmp_path / "x.zip", {"a.onnx": bytes(20)}))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("4G", 4 << 30),
        ("512m", 512 << 20),
        ("1.5GiB", 3 << 29),
        ("2GB", 2 << 30),
        ("77", 77),
        (5, 5),
    ],
)
def test_sizes_are_read(text: str | int, wanted: int) -> None:
    assert bytes_of(text) == wanted


@pytest.mark.parametrize("text", ["", "G", "4X", "much", "nan", "infG"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(BatchError, match="expected bytes"):
        bytes_of(text)


def test_names_that_are_not_utf8_are_taken(tmp_path: Path) -> None:
    name = os.fsdecode(b"m\xff.onnx")
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / name).write_bytes(b"")
    assert outputs(tmp_path / "m", out=tmp_path / "o") == [name]
