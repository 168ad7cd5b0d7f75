"""Commands about the rewrite rules: list, show, verify."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from egraph_fusion.commands import rule_tables
from egraph_fusion.commands.options import Debug, Json
from egraph_fusion.commands.outcome import emit, errors
from egraph_fusion.output_files import output_path, write_text


def rules_list(as_json: Json = False, debug: Debug = False) -> None:
    """List the rules: family, name, formula, level."""
    from egraph_fusion import rulesets

    with errors(debug):
        emit(as_json, rule_tables.rules_data(rulesets.ALL), rule_tables.rules_table(rulesets.ALL))


def rules_show(
    name: Annotated[str, typer.Argument(help="The name that `rules list` shows.")],
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Show one rule: both sides, guards, level, source, and a graph that costs more without it."""
    from egraph_fusion import rulesets

    with errors(debug):
        found = rulesets.find(name)
        emit(as_json, rule_tables.rule_data(found), rule_tables.rule_text(found))


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

    with errors(debug):
        if junit is not None:
            output_path(junit)
        rows: list[report.Row] = []
        rules = report.named_rules(names or ())
        for row in report.verify_all(rules, jobs, max_examples, seed, time_limit):
            rows.append(row)
            if not as_json:
                typer.echo(report.as_text(row))
        totals = report.summary(rows)
        if junit is not None:
            write_text(junit, report.as_junit(rows))
        if as_json:
            typer.echo(json.dumps({**totals, "results": [r.to_dict() for r in rows]}, indent=2))
        else:
            typer.echo(", ".join(f"{n} {word}" for word, n in totals.items() if word != "all_ok"))
        if not totals["all_ok"]:
            raise typer.Exit(1)
