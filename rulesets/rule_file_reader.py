"""The process that runs a rule file: `python -m ... FILE SECONDS` writes its values, pickled."""

from __future__ import annotations

import os
import pickle
import resource
import runpy
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, BinaryIO, cast

from egraph_fusion.errors import said
from egraph_fusion.rulesets import catalogue
from egraph_fusion.rulesets.rule import Rule
from egraph_fusion.rulesets.rule_calls import rule_at

MEMORY = 4 << 30
"""Bytes of address space that a rule file may use."""


def main(arguments: list[str]) -> None:
    """Run a file and write what it defines, or what went wrong, to standard output."""
    path, limit = Path(arguments[0]), arguments[1]
    answer = _own_output()
    with suppress(ValueError, OSError):  # where the system knows no such limit
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    if limit:
        _stop_after(float(limit), path, answer)
    _write(answer, _ran(path))


def _own_output() -> BinaryIO:
    """Return standard output, and send what the file prints to standard error instead."""
    own = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return own


def _write(answer: BinaryIO, reply: dict[str, Any]) -> None:
    """Answer and end: threads that the file started do not keep the process alive."""
    answer.write(pickle.dumps(reply))
    answer.flush()
    os._exit(0)


def _ran(path: Path) -> dict[str, Any]:
    try:
        namespace = runpy.run_path(str(path))
    except SyntaxError as e:
        line = "" if e.lineno is None else f":{e.lineno}"
        return {"error": f"{e.filename or path}{line}: {e.msg}"}
    except MemoryError as e:
        limit = f"more than {MEMORY >> 30} GiB of memory"
        return {"error": f"{_place(path, e.__traceback__)}: takes {limit}"}
    except BaseException as e:  # whatever the file does is the file's error
        return {"error": f"{_place(path, e.__traceback__)}: {_told(path, e)}"}
    ours = set(map(id, vars(catalogue).values()))
    return {"values": [v for v in namespace.values() if id(v) not in ours and _holds_rules(v)]}


def _told(path: Path, error: BaseException) -> str:
    """Return what an error says, and the rule that was being made if it does not name that."""
    text = said(error)
    name = rule_at(path, _chain(error.__traceback__))
    return text if name is None or repr(name) in text else said(error, f"rule {name!r}: ")


def _holds_rules(value: object) -> bool:
    if isinstance(value, Mapping):
        return any(map(_holds_rules, cast("Mapping[object, object]", value).values()))
    members = cast("list[object]", value) if isinstance(value, list | tuple) else [value]
    return any(isinstance(m, Rule) for m in members)


def _place(path: Path, traceback: TracebackType | None) -> str:
    """Return the file and the line of it that an error came from."""
    lines = [t.tb_lineno for t in _chain(traceback) if t.tb_frame.f_code.co_filename == str(path)]
    return f"{path}:{lines[-1]}" if lines else str(path)


def _chain(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def _stop_after(seconds: float, path: Path, answer: BinaryIO) -> None:
    """End the process after some seconds, whatever the file catches, and say where it was."""

    def stop(_signal: int, frame: FrameType | None) -> None:
        line = ""
        while frame is not None and not line:
            if frame.f_code.co_filename == str(path):
                line = f":{frame.f_lineno}"
            frame = frame.f_back
        _write(answer, {"error": f"{path}{line}: still running after {seconds:g} s"})

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)


if __name__ == "__main__":
    main(sys.argv[1:])
