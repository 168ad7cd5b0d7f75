"""What a batch says of one model, and what of the whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any


class Status(StrEnum):
    """How one model of a batch came out.

    OK: converted.  UNCHANGED: converted by an earlier run, and neither model nor options have
    changed.  FAILED: no output, `reason` says why.  COPIED: failed, and the original was copied as
    asked.  SKIPPED: the batch was cancelled before it was done.
    """

    OK = "ok"
    UNCHANGED = "unchanged"
    FAILED = "failed"
    COPIED = "copied"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class BatchResult:
    """One model of a batch.

    `output` is the path of the result, None if there is none; `reason` why it failed, on one line,
    naming the node where there is one; `failure` the kind of failure ("refused", "bug", "crash",
    "time", "memory", "unreadable"); `stage` where the work ended; `seconds` what it took.
    `report` is that of `optimize` and beside it `blocks_before` and `blocks_after`, `verbatim` (the
    output is the original, byte for byte), `worst_difference` (of the check, over the output's
    spread; None if none was made), `notes`.  `log` is the file with what was printed meanwhile,
    None if that was nothing.  `resumed`: this is the result of an earlier run.
    """

    source: str
    status: Status
    output: str | None = None
    reason: str = ""
    failure: str = ""
    stage: str = ""
    seconds: float = 0.0
    report: Mapping[str, Any] = field(default_factory=dict[str, Any])
    log: str | None = None
    peak_memory: int = 0
    resumed: bool = False

    @property
    def ok(self) -> bool:
        """Whether the output is the converted model."""
        return self.status in (Status.OK, Status.UNCHANGED)

    def before(self, what: str) -> Any:
        """Return a figure of the original: "flops", "ops", "bytes", "blocks"; None if unknown."""
        return self.report.get(f"{what}_before")

    def after(self, what: str) -> Any:
        """Return a figure of the result, as `before`."""
        return self.report.get(f"{what}_after")

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values."""
        return asdict(self)

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> BatchResult:
        """Return the result that `to_dict` wrote; other keys are passed over."""
        known: dict[str, Any] = {k: v for k, v in data.items() if k in cls.__dataclass_fields__}
        known["status"] = Status(data["status"])
        return cls(**known)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a batch is: models in all, results by status, and stages of those in work, by source.

    `seconds` have passed; `eta` is how many more it may take at this pace, None while unknown.
    `result` is the one that just came, None if a model only reached a stage.
    """

    total: int
    counts: Mapping[str, int]
    working: Mapping[str, str]
    seconds: float
    eta: float | None
    result: BatchResult | None = None

    @property
    def done(self) -> int:
        """How many models have their result."""
        return sum(self.counts.values())


def counted(results: list[BatchResult]) -> dict[str, int]:
    """Return how many results there are of each status."""
    found = Counter(str(r.status) for r in results)
    return {str(s): found[str(s)] for s in Status if found[str(s)]}
