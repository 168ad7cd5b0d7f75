"""Latency of a compiled model, alone or beside onnxruntime: interleaved rounds, medians."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from egraph_fusion.errors import EgraphFusionError
from egraph_fusion.runtime.session import Session

if TYPE_CHECKING:
    import onnx

Feeds = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class BenchResult:
    """Medians over rounds: milliseconds a run, and how many times faster than the peer we are."""

    milliseconds: float
    peer: str | None
    peer_milliseconds: float | None
    speedup: float | None
    worst_difference: float | None
    threads: int
    rounds: int

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a dict."""
        return asdict(self)


def onnxruntime_runner(model: str | bytes, threads: int) -> Callable[[Feeds], list[Any]]:
    """Return onnxruntime with all optimisations and `threads` threads, not spinning between runs.

    `model` is a path (needed above 2 GB) or a serialized model.  Raises EgraphFusionError if
    onnxruntime is not installed.
    """
    try:
        ort: Any = import_module("onnxruntime")
    except ImportError as error:
        raise EgraphFusionError(
            "bench --against onnxruntime needs onnxruntime: pip install onnxruntime"
        ) from error
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    # Its spinning threads would take the core of whoever runs next.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    try:
        session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its own classes, which it does not export
        raise EgraphFusionError(f"onnxruntime does not take this model: {error}") from error
    return lambda feeds: list(session.run(None, dict(feeds)))


def interleave(
    runs: Mapping[str, Callable[[], object]], rounds: int, pause: float = 0.01
) -> dict[str, list[float]]:
    """Time each function once a round, in an order that turns, with a pause between; seconds."""
    names = list(runs)
    times: dict[str, list[float]] = {n: [] for n in names}
    for f in runs.values():
        f()
    for r in range(rounds):
        for name in names if r % 2 == 0 else reversed(names):
            time.sleep(pause)
            start = time.perf_counter()
            runs[name]()
            times[name].append(time.perf_counter() - start)
    return times


def before_and_after(before: Session, after: Session, feeds: Feeds, rounds: int) -> list[float]:
    """Return the median seconds of a run of two sessions, timed in turns."""
    sessions = {"before": before, "after": after}
    runs = {n: lambda s=s: s.run(None, feeds) for n, s in sessions.items()}
    return [statistics.median(t) for t in interleave(runs, rounds).values()]


def measure(
    session: Session,
    model: str | onnx.ModelProto,
    feeds: Feeds,
    against: str | None = None,
    threads: int | None = None,
    rounds: int = 15,
) -> BenchResult:
    """Time `session` on `feeds`, interleaved with the peer `against` ("onnxruntime") if given."""
    count = threads or os.cpu_count() or 1
    runs: dict[str, Callable[[], object]] = {"own": lambda: session.run(None, feeds)}
    worst: float | None = None
    if against is not None:
        if against != "onnxruntime":
            raise EgraphFusionError(f"bench compares against 'onnxruntime', not {against!r}")
        source = model if isinstance(model, str) else model.SerializeToString()
        peer = onnxruntime_runner(source, count)
        runs["peer"] = lambda: peer(feeds)
        worst = _worst(session.run(None, feeds), peer(feeds))
    times = interleave(runs, rounds)
    own = statistics.median(times["own"])
    if against is None:
        return BenchResult(own * 1e3, None, None, None, None, count, rounds)
    ratio = statistics.median(p / o for p, o in zip(times["peer"], times["own"], strict=True))
    peer_ms = statistics.median(times["peer"]) * 1e3
    return BenchResult(own * 1e3, against, peer_ms, ratio, worst, count, rounds)


def _worst(own: list[Any], peer: list[Any]) -> float:
    from egraph_fusion.convert.check import difference

    return max(
        (
            difference("", np.asarray(b), np.asarray(a)).worst
            for a, b in zip(own, peer, strict=True)
        ),
        default=0.0,
    )
