"""Pages: drawings keep their promises, and text of a model never becomes markup."""

from __future__ import annotations

from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

import egraph_fusion as ef
from egraph_fusion.pages import layered as layout
from egraph_fusion.pages.charts import Axis, Point, bars, line_chart, roofline
from egraph_fusion.pages.document import document, element, facts
from egraph_fusion.pages.drawing import draw
from egraph_fusion.pages.layered import Drawing, layered
from egraph_fusion.pages.table import Cell, table

HOSTILE = "</script><b a='1' c=\"2\">&amp;<!--\x00\x1b\ud800"


@st.composite
def graphs(draw_: st.DrawFn) -> tuple[list[tuple[float, float]], list[tuple[int, int]]]:
    """Boxes of several sizes and edges between them, without cycles."""
    n = draw_(st.integers(0, 12))
    size = st.tuples(st.integers(1, 90).map(float), st.integers(1, 60).map(float))
    sizes = draw_(st.lists(size, min_size=n, max_size=n))
    pairs = [(a, b) for b in range(n) for a in range(b)]
    edges = draw_(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    return sizes, edges


def overlaps(found: Drawing, sizes: list[tuple[float, float]]) -> list[tuple[int, int]]:
    """Pairs of boxes that share some area."""
    return [
        (i, j)
        for j in range(len(sizes))
        for i in range(j)
        if abs(found.centres[i][0] - found.centres[j][0]) < (sizes[i][0] + sizes[j][0]) / 2 - 1e-6
        and abs(found.centres[i][1] - found.centres[j][1]) < (sizes[i][1] + sizes[j][1]) / 2 - 1e-6
    ]


@given(graphs())
def test_boxes_lie_apart_inside_and_edges_lead_down(
    graph: tuple[list[tuple[float, float]], list[tuple[int, int]]],
) -> None:
    sizes, edges = graph
    found = layered(sizes, edges)
    assert not overlaps(found, sizes)
    for (x, y), (w, h) in zip(found.centres, sizes, strict=True):
        assert w / 2 - 1e-6 <= x <= found.width - w / 2 + 1e-6
        assert h / 2 - 1e-6 <= y <= found.height - h / 2 + 1e-6
    for (a, b), route in zip(edges, found.routes, strict=True):
        assert (route[0], route[-1]) == (found.centres[a], found.centres[b])
        assert all(p[1] < q[1] for p, q in pairwise(route))


def test_a_chain_is_drawn_as_a_straight_line() -> None:
    found = layered([(30.0, 10.0), (80.0, 10.0), (10.0, 10.0)], [(0, 1), (1, 2)])
    assert len({round(x, 6) for x, _ in found.centres}) == 1


def test_cycles_and_unknown_boxes_are_refused() -> None:
    for edges in ([(1, 0)], [(0, 0)], [(0, 5)]):
        with pytest.raises(ValueError, match="lower to higher"):
            layered([(1.0, 1.0)] * 2, edges)


@given(st.lists(st.integers(-50, 50).map(float), min_size=1, max_size=9))
def test_places_are_the_nearest_that_keep_order(wanted: list[float]) -> None:
    widths = [10.0] * len(wanted)
    xs = [0.0] * len(wanted)
    layout.spread(range(len(wanted)), wanted, widths, xs)
    apart = 10.0 + layout.GAP
    levels = [x - apart * k for k, x in enumerate(xs)]
    targets = [w - apart * k for k, w in enumerate(wanted)]
    np.testing.assert_allclose(levels, isotonic(targets), atol=1e-9)


def isotonic(targets: list[float]) -> list[float]:
    """Least-squares nondecreasing fit by the min-max formula: max over i<=k, min over j>=k."""
    n = len(targets)
    mean = [
        [float(np.mean(targets[i : j + 1])) if i <= j else 0.0 for j in range(n)] for i in range(n)
    ]
    return [max(min(mean[i][j] for j in range(k, n)) for i in range(k + 1)) for k in range(n)]


class Reader(HTMLParser):
    """Collects the tags and the text of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.values: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag and its attributes."""
        self.tags.append(tag)
        self.values += [v or "" for _, v in attrs]

    def handle_data(self, data: str) -> None:
        """Note a piece of text."""
        self.texts.append(data)


def test_text_never_becomes_markup() -> None:
    page = Reader()
    page.feed(document(HOSTILE, facts([(HOSTILE, HOSTILE)]), element("p", HOSTILE, title=HOSTILE)))
    shown = HOSTILE.replace("\x00", "\ufffd").replace("\x1b", "\ufffd").replace("\ud800", "\ufffd")
    assert page.texts.count(shown) == 5
    assert shown in page.values
    assert page.tags.count("script") == 1
    assert "b" not in page.tags


def test_a_page_loads_nothing() -> None:
    text = document("t", element("p", "x"))
    assert "http://" not in text
    assert "https://" not in text
    assert "default-src 'none'" in text


def test_table_cells_carry_what_they_are_sorted_by() -> None:
    found = table(["n", "x", "s"], [[1234567, 0.5, "a"], [Cell("two", 2.0), None, "b"]])
    cells = list(found.iter("td"))
    assert [c.text for c in cells] == ["1,234,567", "0.5", "a", "two", "", "b"]
    assert [c.get("data-value") for c in cells] == ["1234567", "0.5", None, "2.0", None, None]


@pytest.mark.parametrize(
    ("axis", "ticks"),
    [
        (Axis("x", 0, 10), [0, 2, 4, 6, 8, 10]),
        (Axis("x", 0, 430), [0, 100, 200, 300, 400]),
        (Axis("x", 0, 1), [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (Axis("x", 0.1, 1000, logarithmic=True), [0.1, 1, 10, 100, 1000]),
    ],
)
def test_ticks_are_round_numbers(axis: Axis, ticks: list[float]) -> None:
    assert list(axis.ticks()) == pytest.approx(ticks)


def test_a_point_on_the_roof_is_drawn_on_the_roof() -> None:
    chart = roofline([Point(1.0, 1e10, "memory", "one-to-one")], 1e12, 1e10)
    corner = next(e for e in chart.iter("polyline")).get("points", "").split()
    dot = next(e for e in chart.iter("circle"))
    (x0, y0), (x1, y1) = (tuple(map(float, c.split(","))) for c in corner[:2])
    x, y = float(dot.get("cx", "")), float(dot.get("cy", ""))
    assert y == pytest.approx(y0 + (y1 - y0) * (x - x0) / (x1 - x0), abs=0.2)


def test_charts_of_nothing_are_empty_not_errors() -> None:
    assert not list(line_chart([], "x", "y").iter("circle"))
    assert not list(bars({}).iter("rect"))
    assert not list(roofline([], 1e12, 1e10).iter("circle"))


def test_drawing_shows_blocks_ports_and_hostile_names() -> None:
    node = helper.make_node("Relu", ["x"], [HOSTILE.replace("\ud800", "")])
    out = helper.make_node("Sum", [node.output[0], "x"], ["y"])
    info = helper.make_tensor_value_info
    ends = (info("x", TensorProto.FLOAT, [2, 3]), info("y", TensorProto.FLOAT, [2, 3]))
    graph = helper.make_graph([node, out], "g", [ends[0]], [ends[1]])
    plan = ef.plan(ef.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])))
    figure = draw(plan)
    texts = [e.text for e in figure.iter("text")]
    assert texts == ["x", "float32[2,3]", "Relu", "Sum", "y", "float32[2,3]"]
    assert len(list(figure.iter("path"))) == 2
    kinds = [e.get("class", "").split()[-1] for e in figure.iter("rect")]
    assert kinds == ["port", "one-to-one", "port"]
