"""What an executor is given and gives back: tasks, stages, outcomes, and the interface itself."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

ATTEMPTS = 2
"""How many workers a task may take down before it counts as failed."""
TEMPORARY = "egraph-fusion-worker-"
"""How the folders are called that take the temporary files of a worker and its children."""


class Failure(StrEnum):
    """Why a task has no reply.

    REFUSED is the only verdict on the task itself: the same request meets it again.  The others may
    be the machine's fault, or ours.
    """

    NONE = ""
    REFUSED = "refused"
    BUG = "bug"
    CRASH = "crash"
    TIME = "time"
    MEMORY = "memory"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Limits:
    """What one task may take: wall-clock seconds, and bytes of memory of all its processes."""

    seconds: float
    memory: int


@dataclass(frozen=True, slots=True)
class Task:
    """A call of a function in a worker process.

    `function` is "module:name"; it is called with `request` (plain JSON values) and a function to
    report stages, and returns plain JSON values.  `log` is the file that takes what the task and
    the libraries under it print ("" for none).
    """

    name: str
    function: str
    request: Mapping[str, Any]
    limits: Limits
    log: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the task as plain values."""
        return asdict(self)

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Task:
        """Return the task that `to_dict` wrote."""
        plain: dict[str, Any] = {**data}
        plain["limits"] = Limits(**data["limits"])
        return cls(**plain)


@dataclass(frozen=True, slots=True)
class Stage:
    """A task has come to a stage of its work."""

    task: str
    stage: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a task ended.

    `reply` is what its function returned, None after a failure; `message` says why on one line;
    `stage` is where it was; `facts` is what it had reported until then; `peak_memory` counts bytes
    of all its processes (0: not measured).
    """

    task: str
    reply: Mapping[str, Any] | None = None
    failure: Failure = Failure.NONE
    message: str = ""
    stage: str = ""
    seconds: float = 0.0
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    peak_memory: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return the outcome as plain values."""
        return asdict(self)

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Outcome:
        """Return the outcome that `to_dict` wrote."""
        plain: dict[str, Any] = {**data}
        plain["failure"] = Failure(data["failure"])
        return cls(**plain)


class Executor(Protocol):
    """Runs tasks, each in isolation: none can harm another, or the caller."""

    @property
    def slots(self) -> int:
        """How many tasks run at a time."""
        ...

    def run(self, tasks: Sequence[Task], stop: threading.Event) -> Iterator[Stage | Outcome]:
        """Yield stages as they are reached and one outcome per task as they end, in any order.

        Once `stop` is set nothing new starts, what runs is ended, and the rest is CANCELLED.
        Closing the iterator does the same.
        """
        ...

    def require_folder(self, folder: Path) -> None:
        """Raise EgraphFusionError unless every worker sees `folder`."""
        ...

    def close(self) -> None:
        """End all workers."""
        ...


class StageReporter(Protocol):
    """What a task's function calls to say where it is; facts are kept in its outcome."""

    def __call__(self, stage: str, **facts: Any) -> None:
        """Report that `stage` begins."""
        ...


def resolve(function: str) -> Any:
    """Return the function that "module:name" names."""
    module, _, name = function.partition(":")
    return getattr(import_module(module), name)
