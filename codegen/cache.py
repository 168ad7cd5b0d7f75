"""The on-disk cache of compiled code: content-addressed, private, verified, safe beside others."""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

VARIABLE = "EGRAPH_FUSION_CACHE"
LIMIT = 2 << 30
"""Bytes that compiled units and libraries may take together."""


def default_folder() -> Path:
    """Return $EGRAPH_FUSION_CACHE, else egraph-fusion in $XDG_CACHE_HOME or ~/.cache."""
    chosen = os.environ.get(VARIABLE)
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path("~/.cache").expanduser()) / "egraph-fusion"


@dataclass(frozen=True, slots=True)
class Cache:
    """Files by key.  An entry names the hash of its content, which is checked before every use.

    A folder that others may write to is not trusted; one that cannot be written (read-only, full)
    is read only, and what is missing goes to a private temporary folder of this process.
    """

    folder: Path

    def fetch(self, key: str, suffix: str, make: Callable[[Path], None]) -> Path:
        """Return the file of `key`; if it is absent or damaged, `make` it (at the path given)."""
        for folder in (self.folder, _private_folder()):
            found = _lookup(folder, key, suffix)
            if found is not None:
                return found
        with tempfile.TemporaryDirectory(prefix="egraph-fusion-") as work:
            made = Path(work) / f"made{suffix}"
            make(made)
            return self._keep(key, suffix, made)

    def _keep(self, key: str, suffix: str, made: Path) -> Path:
        try:
            create(self.folder)
            if trusted(self.folder):
                stored = _store(self.folder, key, suffix, made)
                # Counting takes a moment: one entry in 64, by its key, is enough.
                if int(digest(key)[:2], 16) < 4:
                    shrink(self.folder, LIMIT)
                return stored
        except OSError:
            pass  # read-only or full: the private folder below serves this process
        return _store(_private_folder(), key, suffix, made)


def shrink(folder: Path, limit: int) -> None:
    """Delete the least recently used files of `folder` until the rest take `limit` bytes.

    The newest stays whatever its size; what cannot be deleted stays too.
    """
    entries = sorted(_entries(folder), key=lambda entry: entry[0])
    total = sum(size for _, size, _ in entries)
    for _, size, path in entries[:-1]:
        if total <= limit:
            return
        with suppress(OSError):
            path.unlink()
        total -= size


def _entries(folder: Path) -> Iterator[tuple[float, int, Path]]:
    for path in folder.iterdir():
        with suppress(OSError):
            found = path.stat()
            if stat.S_ISREG(found.st_mode):
                yield found.st_mtime, found.st_size, path


def digest(*parts: str | bytes) -> str:
    """Return a SHA-256 over `parts`, each preceded by its length."""
    hasher = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        hasher.update(f"{len(data)}:".encode())
        hasher.update(data)
    return hasher.hexdigest()


def create(folder: Path) -> None:
    """Make the folder, private to this user, unless it is there; OSError if that fails."""
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)


def trusted(folder: Path) -> bool:
    """Whether only this user can put code there."""
    try:
        found = folder.stat()
    except OSError:
        return False
    return found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _lookup(folder: Path, key: str, suffix: str) -> Path | None:
    if not trusted(folder):
        return None
    try:
        content = (folder / f"{key}.key").read_text(encoding="ascii").strip()
        path = folder / f"{content}{suffix}"
        if _hash_of(path) != content:
            return None
        with suppress(OSError):
            os.utime(path)
        return path
    except (OSError, UnicodeDecodeError):
        return None


def _store(folder: Path, key: str, suffix: str, made: Path) -> Path:
    """Put the file in place, then its key: a reader never sees a key without its file."""
    content = _hash_of(made)
    path = folder / f"{content}{suffix}"
    _replace(path, lambda temporary: shutil.copyfile(made, temporary))
    _replace(folder / f"{key}.key", lambda temporary: temporary.write_text(content, "ascii"))
    return path


def _replace(path: Path, write: Callable[[Path], object]) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    os.close(handle)
    temporary = Path(name)
    try:
        write(temporary)
        temporary.chmod(0o600)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _hash_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@cache
def _private_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="egraph-fusion-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
