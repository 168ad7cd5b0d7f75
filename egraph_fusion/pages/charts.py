"""Charts as SVG: lines over linear axes, bars, and a roofline over logarithmic axes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from egraph_fusion.pages.document import element

WIDTH, HEIGHT = 640.0, 320.0
LEFT, RIGHT, TOP, BOTTOM = 76.0, 16.0, 14.0, 44.0
BAR = 22.0


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis: what it says, the numbers at its ends, and whether it is logarithmic."""

    label: str
    low: float
    high: float
    logarithmic: bool = False

    def share(self, value: float) -> float:
        """Return where `value` lies between the ends, 0 to 1."""
        if self.logarithmic:
            value, low, high = (math.log10(v) for v in (value, self.low, self.high))
            return (value - low) / (high - low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self) -> Iterator[float]:
        """Yield round numbers: powers of ten, or four to nine multiples of 1, 2 or 5."""
        if self.logarithmic:
            first, last = math.ceil(math.log10(self.low) - 1e-9), math.log10(self.high) + 1e-9
            yield from (10.0**p for p in range(first, math.floor(last) + 1))
            return
        rough = (self.high - self.low) / 5
        power = 10 ** math.floor(math.log10(rough))
        step = next(s * power for s in (1, 2, 5, 10) if s * power >= rough * 0.999)
        first = math.ceil(self.low / step)
        yield from (k * step for k in range(first, math.floor(self.high / step + 1e-9) + 1))


@dataclass(frozen=True, slots=True)
class Point:
    """A point of a roofline: operations a byte, operations a second, its name and its class."""

    intensity: float
    rate: float
    label: str
    kind: str


def line_chart(values: Sequence[float], x_label: str, y_label: str) -> Element:
    """Return a line through `values` at x = 0, 1, 2, ..."""
    x = Axis(x_label, 0, max(len(values) - 1, 1))
    y = Axis(y_label, 0, max(*values, 1) if values else 1)
    chart = _axes(x, y)
    points = [_place(x, y, i, v) for i, v in enumerate(values)]
    chart.append(element("polyline", points=_points(points), class_="line"))
    for (px, py), v in zip(points, values, strict=True):
        dot = element("circle", element("title", f"{v:,.6g}"), cx=px, cy=py, r=3, class_="bar")
        chart.append(dot)
    return chart


def bars(counts: Mapping[str, float], limit: int = 30) -> Element:
    """Return horizontal bars, the longest first, at most `limit` of them."""
    rows = sorted(counts.items(), key=lambda r: (-r[1], r[0]))[:limit]
    most = max((v for _, v in rows), default=1.0) or 1.0
    left = 8 + 7 * max((len(n) for n, _ in rows), default=1)
    chart = _svg(left + 420, BAR * len(rows) + 8)
    for k, (name, value) in enumerate(rows):
        y = BAR * k + 6
        chart.append(element("text", name, x=left - 8, y=y + 12, text_anchor="end"))
        length = max(320 * value / most, 1)
        chart.append(element("rect", x=left, y=y, width=length, height=BAR - 7, class_="bar"))
        chart.append(element("text", f"{value:,.6g}", x=left + length + 6, y=y + 12))
    return chart


def roofline(points: Sequence[Point], peak_rate: float, peak_bandwidth: float) -> Element:
    """Return a roofline plot (Williams, Waterman and Patterson, 2009).

    `peak_rate` is in operations a second, `peak_bandwidth` in bytes a second.
    """
    shown = [p for p in points if p.intensity > 0 and p.rate > 0]
    ridge = peak_rate / peak_bandwidth
    x = _decades("FLOP per byte", [p.intensity for p in shown], [ridge / 10, ridge * 10])
    y = _decades("FLOP per second", [p.rate for p in shown], [peak_rate, peak_rate / 100])
    chart = _axes(x, y)
    first = max(x.low, y.low / peak_bandwidth)
    roof = [(first, first * peak_bandwidth), (ridge, peak_rate), (x.high, peak_rate)]
    path = _points([_place(x, y, *corner) for corner in roof])
    chart.append(element("polyline", points=path, class_="roof"))
    for p in shown:
        px, py = _place(x, y, p.intensity, p.rate)
        note = f"{p.label}: {p.intensity:.3g} FLOP/byte, {p.rate / 1e9:.3g} GFLOP/s"
        dot = element("circle", element("title", note), cx=px, cy=py, r=5, class_=f"dot {p.kind}")
        chart.append(dot)
    return chart


def _decades(label: str, values: Sequence[float], always: Sequence[float]) -> Axis:
    every = [*values, *always]
    low, high = math.floor(math.log10(min(every))), math.ceil(math.log10(max(every)) + 1e-9)
    return Axis(label, 10.0**low, 10.0 ** max(high, low + 1), True)


def _svg(width: float, height: float) -> Element:
    return element(
        "svg", width=width, height=height, viewBox=f"0 0 {width:g} {height:g}", role="img"
    )


def _axes(x: Axis, y: Axis) -> Element:
    chart = _svg(WIDTH, HEIGHT)
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    for tick in y.ticks():
        _, py = _place(x, y, x.low, tick)
        chart.append(element("line", x1=LEFT, y1=py, x2=right, y2=py, class_="grid"))
        chart.append(element("text", short(tick), x=LEFT - 8, y=py + 4, text_anchor="end"))
    for tick in x.ticks():
        px, _ = _place(x, y, tick, y.low)
        chart.append(element("line", x1=px, y1=bottom, x2=px, y2=bottom + 5, class_="axis"))
        chart.append(element("text", short(tick), x=px, y=bottom + 19, text_anchor="middle"))
    chart.append(element("line", x1=LEFT, y1=bottom, x2=right, y2=bottom, class_="axis"))
    chart.append(element("line", x1=LEFT, y1=TOP, x2=LEFT, y2=bottom, class_="axis"))
    middle = (LEFT + right) / 2
    chart.append(
        element("text", x.label, x=middle, y=HEIGHT - 8, text_anchor="middle", class_="soft")
    )
    turned = f"translate(14 {(TOP + bottom) / 2:g}) rotate(-90)"
    chart.append(element("text", y.label, transform=turned, text_anchor="middle", class_="soft"))
    return chart


def _place(x: Axis, y: Axis, vx: float, vy: float) -> tuple[float, float]:
    px = LEFT + x.share(vx) * (WIDTH - RIGHT - LEFT)
    py = HEIGHT - BOTTOM - y.share(vy) * (HEIGHT - BOTTOM - TOP)
    return round(px, 1), round(py, 1)


def _points(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:g},{y:g}" for x, y in points)


def short(value: float) -> str:
    """Print four digits, with an SI prefix from a thousand on: 20k, 3.142M, 1G."""
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor:
            return f"{value / factor:.4g}{prefix}"
    return f"{value:.4g}"
