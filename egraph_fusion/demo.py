"""The demo: two real models through every stage, each result shown and compared."""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from egraph_fusion import pipeline, terminal
from egraph_fusion.convert.check import difference
from egraph_fusion.frontend import load
from egraph_fusion.frontend.example_models import (
    EXAMPLES,
    example_inputs,
    example_path,
    materialize,
)
from egraph_fusion.runtime import fallback
from egraph_fusion.runtime.session import Session

if TYPE_CHECKING:
    import onnx

Feeds = Mapping[str, NDArray[Any]]


def run_demo() -> None:
    """Show both example models on standard output."""
    for name in EXAMPLES:
        _show_model(name)


def _show_model(name: str) -> None:
    model = materialize(example_path(name))
    feeds = example_inputs(model, 0)
    terminal.show(f"\n=== {name}: {len(model.graph.node)} ONNX nodes ===")
    with _timed("read into the extended computational graph"):
        graph = load(model)
    with _timed("saturated in the e-graph and extracted"):
        found = pipeline.optimize(graph)
    terminal.show(terminal.optimize_table(found.report.to_dict()))
    with _timed("partitioned into fusion blocks"):
        plan = pipeline.plan(found.graph)
    terminal.show(terminal.plan_summary(plan))
    with _timed("compiled to C"):
        session = pipeline.compile(found.graph, optimize=False)
    with _timed("compiled without rewriting, to compare"):
        plain = pipeline.compile(graph, optimize=False)
    with _timed("ran in onnx.reference, the oracle"):
        wanted = _reference(model, feeds)
    _compare(graph.outputs, wanted, session.run(None, feeds), plain.run(None, feeds))
    _latencies(session, plain, feeds)


@contextmanager
def _timed(what: str) -> Generator[None]:
    start = time.perf_counter()
    yield
    terminal.show(f"{what} in {time.perf_counter() - start:.2f} s")


def _reference(model: onnx.ModelProto, feeds: Feeds) -> list[NDArray[Any]]:
    return [np.asarray(r) for r in fallback.reference(model)(feeds)]


def _compare(
    names: Sequence[str],
    wanted: Sequence[NDArray[Any]],
    optimised: Sequence[NDArray[Any]],
    plain: Sequence[NDArray[Any]],
) -> None:
    rows = [
        (n, str(w.shape), difference(n, w, o).worst, difference(n, p, o).worst)
        for n, w, o, p in zip(names, wanted, optimised, plain, strict=True)
    ]
    columns = ("output", "shape", "against onnx.reference", "against the unoptimised model")
    terminal.show(terminal.table("worst difference, as a fraction of the spread", columns, rows))


def _latencies(session: Session, plain: Session, feeds: Feeds) -> None:
    from egraph_fusion.convert.bench import interleave

    runs = {
        "optimised": lambda: session.run(None, feeds),
        "not rewritten": lambda: plain.run(None, feeds),
    }
    times = interleave(runs, rounds=15)
    rows = [(name, float(np.median(t)) * 1e3) for name, t in times.items()]
    steps = session.profile(feeds, runs=3)
    terminal.show(terminal.table("latency, medians of 15 rounds", ("", "ms a run"), rows))
    native = sum(s.executor == "native" for s in steps)
    terminal.show(f"{len(steps)} launches a run: {native} native, {len(steps) - native} fallback")
