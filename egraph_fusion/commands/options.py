"""Options that several commands share."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import typer

Model = Annotated[str, typer.Argument(help="An ONNX model file.", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
Threads = Annotated[int | None, typer.Option(min=1, help="Threads; all cores if not given.")]
Level = Literal["exact", "finite", "real"]
Numerics = Annotated[Level, typer.Option(help="exact, finite or real: which rules may be used.")]
ExtractorName = Literal["tree", "greedy-dag", "exact", "auto"]
Extractor = Annotated[ExtractorName, typer.Option(help="tree, greedy-dag, exact or auto.")]
TargetName = Literal["c", "opencl"]
Target = Annotated[TargetName, typer.Option(help="c or opencl.")]
InputShape = Annotated[
    list[str] | None,
    typer.Option("--input-shape", help="NAME=DIMS, e.g. x=1,3,224,224; fixes a symbolic shape."),
]


def no_nan(value: float | None) -> float | None:
    """Refuse what is not less than any bound, and not more either: wrong usage (exit code 2)."""
    if value is not None and math.isnan(value):
        raise typer.BadParameter("nan is no number")
    return value


TimeLimit = Annotated[
    float, typer.Option(min=0, callback=no_nan, help="Seconds to rewrite; a safety net.")
]
NodeLimit = Annotated[int, typer.Option(min=1, help="E-nodes.")]
IterLimit = Annotated[int, typer.Option(min=0, help="Iterations; 0 rewrites nothing.")]
Optimize = Annotated[bool, typer.Option("--optimize/--no-optimize", help="Rewrite first.")]


def shapes_of(options: list[str] | None) -> dict[str, tuple[int, ...]] | None:
    """Read `NAME=1,3,8`; a malformed option is wrong usage (exit code 2)."""
    found: dict[str, tuple[int, ...]] = {}
    for option in options or ():
        name, _, dims = option.rpartition("=")
        try:
            sizes = tuple(int(d) for d in dims.replace("x", ",").split(",")) if dims else ()
        except ValueError:
            name, sizes = "", ()
        if not name:
            raise typer.BadParameter(f"--input-shape wants NAME=DIMS, got {option!r}")
        if found.setdefault(name, sizes) != sizes:
            raise typer.BadParameter(f"--input-shape gives {name!r} two shapes")
    return found or None
