"""What has been done, on disk: `manifest.jsonl` to be read by anyone, `index.sqlite` to be asked.

The manifest is the record: a line for each result, only ever appended to.  The index holds the last
line of each output and is made again from the manifest if it is lost or damaged.
"""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO

from egraph_fusion.convert.batch.file_states import FileState
from egraph_fusion.convert.batch.options import BatchError
from egraph_fusion.convert.batch.results import BatchResult

MANIFEST = "manifest.jsonl"
INDEX = "index.sqlite"
LOCK = ".egraph-fusion.lock"
SYNC_SECONDS = 2.0
"""A power cut loses at most the lines of so many seconds; their models are converted again."""
SCHEMA = 1
_TIME = "%Y-%m-%dT%H:%M:%SZ"
_TABLE = """create table if not exists results (
    place text primary key, source text, status text, failure text, reason text, seconds real,
    flops_before integer, flops_after integer, finished text, entry text)"""


@dataclass(frozen=True)
class Entry:
    """A result and what it is the result of.

    `place` is the output's path below the output folder; `key` says by which options and version;
    `inputs` are the files that were read (the archive, for a model in one), `outputs` those that
    were written.
    """

    place: str
    key: str
    result: BatchResult
    member: str = ""
    inputs: tuple[FileState, ...] = ()
    outputs: tuple[FileState, ...] = ()
    finished: str = field(
        default_factory=lambda: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    )

    def to_dict(self) -> dict[str, Any]:
        """Return the entry as plain values, the result's own ones first."""
        return {
            **self.result.to_dict(),
            "place": self.place,
            "key": self.key,
            "member": self.member,
            "inputs": [s.to_dict() for s in self.inputs],
            "outputs": [s.to_dict() for s in self.outputs],
            "finished": self.finished,
        }

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Entry:
        """Return the entry that `to_dict` wrote."""
        return cls(
            str(data["place"]),
            str(data["key"]),
            BatchResult.of(data),
            str(data["member"]),
            tuple(FileState(**s) for s in data["inputs"]),
            tuple(FileState(**s) for s in data["outputs"]),
            str(data["finished"]),
        )


class Ledger:
    """The manifest and the index of one output folder, which no other batch may use meanwhile."""

    def __init__(self, folder: Path) -> None:
        """Open or make them; BatchError if the folder cannot be used or another batch has it."""
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = _locked(folder)
            self._manifest = _appendable(folder / MANIFEST)
            self._index = _index_of(folder)
        except (OSError, sqlite3.Error) as error:
            raise BatchError(f"{folder} cannot be used for the results: {error}") from error
        self._synced = time.monotonic()

    def entries(self) -> dict[str, Entry]:
        """Return the last entry of each place."""
        return _read_index(self._index)

    def add(self, entry: Entry) -> None:
        """Record a result: first in the manifest, then in the index."""
        line = json.dumps(entry.to_dict()) + "\n"
        self._manifest.write(line.encode("ascii"))
        if time.monotonic() - self._synced > SYNC_SECONDS:
            os.fsync(self._manifest.fileno())
            self._synced = time.monotonic()
        self.refresh([entry])

    def refresh(self, entries: list[Entry]) -> None:
        """Bring entries of the index up to date; nothing new has happened."""
        with self._index:
            self._index.executemany(_UPSERT, map(_row, entries))

    def close(self) -> None:
        """Write all through to the disk and let the next batch in."""
        with suppress(OSError):
            os.fsync(self._manifest.fileno())
        self._manifest.close()
        self._index.close()
        self._lock.close()


def read_results(folder: str | Path) -> list[BatchResult]:
    """Return the last result of each model that batches have left in `folder`, by output.

    Raises BatchError if there has been none.
    """
    manifest = Path(folder) / MANIFEST
    try:
        entries = _from_manifest(manifest)
    except OSError as error:
        raise BatchError(f"{folder} holds no batch: {error}") from error
    return [e.result for _, e in sorted(entries.items())]


def _locked(folder: Path) -> BinaryIO:
    lock = (folder / LOCK).open("ab")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.close()
        raise BatchError(f"another batch is writing into {folder}; wait for it to end") from error
    return lock


def _appendable(path: Path) -> FileIO:
    """Open the manifest; a last line that a crash has cut off is ended, so that it stays alone."""
    file = path.open("ab+", buffering=0)
    size = file.seek(0, os.SEEK_END)
    if size:
        file.seek(size - 1)
        if file.read(1) != b"\n":
            file.write(b"\n")
    return file


def _index_of(folder: Path) -> sqlite3.Connection:
    path = folder / INDEX
    try:
        index = _connected(path)
        if index.execute("pragma user_version").fetchone()[0] == SCHEMA:
            _read_index(index)
            return index
        index.close()
    except (sqlite3.DatabaseError, ValueError, KeyError, TypeError):
        pass
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    index = _connected(path)
    with index:
        index.execute(_TABLE)
        index.execute(f"pragma user_version={SCHEMA}")
        index.executemany(_UPSERT, map(_row, _from_manifest(folder / MANIFEST).values()))
    return index


def _connected(path: Path) -> sqlite3.Connection:
    index = sqlite3.connect(path, check_same_thread=False)
    index.execute("pragma journal_mode=wal")
    index.execute("pragma synchronous=normal")
    return index


def _read_index(index: sqlite3.Connection) -> dict[str, Entry]:
    rows = index.execute("select entry from results")
    found = (Entry.of(json.loads(text)) for (text,) in rows)
    return {e.place: e for e in found}


def _from_manifest(path: Path) -> dict[str, Entry]:
    return {e.place: e for e in _manifest_entries(path)}


def _manifest_entries(path: Path) -> Iterator[Entry]:
    with path.open("rb") as file:
        for line in file:
            # A line that a crash has cut off says nothing.
            with suppress(ValueError, KeyError, TypeError):
                yield Entry.of(json.loads(line))


_UPSERT = "insert or replace into results values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


def _row(entry: Entry) -> tuple[Any, ...]:
    result = entry.result
    return (
        _text(entry.place),
        _text(result.source),
        str(result.status),
        result.failure,
        _text(result.reason),
        result.seconds,
        _number(result.before("flops")),
        _number(result.after("flops")),
        entry.finished,
        json.dumps(entry.to_dict()),
    )


def _text(value: str) -> str:
    """SQLite takes no lone surrogates, which stand for bytes of file names that are not UTF-8."""
    return value.encode("utf-8", "backslashreplace").decode()


def _number(value: Any) -> int | None:
    """FLOPs may exceed 64 bits; the whole number is in the entry."""
    return value if isinstance(value, int) and abs(value) < 2**63 else None
