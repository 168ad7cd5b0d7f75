"""A folder for what hypothesis keeps, so that none appears in the caller's working directory."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from functools import lru_cache
from tempfile import TemporaryDirectory

from hypothesis import configuration


@lru_cache(maxsize=1)
def _folder() -> TemporaryDirectory[str]:
    """Return the folder of this process, which goes when the process ends."""
    return TemporaryDirectory(prefix="egraph-fusion-")


@contextmanager
def private_storage() -> Generator[None]:
    """Let hypothesis keep what it keeps (tables of characters) in a folder of this process."""
    before = getattr(configuration, "__hypothesis_home_directory", None)
    configuration.set_hypothesis_home_dir(_folder().name)
    try:
        yield
    finally:
        configuration.set_hypothesis_home_dir(before)
