"""Commands about this installation: demo, doctor."""

from __future__ import annotations

import typer

from egraph_fusion import terminal
from egraph_fusion.commands.options import Debug, Json
from egraph_fusion.commands.outcome import emit, errors


def demo(debug: Debug = False) -> None:
    """Take a real model through every stage and compare it with onnx.reference."""
    from egraph_fusion.demo import run_demo

    with errors(debug):
        run_demo()


def doctor(as_json: Json = False, debug: Debug = False) -> None:
    """Say what works on this machine: compiler, CPU features, OpenCL, cache."""
    from egraph_fusion.convert.doctor import examine

    with errors(debug):
        found = examine()
        emit(as_json, found, terminal.doctor_table(found))
        if not found["ok"]:
            raise typer.Exit(1)
