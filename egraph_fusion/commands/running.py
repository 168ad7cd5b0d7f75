"""Commands that run a model: run, bench, profile."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from egraph_fusion import terminal
from egraph_fusion.commands.options import (
    Debug,
    InputShape,
    Json,
    Model,
    Target,
    Threads,
    shapes_of,
)
from egraph_fusion.commands.outcome import emit, errors


def run(
    model: Annotated[str, typer.Argument(help="An ONNX model or a .efz file.")],
    inputs: Annotated[
        Path | None, typer.Option("--input", help="Inputs by name (.npz); random if absent.")
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Write the outputs here (.npz).")] = None,
    threads: Threads = None,
    target: Target = "c",
    input_shape: InputShape = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Run a model and show or save its outputs."""
    from egraph_fusion.convert import single

    with errors(debug):
        with terminal.progress("running", quiet=as_json):
            found = single.run_model(model, inputs, output, threads, target, shapes_of(input_shape))
        emit(as_json, terminal.outputs_data(found), terminal.outputs_table(found))


def bench(
    model: Model,
    against: Annotated[
        Literal["onnxruntime"] | None, typer.Option(help="onnxruntime: compare with it.")
    ] = None,
    threads: Threads = None,
    rounds: Annotated[int, typer.Option(help="Interleaved rounds.", min=1)] = 15,
    input_shape: InputShape = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Measure the latency of a compiled model, beside onnxruntime if asked."""
    from egraph_fusion.convert import single

    with errors(debug):
        with terminal.progress("measuring", quiet=as_json):
            result = single.bench(model, against, threads, rounds, shapes_of(input_shape))
        emit(as_json, result.to_dict(), terminal.bench_table(result))


def profile(
    models: Annotated[list[str], typer.Argument(help="ONNX models or .efz files.")],
    threads: Threads = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Time every launch of one run: blocks by mapping type, fallback steps counted."""
    from egraph_fusion.convert import single

    with errors(debug):
        found = {m: single.profile_model(m, threads) for m in models}
        emit(as_json, terminal.profile_data(found), terminal.profile_table(found))
