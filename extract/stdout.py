"""Keeps a line that HiGHS 1.12.0 prints whatever its options say off standard output.

Its printf "HighsMipSolverData::transformNewIntegerFeasibleSolution tmpSolver.run();" was left in by
oversight (ERGO-Code/HiGHS issue 2783), and would spoil a program whose output is data.
"""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import BinaryIO

LEFTOVER = b"HighsMipSolverData::transformNewIntegerFeasibleSolution"
_STDOUT = 1
_LOCK = threading.Lock()


@contextmanager
def without_leftover() -> Generator[None]:
    """Hold back what is written to standard output meanwhile; then write all but that line."""
    with _LOCK, tempfile.TemporaryFile() as held:
        _flush()
        try:
            saved = os.dup(_STDOUT)
        except OSError:  # standard output is closed: there is nothing to spoil
            yield
            return
        os.dup2(held.fileno(), _STDOUT)
        try:
            yield
        finally:
            _flush()
            os.dup2(saved, _STDOUT)
            os.close(saved)
            held.seek(0)
            _pass_on(held)


def _flush() -> None:
    """Write out what Python and C have buffered for standard output."""
    if sys.stdout is not None and not sys.stdout.closed:
        sys.stdout.flush()
    ctypes.CDLL(None).fflush(None)


def _pass_on(held: BinaryIO) -> None:
    for line in held:
        rest = memoryview(b"" if line.startswith(LEFTOVER) else line)
        while rest:
            rest = rest[os.write(_STDOUT, rest) :]
