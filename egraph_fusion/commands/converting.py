"""Commands that turn a model into something else: optimize, plan, compile."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from egraph_fusion import terminal
from egraph_fusion.commands.options import (
    Debug,
    Extractor,
    InputShape,
    IterLimit,
    Json,
    Model,
    NodeLimit,
    Numerics,
    Optimize,
    Target,
    Threads,
    TimeLimit,
    no_nan,
    shapes_of,
)
from egraph_fusion.commands.outcome import emit, errors


def optimize(
    model: Model,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the result.")],
    check: Annotated[bool, typer.Option(help="Compare before and after on seeded inputs.")] = False,
    tolerance: Annotated[
        float, typer.Option(help="Of --check, as a fraction of the spread.", min=0, callback=no_nan)
    ] = 1e-3,
    numerics: Numerics = "finite",
    rules: Annotated[Path | None, typer.Option(help="A Python file with rules to use.")] = None,
    verify: Annotated[bool, typer.Option(help="Try the rules of --rules before use.")] = True,
    without: Annotated[list[str] | None, typer.Option(help="Leave out this rule.")] = None,
    extractor: Extractor = "auto",
    time_limit: TimeLimit = 60.0,
    node_limit: NodeLimit = 100_000,
    iter_limit: IterLimit = 12,
    input_shape: InputShape = None,
    opset: Annotated[int | None, typer.Option(min=1, help="Write this opset.")] = None,
    functions: Annotated[
        bool, typer.Option(help="Write fused blocks as model-local functions.")
    ] = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Rewrite a model into an equal one with less work."""
    from egraph_fusion.convert import single

    with errors(debug):
        with terminal.progress("optimising", quiet=as_json):
            report = single.convert(
                model,
                output,
                check=check,
                tolerance=tolerance,
                shapes=shapes_of(input_shape),
                opset=opset,
                functions=functions,
                numerics=numerics,
                rules=rules,
                verify=verify,
                without=tuple(without or ()),
                extractor=extractor,
                time_limit=time_limit,
                node_limit=node_limit,
                iter_limit=iter_limit,
            )
        emit(as_json, report, terminal.optimize_table(report))


def plan(
    model: Model,
    planner: Annotated[
        Literal["extended", "dnnfusion"], typer.Option(help="extended or dnnfusion.")
    ] = "extended",
    explain: Annotated[
        tuple[str, str] | None, typer.Option(help="Two nodes: why are they not fused?")
    ] = None,
    optimize: Optimize = True,
    input_shape: InputShape = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Show the fusion blocks of a model."""
    from egraph_fusion.convert import single

    with errors(debug):
        with terminal.progress("planning", quiet=as_json):
            found = single.plan_model(model, planner, optimize, shapes_of(input_shape))
        if explain is not None:
            reason = terminal.printable(found.why_not(*explain))
            emit(as_json, {"why_not": reason}, reason)
            return
        emit(as_json, terminal.plan_data(found), terminal.plan_table(found))


def compile_model(
    model: Model,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The .efz file.")] = None,
    target: Target = "c",
    march: Annotated[str | None, typer.Option(help="Of the C compiler; native if absent.")] = None,
    emit_c: Annotated[Path | None, typer.Option(help="Also write the C sources here.")] = None,
    threads: Threads = None,
    numerics: Numerics = "finite",
    optimize: Optimize = True,
    input_shape: InputShape = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Compile a model to native code (.efz: executable code, load only what you trust)."""
    from egraph_fusion.convert import single

    if output is None and emit_c is None:
        raise typer.BadParameter("give --output FILE.efz, --emit-c DIR or both")
    with errors(debug):
        shapes = shapes_of(input_shape)
        with terminal.progress("compiling", quiet=as_json):
            session = single.compile_model(
                model,
                output,
                emit_c,
                target=target,
                threads=threads,
                numerics=numerics,
                optimize=optimize,
                shapes=shapes,
                march=march,
            )
        data = terminal.program_data(session)
        emit(as_json, data, terminal.program_table(data))
