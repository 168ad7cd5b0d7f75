"""Which rule a file was making where something in it raised."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType

Spot = tuple[int, int]
"""A line, from 1, and a column in bytes, from 0."""


def rule_at(path: Path, steps: Iterable[TracebackType]) -> str | None:
    """Return the name in the call of `rule` around the innermost step in a file; None without."""
    spots = [s for t in steps if t.tb_frame.f_code.co_filename == str(path) for s in _spot(t)]
    if not spots:
        return None
    calls = list(_calls(ast.parse(path.read_bytes())))
    for spot in reversed(spots):
        around = [(start, name) for start, end, name in calls if start <= spot < end]
        if around:
            return max(around)[1]
    return None


def _spot(step: TracebackType) -> Iterator[Spot]:
    """Yield where in its source a step is, if that is known."""
    positions = list(step.tb_frame.f_code.co_positions())
    line, _, column, _ = positions[step.tb_lasti // 2]
    if line is not None and column is not None:
        yield line, column


def _calls(tree: ast.AST) -> Iterator[tuple[Spot, Spot, str]]:
    """Yield start, end and name of every call of `rule` whose name is written out."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or node.end_lineno is None:
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        called = node.func.id if isinstance(node.func, ast.Name) else called
        named = [*node.args[:1], *(k.value for k in node.keywords if k.arg == "name")]
        if called != "rule" or not named or not isinstance(named[0], ast.Constant):
            continue
        if isinstance(named[0].value, str):
            end = (node.end_lineno, node.end_col_offset or 0)
            yield (node.lineno, node.col_offset), end, named[0].value
