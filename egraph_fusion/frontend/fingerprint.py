"""The fingerprint of a model file, found without reading the model into a graph."""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

CHUNK = 1 << 25
"""Bytes hashed at a time; hashing runs beside other threads, so that a big file takes less."""
# How the entry is keyed that says where external data lies: a file without it has none.
_EXTERNAL = b"location"
_THREADS = 2


def file_fingerprint(path: Path) -> str | None:
    """Return a SHA-256 over the bytes of `path`, None if it may refer to data in other files.

    Raises OSError if the file cannot be read.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        handle = file.fileno()

        def chunk_digest(start: int) -> bytes | None:
            # What crosses a border is looked for in the first of the two chunks.
            data = os.pread(handle, CHUNK + len(_EXTERNAL) - 1, start)
            if _EXTERNAL in data:
                return None
            return hashlib.sha256(memoryview(data)[:CHUNK]).digest()

        with ThreadPoolExecutor(_THREADS) as pool:
            digests = list(pool.map(chunk_digest, range(0, size, CHUNK)))
    whole = hashlib.sha256(b"%d" % size)
    for digest in digests:
        if digest is None:
            return None
        whole.update(digest)
    return whole.hexdigest()
