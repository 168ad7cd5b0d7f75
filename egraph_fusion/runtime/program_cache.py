"""Compiled programs kept on disk, so that a model that was compiled once starts at once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from egraph_fusion.codegen.cache import create, default_folder, digest, shrink, trusted
from egraph_fusion.errors import CompileError
from egraph_fusion.runtime import container
from egraph_fusion.version import __version__

LIMIT_VARIABLE = "EGRAPH_FUSION_CACHE_MB"
DEFAULT_LIMIT_MB = 8192
_PARTS = (".py", ".c", ".h")
_MATTERING = ("egglog", "highspy", "numpy", "onnx")


@dataclass(frozen=True, slots=True)
class ProgramCache:
    """`.efz` files by key in a folder that only this user can write to.

    An entry that is damaged, of another version, or in a folder of others counts as absent.
    Together they take at most `limit` bytes: the ones not used for longest go first.
    """

    folder: Path
    limit: int

    def find(self, key: str) -> tuple[container.Ports, container.Programs] | None:
        """Return the entry of `key` (weights mapped), None if there is none to use."""
        path = self._path(key)
        if not path.is_file() or not trusted(self.folder):
            return None
        try:
            found = container.read(path)
        except CompileError:
            return None
        with suppress(OSError):
            os.utime(path)
        return found

    def keep(self, key: str, ports: container.Ports, programs: container.Programs) -> None:
        """Write the entry of `key`, unless it is too big or the folder cannot be written."""
        if sum(p.constants.nbytes for p in programs.values()) > self.limit // 2:
            return
        try:
            create(self.folder)
            if trusted(self.folder):
                container.write(self._path(key), ports, programs, durable=False)
                shrink(self.folder, self.limit)
        except (CompileError, OSError):
            return  # full or read-only: nothing is kept, and the next start compiles again

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.efz"


def default_cache() -> ProgramCache:
    """Return the user's cache; $EGRAPH_FUSION_CACHE_MB bounds it (8192 if unset or no number)."""
    text = os.environ.get(LIMIT_VARIABLE, "")
    limit = int(text) if text.isascii() and text.isdigit() else DEFAULT_LIMIT_MB
    return ProgramCache(default_folder() / "programs", limit << 20)


def program_key(*parts: str) -> str:
    """Return the key of what `parts` say, made by this code and these versions of its parts."""
    versions = (f"{name} {version(name)}" for name in _MATTERING)
    return digest(*parts, code_digest(), *versions)


@cache
def code_digest() -> str:
    """Return a digest of this package's own code: another one may compile a model differently."""
    root = files("egraph_fusion")
    return digest(__version__, *(f.read_bytes() for f in _sources(root)))


def _sources(folder: Traversable) -> Iterator[Traversable]:
    for entry in sorted(folder.iterdir(), key=lambda e: e.name):
        if entry.is_dir() and not entry.name.startswith((".", "__pycache__")):
            yield from _sources(entry)
        elif entry.name.endswith(_PARTS):
            yield entry
