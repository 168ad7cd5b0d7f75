"""The page on a batch: every model, its figures, and what can be opened, sorted and filtered."""

from __future__ import annotations

import re
from pathlib import Path

import onnx
import pytest
from browser import needs_browser, render, screenshot
from onnx.helper import make_node
from onnx_models import info, model_of

from egraph_fusion.convert.batch.index_page import DETAILS, PAGE
from egraph_fusion.convert.batch.run import batch

HOSTILE = "<b>'n' & \"m\".onnx"
HOSTILE_SHOWN = "&lt;b&gt;'n' &amp; \"m\".onnx"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three files: one that gets better, one that can't, and one that is no model."""
    folder = tmp_path_factory.mktemp("models")
    twice = [make_node("Neg", ["x"], ["a"], name="first"), make_node("Neg", ["a"], ["b"])]
    better = model_of(
        [*twice, make_node("Relu", ["b"], ["y"])], [info("x", [2, 3])], [info("y", [2, 3])], {}
    )
    alone = model_of(
        [make_node("Relu", ["x"], ["y"])], [info("x", [2, 3])], [info("y", [2, 3])], {}
    )
    onnx.save(better, folder / HOSTILE)
    onnx.save(alone, folder / "alone.onnx")
    (folder / "broken.onnx").write_bytes(b"no model")
    return folder


@pytest.fixture(scope="module")
def out(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that a batch of them has left."""
    found = tmp_path_factory.mktemp("out")
    results = list(batch(models, found, jobs=1, latency=True))
    assert sorted(str(r.status) for r in results) == ["failed", "ok", "ok"]
    return found


def test_the_page_names_every_model_with_its_figures(out: Path) -> None:
    text = (out / PAGE).read_text(encoding="utf-8")
    assert HOSTILE_SHOWN in text
    assert "<b>" not in text
    row = next(r for r in text.split("<tr>") if "'n'" in r)
    assert "18 → 6" in row  # FLOPs of three and of one operator on six elements
    assert "3 → 1" in row
    assert re.search(r"[\d.]+ ms", row)
    failed = next(r for r in text.split("<tr>") if "broken.onnx" in r)
    assert "failed" in failed


def test_details_say_what_made_the_model(out: Path) -> None:
    fragment = (out / DETAILS / f"{HOSTILE}.xml").read_text(encoding="utf-8")
    assert "neg-neg" in fragment
    assert "<svg" in fragment
    assert not (out / DETAILS / "broken.onnx.xml").exists()


def test_a_run_without_news_leaves_the_page(models: Path, out: Path) -> None:
    before = (out / PAGE).stat().st_mtime_ns
    results = list(batch(models, out, jobs=1, latency=True))
    assert sorted(str(r.status) for r in results) == ["failed", "unchanged", "unchanged"]
    assert (out / PAGE).stat().st_mtime_ns == before
    (out / PAGE).unlink()
    list(batch(models, out, jobs=1, latency=True))
    assert HOSTILE_SHOWN in (out / PAGE).read_text(encoding="utf-8")


@needs_browser
@pytest.mark.browser
def test_a_link_opens_the_details(out: Path, tmp_path: Path) -> None:
    script = """<script>
    const link = [...document.querySelectorAll("td a")].find((a) => a.textContent.includes("'n'"));
    const details = document.querySelector(link.getAttribute("href"));
    const before = details.open;
    location.hash = link.getAttribute("href");
    dispatchEvent(new Event("hashchange"));
    document.title = [before, details.open, details.querySelectorAll("svg").length > 0].join(" ");
    </script></body>"""
    file = tmp_path / "page.html"
    text = (out / PAGE).read_text(encoding="utf-8")
    file.write_text(text.replace("</body>", script), encoding="utf-8")
    shown = render(file, tmp_path)
    assert shown.messages == ()
    assert "<title>false true true</title>" in shown.dom


@needs_browser
@pytest.mark.browser
def test_models_can_be_filtered_by_status(out: Path, tmp_path: Path) -> None:
    script = """<script>
    const input = document.querySelector("input.filter");
    input.value = "failed";
    input.dispatchEvent(new Event("input"));
    const rows = [...document.querySelector("table").tBodies[0].rows].filter((r) => !r.hidden);
    document.title = rows.map((r) => r.cells[0].textContent).join(",");
    </script></body>"""
    file = tmp_path / "page.html"
    text = (out / PAGE).read_text(encoding="utf-8")
    file.write_text(text.replace("</body>", script), encoding="utf-8")
    assert "<title>broken.onnx</title>" in render(file, tmp_path).dom
    screenshot(out / PAGE, tmp_path / "page.png")
