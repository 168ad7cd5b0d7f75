"""From ONNX to the graph and back; ONNX protos are known here."""

from egraph_fusion.frontend.importer import load

__all__ = ["load"]
