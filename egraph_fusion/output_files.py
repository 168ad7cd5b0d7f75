"""Output files: whole or not at all, and never in the place of a device, a pipe or a link."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from egraph_fusion.errors import EgraphFusionError


def output_path(path: str | Path, error: type[EgraphFusionError] = EgraphFusionError) -> Path:
    """Return where a file called `path` is to be written: a link is written through.

    Raises `error` for a directory, a device or a pipe, a folder that is missing or not writable:
    asked before long work, so that this is not in vain.
    """
    try:
        target = Path(path).resolve()
        if target.is_dir():
            raise error(f"{target} is a directory; expected the name of a file to write")
        if target.exists() and not target.is_file():
            raise error(f"{target} is a device or a pipe; expected the name of a file to write")
        if not target.parent.is_dir():
            raise error(f"{target} cannot be written: there is no folder {target.parent}")
        for place in (target.parent, *((target,) if target.exists() else ())):
            if not os.access(place, os.W_OK):
                raise error(f"{target} cannot be written: {place} is read-only")
    except (OSError, RuntimeError, ValueError) as cause:  # too long, a loop of links, a null byte
        raise error(f"{str(path)!r} cannot be written: {_reason(cause)}") from cause
    return target


def write_file(
    path: str | Path,
    write: Callable[[BinaryIO], object],
    error: type[EgraphFusionError] = EgraphFusionError,
    *,
    durable: bool = False,
) -> None:
    """Write a file under a temporary name beside `path` and rename it; `error` if that fails.

    Nothing is left behind, and an older file stays, if anything goes wrong.  A `durable` file is on
    the disk, not only on its way there, before it gets its name.
    """
    target = output_path(path, error)
    temporary = target.with_name(f".new-{secrets.token_hex(8)}")
    try:
        with temporary.open("xb") as file:
            write(file)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        if target.exists():
            temporary.chmod(target.stat().st_mode)
        temporary.replace(target)
    except OSError as cause:
        raise error(f"{target} cannot be written: {_reason(cause)}") from cause
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_text(
    path: str | Path, text: str, error: type[EgraphFusionError] = EgraphFusionError
) -> None:
    """Write a text in UTF-8, as `write_file` does."""
    write_file(path, lambda file: file.write(text.encode()), error)


def _reason(cause: BaseException) -> str:
    return getattr(cause, "strerror", None) or str(cause)
