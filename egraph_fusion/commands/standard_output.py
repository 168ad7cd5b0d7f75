"""Standard output that says of itself when it cannot be written."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from io import TextIOWrapper
from typing import TextIO

from egraph_fusion.errors import EgraphFusionError


class OutputError(EgraphFusionError):
    """Standard output cannot be written."""


class Output(TextIOWrapper):
    """A stream of text whose failures are errors of ours; a closed pipe stays one."""

    def write(self, text: str, /) -> int:
        """Write `text`; OutputError if that fails."""
        with _named():
            return super().write(text)

    def flush(self) -> None:
        """Write what is held back; OutputError if that fails."""
        with _named():
            super().flush()


@contextmanager
def _named() -> Generator[None]:
    try:
        yield
    except BrokenPipeError:
        raise  # whoever read the output has seen enough
    except OSError as error:
        reason = error.strerror or str(error)
        raise OutputError(f"standard output cannot be written: {reason}") from error


def replace_streams() -> None:
    """Let standard output name itself when it fails, and show what an encoding lacks escaped."""
    out, err = sys.stdout, sys.stderr
    if _is_text_file(out):
        sys.stdout = Output(
            out.buffer,
            encoding=out.encoding,
            errors="backslashreplace",
            line_buffering=bool(out.line_buffering),
        )
    if isinstance(err, TextIOWrapper):
        err.reconfigure(errors="backslashreplace")


def _is_text_file(stream: TextIO) -> bool:
    return isinstance(stream, TextIOWrapper)
