"""The command line: which commands there are, by the names that a user types."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

import typer

from egraph_fusion.commands import (
    batch,
    config,
    converting,
    experimenting,
    machine,
    reporting,
    rules,
    running,
)
from egraph_fusion.commands.standard_output import OutputError, replace_streams

COMMANDS: Mapping[str, Callable[..., None]] = {
    "optimize": converting.optimize,
    "plan": converting.plan,
    "compile": converting.compile_model,
    "batch": batch.batch,
    "run": running.run,
    "bench": running.bench,
    "profile": running.profile,
    "report": reporting.report,
    "explore": experimenting.explore,
    "demo": machine.demo,
    "doctor": machine.doctor,
}
RULES: Mapping[str, Callable[..., None]] = {
    "list": rules.rules_list,
    "show": rules.rules_show,
    "verify": rules.rules_verify,
    "compare": experimenting.compare,
}

app = typer.Typer(
    name="egraph-fusion",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Rewrite ONNX models by equality saturation, fuse their operators, compile and run them.",
)
rules_app = typer.Typer(
    no_args_is_help=True, help="List, show, verify and compare the rewrite rules."
)
app.callback()(config.configure)
for name, command in COMMANDS.items():
    app.command(name)(command)
for name, command in RULES.items():
    rules_app.command(name)(command)
app.add_typer(rules_app, name="rules")


def main() -> None:
    """Run the command line; exit codes: 0 ok, 1 the work failed, 2 wrong usage."""
    replace_streams()
    try:
        sys.exit(app())
    except OutputError as error:  # before any command began
        if "--debug" in sys.argv:
            raise
        typer.echo(f"error: {error}", err=True)
        sys.exit(1)
