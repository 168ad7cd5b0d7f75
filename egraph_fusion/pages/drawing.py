"""A graph's fusion blocks as a drawing: boxes coloured by mapping type, values as edges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from egraph_fusion.fusion.mapping import COMPLEXITY
from egraph_fusion.fusion.plan import Block, Plan
from egraph_fusion.pages.document import element
from egraph_fusion.pages.layered import layered

LINES = 8
"""Operators that a box names; the rest are counted."""
MAX_BOXES = 1200
"""Beyond that a drawing would help nobody; the page says so instead."""
_CHARACTER, _LINE, _PADDING = 7.0, 15.0, 8.0


@dataclass(frozen=True, slots=True)
class _Box:
    lines: tuple[tuple[str, str], ...]
    kind: str
    note: str

    @property
    def size(self) -> tuple[float, float]:
        longest = max(len(text) for text, _ in self.lines)
        return longest * _CHARACTER + 2 * _PADDING, len(self.lines) * _LINE + _PADDING


def draw(plan: Plan) -> Element:
    """Return the plan's blocks between the graph's inputs and outputs as a figure.

    Nodes that rewriting made are bold; their rules are in the box's tooltip.
    """
    graph = plan.graph
    if len(plan.blocks) > MAX_BOXES:
        return element("p", f"{len(plan.blocks)} blocks are too many to draw.", class_="soft")
    read = {v for b in plan.blocks for v in b.inputs} | set(graph.outputs)
    inputs = [v for v in graph.inputs if v in read]
    boxes = [_port(v, str(graph.types[v])) for v in inputs]
    boxes += [_block(i, b) for i, b in enumerate(plan.blocks)]
    maker = {v: i for i, v in enumerate(inputs)}
    edges: dict[tuple[int, int], str] = {}
    for i, b in enumerate(plan.blocks, start=len(inputs)):
        for v in b.inputs:
            if v in maker:
                edges.setdefault((maker[v], i), v)
        maker |= {o: i for n in b.nodes for o in n.outputs if o}
    for v in graph.outputs:
        if v in maker:
            edges[maker[v], len(boxes)] = v
            boxes.append(_port(v, str(graph.types[v])))
    return _figure(boxes, edges)


def _figure(boxes: Sequence[_Box], edges: dict[tuple[int, int], str]) -> Element:
    found = layered([b.size for b in boxes], list(edges))
    view = f"0 0 {found.width:.0f} {found.height:.0f}"
    chart = element("svg", width=round(found.width), height=round(found.height), viewBox=view)
    for route, (ends, value) in zip(found.routes, edges.items(), strict=True):
        top = found.centres[ends[0]][1] + boxes[ends[0]].size[1] / 2
        bottom = found.centres[ends[1]][1] - boxes[ends[1]].size[1] / 2
        points = ((route[0][0], top), *route[1:-1], (route[-1][0], bottom))
        chart.append(element("path", element("title", value), d=_curve(points), class_="edge"))
    for box, (x, y) in zip(boxes, found.centres, strict=True):
        chart.append(_drawn(box, x, y))
    return element("figure", element("div", chart, class_="drawing"), legend())


def legend() -> Element:
    """Return what the colours of boxes stand for."""
    kinds = [*((t.value, kind_of(t.value)) for t in COMPLEXITY), ("fallback", "opaque")]
    keys = (element("span", element("i", class_=c), name, class_="key") for name, c in kinds)
    return element("figcaption", *keys)


def _drawn(box: _Box, x: float, y: float) -> Element:
    width, height = box.size
    left, top = round(x - width / 2, 1), round(y - height / 2, 1)
    shape = element("rect", x=left, y=top, width=width, height=height, class_=f"box {box.kind}")
    found = element("g", element("title", box.note), shape)
    for k, (line, kind) in enumerate(box.lines):
        at = round(top + _PADDING / 2 + (k + 0.8) * _LINE, 1)
        found.append(element("text", line, x=round(x, 1), y=at, text_anchor="middle", class_=kind))
    return found


def _curve(points: Sequence[tuple[float, float]]) -> str:
    """Return a path of cubic curves that leave and enter their points vertically."""
    x, y = points[0]
    parts = [f"M{x:.1f} {y:.1f}"]
    for nx, ny in points[1:]:
        middle = (y + ny) / 2
        parts.append(f"C{x:.1f} {middle:.1f} {nx:.1f} {middle:.1f} {nx:.1f} {ny:.1f}")
        x, y = nx, ny
    return "".join(parts)


def _port(value: str, kind: str) -> _Box:
    return _Box(((_clipped(value), ""), (_clipped(kind), "small soft")), "port", f"{value}: {kind}")


def _block(number: int, block: Block) -> _Box:
    shown = [(n.op, "made" if n.rules else "") for n in block.nodes[:LINES]]
    left = len(block.nodes) - len(shown)
    lines = [(_clipped(op), kind) for op, kind in shown] + [(f"+ {left} more", "soft")] * (left > 0)
    kind = "opaque" if block.opaque else kind_of(block.mapping_type.value)
    notes = [f"block {number}, {block.mapping_type.value}"]
    notes += [f"{n.label()}{_made_by(n.rules)}" for n in block.nodes]
    return _Box(tuple(lines), kind, "\n".join(notes))


def _made_by(rules: Sequence[str]) -> str:
    return f", made by {', '.join(rules)}" if rules else ""


def kind_of(mapping_type: str) -> str:
    """Return the class of the page's style that colours a mapping type."""
    return mapping_type.lower().replace(" ", "-")


def _clipped(text: str, limit: int = 28) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "\N{HORIZONTAL ELLIPSIS}"
