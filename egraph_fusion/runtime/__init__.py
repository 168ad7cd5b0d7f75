"""Running a compiled model: sessions, the ONNX backend and the fallback."""
