"""Rules from a user's Python file, read within a time limit; errors name the file and line."""

from __future__ import annotations

import runpy
import signal
import threading
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, cast

from egraph_fusion.errors import RuleError
from egraph_fusion.rulesets.rule import Rule

LIMIT = 20.0
"""Seconds that a rule file may run."""


class _TooSlowError(Exception):
    """The time limit of a rule file is over."""


def rules_in_file(path: Path, time_limit: float | None = LIMIT) -> tuple[Rule, ...]:
    """Return the rules that a Python file defines at its top level, alone or in sequences.

    Raises RuleError, naming the file and line, for a file that cannot be read, raises, defines no
    rule or two of one name, or runs for more than `time_limit` seconds (which is only enforced in
    the main thread).
    """
    if not path.is_file():
        raise RuleError(f"cannot read rules from {path}: there is no such file")
    namespace = _executed(path, time_limit)
    found: dict[str, Rule] = {}
    for r in _rules(namespace.values()):
        if found.setdefault(r.name, r) != r:
            raise RuleError(f"{path} defines two rules called {r.name!r}")
    if not found:
        raise RuleError(f"{path} defines no rule; write `r = rulesets.rule(...)` at its top level")
    return tuple(found.values())


def _rules(values: Iterable[object]) -> Iterator[Rule]:
    for value in values:
        several = isinstance(value, list | tuple)
        members = cast("Iterable[object]", value) if several else (value,)
        yield from (m for m in members if isinstance(m, Rule))


def _executed(path: Path, time_limit: float | None) -> dict[str, Any]:
    try:
        with _limited(time_limit):
            return runpy.run_path(str(path))
    except _TooSlowError as e:
        raise RuleError(f"{_place(path, e)}: still running after {time_limit:g} s") from None
    except SyntaxError as e:
        raise RuleError(f"{path}:{e.lineno}: {e.msg}") from e
    except (Exception, SystemExit) as e:  # whatever the file does is the file's error
        raise RuleError(f"{_place(path, e)}: {type(e).__name__}: {e}") from e


def _place(path: Path, error: BaseException) -> str:
    """Return the file and the line of it that the error came from."""
    lines = [t.tb_lineno for t in _chain(error.__traceback__) if _is_in(t, path)]
    return f"{path}:{lines[-1]}" if lines else str(path)


def _chain(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def _is_in(traceback: TracebackType, path: Path) -> bool:
    return traceback.tb_frame.f_code.co_filename == str(path)


@contextmanager
def _limited(seconds: float | None) -> Generator[None]:
    """Raise _TooSlowError in the body after some seconds."""
    if seconds is None or threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise _TooSlowError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
