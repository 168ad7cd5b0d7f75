"""Does a converted model still compute what the original computes?  Seeded inputs decide."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from egraph_fusion.errors import EgraphFusionError, ModelError
from egraph_fusion.frontend import load
from egraph_fusion.frontend.inputs import example_inputs
from egraph_fusion.frontend.meaning import random_nodes, unknown_nodes
from egraph_fusion.ir.graph import Graph
from egraph_fusion.runtime import fallback

if TYPE_CHECKING:
    import onnx

Array = NDArray[Any]
Runner = Callable[[Mapping[str, Array]], Sequence[Any]]


class CheckError(EgraphFusionError):
    """A converted model differs from its original by more than the tolerance, or does not run."""


class CannotCheckError(EgraphFusionError):
    """Nothing can be said of a model: it has no meaning here, or no inputs can be made up."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The worst difference of one output over all inputs, relative to the output's spread.

    `worst` is max |a - b| / std(a), or max |a - b| / max |a| for an output without spread; it is
    infinite where shapes, dtypes or the places of NaN differ.
    """

    output: str
    worst: float


def difference(name: str, want: Any, got: Any) -> Difference:
    """Compare one output; equal infinities and NaNs in the same places are equal.

    Sequences and maps are compared entry by entry, texts and booleans for equality.
    """
    return Difference(name, _worst(want, got))


def _worst(want: Any, got: Any) -> float:
    if want is None or got is None:
        return 0.0 if want is got else np.inf
    wanted, found = _entries(want), _entries(got)
    if wanted is None or found is None:
        return _worst_entry(np.asarray(want), np.asarray(got))
    worst = max((_worst(a, b) for a, b in zip(wanted, found, strict=False)), default=0.0)
    return worst if len(wanted) == len(found) else np.inf


def _entries(value: Any) -> list[Any] | None:
    """Return the entries of a sequence, or the keys and values of a map; None for a tensor."""
    if hasattr(value, "keys"):
        return [*value.keys(), *value.values()]
    return list(cast(Sequence[Any], value)) if isinstance(value, list | tuple) else None


def _worst_entry(want: Array, got: Array) -> float:
    if want.shape != got.shape:
        return np.inf
    if want.dtype.kind in _TEXTS and got.dtype.kind in _TEXTS:
        return 0.0 if bool(np.array_equal(want.astype(object), got.astype(object))) else np.inf
    if want.dtype != got.dtype:
        return np.inf
    if want.dtype == bool:
        return 0.0 if bool(np.array_equal(want, got)) else np.inf
    wide = np.complex128 if want.dtype.kind == "c" else np.float64
    a, b = want.astype(wide), got.astype(wide)
    same = (want == got) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore", over="ignore"):
        gap = np.where(same, 0.0, np.abs(a - b))
    if not np.isfinite(gap).all():
        return np.inf
    finite = a[np.isfinite(a)]
    scale = float(finite.std()) if finite.size > 1 else 0.0
    scale = scale or float(np.abs(finite).max(initial=0.0)) or 1.0
    return float(gap.max(initial=0.0)) / scale


# Runtimes give texts as objects or as characters of fixed length.
_TEXTS = "OSU"


def reference_runner(model: onnx.ModelProto) -> Runner:
    """Return a function that runs `model` in onnxruntime without optimisation, else onnx.reference.

    onnxruntime is used only if it is installed and takes the model and the inputs: it is faster by
    far.  Nothing is done before the first call, which raises what onnx.reference raises.
    """
    runners: list[Runner] = []

    def run(feeds: Mapping[str, Array]) -> Sequence[Any]:
        if not runners:
            runners.extend(_onnxruntime(model))
            runners.append(lambda values: fallback.reference(model)(values))
        try:
            return runners[0](feeds)
        except Exception:
            if len(runners) == 1:
                raise
            del runners[0]  # a dtype or a kernel that onnxruntime lacks
            return runners[0](feeds)

    return run


def _onnxruntime(model: onnx.ModelProto) -> list[Runner]:
    try:
        ort: Any = import_module("onnxruntime")
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 4
        session = ort.InferenceSession(model.SerializeToString(), options)
    except Exception:  # not installed, over 2 GB, or an operator it lacks
        return []
    return [lambda feeds: session.run(None, dict(feeds))]


def compare(
    before: onnx.ModelProto,
    run_after: Runner,
    seeds: Sequence[int] = (0, 1, 2),
    name: str = "the model",
) -> list[Difference]:
    """Run both on seeded random inputs and return the worst difference of each output.

    Raises CannotCheckError, saying what to do, if the original of this `name` does not run here or
    no inputs can be made up for it, and CheckError if the original runs and the other does not.
    """
    graph = load(before)
    if random := random_nodes(before):
        raise CannotCheckError(
            f"{name} cannot be checked: node {random[0]} gives other values at every run; "
            "give it a seed, or convert without a check"
        )
    run_before = reference_runner(before)
    worst: dict[str, float] = dict.fromkeys(graph.outputs, 0.0)
    for seed in seeds:
        feeds = _made_up(graph, seed, name)
        wanted = _original(run_before, before, feeds, name)
        pairs = zip(graph.outputs, wanted, _converted(run_after, feeds, name), strict=True)
        for output, want, got in pairs:
            worst[output] = max(worst[output], difference(output, want, got).worst)
    return [Difference(k, v) for k, v in worst.items()]


def _made_up(graph: Graph, seed: int, name: str) -> dict[str, Array]:
    try:
        return example_inputs(graph, seed)
    except ModelError as error:
        raise CannotCheckError(
            f"{name} cannot be checked, since no inputs can be made up: {error}"
        ) from error


def _original(
    run: Runner, model: onnx.ModelProto, feeds: Mapping[str, Array], name: str
) -> Sequence[Any]:
    try:
        return run(feeds)
    except Exception as error:
        if unknown := unknown_nodes(model):
            raise CannotCheckError(
                f"{name} cannot be checked: node {unknown[0]} has no meaning that the reference "
                "knows; define it as a model-local function, or convert without a check"
            ) from error
        shapes = ", ".join(f"{k}={','.join(map(str, v.shape))}" for k, v in feeds.items())
        raise CannotCheckError(
            f"{name} cannot be checked: it does not run on random inputs of the shapes {shapes} "
            f"({_told(error)}); give other sizes (--input-shape), or convert without a check"
        ) from error


def _converted(run: Runner, feeds: Mapping[str, Array], name: str) -> Sequence[Any]:
    try:
        return run(feeds)
    except Exception as error:
        raise CheckError(f"{name} runs, but its result does not: {_told(error)}") from error


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip() or 'no reason given'}"


def require(differences: Sequence[Difference], tolerance: float) -> None:
    """Raise CheckError if an output differs by more than `tolerance` (a fraction of its spread)."""
    if not tolerance >= 0:
        raise CheckError(f"tolerance {tolerance} is no number that is 0 or more")
    bad = max(differences, key=lambda d: d.worst, default=None)
    if bad is not None and not bad.worst <= tolerance:
        raise CheckError(
            f"output {bad.output!r} differs by {bad.worst:.3g} of its spread, "
            f"more than the tolerance {tolerance:g}: nothing is written"
        )
