"""A headless browser for the tests of pages: the document it makes of a file, and a picture."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
BROWSER = next(filter(None, map(shutil.which, NAMES)), None)

needs_browser = pytest.mark.skipif(BROWSER is None, reason="no chromium (apt-get install chromium)")
"""Goes with `@pytest.mark.browser`: CI fails if such a test was skipped."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """What the browser made of a page.

    `dom` is the document after its scripts ran, `messages` what the console said: errors of
    scripts, and what the page's content security policy refused.
    """

    dom: str
    messages: tuple[str, ...]


def render(page: Path, folder: Path) -> Rendered:
    """Open the file `page` without a network; `folder` takes the browser's own files."""
    done = _run(folder, "--dump-dom", "--enable-logging=stderr", page.resolve().as_uri())
    found = re.findall(r"CONSOLE[^\]]*\] (\".*?\"), source:", done.stderr, re.DOTALL)
    return Rendered(done.stdout, tuple(found))


def screenshot(page: Path, picture: Path, width: int = 1200, height: int = 1600) -> None:
    """Write the top of a page, `width` by `height` pixels, as the PNG file `picture`."""
    size = f"--window-size={width},{height}"
    shot = f"--screenshot={picture.resolve()}"
    _run(picture.parent, size, shot, "--hide-scrollbars", page.resolve().as_uri())
    assert picture.read_bytes().startswith(b"\x89PNG")


def _run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    assert BROWSER is not None
    command = [
        BROWSER,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--host-resolver-rules=MAP * ~NOTFOUND",
        "--virtual-time-budget=5000",
        f"--user-data-dir={folder.resolve() / 'browser'}",
        *arguments,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done
