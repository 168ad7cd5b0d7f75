"""Has a file changed?  Its hash decides; what the file system says of it saves reading it."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

CHUNK = 1 << 22
SETTLED_NS = 2_000_000_000
"""A file whose clocks are this close to when it was hashed is read again: it may have changed
within the resolution of its clocks, which on some file systems is two seconds."""


@dataclass(frozen=True, slots=True)
class FileState:
    """A file's SHA-256, and size, inode and clocks (nanoseconds) as they were when it was hashed.

    Size, inode, modification and change time together miss a change only if somebody sets the
    system's clock back or writes to the disk behind the file system's back.  `hashed_at` is the
    time of hashing.
    """

    path: str
    sha256: str
    size: int
    inode: int
    modified: int
    changed: int
    hashed_at: int

    def to_dict(self) -> dict[str, Any]:
        """Return the state as plain values."""
        return asdict(self)

    @classmethod
    def of(cls, path: str | Path) -> FileState:
        """Return the state of a regular file; OSError if it cannot be read or changes meanwhile."""
        now = time.time_ns()
        with open(path, "rb", opener=_without_waiting) as file:
            before = os.fstat(file.fileno())
            if not stat.S_ISREG(before.st_mode):
                raise OSError(None, "it is no regular file", str(path))
            hasher = hashlib.sha256()
            while piece := file.read(CHUNK):
                hasher.update(piece)
            after = os.fstat(file.fileno())
        if _clocks(before) != _clocks(after):
            raise OSError(None, "it changed while it was read", str(path))
        return cls(str(path), hasher.hexdigest(), *_clocks(after), now)

    def still(self, *, rehash: bool = False) -> FileState | None:
        """Return the state if the file still has this content, None if not.

        Its content is read only where `rehash` asks for it or the file system leaves doubt; the
        state returned then has the newer time.
        """
        try:
            now = os.stat(self.path)
        except OSError:
            return None
        if not stat.S_ISREG(now.st_mode) or now.st_size != self.size:
            return None
        settled = max(self.modified, self.changed) + SETTLED_NS < self.hashed_at
        if settled and not rehash and _clocks(now) == self.clocks:
            return self
        try:
            again = FileState.of(self.path)
        except OSError:
            return None
        return again if again.sha256 == self.sha256 else None

    @property
    def clocks(self) -> tuple[int, int, int, int]:
        """What the file system said."""
        return self.size, self.inode, self.modified, self.changed


def _clocks(found: os.stat_result) -> tuple[int, int, int, int]:
    return found.st_size, found.st_ino, found.st_mtime_ns, found.st_ctime_ns


def _without_waiting(path: str, flags: int) -> int:
    """Open a file; a pipe that nobody writes to must not hold up everything."""
    return os.open(path, flags | os.O_NONBLOCK)


def all_still(states: Sequence[FileState], *, rehash: bool) -> list[FileState] | None:
    """Return the states of files that all have their content still, else None."""
    found: list[FileState] = []
    for state in states:
        current = state.still(rehash=rehash)
        if current is None:
            return None
        found.append(current)
    return found
