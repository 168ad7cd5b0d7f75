"""The command line: which commands there are, by the names that a user types."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from io import TextIOWrapper

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
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # A name that the terminal's encoding lacks is shown escaped.
            stream.reconfigure(errors="backslashreplace")
    sys.exit(app())
