"""Which models a batch converts, and where each result goes: the output tree mirrors the input."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from egraph_fusion.convert.batch.archives import ArchiveError, archive_stem, is_archive, members
from egraph_fusion.convert.batch.options import TARGETS, BatchError

SUFFIX = ".onnx"
_MAGIC = "*?["


@dataclass(frozen=True, slots=True)
class Item:
    """One model to convert.

    `source` is what a user calls it; `file` the file that holds it (an archive, if `member` is not
    "": then the model's name inside); `output` the result's path below the output folder, with
    "/" between its parts; `fault` says why there is nothing to convert.
    """

    source: str
    file: str
    output: str
    member: str = ""
    fault: str = ""


def collect(sources: Iterable[str | Path], out: Path, target: str) -> list[Item]:
    """Return the models that `sources` name, in order, each once.

    A source is a model file, a folder (searched for `*.onnx` at any depth; hidden folders, links to
    folders and the output folder are left out), a glob or a zip or tar archive.  Raises BatchError
    if one is missing, if a folder or glob holds no model, if two models would have the same
    output, or if an output would replace a source.  What is wrong with an archive is its item's
    fault.
    """
    items: list[Item] = []
    for source in sources:
        found = list(_of_source(str(source), out))
        if not found:
            raise BatchError(f"{str(source)!r} holds no {SUFFIX} file")
        items += found
    unique = list(dict.fromkeys(items))
    if not unique:
        raise BatchError("no sources are given")
    placed = [_placed(i, target) for i in unique]
    _expect_apart(placed, out)
    return placed


def _of_source(source: str, out: Path) -> Iterator[Item]:
    if os.path.isdir(source):
        yield from _in_folder(source, out)
    elif os.path.lexists(source):
        yield from _of_file(source, os.path.basename(source))
    elif any(c in source for c in _MAGIC):
        yield from _of_glob(source, out)
    else:
        raise BatchError(f"there is no file or folder {source!r}")


def _of_file(path: str, name: str) -> Iterator[Item]:
    if not is_archive(path):
        yield Item(path, os.path.abspath(path), PurePosixPath(name).as_posix())
        return
    below = PurePosixPath(name).with_name(archive_stem(os.path.basename(name)))
    file = os.path.abspath(path)
    try:
        models = [m for m in members(Path(path)) if m.lower().endswith(SUFFIX)]
        for member in models:
            yield Item(f"{path}:{member}", file, (below / member).as_posix(), member)
        if not models:
            yield Item(path, file, below.as_posix(), fault=f"{path} holds no {SUFFIX} file")
    except ArchiveError as error:
        yield Item(path, file, below.as_posix(), fault=str(error))


def _in_folder(folder: str, out: Path) -> Iterator[Item]:
    for path in _model_files(folder, os.path.realpath(out)):
        yield from _of_file(path, os.path.relpath(path, folder))


def _model_files(folder: str, skipped: str) -> Iterator[str]:
    """Yield model files below `folder`, sorted; archives are opened only where they are named."""
    for parent, folders, files in os.walk(folder):
        visible = [f for f in folders if not f.startswith(".")]
        folders[:] = sorted(
            f for f in visible if os.path.realpath(os.path.join(parent, f)) != skipped
        )
        yield from (os.path.join(parent, f) for f in sorted(files) if f.lower().endswith(SUFFIX))


def _of_glob(pattern: str, out: Path) -> Iterator[Item]:
    fixed = _fixed_part(pattern)
    inside = os.path.join(os.path.realpath(out), "")
    for path in sorted(glob.glob(pattern, recursive=True)):
        if os.path.isdir(path) or os.path.realpath(path).startswith(inside):
            continue
        if path.lower().endswith(SUFFIX) or is_archive(path):
            yield from _of_file(path, os.path.relpath(path, fixed or os.curdir))


def _fixed_part(pattern: str) -> str:
    """Return the folders of a glob before its first wildcard."""
    parts = pattern.split(os.sep)
    first = next(i for i, part in enumerate(parts) if any(c in part for c in _MAGIC))
    return os.sep.join(parts[:first]) + (os.sep if first == 1 and not parts[0] else "")


def _placed(item: Item, target: str) -> Item:
    suffix = TARGETS[target]
    if not suffix or item.fault:
        return item
    path = PurePosixPath(item.output)
    stem = path.name[: -len(SUFFIX)] if path.name.lower().endswith(SUFFIX) else path.name
    return Item(item.source, item.file, path.with_name(stem + suffix).as_posix(), item.member)


def _expect_apart(items: Sequence[Item], out: Path) -> None:
    """Raise BatchError where two outputs are one, or an output is somebody's source."""
    root = os.path.realpath(out)
    originals = {os.path.realpath(i.file): i.source for i in items}
    taken: dict[str, Item] = {}
    for item in items:
        path = os.path.realpath(os.path.join(root, item.output))
        other = taken.setdefault(os.path.normcase(path), item)
        if other is not item:
            raise BatchError(
                f"{other.source!r} and {item.source!r} would both become {item.output!r} in {out}; "
                "give their common folder as the source, or convert them into two folders"
            )
        if path in originals:
            raise BatchError(
                f"the result of {item.source!r} would replace {originals[path]!r}; "
                "choose an output folder apart from the sources"
            )
    _expect_no_folder_in_the_way(items)


def _expect_no_folder_in_the_way(items: Sequence[Item]) -> None:
    outputs = {i.output: i for i in items}
    for item in items:
        for parent in PurePosixPath(item.output).parents:
            other = outputs.get(parent.as_posix())
            if other is not None:
                raise BatchError(
                    f"the result of {other.source!r} would be the file {other.output!r}, but that "
                    f"of {item.source!r} needs a folder of this name"
                )
