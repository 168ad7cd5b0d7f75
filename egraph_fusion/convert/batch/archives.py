"""Zip and tar archives of models: listed, and unpacked so that nothing can escape or explode."""

from __future__ import annotations

import lzma
import os
import tarfile
import zipfile
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Protocol, cast

from egraph_fusion.errors import EgraphFusionError

SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
MEMBERS = 100_000
"""Files that an archive may hold."""
BYTES = 64 << 30
"""Bytes that an archive may unpack to."""
PIECE = 1 << 20
_BROKEN = (
    EOFError,
    NotImplementedError,  # zipfile: a kind of compression that it does not know
    OSError,
    RuntimeError,
    UnicodeError,
    ValueError,
    lzma.LZMAError,
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
)


class ArchiveError(EgraphFusionError):
    """An archive is damaged, or holds what is not unpacked: links, names leading out, too much."""


class _Archive(Protocol):
    """What zip and tar archives have in common here."""

    def entries(self) -> Iterator[tuple[str, int]]:
        """Yield name and stated size of each file; ArchiveError for anything but files."""
        ...

    def open(self, name: str) -> BinaryIO:
        """Return a member's content as a stream."""
        ...


def is_archive(path: str) -> bool:
    """Whether the name is that of an archive."""
    return path.lower().endswith(SUFFIXES)


def archive_stem(name: str) -> str:
    """Return the name of an archive without its suffix: the folder that stands for it."""
    suffix = max((s for s in SUFFIXES if name.lower().endswith(s)), key=len)
    return name[: -len(suffix)] or name


def members(path: Path) -> list[str]:
    """Return the names of the files in an archive, sorted.

    Raises ArchiveError if it is damaged, too big, or holds a link, a device, an encrypted file, a
    name that leads out of the archive or one that stands there twice.
    """
    with _opened(path) as archive:
        return sorted(_checked(path, archive))


def unpack(path: Path, folder: Path, limit: int = BYTES) -> None:
    """Write the files of an archive below the empty `folder`; ArchiveError as `members`.

    The bytes are counted as they come, since what an archive states may be a lie; more than `limit`
    is refused.
    """
    left = limit
    with _opened(path) as archive:
        for name in _checked(path, archive):
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(name) as content, target.open("xb") as file:
                while piece := content.read(PIECE):
                    left -= len(piece)
                    if left < 0:
                        raise ArchiveError(f"{path} unpacks to more than {limit:,} bytes")
                    file.write(piece)


def _checked(path: Path, archive: _Archive) -> list[str]:
    found: dict[str, None] = {}
    total = 0
    for name, size in archive.entries():
        plain = _plain_name(path, name)
        if plain in found:
            raise ArchiveError(f"{path} holds {name!r} twice")
        found[plain] = None
        total += size
        if len(found) > MEMBERS:
            raise ArchiveError(f"{path} holds more than {MEMBERS:,} files")
        if total > BYTES:
            raise ArchiveError(f"{path} unpacks to more than {BYTES:,} bytes")
    return list(found)


def _plain_name(path: Path, name: str) -> str:
    """Return a member's name without "./"; ArchiveError if it leads elsewhere."""
    pure = PurePosixPath(name)
    if pure.is_absolute() or ".." in pure.parts or "\\" in name or "\0" in name or not pure.parts:
        raise ArchiveError(f"{path} holds the name {name!r}, which leads out of the archive")
    return pure.as_posix()


@contextmanager
def _opened(path: Path) -> Generator[_Archive]:
    try:
        if path.name.lower().endswith(".zip"):
            with zipfile.ZipFile(path) as file:
                yield _Zip(path, file)
        else:
            with tarfile.open(path) as file:
                yield _Tar(path, file)
    except _BROKEN as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise ArchiveError(f"{path} cannot be unpacked: {reason}") from error


class _Zip:
    """A zip archive."""

    def __init__(self, path: Path, file: zipfile.ZipFile) -> None:
        self.path, self.file = path, file
        self.names: dict[str, zipfile.ZipInfo] = {}

    def entries(self) -> Iterator[tuple[str, int]]:
        """Yield name and stated size of each file."""
        for entry in self.file.infolist():
            kind = (entry.external_attr >> 16) & 0o170000
            if kind not in (0, 0o100000, 0o040000):
                raise ArchiveError(f"{self.path} holds {entry.filename!r}: a link or a device")
            if entry.flag_bits & 1:
                raise ArchiveError(f"{self.path} is encrypted ({entry.filename!r})")
            if not entry.is_dir():
                # A byte of zero ends the name that ZipInfo shows, but not the one in the file.
                name = entry.orig_filename if "\0" in entry.orig_filename else entry.filename
                self.names[PurePosixPath(name).as_posix()] = entry
                yield name, entry.file_size

    def open(self, name: str) -> BinaryIO:
        """Return a member's content."""
        return cast(BinaryIO, self.file.open(self.names[name]))


class _Tar:
    """A tar archive, compressed or not."""

    def __init__(self, path: Path, file: tarfile.TarFile) -> None:
        self.path, self.file = path, file
        self.names: dict[str, tarfile.TarInfo] = {}

    def entries(self) -> Iterator[tuple[str, int]]:
        """Yield name and stated size of each file."""
        for entry in self.file:
            if entry.isdir():
                continue
            if not entry.isreg():
                raise ArchiveError(f"{self.path} holds {entry.name!r}: a link or a device")
            self.names[PurePosixPath(entry.name).as_posix()] = entry
            yield entry.name, entry.size
        self._expect_end()

    def _expect_end(self) -> None:
        """Raise ArchiveError unless the end is marked: tarfile takes any rubbish for the end."""
        stream = self.file.fileobj
        assert stream is not None
        stream.seek(self.file.offset)
        if stream.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
            raise ArchiveError(f"{self.path} is damaged or cut off")

    def open(self, name: str) -> BinaryIO:
        """Return a member's content."""
        content = self.file.extractfile(self.names[name])
        if content is None:
            raise ArchiveError(f"{self.path}: {name!r} is no file")
        return cast(BinaryIO, content)


def unpacked_path(folder: Path, member: str) -> Path:
    """Return where `unpack` has put a member."""
    return Path(os.path.join(folder, *PurePosixPath(member).parts))
