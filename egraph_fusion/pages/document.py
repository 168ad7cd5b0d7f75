"""An HTML document of elements, whose text and attributes are escaped by the standard library."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.resources import files
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

Child = Element | str | int | float | None

# What XML 1.0 and HTML do not allow in text: a name from a model may hold it.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


def element(tag: str, *children: Child, **attributes: str | float) -> Element:
    """Return an element; `class_` stands for class, other underscores for hyphens."""
    named = {k.rstrip("_").replace("_", "-"): _shown(v) for k, v in attributes.items()}
    found = Element(tag, named)
    last: Element | None = None
    for child in children:
        if isinstance(child, Element):
            found.append(child)
            last = child
        elif child is not None and last is None:
            found.text = (found.text or "") + _shown(child)
        elif child is not None and last is not None:
            last.tail = (last.tail or "") + _shown(child)
    return found


def section(title: str, *children: Child) -> Element:
    """Return a section under a heading."""
    return element("section", element("h2", title), *children)


def facts(rows: Sequence[tuple[str, Child]]) -> Element:
    """Return a list of names and values."""
    found = element("dl", class_="facts")
    for name, value in rows:
        found.append(element("div", element("dt", name), element("dd", value)))
    return found


def document(title: str, *body: Child) -> str:
    """Return the text of a page that needs no other file.

    The style and the script (sorting and filtering of tables) are the package's own; text of the
    body can't become markup or script.
    """
    folder = files("egraph_fusion.pages")
    policy = (
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
    )
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", title),
        element("style", (folder / "page.css").read_text(encoding="utf-8")),
    )
    script = element("script", (folder / "page.js").read_text(encoding="utf-8"))
    main = element("main", element("h1", title), *body)
    root = element("html", head, element("body", main, script), lang="en")
    return "<!DOCTYPE html>\n" + ElementTree.tostring(root, encoding="unicode", method="html")


def fragment_text(fragment: Element) -> str:
    """Return an element as text that `fragment_of` reads."""
    return ElementTree.tostring(fragment, encoding="unicode")


def fragment_of(text: str) -> Element:
    """Return the element of a text; ValueError if it is none."""
    try:
        return ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise ValueError(f"no fragment of a page: {error}") from error


def _shown(value: str | float) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", str(value))
