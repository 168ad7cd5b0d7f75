"""A model given as a file, an ONNX proto or a graph, read only when somebody needs its graph."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import onnx

from egraph_fusion.frontend.fingerprint import file_fingerprint
from egraph_fusion.frontend.importer import load
from egraph_fusion.frontend.input_shapes import fix_input_shapes
from egraph_fusion.ir.fingerprint import fingerprint
from egraph_fusion.ir.graph import Graph

Source = str | Path | onnx.ModelProto | Graph


def graph_of(source: Source) -> Graph:
    """Return the graph that a caller named; ModelError as `load`."""
    return source if isinstance(source, Graph) else load(source)


class ModelSource:
    """What a caller named, with some of its input shapes fixed."""

    def __init__(self, given: Source, shapes: Mapping[str, tuple[int, ...]] | None = None) -> None:
        self._given = given
        self._shapes = dict(shapes or {})
        self._graph: Graph | None = None

    def fingerprint(self) -> str:
        """Return a digest of the model's whole content and of the fixed shapes.

        A file in one piece is not read into a graph for that.  Raises ModelError as `load`.
        """
        found = self._file_fingerprint()
        return (
            fingerprint(self.graph()) if found is None else f"{found}{sorted(self._shapes.items())}"
        )

    def graph(self) -> Graph:
        """Return the graph; it is read once.  Raises ModelError as `load`."""
        if self._graph is None:
            self._graph = self._read()
        return self._graph

    def take(self) -> Graph:
        """Return the graph and forget it, so that its weights can go once the caller is done."""
        graph = self.graph()
        self._graph = None
        return graph

    def _read(self) -> Graph:
        graph = graph_of(self._given)
        return fix_input_shapes(graph, self._shapes) if self._shapes else graph

    def _file_fingerprint(self) -> str | None:
        if not isinstance(self._given, str | Path):
            return None
        try:
            return file_fingerprint(Path(self._given))
        except (OSError, ValueError):
            return None  # reading it says what is wrong
