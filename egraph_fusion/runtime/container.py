"""The `.efz` file: compiled programs with their weights, laid out so that weights can be mapped.

A `.efz` file is executable code: load only files from sources you trust.  Layout: magic, length
and SHA-256 of the header, the header (JSON), then sections at aligned offsets.  Sections are
addressed by offset alone, so nothing in the file names a path.  Their checksums (CRC-32) find
damage; who made the file, no checksum can say.
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from egraph_fusion.codegen.memory import ALIGNMENT
from egraph_fusion.errors import CompileError, ModelError
from egraph_fusion.output_files import write_file
from egraph_fusion.runtime import program_json
from egraph_fusion.runtime.program import Port, Program

MAGIC = b"EFZ\x00\x01\n"
MAX_HEADER = 1 << 28
CHUNK = 1 << 24
"""Bytes of a section under one checksum; two threads check a section's chunks."""

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


def write(path: Path, ports: Ports, programs: Programs, *, durable: bool = True) -> None:
    """Write `programs` to `path` through a temporary name; CompileError if it cannot be written.

    A `durable` file is on the disk, not only on its way there, before it gets its name.
    """
    sections = _Sections([], [])
    head = program_json.dump(ports, programs, sections.add)
    sums = map(_checksums, sections.arrays)
    head["sections"] = [[o, n, c] for (o, n), c in zip(sections.offsets, sums, strict=True)]
    data = json.dumps(head, separators=(",", ":")).encode()
    write_file(path, lambda file: _write_all(file, data, sections), CompileError, durable=durable)


def _write_all(file: BinaryIO, head: bytes, sections: _Sections) -> None:
    file.write(MAGIC + len(head).to_bytes(8, "little") + hashlib.sha256(head).digest() + head)
    start = _aligned(file.tell())
    for (offset, _), array in zip(sections.offsets, sections.arrays, strict=True):
        file.write(b"\0" * (start + offset - file.tell()))
        file.write(array.data)


def _checksums(data: NDArray[np.uint8]) -> list[int]:
    """Return the CRC-32 of each chunk."""
    starts = range(0, data.nbytes, CHUNK)
    if len(starts) < 2:
        return [zlib.crc32(data.data)] if data.nbytes else []
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(zlib.crc32, (data[s : s + CHUNK].data for s in starts)))


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
    except (OSError, ValueError) as error:  # ValueError: a null byte in the name
        raise CompileError(f"cannot read {str(path)!r}: {error}") from error
    mapped = np.memmap(path, np.uint8, mode="r")

    def section(number: int) -> NDArray[np.uint8]:
        offset, length, sums = head["sections"][number]
        if start + offset + length > size:
            raise CompileError(f"{str(path)!r} is shorter than its header says")
        data: NDArray[np.uint8] = mapped[start + offset : start + offset + length]
        if _checksums(data) != sums:
            raise CompileError(
                f"section {number} of {str(path)!r} is damaged: its checksum differs"
            )
        return data

    try:
        return program_json.parse(head, section)
    except (KeyError, IndexError, TypeError, ValueError, ModelError) as error:
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
