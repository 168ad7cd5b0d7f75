"""Tasks that go wrong in every way a task can: run by workers in the executors' tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from egraph_fusion.convert.batch.file_states import FileState
from egraph_fusion.errors import EgraphFusionError

Request = Mapping[str, Any]
Report = Callable[..., None]


def double(request: Request, stage: Report) -> dict[str, Any]:
    """Return twice `request["n"]`, and who computed it."""
    stage("doubling", given=request["n"])
    return {"n": 2 * request["n"], "process": os.getpid()}


def refuse(_request: Request, stage: Report) -> dict[str, Any]:
    """Refuse the task."""
    stage("looking")
    raise EgraphFusionError("node Add 'a' is not\nto my taste")


def fault(request: Request, _stage: Report) -> dict[str, Any]:
    """Have a bug."""
    print("before the bug")
    return {"n": request["missing"]}


def panic(_request: Request, _stage: Report) -> dict[str, Any]:
    """Raise what is no Exception, as a panic of a Rust library does."""
    raise BaseException("a panic")


def crash(request: Request, _stage: Report) -> dict[str, Any]:
    """End by a signal, the first `request["times"]` times."""
    count = Path(request["count"])
    count.write_text(f"{count.read_text() if count.exists() else ''}x")
    if len(count.read_text()) <= request["times"]:
        os.kill(os.getpid(), signal.SIGSEGV)
    return {"attempts": len(count.read_text())}


def leave(_request: Request, _stage: Report) -> dict[str, Any]:
    """End the process in good order, without a reply."""
    os._exit(3)


def hang(request: Request, stage: Report) -> dict[str, Any]:
    """Start a child, say who it is, and never end."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    Path(request["pids"]).write_text(f"{os.getpid()} {child.pid}")
    stage("hanging")
    time.sleep(600)
    return {}


def fill(request: Request, _stage: Report) -> dict[str, Any]:
    """Hold ever more memory."""
    held: list[bytearray] = []
    while True:
        held.append(bytearray(os.urandom(1 << 10) * (16 << 10)))
        if request.get("slow"):
            time.sleep(0.02)


def fill_in_child(_request: Request, _stage: Report) -> dict[str, Any]:
    """Let a child hold ever more memory, past the limit that it inherits."""
    code = (
        "import os, resource, time\n"
        "hard = resource.getrlimit(resource.RLIMIT_DATA)[1]\n"
        "resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))\n"
        "held = []\n"
        "while True: held.append(os.urandom(16 << 20)); time.sleep(0.01)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    return {}


def print_much(_request: Request, _stage: Report) -> dict[str, Any]:
    """Write to both outputs, past Python's own files too, and read standard input."""
    print("from Python")
    os.write(1, b"from C\n")
    os.write(2, b"and its errors\n")
    return {"read": sys.stdin.read()}


def copy(request: Request, stage: Report) -> dict[str, Any]:
    """Stand for a conversion that costs nothing: the output is the input."""
    source, folder = FileState.of(request["file"]), Path(request["folder"])
    stage("load", inputs=[source.to_dict()])
    (folder / request["name"]).write_bytes(Path(request["file"]).read_bytes())
    output = FileState.of(folder / request["name"])
    return {"report": {}, "outputs": [output.to_dict()], "details": None}


def kill_dask_worker(request: Request, _stage: Report) -> dict[str, Any]:
    """Kill the Dask worker above this process, the first `request["times"]` times."""
    count = Path(request["count"])
    count.write_text(f"{count.read_text() if count.exists() else ''}x")
    if len(count.read_text()) <= request["times"]:
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(600)
    return {"attempts": len(count.read_text())}
