"""The page on one model: before and after, blocks, roofline, growth of the e-graph, rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element

from egraph_fusion.fusion.plan import Plan
from egraph_fusion.pages.charts import Point, bars, line_chart, roofline, short
from egraph_fusion.pages.document import Child, document, element, facts, section
from egraph_fusion.pages.drawing import draw, kind_of
from egraph_fusion.pages.table import Cell, table

if TYPE_CHECKING:
    from egraph_fusion.convert.model_report import Measurement, ModelReport
    from egraph_fusion.optimizer import Report
    from egraph_fusion.runtime.session import ProfileStep

MAX_REASONS = 200
"""Pairs of neighbouring blocks whose reason is listed."""
MAX_BRIEF = 250
"""Blocks that are drawn on a page of many models."""
MAX_BEFORE = 600
"""Nodes of the original graph that are drawn; a larger one is described by its operators."""


def page(found: ModelReport) -> str:
    """Return the page's text."""
    return document(found.name, *sections(found))


def sections(found: ModelReport) -> Iterator[Element]:
    """Yield what the page shows, from the summary to the details."""
    yield _summary(found)
    yield _before_and_after(found)
    yield _graphs(found)
    yield _launches(found)
    if found.measured is not None:
        yield _roofline(found.measured)
    yield _saturation(found.optimized.report)
    yield _made(found.after)
    yield _why_not(found.after)


def brief(found: ModelReport) -> Iterator[Element]:
    """Yield what a page on many models shows of each: what does not need measuring."""
    yield _before_and_after(found)
    if len(found.after.blocks) <= MAX_BRIEF:
        yield section("Fusion blocks", draw(found.after))
    yield _saturation(found.optimized.report)
    yield _made(found.after)


def _summary(found: ModelReport) -> Element:
    report = found.optimized.report
    rows: list[tuple[str, Child]] = [
        ("FLOPs", change(report.flops_before, report.flops_after)),
        ("operators", change(report.ops_before, report.ops_after)),
        ("launches", f"{len(found.before.blocks):,} → {len(found.after.blocks):,}"),
        ("bytes between kernels", _bytes_change(found)),
        ("numerics", found.numerics),
    ]
    if found.measured is not None:
        before, after = (total(s) for s in (found.measured.before, found.measured.after))
        rows.append(("time in kernels", f"{before * 1e3:.3g} → {after * 1e3:.3g} ms"))
    return facts(rows)


def total(steps: Sequence[ProfileStep]) -> float:
    """Return the seconds of all launches."""
    return sum(s.seconds for s in steps)


def change(before: int, after: int) -> str:
    """Print two counts and by how much the second is smaller."""
    if before == after:
        return f"{short(before)} (unchanged)"
    share = f" ({(after - before) / before:+.1%})" if before else ""
    return f"{short(before)} → {short(after)}{share}"


def _bytes_change(found: ModelReport) -> str:
    return change(found.before.intermediate_bytes_before, found.after.intermediate_bytes_after)


def _before_and_after(found: ModelReport) -> Element:
    report = found.optimized.report
    counts = table(
        ["", "before", "after"],
        [
            [what, getattr(report, f"{key}_before"), getattr(report, f"{key}_after")]
            for what, key in (
                ("FLOPs", "flops"),
                ("of contractions", "contraction_flops"),
                ("of the rest", "other_flops"),
                ("operators", "ops"),
                ("bytes written by operators", "bytes"),
            )
        ],
    )
    before, after = found.operators
    names = sorted(before | after, key=lambda n: (-before[n], n))
    rows = [[n, before[n], after[n], after[n] - before[n]] for n in names]
    operators = table(["operator", "before", "after", "change"], rows, filterable=True)
    return section("Before and after", counts, element("h3", "Operators"), operators)


def _graphs(found: ModelReport) -> Element:
    text = "One box is one launch; operators that rewriting made are bold. Tooltips name the nodes."
    body: list[Child] = [element("p", text, class_="soft"), draw(found.after)]
    if len(found.before.blocks) <= MAX_BEFORE:
        summary = element("summary", "The graph as it came, node by node")
        body.append(element("details", summary, draw(found.before)))
    return section("Fusion blocks", *body)


