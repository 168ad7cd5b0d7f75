"""One model in depth: what rewriting, fusion and compilation made of it, as data for a page."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from egraph_fusion import pipeline
from egraph_fusion.arguments import checked
from egraph_fusion.convert.peaks import Peaks, measure_peaks
from egraph_fusion.convert.places import output_apart
from egraph_fusion.convert.report_page import page
from egraph_fusion.errors import EgraphFusionError, ModelError
from egraph_fusion.frontend import load
from egraph_fusion.frontend.input_shapes import fix_input_shapes
from egraph_fusion.frontend.inputs import example_inputs
from egraph_fusion.frontend.source import Source
from egraph_fusion.fusion.plan import Plan, make_block, order_blocks
from egraph_fusion.ir.graph import Graph
from egraph_fusion.optimizer import Optimized
from egraph_fusion.output_files import write_text
from egraph_fusion.runtime.session import ProfileStep

if TYPE_CHECKING:
    import onnx

RUNS = 9
"""Profiled runs; each launch's time is their median."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """Launches of the model as it came and as it is now, and the machine's peaks."""

    before: tuple[ProfileStep, ...]
    after: tuple[ProfileStep, ...]
    peaks: Peaks


@dataclass(frozen=True, slots=True)
class ModelReport:
    """What is known of one model.

    `before` has one block per node; `measured` is None where `why_unmeasured` says why.
    """

    name: str
    numerics: str
    before: Plan
    optimized: Optimized
    after: Plan
    measured: Measurement | None
    why_unmeasured: str

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain values: the report of `optimize`, blocks, seconds."""
        found: dict[str, Any] = {
            **self.optimized.report.to_dict(),
            "blocks_before": len(self.before.blocks),
            "blocks_after": len(self.after.blocks),
            "intermediate_bytes_before": self.before.intermediate_bytes_before,
            "intermediate_bytes_after": self.after.intermediate_bytes_after,
        }
        if self.measured is not None:
            found["seconds_before"] = sum(s.seconds for s in self.measured.before)
            found["seconds_after"] = sum(s.seconds for s in self.measured.after)
        return found

    @property
    def operators(self) -> tuple[Counter[str], Counter[str]]:
        """How often each operator occurs before and after."""
        before, after = self.before.graph.nodes, self.after.graph.nodes
        return Counter(n.op for n in before), Counter(n.op for n in after)


@checked(ModelError, least={"threads": 1})
def report(
    model: Source,
    path: str | Path,
    *,
    numerics: str = "finite",
    threads: int | None = None,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    measure: bool = True,
) -> ModelReport:
    """Write a self-contained HTML page on `model` to `path` and return what it shows.

    With `measure`, the model is compiled with and without rewriting and timed launch by launch with
    `threads` threads; symbolic shapes must be fixed by `shapes` for that.  Raises ModelError,
    OptimizeError or CompileError; nothing is written then.
    """
    target = output_apart(path, model, error=ModelError)
    found = examine(model, numerics=numerics, threads=threads, shapes=shapes, measure=measure)
    write_text(target, page(found), ModelError)
    return found


def examine(
    model: str | Path | onnx.ModelProto | Graph,
    *,
    numerics: str = "finite",
    threads: int | None = None,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    measure: bool = True,
) -> ModelReport:
    """Return what `report` shows, without writing a page; parameters and errors as there."""
    graph = model if isinstance(model, Graph) else load(model)
    if shapes:
        graph = fix_input_shapes(graph, shapes)
    optimized = pipeline.optimize(graph, numerics=numerics)
    measured, why_not = None, "it was not asked for"
    if measure:
        measured, why_not = _measured(graph, optimized.graph, threads)
    name = Path(model).name if isinstance(model, str | Path) else graph.name
    before, after = unfused(graph), pipeline.plan(optimized.graph)
    return ModelReport(name, numerics, before, optimized, after, measured, why_not)


def unfused(graph: Graph) -> Plan:
    """Return the plan in which each node is a block of its own."""
    blocks = order_blocks(graph, [[n] for n in graph.nodes])
    return Plan(graph, tuple(make_block(graph, b.nodes) for b in blocks), "none")


def _measured(before: Graph, after: Graph, threads: int | None) -> tuple[Measurement | None, str]:
    symbolic = [v for v in before.inputs if before.types[v].static_shape is None]
    if symbolic:
        return None, f"the shape of input {symbolic[0]!r} is not fixed"
    count = threads or os.cpu_count() or 1
    try:
        feeds = example_inputs(before)
        launches = [
            tuple(pipeline.compile(g, threads=count, optimize=False).profile(feeds, RUNS))
            for g in (before, after)
        ]
        return Measurement(launches[0], launches[1], measure_peaks(count)), ""
    except EgraphFusionError as error:
        return None, str(error)
