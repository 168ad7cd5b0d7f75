"""The witness of each rule: a small graph, as met in networks, that costs more without the rule."""

from __future__ import annotations

from importlib.resources import files


def witness_of(name: str) -> str:
    """Return the witness of our rule `name`, as ONNX text; "" if it has none.

    The text begins with a comment that says where such a graph occurs.
    """
    file = files("egraph_fusion.rulesets") / "witnesses" / f"{name}.txt"
    return file.read_text("utf-8") if file.is_file() else ""
