"""Commands that describe a model on a page: report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from egraph_fusion import terminal
from egraph_fusion.commands.options import (
    Debug,
    InputShape,
    Json,
    Model,
    Numerics,
    Threads,
    shapes_of,
)
from egraph_fusion.commands.outcome import emit, errors


def report(
    model: Model,
    output: Annotated[Path, typer.Option("--output", "-o", help="The HTML page to write.")],
    numerics: Numerics = "finite",
    threads: Threads = None,
    measure: Annotated[
        bool, typer.Option(help="Compile it with and without rewriting, and time each launch.")
    ] = True,
    input_shape: InputShape = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Write a self-contained HTML page: before and after, blocks, roofline, e-graph, rules."""
    from egraph_fusion.convert import model_report

    with errors(debug):
        with terminal.progress("examining", quiet=as_json):
            found = model_report.report(
                model,
                output,
                numerics=numerics,
                threads=threads,
                shapes=shapes_of(input_shape),
                measure=measure,
            )
        data = {"output": str(output), **found.to_dict()}
        emit(
            as_json,
            data,
            f"{output}: {len(found.before.blocks)} launches became {len(found.after.blocks)}",
        )
