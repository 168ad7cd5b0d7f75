"""From ONNX to the graph and back; ONNX protos are known here."""

from collections.abc import Mapping

from egraph_fusion.frontend.exporter import export, expressible
from egraph_fusion.frontend.importer import load
from egraph_fusion.frontend.saving import save
from egraph_fusion.ir.graph import Graph

__all__ = ["export", "expressible", "load", "opaque_reasons", "save"]


def opaque_reasons(graph: Graph) -> Mapping[str, str]:
    """Return why each opaque node of `graph` is opaque, by its label."""
    return {n.label(): n.reason for n in graph.nodes if n.opaque}
