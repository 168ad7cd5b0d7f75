"""The page on one exploration: growth, rules, what did not fire, classes, the cheapest term."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element

from egraph_fusion.errors import OptimizeError
from egraph_fusion.experiment.classes import EClass
from egraph_fusion.experiment.extraction import SHORT
from egraph_fusion.ir.graph import Graph
from egraph_fusion.ir.text import print_graph
from egraph_fusion.pages.charts import line_chart
from egraph_fusion.pages.document import Child, document, element, facts, section
from egraph_fusion.pages.table import Cell, table
from egraph_fusion.rulesets import STRUCTURAL
from egraph_fusion.rulesets.rule import Rule

if TYPE_CHECKING:
    from egraph_fusion.experiment.exploration import Exploration

MAX_CLASSES = 1500
"""Classes that are listed; those with most terms come first where there are more."""
MAX_TERMS = 12
"""Terms of a class that are shown at once; the others unfold."""


def page(found: Exploration) -> str:
    """Return the page's text."""
    title = f"Exploration of {found.graph.name or 'a graph'}"
    return document(title, *_sections(found))


def _sections(found: Exploration) -> Iterator[Element]:
    yield _summary(found)
    yield _explored(found)
    yield _growth(found)
    yield _rules(found)
    yield _idle(found)
    yield _classes(found)


def _summary(found: Exploration) -> Element:
    ending = "saturated" if found.saturated else f"stopped: {found.stop_reason}"
    return facts(
        [
            ("e-nodes", f"{found.enodes:,}"),
            ("classes", f"{found.eclasses:,}"),
            ("iterations", f"{found.iterations:,} ({ending})"),
            ("rules that fired", f"{len(found.hits):,} of {len(found.rules):,}"),
            ("seconds in rules", f"{sum(found.seconds.values()):.3g}"),
            ("numerics", found.numerics),
        ]
    )


def _explored(found: Exploration) -> Element:
    before = element("h3", "What was explored")
    after = element("h3", "The cheapest equal form, by FLOPs")
    try:
        best = found.extract()
    except OptimizeError as e:
        reason = element("p", f"Nothing can be extracted: {e}", class_="failed")
        return section("Before and after", before, _graph(found.graph), after, reason)
    made = ", ".join(f"{rule} ({n})" for rule, n in best.uses.items())
    if len(found.graph.nodes) <= SHORT:
        texts = element("pre", "\n".join(found.expressions))
        return section("Before and after", before, texts, after, element("pre", str(best)))
    counts = f"{best.flops:,} FLOPs, {best.totals.ops:,} operators"
    rules = element("p", f"{counts}; made by {made or 'no rule'}.")
    shown = (before, _graph(found.graph), after, rules, _graph(best.graph))
    return section("Before and after", *shown)


def _graph(graph: Graph) -> Element:
    """Return a graph's text, folded."""
    title = (
        f"{len(graph.nodes):,} operators: {', '.join(graph.inputs)} → {', '.join(graph.outputs)}"
    )
    text = element("pre", print_graph(graph, data=False))
    return element("details", element("summary", title), text)


def _growth(found: Exploration) -> Element:
    if len(found.growth) < 2:
        return section("Growth", element("p", "There was one iteration only.", class_="soft"))
    caption = "Applied operators after each iteration; rules that simplify come first, then all."
    chart = line_chart(found.growth, "iteration", "applied operators")
    return section("Growth", element("figure", chart, element("figcaption", caption)))


def _rules(found: Exploration) -> Element:
    by_name = {r.name: r for r in found.rules}
    structural = frozenset(STRUCTURAL)
    rows = [
        (name, _family(by_name[name], structural), str(by_name[name]).partition(": ")[2], hits)
        for name, hits in found.hits.items()
        if name in by_name
    ]
    columns = ["rule", "family", "formula", "hits", "milliseconds"]
    timed = [(*row, 1e3 * found.seconds.get(row[0], 0.0)) for row in rows]
    shown = [(n, f, element("code", text), h, t) for n, f, text, h, t in timed]
    if not shown:
        return section("Rules that fired", element("p", "No rule fired.", class_="soft"))
    return section("Rules that fired", table(columns, shown, filterable=True))


def _family(rule: Rule, structural: frozenset[Rule]) -> str:
    return rule.family or ("structural" if rule in structural else "own")


def _idle(found: Exploration) -> Element:
    """Say what kept back each rule whose operators all occur."""
    rows = [
        (m.rule, m.kind, element("code", m.node), "; ".join(m.reasons)) for m in found.near_misses()
    ]
    if not rows:
        return section("Near misses", element("p", "There are none.", class_="soft"))
    lead = "Rules that did not fire although their operators occur: where each came nearest."
    columns = ["rule", "kept back by", "nearest at", "why"]
    return section("Near misses", element("p", lead), table(columns, rows, filterable=True))


def _classes(found: Exploration) -> Element:
    every = sorted(found.classes, key=lambda c: (-len(c.expressions), c.id))
    chosen = every[:MAX_CLASSES]
    left = len(every) - len(chosen)
    note = f" The {left:,} classes with fewest terms are left out." if left else ""
    lead = f"Every row holds terms that the rules made equal.{note}"
    columns = ["class", "type", "elements in", "names", "count", "terms"]
    rows = [_class_row(c) for c in chosen]
    return section("Classes", element("p", lead), table(columns, rows, filterable=True))


def _class_row(c: EClass) -> tuple[Child | Cell, ...]:
    shown = f"%{c.id}" + (" (constant)" if c.constant else "")
    return (
        Cell(shown, c.id),
        element("code", str(c.type)),
        c.bounds,
        ", ".join(c.names),
        len(c.expressions),
        _terms(c.terms),
    )


def _terms(terms: tuple[str, ...]) -> Element:
    first = [element("div", element("code", t)) for t in terms[:MAX_TERMS]]
    rest = [element("div", element("code", t)) for t in terms[MAX_TERMS:]]
    if not rest:
        return element("div", *first)
    more = element("details", element("summary", f"{len(rest)} more"), *rest)
    return element("div", *first, more)
