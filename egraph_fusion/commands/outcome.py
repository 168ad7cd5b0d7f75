"""How a command ends: its result as a table or as JSON, an error on one line and its exit code."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import typer

from egraph_fusion import terminal
from egraph_fusion.errors import EgraphFusionError, UnknownRuleError, UnverifiedRuleError


@contextmanager
def errors(debug: bool) -> Generator[None]:
    """Turn an error that a user can meet into one line and exit code 1; a wrong name into 2."""
    try:
        yield
    except BrokenPipeError:
        raise  # click ends quietly: whoever read the output has seen enough
    except (EgraphFusionError, OSError, MemoryError) as error:
        if debug:
            raise
        if isinstance(error, UnknownRuleError):
            raise typer.BadParameter(terminal.one_line(error)) from None
        if isinstance(error, UnverifiedRuleError):
            typer.echo(f"error: {terminal.printable(f'{error.message}; {error.advice}')}", err=True)
            for line in error.snippet.splitlines():  # a program, to be run as it stands
                typer.echo(terminal.printable(line), err=True)
            raise typer.Exit(1) from None
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


def emit(as_json: bool, data: Any, text: Any) -> None:
    """Print `data` as JSON, or `text` for people."""
    if as_json:
        typer.echo(json.dumps(terminal.plain(data), indent=2, allow_nan=False))
    else:
        terminal.show(text)
