"""From ONNX to the graph and back; ONNX protos are known here."""
