"""Does a converted model still compute what the original computes?  Seeded inputs decide."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from egraph_fusion.errors import EgraphFusionError
from egraph_fusion.frontend import load
from egraph_fusion.frontend.inputs import example_inputs
from egraph_fusion.runtime import fallback

if TYPE_CHECKING:
    import onnx

Array = NDArray[Any]
Runner = Callable[[Mapping[str, Array]], Sequence[Any]]


class CheckError(EgraphFusionError):
    """A converted model differs from its original by more than the tolerance."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The worst difference of one output over all inputs, relative to the output's spread.

    `worst` is max |a - b| / std(a), or max |a - b| / max |a| for an output without spread; it is
    infinite where shapes, dtypes or the places of NaN differ.
    """

    output: str
    worst: float


def difference(name: str, want: Array, got: Array) -> Difference:
    """Compare one output; equal infinities and NaNs in the same places are equal."""
    if want.shape != got.shape or want.dtype != got.dtype:
        return Difference(name, np.inf)
    if want.dtype == object or want.dtype == bool:
        return Difference(name, 0.0 if bool(np.array_equal(want, got)) else np.inf)
    a, b = want.astype(np.float64), got.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    gap = np.where(same, 0.0, np.abs(a - b))
    if not np.isfinite(gap).all():
        return Difference(name, np.inf)
    finite = a[np.isfinite(a)]
    scale = float(finite.std()) if finite.size > 1 else 0.0
    scale = scale or float(np.abs(finite).max(initial=0.0)) or 1.0
    return Difference(name, float(gap.max(initial=0.0)) / scale)


def reference_runner(model: onnx.ModelProto) -> Runner:
    """Return a function that runs `model` in onnxruntime without optimisation, else onnx.reference.

    onnxruntime is used only if it is installed and takes the model: it is faster by far.
    """
    try:
        ort: Any = import_module("onnxruntime")
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 4
        session = ort.InferenceSession(model.SerializeToString(), options)
        return lambda feeds: session.run(None, dict(feeds))
    except Exception:  # not installed, over 2 GB, or an operator it lacks
        return fallback.reference(model)


def compare(
    before: onnx.ModelProto, run_after: Runner, seeds: Sequence[int] = (0, 1, 2)
) -> list[Difference]:
    """Run both on seeded random inputs and return the worst difference of each output."""
    run_before = reference_runner(before)
    graph = load(before)
    worst: dict[str, float] = dict.fromkeys(graph.outputs, 0.0)
    for seed in seeds:
        feeds = example_inputs(graph, seed)
        pairs = zip(graph.outputs, run_before(feeds), run_after(feeds), strict=True)
        for name, want, got in pairs:
            worst[name] = max(
                worst[name], difference(name, np.asarray(want), np.asarray(got)).worst
            )
    return [Difference(k, v) for k, v in worst.items()]


def require(differences: Sequence[Difference], tolerance: float) -> None:
    """Raise CheckError if an output differs by more than `tolerance` (a fraction of its spread)."""
    bad = max(differences, key=lambda d: d.worst, default=None)
    if bad is not None and not bad.worst <= tolerance:
        raise CheckError(
            f"output {bad.output!r} differs by {bad.worst:.3g} of its spread, "
            f"more than the tolerance {tolerance:g}: nothing is written"
        )
