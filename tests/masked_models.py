"""Transformers under attention masks that mask whole rows: rewritten, compiled, and as they were.

`python tests/masked_models.py MODEL...` prints a table.  Each model is run as it is and with its
mask constants (the least float) turned to -inf, on masks of all zeros, half zeros and ones.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper
from onnx_models import runtime

import egraph_fusion as ef
from egraph_fusion.frontend import export
from egraph_fusion.frontend.inputs import example_inputs

Array = NDArray[Any]
LEAST = float(np.finfo(np.float32).min)
NEAR = 2e-4
"""Difference that float32 may make after many layers, in standard deviations of the output."""


def masked_by_infinity(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with every constant that holds the least float holding -inf instead."""
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    tensors = [*changed.graph.initializer]
    for n in changed.graph.node:
        tensors += [a.t for a in n.attribute if n.op_type == "Constant" and a.name == "value"]
    found = 0
    for t in tensors:
        if t.data_type != onnx.TensorProto.FLOAT or t.external_data:
            continue
        array = numpy_helper.to_array(t)
        if (array == LEAST).any():
            t.CopyFrom(numpy_helper.from_array(np.where(array == LEAST, -np.inf, array), t.name))
            found += 1
    assert found, "the model has no mask constant"
    return changed


def masks(length: int) -> dict[str, Array]:
    """Return attention masks of one row by name."""
    half = np.ones((1, length), np.int64)
    half[:, length // 2 :] = 0
    return {"zeros": 0 * half, "half": half, "ones": half | 1}


def problems(found: Array, wanted: Array) -> str:
    """Say how outputs differ (in NaN, infinities, or by more than rounding); "" if they do not."""
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return f"{found.dtype}{found.shape} instead of {wanted.dtype}{wanted.shape}"
    if not np.array_equal(np.isnan(found), np.isnan(wanted)):
        return f"{np.isnan(found).sum()} NaN instead of {np.isnan(wanted).sum()}"
    infinite = np.isinf(wanted)
    if not np.array_equal(found[infinite], wanted[infinite]):
        return "infinities differ"
    finite = np.isfinite(wanted)
    if not finite.any():
        return ""
    gap = np.abs(found[finite] - wanted[finite]).max() / max(float(wanted[finite].std()), 1e-3)
    return "" if gap < NEAR else f"differs by {gap:.1e} standard deviations"


def checked(model: onnx.ModelProto) -> Iterator[tuple[str, str, bool]]:
    """Yield, for each mask, its name, what is wrong and whether the model's outputs are finite."""
    graph = ef.load(model)
    optimized = ef.optimize(graph).graph
    written, session = export(optimized), ef.compile(optimized, optimize=False)
    feeds: Mapping[str, Array] = {k: np.asarray(v) for k, v in example_inputs(graph, 0).items()}
    for name, mask in masks(feeds["attention_mask"].shape[1]).items():
        given = {**feeds, "attention_mask": mask}
        wanted = runtime(model, given)
        wrong = [
            f"{side}: {problem}"
            for side, outputs in (
                ("rewritten", runtime(written, given)),
                ("compiled", session.run(None, given)),
            )
            for f, w in zip(outputs, wanted, strict=True)
            if (problem := problems(np.asarray(f), w))
        ]
        yield name, "; ".join(wrong), all(bool(np.isfinite(w).all()) for w in wanted)


def main(paths: list[str]) -> None:
    """Print a line for every model, kind of mask and mask."""
    for path in paths:
        model = onnx.load(path)
        for kind, variant in (("least float", model), ("-inf", masked_by_infinity(model))):
            for mask, wrong, finite in checked(variant):
                state = "finite" if finite else "not finite"
                cells = (Path(path).stem, kind, mask, state, wrong or "as it was")
                print(" | ".join(cells), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
