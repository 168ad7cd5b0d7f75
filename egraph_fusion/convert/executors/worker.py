"""A worker process: answers requests, one JSON line each, until standard input ends.

It runs models that nobody vouches for, so it may be killed at any moment: by its own limits, by the
parent that watches it, or by a bug in native code.
"""

from __future__ import annotations

import faulthandler
import json
import os
import resource
import select
import shutil
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TextIO

from egraph_fusion.convert.executors.tasks import TEMPORARY, Failure, resolve
from egraph_fusion.errors import EgraphFusionError

LONGEST_MESSAGE = 2000
IDLE_SECONDS = 300.0
"""A worker that nobody has needed for so long ends; a later task gets a new one."""
Send = Callable[[Mapping[str, Any]], None]


def main() -> None:
    """Serve requests; arguments are functions ("module:name") to load before the first."""
    requests, replies = _private_channels()
    faulthandler.enable()
    _end_with(os.getppid())

    def send(message: Mapping[str, Any]) -> None:
        replies.write(json.dumps(message) + "\n")
        replies.flush()

    for function in sys.argv[1:]:
        resolve(function)  # a complaint still goes where the parent reads it
    _discard_output()
    send({"ready": True})
    try:
        for line in lines_of(requests):
            request = json.loads(line)
            with _output_to(request["log"]):
                reply = answer(request, send)
            send(reply)
    finally:
        _remove_temporary()


def lines_of(requests: TextIO, idle: float = IDLE_SECONDS) -> Iterator[str]:
    """Yield requests until there are no more, or none has come for `idle` seconds.

    There is one at a time, so nothing waits in the file's buffer when the next is waited for.
    """
    while select.select([requests], [], [], idle)[0]:
        line = requests.readline()
        if not line:
            return
        yield line


def answer(request: Mapping[str, Any], send: Send) -> dict[str, Any]:
    """Call the function of one request; return its reply or what went wrong."""

    def stage(name: str, **facts: Any) -> None:
        send({"stage": name, "facts": facts})

    try:
        _limit_memory(request["limits"]["memory"])
        return {"reply": resolve(request["function"])(request["request"], stage)}
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of a Rust library is not an Exception
        failure = _kind(error)
        if failure is not Failure.REFUSED:
            traceback.print_exc()
        return {"failure": failure, "message": _message(error, failure)}


def _kind(error: BaseException) -> Failure:
    if _caused_by_memory(error):
        return Failure.MEMORY
    return Failure.REFUSED if isinstance(error, EgraphFusionError) else Failure.BUG


def _caused_by_memory(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, MemoryError):
            return True
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return False


def _message(error: BaseException, failure: Failure) -> str:
    text = str(error).strip()
    if failure is Failure.MEMORY:
        text = f"ran out of the memory it may use{f': {text}' if text else ''}"
    if failure is Failure.BUG:
        text = f"unexpected {type(error).__name__}: {text} (a bug; the log has the traceback)"
    plain = " ".join(text.split())
    return plain if len(plain) <= LONGEST_MESSAGE else plain[: LONGEST_MESSAGE - 1] + "…"


def _private_channels() -> tuple[TextIO, TextIO]:
    """Keep the pipes to the parent out of reach of what libraries and compilers read and print."""
    requests = os.fdopen(os.dup(0), "r", encoding="utf-8")
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return requests, replies


@contextmanager
def _output_to(log: str) -> Generator[None]:
    """Write what is printed meanwhile, also by native code, to the end of `log`."""
    if not log:
        yield
        return
    try:
        _point_output_to(log)
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        _discard_output()


def _point_output_to(path: str) -> None:
    place = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    os.dup2(place, 1)
    os.dup2(place, 2)
    os.close(place)


def _discard_output() -> None:
    _point_output_to(os.devnull)


def _limit_memory(limit: int) -> None:
    """Let this process allocate `limit` bytes more than it has: past that, MemoryError.

    Mapped files do not count.  The parent watches what all processes of a task hold together.
    """
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    wanted = _allocated() + limit
    resource.setrlimit(
        resource.RLIMIT_DATA,
        (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard),
    )


def _allocated() -> int:
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as file:
            fields = dict(line.split(":", 1) for line in file)
        return int(fields["VmData"].split()[0]) << 10
    except (OSError, KeyError):
        return 0


def _end_with(parent: int) -> None:
    """End this process and its children when the parent is gone, however it went."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        _remove_temporary()
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


def _remove_temporary() -> None:
    """Remove the folder that the parent has made for temporary files, if it is that one."""
    folder = os.environ.get("TMPDIR", "")
    if os.path.basename(folder).startswith(TEMPORARY):
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