def _launches(found: ModelReport) -> Element:
    if found.measured is None:
        blocks = [
            [i, b.mapping_type.value, b.label(), ", ".join(b.inputs), ", ".join(b.outputs)]
            for i, b in enumerate(found.after.blocks)
        ]
        why = element("p", f"Not measured: {found.why_unmeasured}.", class_="soft")
        columns = ["block", "mapping type", "operators", "inputs", "outputs"]
        return section("Blocks", why, table(columns, blocks, filterable=True))
    measured = found.measured
    whole = total(measured.after) or 1.0
    rows: list[list[Child | Cell]] = [
        [
            i,
            s.mapping_type,
            Cell(_nodes(s)),
            s.executor,
            s.seconds * 1e6,
            Cell(f"{s.seconds / whole:.1%}", s.seconds / whole),
            s.flops,
            s.bytes,
            s.flops / s.seconds / 1e9 if s.seconds else 0.0,
            s.reason,
        ]
        for i, s in enumerate(measured.after)
    ]
    columns = ["launch", "mapping type", "nodes", "executor", "µs", "share", "FLOPs", "bytes"]
    note = f"Medians on {measured.peaks.threads} threads; bytes are those read and written."
    body = table([*columns, "GFLOP/s", "note"], rows, filterable=True)
    return section("Launches", element("p", note, class_="soft"), body)


def _nodes(step: ProfileStep) -> Child:
    if len(step.nodes) < 4:
        return ", ".join(step.nodes)
    summary = element("summary", f"{step.nodes[0]} and {len(step.nodes) - 1} more")
    return element("details", summary, ", ".join(step.nodes))


def _roofline(measured: Measurement) -> Element:
    peaks = measured.peaks
    points = [
        Point(s.flops / s.bytes, s.flops / s.seconds, f"launch {i}", kind_of(s.mapping_type))
        for i, s in enumerate(measured.after)
        if s.bytes and s.seconds
    ]
    said = (
        f"Measured on {peaks.threads} threads: {peaks.flops / 1e9:.3g} GFLOP/s of float32 "
        f"multiply-adds, {peaks.bandwidth / 1e9:.3g} GB/s of memory. A launch above the slope "
        "finds its data in a cache."
    )
    chart = roofline(points, peaks.flops, peaks.bandwidth)
    return section("Roofline", element("figure", chart, element("figcaption", said)))


def _saturation(report: Report) -> Element:
    ended = "saturated" if report.saturated else f"stopped by {report.stop_reason}"
    gap = report.extraction_gap
    said = facts(
        [
            ("e-graph", ended),
            ("iterations", report.iterations),
            ("e-classes", f"{report.eclasses:,}"),
            ("e-nodes", f"{report.enodes:,}"),
            (
                "extraction gap",
                "unknown" if gap is None else f"{gap:.2%}" if gap else "0 (optimal)",
            ),
            ("seconds", ", ".join(f"{k} {v:.3g}" for k, v in report.seconds.items())),
        ]
    )
    body: list[Child] = [said]
    if report.growth:
        body += [
            element("h3", "Growth"),
            line_chart(report.growth, "iteration", "e-nodes of operators"),
        ]
    body += [element("h3", "Rule hits"), *_rules(report)]
    body += [element("h3", "Assumptions"), _listed(report.assumptions, "None was needed.")]
    if report.notes:
        body += [element("h3", "Notes"), _listed(report.notes, "")]
    return section("Equality saturation", *body)


def _rules(report: Report) -> Iterator[Child]:
    hits: Mapping[str, int] = {r: n for r, n in report.rule_hits.items() if n}
    if not hits:
        yield element("p", "No rule matched.", class_="soft")
        return
    yield bars(hits)
    rows = [[r, n, report.rule_uses.get(r, 0)] for r, n in hits.items()]
    yield table(["rule", "hits", "uses in the result"], rows, filterable=True)


def _listed(texts: Sequence[str], otherwise: str) -> Element:
    if not texts:
        return element("p", otherwise, class_="soft")
    return element("ul", *(element("li", t) for t in texts))


def _made(plan: Plan) -> Element:
    made = [[n.label(), n.op, ", ".join(n.rules)] for n in plan.graph.nodes if n.rules]
    if not made:
        return section("New nodes", element("p", "Rewriting made no new node.", class_="soft"))
    return section("New nodes", table(["node", "operator", "made by"], made, filterable=True))


def _why_not(plan: Plan) -> Element:
    rows: list[list[str]] = []
    seen: set[tuple[int, int]] = set()
    for n in plan.graph.nodes:
        for o in filter(None, n.outputs):
            for reader in plan.graph.consumers.get(o, ()):
                ends = plan.block_of[o], plan.block_of[next(filter(None, reader.outputs))]
                if ends[0] != ends[1] and ends not in seen and len(seen) < MAX_REASONS:
                    seen.add(ends)
                    rows.append([n.label(), reader.label(), plan.why_not(n, reader)])
    if not rows:
        return section("Why not fused", element("p", "Everything is in one block.", class_="soft"))
    return section(
        "Why not fused", table(["producer", "consumer", "reason"], rows, filterable=True)
    )
