"""What the page on a batch shows of one model beyond its figures, made where the model is."""

from __future__ import annotations

from egraph_fusion import pipeline
from egraph_fusion.convert.bench import before_and_after
from egraph_fusion.convert.model_report import ModelReport, unfused
from egraph_fusion.convert.report_page import brief
from egraph_fusion.errors import EgraphFusionError
from egraph_fusion.frontend.inputs import example_inputs
from egraph_fusion.fusion.plan import Plan
from egraph_fusion.ir.graph import Graph
from egraph_fusion.optimizer import Optimized
from egraph_fusion.pages.document import element, fragment_text

ROUNDS = 9
"""Rounds in which original and result are timed in turns."""


def details(graph: Graph, found: Optimized, plan: Plan, numerics: str) -> str:
    """Return a fragment of a page: operators, blocks, e-graph, rules and what they made."""
    report = ModelReport("", numerics, unfused(graph), found, plan, None, "")
    return fragment_text(element("div", *brief(report)))


def latencies(before: Graph, after: Graph, numerics: str, notes: list[str]) -> list[float | None]:
    """Return seconds a run of original and result, both compiled; None, and a note, if unknown."""
    try:
        sessions = [pipeline.compile(g, numerics=numerics, optimize=False) for g in (before, after)]
        return [*before_and_after(sessions[0], sessions[1], example_inputs(before), ROUNDS)]
    except EgraphFusionError as error:
        notes.append(f"no latency: {error}")
        return [None, None]
