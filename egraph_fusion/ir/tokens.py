"""The tokens of a line of graph text, and the phrases that every other phrase is made of."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable
from typing import TypeVar

from egraph_fusion.errors import ModelError

_TOKEN = re.compile(
    r"""\s*(?:(?P<string>"(?:[^"\\]|\\.)*")
    |(?P<number>-inf\b|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)
    |(?P<word>[A-Za-z_][A-Za-z0-9_./]*)
    |(?P<mark>//|[\[\](){}:,=+*]))""",
    re.VERBOSE,
)
Token = tuple[str, str]
T = TypeVar("T")


class Line:
    """The tokens of one line, read from the left; errors name the line."""

    def __init__(self, text: str, number: int) -> None:
        self.number = number
        self.tokens: list[Token] = []
        self.at = 0
        position, end = 0, len(text.rstrip())
        while position < end:
            found = _TOKEN.match(text, position)
            if found is None or found.lastgroup is None:
                raise self.error(f"cannot read {text[position : position + 20]!r}")
            self.tokens.append((found.lastgroup, found[found.lastgroup]))
            position = found.end()

    def error(self, message: str) -> ModelError:
        """Return the error to raise for `message`."""
        return ModelError(f"graph text, line {self.number}: {message}")

    def peek(self) -> Token:
        """Return the next token; ("end", "") after the last."""
        return self.tokens[self.at] if self.at < len(self.tokens) else ("end", "")

    def take(self) -> Token:
        """Return the next token and step over it."""
        token = self.peek()
        self.at += 1
        return token

    def accept(self, text: str) -> bool:
        """Step over the unquoted token `text` if it comes next."""
        kind, found = self.peek()
        if kind == "string" or found != text:
            return False
        self.at += 1
        return True

    def expect(self, text: str) -> None:
        """Step over the unquoted token `text`; ModelError if another comes next."""
        if not self.accept(text):
            raise self.error(f"expected {text!r}, found {self.peek()[1]!r}")

    def name(self) -> str:
        """Return a name, plain or quoted; `_` is the absent value."""
        kind, text = self.take()
        if kind == "string":
            return self.unquoted(text)
        if kind != "word":
            raise self.error(f"expected a name, found {text!r}")
        return "" if text == "_" else text

    def string(self) -> str:
        """Return a quoted string."""
        kind, text = self.take()
        if kind != "string":
            raise self.error(f"expected a quoted string, found {text!r}")
        return self.unquoted(text)

    def unquoted(self, text: str) -> str:
        """Return the meaning of a quoted token."""
        try:
            return str(json.loads(text))
        except ValueError:
            raise self.error(f"bad string {text}") from None

    def integer(self) -> int:
        """Return an integer."""
        kind, text = self.take()
        if kind != "number" or not text.lstrip("-").isdigit():
            raise self.error(f"expected an integer, found {text!r}")
        return int(text)

    def bytes(self) -> bytes:
        """Return bytes written in base64."""
        try:
            return base64.b64decode(self.string(), validate=True)
        except binascii.Error:
            raise self.error("bad base64") from None

    def listed(self, item: Callable[[], T], close: str) -> tuple[T, ...]:
        """Return comma-separated items up to the mark `close`."""
        items: list[T] = []
        while not self.accept(close):
            if items:
                self.expect(",")
            items.append(item())
        return tuple(items)
