"""An optimising compiler for ONNX models: equality saturation, operator fusion, native code."""
