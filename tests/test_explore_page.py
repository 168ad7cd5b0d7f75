"""The page of an exploration in a browser: what it shows, that it works alone, and is safe."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest
from browser import needs_browser, render, screenshot

import egraph_fusion as ef
from egraph_fusion.experiment.exploration import Exploration
from egraph_fusion.frontend.example_models import example_path, materialize
from egraph_fusion.rulesets import ops

NASTY = "<script>alert(1)</script>&\"'><img src=x onerror=alert(2)>"


@pytest.fixture(scope="module")
def found() -> Exploration:
    a, b = (ef.tensor(n, (4, 6), lo=0.0) for n in "ab")
    c = ef.tensor("c", (4, 6))
    return ef.explore(ops.sqrt(b) * ops.sqrt(c) + ops.abs(a * a) * (b + c))


@pytest.mark.browser
@needs_browser
def test_the_page_shows_growth_rules_misses_and_classes(found: Exploration, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    found.to_html(page)
    shown = render(page, tmp_path)
    assert shown.messages == ()
    text = html.unescape(re.sub(r"<[^>]+>", " ", shown.dom))
    for name, hits in found.hits.items():
        assert re.search(rf"{re.escape(name)}\b.*\b{hits}\b", text, re.DOTALL)
    assert "(a * a)" in text
    assert "nonneg(b) is not known: c has no known bounds" in text
    assert f"{found.enodes:,}" in text
    assert shown.dom.count("<circle") == len(found.growth)
    rows = shown.dom.count("data-value=")
    assert rows >= len(found.classes)


@pytest.mark.browser
@needs_browser
def test_names_become_neither_markup_nor_script(tmp_path: Path) -> None:
    a, b = ef.tensor(NASTY, (2,), lo=0.0), ef.tensor("b", (2,))
    page = tmp_path / "page.html"
    ef.explore(a * b + b).to_html(page)
    shown = render(page, tmp_path)
    assert shown.messages == ()
    assert "<img" not in shown.dom
    assert shown.dom.count("<script") == 1
    assert html.escape(NASTY, quote=False) in shown.dom


@pytest.mark.browser
@needs_browser
def test_a_picture_of_a_models_page(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    ef.explore(materialize(example_path("squeezenet1.1"))).to_html(page)
    screenshot(page, tmp_path / "page.png")
    assert (tmp_path / "page.png").stat().st_size > 20_000


def test_the_page_needs_no_other_file(found: Exploration, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    found.to_html(page)
    text = page.read_text(encoding="utf-8")
    assert not re.search(r"(src|href)\s*=\s*[\"'](?!#|data:)", text)
    assert "default-src 'none'" in text


def test_a_page_is_not_written_over_a_folder(found: Exploration, tmp_path: Path) -> None:
    with pytest.raises(ef.EgraphFusionError, match="is a directory"):
        found.to_html(tmp_path)
