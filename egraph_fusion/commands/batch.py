"""The command that converts many models."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from egraph_fusion.commands.options import (
    Debug,
    Extractor,
    InputShape,
    IterLimit,
    Json,
    NodeLimit,
    Numerics,
    TimeLimit,
    no_nan,
    shapes_of,
)
from egraph_fusion.commands.outcome import emit, errors

INTERRUPTED = 130


def batch(
    sources: Annotated[
        list[str], typer.Argument(help="Models, folders, globs, zip and tar archives.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder for the results.")],
    jobs: Annotated[int | None, typer.Option(min=1, help="Models at a time; one per core.")] = None,
    target: Annotated[
        Literal["onnx", "onnx-functions", "c"],
        typer.Option(help="An optimised model, one with fused blocks as functions, or a .efz."),
    ] = "onnx",
    check: Annotated[bool, typer.Option(help="Compare before and after on seeded inputs.")] = True,
    tolerance: Annotated[
        float, typer.Option(min=0, callback=no_nan, help="Of --check, as a fraction of the spread.")
    ] = 1e-3,
    seed: Annotated[
        list[int] | None, typer.Option(min=0, help="Of the inputs of --check; repeat it. (0, 1, 2)")
    ] = None,
    resume: Annotated[
        bool, typer.Option(help="Skip what an earlier run has done and nothing has changed.")
    ] = True,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Try models again that were refused before.")
    ] = False,
    rehash: Annotated[
        bool, typer.Option("--rehash", help="Read files again instead of trusting their clocks.")
    ] = False,
    timeout: Annotated[
        float, typer.Option(min=0, callback=no_nan, help="Seconds for each model.")
    ] = 600.0,
    memory: Annotated[
        str | None, typer.Option(help="For each model, e.g. 4G; a share of the machine's.")
    ] = None,
    cluster: Annotated[
        str | None, typer.Option(help="A Dask scheduler's address, or local.")
    ] = None,
    fallback: Annotated[
        Literal["copy"] | None, typer.Option(help="copy: copy the originals that fail.")
    ] = None,
    latency: Annotated[
        bool, typer.Option("--latency", help="Time original and result, compiled, in turns.")
    ] = False,
    opset: Annotated[int | None, typer.Option(min=1, help="Write this opset.")] = None,
    numerics: Numerics = "finite",
    rules: Annotated[Path | None, typer.Option(help="A Python file with rules to use.")] = None,
    without: Annotated[list[str] | None, typer.Option(help="Leave out this rule.")] = None,
    verify: Annotated[bool, typer.Option(help="Try the rules of --rules before use.")] = True,
    extractor: Extractor = "auto",
    time_limit: TimeLimit = 60.0,
    node_limit: NodeLimit = 100_000,
    iter_limit: IterLimit = 12,
    input_shape: InputShape = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Convert many models, each in a process of its own; one bad file never harms another.

    Exit codes: 0 every model has its output, 1 some failed, 130 interrupted (run it again to go
    on).
    """
    from egraph_fusion.commands import batch_display as display
    from egraph_fusion.convert.batch import run
    from egraph_fusion.convert.batch.results import counted

    with errors(debug), _interruptible() as cancel, display.shown(quiet=as_json) as progress:
        results = list(
            run.batch(
                sources,
                output,
                jobs,
                cluster,
                resume,
                check,
                target=target,
                tolerance=tolerance,
                seeds=tuple(seed or (0, 1, 2)),
                timeout=timeout,
                memory=memory,
                fallback=fallback,
                latency=latency,
                opset=opset,
                numerics=numerics,
                rules=rules,
                without=tuple(without or ()),
                verify=verify,
                extractor=extractor,
                time_limit=time_limit,
                node_limit=node_limit,
                iter_limit=iter_limit,
                input_shapes=shapes_of(input_shape),
                retry_failed=retry_failed,
                rehash=rehash,
                progress=progress,
                cancel=cancel,
            )
        )
    with errors(debug):
        counts = counted(results)
        data: dict[str, Any] = {"counts": counts, "results": [r.to_dict() for r in results]}
        emit(as_json, data, display.summary(results, output))
        if cancel.is_set():
            raise typer.Exit(INTERRUPTED)
        if counts.get("failed"):
            raise typer.Exit(1)


@contextmanager
def _interruptible() -> Generator[threading.Event]:
    """Turn the first Ctrl-C (or SIGTERM) into a wish to stop; the second one ends all at once."""
    cancel = threading.Event()

    def stop(_signal: int, _frame: object) -> None:
        if cancel.is_set():
            # Workers end when they miss this process; what was recorded is on the disk.
            _say("\n")
            os._exit(INTERRUPTED)
        cancel.set()
        _say("\nstopping: what is done is recorded; Ctrl-C again ends at once\n")

    before = {s: signal.signal(s, stop) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield cancel
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _say(text: str) -> None:
    """Write past the buffers, which a signal may have caught half way, and show the cursor."""
    cursor = "\x1b[?25h" if sys.stderr.isatty() else ""
    os.write(2, f"{cursor}{text}".encode())
