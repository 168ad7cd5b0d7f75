"""The `.efz` file: compiled programs with their weights, laid out so that weights can be mapped.

A `.efz` file is executable code: load only files from sources you trust.  Layout: magic, length
and SHA-256 of the header, the header (JSON), then sections at aligned offsets.  Sections are
addressed by offset alone, so nothing in the file names a path.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from egraph_fusion.codegen.memory import ALIGNMENT
from egraph_fusion.errors import CompileError
from egraph_fusion.runtime import program_json
from egraph_fusion.runtime.program import Port, Program

MAGIC = b"EFZ\x00\x01\n"
MAX_HEADER = 1 << 28

Ports = tuple[tuple[Port, ...], tuple[Port, ...]]
Programs = Mapping[tuple[tuple[int, ...], ...], Program]


@dataclass
class _Sections:
    """Arrays to write, each at an aligned offset after the header."""

    arrays: list[NDArray[np.uint8]]
    offsets: list[tuple[int, int]]
    end: int = 0

    def add(self, array: NDArray[Any]) -> int:
        """Add the bytes of an array and return the section's number."""
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        self.arrays.append(data)
        self.offsets.append((self.end, data.nbytes))
        self.end += -(-data.nbytes // ALIGNMENT) * ALIGNMENT
        return len(self.arrays) - 1


def write(path: Path, ports: Ports, programs: Programs) -> None:
    """Write `programs` to `path` through a temporary name; CompileError if it cannot be written."""
    sections = _Sections([], [])
    head = program_json.dump(ports, programs, sections.add)
    digests = [hashlib.sha256(a.data).hexdigest() for a in sections.arrays]
    head["sections"] = [[o, n, d] for (o, n), d in zip(sections.offsets, digests, strict=True)]
    data = json.dumps(head, separators=(",", ":")).encode()
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".efz-", delete=False) as file:
            temporary = Path(file.name)
            _write_all(file, data, sections)
        os.replace(temporary, path)
    except OSError as error:
        raise CompileError(f"cannot write {str(path)!r}: {error.strerror or error}") from error


def _write_all(file: Any, head: bytes, sections: _Sections) -> None:
    try:
        file.write(MAGIC + len(head).to_bytes(8, "little") + hashlib.sha256(head).digest() + head)
        start = _aligned(file.tell())
        for (offset, _), array in zip(sections.offsets, sections.arrays, strict=True):
            file.write(b"\0" * (start + offset - file.tell()))
            file.write(array.data)
        file.flush()
        os.fsync(file.fileno())
    except OSError:
        Path(file.name).unlink(missing_ok=True)
        raise


def _aligned(offset: int) -> int:
    return -(-offset // ALIGNMENT) * ALIGNMENT


def read(path: Path) -> tuple[Ports, dict[tuple[tuple[int, ...], ...], Program]]:
    """Read a `.efz` file; weights are mapped, not copied.

    Raises CompileError if the file is missing, damaged, or of another version.
    """
    try:
        with path.open("rb") as file:
            head, start = _header(path, file)
            size = os.fstat(file.fileno()).st_size
    except OSError as error:
        raise CompileError(f"cannot read {str(path)!r}: {error.strerror or error}") from error
    mapped = np.memmap(path, np.uint8, mode="r")

    def section(number: int) -> NDArray[np.uint8]:
        offset, length, digest = head["sections"][number]
        if start + offset + length > size:
            raise CompileError(f"{str(path)!r} is shorter than its header says")
        data: NDArray[np.uint8] = mapped[start + offset : start + offset + length]
        if hashlib.sha256(data.data).hexdigest() != digest:
            raise CompileError(f"section {number} of {str(path)!r} is damaged: its hash differs")
        return data

    try:
        return program_json.parse(head, section)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise CompileError(f"the header of {str(path)!r} is malformed: {error!r}") from error


def _header(path: Path, file: BinaryIO) -> tuple[dict[str, Any], int]:
    if file.read(len(MAGIC)) != MAGIC:
        raise CompileError(f"{str(path)!r} is not a .efz file of this version of egraph_fusion")
    length = int.from_bytes(file.read(8), "little")
    digest = file.read(32)
    data = file.read(length) if length <= MAX_HEADER else b""
    if len(data) != length or hashlib.sha256(data).digest() != digest:
        raise CompileError(f"{str(path)!r} is damaged: its header does not match its hash")
    head: dict[str, Any] = json.loads(data)
    return head, _aligned(file.tell())
