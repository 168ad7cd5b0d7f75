"""Optimise an ONNX model, look at its fusion blocks, compile it and run it."""

import tempfile
from pathlib import Path

import egraph_fusion as ef
from egraph_fusion.frontend.example_models import example_inputs, example_path, materialize

model = materialize(example_path("squeezenet1.1"))
inputs = example_inputs(model, seed=0)

graph = ef.load(model)
optimized = ef.optimize(graph)
print("FLOPs", optimized.report.flops_before, "->", optimized.report.flops_after)
print("operators", optimized.report.ops_before, "->", optimized.report.ops_after)
print("fusion blocks", len(ef.plan(optimized.graph).blocks))

with tempfile.TemporaryDirectory() as folder:
    ef.save(optimized.graph, str(Path(folder) / "optimized.onnx"))

session = ef.compile(graph, threads=2)
(logits,) = session.run(None, inputs)
print("best class", int(logits.argmax()), "of", logits.shape[-1])
