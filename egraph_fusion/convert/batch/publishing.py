"""From the staging folder into the output tree: by renaming, and never outside."""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

from egraph_fusion.convert.batch.file_states import FileState
from egraph_fusion.convert.batch.options import BatchError


def publish(staged: Sequence[FileState], place: str, out: Path) -> list[FileState]:
    """Rename staged files into the folder of `place` and return their states there.

    The one named as `place` itself comes last: data files are there before what refers to them.
    Raises BatchError if the folder cannot be made or leads out of `out`.
    """
    folder = output_folder(place, out)
    own = PurePosixPath(place).name
    ordered = sorted(staged, key=lambda s: Path(s.path).name == own)
    try:
        return [_renamed(s, folder / Path(s.path).name) for s in ordered]
    except OSError as error:
        raise BatchError(f"{place} cannot be written: {error.strerror or error}") from error


def copy_original(file: Path, others: Sequence[Path], place: str, out: Path) -> list[FileState]:
    """Copy a model, and the data files beside it, to `place` below `out`; their states there.

    Raises BatchError if one cannot be read, or would replace a file of other content.
    """
    folder = output_folder(place, out)
    parent = file.resolve().parent
    pairs = [(p, _beside(folder, p.relative_to(parent), out)) for p in others]
    pairs.append((file, folder / PurePosixPath(place).name))
    try:
        for source, target in pairs[:-1]:
            if target.exists() and not _same_content(source, target):
                raise BatchError(f"the copy of {source} would replace another {target}")
        return [_copied(source, target) for source, target in pairs]
    except OSError as error:
        reason = error.strerror or error
        raise BatchError(f"the original cannot be copied to {place}: {reason}") from error


def output_folder(place: str, out: Path) -> Path:
    """Return the folder of `place`, made if need be; BatchError if it leads out of `out`."""
    return _inside(out / PurePosixPath(place).parent, out)


def _beside(folder: Path, relative: Path, out: Path) -> Path:
    return _inside((folder / relative).parent, out) / relative.name


def _inside(folder: Path, out: Path) -> Path:
    root = os.path.realpath(out)
    if os.path.commonpath([root, os.path.realpath(folder)]) != root:
        raise BatchError(f"{folder} leads out of the output folder {out} (by a link)")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BatchError(f"{folder} cannot be made: {error.strerror or error}") from error
    return folder


def _renamed(staged: FileState, target: Path) -> FileState:
    os.replace(staged.path, target)
    found = os.stat(target)
    return replace(
        staged,
        path=str(target),
        size=found.st_size,
        inode=found.st_ino,
        modified=found.st_mtime_ns,
        changed=found.st_ctime_ns,
        hashed_at=time.time_ns(),
    )


def _copied(source: Path, target: Path) -> FileState:
    temporary = target.with_name(f".new-{secrets.token_hex(8)}")
    try:
        shutil.copyfile(source, temporary)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    return FileState.of(target)


def _same_content(one: Path, other: Path) -> bool:
    return FileState.of(one).sha256 == FileState.of(other).sha256
