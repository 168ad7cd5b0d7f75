"""One model at a time: convert it, plan it, run it, measure it."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from egraph_fusion import pipeline
from egraph_fusion.arguments import checked
from egraph_fusion.convert.bench import BenchResult, measure
from egraph_fusion.convert.check import compare, reference_runner, require
from egraph_fusion.convert.places import output_apart, refuse_input
from egraph_fusion.errors import CompileError, EgraphFusionError, ModelError, RunError
from egraph_fusion.frontend import export
from egraph_fusion.frontend.input_shapes import fix_input_shapes
from egraph_fusion.frontend.inputs import example_inputs
from egraph_fusion.frontend.source import Source, graph_of
from egraph_fusion.fusion.plan import Plan
from egraph_fusion.ir.graph import Graph
from egraph_fusion.output_files import write_file
from egraph_fusion.runtime.execution import ProfileStep
from egraph_fusion.runtime.session import Session

_UNREADABLE = (
    *(OSError, ValueError, EOFError, KeyError, RuntimeError),
    *(zlib.error, zipfile.BadZipFile),
)
_NPZ = "numpy.savez(path, name=array, ...) writes what is expected"
Shapes = Mapping[str, tuple[int, ...]] | None


def convert(
    model: str,
    output: Path,
    *,
    check: bool = False,
    tolerance: float = 1e-3,
    shapes: Shapes = None,
    opset: int | None = None,
    functions: bool = False,
    **options: Any,
) -> dict[str, Any]:
    """Optimise the ONNX file `model` into `output` and return the report as a dict.

    With `check`, both run on three seeded inputs; a difference beyond `tolerance` (a fraction of
    the output's spread) raises CheckError, what cannot be compared CannotCheckError, and nothing is
    written.  Raises ModelError, before any work, if `output` is a file that is read.  `options` go
    to `optimize`.
    """
    target = output_apart(output, model, options.get("rules"), error=ModelError)
    refuse_input(target.with_name(f"{target.name}.data"), model, error=ModelError)
    require((), tolerance)
    before = _loaded(model, shapes)
    found = pipeline.optimize(before, **options)
    report: dict[str, Any] = found.report.to_dict()
    if check:
        after = reference_runner(export(found.graph, opset))
        differences = compare(export(before), after, name=model)
        require(differences, tolerance)
        report["worst_difference"] = max((d.worst for d in differences), default=0.0)
    plan = pipeline.plan(found.graph) if functions else None
    pipeline.save(found.graph, output, plan, opset)
    return report


def plan_model(model: str, planner: str, optimize: bool, shapes: Shapes = None) -> Plan:
    """Plan a model, rewritten first if `optimize`."""
    graph = _loaded(model, shapes)
    return pipeline.plan(pipeline.optimize(graph).graph if optimize else graph, planner)


def compile_model(model: str, output: Path | None, sources: Path | None, **options: Any) -> Session:
    """Compile an ONNX file into the `.efz` file `output` and its C sources into a folder.

    `options` go to `compile`.  Raises CompileError, before any work, if nothing can be written
    there, and for input shapes that are still symbolic.
    """
    if output is not None:
        output_apart(output, model, error=CompileError)
    session = pipeline.compile(model, **options)
    open_inputs = [a for a in session.get_inputs() if not all(isinstance(d, int) for d in a.shape)]
    if open_inputs and not session.programs:
        name, shape = open_inputs[0].name, open_inputs[0].shape
        sizes = ",".join(str(d) if isinstance(d, int) else "1" for d in shape)
        raise CompileError(
            f"{model}: the shapes of {', '.join(a.name for a in open_inputs)} are symbolic; fix "
            f"them with --input-shape NAME=DIMS, as in --input-shape {name}={sizes}"
        )
    if output is not None:
        session.save(output)
    if sources is not None:
        pipeline.write_sources(session, sources)
    return session


def run_model(
    model: str,
    inputs: Path | None,
    output: Path | None,
    threads: int | None = None,
    target: str = "c",
    shapes: Shapes = None,
) -> dict[str, NDArray[Any]]:
    """Run an ONNX or `.efz` file on the arrays of an `.npz` file (else seeded random inputs).

    Returns the outputs by name and writes them to the `.npz` file `output` if given.
    """
    if output is not None:
        output_apart(output, model, inputs, error=RunError)
    session = open_session(model, threads, target, shapes)
    feeds = _read_arrays(inputs) if inputs is not None else _feeds(model, session, shapes)
    results = session.run(None, feeds)
    named = {o.name: r for o, r in zip(session.get_outputs(), results, strict=True)}
    if output is not None:
        _write_arrays(output, named)
    return named


def profile_model(model: str, threads: int | None = None) -> list[ProfileStep]:
    """Time every launch of a model on seeded random inputs."""
    session = open_session(model, threads)
    return session.profile(_feeds(model, session, None))


@checked(EgraphFusionError, least={"threads": 1, "rounds": 1})
def bench(
    model: Source,
    against: str | None = None,
    threads: int | None = None,
    rounds: int = 15,
    shapes: Shapes = None,
) -> BenchResult:
    """Measure a model's latency, interleaved with the peer `against` ("onnxruntime") if given.

    Raises EgraphFusionError for an unknown or absent peer.
    """
    graph = _loaded(model, shapes)
    count = threads or os.cpu_count() or 1
    session = pipeline.compile(graph, threads=count)
    source = str(model) if isinstance(model, str | Path) and not shapes else export(graph)
    return measure(session, source, example_inputs(graph), against, count, rounds)


def open_session(
    model: str, threads: int | None = None, target: str = "c", shapes: Shapes = None
) -> Session:
    """Load a `.efz` file or compile an ONNX file."""
    if model.endswith(".efz"):
        if shapes or target != "c":
            what = "--input-shape" if shapes else "--target"
            raise RunError(f"{model} is compiled already: {what} needs the ONNX model")
        return pipeline.load_compiled(model, threads)
    return pipeline.compile(model, target, threads, shapes=shapes)


def _loaded(model: Source, shapes: Shapes) -> Graph:
    graph = graph_of(model)
    return fix_input_shapes(graph, shapes) if shapes else graph


def _feeds(model: str, session: Session, shapes: Shapes) -> dict[str, NDArray[Any]]:
    if model.endswith(".efz"):
        return session.random_feeds()
    try:
        return example_inputs(_loaded(model, shapes))
    except ModelError as error:
        raise RunError(f"{model}: no inputs can be made up ({error}); give some") from error


def _read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    try:
        with path.open("rb") as handle:
            if not zipfile.is_zipfile(handle):
                raise ValueError(f"this is no .npz file; {_held_instead(handle)}")
            handle.seek(0)
            with np.load(handle, allow_pickle=False) as file:
                return {name: _array(name, file[name]) for name in file.files}
    except _UNREADABLE as error:
        raise RunError(f"cannot read arrays from {str(path)!r}: {_reason(error)}") from error


def _array(name: str, value: Any) -> NDArray[Any]:
    if isinstance(value, bytes):
        raise ValueError(f"its entry {name!r} is no array; {_NPZ}")
    return np.asarray(value)


def _held_instead(handle: BinaryIO) -> str:
    handle.seek(0)
    what = "one array without a name" if handle.read(6) == b"\x93NUMPY" else "no named arrays"
    return f"it holds {what}; {_NPZ}"


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    # numpy advises to switch on pickles, which run what a file's author likes.
    return "it holds objects, expected numbers" if "pickle" in str(error) else str(error)


def _write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    def write(out: BinaryIO) -> None:
        with zipfile.ZipFile(out, "w") as file:
            for name, array in arrays.items():
                # np.savez would take an output called "file" for its own argument.
                with file.open(f"{name}.npy", "w", force_zip64=True) as entry:
                    np.lib.format.write_array(entry, np.asarray(array), allow_pickle=False)

    write_file(path, write, RunError)
