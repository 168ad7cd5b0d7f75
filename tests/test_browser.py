"""The browser of the tests sees what a reader would: scripts that ran, and what went wrong."""

from pathlib import Path

import pytest
from browser import needs_browser, render, screenshot

PAGE = """<!doctype html><meta charset="utf-8"><title>t</title>
<meta http-equiv="Content-Security-Policy" content="script-src 'unsafe-inline'; img-src 'none'">
<p id="p">before</p>
<script>document.getElementById("p").textContent = "af" + "ter";</script>
"""


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "page.html"
    path.write_text(PAGE)
    return path


@pytest.mark.browser
@needs_browser
def test_the_document_is_that_after_scripts(page: Path, tmp_path: Path) -> None:
    found = render(page, tmp_path)
    assert '<p id="p">after</p>' in found.dom
    assert found.messages == ()


@pytest.mark.browser
@needs_browser
def test_errors_of_scripts_are_messages(page: Path, tmp_path: Path) -> None:
    page.write_text(PAGE + "<script>nonsense();</script>")
    assert "nonsense is not defined" in " ".join(render(page, tmp_path).messages)


@pytest.mark.browser
@needs_browser
def test_what_the_policy_refuses_is_a_message(page: Path, tmp_path: Path) -> None:
    page.write_text(PAGE + '<img src="https://example.org/a.png">')
    assert "violates" in " ".join(render(page, tmp_path).messages)


@pytest.mark.browser
@needs_browser
def test_a_picture_is_taken(page: Path, tmp_path: Path) -> None:
    screenshot(page, tmp_path / "page.png", 300, 200)
    assert (tmp_path / "page.png").stat().st_size > 500
