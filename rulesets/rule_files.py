"""Rules from a user's Python file, read by a process of its own; errors name the file and line."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from egraph_fusion.errors import RuleError
from egraph_fusion.rulesets.rule import Rule

LIMIT = 20.0
"""Seconds that a rule file may run."""
GRACE = 5.0
"""Seconds after that in which the process may say where it was, before it is killed."""


def rules_in_file(path: Path, time_limit: float | None = LIMIT) -> tuple[Rule, ...]:
    """Return the rules at the top level of a Python file: alone, in sequences or mappings.

    The file runs in a process of its own, so that it can neither hang nor end this one, nor change
    it.  Raises RuleError, naming the file and line, for a file that cannot be read, raises, defines
    no rule or two of one name, takes too much memory or runs for more than `time_limit` seconds.
    """
    if not path.is_file():
        problem = "it is a folder" if path.is_dir() else "there is no such file"
        raise RuleError(f"cannot read rules from {path}: {problem}")
    values = _values(path, time_limit)
    found: dict[str, Rule] = {}
    for r in _rules(values):
        if found.setdefault(r.name, r) != r:
            raise RuleError(f"{path} defines two rules called {r.name!r}")
    if not found:
        raise RuleError(f"{path} defines no rule; write `r = rulesets.rule(...)` at its top level")
    return tuple(found.values())


def _rules(values: Iterable[object]) -> Iterator[Rule]:
    for value in values:
        if isinstance(value, Mapping):
            yield from _rules(cast("Mapping[object, object]", value).values())
            continue
        several = isinstance(value, list | tuple)
        members = cast("Iterable[object]", value) if several else (value,)
        yield from (m for m in members if isinstance(m, Rule))


def _values(path: Path, time_limit: float | None) -> list[object]:
    reply = _answered(path, time_limit)
    if "error" in reply:
        raise RuleError(reply["error"])
    return cast("list[object]", reply["values"])


def _answered(path: Path, time_limit: float | None) -> dict[str, Any]:
    """Run the file in a child, in a group with whatever that starts, and return its answer."""
    limit = "" if time_limit is None else repr(time_limit)
    command = [sys.executable, "-m", "egraph_fusion.rulesets.rule_file_reader", str(path), limit]
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p or os.getcwd() for p in sys.path)},
        start_new_session=True,
    ) as child:
        try:
            wait = None if time_limit is None else time_limit + GRACE
            out, _ = child.communicate(timeout=wait)
        except subprocess.TimeoutExpired:
            raise RuleError(f"{path}: still running after {time_limit:g} s") from None
        finally:
            _end(child)
    if not out:
        raise RuleError(f"{path}: the process that ran it ended with exit code {child.returncode}")
    reply: dict[str, Any] = pickle.loads(out)  # the file's own values, no more to trust than it is
    return reply


def _end(child: subprocess.Popen[bytes]) -> None:
    """End the child and whatever it started."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
