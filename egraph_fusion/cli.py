"""The command line: every command is a thin shell around the Python API."""

from __future__ import annotations

import json
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from egraph_fusion import terminal
from egraph_fusion.errors import EgraphFusionError

app = typer.Typer(
    name="egraph-fusion",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Rewrite ONNX models by equality saturation, fuse their operators, compile and run them.",
)
rules_app = typer.Typer(no_args_is_help=True, help="List, show and verify the rewrite rules.")
app.add_typer(rules_app, name="rules")

Model = Annotated[str, typer.Argument(help="An ONNX model file.", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
Threads = Annotated[int | None, typer.Option(min=1, help="Threads; all cores if not given.")]
Numerics = Annotated[str, typer.Option(help="exact, finite or real: which rules may be used.")]
InputShape = Annotated[
    list[str] | None,
    typer.Option("--input-shape", help="NAME=DIMS, e.g. x=1,3,224,224; fixes a symbolic shape."),
]
Optimize = Annotated[bool, typer.Option("--optimize/--no-optimize", help="Rewrite first.")]


@contextmanager
def _errors(debug: bool) -> Generator[None]:
    """Turn an error that a user can meet into one line and exit code 1."""
    try:
        yield
    except (EgraphFusionError, OSError, MemoryError) as error:
        if debug:
            raise
        typer.echo(f"error: {terminal.one_line(error)}", err=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        typer.echo("interrupted", err=True)
        raise typer.Exit(130) from None
    except Exception as error:
        if debug or isinstance(error, typer.Exit | typer.BadParameter):
            raise
        what = f"{type(error).__name__}: {terminal.one_line(error)}"
        typer.echo(f"error: unexpected {what} (a bug; --debug shows where)", err=True)
        raise typer.Exit(1) from None


def _shapes(options: list[str] | None) -> dict[str, tuple[int, ...]] | None:
    """Read `NAME=1,3,8`; a malformed option is wrong usage (exit code 2)."""
    found: dict[str, tuple[int, ...]] = {}
    for option in options or ():
        name, _, dims = option.rpartition("=")
        try:
            found[name] = tuple(int(d) for d in dims.replace("x", ",").split(",") if d)
        except ValueError:
            name = ""
        if not name:
            raise typer.BadParameter(f"--input-shape wants NAME=DIMS, got {option!r}")
    return found or None


def _emit(as_json: bool, data: Any, text: Any) -> None:
    if as_json:
        typer.echo(json.dumps(terminal.plain(data), indent=2, allow_nan=False))
    else:
        terminal.show(text)


@app.command()
def optimize(
    model: Model,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the result.")],
    check: Annotated[bool, typer.Option(help="Compare before and after on seeded inputs.")] = False,
    tolerance: Annotated[
        float, typer.Option(help="Of --check, as a fraction of the spread.")
    ] = 1e-3,
    numerics: Numerics = "finite",
    rules: Annotated[Path | None, typer.Option(help="A Python file with rules to use.")] = None,
    without: Annotated[list[str] | None, typer.Option(help="Leave out this rule.")] = None,
    extractor: Annotated[str, typer.Option(help="tree, greedy-dag, exact or auto.")] = "auto",
    time_limit: Annotated[float, typer.Option(help="Seconds; a safety net.")] = 60.0,
    node_limit: Annotated[int, typer.Option(help="E-nodes.")] = 100_000,
    iter_limit: Annotated[int, typer.Option(help="Iterations.")] = 12,
    input_shape: InputShape = None,
    opset: Annotated[int | None, typer.Option(help="Write this opset.")] = None,
    functions: Annotated[
        bool, typer.Option(help="Write fused blocks as model-local functions.")
    ] = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Rewrite a model into an equal one with less work."""
    from egraph_fusion.convert import single

    with _errors(debug):
        with terminal.progress("optimising", quiet=as_json):
            report = single.convert(
                model,
                output,
                check=check,
                tolerance=tolerance,
                shapes=_shapes(input_shape),
                opset=opset,
                functions=functions,
                numerics=numerics,
                rules=rules,
                without=tuple(without or ()),
                extractor=extractor,
                time_limit=time_limit,
                node_limit=node_limit,
                iter_limit=iter_limit,
            )
        _emit(as_json, report, terminal.optimize_table(report))


@app.command()
def plan(
    model: Model,
    planner: Annotated[str, typer.Option(help="extended or dnnfusion.")] = "extended",
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

    with _errors(debug):
        with terminal.progress("planning", quiet=as_json):
            found = single.plan_model(model, planner, optimize, _shapes(input_shape))
        if explain is not None:
            reason = found.why_not(*explain)
            _emit(as_json, {"why_not": reason}, reason)
            return
        _emit(as_json, terminal.plan_data(found), terminal.plan_table(found))


@app.command("compile")
def compile_model(
    model: Model,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The .efz file.")] = None,
    target: Annotated[str, typer.Option(help="c or opencl.")] = "c",
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
    from egraph_fusion import pipeline

    if output is None and emit_c is None:
        raise typer.BadParameter("give --output FILE.efz, --emit-c DIR or both")
    with _errors(debug):
        shapes = _shapes(input_shape)
        with terminal.progress("compiling", quiet=as_json):
            session = pipeline.compile(
                model, target, threads, numerics, optimize, shapes=shapes, march=march
            )
            if output is not None:
                session.save(output)
            if emit_c is not None:
                pipeline.write_sources(session, emit_c)
        data = terminal.program_data(session)
        _emit(as_json, data, terminal.program_table(data))


@app.command()
def run(
    model: Annotated[str, typer.Argument(help="An ONNX model or a .efz file.")],
    inputs: Annotated[
        Path | None, typer.Option("--input", help="Inputs by name (.npz); random if absent.")
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Write the outputs here (.npz).")] = None,
    threads: Threads = None,
    target: Annotated[str, typer.Option(help="c or opencl.")] = "c",
    input_shape: InputShape = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Run a model and show or save its outputs."""
    from egraph_fusion.convert import single

    with _errors(debug):
        with terminal.progress("running", quiet=as_json):
            found = single.run_model(model, inputs, output, threads, target, _shapes(input_shape))
        _emit(as_json, terminal.outputs_data(found), terminal.outputs_table(found))


@app.command()
def bench(
    model: Model,
    against: Annotated[str | None, typer.Option(help="onnxruntime: compare with it.")] = None,
    threads: Threads = None,
    rounds: Annotated[int, typer.Option(help="Interleaved rounds.", min=1)] = 15,
    input_shape: InputShape = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Measure the latency of a compiled model, beside onnxruntime if asked."""
    from egraph_fusion.convert import single

    with _errors(debug):
        with terminal.progress("measuring", quiet=as_json):
            result = single.bench(model, against, threads, rounds, _shapes(input_shape))
        _emit(as_json, result.to_dict(), terminal.bench_table(result))


@app.command()
def profile(
    models: Annotated[list[str], typer.Argument(help="ONNX models or .efz files.")],
    threads: Threads = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Time every launch of one run: blocks by mapping type, fallback steps counted."""
    from egraph_fusion.convert import single

    with _errors(debug):
        found = {m: single.profile_model(m, threads) for m in models}
        _emit(as_json, terminal.profile_data(found), terminal.profile_table(found))


@app.command()
def demo(debug: Debug = False) -> None:
    """Take a real model through every stage and compare it with onnx.reference."""
    from egraph_fusion.demo import run_demo

    with _errors(debug):
        run_demo()


@app.command()
def doctor(as_json: Json = False, debug: Debug = False) -> None:
    """Say what works on this machine: compiler, CPU features, OpenCL, cache."""
    from egraph_fusion.convert.doctor import examine

    with _errors(debug):
        found = examine()
        _emit(as_json, found, terminal.doctor_table(found))
        if not found["ok"]:
            raise typer.Exit(1)


@rules_app.command("list")
def rules_list(as_json: Json = False, debug: Debug = False) -> None:
    """List the rules: family, name, formula, level."""
    from egraph_fusion import rulesets

    with _errors(debug):
        _emit(as_json, terminal.rules_data(rulesets.ALL), terminal.rules_table(rulesets.ALL))


@rules_app.command("show")
def rules_show(
    name: Annotated[str, typer.Argument(help="The name that `rules list` shows.")],
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Show one rule: both sides, guards, level, source."""
    from egraph_fusion import rulesets

    with _errors(debug):
        found = rulesets.find(name)
        _emit(as_json, terminal.rules_data([found])[0], terminal.rule_text(found))


@rules_app.command("verify")
def rules_verify(
    names: Annotated[
        list[str] | None, typer.Argument(help="Names of ours or Python files; all if absent.")
    ] = None,
    jobs: Annotated[int, typer.Option(help="Processes that share the rules.", min=1)] = 1,
    max_examples: Annotated[int, typer.Option(help="Examples for each rule.", min=1)] = 200,
    seed: Annotated[int, typer.Option(help="The same seed gives the same verdicts.")] = 0,
    time_limit: Annotated[float | None, typer.Option(help="Seconds for each rule.")] = None,
    junit: Annotated[Path | None, typer.Option(help="Write JUnit XML to this file.")] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Try to refute rules; a wrong one comes with a snippet that shows it (exit code 1)."""
    from egraph_fusion.rulesets import verify_report as report

    with _errors(debug):
        rows: list[report.Row] = []
        rules = report.named_rules(names or ())
        for row in report.verify_all(rules, jobs, max_examples, seed, time_limit):
            rows.append(row)
            if not as_json:
                typer.echo(report.as_text(row))
        totals = report.summary(rows)
        if junit is not None:
            junit.write_text(report.as_junit(rows))
        if as_json:
            typer.echo(json.dumps({**totals, "results": [r.to_dict() for r in rows]}, indent=2))
        else:
            typer.echo(", ".join(f"{n} {word}" for word, n in totals.items() if word != "all_ok"))
        if not totals["all_ok"]:
            raise typer.Exit(1)


def main() -> None:
    """Run the command line; exit codes: 0 ok, 1 the work failed, 2 wrong usage."""
    sys.exit(app())
